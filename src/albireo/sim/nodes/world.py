"""A pair of whole nodes in one process, from a seed: the real shells, logs, folds and voters, in a bad world.

    two members    node/core and node/member: log, folds, snapshots, retention, replication, restoring, orders
    witnesses      node/vote/witness.py with its store
    clients        producers and followers, as the client library has them

What is simulated: time, disks (`sim/engine/disk.py`), the network (messages cross as bytes), the threads of the log,
and the processes' loops. A seed draws its own mix of faults (swarm.py). Safety is checked at every commit and
answer (ledger.py); liveness once the faults have stopped: within a bounded time both members are in the set,
every batch is acknowledged, both logs are equal byte for byte as far as both have them, and so are the folds.

`sim/machines/world.py` plays the machines alone, a hundred times as fast and with more kinds of voters and outputs.
Spec: design/pair.md, How it is proven; docs/simulation.md.
"""

import contextlib
import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from albireo.codec.message import AnyMessage, Appended
from albireo.codec.pair_message import Accept
from albireo.model.instant import MS, SECOND
from albireo.node.core.actor import CoreArguments
from albireo.node.member.arguments import PairArguments
from albireo.node.vote.witness import WitnessArguments, WitnessMember, WitnessPair
from albireo.sim.machines.parts import Violation
from albireo.sim.nodes.actor import StagedActor, Surroundings
from albireo.sim.nodes.clients import ProducerClient, RoamingReader
from albireo.sim.nodes.faults import Faults
from albireo.sim.nodes.ledger import Ledger
from albireo.sim.nodes.machines import Machine, MemberMachine, WitnessMachine
from albireo.sim.nodes.network import Host, Network
from albireo.sim.nodes.swarm import (
    CLUSTER,
    VOTER,
    Swarm,
    bounded,
    log_config_of,
    pair_config_of,
    retention_of,
    swarm_of,
)
from albireo.sim.nodes.time import Agenda

NAMES: Final = ("primary", "backup")
RECOVERY_NS: Final = 40 * SECOND
"""Bound on getting well once the faults stopped: a hold-off, a snapshot, a repair, and all that after a cold wait."""
KEEP_EVERY_MS: Final = 400.0
"""A history makes durable what it has this often."""


