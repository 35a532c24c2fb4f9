"""The Modbus adapter against libmodbus: a server of other people's making, from Debian, through ctypes.

libmodbus' own conversions are the second opinion on the word orders.
"""

import ctypes
import ctypes.util
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from albireo.field.contract import Adapter
from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.command import Outcome
from albireo.model.quality import BAD_CONFIGURATION_ERROR, GOOD
from albireo.model.samples import Strings
from albireo.model.value import Value
from albireo.runtime.clock import boot_ns
from tests.parts.field import LONG_MS, in_loop
from tests.parts.libmodbus import NAME, REGISTERS, LibmodbusServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not NAME, reason="Debian package libmodbus5 is missing (make peers)"),
]


@pytest.fixture
def server() -> Iterator[LibmodbusServer]:
    one = LibmodbusServer()
    yield one
    one.stop()


def adapter(server: LibmodbusServer, data: Path, rows: list[dict[str, str]]) -> Adapter:
    arguments = {
        "name": "p1",
        "kind": "modbus",
        "url": f"tcp://127.0.0.1:{server.port}",
        "items": rows,
        "timeout_ms": LONG_MS,
    }
    return create_adapter(arguments, Surroundings(data, boot_ns))


def row(name: str, address: int, register_type: str = "", **more: str) -> dict[str, str]:
    return {"name": name, "kind": "holding", "address": str(address), "type": register_type, "writable": "true", **more}


async def polled(one: Adapter) -> dict[str, tuple[Value, int]]:
    found: dict[str, tuple[Value, int]] = {}
    for column in await one.poll():
        values = column.value.to_list() if isinstance(column.value, Strings) else column.value.tolist()
        for place, value, quality in zip(column.rows.tolist(), values, column.quality.tolist(), strict=True):
            found[one.items[place].name] = (value, quality)
    return found


def letters_of(words: Sequence[int], value: float) -> str:
    """Byte order of a float in registers, in the letters of the manuals: A is the most significant byte."""
    wire = b"".join(word.to_bytes(2, "big") for word in words)
    return "".join("abcd"[struct.pack(">f", value).index(byte)] for byte in wire)


def test_floats_of_each_word_order_come_back(server: LibmodbusServer, tmp_path: Path) -> None:
    """The order is read off the bytes, not off the function's name: libmodbus 3.1.6 has them swapped on little-endian
    machines (docs/deviations.md)."""
    found = []
    for number, name in enumerate(("abcd", "cdab", "badc", "dcba")):
        convert = getattr(server.lib, f"modbus_set_float_{name}")
        convert.argtypes = [ctypes.c_float, ctypes.POINTER(ctypes.c_uint16)]
        convert.restype = None
        words = (ctypes.c_uint16 * 2)()
        convert(123.25, words)
        server.put(10 * number, list(words))
        found.append(letters_of(list(words), 123.25))
    assert sorted(found) == ["abcd", "badc", "cdab", "dcba"]
    rows = [row(letters, 10 * n, "float32", word_order=letters) for n, letters in enumerate(found)]

    async def story() -> None:
        one = adapter(server, tmp_path, rows)
        await one.connect()
        assert await polled(one) == dict.fromkeys(found, (123.25, GOOD))
        await one.close()

    in_loop(story)


def test_every_table_is_read(server: LibmodbusServer, tmp_path: Path) -> None:
    server.tables.tab_bits[3] = 1
    server.tables.tab_input_bits[40] = 1
    server.tables.tab_input_registers[200] = 0xFFFE
    server.put(0, [0x1234])
    rows = [
        {"name": "coil", "kind": "coil", "address": "3"},
        {"name": "off", "kind": "coil", "address": "4"},
        {"name": "contact", "kind": "discrete", "address": "40"},
        {"name": "input", "kind": "input", "address": "200", "type": "int16"},
        row("holding", 0, "uint16"),
        row("bit", 0, "bool", bit="4"),
    ]

    async def story() -> None:
        one = adapter(server, tmp_path, rows)
        await one.connect()
        found = await polled(one)
        assert {name: value for name, (value, _) in found.items()} == {
            "coil": 1, "off": 0, "contact": 1, "input": -2, "holding": 0x1234, "bit": 1,
        }  # fmt: skip
        await one.close()

    in_loop(story)


WRITES: list[tuple[dict[str, str], Value]] = [
    (row("int16", 0, "int16"), -5),
    (row("uint64", 4, "uint64", word_order="little"), 2**40 + 3),
    (row("float32", 10, "float32", word_order="little"), 0.1),
    (row("float64", 14, "float64"), 0.1),
    (row("scaled", 20, "int16", scale="0.1"), 12.3),
    (row("bit", 22, "bool", bit="15"), True),
    (row("text", 30, "string", length="12"), "Größe"),
    ({"name": "coil", "kind": "coil", "address": "7", "writable": "true"}, True),
]


def test_every_way_of_writing_is_understood_and_verified(server: LibmodbusServer, tmp_path: Path) -> None:
    """A float32 that can't hold 0.1 exactly is verified all the same: registers are compared, not decimals."""
    server.put(22, [0x0101])

    async def story() -> None:
        one = adapter(server, tmp_path, [table for table, _ in WRITES])
        await one.connect()
        for place, (table, value) in enumerate(WRITES):
            written = await one.write(place, value, lambda: "")
            assert written.outcome is Outcome.VERIFIED, (table, written)
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert written.read_back == expected
        await one.close()

    in_loop(story)
    assert server.tables.tab_registers[0] == 0xFFFB
    assert server.tables.tab_registers[20] == 123
    assert server.tables.tab_registers[22] == 0x8101
    assert server.tables.tab_bits[7] == 1


def test_what_is_out_of_the_table_is_told_apart_from_what_is_in_it(server: LibmodbusServer, tmp_path: Path) -> None:
    last = REGISTERS - 1
    rows = [row("in", last, "uint16"), row("half", last, "uint32"), row("out", last + 4, "uint16")]
    server.put(last, [7])

    async def story() -> None:
        one = adapter(server, tmp_path, rows)
        await one.connect()
        found = await polled(one)
        assert found["in"] == (7, GOOD)
        assert found["half"][1] == found["out"][1] == BAD_CONFIGURATION_ERROR
        await one.close()

    in_loop(story)


def test_a_whole_table_of_a_block_at_its_limit_is_read(server: LibmodbusServer, tmp_path: Path) -> None:
    server.put(0, list(range(REGISTERS)))

    async def story() -> None:
        one = adapter(server, tmp_path, [row(f"r{n}", n, "uint16") for n in range(REGISTERS)])
        await one.connect()
        assert await polled(one) == {f"r{n}": (n, GOOD) for n in range(REGISTERS)}
        await one.close()

    in_loop(story)
