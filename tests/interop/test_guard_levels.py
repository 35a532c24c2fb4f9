"""Guard levels of outputs against a PLC over TCP: what is refused, what is seen and set again, what is never sent."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from albireo.codec.message import RoleTold
from albireo.field.contract import GOES_ON, ConfigurationError, PairAdapter
from albireo.field.modbus.items import parse_row
from albireo.field.modbus.mailbox import value_of
from albireo.field.modbus.output import registers_of
from albireo.model.command import Outcome
from albireo.model.instant import MS
from albireo.model.quality import GOOD
from albireo.model.value import Value
from albireo.plant.tunnel.plc.memory import Retained
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, PLAIN_ADDRESS
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults, Restart
from albireo.runtime.actor.actor import running
from tests.parts.field import SILENCE_MS, RawDevice, comm, in_loop, registers_answer, until
from tests.parts.guard_levels import NAMES, NEW, OLD, P1, LeadingCore, modbus, row_of, write, yes
from tests.parts.plc import CYCLE_MS, PlcCycles
from tests.parts.waiting import PATIENCE_S


class Site:
    """A PLC with the guard's program, and what it carried out."""

    def __init__(self) -> None:
        self.server = PlcServer(P1, is_guarded=True)
        self.carried: list[CarriedOrder] = []
        self.server.on_carried = self.carried.append
        self.adapters: list[PairAdapter] = []

    async def adapter(self, rows: Sequence[dict[str, str]] | None = None, **more: object) -> PairAdapter:
        made = modbus(self.server.port, rows or [row_of(name) for name in NAMES], **{"guard": "plc", **more})
        await made.connect()
        self.adapters.append(made)
        return made

    def orders(self) -> list[tuple[str, float, int]]:
        return [(one.name, one.value, one.epoch) for one in self.carried]


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[Site]:
    one = Site()
    await one.server.start()
    try:
        yield one
    finally:
        for adapter in one.adapters:
            await adapter.close()
        await one.server.stop()


@pytest.mark.parametrize(
    ("name", "value"), [("speed_limit", 60), ("co_setpoint", 12.5), ("opacity_setpoint", 2.5), ("barrier_close", True)]
)
def test_an_order_goes_through_the_mailbox_and_is_read_back(name: str, value: Value) -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter()
            assert await adapter.lead(OLD) == GOES_ON
            written = await write(adapter, name, value)
            assert (written.outcome, written.read_back) == (Outcome.VERIFIED, value)
            assert one.orders() == [(name, float(value), 4)]
            assert one.carried[0].way == "mailbox"

    in_loop(story)


def test_the_first_order_of_a_new_holder_is_empty_and_refuses_the_one_before(tmp_path: Path) -> None:
    """The old holder was paused between its last look and the send; the PLC refuses what it sends then."""

    async def story() -> None:
        async with site() as one:
            old, new = await one.adapter(), await one.adapter()
            assert await old.lead(OLD) == GOES_ON
            assert (await write(old, "speed_limit", 60)).outcome is Outcome.VERIFIED
            assert await new.lead(NEW) == GOES_ON
            refused = await write(old, "speed_limit", 100)
            assert refused.outcome is Outcome.REJECTED
            assert "in favour of epoch 5" in refused.detail
            assert (await write(new, "speed_limit", 50)).outcome is Outcome.VERIFIED
            again = await write(old, "speed_limit", 100)
            assert (again.outcome, "stands at epoch 5" in again.detail) == (Outcome.REJECTED, True)
            assert one.orders() == [("speed_limit", 60.0, 4), ("speed_limit", 50.0, 5)]
            assert old.counters()["stale_orders"] == 2

    in_loop(story)


def test_an_order_of_before_a_power_cycle_is_refused_and_the_next_leads_anew() -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter()
            assert await adapter.lead(OLD) == GOES_ON
            one.server.pair.guard.restart()  # The program alone: the connection stays.
            refused = await write(adapter, "speed_limit", 60)
            assert (refused.outcome, "restarted" in refused.detail) == (Outcome.REJECTED, True)
            assert (await write(adapter, "speed_limit", 60)).outcome is Outcome.VERIFIED
            assert one.orders() == [("speed_limit", 60.0, 4)]

    in_loop(story)


