"""The commissioning test of a PLC voter against simulated PLCs over Modbus TCP: good ones, and each kind of bad."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from pymodbus.client import AsyncModbusTcpClient

from albireo.codec.register_block import BLOCK_REGISTERS, LIFE_START, Ballot, LifeSign, cluster_tag, encode_ballot
from albireo.codec.register_block import encode_life as life_words
from albireo.field.contract import DeviceLost
from albireo.field.modbus.config import VOTER_REGISTERS
from albireo.field.modbus.voter.bench import BenchLimits
from albireo.field.modbus.voter.check import Line, NotTested, VoterCheck, VoterReport, VoterSettings
from albireo.field.modbus.voter.line import VoterPlace
from albireo.field.modbus.voter.pattern import MARK, pattern
from albireo.field.modbus.wire import Address
from albireo.plant.tunnel import start_tunnel, write_site
from albireo.plant.tunnel.plc.memory import Retained
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, PLAIN_ADDRESS, PLAIN_REGISTERS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults, ResetConnections, Restart
from tests.parts.plc import patient_site
from tests.parts.steady import run_steadily
from tests.parts.waiting import PATIENCE_S

CLUSTER = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11/root"
SHORT = BenchLimits(watch_s=0.15, rounds=6, shown_s=1.0, late_rounds=2, late_s=0.4, operator_s=2.0, started_s=0.15)
LATE_MS = 60
Does = Callable[[], Awaitable[None]]


async def nothing() -> None:
    return None


class Site:
    """A PLC, a client of the test's own on it, and what the operator was told."""

    def __init__(self, server: PlcServer, client: AsyncModbusTcpClient) -> None:
        self.server = server
        self.client = client
        self.told: list[str] = []
        self.steps: list[str] = []
        self._acts: set[asyncio.Task[None]] = set()

    async def registers(self, address: int = VOTER_ADDRESS, count: int = VOTER_REGISTERS) -> list[int]:
        if not self.client.connected:
            await self.client.connect()
        return list((await self.client.read_holding_registers(address, count=count)).registers)

    async def put(self, words: list[int], first: int = 0) -> None:
        assert not (await self.client.write_registers(VOTER_ADDRESS + first, words)).isError()

    async def check(
        self,
        *,
        does: Does = nothing,
        power: bool = False,
        at_step: str = "",
        first: int = VOTER_ADDRESS,
        settle_ms: int = 50,
        guard_status: int | None = None,
    ) -> VoterReport:
        """The test; `does` happens once, when the operator is asked to switch off or when `at_step` is measured."""
        settings = VoterSettings(
            place=VoterPlace(
                address=Address("127.0.0.1", self.server.port), device_id=1, first=first, timeout_ns=500_000_000
            ),
            cluster=CLUSTER,
            settle_ms=settle_ms,
            dead_time_ms=2_000,
            guard_status=guard_status,
        )

        def asked(text: str) -> None:
            self.told.append(text)
            if len(self.told) == 1:
                self._begin(does)

        def advanced(text: str) -> None:
            self.steps.append(text)
            if at_step and self.steps.count(text) == 2 and at_step in text:
                self._begin(does)

        report = await VoterCheck(settings, SHORT, advanced, asked).run(cycles_power=power)
        await asyncio.gather(*self._acts)
        return report

    def _begin(self, does: Does) -> None:
        self._acts.add(asyncio.ensure_future(does()))


@asynccontextmanager
async def site(faults: PlcFaults | None = None) -> AsyncIterator[Site]:
    server = PlcServer(PLCS["p1"])
    await server.apply(faults or PlcFaults())
    client = AsyncModbusTcpClient("127.0.0.1", port=server.port, timeout=PATIENCE_S, retries=0, reconnect_delay=0)
    await client.connect()
    try:
        yield Site(server, client)
    finally:
        client.close()
        await server.stop()


