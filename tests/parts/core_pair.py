"""Two COREs of a pair and their voter in one loop, a witness or a node below, over real links and on real logs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.client import ClientError, connect
from albireo.log import FileSystem, LogConfig
from albireo.machine.kernel.named import HISTORY, above
from albireo.machine.pair import PairConfig
from albireo.machine.pair.member import Member
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant
from albireo.model.settings import LimitSettings
from albireo.model.tree.nodes import ChildConfig
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.core.housekeeping import Retention
from albireo.node.core.uplinks import UplinkArguments
from albireo.node.member.member import PairMembership
from albireo.node.membership.pair_arguments import PairArguments
from albireo.node.vote.node_voter import NodeVoter, NodeVoterArguments
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import Witness, WitnessArguments
from albireo.runtime import run_actor, running
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S

CLUSTER: Final = "c/root"
VOTER: Final = "witness:w1"
SITE: Final = "root/north"
"""Place that votes where the voter is below."""
PLACES: Final = ("root[primary]", "root[backup]")
LOG: Final = LogConfig(segment_bytes=1 << 20, free_bytes_min=0)
RETENTION: Final = Retention(keep_h=0, snapshot_every_s=1)
CALM: Final = {"silence_ns": 2 * SECOND, "solo_after_ns": 2 * SECOND, "attempt_ns": 2 * SECOND, "lease_ns": 3 * SECOND}
"""A second in which nothing runs changes no role; a killed member is found gone by its connections."""


class Plant:
    """A pair of COREs and its voter in one loop, each started and killed by itself."""

    def __init__(
        self,
        home: Path,
        local_streams: tuple[str, ...] = (),
        node: str = "root",
        /,
        voter: str = VOTER,
        **settings: int,
    ) -> None:
        """
        Args:
            voter: the only one: a witness, or a node below.
            settings: of the pair's configuration, beside CALM.
        """
        self.home = home
        self.node = node
        self.places = (f"{node}[primary]", f"{node}[backup]")
        self.voter = voter
        self._cluster = f"c/{node}"
        self.private_streams: tuple[str, ...] = ()
        self.limits = LimitSettings()
        self.children: tuple[ChildConfig, ...] = ()
        """The nodes directly below, of members that are started from now on."""
        self.uplink: UplinkArguments | None = None
        """Links of such members to the node above; None: there is none."""
        self.keys: dict[str, Keys] = {}
        """Of members and witness, by name; empty: their links have none."""
        self._local_streams = local_streams
        self.cores: dict[int, Core] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._witness = contextlib.AsyncExitStack()
        self.witness: Witness | NodeVoter
        self._ends = [f"tcp://127.0.0.1:{port}" for port in free_ports(5)]
        self.config = PairConfig(cluster=self._cluster, voters=(voter,), **{**CALM, **settings})

    @property
    def lines(self) -> tuple[LineTo, ...]:
        """Where clients reach the members."""
        return tuple(LineTo(end, place) for end, place in zip(self._ends[3:5], self.places, strict=True))

    @property
    def peer_ends(self) -> list[str]:
        """Where the members hear each other."""
        return self._ends[1:3]

    def make_keys(self, *names: str, role: AccessRole = AccessRole.ADMIN) -> None:
        """Members and witness trust each other and the holders of these names, who have this role."""
        self.keys = {name: Keys.new(self.home / "keys" / name, name) for name in (*self.places, self.voter_key, *names)}
        introduce(*self.keys.values(), role=role)

    @property
    def voter_key(self) -> str:
        """Name of the voter's key."""
        return self.voter.removeprefix("node:")

    def _key_directory(self, name: str) -> str:
        return str(self.keys[name].directory) if self.keys else ""

    def data(self, member: int) -> Path:
        return self.home / ("primary", "backup")[member]

    async def start_witness(self) -> None:
        self.witness = self._made_witness()
        await self._witness.enter_async_context(running(self.witness, self.home / "w1"))

    async def stop_witness(self) -> None:
        await self._witness.aclose()

    async def forget_leases_before(self) -> None:
        """Whoever starts waits as long as a lease that it may have forgotten; there was none before the beginning."""
        voter = self.witness.seats.by_cluster[self._cluster].voter
        await until(lambda: voter.store is not None, "begun")
        voter.starts_until = self.machine(0).candidate.promise_until = Instant(0)

    def _made_witness(self) -> Witness | NodeVoter:
        is_below = self.voter.startswith("node:")
        ends = self._ends[3:5] if is_below else self._ends[1:3]
        members = tuple(
            AskingMember(place=place, endpoints=(end,)) for place, end in zip(self.places, ends, strict=True)
        )
        pair = AskingPair(
            node=self.node, cluster=self._cluster, voters=self.config.voters, members=members, drift=self.config.drift
        )
        keys = self._key_directory(self.voter_key)
        if is_below:
            return NodeVoter(NodeVoterArguments(voter=self.voter, keys=keys, pairs=(pair,)))
        return Witness(WitnessArguments(voter=VOTER, endpoint=self._ends[0], keys=keys, pairs=(pair,)))

    async def start(self, member: int, retention: Retention = RETENTION, files: FileSystem | None = None) -> Core:
        peers, clients = self._ends[1:3], self._ends[3:5]
        pair = PairArguments(
            member=member,
            place=self.places[member],
            config=self.config,
            witnesses={} if self.voter.startswith("node:") else {self.voter: self._ends[0]},
            client=clients[member],
            peer=(peers[member],),
            other=(peers[1 - member],),
            other_place=self.places[1 - member],
            other_client=clients[1 - member],
            local_streams=self._local_streams,
            private_streams=self.private_streams,
            keys=self._key_directory(self.places[member]),
        )
        uplink = None if self.uplink is None else msgspec.structs.replace(self.uplink, member=member)
        if uplink is not None:
            retention = msgspec.structs.replace(retention, named=(HISTORY, above(uplink.parent)))
        arguments = CoreArguments(
            node=self.node,
            cluster="c",
            log=LOG,
            retention=retention,
            limits=self.limits,
            pair=pair,
            children=self.children,
            uplink=uplink,
        )
        core = Core(arguments, files)
        self.data(member).mkdir(exist_ok=True)
        self._tasks[member] = asyncio.create_task(run_actor(core, self.data(member)))
        self.cores[member] = core
        await until(lambda: self.has_ended(member) or self._has_begun(member), f"{self.places[member]} is up")
        return core

    def _has_begun(self, member: int) -> bool:
        return (self.data(member) / "run").exists() and hasattr(self.cores[member], "_link")

    def _is_up(self, member: int) -> bool:
        assert not self._tasks[member].done(), self._tasks[member].exception()
        return hasattr(self.cores[member], "_link")

    def has_ended(self, member: int) -> bool:
        """By itself."""
        return self._tasks[member].done()

    async def kill(self, member: int) -> None:
        """It says nothing to anybody any more. Raises why it had ended by itself."""
        del self.cores[member]
        task = self._tasks.pop(member)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def release(self, member: int) -> None:
        """Kill it if it is there."""
        if member in self.cores:
            await self.kill(member)

    def machine(self, member: int) -> Member:
        """The machine of that member."""
        membership = self.cores[member]._membership
        assert isinstance(membership, PairMembership)
        return membership._member

    def state(self, member: int) -> str:
        return self.cores[member].root.role.word

    async def wait_for(self, primary: str, backup: str) -> None:
        wanted = dict(enumerate((primary, backup)))
        await until(
            lambda: all(self.state(member) == wanted[member] for member in self.cores if self._is_up(member)),
            f"{wanted}",
        )

    def is_level(self) -> bool:
        """Both have folded the same, to the byte."""
        one, two = (core.root for core in self.cores.values())
        return one.folded_to == two.folded_to and one.folds.snapshot() == two.folds.snapshot()

    async def wait_until_level(self) -> None:
        await until(self.is_level, "equal folds")


