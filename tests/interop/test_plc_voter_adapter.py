"""A PLC that votes, through the adapter that owns its connection: the real register voter, COMM, sockets and a PLC."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from albireo.codec.message import RoleAsked, RoleTold
from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Record, Voted
from albireo.codec.register_block import (
    VoterHangUp,
    VoterLost,
    VoterOffered,
    VoterRead,
    VoterReadAsked,
    VoterWriteAsked,
    VoterWritten,
)
from albireo.field.comm import Comm
from albireo.field.contract import VoterRequestRefused
from albireo.field.voter_line import REFUSED_PAUSE_NS, Request
from albireo.machine.pair.config import PairConfig
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.quality import GOOD
from albireo.node.vote.plc_voters import Outside, PlcVoters
from albireo.plant.tunnel.plc.pair_area import PLAIN_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import ResetConnections, Restart
from albireo.runtime.actor.actor import ActorContext, running
from albireo.runtime.link.sockets import Letter
from tests.parts.field import LONG_MS, RawDevice, RecordingCore, comm, in_loop, registers_answer, until
from tests.parts.waiting import PATIENCE_S

VOTER = "plc:p1"
PAIR = PairConfig(cluster="test/root", voters=(VOTER,), lease_ns=3 * SECOND)
"""A lease that a machine which stands still for a second does not let run out."""
ZEROS = (0,) * 64


def record(epoch: int, run: int, *members: int, version: int = 1) -> Record:
    return Record(
        cluster=PAIR.cluster,
        voters=PAIR.voters,
        generation=PAIR.generation,
        epoch=epoch,
        version=version,
        holder=epoch % 2,
        run=run,
        members=members,
        lease_ns=PAIR.lease_ns,
    )


class VotingCore(RecordingCore):
    """CORE as far as a PLC voter goes: the real voter, no member machine; what it keeps outlives it."""

    def __init__(self, member: int, kept: bytes = b"", *, leads: bool = True, run: int = 0) -> None:
        super().__init__(epoch=2)
        self.member, self.run = member, run or 10 + member
        self.kept = kept
        self.leads = leads
        self.voted: list[Voted] = []
        self.said: list[object] = []
        self._round = 0

    async def start(self, actor: ActorContext) -> None:
        await super().start(actor)
        outside = Outside(send=self._send, keep=self._keep_copy, voted=self.voted.append)
        self.voters = PlcVoters(PAIR, self.member, self.run, self.kept, outside, actor.now())
        self._arm()

    def _send(self, sender: bytes, message: object) -> None:
        self.link.send(message, to=sender)  # type: ignore[arg-type]  # Outside has it as any message.

    def _keep_copy(self, data: bytes) -> None:
        self.kept = data

    def _take(self, letter: Letter) -> None:
        message = letter.message
        if self.voters.hears(letter.sender, message, self.actor.now()):
            self.said.append(message)
            self._arm()
        elif not self.leads and not isinstance(message, VoterOffered):
            if isinstance(message, RoleAsked):
                self.said.append(message)
            self.link.send(RoleTold(is_acting=False, epoch=self.epoch), to=letter.sender)
        else:
            super()._take(letter)

    def ticked(self, now: Instant) -> None:
        self.voters.ticked(now)
        self._arm()

    def _arm(self) -> None:
        self.actor.arm(self.voters.deadline())

    async def ask(self, build: Callable[[int], Question]) -> Voted:
        """Ask, and ask again as a member does, until there is an answer to that very question."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while loop.time() < deadline:
            self._round += 1
            wanted = self._round
            self.voters.ask(VOTER, build(wanted), self.actor.now())
            self._arm()
            again_at = loop.time() + 1
            while loop.time() < again_at:
                if found := [one for one in self.voted if one.round == wanted]:
                    return found[0]
                await asyncio.sleep(0.001)
        raise AssertionError("no vote")

    def head(self, round_: int) -> dict[str, object]:
        return {
            "cluster": PAIR.cluster,
            "generation": PAIR.generation,
            "member": self.member,
            "run": self.run,
            "round": round_,
        }

    async def install(self) -> None:
        first = record(2, 0, 0, 1)
        voted = await self.ask(lambda n: Install(**self.head(n), record=first, promised=2))  # type: ignore[arg-type]
        assert voted.is_granted or voted.record == first, "asked again, it sees that it was carried out"

    async def read(self) -> Voted:
        return await self.ask(lambda n: Read(**self.head(n)))  # type: ignore[arg-type]

    async def prepare(self, epoch: int) -> Voted:
        return await self.ask(lambda n: Prepare(**self.head(n), epoch=epoch))  # type: ignore[arg-type]

    async def prepare_until_granted(self, epoch: int) -> Voted:
        """As a candidate does: again while a lease may run."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not (voted := await self.prepare(epoch)).is_granted:
            assert asyncio.get_running_loop().time() < deadline, voted
            await asyncio.sleep(0.02)
        return voted

    async def accept(self, epoch: int, *members: int) -> Voted:
        wanted = record(epoch, self.run, *members)
        return await self.ask(lambda n: Accept(**self.head(n), record=wanted))  # type: ignore[arg-type]


ROWS = [{"name": f"v{n}", "kind": "holding", "address": str(PLAIN_ADDRESS + n), "dead_band": "0"} for n in range(60)]


def adapter(port: int, **more: object) -> dict[str, object]:
    return {
        "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{port}", "items": ROWS, "poll_ms": 100,
        "timeout_ms": LONG_MS, "voter_timeout_ms": LONG_MS, "voter_address": VOTER_ADDRESS, **more,
    }  # fmt: skip


@contextlib.asynccontextmanager
async def plc() -> AsyncIterator[PlcServer]:
    server = PlcServer(PLCS["p1"])
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def member(server: PlcServer, directory: Path, core: VotingCore, **more: object) -> AsyncIterator[VotingCore]:
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    async with running(core, directory), running(comm(adapter(server.port, **more)), directory):
        yield core


@pytest.mark.slow
def test_two_members_vote_in_one_plc_and_the_lease_keeps_the_second_away(tmp_path: Path) -> None:
    """The whole way: first record, grant, renewals hold the other off, silence lets it take over."""

    async def story() -> None:
        a, b = VotingCore(0), VotingCore(1, leads=False)
        async with plc() as server, member(server, tmp_path / "a", a), member(server, tmp_path / "b", b):
            await a.install()
            await b.install()
            await a.prepare_until_granted(4)
            assert (await a.accept(4, 0, 1)).is_granted
            for _ in range(3):
                assert (await a.accept(4, 0, 1)).is_granted
                refused = await b.prepare(5)
                assert (refused.is_granted, refused.reason) == (False, "leased")
            granted = await b.prepare_until_granted(5)
            assert granted.record == record(4, a.run, 0, 1)
            assert (await b.accept(5, 1)).is_granted
            assert (await a.accept(4, 0, 1)).reason == "promised"
            assert await a.read() is not None
            await until(lambda: a.last_of("v0") == (0, GOOD), "a sample")
            assert b.batches == []

    in_loop(story)


@pytest.mark.slow
@pytest.mark.parametrize("standby", ["connected", "polling", "off"])
def test_the_voter_answers_whatever_the_standby(tmp_path: Path, standby: str) -> None:
    async def story() -> None:
        core = VotingCore(1, leads=False)
        async with plc() as server, member(server, tmp_path, core, standby=standby):
            await core.install()
            assert any(isinstance(one, RoleAsked) for one in core.said)
            assert core.batches == []
            own = server.pair.seen(0, server.pair.voter)
            assert own[:32] == [0] * 32
            assert own[32] != 0

    in_loop(story)


@pytest.mark.slow
def test_a_power_cycle_of_the_plc_ends_the_connection_and_the_votes_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        core = VotingCore(0)
        async with plc() as server, member(server, tmp_path, core, backoff_max_ms=50):
            await core.install()
            lost = sum(isinstance(one, VoterLost) for one in core.said)
            await server.act(Restart(down_ms=50))
            await until(lambda: sum(isinstance(one, VoterLost) for one in core.said) > lost, "word of the loss")
            assert not (await core.read()).record  # The other's block is zero: no answer, never "empty".

    in_loop(story)


@pytest.mark.slow
def test_a_core_that_was_restarted_begins_with_a_connection_of_its_own(tmp_path: Path) -> None:
    """What the run before had under way can't land any more: its connection is closed before the new run asks."""

    async def story() -> None:
        async with plc() as server, running(comm(adapter(server.port)), tmp_path):
            before = VotingCore(0)
            async with running(before, tmp_path):
                await before.install()
            after = VotingCore(0, before.kept, run=77)
            async with running(after, tmp_path):
                voted = await after.read()
                assert voted.to_run == 77
            old = {one.connection for one in before.said if isinstance(one, VoterOffered)}
            used = {one.connection for one in after.said if isinstance(one, VoterRead)}
            assert not used & old
            assert next(one for one in after.said if isinstance(one, VoterLost)).connection in old

    in_loop(story)


