"""Selections in any order with orders, time, wall clocks and restarts, judged by an oracle that keeps a dict."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.record import CommandRequested, ItemSelected, Kind, SelectionEnded, Stream, decode_records
from albireo.machine.fold.folds import Folds
from albireo.model.instant import MS, SECOND
from tests.parts.retired_items import again
from tests.parts.root import World
from tests.parts.selecting import ANN, BOB, deselect, hello, select, up, write

FOR_MS = 3_000
HERS: tuple[str, str, str] = ("barrier", ANN, "s1")
OTHERS = [
    ("barrier", ANN, "s2"),
    ("barrier", BOB, "s1"),
    ("barrier", BOB, "s2"),
    ("sign", ANN, "s1"),
    ("sign", BOB, "s2"),
]
STEPS: list[tuple[Any, ...]] = [
    *[(what, *HERS) for what in ("select", "select", "select", "write", "write", "write", "deselect")],
    *[(what, *other) for what in ("select", "write") for other in OTHERS],
    ("deselect", "barrier", BOB, "s1"),
    *[("pass", wait_ms) for wait_ms in (1, FOR_MS // 3, FOR_MS - 1, FOR_MS)],
    *[("wall", seconds) for seconds in (-3_600, 3_600)],
    ("restart",),
]
"""Most steps are about one item, one person and one selection, so that many of them meet."""
steps = st.lists(st.sampled_from(STEPS), min_size=5, max_size=25)


class Oracle:
    """Who has each item, and until when."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.held: dict[str, tuple[str, str, int]] = {}

    def _holder(self, item: str) -> tuple[str, str] | None:
        found = self.held.get(item)
        return found[:2] if found is not None and self.now_ms < found[2] else None

    def step(self, what: str, *more: Any) -> bool:
        """Whether it is taken."""
        if what == "restart":
            self.held.clear()
        elif what == "pass":
            self.now_ms += more[0]
        elif what != "wall":
            item, principal, selection_id = more
            return self._asked(what, item, principal, selection_id)
        return True

    def _asked(self, what: str, item: str, principal: str, selection_id: str) -> bool:
        holder = self._holder(item)
        if what == "select":
            others = [one for one in self.held if one != item and (self._holder(one) or ("", ""))[1] == selection_id]
            if holder is None and not others:
                self.held[item] = (principal, selection_id, self.now_ms + FOR_MS)
                return True
        elif holder == (principal, selection_id):
            del self.held[item]
        return holder == (principal, selection_id)


def played(one: World, what: str, *more: Any) -> tuple[World, bool]:
    match what, more:
        case "restart", ():
            one = again(one)
            hello(one, run=one.history.epoch)
        case "pass", (int(wait_ms),):
            one.pass_time(wait_ms * MS)
        case "wall", (int(seconds),):
            one.wall_began += seconds * SECOND
        case "select", (item, principal, selection_id):
            return one, select(one, selection_id, principal, item, for_ms=FOR_MS) == "ok"
        case "deselect", (item, principal, selection_id):
            return one, deselect(one, selection_id, principal, item) == "ok"
        case "write", (item, principal, selection_id):
            return one, write(one, selection_id, principal, item, value=1) == "taken"
    return one, True


@given(steps)
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_exactly_what_the_oracle_takes_is_taken(story: list[tuple[Any, ...]]) -> None:
    one, oracle = up(), Oracle()
    for step in story:
        one, is_taken = played(one, *step)
        assert is_taken == oracle.step(*step), step
    check_log(one)
    folds = Folds()
    for frame in one.frames:
        folds.replay(frame)
    assert folds.snapshot() == one.root.folds.snapshot()


def check_log(one: World) -> None:
    """No order without the end of a selection before it, of the same principal, in its time; one at a time."""
    held: dict[int, tuple[ItemSelected, int]] = {}
    for frame in one.frames:
        if frame.header.kind != Kind.RECORDS or frame.header.stream != Stream.COMMAND:
            continue
        used: SelectionEnded | None = None
        for record in decode_records(frame.body, frame.header.record_count):
            match record:
                case ItemSelected(item_id=item_id):
                    held[item_id] = record, frame.header.log_time_ms
                case SelectionEnded(item_id=item_id, selection_id=selection_id):
                    if item_id in held and held[item_id][0].selection_id == selection_id:
                        used = record
                case CommandRequested(command=command):
                    assert used is not None and (used.item_id, used.cause) == (command.item_id, "operated")
                    begun, at_ms = held.pop(command.item_id)
                    assert begun.principal == command.principal
                    assert frame.header.log_time_ms - at_ms < begun.for_ms
