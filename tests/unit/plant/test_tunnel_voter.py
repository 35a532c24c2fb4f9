"""What a PLC of the tunnel holds for a pair, asked by pymodbus' own client over TCP: votes, mailboxes, faults."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pymodbus.client import AsyncModbusTcpClient

from albireo.machine.output.mailbox import (
    MAILBOX_REGISTERS,
    RAISE_ONLY,
    MailboxAnswer,
    MailboxOrder,
    Result,
    decode_answer,
    decode_status,
    encode_order,
)
from albireo.plant.tunnel.plc.memory import Retained, WordStore
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, PLAIN_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.registers import value_of
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults, ResetConnections, Restart, ZeroVoter
from tests.parts.plc import CYCLE_MS, PlcCycles
from tests.parts.steady import run_steadily
from tests.parts.waiting import PATIENCE_S

P1 = PLCS["p1"]
STATUS = MAILBOX_ADDRESS + 2 * MAILBOX_REGISTERS
LATE_MS = 150
"""Of a fault that is to be seen: longer than a few requests."""
TARGETS = {one.name: number for number, one in enumerate(P1.writable, 1)}


class Site:
    """A PLC and clients on it."""

    def __init__(self, server: PlcServer) -> None:
        self.server = server
        self.clients: list[AsyncModbusTcpClient] = []
        self.carried: list[CarriedOrder] = []
        server.on_carried = self.carried.append

    async def client(self) -> AsyncModbusTcpClient:
        client = AsyncModbusTcpClient(
            "127.0.0.1", port=self.server.port, timeout=PATIENCE_S, retries=0, reconnect_delay=0
        )
        await client.connect()
        self.clients.append(client)
        return client


@asynccontextmanager
async def plc(
    faults: PlcFaults | None = None, store: WordStore | None = None, *, guarded: bool = False
) -> AsyncIterator[Site]:
    site = Site(PlcServer(P1, store=store, is_guarded=guarded))
    await site.server.apply(faults or PlcFaults())
    try:
        yield site
    finally:
        for client in site.clients:
            client.close()
        await site.server.stop()


def scenario(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Runs an async test in a loop of its own."""

    def run() -> None:
        run_steadily(test())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def read(client: AsyncModbusTcpClient, address: int, count: int) -> list[int]:
    answer = await client.read_holding_registers(address, count=count)
    assert not answer.isError(), answer
    return list(answer.registers)


async def write(client: AsyncModbusTcpClient, address: int, words: list[int]) -> None:
    answer = await client.write_registers(address, words)
    assert not answer.isError(), answer


async def until(client: AsyncModbusTcpClient, address: int, words: list[int]) -> float:
    """Reads until the registers hold `words`; seconds that took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(PATIENCE_S):
        while await read(client, address, len(words)) != words:
            pass
    return loop.time() - begun


async def broken(client: AsyncModbusTcpClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while client.connected:  # noqa: ASYNC110  # pymodbus offers no event for a lost connection.
            await asyncio.sleep(0.005)


async def answer_to(client: AsyncModbusTcpClient, order: MailboxOrder, member: int = 0) -> MailboxAnswer:
    """Sends an order and reads until the PLC's program has answered it."""
    first = MAILBOX_ADDRESS + member * MAILBOX_REGISTERS
    await write(client, first, list(encode_order(order)))
    async with asyncio.timeout(PATIENCE_S):
        while (answer := decode_answer(await read(client, first, MAILBOX_REGISTERS))).done != order.count:
            pass
    return answer


async def boot_of(client: AsyncModbusTcpClient) -> int:
    return decode_status(await read(client, STATUS, 4)).boot


@scenario
async def test_anybody_writes_both_blocks_and_all_see_it_at_once() -> None:
    async with plc() as site:
        one, two = await site.client(), await site.client()
        assert await read(one, VOTER_ADDRESS, 64) == [0] * 64
        words = list(range(1, 65))
        await write(one, VOTER_ADDRESS, words)
        assert await read(two, VOTER_ADDRESS, 64) == words
        await write(two, VOTER_ADDRESS + 32, [7] * 19)
        assert (await read(one, VOTER_ADDRESS, 64))[30:52] == [31, 32, *[7] * 19, 52]


@scenario
async def test_registers_beside_the_areas_are_refused() -> None:
    async with plc() as site:
        client = await site.client()
        for address, count in ((VOTER_ADDRESS - 1, 2), (VOTER_ADDRESS + 63, 2), (MAILBOX_ADDRESS + 27, 2)):
            assert (await client.read_holding_registers(address, count=count)).exception_code == 2
            assert (await client.write_registers(address, [1] * count)).exception_code == 2


