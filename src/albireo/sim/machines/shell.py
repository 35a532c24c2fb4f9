"""The shell around the member machine in the simulated pair: log, store header, voters, the other member.

Effects are carried out in their order. A sync takes a while, and is told when it is done; a power cut takes what was
not synced. The real shell is `node/`; this one has no frames, files and sockets.

Spec: design/pair.md, rules 2, 6, 7.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
    FromPeer,
    GrantEpoch,
    LevelFolded,
    LogChanged,
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
from albireo.model.instant import MS
from albireo.sim.machines.parts import FRAMES_MAX, NO_FOLD, NOOP, Entry, Header, MemberNode, level_of

if TYPE_CHECKING:
    from albireo.sim.machines.world import World

SNAPSHOT_EVERY: Final = 2
"""Records between two snapshots of the folds."""


class Shell:
    """Carries out what the machines of one world want."""

    def __init__(self, world: "World") -> None:
        self.world = world
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

    def do(self, node: MemberNode, effect: Effect) -> None:
        doer = self._doers.get(type(effect))
        if doer is not None:
            doer(node, effect)

    # --- Others --------------------------------------------------------------------------------------------------

    def _persist(self, node: MemberNode, effect: PersistStore) -> None:
        history = node.header.history if effect.history is None else effect.history
        node.header = Header(effect.tried_epoch, effect.accepted_epoch, history)
        node.has_untold = node.has_untold or effect.history is not None

    def _ask_voter(self, node: MemberNode, effect: AskVoter) -> None:
        question = effect.question
        if isinstance(question, Accept):
            self.world.ledger.asks(question.record)
        self.world.ask_voter(node, effect.voter, question)

    def _tell_peer(self, node: MemberNode, effect: TellPeer) -> None:
        world, other = self.world, self.world.members[1 - node.index]
        event = FromPeer(effect.message, effect.path)
        if isinstance(effect.message, Yielded):
            world.outputs.yielded.add(effect.message.epoch)
        world.send(node.name, other.name, effect.path, partial(world.deliver, other, event))

    def _stop(self, node: MemberNode, effect: StopNow) -> None:
        """An orderly stop: what was written is synced, then the process ends."""
        del effect
        node.synced = len(node.log)
        self.world.stopped(node)

    def _moved(self, node: MemberNode, effect: Transitioned) -> None:
        self.world.note(node.name, f"{effect.old.value} -> {effect.new.value}: {effect.cause}")
        if effect.new is State.CATCHING_UP:
            node.is_damaged = False  # The log ends below the damage, and what followed it comes again.
        self.world.faults.moved(node, effect.new)

    def _case(self, node: MemberNode, effect: CaseTold) -> None:
        self.world.tell(node.name, f"case {effect.case} {'on' if effect.is_on else 'off'}: {effect.detail}")
        if effect.case == "history_at_risk" and effect.is_on and not self.world.is_forced:
            self.world.fail(f"{node.name}: history at risk: {effect.detail}")

    def _refused(self, node: MemberNode, effect: Refused) -> None:
        self.world.refused[str(effect.why)] += 1
        self.world.tell(node.name, f"refuses: {effect.why}")

    # --- Log -----------------------------------------------------------------------------------------------------

    def append(self, node: MemberNode, entry: Entry) -> None:
        node.log.append(entry)
        self._sync(node)
        node.has_untold = True

    def tell_changed(self, node: MemberNode) -> None:
        """The machine hears of an append or a cut before anything else: the shell does both in one turn."""
        has_untold, node.has_untold = node.has_untold, False
        if has_untold and node.is_up:
            self.world.step(node, LogChanged())

    def _cut_log(self, node: MemberNode, effect: CutTo) -> None:
        self.world.note(node.name, f"cuts {len(node.log)} to {effect.sequence}")
        del node.log[effect.sequence :]
        node.synced = min(node.synced, effect.sequence)
        node.believed = min(node.believed, effect.sequence)
        node.folded = min(node.folded, effect.sequence)
        node.cuts += 1
        if node.snapshot.sequence > effect.sequence and not self.world.variant.snapshots_uncommitted:
            node.snapshot = NO_FOLD
        self._sync(node)

    def _append_frames(self, node: MemberNode, effect: AppendFrames) -> None:
        assert isinstance(effect.payload, tuple)
        node.log.extend(effect.payload)
        self._sync(node)

    def _append_noop(self, node: MemberNode, effect: AppendNoOp) -> None:
        self.append(node, Entry(effect.epoch, NOOP, effect.epoch, node.folded))

    def _raise_level(self, node: MemberNode, effect: RaiseLevel) -> None:
        """Unless it does not serve, or the record stands in the log already."""
        leading = node.machine.holder
        if node.is_open and leading is not None and level_of(node.log) < effect.level:
            committed = node.folded
            self.append(node, Entry(leading.epoch, NOOP, effect.level, committed, level=effect.level))

    def _sync(self, node: MemberNode) -> None:
        """What is written now is durable after a while, told then (or, with a shortcut, at once)."""
        world, end, life, cuts = self.world, node.end, node.life, node.cuts

        def done() -> None:
            if node.is_up and node.life == life and node.cuts == cuts:
                if end.sequence > node.synced:
                    node.synced = end.sequence
                    world.deliver(node, LogChanged())
                if world.clients.local:
                    world.awake(node, life, partial(world.clients.local.synced, node))

        wait_ms = 0.2 + world.chance.random() * 2
        world.call_at(max(world.at + int(wait_ms * MS), node.hung_until), done)
        if world.variant.told_before_sync:
            node.believed = len(node.log)
            world.call_at(world.at, lambda: world.deliver(node, LogChanged()) if node.life == life else None)

    def _replicate(self, node: MemberNode, effect: Replicate) -> None:
        """Own frames after a position, in pieces."""
        world, other, own = self.world, self.world.members[1 - node.index], node.machine.own
        for start in range(effect.after, len(node.log), FRAMES_MAX):
            piece = tuple(node.log[start : start + FRAMES_MAX])
            message = Frames(
                cluster="c", member=node.index, run=own.run, store=own.store, to_run=effect.to_run, epoch=effect.epoch,
                session=effect.session, previous=start, last=node.position(start + len(piece)),
                committed=node.position(node.folded), payload=piece,
            )  # fmt: skip
            world.send(node.name, other.name, own.path, partial(world.deliver, other, FromPeer(message, own.path)))

    def _grant(self, node: MemberNode, effect: GrantEpoch) -> None:
        node.header = msgspec.structs.replace(node.header, history=node.header.history.granted(effect.entry))
        if not self.world.variant.no_dedup_rebuild:
            fold = node.snapshot.over(node.log[node.snapshot.sequence :])
            node.appended = dict(fold.last)
            if fold != NO_FOLD.over(node.log):
                self.world.fail(f"{node.name}: folds at {node.end} are not those of its log")
        self.world.note(node.name, f"grants {effect.entry}")
        self.world.ledger.granted(node)
        if self.world.clients.local:
            self.world.clients.local.granted(node, effect.entry.epoch)
        if node.machine.holder is not None and node.machine.holder.grant.is_forced:
            self.world.ledger.forced(node)
            self.world.clients.forced(node)

    def _commit(self, node: MemberNode, effect: Commit) -> None:
        world, position = self.world, effect.position
        world.ledger.commits(node, position)
        if node.machine.holder is not None:
            for entry in node.log[node.folded : position.sequence]:
                world.clients.committed(node, entry)
        level = max(node.machine.own.log_level, level_of(node.log[node.folded : position.sequence]))
        if level != node.machine.own.log_level:
            world.note(node.name, f"log at feature level {level}")
            if level > node.feature_level:
                world.fail(f"{node.name} knows feature level {node.feature_level} and folds {level}")
            told = partial(world.step, node, LevelFolded(level))
            world.call_at(world.at, partial(world.awake, node, node.life, told))
        node.folded = max(node.folded, position.sequence)
        if node.folded - node.snapshot.sequence >= SNAPSHOT_EVERY:
            self._take_snapshot(node)

    def _take_snapshot(self, node: MemberNode) -> None:
        """Of what is committed, never of more."""
        end = len(node.log) if self.world.variant.snapshots_uncommitted else node.folded
        node.snapshot = node.snapshot.over(node.log[node.snapshot.sequence : end])

    def _serve(self, node: MemberNode, effect: Serve) -> None:
        node.is_open = True
        self.world.outputs.serve(node, effect.epoch)
        self.world.ledger.check_holder(node, effect.epoch)

    def _close(self, node: MemberNode, effect: StopServing) -> None:
        del effect
        node.is_open = False

    def _close_admission(self, node: MemberNode, effect: CloseAdmission) -> None:
        del effect
        node.is_open = False
        self.world.outputs.stand_by(node)
