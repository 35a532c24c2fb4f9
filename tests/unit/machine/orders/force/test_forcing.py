"""Forced values at the root machine: two series, what each shows, and how a force ends (ADR-0181)."""

from typing import Any

import msgspec
import numpy as np
import pytest

from albireo.codec import samples
from albireo.codec.frame import body_crc
from albireo.codec.message import Answer, Append, Appended, AppendEntry, ProducerHello, ProducerWelcome
from albireo.codec.record import Audited, ForceEnded, GapFound, ItemForced, Kind, Stream, encode_records
from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.diagnostics.adapters import SILENT_NS
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import AdmissionChanged, Served, Suspended
from albireo.machine.orders.force import forcing
from albireo.model.force import FORCE_MS_MAX
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.value import ValueType
from tests.parts.forcing import CO, FAN, ITEMS, LONG_MS, cases, force, forces, hello, order, release, series, shown, up
from tests.parts.refusals import refused_with
from tests.parts.retired_items import again
from tests.parts.root import T0, World, append


def live(one: World, welcome: ProducerWelcome, first: int, seconds: int, item: int = 0) -> None:
    """Let time pass while the device goes on: a sample each 5 s, the last 5 s ago at most."""
    for number in range(seconds // 5):
        append(one, welcome, first + number, [11.0 + number], item)
        one.pass_time(5 * SECOND)
    one.pass_time(seconds % 5 * SECOND)


def answers(one: World) -> dict[bytes, str]:
    """Errors of the answers so far, by who asked; they are gone then."""
    found = {to: refused_with(message) for to, message in one.sent if isinstance(message, Answer)}
    one.take(Answer)
    return found


def both(one: World, item: str = "co") -> list[tuple[Any, str]]:
    return shown(one, item, f"{item}/measured")


def test_a_forced_item_shows_the_value_and_its_measured_one_goes_on_beside_it() -> None:
    one, welcome = up()
    told = force(one)
    assert both(one) == [(20.0, "GoodLocalOverride"), (10.0, "Good")]
    append(one, welcome, 2, [11.0, 12.0])
    one.sync()
    assert both(one) == [(20.0, "GoodLocalOverride"), (12.0, "Good")]
    assert series(one, "co") == [(10.0, "Good"), (20.0, "GoodLocalOverride")]
    assert series(one, "co/measured") == [(10.0, "Good"), (11.0, "Good"), (12.0, "Good")]
    (row,) = forces(one)
    assert (row["item"], row["value"], row["unit"]) == ("root:co", 20.0, "ppm")
    assert (row["measured"]["value"], row["user"], row["principal"]) == (12.0, "anna", "local:0")
    assert (row["reason"], row["left_ms"]) == ("sensor broken", LONG_MS)
    status: Any = one.ask("status").result
    assert status["forced_items"] == 1
    assert told == {**row, "measured": {**told["measured"], "value": 10.0}}


def test_a_released_item_goes_on_with_the_last_measured_value() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    release(one)
    assert both(one) == [(11.0, "Good"), (11.0, "BadOutOfService")]
    append(one, welcome, 3, [12.0])
    one.sync()
    assert series(one, "co") == [(10.0, "Good"), (20.0, "GoodLocalOverride"), (11.0, "Good"), (12.0, "Good")]
    assert forces(one) == []


@pytest.mark.parametrize(
    ("item", "value", "measured", "kind"),
    [
        ("door", True, 0, ValueType.BOOL),
        ("mode", "auto", "off", ValueType.STRING),
        ("count", 2**53 + 1, 7, ValueType.INT64),
    ],
)
def test_every_type_is_forced_and_comes_back(item: str, value: Any, measured: Any, kind: ValueType) -> None:
    one, welcome = up()
    known = [each.name for each in ITEMS].index(item)
    column: Column = Strings.of(["off"]) if kind is ValueType.STRING else np.array([measured])
    times = np.array([T0 + one.now])
    batch = SampleBatch(
        value_type=kind,
        item_id=np.array([welcome.item_ids[known]], np.uint32),
        source_ns=times,
        node_ns=times,
        value=column,
        quality=np.zeros(1, np.uint32),
    )
    force(one, item, value)
    body = samples.encode_body(welcome.producer_id, 2, batch)
    one.letter(b"plc", Append(entries=(AppendEntry(1, int(kind), 1, body_crc(body)),)), [body])
    one.sync()
    assert both(one, item) == [(value, "GoodLocalOverride"), (measured, "Good")]
    release(one, item)
    assert shown(one, item) == [(measured, "Good")]


def test_a_sample_behind_the_release_is_not_undone_by_the_copy() -> None:
    """It is appended before the release is folded, and so before the copy can be."""
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    one.sync()
    order(one, "force_release", item="co")
    append(one, welcome, 3, [12.0])
    one.sync()
    assert series(one, "co") == [(10.0, "Good"), (20.0, "GoodLocalOverride"), (12.0, "Good")]
    assert shown(one, "co") == [(12.0, "Good")]


def test_a_sample_on_its_way_when_the_item_is_forced_is_neither_lost_nor_doubled() -> None:
    one, welcome = up()
    append(one, welcome, 2, [11.0])
    order(one, "force", item="co", value=20.0, for_ms=LONG_MS, reason="r")
    append(one, welcome, 3, [12.0])
    one.sync()
    assert series(one, "co") == [(10.0, "Good"), (11.0, "Good"), (20.0, "GoodLocalOverride")]
    assert series(one, "co/measured") == [(12.0, "Good")]


def test_batches_of_forced_items_are_answered_once_and_repeats_are_known() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    one.sync()
    end = one.end
    append(one, welcome, 2, [11.0])
    one.sync()
    assert one.end == end
    told = one.take(Appended)
    assert [each.producer_sequence for each in told if isinstance(each, Appended)] == [1, 2, 2]


def test_a_force_expires_by_log_time_and_is_on_record() -> None:
    one, welcome = up()
    force(one, for_ms=30_000)
    live(one, welcome, 2, 29)
    assert shown(one, "co") == [(20.0, "GoodLocalOverride")]
    assert forces(one)[0]["left_ms"] <= 1_000
    one.pass_time(2 * SECOND)
    one.pass_time(0)
    assert shown(one, "co") == [(15.0, "Good")]
    assert [each.cause for each in one.records(ForceEnded) if isinstance(each, ForceEnded)] == ["expired"]
    entries = [each for each in one.records(Audited) if isinstance(each, Audited)]
    assert [(each.action, each.subject, each.user, each.principal) for each in entries] == [
        ("forced", "root:co", "anna", "local:0"),
        ("force_expired", "root:co", OWN_ADAPTER, ""),
    ]
    assert entries[0].detail == "20.0 for 30 s: sensor broken"


def test_a_restart_keeps_the_force_and_what_it_has_left() -> None:
    one, welcome = up()
    force(one, for_ms=30_000)
    one.pass_time(20 * SECOND)
    append(one, welcome, 2, [11.0])
    one.sync()
    two = again(one)
    assert both(two) == [(20.0, "GoodLocalOverride"), (11.0, "Good")]
    assert 9_000 <= forces(two)[0]["left_ms"] <= 10_000
    welcome = hello(two, run=2)
    append(two, welcome, 1, [12.0])
    two.sync()
    assert both(two) == [(20.0, "GoodLocalOverride"), (12.0, "Good")]
    two.pass_time(11 * SECOND)
    two.pass_time(0)
    assert shown(two, "co") == [(12.0, "Good")]


def test_the_forced_value_is_said_again_when_a_node_begins_to_lead() -> None:
    """So that the history knows it behind the time in which the node was down."""
    one, _ = up()
    force(one)
    two = again(one)
    assert series(two, "co")[-2:] == [(20.0, "GoodLocalOverride")] * 2
    (gap,) = [each for each in two.records(GapFound) if isinstance(each, GapFound) and each.item_ids]
    (forced,) = two.records(ItemForced)
    assert isinstance(forced, ItemForced)
    assert forced.measured_id in gap.item_ids


def test_a_node_that_stopped_between_the_end_of_a_force_and_the_copy_makes_it_at_the_next_start() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    one.sync()
    order(one, "force_release", item="co")
    two = again(one)  # The release is in the log, not folded yet.
    assert both(two) == [(11.0, "Good"), (11.0, "BadOutOfService")]
    three = again(two)
    assert both(three) == [(11.0, "Good"), (11.0, "BadOutOfService")]
    assert series(three, "co") == [(10.0, "Good"), (20.0, "GoodLocalOverride"), (11.0, "Good")]


def test_no_copy_is_made_at_the_next_start_if_a_sample_has_come_behind_the_end() -> None:
    one, welcome = up()
    force(one)
    order(one, "force_release", item="co")
    one.now = type(one.now)(one.now + SECOND)
    append(one, welcome, 2, [12.0])
    assert series(again(one), "co") == [(10.0, "Good"), (20.0, "GoodLocalOverride"), (12.0, "Good")]


def test_the_force_of_an_item_that_was_retired_right_before_the_node_stopped_ends_at_the_next_start() -> None:
    one, _ = up()
    force(one)
    one.letter(b"plc", ProducerHello(producer="p1", items=(FAN,), run=2))
    two = again(one)
    two.pass_time(0)
    assert forces(two) == []
    assert [each.cause for each in two.records(ForceEnded) if isinstance(each, ForceEnded)] == ["retired"]
    assert shown(two, "co") == [(10.0, "BadOutOfService")]


def test_an_item_is_not_stale_right_behind_its_force() -> None:
    """Its time begins with the end of the force, not with the copy behind that."""
    one = World()
    welcome = hello(one, [DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(stale_s=60.0)), FAN])
    force(one)
    live(one, welcome, 1, 100, item=1)
    order(one, "force_release", item="co")
    folds = Folds()
    folds.replay_all(one.frames)
    header = one.frames[-1].header
    folds = Folds.restore(folds.snapshot(), folds.log_time_ms)
    due = folds.conditions.deadline()
    assert due is not None
    assert due >= header.log_time_ms * MS + 59 * SECOND


