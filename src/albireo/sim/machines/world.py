"""A pair in one process, from a seed: two members, voters, producers, outputs, and a world that misbehaves.

The machines are the real ones; the shell around them is shell.py. Time is simulated, each machine has a clock of
its own rate. A seed draws its own mix of faults (swarm.py). Safety is checked at every event; liveness once the
faults stop: within a bounded time both members are in the set and every batch is acknowledged.

Checked
    by the ledger: what is committed, acknowledged and on which disks; by the outputs: what PLCs applied;
    here: never two members with a valid permit, and that it gets well again.

Not here: frames, files and sockets (the log and the runtime have their own worlds).
Spec: design/pair.md, How it is proven.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

from albireo.codec.pair_message import Accept, Question, Record
from albireo.machine.pair.events import Event, FromVoter, PeerGone, Started, State, TimePassed
from albireo.machine.pair.party import MemberFacts
from albireo.machine.vote.voter import Answer, Asked, HolderGone, Persist, VoterStore
from albireo.model.instant import MS, SECOND
from albireo.sim.machines.clients import Clients
from albireo.sim.machines.ledger import Ledger
from albireo.sim.machines.outputs import Outputs
from albireo.sim.machines.parts import NO_FOLD, PLAIN, MemberNode, Node, Variant, Violation, VoterNode, level_of
from albireo.sim.machines.plc import Plc
from albireo.sim.machines.scenes import Scenes
from albireo.sim.machines.shell import Shell
from albireo.sim.machines.swarm import Swarm, config_of, swarm_of

RECOVERY_NS = 20 * SECOND
"""Bound on getting well once the faults stopped."""


class World:
    """Everything, and the queue of what happens next."""

    def __init__(
        self, seed: int, swarm: Swarm | None = None, variant: Variant = PLAIN, *, is_verbose: bool = False
    ) -> None:
        self.seed = seed
        self.swarm = swarm = swarm or swarm_of(seed)
        self.variant = variant
        self.is_verbose = is_verbose
        self.chance = random.Random(f"world {seed}")
        self.config = config_of(swarm)
        self.at = SECOND
        self.steps = self.timers = self.copies = 0
        self.trace: list[str] = []
        self.refused: Counter[str] = Counter()
        self.has_faults = True
        self.has_forged = False
        """A network device said that a living holder's port is closed."""
        self.is_forced = False
        """An operator used force, so the world expects the case that says so."""
        self.cuts: dict[tuple[str, str, int], int] = {}
        self.power_cuts: Counter[str] = Counter()
        self._quiet_until = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._begin()

    def _begin(self) -> None:
        first = Record(
            cluster="c", voters=self.config.voters, generation=1, epoch=2, version=1, holder=0, run=0,
            members=(0,), lease_ns=self.config.lease_ns,
        )  # fmt: skip
        self.first_store = VoterStore(cluster="c", generation=1, record=first, promised=2)
        self.voters = {
            name: VoterNode(name, self._rate(), self._offset(), self.first_store)
            for name in self.config.voters
            if name.startswith("v")
        }
        self.members = [MemberNode(index, self._rate(), self._offset()) for index in (0, 1)]
        self.plcs = {name: Plc(self, name) for name in self.config.voters if name.startswith("p")}
        self.ledger = Ledger(self)
        self.shell = Shell(self)
        self.faults = Scenes(self)
        for voter in self.voters.values():
            self.start_voter(voter)
        for member in self.members:
            self.after_ms(self.chance.random() * 50, partial(self.start_member, member))
        self.clients = Clients(self)
        self.outputs = Outputs(self)
        self._schedule_fault()

    def _rate(self) -> float:
        return 1.0 + self.chance.uniform(-self.swarm.drift, self.swarm.drift)

    def _offset(self) -> int:
        return self.chance.randrange(1, 1000) * SECOND

    @property
    def acknowledged(self) -> dict[tuple[int, int], int]:
        return self.ledger.acknowledged

    @property
    def events(self) -> int:
        """Steps that something other than a timer or a copy of a message caused."""
        return self.steps - self.timers - self.copies

    # --- Time ----------------------------------------------------------------------------------------------------

    def call_at(self, at: int, what: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (at if at > self.at else self.at, self._serial, what))

    def after_ms(self, wait_ms: float, what: Callable[[], None]) -> None:
        self.call_at(self.at + int(wait_ms * MS), what)

    def run_until(self, at: int, done: Callable[[], bool] = lambda: False, every: int = 100) -> bool:
        """Play until `at`; True as soon as `done` says so (asked after every so many events)."""
        count = 0
        first, second = self.members
        while self._queue and self._queue[0][0] <= at:
            self.at, _, what = heapq.heappop(self._queue)
            what()
            if first.is_leading and second.is_leading:
                self._check_permits()
            count += 1
            if count % every == 0 and done():
                return True
        self.at = at
        return done()

    def run(self) -> "World":
        """Safety under faults, then liveness without them."""
        self.run_until(self.at + self.swarm.faults_for_ms * MS)
        self.has_faults = False
        self.run_until(max(self.at, self._quiet_until))
        self.heal()
        self._get_well()
        offered = [producer.offered for producer in self.clients.producers]
        answered_ns = 5 * SECOND + self.config.drain_ns  # A stop begun under faults may wait for its outputs so long.
        if not self.run_until(self.at + answered_ns, lambda: self.clients.has_acked(offered)):
            self.fail(f"batches wait: {offered}, acknowledged {[p.acked for p in self.clients.producers]}")
        self.run_until(self.at + SECOND)
        if not self.is_well():  # A stop that was ordered under faults ends behind them.
            self._get_well()
            self.run_until(self.at + SECOND)
        self.check_end()
        return self

    def _get_well(self) -> None:
        if not self.run_until(self.at + RECOVERY_NS, self.is_well):
            self.fail(f"not well 20 s after the last fault: {[m.machine.state.value for m in self.members]}")

    def is_well(self) -> bool:
        states = {member.machine.state for member in self.members if member.is_up}
        return states == {State.ACTIVE, State.READY}

    def check_end(self) -> None:
        self.ledger.check_end()
        if self.is_well():
            self.outputs.check_end()

    def fail(self, what: str) -> None:
        raise Violation(f"{what} (seed {self.seed}, at {self.at / SECOND - 1:.3f} s)")

    def note(self, node: str, what: str) -> None:
        self.trace.append(f"{self.at / SECOND - 1:8.4f} {node} {what}")

    def tell(self, node: str, what: str) -> None:
        """What only a reader of one run wants to see."""
        if self.is_verbose:
            self.note(node, what)

    # --- Network -------------------------------------------------------------------------------------------------

    def send(self, source: str, target: str, path: int, what: Callable[[], None]) -> None:
        """Deliver late, twice or never."""
        chance, swarm, is_faulty = self.chance, self.swarm, self.has_faults
        count = 2 if is_faulty and swarm.duplicate and chance.random() < swarm.duplicate else 1
        for _ in range(count):
            if is_faulty and swarm.loss and chance.random() < swarm.loss:
                continue
            delay_ms = 0.1 + chance.random() * swarm.delay_ms
            if is_faulty and swarm.long_delay and chance.random() < swarm.long_delay:
                delay_ms = chance.random() * 1000
            if self.cuts.get((source, target, path), 0) <= self.at:
                self.after_ms(delay_ms, partial(self._arrive, source, self.power_cuts[source], what))
        self.copies += count - 1

    def _arrive(self, source: str, power_cuts: int, what: Callable[[], None]) -> None:
        """A power cut takes along what was still in the sender's buffers; a killed process leaves it to the kernel."""
        if self.power_cuts[source] == power_cuts:
            what()

    def cut(self, source: str, target: str, for_ms: float, path: int | None = None) -> None:
        for one in range(self.config.paths) if path is None else (path,):
            self.cuts[(source, target, one)] = self.at + int(for_ms * MS)

    def awake(self, node: Node, life: int, what: Callable[[], None]) -> None:
        """Do it now, or when the node is let run again; never in another life."""
        if not node.is_up or node.life != life:
            return
        if self.at < node.paused_until:
            self.call_at(node.paused_until, partial(self.awake, node, life, what))
            return
        what()

    # --- Voters --------------------------------------------------------------------------------------------------

    def start_voter(self, node: VoterNode) -> None:
        node.is_up = True
        node.life += 1
        node.up_since = self.at
        node.machine = self.variant.voter(node.name, "c", node.store, node.local(self.at), self.config.drift)

    def ask_voter(self, node: MemberNode, name: str, question: Question) -> None:
        """To a witness over the network, to the registers of a PLC through the machine in this process."""
        if name in self.plcs:
            self.plcs[name].asked(node, question)
        else:
            voter = self.voters[name]
            hears = partial(self._voter_hears, voter, Asked(question), node)
            self.send(node.name, name, 0, lambda: self.awake(voter, voter.life, hears))

    def _voter_hears(self, node: VoterNode, event: Asked | HolderGone, asker: MemberNode | None) -> None:
        self.steps += 1
        effects = node.machine.step(event, node.local(self.at))
        if self.variant.answers_before_persist:
            effects.sort(key=lambda effect: isinstance(effect, Persist))
        for effect in effects:
            if self._crashes(self.swarm.crash_voter):
                node.is_up = False
                self.note(node.name, "killed")
                self.after_ms(self.chance.random() * 300, partial(self.start_voter, node))
                return
            match effect:
                case Persist(store):
                    node.store = store
                    if isinstance(event, Asked) and isinstance(event.question, Accept):
                        self.ledger.accepts(node.name, event.question.record)
                case Answer(message) if asker is not None:
                    self.send(node.name, asker.name, 0, partial(self.deliver, asker, FromVoter(message)))

    def tell_voters_gone(self, teller: MemberNode, run: int) -> None:
        """The connections of that run were closed and a new one is refused; voters see it for themselves."""
        for voter in self.voters.values():
            self.awake(voter, voter.life, partial(self._voter_hears, voter, HolderGone(run), None))
        for plc in self.plcs.values():
            self.awake(teller, teller.life, partial(plc.holder_gone, teller, run))

    # --- Members -------------------------------------------------------------------------------------------------

    def start_member(self, node: MemberNode) -> None:
        """Recovery syncs what it found, so it takes as long as the disk hangs."""
        if node.is_up:
            return
        if self.at < node.hung_until and not self.variant.recovered_is_durable:
            self.call_at(node.hung_until, partial(self.start_member, node))
            return
        if level_of(node.log) > node.feature_level:
            self.note(node.name, f"refuses to start: the log is at feature level {level_of(node.log)}")
            return
        node.is_up = True
        node.life += 1
        node.runs += 1
        node.up_since = self.at
        node.timer_at = 0
        node.believed = len(node.log) if self.variant.recovered_is_durable else 0
        if not self.variant.recovered_is_durable:
            node.synced = len(node.log)
        committed = max((entry.committed for entry in node.log), default=0)
        node.folded = min(committed, len(node.log))
        facts = self._facts(node)
        seed = random.Random(f"{self.seed} {node.name} {node.runs}")
        node.machine = self.variant.member(self.config, facts, seed, node.local(self.at))
        node.appended = {}
        node.is_open = False
        self.note(node.name, f"starts, run {facts.run}, end {node.end}")
        for plc in self.plcs.values():
            plc.start_side(node)
        self.step(node, Started())

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

    def stop_member(self, node: MemberNode, *, keeps_cache: bool) -> None:
        """Kill the process, or cut the power: then a part of what was not synced is gone."""
        if not node.is_up:
            return
        self.note(node.name, "killed" if keeps_cache else "power cut")
        self._ends(node)
        if not keeps_cache:
            self.power_cuts[node.name] += 1
            del node.log[self.chance.randint(min(node.synced, len(node.log)), len(node.log)) :]
            if node.snapshot.sequence > len(node.log) and not self.variant.snapshots_uncommitted:
                node.snapshot = NO_FOLD
        elif self.swarm.fast and self.chance.random() < self.swarm.noticed:
            self.after_ms(10 + self.chance.random() * 30, partial(self._tell_gone, node, node.machine.own.run))

    def stopped(self, node: MemberNode) -> None:
        """The process ended in order; somebody starts it again."""
        self.note(node.name, "stopped")
        self._ends(node)
        self.after_ms(20 + self.chance.random() * 1500, partial(self.start_member, node))

    def _ends(self, node: MemberNode) -> None:
        node.is_up = False
        node.has_untold = False

    def _tell_gone(self, node: MemberNode, run: int) -> None:
        """Connections were closed and a new one is refused."""
        other = self.members[1 - node.index]
        if other.is_up and not node.is_up and (node.name, other.name, 0) not in self.cuts:
            self.deliver(other, PeerGone(run))
            self.tell_voters_gone(other, run)

    def deliver(self, node: MemberNode, event: Event) -> None:
        self.awake(node, node.life, partial(self.step, node, event))

    def step(self, node: MemberNode, event: Event) -> None:
        self.steps += 1
        self.timers += isinstance(event, TimePassed)
        life = node.life
        effects = node.machine.step(event, node.view(), node.local(self.at))
        for effect in effects:
            if not node.is_up or node.life != life:
                return
            if self._crashes(self.swarm.crash_at_effect):
                self.faults.down(node, keeps_cache=self.chance.random() < 0.5)
                return
            self.shell.do(node, effect)
        if node.is_up and node.life == life:
            self._arm(node)
            self.shell.tell_changed(node)

    def _crashes(self, crash: float) -> bool:
        return crash > 0.0 and self.has_faults and not self.is_shielded and self.chance.random() < crash

    def _arm(self, node: MemberNode) -> None:
        at = max(self.at + 1, node.world(node.machine.deadline()))
        if node.timer_at > self.at and node.timer_at <= at:
            return
        node.timer_at = at
        self.call_at(at, partial(self._ring, node, node.life, at))

    def _ring(self, node: MemberNode, life: int, at: int) -> None:
        if node.timer_at == at and node.life == life:
            node.timer_at = 0
            self.deliver(node, TimePassed())

    def _check_permits(self) -> None:
        acting = [m for m in self.members if m.machine.permit(m.local(self.at)) is not None]
        if len(acting) > 1:
            self.fail(f"both act, epochs {[m.machine.holder.epoch for m in acting if m.machine.holder]}")

    # --- Faults --------------------------------------------------------------------------------------------------

    @property
    def is_shielded(self) -> bool:
        """A fault is under way that is covered as the only one."""
        return self.at < self._quiet_until

    def shield(self, for_ms: float) -> None:
        self._quiet_until = self.at + int(for_ms * MS)

    def _schedule_fault(self) -> None:
        if self.swarm.faults:
            wait_ms = self.chance.expovariate(1.0 / self.swarm.fault_every_ms)
            self.after_ms(wait_ms + 20, self._fault)

    def _fault(self) -> None:
        if not self.has_faults:
            return
        if not self.is_shielded:
            getattr(self.faults, self.chance.choice(self.swarm.faults))()
        self._schedule_fault()

    def heal(self) -> None:
        """Everything works from now on."""
        self.note("world", "healed")
        self.has_faults = False
        self.cuts.clear()
        for node in self.members:
            node.hung_until = self.at
            node.paused_until = self.at
            if not node.is_up or node.machine.state is State.FENCED:
                self.stop_member(node, keeps_cache=True)
                self.start_member(node)
        for voter in self.voters.values():
            if not voter.is_up:
                self.start_voter(voter)
