"""Cases of forced items: a case says whether the value that brought it about was a forced one."""

import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.slices import sliced
from albireo.machine.fold import AlarmConfig
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.model import quality as q
from albireo.model.case import Action
from albireo.model.item import AlarmSettings, Condition
from albireo.model.value import ValueType
from tests.parts.alarm import AlarmFolds, AlarmNode, batch_of

QUIET = AlarmConfig(chatter_window_ms=1, chatter_activations=16)


def of_item(on_delay_ms: int = 0) -> AlarmNode:
    node = AlarmNode(QUIET)
    node.declare("a", AlarmSettings(hi=10.0, on_delay_ms=on_delay_ms))
    return node


def force(node: AlarmNode, value: float) -> None:
    """As the records of a force and its sample fold."""
    index = node.folds.dim.index_of(node.ids["a"])
    assert index is not None
    node.folds.conditions.force(index, is_forced=True)
    node.append_batch(batch_of(ValueType.FLOAT64, [(node.ids["a"], value, q.GOOD_LOCAL_OVERRIDE, None)], node.wall_ns))


def release(node: AlarmNode, measured: float) -> None:
    index = node.folds.dim.index_of(node.ids["a"])
    assert index is not None
    node.folds.conditions.force(index, is_forced=False)
    node.sample("a", measured)


def told(node: AlarmNode) -> list[tuple[str, object]]:
    return [(one.cause, one.case.is_forced) for _, one in node.transitions]


def test_each_judgement_says_whether_a_forced_value_brought_it_about() -> None:
    node = of_item()
    node.sample("a", 11.0)
    force(node, 1.0)
    force(node, 12.0)
    release(node, 1.0)
    assert told(node) == [
        ("raised", False),
        ("cleared", True),
        ("activated", True),
        ("cleared", False),
    ]


def test_a_case_keeps_the_mark_while_its_judgement_stands() -> None:
    node = of_item()
    force(node, 12.0)
    node.act(ActionAsked(action=Action.ACK, user="ann", item_id=1, condition=Condition.HI))
    release(node, 13.0)
    assert told(node) == [("raised", True), ("acked", True)]
    (case,) = node.open_cases()
    assert (case.value, case.is_forced) == (12.0, True)


def test_a_device_that_reports_an_override_of_its_own_is_not_forced() -> None:
    node = of_item()
    node.append_batch(batch_of(ValueType.FLOAT64, [(1, 12.0, q.GOOD_LOCAL_OVERRIDE, None)], node.wall_ns))
    assert told(node) == [("raised", False)]


def test_a_delay_that_ends_before_the_forced_value_is_there_is_judged_by_the_measured_one() -> None:
    node = of_item(on_delay_ms=1000)
    node.sample("a", 11.0)
    index = node.folds.dim.index_of(node.ids["a"])
    assert index is not None
    node.folds.conditions.force(index, is_forced=True)
    node.pass_time(1000)
    assert told(node) == [("raised", False)]


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_snapshot_between_the_judgement_and_its_record_keeps_the_mark(is_forced: bool) -> None:
    node = of_item(on_delay_ms=0)
    node.commit_proposals = lambda limit=500: None  # type: ignore[method-assign]  # The record is not made yet.
    if is_forced:
        force(node, 12.0)
    else:
        node.sample("a", 12.0)
    taken = node.folds.snapshot()
    folds = AlarmFolds.restore(taken, QUIET)
    assert folds.snapshot() == taken
    (raised,) = folds.cases.propose(node.log_time, node.wall_ns)
    assert raised.case.is_forced is is_forced


@pytest.mark.parametrize("rows", [[-1], [1], ["a"]])
def test_a_snapshot_with_a_row_that_is_none_is_refused(rows: list[object]) -> None:
    node = of_item()
    before = b"".join([*node.folds.conditions.snapshot_slices()][:-1])
    with pytest.raises(DecodeError):
        Conditions.restore(before + sliced(rows), node.folds.dim, QUIET)


def test_a_forgotten_item_leaves_no_mark() -> None:
    node = of_item()
    force(node, 12.0)
    assert node.folds.conditions.rules.by_forced
    node.forget("a")
    assert not node.folds.conditions.rules.by_forced
    node.declare("b", AlarmSettings(hi=10.0))
    node.sample("b", 12.0)
    assert told(node)[-1] == ("raised", False)