class Asking(RecordingCore):
    """Speaks to the line directly."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[object] = []

    def _take(self, letter: Letter) -> None:
        if isinstance(letter.message, VoterOffered | VoterLost | VoterRead | VoterWritten):
            self._sender = letter.sender
            self.said.append(letter.message)
        else:
            super()._take(letter)

    @property
    def connection(self) -> int:
        return next((one.connection for one in reversed(self.said) if isinstance(one, VoterOffered)), 0)

    def ask_to_read(self, connection: int | None = None) -> None:
        wanted = self.connection if connection is None else connection
        self.link.send(VoterReadAsked(adapter="p1", connection=wanted), to=self._sender)

    def ask_to_write(self, words: Sequence[int], left_ms: int = LONG_MS) -> None:
        asked = VoterWriteAsked(
            adapter="p1",
            connection=self.connection,
            member=1,
            register=20,
            words=tuple(words),
            not_after=self.actor.now() + left_ms * MS,
        )
        self.link.send(asked, to=self._sender)

    def hang_up(self) -> None:
        self.link.send(VoterHangUp(adapter="p1", connection=self.connection), to=self._sender)

    def heard(self, kind: type) -> list[object]:
        return [one for one in self.said if isinstance(one, kind)]


@contextlib.asynccontextmanager
async def line(server: PlcServer, directory: Path, **more: object) -> AsyncIterator[Asking]:
    core = Asking()
    async with running(core, directory), running(comm(adapter(server.port, **more)), directory):
        await until(lambda: core.connection, "an offer")
        yield core


def test_both_blocks_are_read_and_the_own_one_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with plc() as server, line(server, tmp_path) as core:
            core.ask_to_write(range(1, 11))
            core.ask_to_read()
            await until(lambda: core.heard(VoterRead), "the words")
            assert [one for one in core.said if not isinstance(one, VoterOffered)] == [
                VoterWritten(adapter="p1", connection=core.connection),
                VoterRead(adapter="p1", connection=core.connection, words=(*ZEROS[:52], *range(1, 11), *ZEROS[:2])),
            ]

    in_loop(story)


def test_a_request_of_another_connection_is_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with plc() as server, line(server, tmp_path) as core:
            core.ask_to_read(core.connection + 1)
            core.ask_to_read()
            await until(lambda: core.heard(VoterRead), "the words")
            assert len(core.heard(VoterRead)) == 1

    in_loop(story)


def test_a_write_that_comes_too_late_is_not_sent_and_ends_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with plc() as server, line(server, tmp_path) as core:
            first = core.connection
            core.ask_to_write([9] * 10, left_ms=-1)
            await until(lambda: core.connection != first, "another connection")
            assert core.heard(VoterLost) == [VoterLost(adapter="p1", connection=first)]
            assert server.pair.seen(0, server.pair.voter) == list(ZEROS)

    in_loop(story)


def test_a_hang_up_is_a_new_connection_and_no_lost_device(tmp_path: Path) -> None:
    async def story() -> None:
        async with plc() as server, line(server, tmp_path) as core:
            await until(lambda: core.last_of("v0") == (0, GOOD), "a sample")
            first = core.connection
            core.hang_up()
            await until(lambda: core.connection != first, "another connection")
            core.ask_to_read()
            await until(lambda: core.heard(VoterRead), "the words")
            assert core.last_of("p1/connected") == (True, GOOD)
            assert core.gaps == []

    in_loop(story)


def test_registers_that_are_not_there_cost_the_vote_and_not_the_samples(tmp_path: Path) -> None:
    """An exception is an answer: nothing is under way any more, so the connection that the items need stays."""

    async def story() -> None:
        async with plc() as server, line(server, tmp_path, voter_address=20_000) as core:
            first, began = core.connection, core.actor.now()
            core.ask_to_read()
            await until(lambda: core.heard(VoterLost), "the loss")
            await until(lambda: core.last_of("v0") == (0, GOOD), "a sample")
            assert core.last_of("p1/reconnects") == (0, GOOD)
            pauses = (core.actor.now() - began) // REFUSED_PAUSE_NS
            assert first <= core.connection <= first + pauses, "none is offered before the pause is over"

    in_loop(story)


def test_core_is_told_of_the_loss_when_the_device_has_had_the_rst(tmp_path: Path) -> None:
    """The device never answers the voter; its end of the connection must be reset before CORE may count on it."""
    ended: list[str] = []

    async def story() -> None:
        device = Resettable(ended)
        async with device:
            core = Asking()
            arguments = adapter(device.port, voter_timeout_ms=50, items=ROWS[:1], standby="off")
            async with running(core, tmp_path), running(comm(arguments), tmp_path):
                await until(lambda: core.connection, "an offer")
                core.ask_to_read()
                await until(lambda: core.heard(VoterLost), "the loss")
                assert device.state() == "reset"

    in_loop(story)


class Resettable(RawDevice):
    """Answers all but the voter's registers, and looks at its own end of the first connection."""

    def __init__(self, ended: list[str]) -> None:
        super().__init__(self._answer)
        self.ended = ended

    @staticmethod
    def _answer(unit: int, function: int, request: bytes) -> bytes | None:
        is_voter = int.from_bytes(request[:2], "big") == VOTER_ADDRESS
        return None if is_voter else registers_answer(request)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.connections == 0:
            transport = writer.get_extra_info("socket")
            self._first = socket.socket(fileno=socket.dup(transport.fileno()))
        await super()._serve(reader, writer)

    def state(self) -> str:
        """What the kernel knows of the first connection: `reset` once the RST has come."""
        info = self._first.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        self._first.close()
        return {7: "reset", 8: "half closed"}.get(info, f"state {info}")


