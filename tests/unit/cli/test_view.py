"""The live view without a terminal: what it knows, what keys do, and what it draws."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from albireo.cli.display import fitted, natural
from albireo.cli.view.nodes import counts_of
from albireo.cli.view.pair import behind_text
from albireo.cli.view.render import Clock, Size, name_cells, page_of, plain_line, render
from albireo.cli.view.screen import (
    SHELVE_MS,
    CaseActed,
    Mode,
    NotAValue,
    Pane,
    Quit,
    ScenarioBegun,
    Screen,
    SelectionGivenBack,
    SelectOrdered,
    Wish,
    WriteOrdered,
    not_selected,
    pressed,
    selected,
    selected_item,
    shown_items,
    value_of,
)
from albireo.cli.view.state import RECEIPTS_MAX, SILENT_NS, HeldSelection, LiveState, PartsTold, ShownOrder, own_number
from albireo.cli.view.trend import STEP_NS, STEPS, Trend
from albireo.cli.view.view import keys_of
from albireo.cli.view.watch import snapshot
from albireo.client import Changes, ItemCase
from albireo.model.case import Action, LifecycleStatus, Shelving
from albireo.model.command import ItemSelection, Outcome
from albireo.model.instant import SECOND, Instant
from albireo.model.item import Condition, Control, DataItem, KnownItem, Reading
from albireo.model.position import Position
from albireo.model.quality import (
    BAD_NO_COMMUNICATION,
    GOOD,
    GOOD_LOCAL_OVERRIDE,
    UNCERTAIN_NO_COMMUNICATION_LAST_USABLE,
)
from albireo.model.samples import SampleBatch, Strings
from albireo.model.tree.node_row import NodeRow
from albireo.model.value import ItemId, ValueType
from albireo.plant.tunnel.scenario import Scenario
from tests.parts.status import node_status

WALL = 1_800_000_000 * SECOND
CLOCK = Clock(Instant(10 * SECOND), WALL)
BROWSING = Screen()
SMALL = Size(80, 24)

ITEMS = (
    DataItem(name="co_1", value_type=ValueType.FLOAT64, unit="ppm", description="Carbon monoxide"),
    DataItem(name="co_10", value_type=ValueType.FLOAT64, unit="ppm", description="Carbon monoxide"),
    DataItem(name="co_2", value_type=ValueType.FLOAT64, unit="ppm", description="Carbon monoxide"),
    DataItem(
        name="co_setpoint", value_type=ValueType.FLOAT64, unit="ppm", is_writable=True, minimum=5.0, maximum=100.0
    ),
    DataItem(name="fan_1_trip", value_type=ValueType.BOOL, description="Motor protection"),
    DataItem(name="sign_text", value_type=ValueType.STRING),
    DataItem(name="stage", value_type=ValueType.INT64, is_writable=True, minimum=0.0, maximum=4.0),
    DataItem(name="vent_auto", value_type=ValueType.BOOL, is_writable=True),
)
KNOWN = {item.name: KnownItem(item_id=ItemId(at), node="root", item=item) for at, item in enumerate(ITEMS, 1)}


def batch(name: str, *values: float, quality: int = GOOD) -> SampleBatch:
    times = np.full(len(values), WALL - 50_000_000, np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.full(len(values), KNOWN[name].item_id, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array(values, np.float64),
        quality=np.full(len(values), quality, np.uint32),
    )


def of_node(node: str, number: int = 1, quality: int = GOOD) -> Changes:
    """Changes of one node with an item and a case of this number."""
    item = KnownItem(item_id=ItemId(number), node=node, item=ITEMS[3])
    reading = Reading(
        item_id=ItemId(number),
        name=item.full_name,
        value=float(number),
        quality=quality,
        source_ns=WALL,
        node_ns=WALL,
        unit="ppm",
    )
    case = ItemCase(case_id=number, item_id=ItemId(number), condition=Condition.HI, severity=700, item=item.full_name)
    return Changes(items=[item], readings=[reading], cases=[case])


SOUTH_FORCED = frozenset({"root/south:co_setpoint"})


def several(*changes: Changes, **fields: object) -> LiveState:
    live = LiveState()
    live.status = PartsTold(core=node_status())
    for one in changes:
        live.take(msgspec.structs.replace(one, **fields), Instant(10 * SECOND))
    return live


def test_items_and_cases_of_several_nodes_with_the_same_numbers_are_told_apart() -> None:
    live = several(of_node("root/north"), of_node("root/south", quality=GOOD_LOCAL_OVERRIDE), forced=SOUTH_FORCED)
    lines = drawn(live)
    assert {known.item.name for known in live.items.values()} == {"root/north:co_setpoint", "root/south:co_setpoint"}
    assert len(live.cases) == 2
    assert [own_number(one) for one in live.cases] == [1, 1]
    assert "2 nodes" in lines[0]
    assert ["south:" in line for line in lines if "= forced" in line] == [True]
    closed = msgspec.structs.replace(of_node("root/north").cases[0], lifecycle_status=LifecycleStatus.CLOSED)
    live.take(Changes(cases=[closed]), Instant(10 * SECOND))
    assert [live.items[one.item_id].node for one in live.cases.values()] == ["root/south"]


def test_a_node_that_is_not_heard_is_named_with_the_time_since_when() -> None:
    live = several(of_node("root/north"), stale={"root/north": WALL - 90 * SECOND, "root/south": 0})
    assert "NOT HEARD: root/north for 90 s, root/south (never in this run)" in drawn(live, size=Size(120, 24))[1]
    assert "NOT HEARD" not in drawn(several(of_node("root/north")))[1]


@pytest.mark.parametrize("node", ["root", "root/north"])
def test_a_case_of_another_node_is_acted_upon_there(node: str) -> None:
    live = several(of_node("root/other"), of_node(node, 7))
    cases = Screen(pane=Pane.CASES, case_id=next(one for one in live.cases if own_number(one) == 7))
    _, wishes = pressed(live, cases, "a")
    assert wishes == [CaseActed(action=Action.ACK, case_id=7, node="" if node == "root" else node)]


def test_a_set_point_of_another_node_is_written_by_its_full_name() -> None:
    live = several(of_node("root/other"), of_node("root/north"))
    _, (wish,) = typed(live, Screen(item=0), "w9", ["enter"])
    assert isinstance(wish, WriteOrdered)
    assert (wish.order.name, wish.order.value) == ("root/north:co_setpoint", 9.0)


def row(node: str, **fields: Any) -> NodeRow:
    one = NodeRow(node=node, by=node, stale_since_ns=None, items=1, position="1:9", complete_to_ns=WALL, behind=0)
    return msgspec.structs.replace(one, **fields)


def tree_of(*rows: NodeRow, **status: Any) -> LiveState:
    """The root and two sites, as the root tells them."""
    live = several(of_node("root", 1), of_node("root/north", 2), of_node("root/south", 3))
    live.told(PartsTold(core=node_status(), **status), rows, CLOCK.now)
    return live


def node_lines(live: LiveState, clock: Clock = CLOCK) -> list[str]:
    lines = drawn(live, size=Size(160, 30), clock=clock)
    first = next(at for at, line in enumerate(lines) if line.startswith("    nodes"))
    return [line.rstrip() for line in lines[first + 1 : first + 4]]


def test_every_node_is_shown_with_its_health_and_how_far_the_copy_is() -> None:
    live = tree_of(row("root/north"), row("root/south", behind=40, complete_to_ns=WALL - 90 * SECOND))
    own, north, south = node_lines(live)
    assert own.startswith("   root        asked here") and "alarms 1 (1 UNACKED)" in own
    assert north.startswith("   root/north  live") and "complete to 08:00:00  1 items" in north
    assert "complete to 07:58:30 (90 s ago, 40 to come)" in south


def test_a_node_that_is_not_heard_is_marked_and_never_live() -> None:
    away = row("root/north", stale_since_ns=WALL - 12 * SECOND, behind=3)
    _, north, south = node_lines(tree_of(away, row("root/south", stale_since_ns=0)))
    assert north.startswith("!! root/north  NOT HEARD 12 s") and "live" not in north
    assert south.startswith("!! root/south  NEVER HEARD")


def test_while_the_node_that_is_asked_is_silent_no_node_looks_live() -> None:
    late = Clock(Instant(CLOCK.now + SILENT_NS + 1), WALL)
    lines = node_lines(tree_of(row("root/north"), row("root/south")), late)
    assert all(line.startswith("?  ") and "not known now" in line and "live" not in line for line in lines)


def test_what_is_missing_of_a_node_stands_in_its_line() -> None:
    hole = {"first": 1, "last": 9, "from_ns": 1, "to_ns": 2, "reason": "let_go", "is_final": False}
    stored = {
        "node": "root/north",
        "index": 1,
        "complete_to_ns": WALL,
        "holes": 1,
        "lacks": [hole],
        "copy": {"is_incomplete": True, "files": 10, "done": 3, "trouble": ""},
        "refused": {},
    }
    live = tree_of(row("root/north", missing=77), row("root/south"), stats={"below": [stored]})
    _, north, south = node_lines(live)
    assert "77 records missing in the log, 1 stretch of history to come, 3 of 10 files copied" in north
    assert "missing" not in south


def test_enter_on_a_node_shows_its_items_and_cases_alone_and_esc_those_of_all() -> None:
    live = tree_of(row("root/north"), row("root/south"))
    screen, _ = typed(live, Screen(), "n", ["down"], ["enter"])
    assert (screen.scope, screen.pane) == ("root/north", Pane.ITEMS)
    assert [known.node for known in shown_items(live, screen)] == ["root/north"]
    lines = drawn(live, screen)
    assert any(line.startswith("   root/north  live") for line in lines)
    assert "alarms of root/north  1/1" in "".join(lines) and " co_setpoint " in "".join(lines)
    _, (wish,) = typed(live, screen, "w9", ["enter"])
    assert isinstance(wish, WriteOrdered) and wish.order.name == "root/north:co_setpoint"
    screen, _ = typed(live, screen, "/zz", ["enter"], ["esc"])
    assert (screen.filter, screen.scope) == ("", "root/north"), "the filter goes first"
    screen, _ = typed(live, screen, ["esc"])
    assert len(shown_items(live, screen)) == 3


def test_a_scenario_begins_at_the_site_that_is_shown() -> None:
    live = tree_of(row("root/north"), row("root/south"))
    _, wishes = typed(live, Screen(scope="root/north"), "f")
    assert wishes == [ScenarioBegun(scenario=Scenario.FIRE, node="root/north")]


def test_names_are_short_where_that_is_clear() -> None:
    lines = "".join(drawn(tree_of(), size=Size(120, 30)))
    assert " north:co_setpoint " in lines and "root/north:co_setpoint" not in lines
    alike = "".join(drawn(several(of_node("root/a/pump"), of_node("root/b/pump")), size=Size(120, 30)))
    assert "root/a/pump:co_setpoint" in alike


# Select before operate.

SIGN = DataItem(name="sign", value_type=ValueType.BOOL, is_writable=True, control=Control.SELECT)
YOURS = ItemSelection(
    selection_id="s1",
    item="root/north:sign",
    user="ann",
    principal="",
    reason="",
    since_ns=WALL,
    for_ms=30_000,
    left_ms=30_000,
)


def with_sign() -> LiveState:
    """Two nodes; an item of the one asks to be selected."""
    live = several(of_node("root"))
    sign = KnownItem(item_id=ItemId(9), node="root/north", item=SIGN)
    live.take(Changes(items=[sign]), CLOCK.now)
    return live


def holding(live: LiveState, screen: Screen) -> tuple[Screen, list[Wish]]:
    """The answer to the selection comes."""
    held = HeldSelection(YOURS, Instant(CLOCK.now + 30 * SECOND))
    live.hold(held)
    return selected(screen, held)


def at_sign(live: LiveState, *keys: str | list[str]) -> tuple[Screen, list[Wish]]:
    return typed(live, Screen(), "/sign", ["enter"], *keys)


def test_an_item_that_asks_for_it_is_selected_first_then_written() -> None:
    live = with_sign()
    assert any(line.startswith("   s north:sign") for line in drawn(live))
    screen, wishes = at_sign(live, "w", "on", ["enter"])
    assert wishes == [SelectOrdered(item="root/north:sign")]
    assert screen.mode is Mode.SELECTING and "selecting root/north:sign" in drawn(live, screen)[-2]
    screen, wishes = holding(live, screen)
    assert (screen.mode, screen.typed, wishes) == (Mode.VALUE, "", []), "what was typed before is no value"
    later = Clock(Instant(CLOCK.now + 3 * SECOND), WALL)
    assert drawn(live, screen, clock=later)[-2].startswith("SELECTED, 27 s left   root/north:sign (on or off), now ?")
    assert "OPERATE" in drawn(live, screen)[-1]
    screen, wishes = typed(live, screen, "on", ["enter"])
    assert wishes == [WriteOrdered(order=ShownOrder(name="root/north:sign", value=True), selection=YOURS)]


def test_esc_gives_the_selection_back() -> None:
    live = with_sign()
    screen, _ = holding(live, at_sign(live, "w")[0])
    screen, wishes = typed(live, screen, "o", ["esc"])
    assert (wishes, screen.mode) == ([SelectionGivenBack(selection=YOURS)], Mode.BROWSE)


def test_a_selection_that_comes_after_esc_is_given_back_at_once() -> None:
    live = with_sign()
    screen, _ = at_sign(live, "w", ["esc"])
    screen, wishes = holding(live, screen)
    assert (wishes, screen.mode) == ([SelectionGivenBack(selection=YOURS)], Mode.BROWSE)


def test_nothing_is_written_when_its_time_is_over() -> None:
    live = with_sign()
    screen, _ = holding(live, at_sign(live, "w")[0])
    live.let_go(Instant(CLOCK.now + 30 * SECOND))
    assert drawn(live, screen)[-2].startswith("!! the selection is over")
    screen, wishes = typed(live, screen, "on", ["enter"])
    assert (wishes, screen.mode) == ([], Mode.BROWSE)
    assert "nothing written" in screen.message


def test_behind_a_refused_selection_no_key_is_taken_for_another_order() -> None:
    live = with_sign()
    screen = not_selected(at_sign(live, "w")[0], "ann has selected sign, for 12 s still")
    assert drawn(live, screen)[-2].startswith("!! NOT SELECTED: ann has selected sign, for 12 s still")
    screen, wishes = typed(live, screen, "off", ["enter"])
    assert (wishes, screen.mode) == ([], Mode.SELECTING)
    assert typed(live, screen, ["esc"])[0].mode is Mode.BROWSE


def state(sequence: int, **fields: object) -> Changes:
    return msgspec.structs.replace(Changes(position=Position(1, sequence)), **fields)


def tell(live: LiveState, changes: Changes, batches: Sequence[SampleBatch], now: Instant) -> None:
    """Let it take changes of the node alone, with the readings of these batches."""
    names = {one.item_id: one for one in KNOWN.values()}
    readings = [
        Reading(
            item_id=item_id,
            name=names[ItemId(item_id)].full_name,
            value=value,
            quality=code,
            source_ns=source_ns,
            node_ns=source_ns,
            unit=names[ItemId(item_id)].item.unit,
        )
        for one in batches
        for item_id, value, code, source_ns in zip(
            one.item_id.tolist(), one.values(), one.quality.tolist(), one.source_ns.tolist(), strict=True
        )
    ]
    live.take(msgspec.structs.replace(changes, readings=readings), now)


def case(case_id: int, name: str = "co_1", **fields: object) -> ItemCase:
    known = KNOWN[name]
    one = ItemCase(
        case_id=case_id,
        item_id=known.item_id,
        condition=Condition.HI,
        severity=600,
        raised_ns=WALL,
        item=known.full_name,
    )
    return msgspec.structs.replace(one, **fields)


@pytest.fixture
def live() -> LiveState:
    """A node with eight items and values for one of them."""
    known = LiveState()
    whole = state(100, is_whole=True, items=list(KNOWN.values()))
    tell(known, whole, [batch("co_1", 7.5)], CLOCK.now)
    return known


def drawn(live: LiveState, screen: Screen = BROWSING, size: Size = SMALL, clock: Clock = CLOCK) -> list[str]:
    lines = render(live, screen, size, clock, has_scenarios=True).renderables
    return [line.plain for line in lines if isinstance(line, Text)]


def typed(live: LiveState, screen: Screen, *keys: str | list[str]) -> tuple[Screen, list[Wish]]:
    """Presses keys: each character of a text, or keys by name in a list."""
    wishes: list[Wish] = []
    for key in itertools.chain.from_iterable(keys):
        screen, more = pressed(live, screen, key)
        wishes += more
    return screen, wishes


def local_name(known: KnownItem) -> str:
    return known.item.name.rpartition(":")[2]


def test_last_of_several_values_counts(live: LiveState) -> None:
    tell(live, state(103), [batch("co_1", 1.0, 2.0, 3.0)], CLOCK.now)
    assert live.values[KNOWN["co_1"].item_id].value == 3.0


def test_a_forced_item_says_so_beside_its_case(live: LiveState) -> None:
    forced = frozenset({KNOWN["co_1"].full_name})
    tell(live, state(104, forced=forced), [batch("co_1", 12.0, quality=GOOD_LOCAL_OVERRIDE)], CLOCK.now)
    assert any(re.search(r"co_1 +12 ppm +.*= forced$", line.rstrip()) for line in drawn(live))
    tell(live, state(105, cases=(case(120),), forced=forced), [], CLOCK.now)
    assert any(re.search(r"co_1 +12 ppm +.*= forced hi UNACK", line) for line in drawn(live))


def test_a_forced_item_says_so_while_its_node_is_not_heard_and_until_the_force_ends() -> None:
    """The value of a node that is not heard has another quality than a forced one."""
    away = of_node("root/south", quality=UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
    live = several(away, forced=SOUTH_FORCED)
    assert [one["is_forced"] for one in snapshot(live)["items"]] == [True]
    assert counts_of(live)["root/south"].forced == 1
    assert [line for line in drawn(live) if "= forced ~ Uncertain" in line]
    live.take(Changes(), Instant(11 * SECOND))
    assert [one["is_forced"] for one in snapshot(live)["items"]] == [False]


def test_a_snapshot_forgets_what_is_no_longer_there(live: LiveState) -> None:
    tell(live, state(200, cases=(case(120),)), [], CLOCK.now)
    tell(live, state(5, is_whole=True, items=[KNOWN["co_2"]]), [], CLOCK.now)
    assert (list(live.items), live.values, live.cases) == ([KNOWN["co_2"].item_id], {}, {})


def test_closed_cases_leave_the_list(live: LiveState) -> None:
    tell(live, state(201, cases=(case(120), case(121))), [], CLOCK.now)
    tell(live, state(202, cases=(case(120, lifecycle_status=LifecycleStatus.CLOSED),)), [], CLOCK.now)
    assert list(live.cases) == [121]


def test_names_are_sorted_as_people_count(live: LiveState) -> None:
    names = [local_name(known) for known in live.sorted_items()]
    assert names[:4] == ["co_1", "co_2", "co_10", "co_setpoint"]


@given(st.lists(st.text("ab_019", max_size=8), max_size=6))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural)) == sorted(names)


def test_what_needs_somebody_comes_first(live: LiveState) -> None:
    cases = (
        case(1, severity=900, is_acked=True),
        case(2, severity=500),
        case(3, severity=950, shelving=Shelving.TIMED),
        case(4, severity=800, is_active=False),
        case(5, severity=700),
    )
    tell(live, state(201, cases=cases), [], CLOCK.now)
    assert [one.case_id for one in live.sorted_cases()] == [5, 2, 4, 1, 3]
    assert live.unacked_count == 3


def test_rate_is_the_growth_of_the_log(live: LiveState) -> None:
    tell(live, state(2_100), [], Instant(CLOCK.now + 2 * SECOND))
    assert live.records_per_s() == 1_000


def test_silence_is_noticed(live: LiveState) -> None:
    assert not live.is_silent(Instant(CLOCK.now + SILENT_NS))
    assert live.is_silent(Instant(CLOCK.now + SILENT_NS + 1))
    assert LiveState().is_silent(CLOCK.now)


def test_an_order_goes_from_pending_to_verified(live: LiveState) -> None:
    live.ordered("c1", ShownOrder(name="co_setpoint", value=9.0))
    assert "co_setpoint = 9: pending..." in drawn(live)[-2]
    live.finished("c1", Outcome.VERIFIED, "", 9.0)
    assert "co_setpoint = 9: verified, read back 9" in drawn(live)[-2]


def test_receipts_of_others_are_not_ours(live: LiveState) -> None:
    live.finished("x", Outcome.VERIFIED, "")
    assert live.orders == {}


def test_orders_are_bounded(live: LiveState) -> None:
    for number in range(RECEIPTS_MAX + 5):
        live.ordered(str(number), ShownOrder(name="stage", value=1))
    assert len(live.orders) == RECEIPTS_MAX


def test_filter_takes_words_of_name_and_description(live: LiveState) -> None:
    screen, _ = typed(live, Screen(), "/", "carbon 1", ["enter"])
    assert [local_name(known) for known in shown_items(live, screen)] == ["co_1", "co_10"]
    screen, _ = typed(live, screen, ["esc"])
    assert len(shown_items(live, screen)) == len(ITEMS)


def test_letters_in_the_filter_are_no_commands(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(), "/", "fqtoc")
    assert (screen.filter, wishes) == ("fqtoc", [])


def test_write_asks_for_a_value_and_orders_it(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(), "/", "setp", ["enter"], "w", "9.5", ["enter"])
    assert wishes == [WriteOrdered(order=ShownOrder(name="root:co_setpoint", value=9.5))]
    assert screen.mode is Mode.BROWSE


def test_write_on_something_else_lists_the_set_points(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(), "w")
    assert [local_name(known) for known in shown_items(live, screen)] == ["co_setpoint", "stage", "vent_auto"]
    assert wishes == [] and "Esc" in screen.message
    known = selected_item(live, screen)
    assert known is not None and known.item.is_writable


def test_a_value_that_does_not_fit_is_told_and_not_written(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(), "/", "setp", ["enter"], "w", "500", ["enter"])
    assert wishes == [] and screen.mode is Mode.VALUE
    assert "500 is not within 5..100 ppm" in drawn(live, screen)[-2]
    screen, wishes = typed(live, screen, ["backspace"], ["enter"])
    assert wishes == [WriteOrdered(order=ShownOrder(name="root:co_setpoint", value=50.0))]


def test_escape_writes_nothing(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(), "/", "setp", ["enter"], "w", "9", ["esc"])
    assert (wishes, screen.message) == ([], "nothing written")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("co_setpoint", " 7 ", 7.0),
        ("stage", "4", 4),
        ("vent_auto", "on", True),
        ("vent_auto", "0", False),
        ("vent_auto", "TRUE", True),
    ],
)
def test_values_as_people_type_them(name: str, text: str, value: object) -> None:
    assert value_of(text, KNOWN[name]) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("co_setpoint", ""),
        ("co_setpoint", "nan"),
        ("co_setpoint", "inf"),
        ("co_setpoint", "4.9"),
        ("stage", "1.5"),
        ("stage", "5"),
        ("stage", "-1"),
        ("vent_auto", "maybe"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(name: str, text: str) -> None:
    assert isinstance(value_of(text, KNOWN[name]), NotAValue)


def test_a_case_is_acted_on_only_where_it_is_seen_selected(live: LiveState) -> None:
    tell(live, state(201, cases=(case(7), case(8, severity=900))), [], CLOCK.now)
    screen, wishes = typed(live, Screen(), "a")
    assert wishes == [] and screen.pane is Pane.CASES
    screen, wishes = typed(live, screen, "a")
    assert wishes == [CaseActed(action=Action.ACK, case_id=8)]
    _, wishes = typed(live, screen, ["down"], "s")
    assert wishes == [CaseActed(action=Action.SHELVE, case_id=7, duration_ms=SHELVE_MS)]


def test_the_activation_that_is_shown_is_the_one_that_is_acknowledged(live: LiveState) -> None:
    again = msgspec.structs.replace(case(7), activations=3)
    tell(live, state(201, cases=(again,)), [], CLOCK.now)
    _, wishes = typed(live, Screen(pane=Pane.CASES), "a")
    assert wishes == [CaseActed(action=Action.ACK, case_id=7, activation=3)]


def test_the_cursor_stays_on_its_case_when_a_worse_one_comes(live: LiveState) -> None:
    tell(live, state(201, cases=(case(7),)), [], CLOCK.now)
    screen, _ = typed(live, Screen(), ["tab"])
    tell(live, state(202, cases=(case(9, severity=990),)), [], CLOCK.now)
    assert typed(live, screen, "a")[1] == [CaseActed(action=Action.ACK, case_id=7)]


def test_acting_without_a_case_is_told(live: LiveState) -> None:
    screen, wishes = typed(live, Screen(pane=Pane.CASES), "asru")
    assert (screen.message, wishes) == ("there is no open case", [])


def test_scenario_keys(live: LiveState) -> None:
    _, wishes = typed(live, Screen(), "ftozjc")
    assert [one.scenario for one in wishes if isinstance(one, ScenarioBegun)] == [
        Scenario.FIRE,
        Scenario.FAN_TRIP,
        Scenario.PLC_OFF,
        Scenario.SENSOR_FROZEN,
        Scenario.JAM,
        Scenario.CLEAR,
    ]


def test_quit(live: LiveState) -> None:
    assert typed(live, Screen(), "q")[1] == [Quit()]


def test_any_key_leaves_the_help(live: LiveState) -> None:
    screen, _ = typed(live, Screen(), "?")
    assert "fan trip" in "\n".join(drawn(live, screen))
    screen, wishes = typed(live, screen, "q")
    assert (screen.mode, wishes) == (Mode.BROWSE, [])


def test_the_cursor_stays_within_the_list(live: LiveState) -> None:
    screen, _ = typed(live, Screen(page=3), ["up"], ["pgup"])
    assert screen.item == 0
    screen, _ = typed(live, screen, ["end"], ["down"], ["pgdn"])
    assert screen.item == len(ITEMS) - 1
    screen, _ = typed(live, screen, ["pgup"])
    assert screen.item == len(ITEMS) - 4


_KEYS = st.one_of(
    st.sampled_from(["up", "down", "pgup", "pgdn", "home", "end", "tab", "enter", "esc", "backspace"]),
    st.characters(min_codepoint=32, max_codepoint=126),
)


@given(st.lists(_KEYS, max_size=40), st.integers(60, 200), st.integers(12, 60))
def test_no_sequence_of_keys_breaks_the_screen(keys: list[str], width: int, height: int) -> None:
    """Whatever is pressed, the screen has as many lines as the terminal, each exactly as wide."""
    live = LiveState()
    cases = (case(1), case(2, "co_2", severity=900, is_active=False))
    tell(live, state(9, is_whole=True, items=list(KNOWN.values()), cases=cases), [batch("co_2", 4.0)], CLOCK.now)
    screen = Screen()
    for key in keys:
        screen, _ = pressed(live, screen, key)
        screen = msgspec.structs.replace(screen, page=max(1, page_of(live, screen, Size(width, height))))
    lines = drawn(live, screen, Size(width, height))
    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}


def test_a_calm_screen_has_no_colour(live: LiveState) -> None:
    """ISA-101: colour for abnormal only."""
    tell(live, state(110), [batch(name, 1.0) for name in KNOWN], CLOCK.now)
    console = Console(width=80, height=24, force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        console.print(render(live, Screen(), SMALL, CLOCK, has_scenarios=True))
    attributes = {int(one) for part in re.findall(r"\x1b\[([0-9;]*)m", capture.get()) for one in part.split(";") if one}
    assert attributes <= {0, 1, 2, 4, 7}, "plain, bold, dim, underlined, reversed"


def test_an_alarm_says_itself_without_colour(live: LiveState) -> None:
    tell(live, state(110, cases=(case(105, severity=850),)), [], CLOCK.now)
    lines = drawn(live)
    item = next(line for line in lines if " co_1 " in line and "hi UNACKED" in line)
    assert item.startswith("!!!") and "hi UNACKED" in item
    assert any(line.startswith("!!! co_1 hi") and "active UNACKED" in line for line in lines)


def test_unknown_is_neither_zero_nor_blank(live: LiveState) -> None:
    line = next(line for line in drawn(live) if " co_2 " in line)
    assert " - " in line and "no value yet" in line


def test_a_bad_value_is_not_shown_as_a_value(live: LiveState) -> None:
    tell(live, state(110), [batch("co_1", 7.5, quality=BAD_NO_COMMUNICATION)], CLOCK.now)
    line = next(line for line in drawn(live) if " co_1 " in line)
    assert "7.5" not in line and "BadNoCommunication" in line and line.startswith("?")
    assert "(1 bad)" in drawn(live)[1]


def test_silence_stands_above_everything(live: LiveState) -> None:
    late = Clock(Instant(CLOCK.now + 3 * SECOND), WALL)
    assert drawn(live, clock=late)[1].startswith("!!! NO NEWS FROM THE NODE for 3.0 s")


def test_a_full_disk_and_a_dead_actor_are_told(live: LiveState) -> None:
    live.status = PartsTold(actors=[{"name": "core", "state": "running"}, {"name": "comm.p1", "state": "waiting"}])
    assert drawn(live)[1].startswith("!! actors: comm.p1 waiting")
    live.status = PartsTold(core=node_status(log={"admission": "disk full"}))
    assert drawn(live)[1].startswith("!!! NOTHING IS RECORDED: disk full")


def test_a_device_cannot_steer_the_terminal(live: LiveState) -> None:
    text = SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.array([KNOWN["sign_text"].item_id], np.uint32),
        source_ns=np.array([WALL], np.int64),
        node_ns=np.array([WALL], np.int64),
        value=Strings.of(["a\x1b[2Jb\rc\n"]),
        quality=np.zeros(1, np.uint32),
    )
    tell(live, state(110), [text], CLOCK.now)
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for line in drawn(live) for one in line)


def test_wide_terminals_show_items_and_cases_side_by_side(live: LiveState) -> None:
    tell(live, state(110, cases=(case(105),)), [], CLOCK.now)
    lines = drawn(live, size=Size(160, 24))
    assert "items" in lines[2] and "alarms" in lines[2]


def test_a_tiny_terminal_is_told_what_is_needed(live: LiveState) -> None:
    (line,) = drawn(live, size=Size(30, 5))
    assert line.startswith("60x12 cells are needed")


def test_alarms_stand_above_the_items(live: LiveState) -> None:
    """Below thirty items nobody sees them."""
    tell(live, state(110, cases=(case(105),)), [], CLOCK.now)
    lines = drawn(live)
    heads = [line.split()[0] for line in lines if line.startswith(("    alarms", "    items"))]
    assert heads == ["alarms", "items"]


def test_an_alarm_shows_the_value_of_now_and_that_it_was_raised_at(live: LiveState) -> None:
    tell(live, state(110, cases=(case(105, value=45.0),)), [batch("co_1", 12.0)], CLOCK.now)
    line = next(line for line in drawn(live, size=Size(110, 24)) if " co_1 hi" in line)
    assert "now 12 ppm " in line and line.rstrip().endswith("raised at 45 ppm")
    tell(live, state(111), [batch("co_1", 12.0, quality=BAD_NO_COMMUNICATION)], CLOCK.now)
    assert any("now ?" in line for line in drawn(live, size=Size(110, 24)))


def test_a_numeric_item_has_a_trend_of_its_last_minute(live: LiveState) -> None:
    trend = Trend()
    for step, value in enumerate([1.0, 2.0, 3.0, None, 8.0]):
        trend.add(WALL + step * STEP_NS, value)
    assert trend.text(WALL + 6 * STEP_NS) == "     ▁▂▃ ███", "what stands still sends nothing"
    assert trend.text(WALL + 100 * STEP_NS) == "─" * STEPS
    for at in range(3):
        one = batch("co_1", float(at))
        times = np.array([WALL + at * STEP_NS], np.int64)
        tell(live, state(110 + at), [msgspec.structs.replace(one, source_ns=times)], CLOCK.now)
    later = Clock(CLOCK.now, WALL + 2 * STEP_NS)
    assert "█▁▂" in next(line for line in drawn(live, clock=later) if " co_1 " in line), "7.5, then 0, 1 and 2"


def test_a_late_value_does_not_turn_the_trend_back() -> None:
    trend = Trend()
    trend.add(WALL, 1.0)
    trend.add(WALL + STEP_NS, 5.0)
    trend.add(WALL - 10 * STEP_NS, 9.0)
    assert trend.text(WALL + STEP_NS).strip() == "▁█"


def test_the_title_says_ages_in_plain_words(live: LiveState) -> None:
    title = drawn(live)[0]
    assert "newest value: 0.1 s old" in title and "1:100" not in title


def test_a_member_is_behind_in_seconds() -> None:
    assert [behind_text(lag, 100.0) for lag in (0, 99, 500)] == ["up to date", "up to date", "5 s behind"]
    assert behind_text(500, None) == "500 records behind"


def test_cases_get_room_when_there_are_many(live: LiveState) -> None:
    tell(live, state(110, cases=tuple(case(number) for number in range(1, 40))), [], CLOCK.now)
    assert sum("UNACKED" in line and "co_1 hi" in line for line in drawn(live)) == 9


def test_the_plain_line_says_the_same(live: LiveState) -> None:
    live.status = PartsTold(core=node_status(samples_committed=1234))
    line = plain_line(live, CLOCK)
    assert "newest value 0.1 s old" in line and "items 8 (0 bad)" in line and "1234 samples committed" in line


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1b[5~x\x1b[6~", ["pgup", "x", "pgdn"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b", ["esc"]),
        (b"\x1b\x1b[A", ["esc", "up"]),
        (b"12.5\r", ["1", "2", ".", "5", "enter"]),
        (b"\x7f\t", ["backspace", "tab"]),
        (b"\x1b[1;5C\x1b[99~z", ["z"]),
        ("ä".encode(), ["ä"]),
        (b"\xff\xfe\x00\x07a", ["a"]),
        (b"\x1b[", []),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert keys_of(data) == keys


@given(st.binary(max_size=64))
def test_no_bytes_break_the_keyboard(data: bytes) -> None:
    assert all(key.isprintable() for key in keys_of(data))


def test_a_name_that_is_too_long_keeps_the_end_that_tells_it_from_others() -> None:
    names = [f"north:ceiling_temperature_{at}" for at in (1, 12)]
    assert [fitted(name, 25) for name in names] == ["north:ce…ng_temperature_1", "north:ce…g_temperature_12"]
    assert fitted("co_1", 6) == "co_1  "
    assert name_cells(names, 80) == 28 and name_cells(names, 60) == 25


def test_what_a_node_says_of_itself_is_hidden_until_a_slash_asks_for_it() -> None:
    def names(words: str) -> list[str]:
        return [known.item.name for known in shown_items(one, msgspec.structs.replace(BROWSING, filter=words))]

    one = LiveState()
    declared = [
        KnownItem(item_id=ItemId(at), node="root", item=DataItem(name=name, value_type=ValueType.FLOAT64))
        for at, name in enumerate(("core/turn_ms", "co_1"), 1)
    ]
    tell(one, state(100, is_whole=True, items=declared), [], CLOCK.now)
    assert names("") == ["root:co_1"]
    assert names("core/") == ["root:core/turn_ms"]
    assert names("/") == ["root:core/turn_ms"]
