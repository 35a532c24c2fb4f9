"""A node as the live view knows it: built up from the state feed and from answers, without I/O.

What it does not do: draw (view_render.py), take keys (view_screen.py), talk to the node (view.py).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.cli.view.trend import Trend
from albireo.client import Changes
from albireo.codec.message import FeedState
from albireo.model import quality
from albireo.model.case import Case, LifecycleStatus, Shelving
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND, Instant
from albireo.model.item import KnownItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
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


class LiveState:
    """Items, values, cases and position of one node, or of several.

    `apply` takes deltas of one node in their order, `take` the changes of several. Items and cases of several nodes
    have ids here that tell their nodes apart (`own_number`), and full names.
    """

    def __init__(self) -> None:
        self.node = ""
        self.stale: dict[str, int] = {}
        """Other nodes of which nothing is heard, and wall time since when; 0: never."""
        self._numbers: dict[str, int] = {}
        """Number of each node of several."""
        self.items: dict[int, KnownItem] = {}
        self.values: dict[int, Current] = {}
        self.cases: dict[int, Case] = {}
        """Open ones by case id."""
        self.trends: dict[int, Trend] = {}
        """Course of each numeric item."""
        self.position = Position()
        self.orders: dict[str, ShownOrder] = {}
        """Orders by command id, in the sequence in which they were given."""
        self.status: dict[str, object] = {}
        """Latest answer of CORE, boot and history; empty before the first."""
        self.heard_at: Instant | None = None
        """Instant at which the feed last said anything."""
        self.newest_ns = 0
        """Newest source time seen, wall."""
        self._progress: deque[tuple[Instant, int]] = deque()
        self._names: list[KnownItem] | None = None

    def apply(self, state: FeedState, batches: Sequence[SampleBatch], now: Instant) -> None:
        """Takes one message of the feed; a snapshot replaces everything but our own orders."""
        if state.is_snapshot:
            self._clear()
        if state.items:
            self._names = None
        for known in state.items:
            self.items[known.item_id] = known
            self.node = known.node
        for case in state.cases:
            if case.lifecycle_status is LifecycleStatus.CLOSED:
                self.cases.pop(case.case_id, None)
            else:
                self.cases[case.case_id] = case
        for batch in batches:
            self._take(batch)
        for receipt in state.receipts:
            self._finish(receipt)
        self.position = state.position
        self.heard(now)

    def take(self, changes: Changes, now: Instant) -> None:
        """Takes changes of several nodes; whole ones replace everything but our own orders."""
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
            self._show(self._key(one.name.rpartition(":")[0], one.item_id), one.value, one.quality, one.source_ns)
            self.newest_ns = max(self.newest_ns, one.source_ns)
        count = len(self._numbers)
        self.node = next(iter(self._numbers), "") if count == 1 else f"{count} nodes"
        self.stale = changes.stale
        self.position = changes.position
        if changes.is_live:
            self.heard(now)

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

    def _take(self, batch: SampleBatch) -> None:
        rows = zip(
            batch.item_id.tolist(), batch.values(), batch.quality.tolist(), batch.source_ns.tolist(), strict=True
        )
        for item_id, value, code, source_ns in rows:
            self._show(item_id, value, code, source_ns)
        if len(batch):
            self.newest_ns = max(self.newest_ns, int(batch.source_ns.max()))

    def _show(self, item_id: int, value: Value | None, code: int, source_ns: int) -> None:
        self.values[item_id] = Current(value, code, source_ns)
        self.trends.setdefault(item_id, Trend()).add(source_ns, None if quality.is_bad(code) else value)

    def ordered(self, command_id: str, order: ShownOrder) -> None:
        """The operator gave an order here."""
        self.orders[command_id] = order
        while len(self.orders) > RECEIPTS_MAX:
            del self.orders[next(iter(self.orders))]

    def _finish(self, receipt: Receipt) -> None:
        order = self.orders.get(receipt.command_id)
        if order is not None:
            self.orders[receipt.command_id] = msgspec.structs.replace(
                order, outcome=receipt.outcome, read_back=receipt.read_back, detail=receipt.detail
            )

    def finished(self, command_id: str, outcome: Outcome, detail: str, read_back: Value | None = None) -> None:
        """Take in the node's answer to an order, or why the node did not take it."""
        self._finish(Receipt(command_id=command_id, outcome=outcome, detail=detail, read_back=read_back))

    # Views.

    def sorted_items(self) -> list[KnownItem]:
        """All items by name, the plant's first; numbers in a name as numbers: fan_2 comes before fan_10."""
        if self._names is None:
            self._names = sorted(
                self.items.values(), key=lambda known: (is_diagnostic(known.item.name), natural(known.item.name))
            )
        return self._names

    def find(self, name: str) -> KnownItem | None:
        """The item with this local name."""
        return next((known for known in self.items.values() if known.item.name == name), None)

    def sorted_cases(self) -> list[Case]:
        """Cases by urgency: unacked before acked, shelved and suppressed last, then severity, then age."""
        return sorted(self.cases.values(), key=_urgency)

    def other_node_of(self, case: Case) -> str:
        """Node that has this case, if that is not the one that is asked; empty: it is."""
        core = self.status.get("core")
        asked = core.get("node") if isinstance(core, dict) else None
        node = next((node for node, at in self._numbers.items() if at == case.case_id // NUMBERS_OF_NODE), asked)
        return "" if node == asked else str(node)

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


def _urgency(case: Case) -> tuple[bool, bool, bool, int, int]:
    return is_put_away(case), case.is_acked, not case.is_active, -case.severity, -case.case_id


def is_diagnostic(name: str) -> bool:
    """Whether a node, an adapter or the machine says it of itself: such names have a slash, no item of a plant has.

    The name of a node before it does not count.
    """
    return "/" in name.rpartition(":")[2]


def own_number(number: int) -> int:
    """Id of an item or a case as its own node knows it."""
    return number % NUMBERS_OF_NODE


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Sort key in which digits count as numbers."""
    key: list[tuple[str, int]] = []
    text, digits = "", ""
    for character in name + "\0":
        if character.isdigit():
            digits += character
        else:
            if digits:
                key.append((text, int(digits)))
                text, digits = "", ""
            text += character
    return (*key, (text, -1))