def test_a_request_of_the_voter_waits_for_one_block_and_not_for_the_poll(tmp_path: Path) -> None:
    """Twenty blocks that take 20 ms each: what is asked in the middle is answered after the block under way."""

    async def story() -> None:
        device = Slow()
        rows = [{"name": f"v{n}", "kind": "holding", "address": str(200 * n)} for n in range(20)]
        async with device:
            core, hosted = Asking(), comm(adapter(device.port, items=rows, poll_ms=10))
            async with running(core, tmp_path), running(hosted, tmp_path):
                await until(lambda: core.connection and len(device.requests) > 5, "a poll")
                came = arrivals(hosted, device)
                core.ask_to_read()
                await until(lambda: core.heard(VoterRead), "the words")
                asked = [int.from_bytes(one[2][:2], "big") for one in device.requests[came[0] :]]
                assert asked.index(VOTER_ADDRESS) <= 2

    in_loop(story)


def arrivals(hosted: Comm, device: RawDevice) -> list[int]:
    """How much the device had been asked whenever a request of the voter came to the adapter."""
    came: list[int] = []
    voter = hosted._line
    assert voter is not None
    taken = voter.asked

    def asked(request: Request) -> None:
        came.append(len(device.requests))
        taken(request)

    voter.asked = asked  # type: ignore[method-assign]  # A look at the real one.
    return came


