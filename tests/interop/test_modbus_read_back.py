"""Read-back of a write, for every kind of item: what was written is compared, and nothing beside it."""

import math
import struct
from pathlib import Path

import pytest

from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.command import Outcome
from albireo.model.value import Value
from albireo.runtime.clock import boot_ns
from tests.parts.field import LONG_MS, RawDevice, in_loop

VERIFIED, MISMATCHED = Outcome.VERIFIED, Outcome.MISMATCHED
BIT_3 = {"type": "bool", "bit": "3"}
SWAPPED_BIT_3 = {**BIT_3, "word_order": "badc"}
WHOLE = {"type": "bool"}
COIL = {"kind": "coil"}
TENTHS = {"type": "int16", "scale": "0.1"}
TEXT = {"type": "string", "length": "8"}


def words(layout: str, value: float) -> list[int]:
    data = struct.pack(layout, value)
    return list(struct.unpack(f">{len(data) // 2}H", data))


def text(data: bytes) -> list[int]:
    return list(struct.unpack(">4H", data.ljust(8, b"\0")))


CASES: list[tuple[dict[str, str], Value, list[int], Outcome, object]] = [
    (COIL, True, [1], VERIFIED, True),
    (COIL, True, [0], MISMATCHED, False),
    (COIL, False, [0], VERIFIED, False),
    (COIL, False, [1], MISMATCHED, True),
    # One bit of a register; its neighbours are the PLC's.
    (BIT_3, True, [0x0008], VERIFIED, True),
    (BIT_3, True, [0xFFFF], VERIFIED, True),
    (BIT_3, True, [0x0001], MISMATCHED, False),
    (BIT_3, True, [0xFFF7], MISMATCHED, False),
    (BIT_3, False, [0x0000], VERIFIED, False),
    (BIT_3, False, [0x0001], VERIFIED, False),
    (BIT_3, False, [0xFFF7], VERIFIED, False),
    (BIT_3, False, [0x0008], MISMATCHED, True),
    ({"type": "bool", "bit": "0"}, True, [0x0001], VERIFIED, True),
    ({"type": "bool", "bit": "0"}, True, [0xFFFE], MISMATCHED, False),
    (SWAPPED_BIT_3, True, [0x0800], VERIFIED, True),
    (SWAPPED_BIT_3, True, [0x0100], MISMATCHED, False),
    (SWAPPED_BIT_3, True, [0x0008], MISMATCHED, False),
    (SWAPPED_BIT_3, False, [0x0100], VERIFIED, False),
    # A whole register is true if any bit is set: some devices show true as 0xFFFF, or as 0xFF00.
    (WHOLE, True, [0x0001], VERIFIED, True),
    (WHOLE, True, [0xFFFF], VERIFIED, True),
    (WHOLE, True, [0xFF00], VERIFIED, True),
    (WHOLE, True, [0x0000], MISMATCHED, False),
    (WHOLE, False, [0x0000], VERIFIED, False),
    (WHOLE, False, [0xFFFF], MISMATCHED, True),
    ({**WHOLE, "word_order": "badc"}, True, [0x0001], VERIFIED, True),
    # Numbers, register by register.
    ({"type": "uint16"}, 1, [1], VERIFIED, 1),
    ({"type": "uint16"}, 1, [0xFFFF], MISMATCHED, 0xFFFF),
    ({"type": "int16"}, -1, [0xFFFF], VERIFIED, -1),
    # A device that clamps, one that keeps what it had, one that takes the number in parts.
    ({"type": "uint16"}, 70, [50], MISMATCHED, 50),
    ({"type": "uint16"}, 70, [0], MISMATCHED, 0),
    ({"type": "uint32"}, 0x0001_0002, [0, 2], MISMATCHED, 2),
    (TENTHS, -5.0, [0], MISMATCHED, 0.0),
    (TENTHS, 12.3, [123], VERIFIED, 12.3),
    (TENTHS, 12.3, [124], MISMATCHED, 12.4),
    ({"type": "uint32", "word_order": "cdab"}, 0x0001_0002, [2, 1], VERIFIED, 0x0001_0002),
    ({"type": "uint32", "word_order": "cdab"}, 0x0001_0002, [1, 2], MISMATCHED, 0x0002_0001),
    # The last step of a 64-bit integer, which no float can tell from the one before.
    ({"type": "int64"}, 2**53 + 1, words(">q", 2**53 + 1), VERIFIED, 2**53 + 1),
    ({"type": "int64"}, 2**53 + 1, words(">q", 2**53), MISMATCHED, 2**53),
    ({"type": "int64", "scale": "2"}, 2.0**54, words(">q", 2**53 + 1), MISMATCHED, 2.0**54),
    ({"type": "float32"}, 0.1, words(">f", 0.1), VERIFIED, 0.1),
    ({"type": "float32"}, 0.1, words(">f", 0.2), MISMATCHED, 0.2),
    ({"type": "float32"}, -0.0, words(">f", 0.0), VERIFIED, 0.0),
    ({"type": "float32", "offset": "5"}, 5.0, words(">f", -0.0), VERIFIED, 5.0),
    ({"type": "float32"}, 0.0, words(">f", 1e-45), MISMATCHED, pytest.approx(1e-45)),
    ({"type": "float64", "word_order": "dcba"}, 1.5, [0, 0, 0, 0xF83F], VERIFIED, 1.5),
    # A text ends at its first NUL; what a device leaves behind it is none of it.
    (TEXT, "abc", text(b"abc"), VERIFIED, "abc"),
    (TEXT, "abc", text(b"abc\0old"), VERIFIED, "abc"),
    (TEXT, "abc", text(b"abcd"), MISMATCHED, "abcd"),
    (TEXT, "", text(b"\0old"), VERIFIED, ""),
]


