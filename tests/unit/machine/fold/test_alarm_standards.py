"""Alarm rules as rows out of the standards, each a short story of one item and what is noted of it.

Sources: ISA-18.2 (alarm states; 3.1 and annexes: dead band, on-delay, off-delay, latching, shelving, suppression by
design, out of service, chattering, stale) and OPC UA Part 9 v1.05, by clause. The text of ISA-18.2 is not open: its
rows are ASSUMED from what is published of it, and so carry no clause.

A story is words with spaces between them:  12.5  a sample;  12.5?  under Bad;  12.5~  under Uncertain;  12.5!  under
BadNoCommunication;  nan;  +3s +500ms  time;  off on  the suppressing item;  ann:ack  an operator's action.
"""

import re
from typing import Any

import pytest

from albireo.codec.questions.cases import ActionAsked
from albireo.machine.fold import AlarmConfig
from albireo.model import quality as q
from albireo.model.case import Action
from albireo.model.item import AlarmSettings, Condition
from albireo.model.refusal import Refusal
from albireo.model.value import ValueType
from tests.parts.alarm import AlarmNode

CONFIG = AlarmConfig(chatter_activations=3, chatter_window_ms=60_000, chatter_calm_ms=180_000)
QUALITY = {"?": q.BAD, "~": q.UNCERTAIN, "!": q.BAD_NO_COMMUNICATION, "": q.GOOD}
UNIT_MS = {"ms": 1, "s": 1_000, "h": 3_600_000}
HI: dict[str, Any] = {"hi": 100.0, "hysteresis": 10.0}

PASSED = (
    "activation 1 of case 4 is not the present one: it has become active 2 times (value 101.0), and is active, "
    "unacknowledged"
)

