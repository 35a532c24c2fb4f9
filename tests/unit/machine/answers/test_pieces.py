"""CORE's long answers in pieces: together they are the whole answer, whatever the sizes of the pieces."""

import random
from typing import Any

import pytest

from albireo.codec.message import Answer, ProducerHello
from albireo.codec.questions.pieces import PIECE_ENTRIES_MAX
from albireo.model.instant import MS
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from tests.parts.refusals import refused_with
from tests.parts.root import World, append, hello

MANY = tuple(DataItem(name=f"x_{number:04}", value_type=ValueType.FLOAT64) for number in range(2_500))


def world_of_many() -> World:
    world = World()
    world.letter(b"plc", ProducerHello(producer="p1", items=MANY, run=1))
    while len(world.root.folds.dim) < len(MANY):
        world.pass_time(MS)
    world.take(Answer)
    return world


def pieces(world: World, what: str, chance: random.Random, **arguments: object) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor = ""
    while True:
        rows_max = chance.choice([1, 90, PIECE_ENTRIES_MAX, 10**6]) if len(found) < 5 else 10**6
        result: Any = world.ask(what, cursor=cursor, rows_max=rows_max, **arguments).result
        assert len(result["rows"]) <= min(rows_max, PIECE_ENTRIES_MAX)
        found.append(result["rows"])
        cursor = result["next"]
        if not cursor:
            return found


@pytest.mark.parametrize("what", ["items", "read"])
@pytest.mark.parametrize("names", [(), tuple(f"x_{number:04}" for number in range(2_000, 0, -3))], ids=["all", "some"])
def test_pieces_of_items_are_the_whole_answer(what: str, names: tuple[str, ...]) -> None:
    world = world_of_many()
    whole: Any = world.ask(what, names=names).result
    assert isinstance(whole, list), "without a cursor and without a size it is as before"
    for seed in range(3):
        together = [row for some in pieces(world, what, random.Random(seed), names=names) for row in some]
        assert together == sorted(whole, key=lambda row: row["item_id"])


def test_pieces_of_cases_are_the_whole_answer() -> None:
    world = World()
    welcome = hello(world)
    for number in range(1, 40):
        append(world, welcome, number, [60.0 if number % 2 else 10.0])
        world.sync()
        if number % 4 == 1:
            world.ask("case_action", action="ack_all", user="ann")
    whole: Any = world.ask("cases", include_closed=True).result
    assert len(whole) > 1
    together = [row for some in pieces(world, "cases", random.Random(1), include_closed=True) for row in some]
    assert together == sorted(whole, key=lambda row: row["case_id"])


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "\u0661", "9" * 20])
@pytest.mark.parametrize("what", ["items", "read", "cases"])
def test_what_is_no_cursor_is_refused(what: str, cursor: str) -> None:
    assert "no cursor" in refused_with(World().ask(what, cursor=cursor))


def test_a_cursor_behind_everything_gives_nothing() -> None:
    for what in ("items", "read", "cases"):
        assert world_of_many().ask(what, cursor="9" * 18).result == {"next": "", "rows": []}
