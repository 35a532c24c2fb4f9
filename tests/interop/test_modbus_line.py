"""Several units on one Modbus connection: what one of them lacks, or leaves unanswered, costs itself only."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from pymodbus.client import AsyncModbusTcpClient
from pymodbus.exceptions import ModbusIOException

from albireo.field.contract import DeviceLost
from albireo.field.modbus.answers import DataReply, Silence
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.reader import AWAY_REST, AWAY_RETRY_NS, REFUSED_RETRY_NS
from albireo.field.modbus.wire import Address, DeviceUnreachable, Wire, parse_url
from albireo.model.command import Outcome
from albireo.model.instant import MS, SECOND
from albireo.plant.unruly.device import COUNTER, Manner, UnitAsked, UnrulyDevice, UnrulyLine, frame
from albireo.plant.unruly.manners import (
    as_other_function,
    hangs_up_at,
    honest,
    lacks,
    late,
    refuses,
    silent,
    silent_about,
    without_number,
)
from tests.parts.field import in_loop
from tests.parts.name_server import SILENT, NamesOfSystem
from tests.parts.steady import run_steadily
from tests.parts.unruly import TIMEOUT_S, UnrulySite
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

SIXTY = tuple(range(60))


@pytest.mark.parametrize("retries", [0, 1, 4])
@pytest.mark.parametrize("manner", [silent, late(1.5 * TIMEOUT_S)], ids=["silent", "late"])
def test_three_silent_units_in_a_row_cost_themselves_only(retries: int, manner: Manner) -> None:
    """Also over reconnects: what was learnt of them is not forgotten."""

    async def story() -> None:
        manners = {1: manner, 2: manner, 3: manner, 4: honest, 5: honest}
        async with UnrulySite(manners, retries=retries) as site:
            asked = 0
            for number in range(40):
                asked = site.asked_of(1, 2, 3) if number == 4 else asked
                if number % 10 == 9:
                    await site.lose()
                shown = await site.poll()
                assert {place[0] for place, value in shown.items() if value is not None} == {4, 5}
                assert site.adapter.counters()["units_away"] == 3
            assert (site.losses, site.device.connections) == (0, 5)
            # Once in five seconds each, and once after each of the four new connections.
            assert site.asked_of(1, 2, 3) - asked <= 3 * (36 / 5 + 4)

    run_steadily(story())


def test_thirty_silent_units_take_no_more_than_their_share_of_the_time() -> None:
    async def story() -> None:
        manners = dict.fromkeys(range(1, 31), silent) | {31: honest}
        async with UnrulySite(manners, dict.fromkeys(manners, (0,))) as site:
            assert (await site.poll())[31, 0] is not None
            began = site.now()
            asked = site.asked_of(*range(1, 31))
            for _ in range(60):
                assert (await site.poll(period_s=0.2))[31, 0] is not None
            waited_s = (site.asked_of(*range(1, 31)) - asked) * TIMEOUT_S
            assert 0 < waited_s <= (site.now() - began) / SECOND / AWAY_REST
            assert len({one.unit for one in site.device.asked[-200:]}) > 10, "each has its turn"

    run_steadily(story())


@pytest.mark.parametrize("manner", [silent, refuses(11, TIMEOUT_S / 2)], ids=["silent", "refused"])
def test_a_unit_that_is_back_is_seen_within_its_retry(manner: Manner) -> None:
    async def story() -> None:
        async with UnrulySite({1: manner, 2: honest}) as site:
            for _ in range(8):
                await site.poll()
            site.device.manners[1] = honest
            shown = [await site.poll() for _ in range(AWAY_RETRY_NS // SECOND + 1)]
            assert all(value is not None for value in shown[-1].values())
            site.device.manners[1] = manner
            shown = [await site.poll() for _ in range(3)]
            assert {place[0] for place, value in shown[-1].items() if value is not None} == {2}

    run_steadily(story())


@pytest.mark.parametrize("code", [10, 11])
def test_a_gateway_that_is_slow_to_refuse_is_not_asked_for_every_block(code: int) -> None:
    """The unit has twelve blocks; asked for all of them, each poll would take twelve times as long as one answer."""

    async def story() -> None:
        addresses = tuple(range(0, 240, 20))
        async with UnrulySite({1: refuses(code, TIMEOUT_S / 2), 2: honest}, dict.fromkeys((1, 2), addresses)) as site:
            for _ in range(20):
                shown = await site.poll()
                assert {place[0] for place, value in shown.items() if value is not None} == {2}
            assert site.losses == 0
            assert site.asked_of(1) <= 2 + 20 / (AWAY_RETRY_NS / SECOND)

    run_steadily(story())


def test_a_gateway_without_any_unit_is_a_device_that_is_there() -> None:
    async def story() -> None:
        async with UnrulySite({1: refuses(11), 2: refuses(10)}) as site:
            for _ in range(10):
                assert set((await site.poll()).values()) == {None}
            assert (site.losses, site.device.connections) == (0, 1)

    run_steadily(story())


def test_a_line_on_which_nobody_answers_is_lost_and_found_again() -> None:
    async def story() -> None:
        async with UnrulySite({1: silent, 2: silent}) as site:
            for lost in range(1, 4):
                await site.poll()
                assert site.losses == lost
            site.device.manners[2] = honest
            shown = await site.poll()
            assert {place[0] for place, value in shown.items() if value is not None} == {2}

    run_steadily(story())


def settled(site: UnrulySite, number: int) -> int:
    """Requests of the last poll, of which `number` came before."""
    return len(site.device.asked) - number


@pytest.mark.parametrize(
    ("manner", "tries"),
    [(lacks(37), 0), (silent_about(37), 1), (hangs_up_at(37), 2)],
    ids=["refused", "silent", "hung up"],
)
def test_one_illegal_address_among_sixty_costs_one_request_more(manner: Manner, tries: int) -> None:
    """It is learnt which one; it is tried again slowly, and after a reconnect, and the rest stays in two requests."""

    async def story() -> None:
        async with UnrulySite({1: manner}, {1: (*SIXTY, COUNTER)}) as site:
            for _ in range(30):
                await site.poll()
            bare = 3  # With the block of the counter; what is silent is tried more often than what is refused.
            for _ in range(10):
                before = len(site.device.asked)
                shown = await site.poll()
                assert {place[1] for place, value in shown.items() if value is None} == {37}
                assert settled(site, before) <= bare + tries
            await site.lose()
            before = len(site.device.asked)
            shown = await site.poll()
            assert {place[1] for place, value in shown.items() if value is None} == {37}
            assert settled(site, before) <= bare + max(1, tries), "one try after a reconnect"
            site.device.manners[1] = honest
            site.pass_s(REFUSED_RETRY_NS / SECOND)
            await site.poll()
            before = len(site.device.asked)
            assert None not in (await site.poll()).values()
            assert settled(site, before) == 2, "all sixty in one request again"

    run_steadily(story())


@pytest.mark.parametrize("address", [0, 3, 37, 59])
@pytest.mark.parametrize("manner", [silent_about, hangs_up_at])
def test_a_device_whose_only_block_has_a_silent_address_is_found_out(
    address: int, manner: Callable[..., Manner]
) -> None:
    """Nothing tells it from a device that is away, but that it answers a shorter request."""

    async def story() -> None:
        async with UnrulySite({1: manner(address)}, {1: SIXTY}) as site:
            for _ in range(20):
                await site.poll()
            assert site.losses <= 8
            losses = site.losses
            for _ in range(20):
                shown = await site.poll()
                assert {place[1] for place, value in shown.items() if value is None} == {address}
            assert site.losses == losses

    run_steadily(story())


def test_a_device_that_refused_everything_is_read_again_soon_after_it_has_its_program() -> None:
    async def story() -> None:
        async with UnrulySite({1: lacks(*range(256)), 2: honest}, {1: SIXTY, 2: (0,)}) as site:
            for _ in range(10):
                shown = await site.poll()
                assert {place[0] for place, value in shown.items() if value is not None} == {2}
            asked = site.asked_of(1)
            for _ in range(10):
                await site.poll()
            assert site.asked_of(1) == asked, "not before its time"
            assert site.adapter.counters()["refused_items"] == 60
            site.device.manners[1] = honest
            site.pass_s(REFUSED_RETRY_NS / SECOND)
            await site.poll()
            assert None not in (await site.poll()).values()
            assert site.adapter.counters()["refused_items"] == 0

    run_steadily(story())


def test_each_refused_address_has_its_turn_to_be_tried_again() -> None:
    """Also those of the last unit, while the first one has more than there are polls in a minute."""

    async def story() -> None:
        everything = lacks(*range(256))
        units = {1: tuple(range(110)), 2: SIXTY, 3: (0,)}
        async with UnrulySite({1: everything, 2: everything, 3: honest}, units) as site:
            for _ in range(10):
                await site.poll()
            site.device.manners[2] = honest
            for _ in range(180):
                shown = await site.poll()
            assert {place[0] for place, value in shown.items() if value is not None} == {2, 3}

    run_steadily(story())


def test_a_connection_that_the_device_closed_between_two_polls_is_no_loss() -> None:
    """Some devices close what was idle for a while; every poll would find the device lost."""

    async def story() -> None:
        async with UnrulySite({1: honest}) as site:
            for _ in range(5):
                assert None not in (await site.poll()).values()
                site.device.reset()
                await asyncio.sleep(0.01)
            assert (site.losses, site.device.connections) == (0, 5)
            assert site.adapter.counters()["redials"] == 4

    run_steadily(story())


@pytest.mark.parametrize("away", [{2}, {1, 3}, {1, 2}])
def test_a_knock_finds_a_line_there_while_one_unit_answers(away: set[int]) -> None:
    async def story() -> None:
        manners = {unit: silent if unit in away else honest for unit in (1, 2, 3)}
        async with UnrulySite(manners) as site:
            await site.adapter.connect()
            for _ in range(12):
                await site.adapter.knock()
            assert site.asked_of(*away) < site.asked_of(*{1, 2, 3} - away)
            for unit in manners:
                site.device.manners[unit] = silent
            with pytest.raises(DeviceLost):
                await site.adapter.knock()

    run_steadily(story())


def test_a_knock_at_a_unit_that_is_silent_about_one_address_finds_it_there() -> None:
    async def story() -> None:
        async with UnrulySite({1: silent_about(3)}) as site:
            await site.adapter.connect()
            for _ in range(6):
                await site.adapter.knock()

    run_steadily(story())


async def resets_in_the_middle(asked: UnitAsked, line: UnrulyLine) -> None:
    """Half of the answer, and RST."""
    line.send(frame(asked, line.device.answer(asked))[:9])
    line.reset()


async def hangs_up_in_the_middle(asked: UnitAsked, line: UnrulyLine) -> None:
    line.send(frame(asked, line.device.answer(asked))[:9])
    line.close()


async def resets_after_each(asked: UnitAsked, line: UnrulyLine) -> None:
    await honest(asked, line)
    line.reset()


async def hangs_up_at_once(asked: UnitAsked, line: UnrulyLine) -> None:
    line.close()


@pytest.mark.parametrize(
    ("manner", "is_read"),
    [
        (resets_in_the_middle, False),
        (hangs_up_in_the_middle, False),
        (hangs_up_at_once, False),
        (resets_after_each, True),
    ],
)
def test_a_unit_that_ends_connections_costs_itself_only(manner: Manner, is_read: bool) -> None:
    """Its neighbours on the same connection are good in every poll; what came in halves is never a value."""

    async def story() -> None:
        async with UnrulySite({1: honest, 2: manner, 3: honest}, dict.fromkeys((1, 2, 3), (0, 1, 2))) as site:
            for _ in range(8):
                shown = await site.poll()
                good = {place: value for place, value in shown.items() if value is not None}
                assert {place[0] for place in good} >= {1, 3}
                assert all(site.is_right(place, value) for place, value in good.items())
            assert {place[0] for place in good} == ({1, 2, 3} if is_read else {1, 3})
            assert site.losses == 0

    run_steadily(story())


def test_units_from_0_to_255_are_read_and_written_as_their_own() -> None:
    """0 is the unit of many devices without a line behind them, 255 that of a gateway itself, 248 a reserved one."""
    units = (0, 1, 247, 248, 255)

    async def story() -> None:
        async with UnrulySite(dict.fromkeys(units, honest), dict.fromkeys(units, (7,))) as site:
            assert (await site.poll()) == {(unit, 7): site.device.holds(unit, 7) for unit in units}
            for row, unit in enumerate(units):
                written = await site.adapter.write(row, 1_000 + unit, lambda: "")
                assert (written.outcome, written.read_back) == (Outcome.VERIFIED, 1_000 + unit)
            assert (await site.poll()) == {(unit, 7): 1_000 + unit for unit in units}

    run_steadily(story())


def test_a_late_answer_to_a_write_is_taken_for_no_other_write() -> None:
    """The answer to the first write comes while the second one, of the same value to the same register, is silent."""

    async def answers_the_first_late(asked: UnitAsked, line: UnrulyLine) -> None:
        if asked.function != 6:
            await honest(asked, line)
        elif not writes:
            line.send_later(1.5 * TIMEOUT_S, frame(asked, line.device.answer(asked)))
        writes.append(asked.function)

    writes: list[int] = []

    async def story() -> None:
        async with UnrulySite({1: answers_the_first_late}, {1: (0, 1)}) as site:
            await site.poll()
            writes.clear()
            outcomes = [(await site.adapter.write(0, 9, lambda: "")).outcome for _ in range(2)]
            assert outcomes == [Outcome.UNKNOWN, Outcome.UNKNOWN]
            assert (await site.poll()) == {(1, 0): 9, (1, 1): 257}
            assert (site.losses, site.device.connections) == (0, 1)

    run_steadily(story())


def test_the_answer_to_the_question_before_is_no_answer_to_this_one() -> None:
    """Each answer comes during the next request, under its own number: no value is ever another register's."""

    async def one_behind(asked: UnitAsked, line: UnrulyLine) -> None:
        kept.append(frame(asked, line.device.answer(asked)))
        if len(kept) > 1:
            line.send(kept.pop(0))

    kept: list[bytes] = []

    async def story() -> None:
        async with UnrulySite({1: one_behind, 2: honest}, {1: (0, 60, 120), 2: (0,)}) as site:
            for _ in range(6):
                shown = await site.poll()
                assert {place for place, value in shown.items() if value is not None} == {(2, 0)}
            assert shown[2, 0] == site.device.holds(2, 0)

    run_steadily(story())


