r"""Keys of the operator in the live view: keys in, a new screen and orders for the shell out. No I/O.

    browse --/--> filter --enter--> browse        browse --?--> help --any key--> browse
    browse --w--> value  --enter--> browse, the write is ordered
    browse --w, of an item that asks to be selected--> selecting --selected--> value --esc--> browse, it is given back
                                                           \--esc, also behind a refusal--> browse

Of several nodes there is a third pane, and enter on a node shows its items and cases alone.

Keys come as names: `up down pgup pgdn home end tab enter esc backspace`, or as the character itself.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from albireo.cli.display import of_plant
from albireo.cli.view.state import HeldSelection, LiveState, ShownOrder, own_number
from albireo.model.case import Action, Case
from albireo.model.command import ItemSelection
from albireo.model.item import Control, KnownItem, name_parts
from albireo.model.item_states import value_named
from albireo.model.value import Value, ValueType, number_text
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
    SELECTING = "selecting"
    """The node was asked for a selection, and has not answered yet, or has refused."""
    VALUE = "value"
    HELP = "help"


class Pane(StrEnum):
    NODES = "nodes"
    """Is there if several nodes are shown."""
    ITEMS = "items"
    CASES = "cases"


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of the operator: what is shown of the node, and how."""

    mode: Mode = Mode.BROWSE
    pane: Pane = Pane.ITEMS
    node: str = ""
    """Selected node; empty: the first."""
    scope: str = ""
    """Node whose items and cases alone are shown; empty: those of all."""
    item: int = 0
    """Selected row of the items that are shown."""
    case_id: int | None = None
    """Selected case; by id, since the list is sorted anew under the operator's eyes. None: the first."""
    filter: str = ""
    has_only_set_points: bool = False
    typed: str = ""
    """Text in the prompt."""
    target: str = ""
    """Item whose value is typed, or that is being selected; empty: that was refused."""
    message: str = ""
    """Last thing that happened; one line."""
    page: int = 10
    """Rows of a page, as last drawn."""


class WriteOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """Write an item."""

    order: ShownOrder
    selection: ItemSelection | None = None
    """Selection that the order uses, of an item that asks for one."""


class SelectOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """Select an item for the next order."""

    item: str


class SelectionGivenBack(msgspec.Struct, frozen=True, kw_only=True):
    """Give a selection back: nothing is written."""

    selection: ItemSelection


class CaseActed(msgspec.Struct, frozen=True, kw_only=True):
    """Do something to a case."""

    action: Action
    case_id: int
    node: str = ""
    """Other node that has the case; empty: the one that is asked."""
    activation: int = 1
    """Acknowledgement: the activation that was shown."""
    duration_ms: int | None = None

    @property
    def text(self) -> str:
        """The action, for people."""
        return f"{self.action.value} case {self.case_id}" + (f" of {self.node}" if self.node else "")