def test_a_copy_waits_while_the_node_does_not_lead() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    one.sync()
    order(one, "force_release", item="co")
    one.step(Suspended("lease is over"))
    one.sync()
    assert series(one, "co")[-1] == (20.0, "GoodLocalOverride")
    one.step(Served())
    one.pass_time(0)
    assert both(one) == [(11.0, "Good"), (11.0, "BadOutOfService")]


def test_forcing_again_takes_the_new_value_and_time_and_keeps_the_measured_series() -> None:
    one, welcome = up()
    force(one, for_ms=30_000)
    append(one, welcome, 2, [11.0])
    one.sync()
    force(one, value=30.0, for_ms=LONG_MS)
    assert both(one) == [(30.0, "GoodLocalOverride"), (11.0, "Good")]
    live(one, welcome, 3, 32)
    assert shown(one, "co") == [(30.0, "GoodLocalOverride")]
    release(one)
    assert shown(one, "co") == [(16.0, "Good")]


def test_a_second_force_begins_its_measured_series_anew() -> None:
    one, welcome = up()
    force(one)
    release(one)
    append(one, welcome, 2, [11.0])
    one.sync()
    force(one, value=30.0)
    assert both(one) == [(30.0, "GoodLocalOverride"), (11.0, "Good")]
    measured = [each.measured_id for each in one.records(ItemForced) if isinstance(each, ItemForced)]
    assert len(set(measured)) == 1, "it is the same series"