@pytest.mark.parametrize(("cells", "value", "held", "outcome", "read_back"), CASES)
def test_a_read_back_compares_what_was_written(
    cells: dict[str, str], value: Value, held: list[int], outcome: Outcome, read_back: object
) -> None:
    def respond(unit: int, function: int, request: bytes) -> bytes:
        if function == 1:
            return bytes([1, 1, held[0]])
        if function == 3:
            return bytes([3, 2 * len(held)]) + struct.pack(f">{len(held)}H", *held)
        return bytes([function]) + request[: 6 if function == 22 else 4]

    async def story() -> None:
        row = {"name": "x", "kind": "holding", "address": "7", "writable": "true", **cells}
        async with RawDevice(respond) as device:
            url = f"tcp://127.0.0.1:{device.port}"
            arguments = {"name": "a1", "kind": "modbus", "url": url, "items": [row], "timeout_ms": LONG_MS}
            arguments["read_back_ms"] = 0
            adapter = create_adapter(arguments, Surroundings(Path(), boot_ns))
            await adapter.connect()
            written = await adapter.write(0, value, lambda: "")
            assert (written.outcome, written.read_back) == (outcome, read_back)
            await adapter.close()

    in_loop(story)


@pytest.mark.parametrize("echoed", [50, 70])
def test_what_a_device_says_in_its_answer_to_a_write_is_not_what_it_holds(echoed: int) -> None:
    """It clamps and says so in the echo, or echoes and clamps: the read-back alone is believed."""
    held = 50

    def respond(unit: int, function: int, request: bytes) -> bytes:
        return bytes([3, 2, 0, held]) if function == 3 else bytes([function]) + request[:2] + bytes([0, echoed])

    async def story() -> None:
        row = {"name": "x", "kind": "holding", "address": "7", "writable": "true"}
        async with RawDevice(respond) as device:
            url = f"tcp://127.0.0.1:{device.port}"
            arguments = {"name": "a1", "kind": "modbus", "url": url, "items": [row], "timeout_ms": LONG_MS}
            adapter = create_adapter(arguments, Surroundings(Path(), boot_ns))
            await adapter.connect()
            written = await adapter.write(0, 70, lambda: "")
            assert (written.outcome, written.read_back) == (MISMATCHED, 50)
            written = await adapter.write(0, 50, lambda: "")
            assert (written.outcome, written.read_back) == (VERIFIED, 50)
            await adapter.close()

    in_loop(story)


