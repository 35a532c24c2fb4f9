"""Draws the live view: exactly as many lines as the terminal has, never wider than it is. No I/O.

After ISA-101: everything normal is plain; colour stands for abnormal only, and never alone - a mark and a word say the
same. Marks of severity: `!!!` from 800, `!!` from 600, `!` below.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from albireo.cli.below.nodes import age_text
from albireo.cli.display import fitted, state_text
from albireo.cli.safe_text import plain
from albireo.cli.view.nodes import away_text, node_lines
from albireo.cli.view.pair import is_passive, pair_lines, plain_pair
from albireo.cli.view.screen import (
    SHELVE_MS,
    Mode,
    Pane,
    Screen,
    case_row,
    range_text,
    selected_node,
    shown_cases,
    shown_items,
    shown_name,
)
from albireo.cli.view.state import Current, LiveState, ShownOrder, is_put_away, own_number
from albireo.cli.view.trend import STEPS
from albireo.model import quality
from albireo.model.case import Case
from albireo.model.command import Outcome
from albireo.model.instant import SECOND, Instant
from albireo.model.item import Control, DataItem, KnownItem
from albireo.model.value import value_text

WIDTH_MIN: Final = 60
HEIGHT_MIN: Final = 12
WIDE: Final = 130
"""Width from which on items and cases stand side by side."""
NAME_CELLS: Final = 25
VALUE_CELLS: Final = 15
TREND_FROM: Final = 70
"""Width of a pane from which on there is room for trends."""
TREND_AND_NOTE_FROM: Final = 100
"""Width from which on an item has room for both; what is wrong with it comes first."""

_HELP: Final = f"""arrows, PgUp PgDn, Home End   move            Tab  items, alarms, nodes
n   nodes; Enter shows the items and alarms of one    Esc  those of all again
/   filter by name or description                Esc  no filter
p   only set points                              w    write the selected set point
w   at an `s`: it is selected for you first; Enter operates, Esc gives it back
a   acknowledge the selected alarm               s    shelve it for {SHELVE_MS // 60_000} minutes
r   reset it (latched)                           u    unshelve it
Scenarios of the simulated tunnel:
f   fire     t  fan trip     o  PLC off     z  sensor frozen     j  jam     c  clear
q   leave"""
_KEYS: Final = "/ filter w write a ack s shelve ? help q quit"
_NODE_KEYS: Final = "n nodes / filter w write a ack ? help q quit"
_SCENARIO_KEYS: Final = "| f fire t fan o PLC z froze c clear"
_SELECTING_KEYS: Final = "Esc: nothing is written"
_PROMPT_KEYS: Final = "Enter: it is written   Esc: nothing is written"
_OPERATE_KEYS: Final = "Enter: OPERATE, it is written   Esc: give the selection back, nothing is written"

_CRITICAL, _HIGH, _LOW = "bold red", "yellow", "cyan"
_OLD: Final = "dim"


class Size(msgspec.Struct, frozen=True):
    """Size of the terminal, in cells."""

    width: int
    height: int


class Clock(msgspec.Struct, frozen=True):
    """Now, in both kinds of time."""

    now: Instant
    wall_ns: int


def page_of(live: LiveState, screen: Screen, size: Size) -> int:
    """Rows that the selected pane has at this size."""
    return _heights(_left(live, size), live, screen)[screen.pane] - 1


def render(live: LiveState, screen: Screen, size: Size, clock: Clock, *, has_scenarios: bool) -> Group:
    """The whole screen."""
    if size.width < WIDTH_MIN or size.height < HEIGHT_MIN:
        return Group(
            _line(f"{WIDTH_MIN}x{HEIGHT_MIN} cells are needed, these are {size.width}x{size.height}", size.width)
        )
    lines = [_title(live, screen, size.width, clock), _pulse(live, size.width, clock), *_pair(live, size.width)]
    if screen.mode is Mode.HELP:
        lines += [_line(text, size.width) for text in _HELP.splitlines()]
        lines += [_line("", size.width)] * (size.height - 2 - len(lines))
    else:
        lines += _panes(live, screen, _left(live, size), clock)
    lines.append(_bottom(live, screen, size.width, clock.now))
    lines.append(_line(_keys(live, screen, has_scenarios=has_scenarios), size.width, _OLD))
    return Group(*lines[: size.height])


def _keys(live: LiveState, screen: Screen, *, has_scenarios: bool) -> str:
    if screen.mode is Mode.SELECTING:
        return _SELECTING_KEYS
    if screen.mode is Mode.VALUE:
        return _PROMPT_KEYS if live.held is None else _OPERATE_KEYS
    keys = _NODE_KEYS if live.has_several else _KEYS
    return f"{keys} {_SCENARIO_KEYS}" if has_scenarios else keys


def _pair(live: LiveState, width: int) -> list[Text]:
    """The pair's lines, if there is one; what is wrong with it stands out."""
    return [_line(text, width, style) for text, style in zip(pair_lines(live), ("", _HIGH), strict=False)]


def _left(live: LiveState, size: Size) -> Size:
    """Size that the pair's lines leave."""
    return Size(size.width, size.height - len(pair_lines(live)))


def _heights(size: Size, live: LiveState, screen: Screen) -> dict[Pane, int]:
    """Lines of each pane, headings included; nodes and cases take what they need, up to a third or half."""
    free = size.height - 4
    nodes = 0
    if live.has_several:
        nodes = 1 if screen.scope else min(len(live.nodes) + 1, free // 3)
    free -= nodes
    if size.width >= WIDE:
        return {Pane.NODES: nodes, Pane.ITEMS: free, Pane.CASES: free}
    least = min(4, free // 2)
    cases = max(least, min(len(shown_cases(live, screen)) + 1, free // 2))
    return {Pane.NODES: nodes, Pane.ITEMS: free - cases, Pane.CASES: cases}


def _panes(live: LiveState, screen: Screen, size: Size, clock: Clock) -> list[Text]:
    heights = _heights(size, live, screen)
    item_lines, case_lines = heights[Pane.ITEMS], heights[Pane.CASES]
    above = _nodes(live, screen, size.width, heights[Pane.NODES], clock) if heights[Pane.NODES] else []
    if size.width < WIDE:
        cases, items = (
            _cases(live, screen, size.width, case_lines, clock),
            _items(live, screen, size.width, item_lines, clock),
        )
        return above + cases + items
    left = size.width * 11 // 20
    return above + [
        Text.assemble(item, " ", case, no_wrap=True)
        for item, case in zip(
            _items(live, screen, left, item_lines, clock),
            _cases(live, screen, size.width - left - 1, case_lines, clock),
            strict=True,
        )
    ]


def _nodes(live: LiveState, screen: Screen, width: int, height: int, clock: Clock) -> list[Text]:
    """One line for each node, or for the one that alone is shown; what is wrong with one stands out."""
    rows = node_lines(live, clock.wall_ns, is_silent=live.is_silent(clock.now))
    selected = live.nodes.index(selected_node(live, screen))
    if screen.scope:
        mark, text = rows[selected]
        return [_line(f"{mark}{text}", width, _HIGH if mark.strip() else "")]
    top = _top(selected, len(rows), height - 1)
    lines = [_line(f"    nodes  {selected + 1}/{len(rows)}", width, _heading(screen.pane is Pane.NODES))]
    for row, (mark, text) in enumerate(rows[top : top + height - 1], top):
        style = _HIGH if mark.strip() else ""
        if row == selected and screen.pane is Pane.NODES:
            style = f"{style} reverse".strip()
        lines.append(_line(f"{mark}{text}", width, style))
    return _filled(lines, width, height)


def _title(live: LiveState, screen: Screen, width: int, clock: Clock) -> Text:
    role = live.status.core.role if live.status.core else ""
    rate = live.records_per_s()
    parts = [
        f"Albireo  {screen.scope or live.node or '-'} {'' if live.has_several else role}".rstrip(),
        "records: -" if rate is None else f"records: {rate:,.0f} per second",
        f"newest value: {_age_of_newest(live, clock)}",
    ]
    return _line("   ".join(parts), width, "bold")


def _age_of_newest(live: LiveState, clock: Clock) -> str:
    """Age of the newest value: what lies between the device and this screen."""
    if not live.newest_ns:
        return "none yet"
    age_ns = max(0, clock.wall_ns - live.newest_ns)
    return f"{age_ns / SECOND:.1f} s old" if age_ns < 10 * SECOND else f"{age_text(age_ns // SECOND)} old"


def _pulse(live: LiveState, width: int, clock: Clock) -> Text:
    """Line that says what is abnormal about the node itself, or that it is well."""
    counts = f"items {len(live.items)} ({live.bad_count} bad)   alarms {len(live.cases)} ({live.unacked_count} unacked)"
    if live.is_silent(clock.now):
        since = "" if live.heard_at is None else f" for {(clock.now - live.heard_at) / SECOND:.1f} s"
        return _line(f"!!! NO NEWS FROM THE NODE{since}: values are old   {counts}", width, _CRITICAL)
    reason = admission(live)
    if reason and not is_passive(live):
        return _line(f"!!! NOTHING IS RECORDED: {reason}   {counts}", width, _CRITICAL)
    wrong = actors_in_trouble(live)
    if wrong:
        return _line(f"!! actors: {', '.join(wrong)}   {counts}", width, _HIGH)
    if live.stale:
        away = ", ".join(away_text(node, since_ns, clock.wall_ns) for node, since_ns in sorted(live.stale.items()))
        return _line(f"!! NOT HEARD: {away}   {counts}", width, _HIGH)
    running = len(live.status.actors or ())
    return _line(f"{counts}   actors {running} running" if running else counts, width)


def admission(live: LiveState) -> str:
    """Why CORE takes nothing in now; empty when it does."""
    return live.status.core.log.admission if live.status.core else ""


def actors_in_trouble(live: LiveState) -> list[str]:
    """Actors that do not run, with their state."""
    return [f"{one['name']} {one['state']}" for one in live.status.actors or () if one["state"] != "running"]


def _items(live: LiveState, screen: Screen, width: int, height: int, clock: Clock) -> list[Text]:
    items = shown_items(live, screen)
    selected = max(0, min(screen.item, len(items) - 1))
    top = _top(selected, len(items), height - 1)
    what = "set points" if screen.has_only_set_points else "items"
    if screen.scope:
        what += f" of {screen.scope}"
    if screen.filter:
        what += f" with {screen.filter!r}"
    place = f"{selected + 1}/{len(items)}" if items else "none"
    lines = [_line(f"    {what}  {place}", width, _heading(screen.pane is Pane.ITEMS))]
    alarmed = live.alarmed()
    seen = items[top : top + height - 1]
    names = [shown_name(live, screen, known.item.name) for known in seen]
    cells = name_cells(names, width)
    for row, (known, name) in enumerate(zip(seen, names, strict=True), top):
        current = live.values.get(known.item_id)
        case = alarmed.get(known.item_id)
        trend = _trend(live, known, width + NAME_CELLS - cells, clock.wall_ns)
        named = msgspec.structs.replace(known.item, name=fitted(name, cells))
        is_forced = known.item.name in live.forced
        line, style = item_line(named, current, case, clock.wall_ns, trend, width, is_forced=is_forced)
        if row == selected and screen.pane is Pane.ITEMS:
            style = f"{style} reverse".strip()
        lines.append(_line(line, width, style))
    return _filled(lines, width, height)


def _trend(live: LiveState, known: KnownItem, width: int, wall_ns: int) -> str:
    """Course of the item's value, if there is room for it."""
    if width < TREND_FROM:
        return ""
    trend = live.trends.get(known.item_id)
    return "  " + (trend.text(wall_ns) if trend is not None else " " * STEPS)


def item_line(
    item: DataItem,
    current: Current | None,
    case: Case | None,
    wall_ns: int,
    trend: str,
    width: int,
    *,
    is_forced: bool,
) -> tuple[str, str]:
    """Text and style of one item: mark, name, value, its course, and what is wrong with it, else what it is."""
    mark, style = ("   ", "") if case is None else severity_mark(case.severity)
    if current is None:
        shown, note, style = "-", "no value yet", style or _OLD
    elif quality.is_bad(current.quality):
        age = max(0.0, (wall_ns - current.source_ns) / SECOND)
        shown, note, style = "-", f"? {quality.name(current.quality)}, {age:.0f} s old", style or _HIGH
        mark = mark if case is not None else "?  "
    else:
        shown = item.shown(current.value)
        shown = fitted(shown, VALUE_CELLS).strip() if item.states else shown
        note = "" if quality.is_good(current.quality) else f"~ {quality.name(current.quality)}"
    trend = "" if note and width < TREND_AND_NOTE_FROM else trend
    if case is not None and not note:
        note = f"{case.condition.value} {'' if case.is_acked else 'UNACKED'}".strip()
    if is_forced:
        note = f"= forced {note}".strip()
    writable = "  "
    if item.is_writable:
        writable = "w " if item.control is Control.DIRECT else "s "
    return f"{mark}{writable}{item.name:<{NAME_CELLS}} {shown:>{VALUE_CELLS}}{trend}  {note or item.description}", style


def name_cells(names: Iterable[str], width: int) -> int:
    """Cells of a column of names: a row is known by its name, so that grows first; the trend comes last."""
    return max(NAME_CELLS, min(max(map(len, names), default=0), width * 2 // 5))


def severity_mark(severity: int) -> tuple[str, str]:
    """Three cells and the colour that says the same."""
    if severity >= 800:
        return "!!!", _CRITICAL
    if severity >= 600:
        return "!! ", _HIGH
    return "!  ", _LOW


def _cases(live: LiveState, screen: Screen, width: int, height: int, clock: Clock) -> list[Text]:
    cases = shown_cases(live, screen)
    selected = case_row(cases, screen)
    top = _top(selected, len(cases), height - 1)
    place = f"{selected + 1}/{len(cases)}" if cases else "none open"
    of = f" of {screen.scope}" if screen.scope else ""
    lines = [_line(f"    alarms{of}  {place}", width, _heading(screen.pane is Pane.CASES))]
    for row, case in enumerate(cases[top : top + height - 1], top):
        known = live.items.get(case.item_id)
        if known is not None:
            named = msgspec.structs.replace(known.item, name=shown_name(live, screen, known.item.name))
            known = msgspec.structs.replace(known, item=named)
        line, style = case_line(case, known, live.values.get(case.item_id), clock.wall_ns, width)
        if row == selected and screen.pane is Pane.CASES:
            style = f"{style} reverse".strip()
        lines.append(_line(line, width, style))
    return _filled(lines, width, height)


def case_line(
    case: Case, known: KnownItem | None, current: Current | None, wall_ns: int, width: int
) -> tuple[str, str]:
    """Text and style of one case, with the value that its item has now; what is over or put away is dim."""
    mark, style = severity_mark(case.severity)
    if is_put_away(case) or (case.is_acked and not case.is_active):
        mark, style = "   ", _OLD
    name = known.item.name if known is not None else f"item {own_number(case.item_id)}"
    age = age_text(max(0, wall_ns - case.raised_ns) // SECOND)
    shown = value_text if known is None else known.item.shown
    state = state_text(msgspec.to_builtins(case))
    if not case.is_acked:
        state = state.replace("unacked", "UNACKED")
    cells = max(NAME_CELLS, width * 2 // 7)
    name = fitted(name, cells - 1 - len(case.condition.value)).rstrip()
    what = f"{name} {case.condition.value}".ljust(cells)
    is_known = current is not None and not quality.is_bad(current.quality)
    now = shown(current.value) if is_known and current is not None else "?"
    raised = "" if case.value is None else f"  raised at {shown(case.value)}"
    return f"{mark} {what} now {now:<12} {state:<14} {age:>5}{raised}", style


def _bottom(live: LiveState, screen: Screen, width: int, now: Instant) -> Text:
    """The prompt, or the last order, or the last message."""
    if screen.mode is Mode.FILTER:
        return _line(f"/{screen.typed}_", width, "bold")
    if screen.mode is Mode.SELECTING:
        if not screen.target:
            return _line(f"!! NOT SELECTED: {screen.message}", width, _HIGH)
        return _line(f"selecting {screen.target}...", width, "bold")
    if screen.mode is Mode.VALUE:
        return _line(_prompt(live, screen, now), width, "bold")
    if screen.message:
        return _line(screen.message, width)
    if live.orders:
        return _line(*_order(live, list(live.orders.values())[-1], width))
    return _line("", width)


def _prompt(live: LiveState, screen: Screen, now: Instant) -> str:
    """Prompt for a value: the item, what may be written, what is there, and how long a selected one is ours."""
    known = live.find(screen.target)
    said = f"   {screen.message}" if screen.message else ""
    if known is None:
        return f"{screen.target} = {screen.typed}_{said}"
    current = live.values.get(known.item_id)
    is_known = current is not None and not quality.is_bad(current.quality)
    there = known.item.shown(current.value) if is_known and current is not None else "?"
    text = f"{screen.target} ({range_text(known)}), now {there}, = {screen.typed}_{said}"
    if known.item.control is Control.DIRECT:
        return text
    if live.held is None:
        return f"!! the selection is over: Esc, then w again   {text}"
    return f"SELECTED, {live.held.left_s(now):.0f} s left   {text}"


def _order(live: LiveState, order: ShownOrder, width: int) -> tuple[str, int, str]:
    known = live.find(order.name)
    shown = value_text if known is None else known.item.shown
    text = f"{order.name} = {shown(order.value)}: "
    match order.outcome:
        case Outcome.REQUESTED | Outcome.ACCEPTED:
            return f"{text}pending...", width, ""
        case Outcome.VERIFIED:
            return f"{text}verified, read back {shown(order.read_back)}", width, ""
        case Outcome.EXECUTED:
            return f"{text}executed, no read-back", width, ""
        case _:
            return f"!! {text}{order.outcome.value.upper()} {order.detail}", width, _HIGH


def _top(selected: int, count: int, height: int) -> int:
    """First row shown, so that the selected one is in sight and no page is half empty."""
    return max(0, min(selected - height // 2, count - height))


def _heading(is_selected: bool) -> str:
    return "bold underline" if is_selected else "underline"


def _line(text: str, width: int, style: str = "") -> Text:
    """Exactly `width` cells; what does not fit is cut."""
    text = plain(text)
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return Text(set_cell_size(text, width), style=style, no_wrap=True, overflow="crop")


def _filled(lines: list[Text], width: int, height: int) -> list[Text]:
    return lines + [_line("", width)] * (height - len(lines))


def plain_line(live: LiveState, clock: Clock) -> str:
    """The state in one line, for places where no terminal is."""
    rate = live.records_per_s()
    parts = [
        f"newest value {_age_of_newest(live, clock)}",
        f"{'-' if rate is None else f'{rate:.0f}'} records per second",
        f"items {len(live.items)} ({live.bad_count} bad)",
        f"alarms {len(live.cases)} ({live.unacked_count} unacked)",
    ]
    if live.status.core is not None:
        parts.append(f"{live.status.core.samples_committed} samples committed")
    if told := plain_pair(live):
        parts.append(told)
    if live.is_silent(clock.now):
        parts.append("NO NEWS FROM THE NODE")
    return "  ".join(parts)