class ScenarioBegun(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a scenario of a simulated tunnel."""

    scenario: Scenario
    node: str = ""
    """Site whose tunnel is meant; empty: the usual one."""


class Quit(msgspec.Struct, frozen=True):
    """Leave the view."""


Wish = WriteOrdered | SelectOrdered | SelectionGivenBack | CaseActed | ScenarioBegun | Quit
"""Work for the shell."""


def shown_items(live: LiveState, screen: Screen) -> list[KnownItem]:
    """The items that pass the filter: every word must be part of name or description."""
    words = screen.filter.lower().split()
    found = [
        known
        for known in live.sorted_items()
        if (known.item.is_writable or not screen.has_only_set_points)
        and screen.scope in ("", known.node)
        and all(word in known.item.name.lower() or word in known.item.description.lower() for word in words)
    ]
    return of_plant(found, lambda known: known.item.name, words)


def shown_cases(live: LiveState, screen: Screen) -> list[Case]:
    """Cases of the nodes that are shown, the most urgent first."""
    return [one for one in live.sorted_cases() if screen.scope in ("", live.node_of(one))]


def shown_name(live: LiveState, screen: Screen, full_name: str) -> str:
    """Name of an item as it stands in the lists: without its node where that is clear."""
    node, local = name_parts(full_name)
    return f"{live.short(node)}:{local}" if live.has_several and not screen.scope else local


def selected_node(live: LiveState, screen: Screen) -> str:
    """Node under the cursor, or whose items are shown; empty: there is one node only."""
    nodes = live.nodes
    if not live.has_several:
        return ""
    return screen.scope or (screen.node if screen.node in nodes else nodes[0])


def selected(screen: Screen, held: HeldSelection) -> tuple[Screen, list[Wish]]:
    """The screen after an item was selected; nobody waits for it any more: it is given back."""
    if screen.mode is Mode.SELECTING and screen.target == held.selection.item:
        return msgspec.structs.replace(screen, mode=Mode.VALUE, typed="", message=""), []
    return screen, [SelectionGivenBack(selection=held.selection)]


def not_selected(screen: Screen, reason: str) -> Screen:
    """The screen after a selection was refused: only Esc goes on, lest what was typed for a value is taken for keys."""
    is_waiting = screen.mode is Mode.SELECTING
    return _told(msgspec.structs.replace(screen, target="") if is_waiting else screen, reason)


def pressed(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    """The screen after a key, and the work for the shell."""
    match screen.mode:
        case Mode.HELP:
            return msgspec.structs.replace(screen, mode=Mode.BROWSE), []
        case Mode.FILTER:
            return _in_filter(screen, key), []
        case Mode.SELECTING:
            return _given_up(screen) if key == "esc" else screen, []
        case Mode.VALUE:
            return _in_value(live, screen, key)
        case Mode.BROWSE:
            return _in_browse(live, screen, key)


def _in_browse(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    if key in SCENARIO_KEYS:
        scenario = SCENARIO_KEYS[key]
        begun = ScenarioBegun(scenario=scenario, node=selected_node(live, screen))
        return _told(screen, f"scenario {scenario.value}"), [begun]
    change = msgspec.structs.replace
    match key:
        case "q":
            return screen, [Quit()]
        case "?":
            return change(screen, mode=Mode.HELP), []
        case "/":
            return change(screen, mode=Mode.FILTER, pane=Pane.ITEMS, typed=screen.filter), []
        case "esc":
            is_narrowed = screen.filter or screen.has_only_set_points
            scope = screen.scope if is_narrowed else ""
            return change(screen, filter="", has_only_set_points=False, scope=scope, item=0, message=""), []
        case "n" if live.has_several:
            return change(screen, pane=Pane.NODES, node=selected_node(live, screen), scope=""), []
        case "enter" if screen.pane is Pane.NODES:
            return change(screen, pane=Pane.ITEMS, scope=selected_node(live, screen), item=0, case_id=None), []
        case "p":
            return change(screen, has_only_set_points=not screen.has_only_set_points, pane=Pane.ITEMS, item=0), []
        case "tab":
            first = next((case.case_id for case in shown_cases(live, screen)), None)
            return change(screen, pane=_next_pane(live, screen), case_id=first), []
        case "w":
            return _asked_for_value(live, screen)
        case "a" | "s" | "r" | "u":
            return _acted(live, screen, key)
        case _:
            return _moved(live, screen, key), []


def _next_pane(live: LiveState, screen: Screen) -> Pane:
    panes = [Pane.ITEMS, Pane.CASES, *([Pane.NODES] if live.has_several and not screen.scope else [])]
    return panes[(panes.index(screen.pane) + 1) % len(panes)] if screen.pane in panes else Pane.ITEMS


_STEPS: Final = {"up": -1, "down": 1}


def _moved(live: LiveState, screen: Screen, key: str) -> Screen:
    change = msgspec.structs.replace
    match screen.pane:
        case Pane.NODES:
            nodes = live.nodes
            row = _row(nodes.index(selected_node(live, screen)) if live.has_several else 0, len(nodes), screen, key)
            return change(screen, node=nodes[row] if nodes else "")
        case Pane.ITEMS:
            return change(screen, item=_row(screen.item, len(shown_items(live, screen)), screen, key))
        case Pane.CASES:
            cases = shown_cases(live, screen)
            row = _row(case_row(cases, screen), len(cases), screen, key)
            return change(screen, case_id=cases[row].case_id if cases else None)


def _row(row: int, count: int, screen: Screen, key: str) -> int:
    """Row of the cursor after a key."""
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
    return max(0, min(row, count - 1))


def _in_filter(screen: Screen, key: str) -> Screen:
    match key:
        case "enter":
            return msgspec.structs.replace(screen, mode=Mode.BROWSE)
        case "esc":
            return msgspec.structs.replace(screen, mode=Mode.BROWSE, filter="", item=0)
        case _:
            typed = _typed(screen.typed, key)
            return msgspec.structs.replace(screen, typed=typed, filter=typed, item=0)


def _asked_for_value(live: LiveState, screen: Screen) -> tuple[Screen, list[Wish]]:
    known = selected_item(live, screen) if screen.pane is not Pane.NODES else None
    if known is None or not known.item.is_writable:
        listed = msgspec.structs.replace(screen, pane=Pane.ITEMS, has_only_set_points=True, filter="", item=0)
        return _told(listed, "these can be written: choose one, then w; Esc shows all items again"), []
    asking = msgspec.structs.replace(screen, mode=Mode.VALUE, target=known.item.name, typed="", message="")
    if known.item.control is Control.DIRECT:
        return asking, []
    return msgspec.structs.replace(asking, mode=Mode.SELECTING), [SelectOrdered(item=known.item.name)]


def _given_up(screen: Screen) -> Screen:
    return _told(msgspec.structs.replace(screen, mode=Mode.BROWSE), "nothing written")


def _in_value(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    change = msgspec.structs.replace
    match key:
        case "esc":
            back = [] if live.held is None else [SelectionGivenBack(selection=live.held.selection)]
            return _given_up(screen), [*back]
        case "enter":
            return _ordered(live, screen)
        case _:
            return change(screen, typed=_typed(screen.typed, key), message=""), []


def _ordered(live: LiveState, screen: Screen) -> tuple[Screen, list[Wish]]:
    """The order of the value that was typed, or why it is none."""
    known, browsing = live.find(screen.target), msgspec.structs.replace(screen, mode=Mode.BROWSE, message="")
    if known is None:
        return _told(browsing, f"{screen.target} is gone"), []
    value = value_of(screen.typed, known)
    if isinstance(value, NotAValue):
        return _told(screen, value.reason), []
    order = ShownOrder(name=known.item.name, value=value)
    if known.item.control is Control.DIRECT:
        return browsing, [WriteOrdered(order=order)]
    if live.held is None:
        return _told(browsing, f"the selection of {screen.target} was over, nothing written: w selects it again"), []
    return browsing, [WriteOrdered(order=order, selection=live.held.selection)]


class NotAValue(msgspec.Struct, frozen=True):
    """The typed text is no value for the item."""

    reason: str


def value_of(text: str, known: KnownItem) -> Value | NotAValue:
    """The value that `text` means for an item, within its range."""
    item = known.item
    try:
        value = value_named(item.states, text.strip(), item.value_type)
    except ValueError as error:
        return NotAValue(str(error))
    if isinstance(value, str | bool):
        return value
    low, high = item.minimum, item.maximum
    if not (float("-inf") if low is None else low) <= value <= (float("inf") if high is None else high):
        return NotAValue(f"{number_text(value)} is not within {range_text(known)}")
    return value


def range_text(known: KnownItem) -> str:
    """Range of values that may be written to an item."""
    item = known.item
    if item.value_type is ValueType.BOOL:
        return "on or off"
    if item.minimum is None and item.maximum is None:
        return "any number"
    low = "" if item.minimum is None else number_text(item.minimum)
    high = "" if item.maximum is None else number_text(item.maximum)
    return f"{low}..{high} {item.unit}".strip()


def _acted(live: LiveState, screen: Screen, key: str) -> tuple[Screen, list[Wish]]:
    cases = shown_cases(live, screen)
    if not cases:
        return _told(screen, "there is no open case"), []
    if screen.pane is not Pane.CASES:
        # A case that is not seen selected is not acknowledged: the most urgent case may be another a moment later.
        chosen = msgspec.structs.replace(screen, pane=Pane.CASES, case_id=cases[0].case_id)
        return _told(chosen, f"choose the case with the arrows, then {key}"), []
    case = cases[case_row(cases, screen)]
    number, node = own_number(case.case_id), live.other_node_of(case)
    action = {"a": Action.ACK, "s": Action.SHELVE, "r": Action.RESET, "u": Action.UNSHELVE}[key]
    duration_ms = SHELVE_MS if action is Action.SHELVE else None
    activation = case.activations if action is Action.ACK else 1
    wish = CaseActed(action=action, case_id=number, node=node, activation=activation, duration_ms=duration_ms)
    return _told(screen, f"{wish.text}: pending..."), [wish]


def selected_item(live: LiveState, screen: Screen) -> KnownItem | None:
    items = shown_items(live, screen)
    return items[min(screen.item, len(items) - 1)] if items else None


def case_row(cases: Sequence[Case], screen: Screen) -> int:
    """Row of the selected case; 0 when it is gone."""
    return next((row for row, case in enumerate(cases) if case.case_id == screen.case_id), 0)


def _typed(text: str, key: str) -> str:
    if key == "backspace":
        return text[:-1]
    return (text + key)[:TEXT_MAX] if len(key) == 1 and key.isprintable() else text


def _told(screen: Screen, message: str) -> Screen:
    return msgspec.structs.replace(screen, message=message)