@pytest.mark.slow
def test_no_answer_of_the_program_is_unknown_and_nothing_is_sent_again() -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter(timeout_ms=SILENCE_MS)
            assert await adapter.lead(OLD) == GOES_ON
            await one.server.apply(PlcFaults(is_frozen=True))
            assert (await write(adapter, "speed_limit", 60)).outcome is Outcome.UNKNOWN
            await one.server.apply(PlcFaults())
            await until(one.orders, "the order that was unknown")
            assert one.orders() == [("speed_limit", 60.0, 4)]
            assert (await write(adapter, "speed_limit", 70)).outcome is Outcome.VERIFIED
            assert [order[1] for order in one.orders()] == [60.0, 70.0]

    in_loop(story)


@pytest.mark.slow
def test_after_a_broken_connection_no_order_overtakes_the_one_without_an_answer() -> None:
    """An order of the old connection may land late: until it can't any more, none is sent over the new one."""

    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter(timeout_ms=SILENCE_MS, dead_time_ms=2 * SILENCE_MS)
            assert await adapter.lead(OLD) == GOES_ON
            await one.server.apply(PlcFaults(is_half_open=True))
            assert (await write(adapter, "speed_limit", 60)).outcome is Outcome.UNKNOWN
            await adapter.close()
            await one.server.apply(PlcFaults())
            await adapter.connect()
            refused = await write(adapter, "speed_limit", 70)
            assert (refused.outcome, "may still be on its way" in refused.detail) == (Outcome.REJECTED, True)
            deadline = asyncio.get_running_loop().time() + PATIENCE_S
            while (written := await write(adapter, "speed_limit", 80)).outcome is Outcome.REJECTED:
                assert asyncio.get_running_loop().time() < deadline, written
                await asyncio.sleep(0.01)
            assert written.outcome is Outcome.VERIFIED
            assert [order[1] for order in one.orders()] == [60.0, 80.0]

    in_loop(story)


def test_a_torn_order_is_not_applied_and_leading_survives_it() -> None:
    async def story() -> None:
        async with site() as one:
            await one.server.apply(PlcFaults(tear_ms=30))
            adapter = await one.adapter()
            led = await adapter.lead(OLD)
            written = await write(adapter, "speed_limit", 60) if led == GOES_ON else None
            assert written is None or written.outcome in (Outcome.REJECTED, Outcome.VERIFIED)
            await one.server.apply(PlcFaults())
            assert await adapter.lead(OLD) == GOES_ON
            assert (await write(adapter, "speed_limit", 70)).outcome is Outcome.VERIFIED
            assert all(value in (60.0, 70.0) for _, value, _ in one.orders())

    in_loop(story)


def test_the_last_look_is_after_the_guard_was_raised() -> None:
    """A pause while it leads: the boot number is of now, but the order's own time is looked at after that, and over."""

    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter()
            assert await adapter.lead(OLD) == GOES_ON
            await adapter.close()
            one.server.pair.guard.restart()
            await adapter.connect()
            seen: list[int] = []

            def over() -> str:
                seen.append(one.server.pair.guard.state.guard)
                return "its time has run out"

            row = [item.name for item in adapter.items].index("speed_limit")
            written = await adapter.write(row, 60, over)
            assert (written.outcome, written.detail) == (Outcome.REJECTED, "never sent: its time has run out")
            assert (seen, one.orders()) == ([OLD.epoch], [])

    in_loop(story)


def test_registers_without_a_guard_are_told_in_words() -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await one.adapter(mailbox_address=PLAIN_ADDRESS)
            assert "show no guard" in await adapter.lead(OLD)
            assert "show no guard" in (await write(adapter, "speed_limit", 60)).detail

    in_loop(story)


