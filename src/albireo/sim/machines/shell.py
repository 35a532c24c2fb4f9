"""Shell around the member machine in the simulated pair: its process, log, store header, voters, the other member.

Effects are carried out in their order. A sync takes a while, and is told when it is done; a power cut takes a part of
what was not synced. The real shell is `node/`; the shell here has no frames, files and sockets.

Spec: design/pair.md, rules 2, 6, 7.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from albireo.codec.pair_message import Accept, Frames, Yielded
from albireo.machine.pair.events import (
    AppendFrames,
    AppendNoOp,
    AskVoter,
    CaseTold,
    CloseAdmission,
    Commit,
    CutTo,
    Effect,
    Event,
    FromPeer,
    GrantEpoch,
    LevelFolded,
    LogChanged,
    MemberStarted,
    PeerGone,
    PersistStore,
    RaiseLevel,
    Refused,
    Replicate,
    Serve,
    State,
    StopNow,
    StopServing,
    TellPeer,
    Transitioned,
)
from albireo.machine.pair.party import MemberFacts
from albireo.model.instant import TimePassed
from albireo.sim.engine.agenda import Timer
from albireo.sim.machines.clients import Clients
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.outputs import AppliedOutputs
from albireo.sim.machines.parts import NO_FOLD, NOOP, LoggedBatch, MemberHeader, level_of
from albireo.sim.machines.stage import MemberNode, PairStage
from albireo.sim.machines.voters import Voters

FRAMES_MAX: Final = 64
SNAPSHOT_EVERY: Final = 2
"""Number of records between two snapshots of the folds."""


class Shell:
    """Shell of one pair: runs its members, and carries out what their machines want."""

    def __init__(
        self, stage: PairStage, ledger: PairLedger, voters: Voters, clients: Clients, outputs: AppliedOutputs
    ) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = stage.chance
        self.ledger = ledger
        self.voters = voters
        self.clients = clients
        self.outputs = outputs
        self.moved: Callable[[MemberNode, State], None] = lambda node, new: None
        """Function that is told when a member reaches a state."""
        for node in stage.members:
            node.hears = partial(self.step, node)
        self._doers: dict[type[Effect], Callable[[MemberNode, Any], None]] = {
            PersistStore: self._persist,
            AskVoter: self._ask_voter,
            TellPeer: self._tell_peer,
            CutTo: self._cut_log,
            AppendFrames: self._append_frames,
            Replicate: self._replicate,
            GrantEpoch: self._grant,
            AppendNoOp: self._append_noop,
            Commit: self._commit,
            RaiseLevel: self._raise_level,
            Serve: self._serve,
            StopServing: self._close,
            CloseAdmission: self._close_admission,
            StopNow: self._stop,
            Transitioned: self._moved,
            CaseTold: self._case,
            Refused: self._refused,
        }

    def start(self, node: MemberNode) -> None:
        """Start a member. Recovery syncs what it found, so it takes as long as the disk hangs."""
        if node.is_up:
            return
        if self.agenda.at < node.hung_until and not self.stage.variant.recovered_is_durable:
            self.agenda.call_at(node.hung_until, partial(self.start, node))
            return
        if level_of(node.log) > node.feature_level:
            self.stage.note(node.name, f"refuses to start: the log is at feature level {level_of(node.log)}")
            return
        node.begin_life()
        node.runs += 1
        ring = partial(node.hears, TimePassed())
        node.timer = Timer(self.agenda, node, partial(node.awake, ring, node.life))
        node.believed = len(node.log) if self.stage.variant.recovered_is_durable else 0
        if not self.stage.variant.recovered_is_durable:
            node.synced = len(node.log)
        committed = max((entry.committed for entry in node.log), default=0)
        node.folded = min(committed, len(node.log))
        facts = self._facts(node)
        seed = random.Random(f"{self.stage.seed} {node.name} {node.runs}")
        node.machine = self.stage.variant.member(self.stage.config, facts, seed, node.now)
        node.appended = {}
        node.is_open = False
        self.stage.note(node.name, f"starts, run {facts.run}, end {node.end}")
        self.voters.start_sides(node)
        self.step(node, MemberStarted())

    def _facts(self, node: MemberNode) -> MemberFacts:
        return MemberFacts(
            index=node.index,
            run=node.runs * 2 + node.index + 1000,
            store=node.store,
            tried_epoch=node.header.tried_epoch,
            accepted_epoch=node.header.accepted_epoch,
            feature_level=node.feature_level,
            log_level=level_of(node.log[: node.folded]),
        )

    def stop(self, node: MemberNode, *, keeps_cache: bool) -> None:
        """Kill the process, or cut the power: then a part of what was not synced is gone."""
        if not node.is_up:
            return
        self.stage.note(node.name, "killed" if keeps_cache else "power cut")
        self._ends(node)
        if not keeps_cache:
            self.stage.network.power_cut(node.name)
            del node.log[self.chance.randint(min(node.synced, len(node.log)), len(node.log)) :]
            if node.snapshot.sequence > len(node.log) and not self.stage.variant.snapshots_uncommitted:
                node.snapshot = NO_FOLD
        elif self.stage.swarm.fast and self.chance.random() < self.stage.swarm.noticed:
            self.agenda.after_ms(10 + self.chance.random() * 30, partial(self._notice, node, node.machine.own.run))

    def down(self, node: MemberNode, *, keeps_cache: bool, for_ms: float = 0.0) -> None:
        """Take a member down now, and start it again after `for_ms`; 0: drawn."""
        self.stop(node, keeps_cache=keeps_cache)
        self.agenda.after_ms(for_ms or 20 + self.chance.random() * 1500, partial(self.start, node))

    def _ends(self, node: MemberNode) -> None:
        node.is_up = False
        node.has_untold = False

    def tell_gone(self, teller: MemberNode, run: int) -> None:
        """Let a member, and the voters, see that the port of that run is closed."""
        teller.deliver(PeerGone(run))
        self.voters.tell_gone(teller, run)

    def _notice(self, node: MemberNode, run: int) -> None:
        """Tell the other member: connections closed, a new one refused; if the cable was ever cut, nothing is known."""
        other = self.stage.other(node)
        if other.is_up and not node.is_up and not self.stage.network.was_cut(node.name, other.name, 0):
            self.tell_gone(other, run)

    def step(self, node: MemberNode, event: Event) -> None:
        stage, life, crash = self.stage, node.life, self.stage.swarm.crash_at_effect
        stage.steps += 1
        stage.timers += isinstance(event, TimePassed)
        for effect in node.machine.step(event, node.view(), node.now):
            if not node.is_up or node.life != life:
                return
            if crash and stage.crashes(crash):
                self.down(node, keeps_cache=self.chance.random() < 0.5)
                return
            self._do(node, effect)
        if node.is_up and node.life == life:
            node.timer.arm(node.machine.deadline())
            node.tell_changed()
            if self.clients.local and isinstance(event, LogChanged):
                self.clients.local.synced(node)

    def _do(self, node: MemberNode, effect: Effect) -> None:
        doer = self._doers.get(type(effect))
        if doer is not None:
            doer(node, effect)

    def _persist(self, node: MemberNode, effect: PersistStore) -> None:
        history = node.header.history if effect.history is None else effect.history
        node.header = MemberHeader(effect.tried_epoch, effect.accepted_epoch, history)
        node.has_untold = node.has_untold or effect.history is not None

    def _ask_voter(self, node: MemberNode, effect: AskVoter) -> None:
        question = effect.question
        if isinstance(question, Accept):
            self.ledger.asks(question.record)
        self.voters.ask(node, effect.voter, question)

    def _tell_peer(self, node: MemberNode, effect: TellPeer) -> None:
        other, event = self.stage.other(node), FromPeer(effect.message, effect.path)
        if isinstance(effect.message, Yielded):
            self.outputs.yielded.add(effect.message.epoch)
        self.stage.network.send(node.name, other.name, effect.path, partial(other.deliver, event))

    def _stop(self, node: MemberNode, effect: StopNow) -> None:
        """Carry out an orderly stop: what was written is synced, then the process ends; somebody starts it again."""
        node.synced = len(node.log)
        self.stage.note(node.name, "stopped")
        self._ends(node)
        self.agenda.after_ms(20 + self.chance.random() * 1500, partial(self.start, node))

    def _moved(self, node: MemberNode, effect: Transitioned) -> None:
        self.stage.note(node.name, f"{effect.old.value} -> {effect.new.value}: {effect.cause}")
        if effect.new is State.CATCHING_UP:
            node.is_damaged = False  # The log ends below the damage, and what followed it comes again.
        self.moved(node, effect.new)

    def _case(self, node: MemberNode, effect: CaseTold) -> None:
        self.stage.tell(node.name, f"case {effect.case} {'on' if effect.is_on else 'off'}: {effect.detail}")
        if effect.case == "history_at_risk" and effect.is_on and not self.stage.is_forced:
            self.stage.fail(f"{node.name}: history at risk: {effect.detail}")

    def _refused(self, node: MemberNode, effect: Refused) -> None:
        self.stage.refused[str(effect.why)] += 1
        self.stage.tell(node.name, f"refuses: {effect.why}")

    def _cut_log(self, node: MemberNode, effect: CutTo) -> None:
        self.stage.note(node.name, f"cuts {len(node.log)} to {effect.sequence}")
        node.cut_to(effect.sequence)

    def _append_frames(self, node: MemberNode, effect: AppendFrames) -> None:
        assert isinstance(effect.payload, tuple)
        node.log.extend(effect.payload)
        node.sync()

    def _append_noop(self, node: MemberNode, effect: AppendNoOp) -> None:
        node.append(LoggedBatch(effect.epoch, NOOP, effect.epoch, node.folded))

    def _raise_level(self, node: MemberNode, effect: RaiseLevel) -> None:
        """Append the record that raises the level, unless the member does not serve or its log has it already."""
        holder = node.machine.holder
        if node.is_open and holder is not None and level_of(node.log) < effect.level:
            node.append(LoggedBatch(holder.epoch, NOOP, effect.level, node.folded, level=effect.level))

    def _replicate(self, node: MemberNode, effect: Replicate) -> None:
        """Send own frames after a position, in pieces."""
        other, own = self.stage.other(node), node.machine.own
        for start in range(effect.after, len(node.log), FRAMES_MAX):
            piece = tuple(node.log[start : start + FRAMES_MAX])
            message = Frames(
                cluster="c", member=node.index, run=own.run, store=own.store, to_run=effect.to_run, epoch=effect.epoch,
                session=effect.session, previous=start, last=node.position(start + len(piece)),
                committed=node.position(node.folded), payload=piece,
            )  # fmt: skip
            self.stage.network.send(
                node.name, other.name, own.path, partial(other.deliver, FromPeer(message, own.path))
            )

    def _grant(self, node: MemberNode, effect: GrantEpoch) -> None:
        node.header = msgspec.structs.replace(node.header, history=node.header.history.granted(effect.entry))
        if not self.stage.variant.no_dedup_rebuild:
            fold = node.snapshot.over(node.log[node.snapshot.sequence :])
            node.appended = dict(fold.last)
            if fold != NO_FOLD.over(node.log):
                self.stage.fail(f"{node.name}: folds at {node.end} are not those of its log")
        self.stage.note(node.name, f"grants {effect.entry}")
        self.ledger.granted(node)
        if self.clients.local:
            self.clients.local.granted(node, effect.entry.epoch)
        if node.machine.holder is not None and node.machine.holder.grant.is_forced:
            self.ledger.forced(node)
            self.clients.forced(node)

    def _commit(self, node: MemberNode, effect: Commit) -> None:
        stage, position = self.stage, effect.position
        self.ledger.commits(node, position)
        if node.machine.holder is not None:
            for entry in node.log[node.folded : position.sequence]:
                self.clients.committed(node, entry)
        level = max(node.machine.own.log_level, level_of(node.log[node.folded : position.sequence]))
        if level != node.machine.own.log_level:
            stage.note(node.name, f"log at feature level {level}")
            if level > node.feature_level:
                stage.fail(f"{node.name} knows feature level {node.feature_level} and folds {level}")
            told = partial(node.hears, LevelFolded(level))
            self.agenda.call_at(self.agenda.at, partial(node.awake, told, node.life))
        node.folded = max(node.folded, position.sequence)
        if node.folded - node.snapshot.sequence >= SNAPSHOT_EVERY:
            self._take_snapshot(node)

    def _take_snapshot(self, node: MemberNode) -> None:
        """Take a snapshot of what is committed, never of more."""
        end = len(node.log) if self.stage.variant.snapshots_uncommitted else node.folded
        node.snapshot = node.snapshot.over(node.log[node.snapshot.sequence : end])

    def _serve(self, node: MemberNode, effect: Serve) -> None:
        node.is_open = True
        self.outputs.serve(node, effect.epoch)
        self.ledger.check_holder(node, effect.epoch)

    def _close(self, node: MemberNode, effect: StopServing) -> None:
        node.is_open = False

    def _close_admission(self, node: MemberNode, effect: CloseAdmission) -> None:
        node.is_open = False
        self.outputs.stand_by(node)