def test_a_lost_device_shows_in_the_measured_series_only() -> None:
    one, _ = up()
    force(one)
    one.now = type(one.now)(one.now + SILENT_NS)
    one.pass_time(SECOND)
    assert both(one) == [(20.0, "GoodLocalOverride"), (10.0, "BadNoCommunication")]
    release(one)
    assert shown(one, "co") == [(10.0, "BadNoCommunication")]


def test_a_case_that_the_forced_value_raised_ends_with_the_force_although_the_device_is_lost() -> None:
    one, _ = up()
    force(one, value=60.0)
    assert [row["item"] for row in cases(one)] == ["root:co"]
    one.pass_time(SILENT_NS)
    release(one)
    assert cases(one) == []
    assert series(one, "co")[-2:] == [(10.0, "UncertainLastUsableValue"), (10.0, "BadNoCommunication")]


def test_an_item_that_was_never_measured_has_no_value_behind_a_force() -> None:
    one = World()
    hello(one)
    force(one)
    release(one)
    assert shown(one, "co") == [(None, "BadWaitingForInitialData")]


def test_gaps_that_name_a_forced_item_are_of_its_measured_series() -> None:
    one, welcome = up()
    force(one)
    (forced,) = one.records(ItemForced)
    assert isinstance(forced, ItemForced)
    gap = GapFound(source="p1", reason="overflow", from_ns=1, to_ns=2, item_ids=welcome.item_ids[:2], lost=1)
    body = encode_records(welcome.producer_id, 2, [gap])
    one.letter(b"plc", Append(entries=(AppendEntry(1, Kind.RECORDS, 1, body_crc(body)),)), [body])
    one.sync()
    assert one.records(GapFound)[-1] == msgspec.structs.replace(gap, item_ids=(forced.measured_id, welcome.item_ids[1]))


