"""Alarm folds against themselves: any story, any cut, any restart. Against slow rules: test_alarm_rules.py."""

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings

from albireo.codec.errors import DecodeError
from albireo.codec.questions.cases import ActionAsked
from albireo.machine.fold import Cases, Conditions, Dim
from albireo.model import quality as q
from albireo.model.case import Action
from albireo.model.instant import MS
from albireo.model.item import AlarmSettings, Condition
from albireo.model.refusal import Refusal
from albireo.model.value import ValueType
from tests.long_form import examples
from tests.parts.alarm import AlarmNode, batch_of
from tests.parts.alarm_folds import FLOATS, NAMES, alarms, assert_noted, node_of, play, steps


@given(st.lists(alarms, min_size=3, max_size=3), st.lists(steps, max_size=40), st.data())
@settings(max_examples=examples(150), deadline=None)
@pytest.mark.slow
def test_any_story_is_noted_and_equals_its_replay_from_any_snapshot(
    first: list[AlarmSettings], story: list[tuple[str, object]], data: st.DataObject
) -> None:
    node = node_of(first)
    for step in story:
        play(node, step)
        assert_noted(node)
    split = data.draw(st.integers(0, len(node.frames)))
    taken = node.folds.snapshot()
    assert node.replayed(0).snapshot() == taken
    assert node.replayed(split).snapshot() == taken
    assert node.replayed(len(node.frames)).cases.propose(node.log_time, node.wall_ns) == []


@given(st.lists(alarms, min_size=3, max_size=3), st.lists(steps, max_size=25), st.data())
@settings(max_examples=examples(60), deadline=None)
@pytest.mark.slow
def test_a_crash_between_proposal_and_commit_loses_nothing_and_repeats_nothing(
    first: list[AlarmSettings], story: list[tuple[str, object]], data: st.DataObject
) -> None:
    """Each proposal is one record; some of what was handed out is committed, then the node dies and replays."""
    node = node_of(first)
    for step in story:
        play(node, step)
    ids = {name: place for place, name in enumerate(NAMES, start=1)}
    extreme = [(ids[name], data.draw(st.sampled_from([0.0, 10.0])), 0, None) for name in FLOATS]
    node.commit_proposals = lambda limit=500: None  # type: ignore[method-assign]  # CORE is slow.
    node.append_batch(batch_of(ValueType.FLOAT64, extreme, node.wall_ns))
    handed_out = node.folds.cases.propose(node.log_time, node.wall_ns)
    committed = handed_out[: data.draw(st.integers(0, len(handed_out)))]
    if committed:
        node.note(committed)
    node.folds = node.replayed(data.draw(st.integers(0, len(node.frames))))
    again = node.folds.cases.propose(node.log_time, node.wall_ns)
    keys = [(one.case.item_id, one.case.condition) for one in again]
    assert len(keys) == len(set(keys))
    lost = [msgspec.msgpack.encode(one) for one in handed_out[len(committed) :]]  # As bytes, for NaN is equal to none.
    assert [found for one in again if (found := msgspec.msgpack.encode(one)) in lost] == lost
    if again:
        node.note(again)
    del node.commit_proposals
    node.commit_proposals()
    assert_noted(node)


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 4), st.floats(allow_nan=False), st.sampled_from([0, int(q.BAD)])),
            min_size=1,
            max_size=20,
        ),
        max_size=10,
    )
)
@settings(deadline=None)
@pytest.mark.slow
def test_dim_holds_the_last_sample_of_each_item(batches: list[list[tuple[int, float, int]]]) -> None:
    """Source times that never go back: the oracle is a dict."""
    node = AlarmNode()
    for name in ("a", "b", "c"):
        node.declare(name)
    last: dict[int, tuple[int, int]] = {}
    usable: dict[int, float] = {}
    unknown = 0
    for found in batches:
        node.pass_time(1)
        node.append_batch(batch_of(ValueType.FLOAT64, [(*row, None) for row in found], node.wall_ns))
        for place, (item_id, _, quality) in enumerate(found):
            if item_id > 3:
                unknown += 1
                continue
            last[item_id] = (quality, node.sequence - len(found) + 1 + place)
            kept = [v for i, v, k in found if i == item_id][-1]
            if [k for i, _, k in found if i == item_id][-1] == 0:
                usable[item_id] = kept
    dim = node.folds.dim
    assert dim.counters.unknown == unknown
    for item_id, (quality, sequence) in last.items():
        index = dim.index_of(item_id)
        assert index is not None
        assert (int(dim.live.quality[index]), int(dim.live.changed_at[index])) == (quality, sequence)
        assert dim.value_at(index) == usable.get(item_id)
    assert np.array_equal(dim.changed_since(0), sorted(item_id - 1 for item_id in last))


@given(st.binary(max_size=200), st.lists(steps, max_size=8), st.integers(0, 3000), st.integers(0, 255))
@example(b"", [("declare", ("a", AlarmSettings(hi_hi=8.0, rate_per_s=2.0, stale_s=4.0)))], 126, 67)
@settings(max_examples=examples(100), deadline=None)
@pytest.mark.slow
def test_a_damaged_snapshot_is_a_typed_error_or_another_valid_one(
    noise: bytes, story: list[tuple[str, object]], place: int, byte: int
) -> None:
    """Snapshots are checksummed by the log; this is the second line."""
    node = node_of([AlarmSettings(hi=6.0), AlarmSettings(lo=2.0), AlarmSettings(stale_s=4.0)])
    for step in story:
        play(node, step)
    folds = node.folds
    for data in (noise, *(_damaged(one, place, byte) for one in folds.snapshot())):
        for restore in (
            Dim.restore,
            lambda one: Conditions.restore(one, folds.dim),
            lambda one: Cases.restore(one, folds.conditions),
        ):
            try:
                restore(data)
            except DecodeError:
                continue


def _damaged(data: bytes, place: int, byte: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([byte]) + data[place + 1 :]


def test_refusals_leave_no_trace() -> None:
    node = node_of([AlarmSettings(hi=6.0)] * 3)
    before = node.folds.snapshot()
    for action in Action:
        if action in (Action.SHELVE, Action.SHELVE_ONCE, Action.OUT_OF_SERVICE, Action.ACK_ALL):
            continue
        assert isinstance(node.act(ActionAsked(action=action, user="ann", comment="x", case_id=99)), Refusal)
        assert isinstance(
            node.act(ActionAsked(action=action, user="ann", comment="x", item_id=1, condition=Condition.HI)),
            Refusal,
        )
    assert node.folds.snapshot() == before
    assert node.log_time % MS == 0