ROWS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    # Limits.
    "part_9_5_8_19_exclusive_limits_hold_beyond_and_not_at_the_limit": (
        {"hi": 100.0}, "100 +1s 100.1", ["1 raised hi"],
    ),
    "part_9_5_8_20_each_limit_of_a_non_exclusive_alarm_has_a_state_of_its_own": (
        {"hi": 100.0, "hi_hi": 120.0, "lo": 10.0, "lo_lo": 0.0}, "130 +1s 110 +1s 5 +1s -1",
        ["0 raised hi_hi", "0 raised hi", "1 cleared hi_hi", "2 cleared hi", "2 raised lo", "3 raised lo_lo"],
    ),
    "isa_18_2_dead_band_clears_only_when_the_value_is_back_by_its_width": (
        HI, "101 +1s 91 +1s 90", ["0 raised hi", "2 cleared hi"],
    ),
    "isa_18_2_dead_band_applies_to_the_return_and_not_to_the_raising": (
        HI, "95 +1s 100 +1s 99", [],
    ),
    # Delays.
    "isa_18_2_on_delay_raises_once_the_condition_held_for_all_of_it": (
        HI | {"on_delay_ms": 10_000}, "101 +10s", ["10 raised hi"],
    ),
    "isa_18_2_on_delay_asks_for_the_limit_itself_all_along": (
        HI | {"on_delay_ms": 10_000}, "101 +5s 95 +60s", [],
    ),
    "isa_18_2_on_delay_begins_anew_at_each_return_of_the_condition": (
        HI | {"on_delay_ms": 10_000}, "101 +9s 100 +1s 101 +9s 101 +1s", ["20 raised hi"],
    ),
    "isa_18_2_off_delay_clears_once_the_value_was_outside_the_band_for_all_of_it": (
        HI | {"off_delay_ms": 10_000}, "101 +1s 90 +10s", ["0 raised hi", "11 cleared hi"],
    ),
    "isa_18_2_off_delay_does_not_run_within_the_dead_band": (
        HI | {"off_delay_ms": 10_000}, "101 +1s 89 +5s 95 +60s", ["0 raised hi"],
    ),
    "part_9_5_8_2_on_delay_and_off_delay_are_times_of_one_alarm_each_by_itself": (
        HI | {"on_delay_ms": 2_000, "off_delay_ms": 3_000}, "101 +2s 80 +3s", ["2 raised hi", "5 cleared hi"],
    ),
    # Quality.
    "part_9_5_5_2_bad_quality_keeps_the_state": (
        HI, "101 +1s 0? +60s 0? +1s 80", ["0 raised hi", "62 cleared hi"],
    ),
    "part_9_5_5_2_bad_quality_raises_nothing": (HI, "80 +1s 200? +60s", []),
    "part_9_5_5_2_uncertain_quality_is_judged": (HI, "101~", ["0 raised hi"]),
    "part_9_5_5_2_delay_does_not_end_under_bad_quality": (
        HI | {"on_delay_ms": 10_000}, "101 +5s 101? +60s 101 +10s", ["75 raised hi"],
    ),
    "ieee_754_nan_is_no_value_under_any_quality": (
        HI | {"on_delay_ms": 10_000}, "101 +5s nan +60s", [],
    ),
    # Rate of change.
    "part_9_5_8_23_rate_of_change_holds_beyond_the_limit_in_units_per_second": (
        {"rate_per_s": 5.0}, "0 +1s 5 +1s 10.5 +1s 10.5", ["2 raised rate", "3 cleared rate"],
    ),
    "part_9_5_8_23_steady_change_just_beyond_the_limit_is_one_alarm": (
        {"rate_per_s": 5.0}, "0 +1s 5.5 +1s 11 +1500ms 19.25 +1s 19.25", ["1 raised rate", "4 cleared rate"],
    ),
    "part_9_5_8_23_rate_of_change_holds_either_way": (
        {"rate_per_s": 5.0}, "20 +1s 10 +1s 10", ["1 raised rate", "2 cleared rate"],
    ),
    "part_9_5_8_23_rate_of_change_has_delays_as_every_alarm": (
        {"rate_per_s": 5.0, "on_delay_ms": 2_000}, "0 +1s 10 +1s 20 +1s 30", ["3 raised rate"],
    ),
    # Discrete.
    "part_9_5_8_24_off_normal_holds_at_the_value_that_is_not_normal": (
        {"off_normal": True}, "0 +1s 1 +1s 0", ["1 raised off_normal", "2 cleared off_normal"],
    ),
    "part_9_5_8_24_off_normal_does_not_hold_before_the_first_value": ({"off_normal": False}, "+60s", []),
    # Silence. The standards leave these to the vendor.
    "vendor_stale_holds_when_no_sample_came_for_its_time": (
        {"stale_s": 5.0}, "1 +4s 1 +5s 1", ["9 raised stale", "9 cleared stale"],
    ),
    "vendor_stale_holds_when_no_usable_value_came_for_its_time": (
        {"stale_s": 5.0}, "1 +4s 0! +1s 0! +1s 1", ["5 raised stale", "6 cleared stale"],
    ),
    "vendor_frozen_holds_when_samples_tell_the_same_number_for_its_time": (
        {"frozen_s": 5.0}, "1 +2s 1 +3s 1 +1s 1.5", ["5 raised frozen", "6 cleared frozen"],
    ),
    "vendor_frozen_does_not_hold_for_what_is_silent": ({"frozen_s": 5.0}, "1 +60s", []),
    # States.
    "isa_18_2_unacknowledged_alarm_that_returns_to_normal_stays_until_it_is_acknowledged": (
        HI, "101 +1s 80 +60s ann:ack", ["0 raised hi", "1 cleared hi", "61 acked hi closed"],
    ),
    "isa_18_2_acknowledged_alarm_ends_when_it_returns_to_normal": (
        HI, "101 ann:ack +1s 80", ["0 raised hi", "0 acked hi", "1 cleared hi closed"],
    ),
    "part_9_5_7_alarm_that_becomes_active_again_asks_for_a_new_acknowledgement": (
        HI, "101 +1s 80 +1s 101 ann:ack", ["0 raised hi", "1 cleared hi", "2 activated hi", "2 acked hi"],
    ),
    "part_9_5_7_acknowledging_an_activation_that_is_over_silences_no_later_one": (
        HI, "101 +1s 80 +1s 101 ann:ack-first",
        ["0 raised hi", "1 cleared hi", "2 activated hi unacked", f"refused {PASSED}"],
    ),
    "part_9_5_7_acknowledging_what_is_acknowledged_is_refused": (
        HI, "101 ann:ack ann:ack", ["0 raised hi", "0 acked hi", "refused it is acknowledged already"],
    ),
    "isa_18_2_latched_alarm_stays_until_it_is_reset": (
        HI | {"is_latched": True}, "101 ann:ack +1s 80 +1s ann:reset",
        ["0 raised hi", "0 acked hi", "1 cleared hi", "2 reset hi closed"],
    ),
    "part_9_5_8_2_reset_of_an_active_latched_alarm_is_refused": (
        HI | {"is_latched": True}, "101 ann:ack ann:reset",
        ["0 raised hi", "0 acked hi", "refused its condition still holds"],
    ),
    "isa_18_2_suppressed_by_design_while_the_equipment_is_off": (
        HI | {"suppressed_by": "off"}, "80 off +1s 101 +1s on",
        ["1 raised hi", "2 unsuppressed hi"],
    ),
    "part_9_5_8_17_timed_shelve_ends_by_itself_and_the_alarm_asks_again": (
        HI, "101 ann:ack ann:shelve +1h", ["0 raised hi", "0 acked hi", "0 shelved hi", "3600 shelve_ended hi unacked"],
    ),
    "part_9_5_8_17_one_shot_shelve_ends_when_the_alarm_clears": (
        HI, "101 ann:shelve_once +1s 80 +1s 101",
        ["0 raised hi", "0 shelved hi", "1 cleared hi", "2 activated hi unacked"],
    ),
    "isa_18_2_out_of_service_alarm_is_silent_until_it_is_put_back": (
        HI, "101 ann:out_of_service +1s ann:in_service",
        ["0 raised hi", "0 taken_out hi", "1 put_back hi unacked"],
    ),
    "isa_18_2_chattering_alarm_is_held_and_makes_no_more_records": (
        HI, "101 +1s 80 +1s 101 +1s 80 +1s 101 +1s 80 +1s 101 +1s 80 +1s 101",
        ["0 raised hi", "1 cleared hi", "2 activated hi", "3 cleared hi", "4 activated hi", "4 chattering hi"],
    ),
    "isa_18_2_alarm_that_is_calm_again_follows_its_condition": (
        HI, "101 +1s 80 +1s 101 +1s 80 +1s 101 +1s 80 +180s",
        [
            "0 raised hi", "1 cleared hi", "2 activated hi", "3 cleared hi", "4 activated hi", "4 chattering hi",
            "185 calmed hi", "185 cleared hi",
        ],
    ),
}  # fmt: skip