def test_a_gap_of_the_whole_adapter_concerns_what_is_measured_of_a_forced_item() -> None:
    """The forced value was there all the while; only the other items, and what is measured of this one, were not."""
    one, welcome = up()
    force(one)
    (forced,) = one.records(ItemForced)
    assert isinstance(forced, ItemForced)
    concerned = sorted((forced.measured_id, *welcome.item_ids[1:]))
    body = encode_records(welcome.producer_id, 2, [GapFound(source="p1", reason="device_lost", from_ns=1, to_ns=2)])
    one.letter(b"plc", Append(entries=(AppendEntry(1, Kind.RECORDS, 1, body_crc(body)),)), [body])
    one.sync()
    hello(one, run=2)
    told = [gap for gap in one.records(GapFound) if isinstance(gap, GapFound)][-2:]
    assert [(gap.reason, sorted(gap.item_ids)) for gap in told] == [
        ("device_lost", concerned),
        ("adapter_down", concerned),
    ]
    release(one)
    hello(one, run=3)
    gap = one.records(GapFound)[-1]
    assert isinstance(gap, GapFound)
    assert gap.item_ids == ()


def test_alarms_judge_the_effective_value() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [90.0])
    one.sync()
    assert one.ask("cases").result == []
    force(one, value=60.0)
    assert [row["item"] for row in cases(one)] == ["root:co"]


@pytest.mark.parametrize(
    "alarm", [AlarmSettings(stale_s=60.0), AlarmSettings(frozen_s=60.0), AlarmSettings(rate_per_s=1.0)]
)
def test_a_forced_value_is_never_stale_or_frozen_or_too_fast(alarm: AlarmSettings) -> None:
    one = World()
    welcome = hello(one, [DataItem(name="co", value_type=ValueType.FLOAT64, alarm=alarm)])
    append(one, welcome, 1, [10.0])
    one.pass_time(SECOND)
    force(one, value=1e6)
    two = again(one)
    for _ in range(3):
        two.pass_time(100 * SECOND)
    assert cases(two) == []
    force(two, value=2e6)
    assert cases(two) == []


def test_an_item_that_was_released_is_judged_stale_from_then_on() -> None:
    one = World()
    welcome = hello(one, [DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(stale_s=60.0)), FAN])
    force(one)
    live(one, welcome, 1, 100, item=1)
    release(one)
    live(one, welcome, 21, 58, item=1)
    assert cases(one) == []
    live(one, welcome, 32, 5, item=1)
    assert [row["condition"] for row in cases(one)] == ["stale"]


def test_the_force_of_an_item_that_nobody_declares_any_more_ends() -> None:
    one, _ = up()
    force(one)
    hello(one, [FAN], run=2)
    one.pass_time(0)
    one.pass_time(0)
    assert forces(one) == []
    assert both(one) == [(10.0, "BadOutOfService"), (10.0, "BadOutOfService")]
    assert [each.cause for each in one.records(ForceEnded) if isinstance(each, ForceEnded)] == ["retired"]


def test_the_force_of_an_item_that_has_another_type_now_ends() -> None:
    one, _ = up()
    force(one)
    hello(one, [DataItem(name="co", value_type=ValueType.STRING), FAN], run=2)
    one.pass_time(0)
    assert forces(one) == []
    assert shown(one, "co") == [(None, "BadWaitingForInitialData")]
    force(one, value="auto")
    assert both(one) == [("auto", "GoodLocalOverride"), (None, "BadWaitingForInitialData")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"item": "nothing"}, "no item 'nothing'"),
        ({"value": "high"}, "takes float64"),
        ({"value": float("nan")}, "nan is not a value"),
        ({"value": True}, "takes float64"),
        ({"reason": "  "}, "needs a reason"),
        ({"for_ms": 0}, "lasts 1 ms to 7 days"),
        ({"for_ms": FORCE_MS_MAX + 1}, "lasts 1 ms to 7 days"),
        ({"item": "core/turn_ms"}, "says of itself"),
        ({"item": "p1/connected", "value": True}, "says of itself"),
    ],
)
def test_what_is_not_forced_is_refused_with_the_reason_and_leaves_no_trace(
    arguments: dict[str, Any], words: str
) -> None:
    one = World()
    hello(one, [*ITEMS, DataItem(name="p1/connected", value_type=ValueType.BOOL)])
    end = one.end
    asked: dict[str, Any] = {"item": "co", "value": 1.0, "for_ms": LONG_MS, "reason": "r", **arguments}
    assert words in refused_with(one.ask("force", **asked))
    assert one.end == end


def test_a_force_without_a_reason_is_refused_by_name() -> None:
    one, _ = up()
    assert "reason" in refused_with(one.ask("force", item="co", value=1.0, for_ms=LONG_MS))


