"""COMM with the Modbus adapter: real runtime, real sockets, pymodbus' server as the device."""

import asyncio
import gc
import struct
import tracemalloc
from pathlib import Path

import pytest

from albireo.field.comm import Comm
from albireo.model.command import Outcome
from albireo.model.quality import (
    BAD_CONFIGURATION_ERROR,
    BAD_NO_COMMUNICATION,
    BAD_SENSOR_FAILURE,
    BAD_WAITING_FOR_INITIAL_DATA,
    GOOD,
)
from albireo.model.value import Value
from albireo.runtime.actor.actor import run_actor, running
from albireo.runtime.errors import ConfigurationRefused
from tests.parts.field import (
    LONG_MS,
    SILENCE_MS,
    RawDevice,
    RecordingCore,
    Respond,
    comm,
    in_loop,
    plc,
    registers_answer,
    until,
)
from tests.parts.port import free_port

ROWS = [
    {"name": "co", "kind": "input", "address": "0", "type": "float32", "dead_band": "0.5"},
    {"name": "count", "kind": "holding", "address": "10", "type": "uint32", "word_order": "little"},
    {
        "name": "set_point",
        "kind": "holding",
        "address": "20",
        "type": "int16",
        "scale": "0.1",
        "writable": "true",
        "minimum": "-50",
        "maximum": "50",
    },
    {"name": "fan", "kind": "coil", "address": "3", "writable": "true"},
    {"name": "door", "kind": "discrete", "address": "5"},
    {"name": "ready", "kind": "holding", "address": "30", "type": "bool", "bit": "4", "writable": "true"},
    {"name": "label", "kind": "holding", "address": "40", "type": "string", "length": "8", "writable": "true"},
]


def arguments(port: int, **more: object) -> dict[str, object]:
    return {
        "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{port}", "items": ROWS,
        "poll_ms": 20, "timeout_ms": LONG_MS, **more,
    }  # fmt: skip


def float_registers(value: float) -> list[int]:
    return list(struct.unpack(">HH", struct.pack(">f", value)))