class World(Surroundings):
    """Everything, and what happens next in it."""

    def __init__(self, seed: int, swarm: Swarm | None = None) -> None:
        self.seed = seed
        self.swarm = swarm = swarm or swarm_of(seed)
        chance = random.Random(f"node world {seed}")
        agenda = Agenda()
        super().__init__(agenda, Network(agenda, chance, swarm.delay_ms), chance)
        self.network.messages_max = swarm.messages_max
        self.network.bytes_per_s = swarm.bytes_per_s
        self.network.gives_views = swarm.gives_views
        self.config = pair_config_of(swarm)
        self.trace: list[str] = []
        self.has_faults = False
        self.quiet_until = 0
        """A fault is under way that is covered as the only one."""
        self.ledger = Ledger(self.config.majority, self.fail)
        self._places()
        self.faults = Faults(self)

    def _places(self) -> None:
        hosts = [self._host(name) for name in NAMES]
        peers = [
            tuple(self._endpoint(host, f"peer{path}", path) for path in range(self.config.paths)) for host in hosts
        ]
        clients = [self._endpoint(host, "clients", -1) for host in hosts]
        voters = {f"{VOTER}w{number}": self._host(f"w{number}") for number in range(self.swarm.voters)}
        asked = {voter: self._endpoint(host, "witness", -1) for voter, host in voters.items()}
        self.members = [
            MemberMachine(self, host, index, self._core_arguments(index, peers, clients, asked))
            for index, host in enumerate(hosts)
        ]
        self.voters = [
            WitnessMachine(self, host, self._witness_arguments(voter, asked[voter], peers))
            for voter, host in voters.items()
        ]
        outside = self._host("outside")
        self.producers = [ProducerClient(self, outside, number, clients, self.ledger) for number in (1, 2)]
        self.reader = RoamingReader(self, outside, clients, self.ledger, self.fail)

    def _host(self, name: str) -> Host:
        rate = 1.0 + self.chance.uniform(-self.swarm.drift, self.swarm.drift)
        return Host(name, rate, self.chance.randrange(1, 1000) * SECOND)

    def _endpoint(self, host: Host, name: str, path: int) -> str:
        endpoint = f"tcp://{host.name}:{name}"
        self.network.hosts[endpoint] = (host, path)
        return endpoint

    def _core_arguments(
        self, index: int, peers: list[tuple[str, ...]], clients: list[str], asked: dict[str, str]
    ) -> CoreArguments:
        pair = PairArguments(
            member=index,
            place=f"root[{NAMES[index]}]",
            config=self.config,
            witnesses=asked,
            client=clients[index],
            peer=peers[index],
            other=peers[1 - index],
            other_place=f"root[{NAMES[1 - index]}]",
            other_client=clients[1 - index],
            local_streams=("samples",) if self.swarm.is_local else (),
            private_streams=("samples",) if self.swarm.is_private else (),
        )
        swarm = self.swarm
        return CoreArguments(
            node="root", cluster="c", log=log_config_of(swarm), retention=retention_of(swarm), pair=pair
        )

    def _witness_arguments(self, voter: str, endpoint: str, peers: list[tuple[str, ...]]) -> WitnessArguments:
        members = tuple(
            WitnessMember(place=f"root[{name}]", peer=peer) for name, peer in zip(NAMES, peers, strict=True)
        )
        pair = WitnessPair(
            node="root", cluster=CLUSTER, voters=self.config.voters, members=members, drift=self.config.drift
        )
        return WitnessArguments(voter=voter, endpoint=endpoint, pairs=(pair,))

    # --- What machines ask of the world ------------------------------------------------------------------------------

    def sync_ns(self) -> int:
        """How long a sync takes."""
        most = self.swarm.sync_ms * (10 if self.chance.random() < 0.02 else 1)
        return int((0.05 + self.chance.random() * most) * MS)

    def sent(self, actor: StagedActor, message: AnyMessage) -> None:
        match message:
            case Accept(record=record):
                self.ledger.asks(record)
            case Appended():
                machine = next(one for one in self.members if one.host is actor.host)
                member = machine.member
                if member is None or member.holder is None:
                    self.fail(f"{actor.host.name} acknowledges and does not lead")
                else:
                    self.ledger.answers(machine.index, member.own.run, member.holder.epoch, message)

    def has_sick_disk(self, machine: Machine) -> bool:
        """Its disk was made to refuse something."""
        return machine.host.name in self.faults.sick

    def check_permits(self) -> None:
        if all(machine.permits() for machine in self.members):
            self.fail("both may write")

    def fail(self, what: str) -> None:
        raise Violation(f"{what} (seed {self.seed}, at {self.agenda.at / SECOND - 1:.3f} s)")

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{self.agenda.at / SECOND - 1:8.4f} {who:8} {what}")

    def trace_of(self, event: str) -> list[str]:
        """Lines that tell of it."""
        return [line for line in self.trace if event in line]

    def told(self, line: str, at: str) -> None:
        self.note(at, line)

    # --- Play --------------------------------------------------------------------------------------------------------

    def run(self) -> "World":
        """A new pair, faults, quiet."""
        with self.living():
            self.begin()
            self.has_faults = True
            self.faults.begin()
            self.agenda.run_until(self.agenda.at + self.swarm.faults_for_ms * MS)
            self.has_faults = False
            self.agenda.run_until(max(self.agenda.at, self.quiet_until))
            self.settle()
        return self

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """The world goes on inside; afterwards nobody goes on with what the processes were about to do."""
        try:
            with bounded(self.swarm.bounds):
                yield
        finally:
            for machine in (*self.members, *self.voters):
                if machine.actor is not None:
                    machine.actor.loop.end()

    def begin(self) -> None:
        """From nothing to a pair in which both are in the set."""
        for machine in (*self.voters, *self.members):
            machine.start_soon(self.chance.random() * 20)
        self._keep()
        self._order_first()
        for producer in self.producers:
            self._offer(producer)
        if not self.agenda.run_until(self.agenda.at + RECOVERY_NS, self.is_well):
            self.fail(f"no pair: {[machine.state for machine in self.members]}")

    def _order_first(self) -> None:
        """`albireo pair init`, until it is done."""

        def again() -> None:
            if not self.ledger.end.sequence:
                self.members[0].operator.order("pair_init", lambda answer: self.note("primary", f"init: {answer}"))
                self.agenda.after_ms(3_500, again)

        self.agenda.after_ms(200, again)

    def _keep(self) -> None:
        for machine in self.members:
            if machine.history.is_alive and self.chance.random() < 0.8:
                machine.history.keep()
        self.agenda.after_ms(KEEP_EVERY_MS, self._keep)

    def _offer(self, producer: ProducerClient) -> None:
        producer.offer()
        wait_ms = self.swarm.batch_every_ms * (0.5 + self.chance.random())
        self.agenda.after_ms(wait_ms, partial(self._offer, producer))

    def settle(self) -> None:
        """The faults stop: everything gets well, and equal."""
        self.faults.heal()
        if not self.agenda.run_until(self.agenda.at + RECOVERY_NS, lambda: self.faults.is_over and self.is_well()):
            self.fail(f"not well {RECOVERY_NS // SECOND} s after the last fault: {[m.state for m in self.members]}")
        for producer in self.producers:
            producer.is_quiet = True
        if not self.agenda.run_until(self.agenda.at + 10 * SECOND, self._is_drained):
            self.fail(f"batches wait: {[(p.offered, p.acknowledged) for p in self.producers]}")
        if not self.agenda.run_until(self.agenda.at + 20 * SECOND, self.is_level, every=10):
            ends = [(m.state, str(m.log.end), str(m.core.root.committed)) for m in self.members]
            self.fail(f"not level: {ends}, readers {[str(one.position) for one in self.readings()]}, {self.ledger.end}")
        self._compare()

    def is_well(self) -> bool:
        return {machine.state for machine in self.members} == {"active", "ready"}

    def _is_drained(self) -> bool:
        return all(producer.is_drained for producer in self.producers)

    def readings(self) -> list:  # type: ignore[type-arg]
        return [self.reader.reading, *(machine.history.reading for machine in self.members)]

    def is_level(self) -> bool:
        """Nothing is under way."""
        if not self.is_well():
            return False  # A member may just be starting.
        end = self.ledger.end
        places = [(m.log.end, m.log.durable, m.log.committed, m.core.root.committed) for m in self.members]
        is_read = all(one.position == end for one in self.readings())
        return is_read and all(one == end for place in places for one in place)

    def _compare(self) -> None:
        first, second = ({f.header.first_sequence: f for f in m.log.frames()} for m in self.members)
        for sequence in first.keys() & second.keys():
            one, other = first[sequence], second[sequence]
            if one.header != other.header or bytes(one.body) != bytes(other.body):
                self.fail(f"the logs differ at {sequence}")
        for machine, frames in zip(self.members, (first, second), strict=True):
            kept = [last for last in self.ledger.facts if last >= machine.log.begin_sequence]
            missing = {self.ledger.facts[last].first for last in kept} - frames.keys()
            if missing or machine.log.corrupt:
                self.fail(f"{machine.host.name} lacks {sorted(missing)[:3]}, damaged {machine.log.corrupt[:3]}")
            self.ledger.check_folds(machine.index, machine.core.root.folds, machine.core.root.committed)
        for producer in self.producers:
            if self.ledger.values.get(producer.number, 0) != producer.counted:
                self.fail(f"{producer.name} has counted to {producer.counted}, the log to {self.ledger.values}")
