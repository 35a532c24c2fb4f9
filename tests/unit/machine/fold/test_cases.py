"""Cases: proposals in slices, the appended and the committed view, operators, followers, and the alarm load."""

from collections.abc import Callable

import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import CaseChanged, ItemDeclared
from albireo.machine.fold import AlarmConfig, Cases
from albireo.machine.fold.alarms import cases as module
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.table.table import Table
from albireo.model.case import Action, Case, LifecycleStatus
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import ItemId, ValueType
from tests.parts.alarm import AlarmFolds, AlarmNode, batch_of

QUIET = AlarmConfig(chatter_window_ms=1, chatter_activations=16)


class SlowNode(AlarmNode):
    """Its proposals are committed only when the test says so."""

    def commit_proposals(self, limit: int = 500) -> None:
        pass

    def propose(self, limit: int = 500) -> list[CaseChanged]:
        return self.folds.cases.propose(self.log_time, self.wall_ns, limit)


def declare_many(node: AlarmNode, count: int) -> None:
    items = [
        DataItem(name=f"i{one}", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=10.0, hi_hi=20.0))
        for one in range(1, count + 1)
    ]
    node.append_records(
        [ItemDeclared(item_id=ItemId(one), node="root", item=item) for one, item in enumerate(items, start=1)]
    )


def set_all(node: AlarmNode, count: int, value: float) -> None:
    rows = [(one, value, 0, None) for one in range(1, count + 1)]
    node.append_batch(batch_of(ValueType.FLOAT64, rows, node.wall_ns))


def one_rule(node: AlarmNode) -> None:
    node.declare("a", AlarmSettings(hi=10.0))


def asked(action: Action, **rest: object) -> ActionAsked:
    return ActionAsked(action=action, user="ann", item_id=1, condition=Condition.HI, **rest)  # type: ignore[arg-type]  # Any.


def test_many_cases_come_in_slices_each_once() -> None:
    node = SlowNode(QUIET)
    declare_many(node, 60)
    set_all(node, 60, 30.0)
    sizes, seen = [], set()
    while found := node.propose(limit=50):
        sizes.append(len(found))
        seen |= {(one.case.item_id, one.case.condition) for one in found}
        assert len(node.folds.cases) == 0, "readers see what is committed"
    assert (sizes, len(seen)) == ([50, 50, 20], 120)


def test_nothing_more_is_said_of_a_rule_while_its_record_is_on_its_way() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    raised = node.propose()
    node.sample("a", 1.0)
    assert node.propose() == []
    node.note(raised)
    assert [one.cause for one in node.propose()] == ["cleared"]


def test_condition_that_came_and_went_before_a_turn_leaves_no_record() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.sample("a", 1.0)
    assert node.propose() == []


def test_case_number_is_the_sequence_of_the_record_that_raised_it() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    [case] = node.open_cases()
    assert case.case_id == node.sequence
    assert node.folds.cases.find(case.case_id) == case


def test_dropped_proposals_are_proposed_again() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    first = node.propose()
    node.folds.cases.drop_pending()
    assert node.propose() == first


def test_dropped_action_leaves_the_committed_case() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.note(node.propose())
    before = node.open_cases()
    assert not isinstance(node.folds.cases.act(asked(Action.ACK), node.log_time, node.wall_ns), Refusal)
    node.folds.cases.drop_pending()
    assert (node.open_cases(), node.propose()) == (before, [])
    assert not isinstance(node.folds.cases.act(asked(Action.ACK), node.log_time, node.wall_ns), Refusal)


def test_record_of_a_rule_that_nobody_declared_is_counted() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    for item_id, condition in ((99, Condition.HI), (1, Condition.LO)):
        node.note([CaseChanged(case=Case(case_id=0, item_id=item_id, condition=condition, severity=1), cause="raised")])
    assert (node.folds.cases.counters.unknown, node.open_cases()) == (2, [])


def test_two_actions_before_the_first_is_committed_build_on_each_other() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.note(node.propose())
    records = []
    for one in (asked(Action.ACK), asked(Action.COMMENT, comment="on it"), asked(Action.SHELVE_ONCE)):
        found = node.folds.cases.act(one, node.log_time, node.wall_ns)
        assert not isinstance(found, Refusal)
        records += found
    for record in records:
        node.note([record])
    [case] = node.open_cases()
    assert (case.is_acked, case.comment, case.shelving) == (True, "on it", "one_shot")