def test_nothing_is_forced_while_nothing_is_recorded_and_what_is_over_ends_later() -> None:
    one, _ = up()
    force(one, for_ms=5_000)
    one.step(AdmissionChanged("disk full"))
    assert "disk full" in refused_with(one.ask("force", item="fan", value=1.0, for_ms=LONG_MS, reason="r"))
    one.pass_time(10 * SECOND)
    assert shown(one, "co") == [(20.0, "GoodLocalOverride")]
    one.step(AdmissionChanged(""))
    one.pass_time(SECOND)
    one.pass_time(0)
    assert forces(one) == []


def test_two_orders_about_one_item_are_taken_one_after_the_other() -> None:
    one, _ = up()
    order(one, "force", b"a", item="co", value=20.0, for_ms=LONG_MS, reason="r")
    order(one, "force", b"b", item="co", value=30.0, for_ms=LONG_MS, reason="r")
    order(one, "force_release", b"c", item="co")
    one.sync()
    told = answers(one)
    assert told[b"a"] == ""
    assert "not committed yet" in told[b"b"]
    assert "not committed yet" in told[b"c"]


def test_what_is_not_forced_cannot_be_released() -> None:
    one, _ = up()
    assert "is not forced" in refused_with(one.ask("force_release", item="co"))
    assert "no item" in refused_with(one.ask("force_release", item="nothing"))


def test_a_name_that_somebody_else_has_is_no_measured_series() -> None:
    one = World()
    hello(one, [CO, DataItem(name="co/measured", value_type=ValueType.FLOAT64)])
    assert "belongs to 'p1'" in refused_with(one.ask("force", item="co", value=1.0, for_ms=LONG_MS, reason="r"))


def test_nothing_is_forced_where_samples_are_not_replicated_and_what_was_ends() -> None:
    one, _ = up()
    force(one)
    two = again(one, private_streams=frozenset({int(Stream.SAMPLES)}))
    two.pass_time(0)
    assert [each.cause for each in two.records(ForceEnded) if isinstance(each, ForceEnded)] == ["not_replicated"]
    assert shown(two, "co") == [(10.0, "Good")]
    refused = refused_with(two.ask("force", item="co", value=1.0, for_ms=LONG_MS, reason="r"))
    assert "not replicated" in refused


def test_no_more_items_are_forced_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forcing, "FORCES_MAX", 1)
    one, _ = up()
    force(one)
    assert "1 items are forced already" in refused_with(
        one.ask("force", item="fan", value=1.0, for_ms=LONG_MS, reason="r")
    )
    force(one, value=21.0)
    release(one)
    force(one, "fan")


def test_a_renamed_item_stays_forced_with_its_series() -> None:
    one, _ = up()
    force(one)
    hello(one, [DataItem(name="co_new", was="co", value_type=ValueType.FLOAT64)], run=2)
    assert shown(one, "co_new", "co/measured") == [(20.0, "GoodLocalOverride"), (10.0, "Good")]
    assert [row["item"] for row in forces(one)] == ["root:co_new"]
    release(one, "co_new")
    assert shown(one, "co_new") == [(10.0, "Good")]
    assert len(one.records(ForceEnded)) == 1


def test_forces_come_in_pieces() -> None:
    one, _ = up()
    for item, value in (("co", 1.0), ("fan", 2.0), ("count", 3)):
        force(one, item, value)
    first: Any = one.ask("forces", rows_max=2).result
    rest: Any = one.ask("forces", rows_max=2, cursor=first["next"]).result
    assert [row["item"] for row in [*first["rows"], *rest["rows"]]] == ["root:co", "root:fan", "root:count"]
    assert rest["next"] == ""


def test_folds_with_forces_equal_their_replay_and_their_snapshot() -> None:
    one, welcome = up()
    force(one)
    append(one, welcome, 2, [11.0])
    force(one, "fan", 5.0)
    release(one, "fan")
    folds = Folds()
    folds.replay_all(one.frames)
    assert folds.snapshot() == one.root.folds.snapshot()
    assert Folds.restore(folds.snapshot(), folds.log_time_ms).snapshot() == folds.snapshot()


def test_many_forces_end_in_turns_of_some_each() -> None:
    one = World()
    items = [DataItem(name=f"x{number}", value_type=ValueType.FLOAT64) for number in range(300)]
    one.letter(b"plc", ProducerHello(producer="p1", items=tuple(items), run=1))
    for _ in range(4):
        one.pass_time(0)
    for item in items:
        force(one, item.name, 1.0, for_ms=5_000)
    before = len(one.frames)
    one.pass_time(6 * SECOND)
    for _ in range(10):
        one.pass_time(0)
    ended = [frame.header.record_count for frame in one.frames[before:] if frame.header.stream == Stream.STATE]
    assert max(ended) <= 250
    assert forces(one) == []