@pytest.mark.parametrize("order", ["", "little", "big_swap", "little_swap"])
def test_a_mailbox_takes_a_value_high_word_first_whatever_its_registers_do(order: str) -> None:
    item = parse_row({"name": "x", "kind": "holding", "address": "0", "type": "uint32", "word_order": order})
    assert not isinstance(item, list)
    assert value_of(item, registers_of(item, 0x0102_0304)) == 0x0102_0304


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kind": "holding", "address": "0"}, "needs its target"),
        ({"kind": "holding", "address": "0", "type": "float64", "target": "1"}, "32 bits"),
        ({"kind": "holding", "address": "0", "type": "string", "length": "2", "target": "1"}, "32 bits"),
    ],
)
def test_an_output_that_no_mailbox_can_hold_is_refused_at_the_start(row: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        modbus(1, [{"name": "x", "writable": "true", **row}], guard="plc")


STAMPED = [
    {"name": "out", "kind": "holding", "address": str(PLAIN_ADDRESS), "type": "uint16", "writable": "true"},
    {"name": "far", "kind": "holding", "address": str(PLAIN_ADDRESS + 10), "type": "float32", "writable": "true"},
]


def plain(one: Site, offset: int, count: int) -> list[int]:
    return one.server.pair.seen(0, one.server.pair.plain)[offset : offset + count]


async def stamped(one: Site, **more: object) -> PairAdapter:
    return await one.adapter(STAMPED, guard="stamp", mailbox_address=None, **more)


def test_value_and_stamp_are_one_write() -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await stamped(one)
            assert await adapter.lead(OLD) == GOES_ON
            assert (await write(adapter, "out", 7)).outcome is Outcome.VERIFIED
            assert [words.words for words in one.carried] == [(7, 0, 4, 1)]
            assert (await write(adapter, "far", 1.5)).outcome is Outcome.VERIFIED
            assert plain(one, 10, 5) == [0x3FC0, 0, 0, 4, 2]

    in_loop(story)


def test_a_late_order_is_seen_within_a_poll_counted_and_set_again() -> None:
    async def story() -> None:
        async with site() as one:
            old, new = await stamped(one), await stamped(one)
            await old.lead(OLD)
            await write(old, "out", 7)
            await new.lead(NEW)
            await write(new, "out", 8)
            await new.poll()
            assert (new.needs_mending, new.conditions()) == (False, {"late_order": False})
            await write(old, "out", 9)
            await new.poll()
            assert (new.needs_mending, new.conditions()) == (True, {"late_order": True})
            assert plain(one, 0, 4) == [9, 0, 4, 2]
            await new.mend(yes)
            assert plain(one, 0, 4) == [8, 0, 5, 2]
            await new.poll()
            counted = new.counters()
            assert (counted["late_orders_seen"], counted["outputs_set_again"], new.needs_mending) == (1, 1, False)

    in_loop(story)


def test_nothing_is_set_again_without_a_permit() -> None:
    async def story() -> None:
        async with site() as one:
            old, new = await stamped(one), await stamped(one)
            await old.lead(OLD)
            await new.lead(NEW)
            await write(new, "out", 8)
            await write(old, "out", 9)
            await new.poll()
            await new.mend(lambda: "this member has no permit")
            assert plain(one, 0, 1) == [9]
            await new.poll()
            assert new.needs_mending, "it stays on the list until there is one"

    in_loop(story)


def test_a_late_order_to_an_output_that_the_holder_has_not_set_is_shown_and_stays() -> None:
    async def story() -> None:
        async with site() as one:
            old, new = await stamped(one), await stamped(one)
            await old.lead(OLD)
            await write(old, "out", 7)
            await new.lead(NEW)
            await new.poll()
            assert new.conditions() == {"late_order": False}, "what was there before is no late order"
            await write(old, "out", 9)
            await new.poll()
            assert (new.needs_mending, new.conditions()) == (False, {"late_order": True})
            assert plain(one, 0, 1) == [9]

    in_loop(story)


def test_a_holder_that_was_overtaken_by_a_higher_epoch_sets_nothing_again() -> None:
    async def story() -> None:
        async with site() as one:
            old, new = await stamped(one), await stamped(one)
            await old.lead(OLD)
            await write(old, "out", 7)
            await new.lead(NEW)
            await write(new, "out", 8)
            await old.poll()
            assert (old.needs_mending, old.conditions()) == (False, {"late_order": False})

    in_loop(story)


@pytest.mark.slow
def test_an_order_without_an_outcome_is_never_written_again() -> None:
    """Its answer was lost, and the device shows another stamp: whether it was carried out nobody knows."""

    async def story() -> None:
        async with site() as one:
            old, new = (
                await stamped(one),
                await one.adapter(STAMPED, guard="stamp", mailbox_address=None, timeout_ms=SILENCE_MS),
            )
            await old.lead(OLD)
            await write(old, "out", 7)
            await new.lead(NEW)
            await one.server.apply(PlcFaults(is_half_open=True))
            assert (await write(new, "out", 8)).outcome is Outcome.UNKNOWN
            await one.server.apply(PlcFaults())
            await write(old, "out", 9)
            await new.close()
            await new.connect()
            await new.poll()
            assert not new.needs_mending
            assert plain(one, 0, 1) == [9]

    in_loop(story)


def test_a_write_that_comes_through_a_cycle_later_is_no_late_order(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = PlcCycles(monkeypatch)

    async def story() -> None:
        async with site() as one:
            adapter = await stamped(one, read_back_ms=60_000)  # It looks until the cycle is over.
            await adapter.lead(OLD)
            await write(adapter, "out", 7)
            await one.server.apply(PlcFaults(own_delay_ms=CYCLE_MS))
            setting = asyncio.create_task(write(adapter, "out", 8))
            await until(lambda: len(one.carried) == 2, "the write")
            await adapter.poll()
            assert plain(one, 0, 1) == [7], "not through yet"
            assert (adapter.needs_mending, adapter.counters()["late_orders_seen"]) == (False, 0)
            cycles.pass_one()
            assert (await setting).outcome is Outcome.VERIFIED
            await adapter.poll()
            assert (adapter.needs_mending, adapter.counters()["late_orders_seen"]) == (False, 0)

    in_loop(story)


def test_what_the_plc_lost_in_a_restart_is_not_set_again() -> None:
    async def story() -> None:
        async with site() as one:
            adapter = await stamped(one)
            await adapter.lead(OLD)
            await write(adapter, "out", 7)
            await adapter.poll()
            await one.server.act(Restart(keep=Retained.NONE, down_ms=1))
            await adapter.close()
            await adapter.connect()
            await adapter.poll()
            assert not adapter.needs_mending
            assert plain(one, 0, 4) == [0, 0, 0, 0]

    in_loop(story)


def test_a_new_run_of_the_adapter_uses_no_stamp_of_the_run_before() -> None:
    async def story() -> None:
        async with site() as one:
            first = await stamped(one)
            await first.lead(OLD)
            await write(first, "out", 7)
            second = await stamped(one)
            await second.lead(OLD)
            await write(second, "out", 8)
            assert plain(one, 0, 4) == [8, 0, 4, 2]

    in_loop(story)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"name": "c", "kind": "coil", "address": "0", "writable": "true"}], "whole holding registers"),
        (
            [
                {"name": "a", "kind": "holding", "address": "0", "writable": "true"},
                {"name": "b", "kind": "holding", "address": "3"},
            ],
            "leave these registers free",
        ),
    ],
)
def test_an_output_that_can_have_no_stamp_is_refused_at_the_start(rows: list[dict[str, str]], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        modbus(1, rows, guard="stamp")


def test_a_holder_asks_for_a_permit_and_sets_its_output_again(tmp_path: Path) -> None:
    async def story() -> None:
        core = LeadingCore(epoch=5)
        async with site() as one:
            arguments = {
                "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{one.server.port}", "items": STAMPED,
                "poll_ms": 20, "guard": "stamp",
            }  # fmt: skip
            async with running(core, tmp_path), running(comm(arguments), tmp_path):
                await until(lambda: core.last_of("out") == (0, GOOD), "a sample")
                core.tell(RoleTold(is_acting=True, epoch=5, member=1))
                core.order("w", "out", 8)
                await until(lambda: core.receipts_of("w"), "a receipt")
                assert core.receipts_of("w")[0].outcome is Outcome.VERIFIED
                old = await stamped(one)
                await old.lead(OLD)
                await write(old, "out", 9)
                await until(lambda: core.last_of("out") == (8, GOOD) and plain(one, 0, 3) == [8, 0, 5], "correction")
                await until(lambda: core.last_of("p1/late_order") == (True, GOOD), "the case")
                assert core.asked

    in_loop(story)


def test_the_guard_is_raised_before_any_order_comes(tmp_path: Path) -> None:
    async def story() -> None:
        core = LeadingCore(epoch=5)
        async with site() as one:
            arguments = {
                "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{one.server.port}", "poll_ms": 20,
                "items": [row_of("speed_limit")], "guard": "plc", "mailbox_address": MAILBOX_ADDRESS,
            }  # fmt: skip
            async with running(core, tmp_path), running(comm(arguments), tmp_path):
                await until(lambda: one.server.pair.guard.state.guard == 5, "the guard at the holder's epoch")
                assert one.carried == []
                core.tell(RoleTold(is_acting=True, epoch=7, member=1))
                await until(lambda: one.server.pair.guard.state.guard == 7, "the guard at the next epoch")
                core.epoch = 7
                core.order("w", "speed_limit", 60)
                await until(lambda: core.receipts_of("w"), "a receipt")
                assert core.receipts_of("w")[0].outcome is Outcome.VERIFIED
                assert one.carried[0].member == 1

    in_loop(story)


def test_a_pair_starts_no_write_that_its_lease_might_not_outlive(tmp_path: Path) -> None:
    """`lease`: an order that has less time left than a write may take is refused by name, and never sent."""

    async def story() -> None:
        core = LeadingCore(epoch=5)
        async with site() as one:
            arguments = {
                "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{one.server.port}", "items": STAMPED,
                "poll_ms": 20, "write_max_ms": 20_000,
            }  # fmt: skip
            async with running(core, tmp_path), running(comm(arguments), tmp_path):
                await until(lambda: core.last_of("out") == (0, GOOD), "a sample")
                core.tell(RoleTold(is_acting=True, epoch=5))
                core.order("short", "out", 1, valid_s=19.9)
                core.order("long", "out", 2, valid_s=60)
                await until(lambda: core.receipts_of("long"), "a receipt")
                assert core.receipts_of("short")[0].outcome is Outcome.REJECTED
                assert "of the lease are left" in core.receipts_of("short")[0].detail
                assert core.receipts_of("long")[0].outcome is Outcome.VERIFIED
                assert [one.words for one in one.carried] == [(2,)]

    in_loop(story)


def test_an_order_waits_until_the_holder_before_can_write_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        core = LeadingCore(epoch=5)
        async with site() as one:
            arguments = {
                "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{one.server.port}", "items": STAMPED,
                "poll_ms": 20,
            }  # fmt: skip
            async with running(core, tmp_path), running(comm(arguments), tmp_path):
                await until(lambda: core.last_of("out") == (0, GOOD), "a sample")
                from_ns = core.actor.now() + 100 * MS
                core.order("w", "out", 3, not_before=from_ns)
                await until(lambda: core.receipts_of("w"), "a receipt")
                assert core.actor.now() >= from_ns
                assert core.receipts_of("w")[0].outcome is Outcome.VERIFIED

    in_loop(story)


def test_what_a_device_does_not_take_is_given_up_by_the_kernel() -> None:
    """The bound on a late delivery is on the socket from the first tenure in a pair on, and on later ones."""

    async def story() -> None:
        async with RawDevice(lambda unit, function, request: registers_answer(request)) as device:
            adapter = modbus(device.port, STAMPED, write_max_ms=250, mailbox_address=None)
            await adapter.connect()
            assert user_timeout(adapter) == 0
            await adapter.lead(NEW)
            assert user_timeout(adapter) == 250
            await adapter.close()
            await adapter.connect()
            assert user_timeout(adapter) == 250
            await adapter.close()

    in_loop(story)


def user_timeout(adapter: PairAdapter) -> int:
    wire = adapter._wire  # type: ignore[attr-defined]  # The socket is nobody else's business.
    return int(wire._socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