def test_a_device_behind_an_ipv6_literal_is_read_and_written() -> None:
    async def story() -> None:
        device = UnrulyDevice({1: honest})
        await device.start("::1")
        wire = Wire(parse_url(f"tcp://[::1]:{device.port}"), int(PATIENCE_S * SECOND))
        await wire.connect()
        assert await wire.write_registers(1, 7, [9], lambda: "") == DataReply(b"")
        assert await wire.read(TableKind.HOLDING, 1, 7, 1) == DataReply(b"\0\x09")
        await wire.closed()
        await device.stop()

    in_loop(story)


# What pymodbus does by itself; docs/deviations.md has each in a row. A test that fails here says that the row is old.

SILENT_UNTIL_CLOSED = 5
"""Requests in a row without an answer after which pymodbus closes a connection, with retries = 0: one more than its
count of `retries + 3` can be taken down below zero."""


def with_client(
    story: Callable[[UnrulyDevice, AsyncModbusTcpClient], Coroutine[None, None, None]], timeout_s: float = PATIENCE_S
) -> None:
    async def whole() -> None:
        device = UnrulyDevice({1: silent, 2: honest})
        await device.start()
        client = AsyncModbusTcpClient("127.0.0.1", port=device.port, timeout=PATIENCE_S, retries=0, reconnect_delay=0)
        assert await client.connect()
        client.ctx.comm_params.timeout_connect = timeout_s  # That of answers, too; a busy machine connects late.
        try:
            await story(device, client)
        finally:
            client.close()
            await device.stop()

    in_loop(whole)