HALVES = {"type": "int16", "scale": "0.5", "minimum": "10.2", "maximum": "20.3"}
SINGLE = {"type": "float32", "minimum": "0.1", "maximum": "16777217"}
FROM_TO: list[tuple[dict[str, str], Value, object]] = [
    (HALVES, 20.3, "never sent: rounded for its registers, 20.5 is above the maximum 20.3"),
    (HALVES, 10.2, "never sent: rounded for its registers, 10 is below the minimum 10.2"),
    (HALVES, 20.2, 20.0),
    (HALVES, 10.3, 10.5),
    ({"type": "uint16", "scale": "0.1", "maximum": "1.2"}, 1.2, 1.2),
    ({"type": "uint16", "scale": "-0.5", "offset": "50", "minimum": "10.2"}, 10.2, "10 is below the minimum 10.2"),
    ({"type": "uint16", "maximum": "7"}, 7, 7),
    ({"type": "int64", "scale": "4", "maximum": "5"}, 5.0, 4.0),
    (SINGLE, 0.1, 0.1),
    (SINGLE, 16_777_217.0, 16_777_216.0),
    ({"type": "float32", "maximum": "0.123456789"}, 0.123456789, "0.12345679 is above the maximum 0.123456789"),
    ({"type": "float32", "scale": "0.1", "maximum": "4.01"}, 4.01, 4.01),
]


@pytest.mark.parametrize(("cells", "value", "held"), FROM_TO)
def test_limits_judge_what_the_registers_will_hold(cells: dict[str, str], value: Value, held: object) -> None:
    """The device keeps what it is told; a text says why it is told nothing."""
    registers: dict[int, bytes] = {}

    def respond(unit: int, function: int, request: bytes) -> bytes:
        if function == 3:
            return bytes([3, len(registers[7])]) + registers[7]
        registers[7] = request[2:4] if function == 6 else request[5:]
        return bytes([function]) + request[:4]

    async def story() -> None:
        row = {"name": "x", "kind": "holding", "address": "7", "writable": "true", **cells}
        async with RawDevice(respond) as device:
            url = f"tcp://127.0.0.1:{device.port}"
            arguments = {"name": "a1", "kind": "modbus", "url": url, "items": [row], "timeout_ms": LONG_MS}
            adapter = create_adapter(arguments, Surroundings(Path(), boot_ns))
            await adapter.connect()
            written = await adapter.write(0, value, lambda: "")
            await adapter.close()
            if isinstance(held, str):
                assert (written.outcome, registers) == (Outcome.REJECTED, {})
                assert held in written.detail
            else:
                assert (written.outcome, written.read_back) == (VERIFIED, held)

    in_loop(story)


def test_no_number_read_back_is_a_mismatch() -> None:
    """NaN equals nothing, itself included."""

    def respond(unit: int, function: int, request: bytes) -> bytes:
        return bytes([3, 4, 0x7F, 0xC0, 0, 0]) if function == 3 else bytes([function]) + request[:4]

    async def story() -> None:
        row = {"name": "x", "kind": "holding", "address": "7", "writable": "true", "type": "float32"}
        async with RawDevice(respond) as device:
            arguments = {
                "name": "a1",
                "kind": "modbus",
                "url": f"tcp://127.0.0.1:{device.port}",
                "items": [row],
                "timeout_ms": LONG_MS,
                "read_back_ms": 0,
            }
            adapter = create_adapter(arguments, Surroundings(Path(), boot_ns))
            await adapter.connect()
            written = await adapter.write(0, 1.0, lambda: "")
            assert written.outcome is Outcome.MISMATCHED
            assert isinstance(written.read_back, float)
            assert math.isnan(written.read_back)
            await adapter.close()

    in_loop(story)
