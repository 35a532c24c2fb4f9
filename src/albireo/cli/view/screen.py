"""Keys of the operator in the live view: keys in, a new screen and orders for the shell out. No I/O.

    browse --/--> filter --enter--> browse        browse --?--> help --any key--> browse
    browse --w--> value  --enter--> browse, the write is ordered

Keys come as names: `up down pgup pgdn home end tab enter esc backspace`, or as the character itself.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from albireo.cli.view.state import LiveState, ShownOrder, own_number
from albireo.model.case import Action, Case
from albireo.model.item import KnownItem
from albireo.model.value import Value, ValueType
from albireo.plant.tunnel.scenario import Scenario

TEXT_MAX: Final = 40
"""Characters of a filter or a value."""
SHELVE_MS: Final = 10 * 60 * 1_000
"""A shelve from the view lasts ten minutes; `albireo cases shelve --for` takes others."""
SCENARIO_KEYS: Final = {
    "f": Scenario.FIRE,
    "t": Scenario.FAN_TRIP,
    "o": Scenario.PLC_OFF,
    "z": Scenario.SENSOR_FROZEN,
    "j": Scenario.JAM,
    "c": Scenario.CLEAR,
}


class Mode(StrEnum):
    BROWSE = "browse"
    FILTER = "filter"
    VALUE = "value"
    HELP = "help"


class Pane(StrEnum):
    ITEMS = "items"
    CASES = "cases"


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of the operator: what is shown of the node, and how."""

    mode: Mode = Mode.BROWSE
    pane: Pane = Pane.ITEMS
    item: int = 0
    """Selected row of the items that are shown."""
    case_id: int | None = None
    """Selected case; by id, since the list is sorted anew under the operator's eyes. None: the first."""
    filter: str = ""
    has_only_set_points: bool = False
    typed: str = ""
    """Text in the prompt."""
    target: str = ""
    """Item whose value is typed."""
    message: str = ""
    """Last thing that happened; one line."""
    page: int = 10
    """Rows of a page, as last drawn."""


class WriteOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """Write an item."""

    order: ShownOrder


class CaseActed(msgspec.Struct, frozen=True, kw_only=True):
    """Do something to a case."""

    action: Action
    case_id: int
    activation: int = 1
    """Acknowledgement: the activation that was shown."""
    duration_ms: int | None = None