def test_pymodbus_closes_a_connection_after_five_silences() -> None:
    async def story(device: UnrulyDevice, client: AsyncModbusTcpClient) -> None:
        for silences in range(1, SILENT_UNTIL_CLOSED + 1):
            with pytest.raises(ModbusIOException):
                await client.read_holding_registers(0, count=1, device_id=1)
            assert client.connected == (silences < SILENT_UNTIL_CLOSED)

    with_client(story, timeout_s=0.02)


def test_each_address_of_a_devices_name_is_tried_and_a_silent_name_server_holds_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = NamesOfSystem(monkeypatch)
    system.answers |= {"plc.wire": ("::1", "127.0.0.1"), "mute.wire": SILENT}

    async def story() -> None:
        device = UnrulyDevice({1: honest})
        await device.start()
        wire = Wire(Address("plc.wire", device.port), int(PATIENCE_S * SECOND))
        await wire.connect()
        assert isinstance(await wire.read(TableKind.HOLDING, 1, 7, 1), DataReply)
        with pytest.raises(DeviceUnreachable, match=r"mute\.wire stands for nothing here"):
            await Wire(Address("mute.wire", device.port), 20 * MS).connect()
        system.goes_on.set()
        await wire.closed()
        await device.stop()

    in_loop(story)


def test_a_wire_stays_however_many_requests_are_not_answered() -> None:
    async def story() -> None:
        device = UnrulyDevice({1: silent, 2: honest})
        await device.start()
        wire = Wire(Address("127.0.0.1", device.port), int(PATIENCE_S * SECOND))
        await wire.connect()
        for _ in range(4 * SILENT_UNTIL_CLOSED):
            assert isinstance(await wire.read(TableKind.HOLDING, 1, 0, 1, 20 * MS), Silence)
        assert wire.is_connected
        assert device.connections == 1
        await wire.closed()
        await device.stop()

    in_loop(story)


def test_pymodbus_takes_the_answer_to_another_function() -> None:
    async def story(device: UnrulyDevice, client: AsyncModbusTcpClient) -> None:
        device.manners[2] = as_other_function
        reply = await client.read_holding_registers(0, count=1, device_id=2)
        assert (reply.function_code, reply.isError()) == (4, False)

    with_client(story)


def test_pymodbus_takes_an_answer_without_a_number() -> None:
    async def story(device: UnrulyDevice, client: AsyncModbusTcpClient) -> None:
        device.manners[2] = without_number
        assert not (await client.read_holding_registers(0, count=1, device_id=2)).isError()

    with_client(story)
