"""ChpServer: the whole of a CHP server but its sockets.

    node -- MirrorChanged, SourceLost --> Mirror --Publish--> subscribers (P + 1)
    client -- RequestReceived (P) ------> Answering --SnapshotPiece--> that client (P)
    client -- SetReceived (P + 2) ------> PlaceOrder --> node -- OrderFinished -->

While the node is not heard nobody is answered and nothing is published, HUGZ neither: to a client this server is gone
then, and what it has is not taken for the present state.

What a peer says wrongly is counted and dropped, with a note of the first in each while; nothing it says ends a step.

Spec: ZeroMQ RFC 12 (CHP). Decisions: ADR-0174 (the command, keys and values), ADR-0175 (sequence numbers, losses).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from albireo.codec.chp import HUGZ, KeyValue, Part, decode, decode_order, decode_request, time_to_live_s
from albireo.codec.errors import DecodeError
from albireo.machine.chp.answering import Answering, SnapshotPiece
from albireo.machine.chp.mirror import Mirror
from albireo.model.instant import MS, SECOND, Instant, TimePassed, soonest
from albireo.model.item import KnownItem, Reading
from albireo.model.position import Position
from albireo.model.value import Value

HUGZ_NS: Final = SECOND
PUBLISHED_MAX: Final = 500
"""Publications at a time, and the pause after them: a subscriber that reads all the time keeps up with 50,000 a second,
of which a thousand wait for it at most."""
PAUSE_NS: Final = 10 * MS
REPEAT_NS: Final = SECOND
ROUND: Final = 60
"""Every key is published once more in so many times REPEAT_NS."""
ORDERS_MAX: Final = 16
"""Orders under way; a further one is refused, because nobody knows when it would be carried out."""
EXPIRES_S: Final = 10.0
"""Time that an order may take whose KVSET has no `ttl`."""
NOTE_NS: Final = 10 * SECOND
"""Time between two notes of one cause."""


class MirrorChanged(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The node told items and readings; `is_whole`: they are all there are."""

    items: Sequence[KnownItem] = ()
    readings: Sequence[Reading] = ()
    position: Position
    is_whole: bool = False


class SourceLost(msgspec.Struct, frozen=True):
    """The node is not heard. It tells everything when it is heard again."""


class RequestReceived(msgspec.Struct, frozen=True):
    """A message at the snapshot port."""

    client: bytes
    """Identity of the client, as its socket gives it."""
    parts: Sequence[Part]


class PieceTaken(msgspec.Struct, frozen=True):
    """The client of a `SnapshotPiece` has taken so many of its commands. Comes before any other event."""

    client: bytes
    count: int
    is_gone: bool = False


class SetReceived(msgspec.Struct, frozen=True):
    """A message at the collector port."""

    parts: Sequence[Part]


class OrderFinished(msgspec.Struct, frozen=True):
    """An order came to an end."""

    item: str
    outcome: str
    """Word for its end, of which there are few."""
    detail: str = ""


Event = MirrorChanged | SourceLost | RequestReceived | PieceTaken | SetReceived | OrderFinished | TimePassed


class Publish(msgspec.Struct, frozen=True):
    """Effect: send these to all subscribers."""

    commands: list[KeyValue]


class PlaceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Effect: order a write at the node, and say how it ended (`OrderFinished`)."""

    item: str
    value: Value
    command_id: str
    """The UUID of the KVSET, so that its copies are one order; empty: it had none, draw one."""
    expires_s: float


class ChpNoted(msgspec.Struct, frozen=True):
    """Effect: tell whoever looks after this server."""

    what: str
    detail: str


Effects = list[Publish | SnapshotPiece | PlaceOrder | ChpNoted]


NO_SELECTION: Final = (
    "it has to be selected before it is written, for which CHP has no word; what to do: albireo write, or a program "
    "that selects (docs/messages.md)"
)


class ChpServer:
    """The machine. `step` takes an event and gives the effects."""

    def __init__(self, subtrees: Sequence[bytes] = (), *, is_set_allowed: bool = False) -> None:
        """
        Args:
            subtrees: what is served; none: everything.
            is_set_allowed: a KVSET is an order; else it is refused.
        """
        self.counts: Counter[str] = Counter()
        """Numbers of snapshots, publications, orders by their outcome, and refusals by their cause."""
        self.is_live = False
        """The node is heard and has told its state."""
        self._mirror = Mirror(subtrees)
        self._answering = Answering(self._mirror)
        self._is_set_allowed = is_set_allowed
        self._orders = 0
        self._hugz_at = self._repeat_at = self._publish_at = Instant(0)
        self._noted_at: dict[str, Instant] = {}

    @property
    def keys(self) -> int:
        """Number of keys that are published."""
        return len(self._mirror.shown)

    @property
    def left_out(self) -> int:
        """Number of items that have no key (docs/chp.md)."""
        return len(self._mirror.left_out)

    @property
    def sequence(self) -> int:
        """Number of the last publication."""
        return self._mirror.sequence

    def describe(self) -> dict[str, int]:
        """Counts, for people."""
        answered = {"snapshots": self._answering.done, "snapshots_given_up": self._answering.given_up}
        return {"keys": self.keys, "left_out": self.left_out, **answered, **self.counts}

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        asked = self._answering.deadline(is_giving=self.is_live)
        if not self.is_live:
            return asked
        return soonest(asked, self._hugz_at, self._repeat_at, self._publish_at if self._mirror.due else None)

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case MirrorChanged():
                done = self._changed(event, now)
            case SourceLost():
                done = self._lost(now)
            case RequestReceived(client, parts):
                done = self._asked(client, parts, now)
            case PieceTaken(client, count, is_gone):
                self._answering.taken(client, count, is_gone=is_gone, now=now)
                done = []
            case SetReceived(parts):
                done = self._set(parts, now)
            case OrderFinished(item, outcome, detail):
                self._orders -= 1
                self.counts[f"orders_{outcome}"] += 1
                done = [ChpNoted("order", f"{item}: {outcome}{f', {detail}' if detail else ''}")]
            case TimePassed():
                done = []
            case _:
                assert_never(event)
        return [*done, *self._due(now)]

    def _changed(self, told: MirrorChanged, now: Instant) -> Effects:
        if not self.is_live and not told.is_whole:
            return []
        self._mirror.change(told.items, told.readings, told.position, is_whole=told.is_whole)
        if self.is_live:
            return []
        self.is_live, self._hugz_at, self._repeat_at = True, now, Instant(now + REPEAT_NS)
        return [ChpNoted("serving", f"{len(self._mirror.shown)} keys, sequence {self._mirror.sequence}")]

    def _lost(self, now: Instant) -> Effects:
        if not self.is_live:
            return []
        self.is_live = False
        self._answering.stop()
        return [ChpNoted("silent", "the node is not heard, so nobody is answered")]

    def _asked(self, client: bytes, parts: Sequence[Part], now: Instant) -> Effects:
        try:
            subtree = decode_request(parts)
        except DecodeError as error:
            return self._refused("request_malformed", error.reason, now)
        if not self._answering.ask(client, subtree, now):
            return self._refused("request_too_many", "too many clients wait for their snapshots", now)
        return []

    def _set(self, parts: Sequence[Part], now: Instant) -> Effects:
        """Order what a KVSET says, or refuse it. The client is told neither: the protocol has no word for it."""
        if not self._is_set_allowed:
            return self._refused("set_not_allowed", "clients may set nothing here; --allow-set lets them", now)
        try:
            told = decode(parts)
        except DecodeError as error:
            return self._refused("set_malformed", error.reason, now)
        item = self._mirror.name_of(told.key)
        if item is None or not self.is_live:
            return self._refused("set_unknown_key", f"{told.key!r} is the key of no item that is served now", now)
        if self._mirror.asks_selection(told.key):
            return self._refused("set_needs_selection", f"{item}: {NO_SELECTION}", now)
        if not told.value:
            return self._refused("set_deletes", f"{item}: an item can't be deleted", now)
        try:
            value = decode_order(told.value)
        except DecodeError as error:
            return self._refused("set_malformed", f"{item}: {error.reason}", now)
        if self._orders >= ORDERS_MAX:
            return self._refused("set_too_many", f"{item}: {ORDERS_MAX} orders are under way", now)
        self._orders += 1
        expires_s = time_to_live_s(told.properties) or EXPIRES_S
        return [PlaceOrder(item=item, value=value, command_id=told.uuid.hex(), expires_s=expires_s)]

    def _refused(self, cause: str, detail: str, now: Instant) -> Effects:
        self.counts[cause] += 1
        if now < self._noted_at.get(cause, now):
            return []
        self._noted_at[cause] = Instant(now + NOTE_NS)
        return [ChpNoted(cause, f"{detail} ({self.counts[cause]} so far)")]

    def _due(self, now: Instant) -> Effects:
        """Whatever goes to clients now."""
        if not self.is_live:
            self._answering.expire(now)
            return []
        done: Effects = []
        if now >= self._repeat_at:
            self._repeat_at = Instant(now + REPEAT_NS)
            self._mirror.repeat(-(-self.keys // ROUND))
        if self._mirror.due and now >= self._publish_at:
            self._publish_at = Instant(now + PAUSE_NS)
            commands = self._mirror.publish(PUBLISHED_MAX)
            self.counts["published"] += len(commands)
            done.append(Publish(commands))
        if now >= self._hugz_at:
            self._hugz_at = Instant(now + HUGZ_NS)
            done.append(Publish([KeyValue(key=HUGZ)]))
        return [*done, *self._answering.give(now)]
