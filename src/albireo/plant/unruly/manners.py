"""Manners of a unit: one honest, and the ways in which real ones are wrong.

Each is named for what the unit does, and is what a test or a drill says of it. `IN_TIME` manners are odd, and yet every
value of theirs is right.
"""

import asyncio

from albireo.plant.unruly.device import Manner, UnitAsked, UnrulyLine, exception, frame


async def honest(asked: UnitAsked, line: UnrulyLine) -> None:
    line.send(frame(asked, line.device.answer(asked)))


async def silent(asked: UnitAsked, line: UnrulyLine) -> None:
    """Nobody is there."""


def refuses(code: int, after_s: float = 0.0) -> Manner:
    """Every request is answered with exception `code`, after a while."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        await asyncio.sleep(after_s)
        line.send(frame(asked, exception(asked, code)))

    return manner


def lacks(*addresses: int, code: int = 2) -> Manner:
    """A request that touches one of `addresses` is refused as a whole."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        is_refused = any(asked.touches(one) for one in addresses)
        line.send(frame(asked, exception(asked, code) if is_refused else line.device.answer(asked)))

    return manner


def reads_at_most(count: int, code: int = 3) -> Manner:
    """A request for more than `count` registers is refused."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        line.send(frame(asked, exception(asked, code) if asked.count > count else line.device.answer(asked)))

    return manner


def silent_about(*addresses: int) -> Manner:
    """A request that touches one of `addresses` is not answered."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        if not any(asked.touches(one) for one in addresses):
            await honest(asked, line)

    return manner


def hangs_up_at(*addresses: int) -> Manner:
    """A request that touches one of `addresses` ends the connection."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        if any(asked.touches(one) for one in addresses):
            line.close()
        else:
            await honest(asked, line)

    return manner


async def hangs_up_after_each(asked: UnitAsked, line: UnrulyLine) -> None:
    """The connection ends behind each answer."""
    await honest(asked, line)
    line.close()


def late(after_s: float) -> Manner:
    """The right answer, when nobody waits for it any more."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        line.send_later(after_s, frame(asked, line.device.answer(asked)))

    return manner


def late_without_number(after_s: float) -> Manner:
    """The same with transaction number 0, which some devices give to all their answers."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        line.send_later(after_s, frame(asked, line.device.answer(asked), number=0))

    return manner


async def without_number(asked: UnitAsked, line: UnrulyLine) -> None:
    """Right and in time, with transaction number 0."""
    line.send(frame(asked, line.device.answer(asked), number=0))


async def with_other_number(asked: UnitAsked, line: UnrulyLine) -> None:
    line.send(frame(asked, line.device.answer(asked), number=asked.number % 0xFFFF + 1))


async def as_other_unit(asked: UnitAsked, line: UnrulyLine) -> None:
    """The answer bears the number of the next unit."""
    line.send(frame(asked, line.device.answer(asked), unit=asked.unit + 1))


async def as_other_function(asked: UnitAsked, line: UnrulyLine) -> None:
    """Input registers instead of holding registers, and the other way round; the same for bits."""
    line.send(frame(asked, bytes([_OTHER[asked.function]]) + line.device.answer(asked)[1:]))


async def as_no_function(asked: UnitAsked, line: UnrulyLine) -> None:
    """A function code that no standard knows."""
    line.send(frame(asked, bytes([0x63]) + line.device.answer(asked)[1:]))


async def exception_of_other_function(asked: UnitAsked, line: UnrulyLine) -> None:
    line.send(frame(asked, bytes([_OTHER[asked.function] | 0x80, 2])))


async def too_short(asked: UnitAsked, line: UnrulyLine) -> None:
    """One register fewer than was asked for, in a whole frame."""
    body = line.device.answer(asked)[:-2]
    line.send(frame(asked, bytes([body[0], len(body) - 2]) + body[2:]))


async def too_long(asked: UnitAsked, line: UnrulyLine) -> None:
    body = line.device.answer(asked) + b"\xbe\xef"
    line.send(frame(asked, bytes([body[0], len(body) - 2]) + body[2:]))


async def miscounted(asked: UnitAsked, line: UnrulyLine) -> None:
    """The count of bytes is not that of the bytes."""
    body = line.device.answer(asked)
    line.send(frame(asked, bytes([body[0], body[1] ^ 1]) + body[2:]))


def in_halves(after_s: float) -> Manner:
    """Half of the frame in time, the rest later: behind the next request, if it comes after the time limit."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        whole = frame(asked, line.device.answer(asked))
        line.send(whole[: len(whole) // 2])
        line.send_later(after_s, whole[len(whole) // 2 :])

    return manner


async def half_only(asked: UnitAsked, line: UnrulyLine) -> None:
    whole = frame(asked, line.device.answer(asked))
    line.send(whole[: len(whole) // 2])


async def behind_another_frame(asked: UnitAsked, line: UnrulyLine) -> None:
    """A whole frame of an earlier request comes first, in the same bytes; the right one follows."""
    body = line.device.answer(asked)
    stale = bytes([body[0], body[1]]) + b"\xde\xad" * (len(body) // 2 - 1)
    line.send(frame(asked, stale, number=asked.number - 1 or 65_000) + frame(asked, body))


async def within_another_frame(asked: UnitAsked, line: UnrulyLine) -> None:
    """The beginning of another frame comes first, and nobody can tell where it ends."""
    line.send(frame(asked, b"\x03\x40\xde\xad", number=asked.number)[:9] + frame(asked, line.device.answer(asked)))


async def twice(asked: UnitAsked, line: UnrulyLine) -> None:
    for _ in range(2):
        await honest(asked, line)


async def byte_by_byte(asked: UnitAsked, line: UnrulyLine) -> None:
    """In time, and each byte in a packet of its own."""
    for byte in frame(asked, line.device.answer(asked)):
        line.send(bytes([byte]))
        await asyncio.sleep(0)


def noise(data: bytes) -> Manner:
    """Bytes that are no frame."""

    async def manner(asked: UnitAsked, line: UnrulyLine) -> None:
        line.send(data)

    return manner


_OTHER = {1: 2, 2: 1, 3: 4, 4: 3, 5: 6, 6: 5, 15: 16, 16: 15, 22: 6}
