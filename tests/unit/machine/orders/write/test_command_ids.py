"""Ids of commands: one id names one order, for ever; the same order again is answered and never sent twice."""

from collections.abc import Callable

import msgspec
import pytest

from albireo.client.errors import CommandIdReused
from albireo.codec.message import Answer, Ask, WriteDone, WriteOrder
from albireo.codec.record import CommandRequested
from albireo.machine.fold.folds import Folds
from albireo.model.command import Outcome, Receipt
from tests.parts.refusals import error_of
from tests.parts.root import ITEMS, World, hello

SET = next(one.name for one in ITEMS if one.is_writable)
SAME: dict[str, object] = {"item": SET, "value": 40.0, "command_id": "c1", "user": "ann", "expires_ms": 1000}


def order(world: World, principal: str = "local:0", **other: object) -> None:
    world.letter(b"cli", Ask(request_id=1, what="write", arguments=SAME | other), principal=principal)


def appended() -> World:
    """The order is recorded, and its record is not committed."""
    world = World()
    hello(world)
    order(world)
    return world


def accepted() -> World:
    world = appended()
    world.sync()
    assert len(world.take(WriteOrder)) == 1
    return world


def finished() -> World:
    world = accepted()
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    assert len(world.take(Answer)) == 1
    return world


def restarted() -> World:
    folds, before = Folds(), finished()
    for frame in before.frames:
        folds.replay(frame)
    world = World(folds, before.frames, epoch=2, now=before.now)
    hello(world, run=2)
    return world


STATES = pytest.mark.parametrize("state", [appended, accepted, finished, restarted])


@STATES
@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"value": 41.0}, "value"),
        ({"value": "40.0"}, "value"),
        ({"item": "co_1"}, "item"),
        ({"item": "no_such_item"}, "item"),
        ({"principal": "local:7"}, "principal"),
    ],
)
def test_a_command_id_of_another_order_is_refused_and_nothing_is_done(
    state: Callable[[], World], other: dict[str, object], word: str
) -> None:
    world = state()
    records = len(world.records(CommandRequested))
    order(world, **other)  # type: ignore[arg-type]  # The table mixes the principal with arguments.
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    refused = error_of("write", answer)
    assert isinstance(refused, CommandIdReused)
    assert f"another {word}" in refused.cause
    assert "an id of its own" in refused.remedy
    world.sync()
    assert len(world.records(CommandRequested)) == records
    assert all(one.value == 40.0 for one in world.take(WriteOrder) if isinstance(one, WriteOrder))


@STATES
@pytest.mark.parametrize("same", [{}, {"item": f"root:{SET}"}, {"value": 40}, {"reason": "again"}, {"principal": ""}])
def test_the_same_order_under_its_id_stays_one_order(state: Callable[[], World], same: dict[str, object]) -> None:
    world = state()
    order(world, **same)  # type: ignore[arg-type]  # As above.
    world.sync()
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    outcomes = [msgspec.convert(one.result, Receipt).outcome for one in world.take(Answer) if isinstance(one, Answer)]
    assert outcomes
    assert set(outcomes) == {Outcome.VERIFIED}
    assert len(world.records(CommandRequested)) == 1
