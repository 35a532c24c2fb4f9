"""Nodes as the live view knows them: built up from their states and from answers, without I/O.

What it does not do: draw (render.py), take keys (screen.py), talk to the node (view.py).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from albireo.cli.display import HIGH, is_diagnostic, natural
from albireo.cli.view.trend import Trend
from albireo.client import Changes
from albireo.model import quality
from albireo.model.case import Case, LifecycleStatus, Shelving
from albireo.model.command import ItemSelection, Outcome
from albireo.model.instant import SECOND, Instant
from albireo.model.item import KnownItem, name_parts
from albireo.model.position import Position
from albireo.model.status import NodeStatus, PairStatus
from albireo.model.tree.node_row import NodeRow
from albireo.model.value import ItemId, Value

RATE_WINDOW_NS: Final = 3 * SECOND
"""Rates are means over this: shorter ones flicker."""
SILENT_NS: Final = 2 * SECOND
"""Nothing from the node for this long: what is shown is old, and says so."""
RECEIPTS_MAX: Final = 50
NUMBERS_OF_NODE: Final = 1 << 64
"""More than there are ids of items, or of cases, of one node."""


class Current(msgspec.Struct, frozen=True, gc=False):
    """Latest value of one item."""

    value: Value | None
    """None: no usable value was seen yet."""
    quality: int
    source_ns: int


class ShownOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A write that the operator ordered here."""

    name: str
    value: Value
    outcome: Outcome = Outcome.REQUESTED
    read_back: Value | None = None
    detail: str = ""


class HeldSelection(msgspec.Struct, frozen=True):
    """An item that is selected for whoever sits here (select before operate)."""

    selection: ItemSelection
    ends: Instant
    """Not later than it ends at the owner."""

    def left_s(self, now: Instant) -> float:
        return max(0, self.ends - now) / SECOND


class PartsTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of the node that is asked about itself; None: that part has not answered."""

    core: NodeStatus | None = None
    actors: list[dict[str, Any]] | None = None
    stats: dict[str, Any] | None = None

    @property
    def pair(self) -> PairStatus | None:
        """The pair; None: it stands alone too."""
        return self.core.pair if self.core else None


class LiveState:
    """Items, values, cases and position of one node, or of several.

    Items and cases have ids here that tell their nodes apart (`own_number`), and items have full names.
    """

    def __init__(self) -> None:
        self.stale: dict[str, int] = {}
        """Other nodes of which nothing is heard, and wall time since when; 0: never."""
        self.forced: frozenset[str] = frozenset()
        """Full names of the items that are forced, whether their nodes are heard or not."""
        self._numbers: dict[str, int] = {}
        """Number of each node."""
        self.rows: dict[str, NodeRow] = {}
        """Other nodes as the one that is asked sees them, by id."""
        self.items: dict[int, KnownItem] = {}
        self.values: dict[int, Current] = {}
        self.cases: dict[int, Case] = {}
        """Open ones by case id."""
        self.trends: dict[int, Trend] = {}
        """Course of each numeric item."""
        self.position = Position()
        """End of what is committed at the node that is asked."""
        self.orders: dict[str, ShownOrder] = {}
        """Orders by command id, in the sequence in which they were given."""
        self.held: HeldSelection | None = None
        """Item that is selected here for the next order."""
        self.status = PartsTold()
        """Latest answers."""
        self.heard_at: Instant | None = None
        """Instant at which the feed last said anything."""
        self.newest_ns = 0
        """Newest source time seen, wall."""
        self._progress: deque[tuple[Instant, int]] = deque()
        self._names: list[KnownItem] | None = None

    def take(self, changes: Changes, now: Instant) -> None:
        """Takes changes of the nodes; whole ones replace everything but our own orders."""
        if changes.is_whole:
            self._clear()
        if changes.items:
            self._names = None
        for known in changes.items:
            key = ItemId(self._key(known.node, known.item_id))
            named = msgspec.structs.replace(known.item, name=known.full_name)
            self.items[key] = msgspec.structs.replace(known, item_id=key, item=named)
        for case in changes.cases:
            number = self._key(case.node, case.case_id)
            if case.lifecycle_status is LifecycleStatus.CLOSED:
                self.cases.pop(number, None)
            else:
                item_id = ItemId(self._key(case.node, case.item_id))
                self.cases[number] = msgspec.structs.replace(case, case_id=number, item_id=item_id)
        for one in changes.readings:
            self._show(self._key(name_parts(one.name)[0], one.item_id), one.value, one.quality, one.source_ns)
            self.newest_ns = max(self.newest_ns, one.source_ns)
        self.stale, self.forced = changes.stale, changes.forced
        if not self.has_several:
            self.position = changes.position
        if changes.is_live:
            self.heard(now)

    def told(self, status: PartsTold, rows: Sequence[NodeRow], now: Instant) -> None:
        """Takes what the node that is asked says of itself, and of the others."""
        self.status, self.rows = status, {one.node: one for one in rows}
        if self.has_several and status.core is not None:  # Changes of several nodes have positions of several logs.
            self.position = Position(status.core.log.epoch, status.core.log.sequence)
        self.heard(now)

    @property
    def asked(self) -> str:
        """Id of the node that is asked; empty: it has not said so yet."""
        return self.status.core.node if self.status.core else ""

    @property
    def has_several(self) -> bool:
        """Items of several nodes are watched."""
        return len(self._watched) > 1

    @property
    def _watched(self) -> set[str]:
        return (self._numbers.keys() | self.stale.keys()) - {""}

    @property
    def nodes(self) -> list[str]:
        """Ids of the nodes whose items are watched: the one that is asked first, then as it lists them."""
        place = {node: at for at, node in enumerate([self.asked, *self.rows])}
        return sorted(self._watched, key=lambda one: (place.get(one, len(place)), one))

    def short(self, node: str) -> str:
        """The end of a node's id, where no other node that is shown has the same."""
        end = node.rpartition("/")[2]
        return node if sum(one.rpartition("/")[2] == end for one in self._watched) > 1 else end

    @property
    def node(self) -> str:
        """Node that is shown, or how many."""
        return f"{len(self.nodes)} nodes" if self.has_several else next(iter(self._watched), "")

    def _key(self, node: str, number: int) -> int:
        """Id of an item or a case of one of several nodes."""
        return self._numbers.setdefault(node, len(self._numbers)) * NUMBERS_OF_NODE + number

    def _clear(self) -> None:
        for kept in (self.items, self.values, self.trends, self.cases, self._progress):
            kept.clear()
        self._names = None

    def heard(self, now: Instant) -> None:
        """The node is there, with or without news."""
        self.heard_at = now
        self._progress.append((now, self.position.sequence))
        while len(self._progress) > 2 and now - self._progress[0][0] > RATE_WINDOW_NS:
            self._progress.popleft()

    def _show(self, item_id: int, value: Value | None, code: int, source_ns: int) -> None:
        self.values[item_id] = Current(value, code, source_ns)
        self.trends.setdefault(item_id, Trend()).add(source_ns, None if quality.is_bad(code) else value)

    def ordered(self, command_id: str, order: ShownOrder) -> None:
        """The operator gave an order here."""
        self.orders[command_id] = order
        while len(self.orders) > RECEIPTS_MAX:
            del self.orders[next(iter(self.orders))]

    def finished(self, command_id: str, outcome: Outcome, detail: str, read_back: Value | None = None) -> None:
        """Take in the node's answer to an order, or why the node did not take it."""
        order = self.orders.get(command_id)
        if order is not None:
            self.orders[command_id] = msgspec.structs.replace(
                order, outcome=outcome, read_back=read_back, detail=detail
            )

    def hold(self, held: HeldSelection | None) -> None:
        """Note which item is selected here; None: none is."""
        self.held = held

    def let_go(self, now: Instant) -> None:
        """Time has passed: a selection may be over."""
        if self.held is not None and now >= self.held.ends:
            self.held = None

    # Views.

    def sorted_items(self) -> list[KnownItem]:
        """All items by name, the plant's first; numbers in a name as numbers: fan_2 comes before fan_10."""
        if self._names is None:
            self._names = sorted(
                self.items.values(), key=lambda known: (is_diagnostic(known.item.name), natural(known.item.name))
            )
        return self._names

    def find(self, name: str) -> KnownItem | None:
        """The item with this full name."""
        return next((known for known in self.items.values() if known.item.name == name), None)

    def sorted_cases(self) -> list[Case]:
        """Cases by urgency: unacked before acked, shelved and suppressed last; the plant's before those of a node
        itself that are not high; then severity, then age."""
        return sorted(self.cases.values(), key=self._urgency)

    def _urgency(self, case: Case) -> tuple[bool, bool, bool, bool, int, int]:
        known = self.items.get(case.item_id)
        is_own = known is not None and is_diagnostic(known.item.name) and case.severity < HIGH
        return is_put_away(case), case.is_acked, is_own, not case.is_active, -case.severity, -case.case_id

    def node_of(self, case: Case) -> str:
        """Node that has this case; empty: its item is not known."""
        return next((node for node, at in self._numbers.items() if at == case.case_id // NUMBERS_OF_NODE), "")

    def other_node_of(self, case: Case) -> str:
        """Node that has this case, if that is not the one that is asked; empty: it is."""
        node = self.node_of(case)
        return node if self.has_several and node != self.asked else ""

    def alarmed(self) -> dict[int, Case]:
        """The most severe active case of each item that is neither shelved nor suppressed."""
        worst: dict[int, Case] = {}
        for case in self.cases.values():
            if case.is_active and not is_put_away(case):
                held = worst.get(case.item_id)
                if held is None or case.severity > held.severity:
                    worst[case.item_id] = case
        return worst

    @property
    def unacked_count(self) -> int:
        return sum(not case.is_acked and not is_put_away(case) for case in self.cases.values())

    @property
    def bad_count(self) -> int:
        return sum(quality.is_bad(current.quality) for current in self.values.values())

    def records_per_s(self) -> float | None:
        """Growth of the log; None before two looks at it."""
        if len(self._progress) < 2:
            return None
        (first_at, first), (last_at, last) = self._progress[0], self._progress[-1]
        return (last - first) * SECOND / (last_at - first_at) if last_at > first_at else None

    def is_silent(self, now: Instant) -> bool:
        """Nothing was heard for SILENT_NS: the values shown may be old."""
        return self.heard_at is None or now - self.heard_at > SILENT_NS


def is_put_away(case: Case) -> bool:
    """Shelved, suppressed or out of service: told in the list, but asks for nothing."""
    return case.shelving is not Shelving.UNSHELVED or case.is_suppressed or case.is_out_of_service


def own_number(number: int) -> int:
    """Id of an item or a case as its own node knows it."""
    return number % NUMBERS_OF_NODE