@scenario
async def test_a_write_is_seen_by_its_own_connection_first() -> None:
    async with plc(PlcFaults(others_delay_ms=LATE_MS)) as site:
        one, two = await site.client(), await site.client()
        await write(one, VOTER_ADDRESS, [5] * 19)
        assert await read(one, VOTER_ADDRESS, 19) == [5] * 19
        assert await read(two, VOTER_ADDRESS, 19) == [0] * 19
        assert await until(two, VOTER_ADDRESS, [5] * 19) > LATE_MS / 2_000


@scenario
async def test_a_write_may_be_answered_before_anybody_sees_it() -> None:
    async with plc(PlcFaults(own_delay_ms=LATE_MS)) as site:
        client = await site.client()
        await write(client, VOTER_ADDRESS, [5] * 19)
        assert await read(client, VOTER_ADDRESS, 19) == [0] * 19
        await until(client, VOTER_ADDRESS, [5] * 19)


@scenario
async def test_a_torn_write_is_seen_in_two_halves() -> None:
    async with plc(PlcFaults(tear_ms=LATE_MS)) as site:
        one, two = await site.client(), await site.client()
        writing = asyncio.create_task(write(one, VOTER_ADDRESS, [5] * 20))
        await until(two, VOTER_ADDRESS, [5] * 10 + [0] * 10)
        assert not writing.done()
        await writing
        assert await read(two, VOTER_ADDRESS, 20) == [5] * 20


@scenario
async def test_a_late_write_lands_after_its_connection_was_reset() -> None:
    """What `dead_time` waits for: the connection is gone, its write is not."""
    async with plc(PlcFaults(others_delay_ms=LATE_MS)) as site:
        one = await site.client()
        await write(one, VOTER_ADDRESS, [5] * 19)
        await site.server.act(ResetConnections())
        await broken(one)
        two = await site.client()
        assert await read(two, VOTER_ADDRESS, 19) == [0] * 19
        await until(two, VOTER_ADDRESS, [5] * 19)


@pytest.mark.parametrize(("keep", "left"), [(Retained.ALL, 5), (Retained.NONE, 0)])
def test_a_power_cycle_keeps_all_or_nothing_and_changes_the_boot_number(keep: Retained, left: int) -> None:
    async def cycled() -> None:
        async with plc() as site:
            one = await site.client()
            boot = await boot_of(one)
            await write(one, VOTER_ADDRESS, [5] * 64)
            await site.server.act(Restart(keep=keep, down_ms=1))
            two = await site.client()
            assert await read(two, VOTER_ADDRESS, 64) == [left] * 64
            assert await boot_of(two) == boot + 1

    run_steadily(cycled())