def scenario(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Runs an async test in a loop of its own."""

    def run() -> None:
        run_steadily(test())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return pytest.mark.slow(run)


def line(report: VoterReport, name: str) -> Line:
    return next(one for one in report.lines if one.name == name)


def failed(report: VoterReport) -> list[str]:
    return [one.name for one in report.lines if one.status == "fail"]


def block(member: int, cluster: str = CLUSTER, sign: int = 7) -> list[int]:
    """A block as a member writes it."""
    ballot = Ballot(
        count=3, cluster_tag=cluster_tag(cluster), member=member, generation=1, lease_ms=600, promised=4 + member
    )
    words = [0] * BLOCK_REGISTERS
    words[:19] = encode_ballot(ballot)
    words[LIFE_START : LIFE_START + 10] = life_words(LifeSign(sign))
    return words


@scenario
async def test_a_sound_plc_passes_and_nothing_outside_the_registers_changes() -> None:
    async with site() as one:
        beside = await one.registers(MAILBOX_ADDRESS, 28), await one.registers(PLAIN_ADDRESS, PLAIN_REGISTERS)
        set_points = dict(one.server.held)

        async def cycle() -> None:
            await one.server.act(Restart(down_ms=50))

        report = await one.check(power=True, does=cycle, guard_status=MAILBOX_ADDRESS + 24)
        assert report.verdict == "pass", report
        assert [one.name for one in report.lines] == [
            "registers", "connections", "own writes", "other connection", "torn reads", "steadiness", "late writes",
            "power cycle", "boot number", "restored",
        ]  # fmt: skip
        assert (report.settle_ms, line(report, "power cycle").found) == (20, "every write kept")
        assert await one.registers() == [0] * VOTER_REGISTERS
        assert (await one.registers(MAILBOX_ADDRESS, 24), one.server.held) == (beside[0][:24], set_points)
        assert await one.registers(PLAIN_ADDRESS, PLAIN_REGISTERS) == beside[1]
        assert ["Switch the PLC off" in text for text in one.told] == [True, False]


@scenario
async def test_without_a_power_cycle_the_test_is_incomplete() -> None:
    async with site() as one:
        report = await one.check()
        assert (report.verdict, line(report, "power cycle").status) == ("incomplete", "skipped")
        assert one.told == []


@scenario
async def test_volatile_memory_may_vote_and_costs_availability() -> None:
    async with site() as one:

        async def cycle() -> None:
            await one.server.act(Restart(keep=Retained.NONE, down_ms=20))

        report = await one.check(power=True, does=cycle)
        assert report.verdict == "pass"
        assert line(report, "power cycle").found == "nothing kept" and line(report, "power cycle").remedy


@scenario
async def test_memory_saved_now_and_then_must_not_vote() -> None:
    async with site() as one:

        async def cycle() -> None:
            # An image from some writes ago: the test writes every 50 ms while it waits for the operator.
            held = await one.registers()
            while await one.registers() == held:
                pass
            written = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() < written + 0.3:
                await one.registers()
            await one.server.act(Restart(keep=Retained.OLD, age_ms=150, down_ms=20))

        report = await one.check(power=True, does=cycle)
        assert failed(report) == ["power cycle"]
        assert line(report, "power cycle").found == "an older write came back"
        assert await one.registers() == [0] * VOTER_REGISTERS


@scenario
async def test_a_program_that_writes_the_registers_after_its_start_is_found() -> None:
    async with site() as one:

        async def cycle() -> None:
            await one.server.act(Restart(down_ms=20))
            while "after the start" not in one.steps:
                await one.registers(count=1)
            await one.put([0] * 19)

        report = await one.check(power=True, does=cycle)
        assert "power cycle" in failed(report), report


@scenario
async def test_a_plc_that_nobody_switches_off_was_not_tested() -> None:
    async with site() as one:
        report = await one.check(power=True)
        assert failed(report) == ["power cycle"]
        assert line(report, "power cycle").found == "the PLC was not switched off"
        assert await one.registers() == [0] * VOTER_REGISTERS


@scenario
async def test_a_delay_between_connections_gives_settle() -> None:
    async with site(PlcFaults(others_delay_ms=LATE_MS // 2)) as one:
        report = await one.check(settle_ms=10)
        assert failed(report) == ["other connection"]
        assert report.settle_ms is not None and report.settle_ms >= LATE_MS - 10
        assert f"settle_ms = {report.settle_ms}" in line(report, "other connection").remedy
        again = await one.check(settle_ms=250)
        assert failed(again) == []


@scenario
async def test_a_delay_that_no_lease_can_hold_fails_whatever_the_topology_says() -> None:
    async with site(PlcFaults(others_delay_ms=200)) as one:
        report = await one.check(settle_ms=5_000)
        assert failed(report) == ["other connection"]
        assert "250 ms" in line(report, "other connection").remedy


@scenario
async def test_a_write_that_is_seen_late_by_its_own_connection_is_measured() -> None:
    async with site() as one:
        await one.put(block(0) + block(1))
        await one.server.apply(PlcFaults(own_delay_ms=LATE_MS))
        report = await one.check()
        assert failed(report) == []
        assert "ms later" in line(report, "own writes").found
        assert await one.registers() == block(0) + block(1)


@scenario
async def test_a_write_that_is_never_seen_fails_and_is_not_waited_for_for_ever() -> None:
    async with site(PlcFaults(own_delay_ms=60_000)) as one:
        report = await one.check()
        assert "own writes" in failed(report)


@scenario
async def test_torn_reads_are_counted_and_may_be() -> None:
    async with site(PlcFaults(tear_ms=20)) as one:
        report = await one.check()
        assert failed(report) == []
        assert not line(report, "torn reads").found.startswith("0 of")


@scenario
async def test_a_register_torn_inside_fails() -> None:
    async with site(PlcFaults(tear_ms=20, splits_register=True)) as one:
        report = await one.check()
        assert "torn reads" in failed(report)
        assert line(report, "torn reads").found == "one register held bytes of two writes"


@scenario
async def test_late_writes_of_broken_connections_give_the_dead_time() -> None:
    async with site(PlcFaults(others_delay_ms=LATE_MS)) as one:
        report = await one.check(settle_ms=250)
        assert line(report, "late writes").found.startswith("2 of 2 landed")
        assert report.dead_time_ms is not None and report.dead_time_ms >= 500 + 2 * LATE_MS


@scenario
async def test_one_connection_is_too_few_and_two_are_few() -> None:
    async with site(PlcFaults(connections_max=1)) as one:
        one.client.close()
        report = await one.check()
        assert failed(report) == ["connections"] and line(report, "connections").found == "1 at a time"
    async with site(PlcFaults(connections_max=2)) as one:
        one.client.close()
        report = await one.check()
        assert failed(report) == []
        assert line(report, "connections").found == "2 at a time" and line(report, "connections").remedy


@scenario
async def test_foreign_registers_are_refused_and_not_written() -> None:
    async with site() as one:
        for words in ([1, 2, 3] + [0] * 61, block(0, "another/root") + [0] * 32, block(1) + block(0)):
            await one.put(words)
            with pytest.raises(NotTested):
                await one.check()
            assert await one.registers() == words


@scenario
async def test_a_torn_block_of_ours_is_refused_and_not_written() -> None:
    async with site() as one:
        words = block(0)
        words[12] ^= 1
        await one.put(words)
        with pytest.raises(NotTested, match="damaged"):
            await one.check()
        assert (await one.registers())[:32] == words


@scenario
async def test_blocks_of_a_stopped_pair_are_put_back() -> None:
    async with site() as one:
        words = block(0) + block(1)
        await one.put(words)
        report = await one.check()
        assert failed(report) == []
        assert await one.registers() == words


@scenario
async def test_registers_in_use_are_refused() -> None:
    async with site() as one:
        await one.put(block(0) + block(1))

        async def renewed() -> None:
            await one.put(block(0, sign=8))

        with pytest.raises(NotTested, match="in use"):
            await one.check(does=renewed, at_step="in use")
        assert await one.registers() == block(0, sign=8) + block(1)


@scenario
async def test_what_a_broken_test_left_behind_is_known_and_cleared() -> None:
    async with site() as one:
        await one.put([*pattern(9, 19), *[0] * 13, *block(1)])
        report = await one.check()
        assert failed(report) == []
        assert await one.registers() == [0] * 32 + block(1)


@scenario
async def test_a_second_writer_is_found_and_its_block_left_to_it() -> None:
    async with site() as one:

        async def write() -> None:
            await one.put(block(1), first=32)

        report = await one.check(does=write, at_step="the other watches")
        assert "neighbours" in failed(report) or "own writes" in failed(report), report
        assert line(report, "restored").found.startswith("somebody else wrote")
        assert await one.registers() == [0] * 32 + block(1)


@scenario
async def test_a_plc_that_goes_away_in_the_middle_is_told_and_put_right() -> None:
    async with site() as one:

        async def reset() -> None:
            await one.server.act(ResetConnections())

        report = await one.check(does=reset, at_step="the other watches")
        assert failed(report) == ["connection"]
        assert await one.registers() == [0] * VOTER_REGISTERS


@scenario
async def test_a_test_that_is_broken_off_puts_the_registers_back() -> None:
    """Ctrl-C cancels the task."""
    async with site() as one:
        words = block(0) + block(1)
        await one.put(words)
        testing = asyncio.ensure_future(one.check())
        while not any("watches" in text for text in one.steps):
            await one.registers()
        assert MARK in await one.registers()
        testing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await testing
        assert await one.registers() == words


@scenario
async def test_registers_that_are_not_there_are_told() -> None:
    async with site() as one:
        with pytest.raises(NotTested, match="can't be read: exception 2"):
            await one.check(first=MAILBOX_ADDRESS - 64)


@scenario
async def test_a_plc_without_the_guard_it_should_have_fails() -> None:
    async with site() as one:
        report = await one.check(guard_status=PLAIN_ADDRESS)
        assert failed(report) == ["output guard"]


@scenario
async def test_nobody_there_is_told() -> None:
    async with site() as one:
        await one.server.apply(PlcFaults(is_off=True))
        with pytest.raises(DeviceLost):
            await one.check()


def albireo(*arguments: str) -> "subprocess.Popen[str]":
    command = [str(Path(sys.executable).with_name("albireo")), "doctor", "plc-voter", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_command_asks_for_the_power_cycle_and_says_pass(tmp_path: Path) -> None:
    with start_tunnel(tmp_path / "tunnel") as tunnel:
        topology = patient_site(tmp_path / "site", tunnel.ports)
        with albireo("--topology", str(topology), "--plc", "p1", "--rounds", "10", "--json") as process:
            assert process.stderr is not None and process.stdout is not None
            for said in process.stderr:
                if "Switch the PLC off" in said:
                    tunnel.act("p1", Restart(down_ms=100))
            answer = msgspec.json.decode(process.stdout.read().splitlines()[-1])
        assert (process.returncode, answer["verdict"], answer["plc"]) == (0, "pass", "p1")
        assert answer["settle_ms"] == 20
        assert {one["status"] for one in answer["checks"]} == {"pass"}


@pytest.mark.slow
def test_the_command_says_fail_with_the_remedy(tmp_path: Path) -> None:
    with start_tunnel(tmp_path / "tunnel") as tunnel:
        topology = patient_site(tmp_path / "site", tunnel.ports)
        tunnel.set_faults("p2", PlcFaults(others_delay_ms=LATE_MS))
        arguments = ("--topology", str(topology), "--plc", "root:p2", "--rounds", "10", "--no-power-cycle")
        with albireo(*arguments) as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert "FAIL\tother connection" in out
        assert "write settle_ms =" in out or "a lease can't hold more than" in out, "a busy machine adds to the delay"
        assert "root:p2: it must not vote" in out


@pytest.mark.slow
def test_the_command_names_what_is_missing(tmp_path: Path) -> None:
    topology = write_site(tmp_path, {"p1": 9, "p2": 9})
    cases = {"p3": (2, "root:p1"), "host": (78, "voter_address"), "p1": (69, "nc -vz 127.0.0.1 9")}
    for name, (code, remedy) in cases.items():
        with albireo("--topology", str(topology), "--plc", name) as process:
            _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, remedy in err) == (code, True), err