class Slow(RawDevice):
    def __init__(self) -> None:
        super().__init__(lambda unit, function, request: registers_answer(request))

    async def about_to_answer(self) -> None:
        await asyncio.sleep(0.02)  # The device's own time for an answer, not a wait of the test.


@pytest.mark.slow
def test_a_reset_by_the_device_is_told_and_a_new_connection_offered(tmp_path: Path) -> None:
    async def story() -> None:
        async with plc() as server, line(server, tmp_path) as core:
            first = core.connection
            await server.act(ResetConnections())
            core.ask_to_read()
            await until(lambda: core.connection != first, "another connection")
            assert VoterLost(adapter="p1", connection=first) in core.said

    in_loop(story)


@pytest.mark.timeout(120)
def test_the_adapter_stops_though_a_request_swallows_the_cancellation(tmp_path: Path) -> None:
    """asyncio.wait_for of Python 3.11 does so if the answer comes in the same moment. The adapter then hung as it
    stopped, and in thread placement its node with it."""

    async def story() -> None:
        core = Asking()
        async with plc() as server, running(core, tmp_path):
            one = comm(adapter(server.port))
            async with running(one, tmp_path):
                await until(lambda: core.connection, "an offer")
                is_reading = asyncio.Event()

                async def read_voter() -> VoterRequestRefused:
                    is_reading.set()
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
                    return VoterRequestRefused("it stops", must_close=False)

                assert one._pair_adapter is not None
                one._pair_adapter.read_voter = read_voter  # type: ignore[method-assign]  # The flaw is in what it awaits.
                core.ask_to_read()
                await is_reading.wait()

    in_loop(story)