def test_clear_waits_for_an_action_on_its_way_and_is_not_overwritten() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.note(node.propose())
    acked = node.folds.cases.act(asked(Action.ACK), node.log_time, node.wall_ns)
    assert not isinstance(acked, Refusal)
    node.sample("a", 1.0)
    assert node.propose() == []
    node.note(acked)
    node.note(node.propose())
    assert node.open_cases() == []


def test_two_shelves_of_a_rule_without_a_case_make_one_case() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    first = node.folds.cases.act(asked(Action.SHELVE, duration_ms=1000), node.log_time, node.wall_ns)
    second = node.folds.cases.act(asked(Action.SHELVE, duration_ms=1000), node.log_time, node.wall_ns)
    assert not isinstance(first, Refusal)
    assert second == Refusal(RefusalCode.NOT_YET, "it is just being raised", "ask again in a moment")
    node.note(first)
    assert len(node.open_cases()) == 1


def test_case_that_is_just_closing_is_refused() -> None:
    node = SlowNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.note(node.propose())
    node.sample("a", 1.0)
    node.note(node.propose())
    assert not isinstance(node.folds.cases.act(asked(Action.ACK), node.log_time, node.wall_ns), Refusal)
    assert node.folds.cases.act(asked(Action.COMMENT, comment="x"), node.log_time, node.wall_ns) == Refusal(
        RefusalCode.NOT_POSSIBLE, "it is just being closed", "nothing is left to do"
    )


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (ActionAsked(action=Action.ACK, user=""), "no user"),
        (ActionAsked(action=Action.ACK, user="u" * 101), "too long a name"),
        (ActionAsked(action=Action.ACK, user="ann", comment="c" * 1001), "comment is too long"),
        (ActionAsked(action=Action.COMMENT, user="ann", case_id=1), "comment is empty"),
        (ActionAsked(action=Action.ACK, user="ann"), "neither a case nor an item"),
        (ActionAsked(action=Action.ACK, user="ann", item_id=1), "neither a case nor an item"),
        (ActionAsked(action=Action.ACK, user="ann", case_id=1), "no open case 1"),
        (ActionAsked(action=Action.ACK, user="ann", item_id=9, condition=Condition.HI), "no hi alarm on item 9"),
        (
            ActionAsked(action=Action.SHELVE_ONCE, user="ann", item_id=1, condition=Condition.LO),
            "no lo alarm on item 1",
        ),
        (ActionAsked(action=Action.ACK_ALL, user="ann"), "no case waits"),
        (asked(Action.ACK), "it has no open case"),
        (asked(Action.SHELVE), "needs a duration"),
        (asked(Action.SHELVE, duration_ms=0), "0 ms is no time"),
        (asked(Action.SHELVE_ONCE, duration_ms=-5), "-5 ms is no time"),
    ],
)
def test_refusals_name_the_reason_and_a_remedy(one: ActionAsked, reason: str) -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    found = node.act(one)
    assert isinstance(found, Refusal)
    assert reason in found.cause
    assert found.remedy


def test_rule_that_the_settings_no_longer_ask_for_can_be_shelved_no_more() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    node.declare("a", None)
    assert isinstance(node.act(asked(Action.OUT_OF_SERVICE)), Refusal)


def test_ack_all_goes_in_slices_and_leaves_out_what_is_acked() -> None:
    node = AlarmNode(QUIET)
    count = module.PROPOSED_MAX
    declare_many(node, count)
    set_all(node, count, 30.0)
    assert len(node.open_cases()) == 2 * count
    node.act(ActionAsked(action=Action.ACK, user="bob", case_id=node.open_cases()[0].case_id))
    before = len(node.frames)
    node.act(ActionAsked(action=Action.ACK_ALL, user="ann", comment="flood"))
    assert all(one.is_acked for one in node.open_cases())
    assert [one.record_count for one in node.frames[before:]] == [count, count - 1]
    assert {one.actor for one in node.open_cases()[1:]} == {"ann"}


def test_one_shot_shelve_ends_with_the_longest_shelve_at_the_latest() -> None:
    node = AlarmNode(AlarmConfig(shelve_max_ms=60_000))
    one_rule(node)
    node.sample("a", 11.0)
    node.act(asked(Action.SHELVE_ONCE))
    node.pass_time(60_000)
    assert [one.shelving for one in node.open_cases()] == ["unshelved"]


