"""Site: one node of the simulated tree, alone or a pair with a witness, with its device and a program that counts."""

from typing import Final

import msgspec

from albireo.codec.message import Answer
from albireo.machine.kernel.named import HISTORY, above
from albireo.machine.pair.config import PairConfig
from albireo.machine.root.root import Root
from albireo.model.tree.nodes import ChildConfig
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.node.core.uplinks import UplinkArguments
from albireo.node.membership.pair_arguments import MEMBERS, PairArguments
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import WitnessArguments
from albireo.sim.nodes.clients import ProducerClient
from albireo.sim.nodes.machine import VoterMachine
from albireo.sim.nodes.member import MemberMachine, are_well
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.nodes.swarm import WITNESS, log_config_of, pair_config_of
from albireo.sim.tree.device import TreeDevice
from albireo.sim.tree.ledger import TreeLedger
from albireo.sim.tree.node import START_OVER_MS, LoneLedger, LoneMachine, OpenDoor, TreeMember, TreePairLedger
from albireo.sim.tree.swarm import BEYOND, NODES, TreeSwarm

INIT_EVERY_MS: Final = 3_500.0


class Site:
    """One node of the tree."""

    def __init__(self, stage: NodeStage, copies: TreeLedger, node: str, outside: Host) -> None:
        self.stage = stage
        self.copies = copies
        self.node = node
        self.device = TreeDevice()
        self.stores = 0
        """How often its disk was exchanged."""
        self.counted_before = 0
        """Highest count that its program was told of when its disk was exchanged last."""
        swarm = stage.swarm
        assert isinstance(swarm, TreeSwarm)
        self.is_pair = node in swarm.pairs
        self.hosts = [self._host(name_of(place)) for place in places_of(node, swarm)]
        for place, host in zip(places_of(node, swarm), self.hosts, strict=True):
            stage.network.hosts[door_of(place)] = (host, -1)
        self.voter: VoterMachine | None = None
        self.machines: list[TreeMember | LoneMachine] = []
        if self.is_pair:
            self._build_pair(swarm)
        else:
            self.machines = [LoneMachine(stage, self.hosts[0], copies, self._arguments(swarm, 0), self.device)]
        doors = [door_of(place) for place in places_of(node, swarm)]
        ledger = self.machines[0].ledger if self.is_pair else LoneLedger(copies)
        self.program = ProducerClient(stage, outside, 1 + NODES.index(node), doors, ledger)

    def _host(self, name: str) -> Host:
        return Host(name, self.stage.chance, self.stage.swarm.drift)

    def _build_pair(self, swarm: TreeSwarm) -> None:
        stage, name = self.stage, name_of(self.node)
        ledger = TreePairLedger(1, self.node, self.copies)
        witness = self._host(f"{name}-w")
        asked = f"tcp://{name}:witness"
        stage.network.hosts[asked] = (witness, -1)
        for host in self.hosts:
            stage.network.hosts[f"tcp://{host.name}:peer"] = (host, 0)
        members: list[MemberMachine] = []
        for index, host in enumerate(self.hosts):
            member = TreeMember(stage, host, ledger, members, self._arguments(swarm, index), self.device)
            members.append(member)
            self.machines.append(member)
        config = self._pair_config(swarm)
        seats = tuple(
            AskingMember(place=place, endpoints=(f"tcp://{host.name}:peer",))
            for place, host in zip(places_of(self.node, swarm), self.hosts, strict=True)
        )
        pair = AskingPair(
            node=self.node, cluster=config.cluster, voters=config.voters, members=seats, drift=config.drift
        )
        arguments = WitnessArguments(voter=config.voters[0], endpoint=asked, pairs=(pair,))
        self.voter = VoterMachine(stage, witness, ledger, arguments)

    def _pair_config(self, swarm: TreeSwarm) -> PairConfig:
        name = name_of(self.node)
        config = pair_config_of(swarm)
        waits = {name: swarm.pace * getattr(config, name) for name in config.__struct_fields__ if name.endswith("_ns")}
        return msgspec.structs.replace(
            config, cluster=f"c/{self.node}", voters=(f"{WITNESS}{name}-w",), paths=1, **waits
        )

    def _arguments(self, swarm: TreeSwarm, index: int) -> CoreArguments:
        node, parent = self.node, self.node.rpartition("/")[0]
        children = [one for one in NODES if one.rpartition("/")[0] == node]
        endpoints = {place: door_of(place) for place in places_of(parent, swarm)} if parent else {}
        places = places_of(node, swarm)
        pair = None
        if self.is_pair:
            peers = [f"tcp://{host.name}:peer" for host in self.hosts]
            config = self._pair_config(swarm)
            pair = PairArguments(
                member=index,
                place=places[index],
                config=config,
                witnesses={config.voters[0]: f"tcp://{name_of(node)}:witness"},
                client=door_of(places[index]),
                peer=(peers[index],),
                other=(peers[1 - index],),
                other_place=places[1 - index],
                other_client=door_of(places[1 - index]),
            )
        return CoreArguments(
            node=node,
            cluster="c",
            log=log_config_of(swarm),
            retention=self._retention(swarm, parent),
            adapters=frozenset({"valve"}),
            pair=pair,
            door=None if self.is_pair else OpenDoor(endpoint=door_of(node)),
            uplink=UplinkArguments(parent=parent, endpoints=endpoints, member=index, beyond=BEYOND[node])
            if parent
            else None,
            children=tuple(
                ChildConfig(
                    node=one,
                    places=tuple(places_of(one, swarm)),
                    nodes=tuple(two for two in NODES if two.startswith(f"{one}/")),
                )
                for one in children
            ),
        )

    def _retention(self, swarm: TreeSwarm, parent: str) -> Retention:
        return Retention(
            keep_h=swarm.keep_h.get(self.node, 24.0),
            snapshot_every_s=swarm.snapshot_every_s,
            scrub_bytes_per_s=0,
            named=(HISTORY, above(parent, swarm.hold_bytes.get(self.node, 8 << 30), swarm.hold_days))
            if parent
            else (HISTORY,),
        )

    @property
    def names(self) -> list[str]:
        """Names of its machines."""
        return [host.name for host in self.hosts]

    @property
    def members(self) -> list[TreeMember]:
        """Its members, if it is a pair."""
        return [one for one in self.machines if isinstance(one, TreeMember)]

    @property
    def serving(self) -> TreeMember | LoneMachine | None:
        """The machine that serves; None: none does."""
        for one in self.machines:
            root = one.root
            if root is not None and root.role.is_serving and (not isinstance(one, TreeMember) or one.is_holder):
                return one
        return None

    @property
    def root(self) -> Root | None:
        """Root machine of the node where it serves."""
        serving = self.serving
        return None if serving is None else serving.root

    @property
    def log_id(self) -> bytes:
        return self.machines[0].log.log_id

    def is_well(self) -> bool:
        if any(one.root is None for one in self.machines):
            return False
        return are_well(self.members) if self.is_pair else True

    def start(self) -> None:
        chance = self.stage.chance
        for machine in self.all_machines():
            machine.start_soon(chance.random() * 300)
        if self.is_pair:
            self.stage.agenda.after_ms(400, self._init)

    def all_machines(self) -> list[TreeMember | LoneMachine | VoterMachine]:
        return [*self.machines, *([] if self.voter is None else [self.voter])]

    def _init(self) -> None:
        """Ask the primary for `albireo pair init`, again until it is done."""
        ledger = self.machines[0].ledger
        if not ledger.end.sequence:
            self.machines[0].operator.order("pair_init", self._inited)
            self.stage.agenda.after_ms(INIT_EVERY_MS, self._init)

    def _inited(self, answer: Answer) -> None:
        self.stage.note(self.node, f"init: {answer.refusal or 'done'}")

    def exchanged(self) -> None:
        """Note that the disk of a node that stands alone is exchanged: what it has acknowledged may be gone."""
        self.stores += 1
        self.stage.agenda.after_ms(START_OVER_MS, self._note_acknowledged)  # A last word may be on its way.

    def _note_acknowledged(self) -> None:
        self.counted_before = self.program.counted_acknowledged


def places_of(node: str, swarm: TreeSwarm) -> list[str]:
    """Names of the places of a node: of its members, or its own."""
    return [f"{node}[{member}]" for member in MEMBERS] if node in swarm.pairs else [node]


def name_of(place: str) -> str:
    """Name of a machine."""
    return place.replace("/", "-").replace("[", ".").rstrip("]")


def door_of(place: str) -> str:
    return f"tcp://{name_of(place)}:door"