def test_memory_saved_now_and_then_comes_back_older(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = PlcCycles(monkeypatch)

    async def restarted() -> None:
        async with plc() as site:
            one = await site.client()
            for value in (4, 5):
                await write(one, VOTER_ADDRESS, [value] * 64)
                cycles.pass_one()
            await site.server.act(Restart(keep=Retained.OLD, age_ms=CYCLE_MS * 3 // 2, down_ms=0))
            assert await read(await site.client(), VOTER_ADDRESS, 64) == [4] * 64

    run_steadily(restarted())


@scenario
async def test_a_power_cycle_forgets_what_nobody_else_has_seen() -> None:
    async with plc(PlcFaults(others_delay_ms=60_000)) as site:
        one = await site.client()
        await write(one, VOTER_ADDRESS, [5] * 19)
        await site.server.act(Restart(down_ms=1))
        assert await read(await site.client(), VOTER_ADDRESS, 19) == [0] * 19


@scenario
async def test_zeroing_the_voter_leaves_the_rest_alone() -> None:
    async with plc() as site:
        client = await site.client()
        boot = await boot_of(client)
        await write(client, VOTER_ADDRESS, [5] * 64)
        await write(client, PLAIN_ADDRESS, [6] * 5)
        await site.server.act(ZeroVoter())
        assert await read(client, VOTER_ADDRESS, 64) == [0] * 64
        assert await read(client, PLAIN_ADDRESS, 5) == [6] * 5
        assert await boot_of(client) == boot


@scenario
async def test_further_clients_are_turned_away() -> None:
    async with plc(PlcFaults(connections_max=2)) as site:
        one, two = await site.client(), await site.client()
        await read(one, VOTER_ADDRESS, 1)
        await read(two, VOTER_ADDRESS, 1)
        await broken(await site.client())
        await read(one, VOTER_ADDRESS, 1)


@scenario
async def test_an_order_reaches_its_output() -> None:
    async with plc(guarded=True) as site:
        client = await site.client()
        boot = await boot_of(client)
        (pattern,) = struct.unpack(">I", struct.pack(">f", 9.5))
        orders = (("vent_stage_set", 2, 2.0), ("opacity_setpoint", pattern, 9.5), ("barrier_close", 1, 1.0))
        for count, (name, value, wanted) in enumerate(orders, 1):
            order = MailboxOrder(count=count, epoch=4, boot=boot, target=TARGETS[name], value=value)
            assert await answer_to(client, order) == MailboxAnswer(count, Result.DONE)
            assert site.server.held[name] == wanted
            assert site.carried[-1] == CarriedOrder(way="mailbox", name=name, value=wanted, member=0, epoch=4)
        stage = next(one for one in P1.writable if one.name == "opacity_setpoint")
        assert value_of(await read(client, stage.address, stage.words), stage) == 9.5
        assert decode_status(await read(client, STATUS, 4)).guard == 4


@scenario
async def test_an_order_of_a_lower_epoch_is_refused_once_the_other_raised_the_guard() -> None:
    async with plc(guarded=True) as site:
        client = await site.client()
        boot = await boot_of(client)
        assert (
            await answer_to(client, MailboxOrder(count=1, epoch=4, boot=boot, target=RAISE_ONLY))
        ).result is Result.DONE
        assert (await answer_to(client, MailboxOrder(count=1, epoch=7, boot=boot), member=1)).result is Result.DONE
        late = MailboxOrder(count=2, epoch=4, boot=boot, target=TARGETS["vent_stage_set"], value=3)
        assert (await answer_to(client, late)).result is Result.STALE
        assert site.carried == []


@scenario
async def test_an_order_from_before_a_restart_is_refused_after_it() -> None:
    async with plc(guarded=True) as site:
        one = await site.client()
        boot = await boot_of(one)
        await site.server.act(Restart(down_ms=1))
        two = await site.client()
        order = MailboxOrder(count=1, epoch=4, boot=boot, target=TARGETS["vent_stage_set"], value=3)
        assert (await answer_to(two, order)).result is Result.STALE
        assert (await answer_to(two, MailboxOrder(count=2, epoch=4, boot=await boot_of(two)))).result is Result.DONE


@scenario
async def test_a_torn_order_is_bad_and_never_carried_out() -> None:
    async with plc(PlcFaults(tear_ms=LATE_MS), guarded=True) as site:
        client = await site.client()
        order = MailboxOrder(count=1, epoch=4, boot=await boot_of(client), target=TARGETS["vent_stage_set"], value=3)
        assert (await answer_to(client, order)).result is Result.BAD
        assert site.carried == []


@scenario
async def test_an_order_waits_while_the_program_stands_still() -> None:
    async with plc(guarded=True) as site:
        client = await site.client()
        boot = await boot_of(client)
        await site.server.apply(PlcFaults(is_frozen=True))
        order = MailboxOrder(count=1, epoch=4, boot=boot, target=TARGETS["vent_stage_set"], value=3)
        await write(client, MAILBOX_ADDRESS, list(encode_order(order)))
        assert await read(client, MAILBOX_ADDRESS + 10, 2) == [0, 0]
        assert site.carried == []
        await site.server.apply(PlcFaults())
        await until(client, MAILBOX_ADDRESS + 10, [1, Result.DONE])


@scenario
async def test_a_value_out_of_range_does_not_reach_the_output() -> None:
    """The guard passes it on; what the program does not take shows in the read-back."""
    async with plc(guarded=True) as site:
        client = await site.client()
        before = site.server.held["vent_stage_set"]
        order = MailboxOrder(count=1, epoch=4, boot=await boot_of(client), target=TARGETS["vent_stage_set"], value=99)
        assert (await answer_to(client, order)).result is Result.DONE
        assert site.server.held["vent_stage_set"] == before


@scenario
async def test_a_guarded_plc_takes_no_plain_write_and_another_one_does() -> None:
    stage = next(one for one in P1.writable if one.name == "vent_stage_set")
    async with plc(guarded=True) as site:
        client = await site.client()
        assert (await client.write_register(stage.address, 2)).exception_code == 2
        assert (await client.write_coil(0, True)).exception_code == 2
    async with plc() as site:
        client = await site.client()
        assert not (await client.write_register(stage.address, 2)).isError()
        assert site.carried == [CarriedOrder(way="register", name="vent_stage_set", value=2.0)]


@scenario
async def test_a_plain_output_with_its_stamp_is_noted_as_written() -> None:
    async with plc() as site:
        client = await site.client()
        await write(client, PLAIN_ADDRESS + 8, [1, 2, 0, 4, 9])
        assert site.carried == [CarriedOrder(way="plain", name=str(PLAIN_ADDRESS + 8), words=(1, 2, 0, 4, 9))]


def test_registers_and_boot_number_outlive_the_process(tmp_path: Path) -> None:
    async def life(words: list[int]) -> tuple[list[int], int]:
        async with plc(store=WordStore(tmp_path / "p1.retained")) as site:
            client = await site.client()
            found = await read(client, VOTER_ADDRESS, 64), await boot_of(client)
            await write(client, VOTER_ADDRESS, words)
            return found

    first, second = asyncio.run(life([3] * 64)), asyncio.run(life([4] * 64))
    assert first == ([0] * 64, 1)
    assert second == ([3] * 64, 2)
