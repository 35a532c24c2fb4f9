"""A node whose parent, and everything above, is gone for a day of log time: it goes on as if it were alone."""

from collections.abc import Iterator

import msgspec
import pytest

from albireo.codec.message import Answer, Appended, WriteDone, WriteOrder
from albireo.machine.kernel.events import Measured
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant
from tests.parts.root import World, append, hello, order

pytestmark = pytest.mark.slow

ABOVE = "above"
MINUTE, DAY_MINUTES = 60 * SECOND, 1_440


def cut_off() -> World:
    return World(parent=ABOVE, parent_places=frozenset({ABOVE}))


def minute_in(world: World, count: int) -> Iterator[None]:
    """Pass a minute in steps, with what the shell measures."""
    for _ in range(count):
        world.now = Instant(world.now + MINUTE // count)
        world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, held_percent={ABOVE: 10.0}))
        world.pass_time(0)
        yield


def outcome_of(world: World, name: str) -> Outcome:
    """Order a write here, as somebody at the site does, and let the device do it."""
    order(world, name)
    world.sync()
    (sent,) = world.take(WriteOrder)
    assert isinstance(sent, WriteOrder)
    receipt = Receipt(command_id=sent.command_id, outcome=Outcome.VERIFIED, read_back=40.0, finished_ns=1, ack_guid="g")
    world.letter(b"plc", WriteDone(receipt=receipt))
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    return msgspec.convert(answer.result, Receipt).outcome


def test_with_everything_above_gone_a_site_measures_alarms_and_obeys_for_a_day_of_log_time() -> None:
    world = cut_off()
    welcome, began_ms = hello(world), world.root.folds.log_time_ms
    for minute in range(1, DAY_MINUTES + 1):
        is_high = minute // 60 % 2 == 1
        append(world, welcome, minute, [60.0 if is_high else 10.0])
        for _ in minute_in(world, 6):
            world.root.registry.heard(b"plc", world.now)
        world.sync()
        assert len(world.take(Appended)) == 1, f"minute {minute} was not acknowledged"
        if minute % 60 == 30:
            assert outcome_of(world, f"c{minute}") is Outcome.VERIFIED
            found = world.ask("cases").result
            assert isinstance(found, list)
            is_active = any(one["item"] == "root:co_1" and one["is_active"] for one in found)
            assert is_active is is_high
    assert world.root.folds.log_time_ms - began_ms >= (DAY_MINUTES - 1) * MINUTE // MS
    reading = world.ask("read", names=["co_1"]).result
    assert isinstance(reading, list) and reading[0]["value"] == 10.0
    assert world.root.samples_committed == DAY_MINUTES