class ScenarioBegun(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a scenario of the simulated tunnel."""

    scenario: Scenario


class Quit(msgspec.Struct, frozen=True):
    """Leave the view."""


Wish = WriteOrdered | CaseActed | ScenarioBegun | Quit
"""Work for the shell."""


def shown_items(live: LiveState, screen: Screen) -> list[KnownItem]:
    """The items that pass the filter: every word must be part of name or description."""
    words = screen.filter.lower().split()
    return [
        known
        for known in live.sorted_items()
        if (known.item.is_writable or not screen.has_only_set_points)
        and all(word in known.item.name.lower() or word in known.item.description.lower() for word in words)
    ]


def pressed(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    """The screen after a key, and the work for the shell."""
    match screen.mode:
        case Mode.HELP:
            return msgspec.structs.replace(screen, mode=Mode.BROWSE), []
        case Mode.FILTER:
            return _in_filter(screen, key), []
        case Mode.VALUE:
            return _in_value(live, screen, key)
        case Mode.BROWSE:
            return _in_browse(live, screen, key)


def _in_browse(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    if key in SCENARIO_KEYS:
        scenario = SCENARIO_KEYS[key]
        return _told(screen, f"scenario {scenario.value}"), [ScenarioBegun(scenario=scenario)]
    change = msgspec.structs.replace
    match key:
        case "q":
            return screen, [Quit()]
        case "?":
            return change(screen, mode=Mode.HELP), []
        case "/":
            return change(screen, mode=Mode.FILTER, pane=Pane.ITEMS, typed=screen.filter), []
        case "esc":
            return change(screen, filter="", has_only_set_points=False, item=0, message=""), []
        case "p":
            return change(screen, has_only_set_points=not screen.has_only_set_points, pane=Pane.ITEMS, item=0), []
        case "tab":
            first = next((case.case_id for case in live.sorted_cases()), None)
            other = Pane.CASES if screen.pane is Pane.ITEMS else Pane.ITEMS
            return change(screen, pane=other, case_id=first), []
        case "w":
            return _asked_for_value(live, screen), []
        case "a" | "s" | "r" | "u":
            return _acted(live, screen, key)
        case _:
            return _moved(live, screen, key), []


_STEPS: Final = {"up": -1, "down": 1}


def _moved(live: LiveState, screen: Screen, key: str) -> Screen:
    cases = live.sorted_cases()
    count = len(shown_items(live, screen)) if screen.pane is Pane.ITEMS else len(cases)
    row = screen.item if screen.pane is Pane.ITEMS else case_row(cases, screen)
    match key:
        case "pgup":
            row -= screen.page
        case "pgdn":
            row += screen.page
        case "home":
            row = 0
        case "end":
            row = count - 1
        case _:
            row += _STEPS.get(key, 0)
    row = max(0, min(row, count - 1))
    if screen.pane is Pane.ITEMS:
        return msgspec.structs.replace(screen, item=row)
    return msgspec.structs.replace(screen, case_id=cases[row].case_id if cases else None)


def _in_filter(screen: Screen, key: str) -> Screen:
    match key:
        case "enter":
            return msgspec.structs.replace(screen, mode=Mode.BROWSE)
        case "esc":
            return msgspec.structs.replace(screen, mode=Mode.BROWSE, filter="", item=0)
        case _:
            typed = _typed(screen.typed, key)
            return msgspec.structs.replace(screen, typed=typed, filter=typed, item=0)


def _asked_for_value(live: LiveState, screen: Screen) -> Screen:
    known = selected_item(live, screen)
    if known is not None and known.item.is_writable:
        return msgspec.structs.replace(screen, mode=Mode.VALUE, target=known.item.name, typed="", message="")
    listed = msgspec.structs.replace(screen, pane=Pane.ITEMS, has_only_set_points=True, filter="", item=0)
    return _told(listed, "these can be written: choose one, then w; Esc shows all items again")


def _in_value(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    change = msgspec.structs.replace
    match key:
        case "esc":
            return _told(change(screen, mode=Mode.BROWSE), "nothing written"), []
        case "enter":
            known = live.find(screen.target)
            if known is None:
                return _told(change(screen, mode=Mode.BROWSE), f"{screen.target} is gone"), []
            value = value_of(screen.typed, known)
            if isinstance(value, NotAValue):
                return _told(screen, value.reason), []
            order = ShownOrder(name=known.item.name, value=value)
            return change(screen, mode=Mode.BROWSE, message=""), [WriteOrdered(order=order)]
        case _:
            return change(screen, typed=_typed(screen.typed, key), message=""), []


class NotAValue(msgspec.Struct, frozen=True):
    """The typed text is no value for the item."""

    reason: str


_TRUE: Final = ("1", "true", "on", "yes")
_FALSE: Final = ("0", "false", "off", "no")


def value_of(text: str, known: KnownItem) -> Value | NotAValue:
    """The value that `text` means for an item, within its range."""
    item, text = known.item, text.strip()
    match item.value_type:
        case ValueType.STRING:
            return text
        case ValueType.BOOL:
            if text.lower() in _TRUE:
                return True
            return False if text.lower() in _FALSE else NotAValue(f"{text!r} is neither on nor off")
        case ValueType.INT64 | ValueType.FLOAT64:
            try:
                value = float(text) if item.value_type is ValueType.FLOAT64 else int(text)
            except ValueError:
                whole = "" if item.value_type is ValueType.FLOAT64 else "whole "
                return NotAValue(f"{text!r} is no {whole}number")
    low, high = item.minimum, item.maximum
    if not (float("-inf") if low is None else low) <= value <= (float("inf") if high is None else high):
        return NotAValue(f"{value:g} is not within {range_text(known)}")
    return value


def range_text(known: KnownItem) -> str:
    """Range of values that may be written to an item."""
    item = known.item
    if item.value_type is ValueType.BOOL:
        return "on or off"
    if item.minimum is None and item.maximum is None:
        return "any number"
    low = "" if item.minimum is None else f"{item.minimum:g}"
    high = "" if item.maximum is None else f"{item.maximum:g}"
    return f"{low}..{high} {item.unit}".strip()


def _acted(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    if not live.cases:
        return _told(screen, "there is no open case"), []
    if screen.pane is Pane.ITEMS:
        # A case that is not seen selected is not acknowledged: the most urgent case may be another a moment later.
        first = live.sorted_cases()[0].case_id
        chosen = msgspec.structs.replace(screen, pane=Pane.CASES, case_id=first)
        return _told(chosen, f"choose the case with the arrows, then {key}"), []
    case = selected_case(live, screen)
    number, other = own_number(case.case_id), live.other_node_of(case)
    if other:
        return _told(screen, f"case {number} is one of {other}: `albireo cases` there acts on it"), []
    action = {"a": Action.ACK, "s": Action.SHELVE, "r": Action.RESET, "u": Action.UNSHELVE}[key]
    duration_ms = SHELVE_MS if action is Action.SHELVE else None
    activation = case.activations if action is Action.ACK else 1
    wish = CaseActed(action=action, case_id=number, activation=activation, duration_ms=duration_ms)
    return _told(screen, f"{action.value} case {number}"), [wish]


def selected_item(live: LiveState, screen: Screen) -> KnownItem | None:
    items = shown_items(live, screen)
    return items[min(screen.item, len(items) - 1)] if items else None


def case_row(cases: Sequence[Case], screen: Screen) -> int:
    """Row of the selected case; 0 when it is gone."""
    return next((row for row, case in enumerate(cases) if case.case_id == screen.case_id), 0)


def selected_case(live: LiveState, screen: Screen) -> Case:
    """The case under the cursor; there must be one."""
    cases = live.sorted_cases()
    return cases[case_row(cases, screen)]


def _typed(text: str, key: str) -> str:
    if key == "backspace":
        return text[:-1]
    return (text + key)[:TEXT_MAX] if len(key) == 1 and key.isprintable() else text


def _told(screen: Screen, message: str) -> Screen:
    return msgspec.structs.replace(screen, message=message)
