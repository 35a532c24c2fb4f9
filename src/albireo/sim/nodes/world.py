"""A pair of whole nodes in one process, from a seed: the real shells, logs, folds and voters, in a bad world.

    two members    node/core and node/member: log, folds, snapshots, retention, replication, restoring, admin actions
    voters         node/vote/witness.py or node/vote/node_voter.py with their stores
    clients        producers and followers, as the client library has them

What is simulated: time, disks (`sim/engine/disk.py`), the network (messages cross as bytes), the threads of the log,
and the processes' loops. A seed draws its own mix of faults (swarm.py). Safety is checked at every commit and
answer (ledger.py); liveness once the faults have stopped: within a bounded time both members are in the set,
every batch is acknowledged, both logs are equal byte for byte as far as both have them, and so are the folds.

`sim/machines/world.py` plays the machines alone, a hundred times as fast and with more kinds of voters and outputs.
Spec: design/pair.md, How it is proven; docs/simulation.md.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Final, Self

from albireo.model.instant import SECOND
from albireo.node.core.arguments import CoreArguments
from albireo.node.membership.pair_arguments import PairArguments
from albireo.node.vote.node_voter import NodeVoterArguments
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import WitnessArguments
from albireo.sim.engine.network import OUTSIDE
from albireo.sim.engine.world import World
from albireo.sim.nodes.clients import CommittedReader, ProducerClient, RoamingReader
from albireo.sim.nodes.faults import NodeFaults
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.machine import VoterMachine
from albireo.sim.nodes.member import MemberMachine, are_well
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.nodes.swarm import (
    CLUSTER,
    WITNESS,
    NodeSwarm,
    bounded,
    log_config_of,
    pair_config_of,
    retention_of,
    swarm_of,
)

NAMES: Final = ("primary", "backup")
RECOVERY_NS: Final = 40 * SECOND
"""Bound on getting well once the faults stopped: a hold-off, a snapshot, a repair, and all that after a cold wait."""
NUMBERS: Final = 10
"""Programs are told apart by the last digit of what they count."""
KEEP_EVERY_MS: Final = 400.0
"""Interval at which a history mostly makes durable what it has."""


class NodeWorld(World[NodeStage]):
    """World of one pair of whole nodes with all its parts."""

    faults: NodeFaults
    member_type: type[MemberMachine] = MemberMachine
    ledger_type: type[NodeLedger] = NodeLedger

    def __init__(self, seed: int, swarm: NodeSwarm | None = None) -> None:
        super().__init__(NodeStage(seed, swarm or swarm_of(seed)))
        self.swarm = self.stage.swarm
        self.chance = self.stage.chance
        self.config = pair_config_of(self.swarm)
        self.ledger = self.ledger_type(self.config.majority, self.stage.fail)
        self._places()
        self.faults = self._faults()

    def _faults(self) -> NodeFaults:
        return NodeFaults(self.stage, self.members, self.voters, self.producers, self._begin_rival)

    def _places(self) -> None:
        hosts = [self._host(name) for name in NAMES]
        peers = [
            tuple(self._endpoint(host, f"peer{path}", path) for path in range(self.config.paths)) for host in hosts
        ]
        clients = [self._endpoint(host, "clients", -1) for host in hosts]
        voters = {voter: self._host(f"w{number}") for number, voter in enumerate(self.config.voters)}
        asked = {
            voter: self._endpoint(host, "witness", -1) for voter, host in voters.items() if voter.startswith(WITNESS)
        }
        stage, ledger = self.stage, self.ledger
        self.members: list[MemberMachine] = []
        for index, host in enumerate(hosts):
            arguments = self._core_arguments(index, peers, clients, asked)
            self.members.append(self.member_type(stage, host, ledger, self.members, arguments))
        self.voters = [
            VoterMachine(stage, host, ledger, self._voter_arguments(voter, asked.get(voter), peers, clients))
            for voter, host in voters.items()
        ]
        outside = self._host(OUTSIDE)
        self._program = partial(ProducerClient, stage, outside, endpoints=clients, ledger=ledger)
        self.producers = [self._program(number) for number in (1, 2)]
        self.reader = RoamingReader(stage, outside, clients, ledger)

    def _host(self, name: str) -> Host:
        return Host(name, self.chance, self.swarm.drift)

    def _endpoint(self, host: Host, name: str, path: int) -> str:
        endpoint = f"tcp://{host.name}:{name}"
        self.stage.network.hosts[endpoint] = (host, path)
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

    def _voter_arguments(
        self, voter: str, endpoint: str | None, peers: list[tuple[str, ...]], clients: list[str]
    ) -> WitnessArguments | NodeVoterArguments:
        """Arguments of a voter; `endpoint`: where it listens. None: it dials the members instead."""
        reached = peers if endpoint else [(client,) for client in clients]
        members = tuple(
            AskingMember(place=f"root[{name}]", endpoints=one) for name, one in zip(NAMES, reached, strict=True)
        )
        pair = AskingPair(
            node="root", cluster=CLUSTER, voters=self.config.voters, members=members, drift=self.config.drift
        )
        if endpoint is None:
            return NodeVoterArguments(voter=voter, pairs=(pair,))
        return WitnessArguments(voter=voter, endpoint=endpoint, pairs=(pair,))

    def play(self) -> Self:
        """Play a new pair, then faults, then quiet."""
        with self.living():
            self.begin()
            return super().play()

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """Let the world go on inside; afterwards nobody goes on with what the processes were about to do."""
        try:
            with bounded(self.swarm.bounds):
                yield
        finally:
            for machine in (*self.members, *self.voters):
                if machine.actor is not None:
                    machine.actor.loop.end()

    def begin(self) -> None:
        """Play from nothing to a pair in which both members are in the set."""
        for machine in (*self.voters, *self.members):
            machine.start_soon(self.chance.random() * 20)
        self._keep()
        self._order_first()
        for producer in self.producers:
            self._offer(producer)
        self.within(RECOVERY_NS, self.is_well, lambda: f"no pair: {self._states()}")

    def _order_first(self) -> None:
        """Ask the primary for `albireo pair init`, again until it is done."""

        def again() -> None:
            if not self.ledger.end.sequence:
                self.members[0].operator.order(
                    "pair_init", lambda answer: self.stage.note("primary", f"init: {answer}")
                )
                self.agenda.after_ms(3_500, again)

        self.agenda.after_ms(200, again)

    def _keep(self) -> None:
        for machine in self.members:
            if machine.history.is_alive and self.chance.random() < 0.8:
                machine.history.keep()
        self.agenda.after_ms(KEEP_EVERY_MS, self._keep)

    def _begin_rival(self, name: str) -> None:
        """Begin another program under a producer's name."""
        number = len(self.producers) + 1
        if number < NUMBERS:
            self.producers.append(self._program(number, name=name))
            self._offer(self.producers[-1])

    def _offer(self, producer: ProducerClient) -> None:
        if not self.stage.is_quiet:
            producer.offer()
        wait_ms = self.swarm.batch_every_ms * (0.5 + self.chance.random())
        self.agenda.after_ms(wait_ms, partial(self._offer, producer))

    def settle(self) -> None:
        self.faults.heal()
        self.within(
            RECOVERY_NS,
            lambda: self.faults.is_over and self.is_well(),
            lambda: f"not well {RECOVERY_NS // SECOND} s after the last fault: {self._states()}",
        )
        for producer in self.producers:
            producer.is_quiet = True
        self.within(
            10 * SECOND,
            lambda: all(producer.is_drained for producer in self.producers),
            lambda: f"batches wait: {[(p.offered, p.acknowledged) for p in self.producers]}",
        )
        self.within(
            10 * SECOND,
            lambda: all((one.by is None) is self.ledger.has_name(one.name, one.run) for one in self.producers),
            lambda: (
                f"names: {[(one.name, one.run, one.by) for one in self.producers]}, {list(self.ledger.folds.producers)}"
            ),
        )
        self.within(20 * SECOND, self.is_level, lambda: f"not level: {self._ends()}", every=10)
        self._compare()

    def is_well(self) -> bool:
        return are_well(self.members)

    def _states(self) -> list[str]:
        return [machine.state for machine in self.members]

    def _ends(self) -> str:
        ends = [(m.state, str(m.log.end), str(m.core.root.folded_to)) for m in self.members]
        return f"{ends}, readers {[str(one.position) for one in self.readings()]}, {self.ledger.end}"

    def readings(self) -> list[CommittedReader]:
        return [self.reader.reading, *(machine.history.reading for machine in self.members)]

    def is_level(self) -> bool:
        """True: nothing is under way; logs, folds and readers all end where the ledger does."""
        if not self.is_well():
            return False  # A member may just be starting.
        end = self.ledger.end
        places = [(m.log.end, m.log.durable, m.log.committed, m.core.root.folded_to) for m in self.members]
        is_read = all(one.position == end for one in self.readings())
        return is_read and all(one == end for place in places for one in place)

    def _compare(self) -> None:
        first, second = ({f.header.first_sequence: f for f in m.log.frames()} for m in self.members)
        for sequence in first.keys() & second.keys():
            one, other = first[sequence], second[sequence]
            if one.header != other.header or bytes(one.body) != bytes(other.body):
                self.stage.fail(f"the logs differ at {sequence}")
        for machine, frames in zip(self.members, (first, second), strict=True):
            kept = [last for last in self.ledger.facts if last >= machine.log.begin_sequence]
            missing = {self.ledger.facts[last].first for last in kept} - frames.keys()
            if missing or machine.log.corrupt:
                self.stage.fail(f"{machine.host.name} lacks {sorted(missing)[:3]}, damaged {machine.log.corrupt[:3]}")
            self.ledger.check_folds(machine.index, machine.core.root.folds, machine.core.root.folded_to)
        for producer in self.producers:
            if producer.by is None and self.ledger.values.get(producer.number, 0) != producer.counted:
                self.stage.fail(f"{producer.name} has counted to {producer.counted}, the log to {self.ledger.values}")