async def until(is_so: Callable[[], object], what: str) -> None:
    ends = boot_ns() + PATIENCE_S * SECOND
    while not is_so():
        assert boot_ns() < ends, f"not within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.02)


async def aside(work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)


def begin(data: Path) -> None:
    ends = boot_ns() + PATIENCE_S * SECOND
    while True:
        try:
            with connect(data, is_pinned=True) as client:
                client.ask("pair_init")
                return
        except ClientError:
            assert boot_ns() < ends


@contextlib.asynccontextmanager
async def plant(home: Path, local_streams: tuple[str, ...] = (), **settings: int) -> AsyncIterator[Plant]:
    """Begun, with the primary alone in charge."""
    async with begun(Plant(home, local_streams, voter=VOTER, **settings)) as made:
        yield made


@contextlib.asynccontextmanager
async def plant_over_a_site(home: Path, *keyed: str, **settings: int) -> AsyncIterator[Plant]:
    """The same, voted by a node below; with keys on all links if others are to have some."""
    made = Plant(home, voter=f"node:{SITE}", **settings)
    if keyed:
        made.make_keys(*keyed)
    async with begun(made):
        yield made


@contextlib.asynccontextmanager
async def private_plant(home: Path, **settings: int) -> AsyncIterator[Plant]:
    """The same; samples stay with the member that took them."""
    made = Plant(home, voter=VOTER, **settings)
    made.private_streams = ("samples",)
    async with begun(made):
        yield made


@contextlib.asynccontextmanager
async def keyed_plant(home: Path, *names: str, **settings: int) -> AsyncIterator[Plant]:
    """The same, with keys on all links; the holders of `names` are trusted too."""
    made = Plant(home, voter=VOTER, **settings)
    made.make_keys(*names)
    async with begun(made):
        yield made


@contextlib.asynccontextmanager
async def begun(made: Plant) -> AsyncIterator[Plant]:
    """Begun, with the primary alone in charge."""
    (made.home / "w1").mkdir()
    async with contextlib.AsyncExitStack() as ends:  # One that failed keeps no other from being released.
        ends.push_async_callback(made.stop_witness)
        for member in range(len(PLACES)):
            ends.push_async_callback(made.release, member)
        await made.start_witness()
        await made.start(0)
        await aside(lambda: begin(made.data(0)))
        await made.forget_leases_before()
        await made.wait_for("solo", "")
        yield made