def test_changed_since_gives_open_and_closed_cases_once() -> None:
    node = AlarmNode(QUIET)
    declare_many(node, 3)
    set_all(node, 3, 15.0)
    mark = node.sequence
    assert node.folds.cases.table.changed_since(mark) == []
    node.act(ActionAsked(action=Action.ACK, user="ann", item_id=1, condition=Condition.HI))
    node.act(ActionAsked(action=Action.ACK, user="ann", item_id=2, condition=Condition.HI))
    node.append_batch(batch_of(ValueType.FLOAT64, [(1, 0.0, 0, None)], node.wall_ns))
    table = node.folds.cases.table
    changed = [one for key in sorted(table.changed_since(mark)) if (one := table.word(key)) is not None]
    assert [(one.item_id, one.lifecycle_status) for one in changed] == [
        (1, LifecycleStatus.CLOSED),
        (2, LifecycleStatus.UPDATED),
    ]
    assert [one.item_id for one in node.folds.cases.closed()] == [1]


def test_follower_behind_the_oldest_closed_case_takes_all() -> None:
    node = AlarmNode(QUIET)
    node.folds.cases.table = table = Table(CASES, gone_max=2)
    declare_many(node, 3)
    set_all(node, 3, 15.0)
    mark = node.sequence
    node.act(ActionAsked(action=Action.ACK_ALL, user="ann"))
    set_all(node, 3, 0.0)
    assert mark < table.forgotten_at < node.sequence
    assert table.changed_since(node.sequence) == []


MINUTE = 60_000
HOUR = 60 * MINUTE


def metrics(node: AlarmNode):  # type: ignore[no-untyped-def]  # The struct is the assertion's business.
    return node.folds.cases.metrics(node.log_time)


def test_rate_peak_and_flood_over_ten_minutes() -> None:
    node = AlarmNode(QUIET)
    declare_many(node, 9)
    set_all(node, 9, 15.0)
    found = metrics(node)
    assert (found.rate_per_10min, found.is_flood, found.standing, found.unacked) == (9, False, 9, 9)
    node.pass_time(5 * MINUTE)
    node.append_batch(batch_of(ValueType.FLOAT64, [(1, 30.0, 0, None)], node.wall_ns))
    found = metrics(node)
    assert (found.rate_per_10min, found.is_flood, found.peak_per_10min) == (10, True, 10)
    node.pass_time(6 * MINUTE)
    found = metrics(node)
    assert (found.rate_per_10min, found.is_flood, found.peak_per_10min, found.peak_ago_s) == (1, False, 10, 360)
    assert found.flood_fraction == pytest.approx(5 / 11)


def test_silent_alarms_ask_for_nothing_and_do_not_count_as_new() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    node.act(asked(Action.OUT_OF_SERVICE))
    node.sample("a", 11.0)
    found = metrics(node)
    assert (found.rate_per_10min, found.standing, found.unacked, found.silent) == (0, 0, 0, 1)
    assert [one.activations for one in found.bad_actors] == [1]


def test_standing_for_more_than_a_day_is_stale() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.pass_time(24 * HOUR)
    assert metrics(node).stale == 0
    node.pass_time(1)
    assert metrics(node).stale == 1


def test_standing_counts_from_the_return_of_an_alarm_whose_case_stayed_open() -> None:
    node = AlarmNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.pass_time(23 * HOUR)
    node.sample("a", 1.0)
    node.pass_time(HOUR)
    node.sample("a", 11.0)
    node.pass_time(2 * HOUR)
    assert (metrics(node).standing, metrics(node).stale) == (1, 0)
    node.pass_time(22 * HOUR + 1)
    assert (metrics(node).standing, metrics(node).stale) == (1, 1)


def test_bad_actors_are_those_of_today_and_yesterday_most_activations_first() -> None:
    node = AlarmNode(QUIET)
    declare_many(node, 20)

    def flap(item_id: int, times: int) -> None:
        for _ in range(times):
            for value in (15.0, 0.0):
                node.append_batch(batch_of(ValueType.FLOAT64, [(item_id, value, 0, None)], node.wall_ns))

    for item_id in range(1, 13):
        flap(item_id, item_id)
    worst = metrics(node).bad_actors
    assert [(one.item_id, one.activations) for one in worst] == [(one, one) for one in range(12, 2, -1)]
    assert {one.condition for one in worst} == {"hi"}
    node.pass_time(25 * HOUR)
    flap(3, 14)
    assert [(one.item_id, one.activations) for one in metrics(node).bad_actors[:2]] == [(3, 17), (12, 12)]
    node.pass_time(24 * HOUR)
    assert [(one.item_id, one.activations) for one in metrics(node).bad_actors] == [(3, 14)]
    node.pass_time(24 * HOUR)
    assert metrics(node).bad_actors == ()


