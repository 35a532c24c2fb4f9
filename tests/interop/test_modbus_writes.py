"""Writes as devices want them: by the functions that they have, beside what is not the item's, and taken over late."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from albireo.field.contract import Adapter
from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.command import Outcome
from albireo.model.samples import Strings
from albireo.model.value import Value
from albireo.runtime.clock import boot_ns
from tests.parts.field import LONG_MS, RawDevice, in_loop

_WRITES: Final = (5, 6, 15, 16, 22)


class Registers(RawDevice):
    """Holding registers and coils of which a test says by which functions they are written, and how late."""

    def __init__(self, held: Mapping[int, int], has: tuple[int, ...] = _WRITES) -> None:
        super().__init__(self._answer)
        self.held = dict(held)
        self.coils = dict.fromkeys(range(8), False)
        self.has = has
        self.reads_until_taken = 0
        self.busy_reads = 0
        self._later: list[tuple[int, int]] = []

    @property
    def written(self) -> list[int]:
        """Functions of the writes that came."""
        return [function for _, function, _ in self.requests if function in _WRITES]

    def _answer(self, unit: int, function: int, request: bytes) -> bytes:
        address, second = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
        match function:
            case 3:
                if self.busy_reads:
                    self.busy_reads -= 1
                    return b"\x83\6"
                self.reads_until_taken -= 1
                if self.reads_until_taken <= 0:
                    self.held.update(self._later)
                words = [self.held[address + at] for at in range(second)]
                return bytes([3, 2 * second]) + b"".join(one.to_bytes(2, "big") for one in words)
            case 1:
                return bytes([1, 1, sum(self.coils[address + at] << at for at in range(second))])
            case lacking if lacking not in self.has:
                return bytes([lacking | 0x80, 1])
            case 5:
                self.coils[address] = second == 0xFF00
            case 15:
                self.coils.update({address + at: bool(request[5] >> at & 1) for at in range(second)})
            case 6:
                self._later.append((address, second))
            case 16:
                self._later += [
                    (address + at, int.from_bytes(request[5 + 2 * at : 7 + 2 * at], "big")) for at in range(second)
                ]
            case 22:
                self._later.append((address, self.held[address] & second | int.from_bytes(request[4:6], "big")))
                return bytes([22]) + request[:6]
        return bytes([function]) + request[:4]


@contextlib.asynccontextmanager
async def connected(device: RawDevice, cells: Mapping[str, str], **more: object) -> AsyncIterator[Adapter]:
    row = {"name": "x", "kind": "holding", "address": "0", "writable": "true", **cells}
    arguments: dict[str, object] = {"name": "a1", "kind": "modbus", "items": [row], "timeout_ms": LONG_MS, **more}
    async with device:
        adapter = create_adapter({**arguments, "url": f"tcp://127.0.0.1:{device.port}"}, Surroundings(Path(), boot_ns))
        await adapter.connect()
        yield adapter
        await adapter.close()


UINT16: Final = {"type": "uint16"}
UINT32: Final = {"type": "uint32"}
COIL: Final = {"kind": "coil"}


@pytest.mark.parametrize(
    ("cells", "has", "asked"),
    [
        (UINT16, (6, 16), [[6], [6]]),
        (UINT16, (16,), [[6, 16], [16]]),
        (UINT16, (6,), [[6], [6]]),
        (UINT32, (16,), [[16], [16]]),
        (COIL, (5, 15), [[5], [5]]),
        (COIL, (15,), [[5, 15], [15]]),
        (COIL, (5,), [[5], [5]]),
    ],
)
def test_a_device_is_written_by_a_function_that_it_has_which_is_learnt(
    cells: dict[str, str], has: tuple[int, ...], asked: list[list[int]]
) -> None:
    async def story() -> None:
        device = Registers({0: 7, 1: 8}, has)
        async with connected(device, cells) as adapter:
            for functions in asked:
                before = len(device.written)
                assert (await adapter.write(0, True, lambda: "")).outcome is Outcome.VERIFIED
                assert device.written[before:] == functions

    in_loop(story)


@pytest.mark.parametrize(("cells", "asked"), [(UINT16, [6, 16]), (UINT32, [16]), (COIL, [5, 15])])
def test_a_write_that_no_function_does_is_rejected_and_nothing_is_learnt(
    cells: dict[str, str], asked: list[int]
) -> None:
    async def story() -> None:
        device = Registers({0: 7, 1: 8}, ())
        async with connected(device, cells) as adapter:
            for _ in range(2):
                written = await adapter.write(0, True, lambda: "")
                assert (written.outcome, written.detail) == (
                    Outcome.REJECTED,
                    "the device answered exception 1 (illegal function)",
                )
            assert device.written == 2 * asked

    in_loop(story)


def test_the_guard_is_asked_before_each_try() -> None:
    """The lease may end between the function that the device lacks and the one that it has."""

    async def story() -> None:
        device = Registers({0: 7}, (16,))
        async with connected(device, UINT16) as adapter:
            words = iter(["", "the lease is over"])
            written = await adapter.write(0, 1, lambda: next(words))
            assert (written.outcome, device.written, device.held) == (Outcome.REJECTED, [6], {0: 7})

    in_loop(story)


TEXT_5: Final = {"type": "string", "length": "5"}
AB12C: Final = {0: 0x4142, 1: 0x3132, 2: 0x4358}
"""AB12C, and an X that is none of it."""


@pytest.mark.parametrize(
    ("cells", "held", "value", "after", "asked"),
    [
        (TEXT_5, AB12C, "ZYXWV", {0: 0x5A59, 1: 0x5857, 2: 0x5658}, [22, 16]),
        (TEXT_5, AB12C, "ZY", {0: 0x5A59, 1: 0, 2: 0x0058}, [22, 16]),
        (
            {**TEXT_5, "word_order": "badc"},
            {0: 0x4241, 1: 0x3231, 2: 0x5843},
            "ZYXWV",
            {0: 0x595A, 1: 0x5758, 2: 0x5856},
            [22, 16],
        ),
        (
            {**TEXT_5, "word_order": "cdab"},
            {0: 0x4358, 1: 0x3132, 2: 0x4142},
            "ZYXWV",
            {0: 0x5658, 1: 0x5857, 2: 0x5A59},
            [22, 16],
        ),
        ({**TEXT_5, "length": "1"}, {0: 0x4158}, "Z", {0: 0x5A58}, [22]),
        ({**TEXT_5, "length": "3"}, {0: 0x4142, 1: 0x3158}, "ZYX", {0: 0x5A59, 1: 0x5858}, [22, 6]),
        ({**TEXT_5, "length": "4"}, {0: 0x4142, 1: 0x3132}, "ZYXW", {0: 0x5A59, 1: 0x5857}, [16]),
    ],
)
def test_a_text_of_odd_length_leaves_the_byte_beside_it_alone(
    cells: dict[str, str], held: dict[int, int], value: str, after: dict[int, int], asked: list[int]
) -> None:
    async def story() -> None:
        device = Registers(held)
        length = int(cells["length"])
        async with connected(device, cells) as adapter:
            assert await texts(adapter) == ["AB12C"[:length]]
            written = await adapter.write(0, value, lambda: "")
            assert (written.outcome, written.read_back) == (Outcome.VERIFIED, value)
            assert (device.held, device.written) == (after, asked)
            written = await adapter.write(0, "x" * (length + 1), lambda: "")
            assert (written.outcome, device.held) == (Outcome.REJECTED, after)

    in_loop(story)


async def texts(adapter: Adapter) -> list[Value]:
    (columns,) = await adapter.poll()
    assert isinstance(columns.value, Strings)
    return list(columns.value.to_list())


def test_a_text_of_odd_length_is_refused_whole_where_half_a_register_can_not_be_written() -> None:
    async def story() -> None:
        device = Registers(AB12C, (6, 16))
        async with connected(device, TEXT_5) as adapter:
            assert (await adapter.write(0, "ZZZZZ", lambda: "")).outcome is Outcome.REJECTED
            assert device.held == AB12C

    in_loop(story)


def test_a_text_of_which_only_the_last_character_was_confirmed_is_unknown() -> None:
    async def story() -> None:
        device = Registers(AB12C, (22,))
        async with connected(device, TEXT_5) as adapter:
            assert (await adapter.write(0, "ZZZZZ", lambda: "")).outcome is Outcome.UNKNOWN

    in_loop(story)


@pytest.mark.parametrize("busy", [0, 3])
@pytest.mark.parametrize(
    ("reads", "wait_ms", "outcome"),
    [(3, 60_000, Outcome.VERIFIED), (3, 0, Outcome.MISMATCHED), (1, 0, Outcome.VERIFIED)],
)
def test_a_value_that_is_taken_over_later_is_waited_for_as_long_as_the_setting_says(
    reads: int, wait_ms: int, outcome: Outcome, busy: int
) -> None:
    async def story() -> None:
        device = Registers({0: 7})
        device.reads_until_taken = reads
        device.busy_reads = busy if wait_ms else 0
        async with connected(device, UINT16, read_back_ms=wait_ms) as adapter:
            assert (await adapter.write(0, 42, lambda: "")).outcome is outcome

    in_loop(story)