def test_values_of_every_kind_reach_core(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with plc() as device, running(core, tmp_path):
            await device.set(4, 0, float_registers(21.5))
            await device.set(3, 10, [0x0001, 0x0002])
            await device.set(3, 20, [0xFFFF])
            await device.set(2, 5, [True])
            await device.set(3, 30, [1 << 4])
            await device.set(3, 40, [0x6162, 0x6300, 0, 0])
            async with running(comm(arguments(device.port)), tmp_path):
                await until(lambda: core.last_of("label") == ("abc", GOOD), "a text")
                assert core.history("co") == [(0.0, BAD_WAITING_FOR_INITIAL_DATA), (21.5, GOOD)]
                assert core.last_of("count") == (0x0002_0001, GOOD)
                assert core.last_of("set_point") == (-0.1, GOOD)
                assert core.last_of("fan") == (False, GOOD)
                assert core.last_of("door") == (True, GOOD)
                assert core.last_of("ready") == (True, GOOD)
                await until(lambda: core.last_of("p1/connected") == (True, GOOD), "word of the connection")

    in_loop(story)


WRITES: list[tuple[str, Value]] = [("set_point", 12.3), ("fan", True), ("ready", True), ("label", "Röhre 1")]


def test_a_write_is_read_back(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with plc() as device, running(core, tmp_path), running(comm(arguments(device.port)), tmp_path):
            await until(lambda: core.last_of("fan") == (False, GOOD))
            for name, value in WRITES:
                core.order(name, name, value)
            await until(lambda: len(core.receipts) == len(WRITES), "receipts")
            for receipt, (name, value) in zip(core.receipts, WRITES, strict=True):
                assert (receipt.command_id, receipt.outcome) == (name, Outcome.VERIFIED), receipt
                assert receipt.read_back == (pytest.approx(value) if isinstance(value, float) else value)
                assert receipt.ack_guid
            assert await device.get(3, 20, 1) == [123]
            assert await device.get(3, 30, 1) == [1 << 4]

    in_loop(story)


def test_what_was_read_back_is_a_reading_long_before_the_next_poll(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with (
            plc() as device,
            running(core, tmp_path),
            running(comm(arguments(device.port, poll_ms=LONG_MS)), tmp_path),
        ):
            await until(lambda: core.last_of("fan") == (False, GOOD))
            for name, value in WRITES:
                core.order(name, name, value)
            await until(lambda: len(core.receipts) == len(WRITES), "receipts")
            for name, value in WRITES:
                shown = pytest.approx(value) if isinstance(value, float) else value
                await until(lambda name=name, shown=shown: core.last_of(name) == (shown, GOOD), name)  # type: ignore[misc]

    in_loop(story)


def test_a_lost_device_marks_every_item_once_and_its_return_leaves_a_gap(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with plc() as device, running(core, tmp_path), running(comm(arguments(device.port)), tmp_path):
            await device.set(4, 0, float_registers(7.0))
            await until(lambda: core.last_of("co") == (7.0, GOOD))
            await device.stop()
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            for row in ROWS:
                assert [quality for _, quality in core.history(row["name"])].count(BAD_NO_COMMUNICATION) == 1
            assert core.last_of("co") == (7.0, BAD_NO_COMMUNICATION)
            await device.start()
            await until(lambda: core.last_of("co") == (0.0, GOOD))
            await until(lambda: core.gaps)
            (gap,) = core.gaps
            assert gap.reason == "device_lost"
            assert gap.from_ns < gap.to_ns
            assert len(gap.item_ids) == len(ROWS)

    in_loop(story)


COUNTER = [{"name": "count", "kind": "holding", "address": "0", "type": "uint16", "writable": "true"}]


def raw_arguments(port: int, rows: list[dict[str, str]] = COUNTER, **more: object) -> dict[str, object]:
    return {**arguments(port), "items": rows, **more}


def counting() -> Respond:
    """Each read of a register gives the next number."""
    seen = 0

    def respond(unit: int, function: int, request: bytes) -> bytes:
        nonlocal seen
        seen += 1
        return registers_answer(request, seen)

    return respond


@pytest.mark.slow
def test_a_core_that_is_killed_and_comes_back_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with RawDevice(counting()) as device:
            first = RecordingCore(epoch=1)
            async with running(first, tmp_path):
                adapter = asyncio.create_task(run_actor(comm(raw_arguments(device.port)), tmp_path))
                await until(lambda: len(first.history("count")) > 10)
                first.is_deaf = True
                await until(lambda: len(device.requests) > 30)
            second = RecordingCore(epoch=2)
            second.last, second.items, second.batches = first.last, first.items, list(first.batches)
            async with running(second, tmp_path):
                await until(lambda: second.hellos, "hello to the new core")
                await until(lambda: len(second.history("count")) > 60)
                adapter.cancel()
                await asyncio.gather(adapter, return_exceptions=True)
            values = [value for value, quality in second.history("count") if quality == GOOD]
            assert values == list(range(1, len(values) + 1))

    in_loop(story)


def test_an_order_with_a_known_id_is_answered_and_not_carried_out_again(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with plc() as device, running(core, tmp_path), running(comm(arguments(device.port)), tmp_path):
            await until(lambda: core.last_of("fan") == (False, GOOD))
            core.order("a", "fan", True)
            await until(lambda: core.receipts_of("a"))
            core.order("a", "fan", False)
            await until(lambda: len(core.receipts_of("a")) == 2)
            one, other = core.receipts_of("a")
            assert one == other
            assert await device.get(1, 3, 1) == [True]
            assert device.writes == 1

    in_loop(story)


def test_orders_of_an_old_epoch_too_late_or_for_others_are_never_sent(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore(epoch=4)
        async with plc() as device, running(core, tmp_path), running(comm(arguments(device.port)), tmp_path):
            await until(lambda: core.last_of("fan") == (False, GOOD))
            core.order("old", "fan", True, epoch=3)
            core.order("late", "fan", True, valid_s=0)
            core.order("other", "p1/connected", False)
            core.order("fixed", "co", 5.0)
            core.order("large", "set_point", 51.0)
            core.order("small", "set_point", -51.0)
            await until(lambda: len(core.receipts) == 6)
            expired = {one.command_id for one in core.receipts if one.outcome is Outcome.EXPIRED}
            rejected = {one.command_id for one in core.receipts if one.outcome is Outcome.REJECTED}
            assert (expired, len(rejected)) == ({"late"}, 5)
            assert device.writes == 0

    in_loop(story)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["silence", "hang up"])
def test_a_write_without_an_answer_is_unknown_and_never_repeated(tmp_path: Path, answer: str) -> None:
    async def story() -> None:
        def respond(unit: int, function: int, request: bytes) -> bytes | None:
            if function == 3:
                return registers_answer(request)
            if answer == "hang up":
                device.hang_up()
            return None

        core = RecordingCore()
        device = RawDevice(respond)
        patience = raw_arguments(device.port, timeout_ms=SILENCE_MS)
        async with device, running(core, tmp_path), running(comm(patience), tmp_path):
            await until(lambda: core.last_of("count") == (7, GOOD))
            core.order("a", "count", 9)
            await until(lambda: core.receipts_of("a"))
            assert core.receipts_of("a")[0].outcome is Outcome.UNKNOWN
            polled = len(device.requests)
            await until(lambda: len(device.requests) > polled + 5, "polls after the write")
            assert [function for _, function, _ in device.requests].count(6) == 1

    in_loop(story)


def test_another_value_read_back_is_a_mismatch(tmp_path: Path) -> None:
    async def story() -> None:
        def respond(unit: int, function: int, request: bytes) -> bytes:
            return registers_answer(request) if function == 3 else bytes([function]) + request[:4]

        core = RecordingCore()
        device = RawDevice(respond)
        async with device, running(core, tmp_path), running(comm(raw_arguments(device.port)), tmp_path):
            await until(lambda: core.last_of("count") == (7, GOOD))
            core.order("a", "count", 9)
            await until(lambda: core.receipts_of("a"))
            (receipt,) = core.receipts_of("a")
            assert (receipt.outcome, receipt.read_back) == (Outcome.MISMATCHED, 7)

    in_loop(story)


@pytest.mark.parametrize(("code", "outcome"), [(2, "rejected"), (6, "rejected"), (4, "unknown"), (11, "unknown")])
def test_an_exception_to_a_write_says_whether_it_may_have_happened(tmp_path: Path, code: int, outcome: str) -> None:
    async def story() -> None:
        def respond(unit: int, function: int, request: bytes) -> bytes:
            return registers_answer(request) if function == 3 else bytes([function | 0x80, code])

        core = RecordingCore()
        device = RawDevice(respond)
        async with device, running(core, tmp_path), running(comm(raw_arguments(device.port)), tmp_path):
            await until(lambda: core.last_of("count") == (7, GOOD))
            core.order("a", "count", 9)
            await until(lambda: core.receipts_of("a"))
            assert core.receipts_of("a")[0].outcome.value == outcome

    in_loop(story)


@pytest.mark.slow
def test_a_half_open_connection_is_found_by_its_silence(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        device = RawDevice(counting())
        patience = raw_arguments(device.port, timeout_ms=SILENCE_MS)
        async with device, running(core, tmp_path), running(comm(patience), tmp_path):
            await until(lambda: core.last_of("p1/connected") == (True, GOOD))
            device.respond = lambda unit, function, request: None
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            last = core.last_of("count")
            assert last is not None
            assert last[1] == BAD_NO_COMMUNICATION
            device.respond = counting()
            await until(lambda: core.last_of("p1/connected") == (True, GOOD))
            await until(lambda: len(core.gaps) == 1)

    in_loop(story)


GARBAGE = [b"\xff" * 300, b"\0\1\0\0\0\3\1\x03\xff", bytes(9), b"\0\1\0\0\0\2\1\x63", b"HTTP/1.1 400 Bad\r\n\r\n"]


@pytest.mark.slow
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_survived_and_never_becomes_a_value(tmp_path: Path, garbage: bytes) -> None:
    async def story() -> None:
        core = RecordingCore()
        device = RawDevice(lambda unit, function, request: registers_answer(request))
        impatience = raw_arguments(
            device.port, timeout_ms=150
        )  # Some garbage is silence; more of that changes nothing.
        async with device, running(core, tmp_path), running(comm(impatience), tmp_path):
            await until(lambda: core.last_of("count") == (7, GOOD))
            device.garbage = garbage
            await until(lambda: not device.garbage)
            polled = len(device.requests)
            await until(lambda: len(device.requests) > polled + 5, "polls afterwards")
            await until(lambda: core.last_of("count") == (7, GOOD))
            assert {value for value, quality in core.history("count") if quality == GOOD} == {7}

    in_loop(story)


def test_one_wrong_address_blinds_nobody_but_itself(tmp_path: Path) -> None:
    async def story() -> None:
        rows = [
            {"name": f"r{address}", "kind": "holding", "address": str(address)} for address in (190, 195, 199, 202, 205)
        ]
        core = RecordingCore()
        async with (
            plc() as device,
            running(core, tmp_path),
            running(comm(raw_arguments(device.port, rows)), tmp_path),
        ):
            await device.set(3, 190, [11])
            await until(lambda: core.last_of("r190") == (11, GOOD))
            await until(lambda: core.last_of("r205") == (0, BAD_CONFIGURATION_ERROR))
            await until(lambda: core.last_of("r202") == (0, BAD_CONFIGURATION_ERROR))
            assert core.last_of("r199") == (0, GOOD)
            await until(lambda: core.last_of("p1/refused_items") == (2, GOOD))

    in_loop(story)


@pytest.mark.slow
def test_a_silent_unit_on_a_line_does_not_take_the_others_along(tmp_path: Path) -> None:
    async def story() -> None:
        def respond(unit: int, function: int, request: bytes) -> bytes | None:
            return registers_answer(request, unit) if unit in answering else None

        answering = {1, 2}
        rows = [{"name": f"u{unit}", "kind": "holding", "address": "0", "device_id": str(unit)} for unit in (1, 2)]
        core = RecordingCore()
        device = RawDevice(respond)
        patience = raw_arguments(device.port, rows, timeout_ms=SILENCE_MS)
        async with device, running(core, tmp_path), running(comm(patience), tmp_path):
            await until(lambda: core.last_of("u2") == (2, GOOD))
            answering.remove(2)
            await until(lambda: core.last_of("u2") == (2, BAD_NO_COMMUNICATION))
            assert core.last_of("u1") == (1, GOOD)
            assert core.last_of("p1/connected") == (True, GOOD)

    in_loop(story)


def test_no_number_from_the_device_is_a_failed_sensor_with_its_last_value(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with plc() as device, running(core, tmp_path), running(comm(arguments(device.port)), tmp_path):
            await device.set(4, 0, float_registers(20.0))
            await until(lambda: core.last_of("co") == (20.0, GOOD))
            await device.set(4, 0, float_registers(float("nan")))
            await until(lambda: core.last_of("co") == (20.0, BAD_SENSOR_FAILURE))

    in_loop(story)


def test_a_device_that_is_not_there_at_the_start_leaves_every_item_without_a_value(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with running(core, tmp_path), running(comm(arguments(free_port())), tmp_path):
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            for row in ROWS:
                qualities = [quality for _, quality in core.history(row["name"])]
                assert qualities == [BAD_WAITING_FOR_INITIAL_DATA, BAD_NO_COMMUNICATION]
            core.order("a", "fan", True)
            await until(lambda: core.receipts_of("a"))
            assert core.receipts_of("a")[0].outcome is Outcome.REJECTED

    in_loop(story)


def test_a_device_that_starts_after_the_node_is_there_without_anybody_doing_anything(tmp_path: Path) -> None:
    """And the time before it is told as one gap: it was to be recorded, and was not."""

    async def story() -> None:
        core = RecordingCore()
        async with running(core, tmp_path), running(comm(raw_arguments(port := free_port())), tmp_path):
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            device = RawDevice(lambda unit, function, request: registers_answer(request))
            device.port = port
            async with device:
                await until(lambda: core.last_of("count") == (7, GOOD))
                await until(lambda: core.last_of("p1/connected") == (True, GOOD))
            (gap,) = core.gaps
            assert (gap.reason, gap.item_ids) == ("device_lost", (core.id_of("count"),))

    in_loop(story)


def test_what_was_acquired_is_what_core_got(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        async with RawDevice(counting()) as device, running(core, tmp_path):
            async with running(comm(raw_arguments(device.port)), tmp_path):
                await until(lambda: len(core.history("count")) > 20)
            await until(
                lambda: core.last_of("p1/acquired") == (sum(len(batch) for batch in core.batches), GOOD),
                "as many samples as the adapter counted last",
            )

    in_loop(story)


@pytest.mark.slow
def test_a_long_loss_costs_no_memory(tmp_path: Path) -> None:
    """Hundreds of failed attempts: what is allocated afterwards is what was allocated before, give or take a page."""

    async def story() -> None:
        core = RecordingCore()
        # NB: asyncio keeps hundreds of timers that were cancelled until their time has come.
        quick = {"backoff_min_ms": 10, "backoff_max_ms": 10, "diagnostics_ms": 3_600_000, "timeout_ms": 500}
        adapter = comm(arguments(free_port(), **quick))
        async with running(core, tmp_path), running(adapter, tmp_path):
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            samples = len(core.batches)
            attempts = _Attempts(adapter)
            await until(lambda: attempts.count > 100)
            tracemalloc.start()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await until(lambda: attempts.count > 400)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert grown < 64 * 1024
            assert len(core.batches) == samples

    in_loop(story)


class _Attempts:
    """Counts the attempts to connect of a running adapter."""

    def __init__(self, adapter: Comm) -> None:
        self.count = 0
        connect = adapter._adapter.connect

        async def counted() -> None:
            self.count += 1
            await connect()

        adapter._adapter.connect = counted  # type: ignore[method-assign]  # A counter around the real one.


def test_a_stop_during_a_write_says_unknown_and_what_waited_is_rejected(tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        device = RawDevice(lambda unit, function, request: registers_answer(request) if function == 3 else None)
        async with device, running(core, tmp_path):
            async with running(comm(raw_arguments(device.port)), tmp_path):
                await until(lambda: core.last_of("count") == (7, GOOD))
                core.order("sent", "count", 9)
                core.order("waiting", "count", 10)
                await until(lambda: [function for _, function, _ in device.requests].count(6) == 1)
            await until(lambda: len(core.receipts) == 2)
            assert [(one.command_id, one.outcome) for one in core.receipts] == [
                ("sent", Outcome.UNKNOWN),
                ("waiting", Outcome.REJECTED),
            ]

    in_loop(story)


def test_a_table_with_mistakes_ends_the_start_with_all_of_them(tmp_path: Path) -> None:
    async def story() -> None:
        rows = [{"name": "a", "kind": "holding", "address": "x"}, {"name": "b", "kind": "nothing", "address": "1"}]
        await run_actor(comm(raw_arguments(1, rows)), tmp_path)

    with pytest.raises(ConfigurationRefused, match=r"row 1: address is 'x'.*row 2: kind is 'nothing'"):
        in_loop(story)


def test_arguments_without_a_name_are_refused() -> None:
    with pytest.raises(ConfigurationRefused, match="name"):
        comm({"kind": "modbus"})