def test_questions_about_the_load_change_nothing() -> None:
    """A replay is not asked, and must still equal this fold."""
    node = AlarmNode(QUIET)
    one_rule(node)
    node.sample("a", 11.0)
    node.pass_time(30 * HOUR)
    metrics(node)
    assert node.folds.snapshot() == node.replayed().snapshot()


def test_damaged_snapshot_is_a_typed_error() -> None:
    node = AlarmNode(QUIET)
    declare_many(node, 2)
    set_all(node, 2, 15.0)
    data = node.folds.cases.snapshot()
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            Cases.restore(data[:cut], node.folds.conditions)
    with pytest.raises(DecodeError):
        Cases.restore(data, AlarmNode().folds.conditions)


def stands(node: AlarmNode) -> None:
    node.sample("a", 11.0)


def is_acked(node: AlarmNode) -> None:
    node.sample("a", 11.0)
    node.act(asked(Action.ACK))


def waits_for_an_ack(node: AlarmNode) -> None:
    node.sample("a", 11.0)
    node.sample("a", 1.0)


def is_shelved(node: AlarmNode) -> None:
    node.sample("a", 11.0)
    node.act(asked(Action.SHELVE, duration_ms=30_000))


def is_shelved_without_a_case(node: AlarmNode) -> None:
    node.act(asked(Action.SHELVE, duration_ms=30_000))


def is_out_of_service(node: AlarmNode) -> None:
    node.sample("a", 11.0)
    node.act(asked(Action.OUT_OF_SERVICE))


def is_suppressed(node: AlarmNode) -> None:
    node.sample("off", True)
    node.sample("a", 11.0)


def chatters(node: AlarmNode) -> None:
    for _ in range(3):
        node.sample("a", 11.0)
        node.pass_time(1_000)
        node.sample("a", 1.0)


def is_about_to_stand(node: AlarmNode) -> None:
    node.sample("slow", 11.0)


def is_about_to_clear(node: AlarmNode) -> None:
    node.sample("slow", 11.0)
    node.pass_time(3_000)
    node.sample("slow", 1.0)


def moves_fast(node: AlarmNode) -> None:
    node.sample("fast", 0.0)
    node.pass_time(1_000)
    node.sample("fast", 30.0)


def is_silent(node: AlarmNode) -> None:
    node.sample("mute", 1.0)
    node.pass_time(6_000)


def is_not_silent_yet(node: AlarmNode) -> None:
    node.sample("mute", 1.0)
    node.pass_time(1_000)


@pytest.mark.parametrize(
    "story",
    [
        stands, is_acked, waits_for_an_ack, is_shelved, is_shelved_without_a_case, is_out_of_service, is_suppressed,
        chatters, is_about_to_stand, is_about_to_clear, moves_fast, is_silent, is_not_silent_yet,
    ],
)  # fmt: skip
def test_restart_from_a_snapshot_at_the_end_of_the_log_changes_nothing(story: Callable[[AlarmNode], None]) -> None:
    """No frame follows that would set right what the snapshot, or its reading, forgot: the folds are the same as they
    were, ask for no record, wake at the same time, and go on alike."""
    config = AlarmConfig(chatter_activations=3, chatter_window_ms=60_000, chatter_calm_ms=20_000)
    node = AlarmNode(config)
    node.declare("a", AlarmSettings(hi=10.0, suppressed_by="off"))
    node.declare("off", None, ValueType.BOOL)
    node.declare("slow", AlarmSettings(hi=10.0, on_delay_ms=3_000, off_delay_ms=4_000))
    node.declare("fast", AlarmSettings(rate_per_s=2.0))
    node.declare("mute", AlarmSettings(stale_s=5.0))
    story(node)
    restarted = node.replayed(len(node.frames))
    assert restarted.cases.propose(node.log_time, node.wall_ns) == []
    assert restarted.deadline() == node.folds.deadline()
    assert restarted.snapshot() == node.folds.snapshot()

    before, noted = node.folds, len(node.transitions)
    end = (node.now_ms, node.sequence)

    def goes_on(folds: AlarmFolds) -> list[tuple[int, CaseChanged]]:
        node.folds = folds
        node.now_ms, node.sequence = end
        del node.transitions[noted:]
        node.pass_time(60_000)
        for name, value in (("slow", 11.0), ("a", 1.0), ("off", False), ("a", 11.0), ("mute", 1.0)):
            node.sample(name, value)
            node.pass_time(5_000)
        return node.transitions[noted:]

    assert goes_on(restarted) == goes_on(before)