def act(node: AlarmNode, action: str, condition: Condition) -> str:
    """An operator's action at the rule, who sees its present activation, or with `-first` has seen the first; the
    refusal, if it was refused."""
    action, _, saw = action.partition("-")
    shown = [case.activations for case in node.folds.cases if case.condition is condition]
    seen = 1 if saw else max(shown, default=1)
    found = node.act(
        ActionAsked(
            action=Action(action),
            user="ann",
            comment="x",
            item_id=node.ids["a"],
            condition=condition,
            duration_ms=3_600_000 if action == "shelve" else None,
            activation=seen,
        )
    )
    return f"refused {found.cause}" if isinstance(found, Refusal) else ""


def told(node: AlarmNode, wanted: list[str]) -> list[str]:
    """What was noted since the last call; `closed` and `unacked` are said where the row asks for them."""
    found = []
    for at_ms, one in node.transitions:
        line = f"{at_ms // 1_000} {one.cause} {one.case.condition}"
        closed = " closed" if one.case.lifecycle_status.value == "closed" else ""
        unacked = " unacked" if not one.case.is_acked and f"{line} unacked" in wanted else ""
        found.append(line + closed + unacked)
    node.transitions.clear()
    return found


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    settings, story, wanted = ROWS[name]
    node = AlarmNode(CONFIG)
    alarm = AlarmSettings(**settings)
    value_type = ValueType.BOOL if alarm.off_normal is not None else ValueType.FLOAT64
    node.declare("a", alarm, value_type)
    node.declare("off", None, ValueType.BOOL)
    found: list[str] = []
    for word in story.split():
        refusal = ""
        if time := re.fullmatch(r"\+(\d+)(ms|s|h)", word):
            node.pass_time(int(time[1]) * UNIT_MS[time[2]])
        elif word in ("off", "on"):
            node.sample("off", word == "off")
        elif word.startswith("ann:"):
            refusal = act(node, word[4:], Condition.HI)
        else:
            sample = re.fullmatch(r"(nan|-?[\d.]+)([?~!]?)", word)
            assert sample is not None, word
            number = float(sample[1])
            node.sample("a", bool(number) if value_type is ValueType.BOOL else number, int(QUALITY[sample[2]]))
        found += told(node, wanted) + ([refusal] if refusal else [])
    assert found == wanted
    for split in (0, len(node.frames) // 2, len(node.frames)):
        assert node.replayed(split).snapshot() == node.folds.snapshot()
