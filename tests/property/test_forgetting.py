"""Forgetting: an item in the row of a forgotten one is as new, and no number is ever given twice (ADR-0150)."""

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from albireo.codec.record import ProducerOpened
from albireo.machine.fold.producers import Producers, Standing
from albireo.model.item import AlarmSettings
from albireo.model.position import Position
from tests.long_form import examples
from tests.parts.alarm import AlarmNode
from tests.parts.alarm_folds import NAMES, alarms, assert_noted, declare_all, node_of, play, steps

stories = st.lists(steps, max_size=25)
settings_of_all = st.lists(alarms, min_size=3, max_size=3)


def noted_since(node: AlarmNode, begin_ms: int) -> list[tuple[object, ...]]:
    """What was noted of each item by its name, with the time since `begin_ms`; at one time in any order."""
    names = {item_id: name for name, item_id in node.ids.items()}
    found: list[tuple[object, ...]] = [
        (at - begin_ms, names[one.case.item_id], one.case.condition, one.cause, str(one.case.value), one.case.severity)
        for at, one in node.transitions
        if one.case.item_id in names
    ]
    return sorted(found, key=lambda one: one[:3])


@given(settings_of_all, stories, settings_of_all, stories, st.data())
@settings(max_examples=examples(100), deadline=None)
@pytest.mark.slow
def test_items_in_the_rows_of_forgotten_ones_are_judged_as_new_ones(
    before: list[AlarmSettings],
    story_before: list[tuple[str, object]],
    first: list[AlarmSettings],
    story: list[tuple[str, object]],
    data: st.DataObject,
) -> None:
    """Whatever the forgotten items went through, open cases, delays, shelves and chatter: nothing of it is left."""
    used = node_of(before)
    for step in story_before:
        play(used, step)
    used.forget(*data.draw(st.permutations(NAMES)))
    assert len(used.folds.dim) == len(used.folds.cases) == 0
    rows = used.folds.dim.live.count
    begin_ms = used.now_ms
    declare_all(used, first)
    assert used.folds.dim.live.count == rows, "the rows are taken over"
    new = node_of(first)
    for step in story:
        play(used, step)
        play(new, step)
        assert_noted(used)
    assert noted_since(used, begin_ms) == noted_since(new, 0)
    assert min(used.ids.values()) > rows


@given(settings_of_all, stories, st.lists(st.sets(st.sampled_from(NAMES[:3]), min_size=1), max_size=3), st.data())
@settings(max_examples=examples(100), deadline=None)
@pytest.mark.slow
def test_a_story_with_forgotten_items_equals_its_replay_from_any_snapshot(
    first: list[AlarmSettings], story: list[tuple[str, object]], forgotten: list[set[str]], data: st.DataObject
) -> None:
    node = node_of(first)
    for names in [*forgotten, set[str]()]:
        for step in story:
            play(node, step)
            assert_noted(node)
        if names:
            node.forget(*sorted(names))
            assert_noted(node)
            for name in data.draw(st.permutations(sorted(names))):
                node.declare(name, data.draw(alarms), adapter="p1" if name == "c" else "")
    taken = node.folds.snapshot()
    assert node.replayed(0).snapshot() == taken
    assert node.replayed(data.draw(st.integers(0, len(node.frames)))).snapshot() == taken


class ToldLives:
    """Every life that was committed, beside the fold that gave it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.fold = Producers()
        self.run = 0
        self.given: list[ProducerOpened] = []
        self.present: dict[str, int] = {}
        """Life by name, of names that are not forgotten."""

    def open(self, name: str) -> None:
        self.run += 1
        record = self.fold.open(name, self.run, node_ns=self.run, epoch=1)
        if self._rng.random() < 0.2:
            self.fold.forget_pending()  # It was cut.
            return
        self.fold.fold_opened(record, self.run, 1)
        self.given.append(record)
        self.present[name] = record.producer_id

    def append(self, name: str) -> None:
        life = self.present.get(name)
        if life is not None:
            last = self.fold.last_appended(life)
            assert last is not None
            self.fold.fold_batch(life, last + 1, self.run, Position(1, self.run))

    def forget(self, name: str) -> None:
        record = self.fold.forget(name)
        assert (record is not None) == (name in self.present)
        if record is None:
            return
        assert self.fold.forget(name) is None, "it is being forgotten"
        if self._rng.random() < 0.2:
            self.fold.forget_pending()
            return
        self.fold.fold_forgotten(record)
        del self.present[name]

    def restart(self, _: str) -> None:
        fold = self.fold
        self.fold = Producers.restore(fold.snapshot())
        assert self.fold.snapshot() == fold.snapshot()

    def check(self) -> None:
        numbers = [one.producer_id for one in self.given]
        assert len(set(numbers)) == len(numbers), "a number was given twice"
        for one in self.given:
            standing = self.fold.standing(one.name, one.run, one.producer_id)
            if self.present.get(one.name) == one.producer_id:
                assert standing is Standing.PRESENT
            else:
                assert standing in (Standing.SUPERSEDED, Standing.FORGOTTEN), "its batches may be recorded"
        assert len(self.fold) == len(self.present)


@pytest.mark.parametrize("seed", range(200))
def test_no_life_is_given_twice_and_none_that_is_over_goes_on(seed: int) -> None:
    """Over cuts and restarts from snapshots."""
    rng = random.Random(seed)
    told = ToldLives(rng)
    for _ in range(40):
        step = rng.choice((told.open, told.open, told.append, told.forget, told.restart))
        step(rng.choice("abc"))
        told.check()
