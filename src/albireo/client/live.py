"""Live view: the state of a node as its feed tells it, shared by everybody who watches through one client.

    feed --FeedState--> the part: tables of items and latest readings --> an inbox for each reader

A reader who is slow is not waited for: it gets the latest value of each item, and is told how many earlier ones that
replaced. The machine is machine/feed/viewing.py.
"""

import fnmatch
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from albireo.client.engine import log
from albireo.client.errors import ClientError, session_over
from albireo.client.inbox import Inbox
from albireo.client.way import Target, Way
from albireo.codec.errors import DecodeError
from albireo.codec.message import FeedAlive, FeedAnswer, FeedData, FeedState
from albireo.machine.feed.follower import Deliver, Digested, Noted
from albireo.machine.feed.roaming import Fed
from albireo.machine.feed.viewing import Effects, StateChange, StatePieces, Viewing, decode_state
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.items.forces import FORCES
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Heard, SayTo
from albireo.model.case import Case, ItemCase
from albireo.model.instant import Instant, TimePassed
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.item_states import word_of
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.lines import LineNews

STATES_MAX: Final = 64
"""Deltas that wait for a reader of whole deltas; a slower one begins anew with a snapshot."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The latest readings and cases that changed since the last ones that were taken."""

    items: list[KnownItem] = []
    """Items that were declared, or declared anew; one that nobody declares any more says so (`is_retired`)."""
    readings: list[Reading] = []
    cases: list[ItemCase] = []
    """Cases that changed; a closed one comes once."""
    stale: dict[str, int] = {}
    """Other nodes of which nothing is heard right now, with the wall time since when, in ns; 0: never."""
    forced: frozenset[str] = frozenset()
    """Full names of all items of these nodes that are forced, whether their nodes are heard or not."""
    joined: int = 0
    """Number of readings that were replaced by later ones before they were taken."""
    is_whole: bool = False
    """True: these are all values there are, and what was known before is void: at first, and after an outage. Of a
    reader of several nodes only at first: an outage of one makes nothing void of the others."""
    is_live: bool = True
    """False: nobody who acts is heard right now, so what is known may be old; everything comes again after that. It
    brings no changes by itself: who needs to know looks with a `timeout_s`."""
    position: Position = Position()
    """Position in the log up to which this is the state."""


class Watching(Inbox[Changes]):
    """Inbox of one reader: the latest reading of each item, the latest state of each case."""

    def __init__(self, patterns: Mapping[str, Sequence[str]]) -> None:
        """`patterns`: by node below; "": of the node that is asked."""
        super().__init__()
        self._patterns = {node: tuple(some) for node, some in patterns.items()}
        self._wanted: dict[str, set[int] | None] = {
            node: None if "*" in some else set() for node, some in patterns.items()
        }
        self._items: dict[tuple[str, int], KnownItem] = {}
        """Items, and below readings and cases, by node and id."""
        self._readings: dict[tuple[str, int], Reading] = {}
        self._cases: dict[tuple[str, int], ItemCase] = {}
        self._stale: dict[str, int] = {}
        self._forced: dict[str, frozenset[str]] = {}
        """Full names of forced items, by node."""
        self._joined = 0
        self._whole: set[str] = set()
        """Nodes of which all is new since the last take."""
        self._is_begun = False
        self._position = Position()
        self._heard = dict.fromkeys(patterns, False)
        """Whether somebody who acts is heard, by node."""

    def hear(self, node: str, *, is_live: bool) -> None:
        """Take note whether what is told of a node is its present state; for the engine's thread."""
        self._heard[node] = is_live

    def put(self, node: str, told: Changes) -> None:
        """Take what is wanted of a node's changes; for the engine's thread."""
        items, readings, cases, wanted = told.items, told.readings, told.cases, self._wanted[node]
        if wanted is not None:
            wanted.update(one.item_id for one in items if matches(one, self._patterns[node]))
            items = [one for one in items if one.item_id in wanted]
            readings = [one for one in readings if one.item_id in wanted]
            cases = [one for one in cases if one.item_id in wanted]
        with self._lock:
            if told.is_whole:
                waiting = len(self._readings)
                self._items = {key: one for key, one in self._items.items() if key[0] != node}
                self._readings = {key: one for key, one in self._readings.items() if key[0] != node}
                self._cases = {key: one for key, one in self._cases.items() if key[0] != node}
                self._joined += waiting - len(self._readings)
                self._whole.add(node)
            before = len(self._readings)
            self._items.update(((node, one.item_id), one) for one in items)
            self._readings.update(((node, one.item_id), one) for one in readings)
            self._joined += before + len(readings) - len(self._readings)
            self._cases.update(((node, one.case_id), one) for one in cases)
            self._stale.pop(node, None)
            self._stale.update(told.stale)
            self._forced[node] = told.forced
            self._position = told.position
            is_empty = self._is_empty()
        if not is_empty:
            self.tell()

    def _is_empty(self) -> bool:
        if not self._is_begun:  # A reader of several nodes begins when each of them has said all.
            return self._whole != self._wanted.keys()
        return not (self._readings or self._cases or self._whole)

    def _taken(self) -> Changes:
        taken = Changes(
            items=list(self._items.values()),
            readings=list(self._readings.values()),
            cases=list(self._cases.values()),
            stale=dict(self._stale),
            forced=frozenset().union(*self._forced.values()),
            joined=self._joined,
            is_whole=self._whole == self._wanted.keys(),
            is_live=all(self._heard.values()),
            position=self._position,
        )
        self._items, self._readings, self._cases = {}, {}, {}
        self._joined, self._whole, self._is_begun = 0, set(), True
        return taken


class StateInbox(Inbox[list[StateChange]]):
    """Inbox of one reader of whole deltas, none of which may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self._states: deque[StateChange] = deque()
        self._is_begun = False
        """True: a snapshot came, and each delta since."""

    def put(self, change: StateChange) -> bool:
        """False: the reader is too slow, and what waited is gone; it needs a snapshot next."""
        with self._lock:
            fits = len(self._states) < STATES_MAX
            self._is_begun = fits and (self._is_begun or change.state.is_snapshot)
            if self._is_begun:
                self._states.append(change)
            elif not fits:
                self._states.clear()
        self.tell()
        return fits

    def _is_empty(self) -> bool:
        return not self._states

    def _taken(self) -> list[StateChange]:
        taken = list(self._states)
        self._states.clear()
        return taken


class StateView:
    """The part. All its methods run in the engine's thread."""

    def __init__(self, target: Target, name: str, node: str = "") -> None:
        """
        Args:
            name: name of the follower, unique among those of one key.
            node: node below whose state is viewed; empty: that of the node itself.
        Raises: as `Lines`.
        """
        self.lines = Way(target)
        self._node = node
        self._machine = Viewing(name, SeekConfig(), boot_ns(), node)
        self._pieces = StatePieces()
        self._items: dict[int, KnownItem] = {}
        self._named: dict[int, tuple[str, DataItem]] = {}
        """Full name and declaration, by item id."""
        self._readings: dict[int, Reading] = {}
        self._cases: dict[int, ItemCase] = {}
        """Open cases by case id."""
        self._stale: dict[str, int] = {}
        """The node, and since when nothing is heard of it; empty: it is heard."""
        self._forced: frozenset[str] = frozenset()
        """Full names of the forced items."""
        self._position = Position()
        self._is_known = False
        """True: a snapshot was taken."""
        self._is_live = False
        """True: what was taken is the state of a member that acts and is heard."""
        self._watching: list[Watching] = []
        self._states: list[StateInbox] = []

    def watch(self, reader: Watching) -> None:
        """Give this reader everything, and then each change."""
        reader.hear(self._node, is_live=self._is_live)
        if self._is_known:
            reader.put(
                self._node,
                Changes(
                    items=list(self._items.values()),
                    readings=list(self._readings.values()),
                    cases=list(self._cases.values()),
                    stale=self._stale,
                    forced=self._forced,
                    position=self._position,
                    is_whole=True,
                ),
            )
        self._watching.append(reader)

    def follow(self, reader: StateInbox) -> None:
        """Give this reader whole deltas, beginning with a snapshot."""
        self._states.append(reader)
        self._perform(self._machine.restart(boot_ns()), ())

    def leave(self, reader: Watching | StateInbox) -> None:
        self._watching = [one for one in self._watching if one is not reader]
        self._states = [one for one in self._states if one is not reader]

    # For the engine.

    def deadline(self) -> Instant | None:
        return self._machine.deadline()

    def heard(self, news: LineNews, now: Instant) -> None:
        message = news.message
        if news.is_up is not None:
            self._perform(self._machine.step((LineUp if news.is_up else LineDown)(news.line), now), ())
        elif isinstance(message, FeedAnswer | FeedData | FeedState | FeedAlive):
            if isinstance(message, FeedAnswer) and (over := session_over("watch", message)) is not None:
                self.ended(over)
            size_bytes = sum(len(part) for part in news.raw)
            self._perform(self._machine.step(Fed(news.line, message, size_bytes), now), news.raw)
        elif message is not None:
            self._perform(self._machine.step(Heard(news.line, message), now), ())

    def ticked(self, now: Instant) -> None:
        self._perform(self._machine.step(TimePassed(), now), ())

    def ended(self, error: ClientError) -> None:
        for watching in self._watching:
            watching.fail(error)
        for states in self._states:
            states.fail(error)

    def _perform(self, effects: Effects, raw: Sequence[bytes | memoryview]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message):
                    self.lines.send(member, message)
                case Deliver(FeedState() as state):
                    self._delivered(state, raw)
                case Noted(event, detail):
                    log.info("live view: %s %s", event, detail)
                case _:
                    pass
        self._hear(is_live=self._is_live and self._machine.is_following)

    def _hear(self, *, is_live: bool) -> None:
        """Tell the readers whether what they have is the present state."""
        self._is_live = is_live
        for watching in self._watching:
            watching.hear(self._node, is_live=is_live)

    def _delivered(self, state: FeedState, raw: Sequence[bytes | memoryview]) -> None:
        try:
            piece = decode_state(state, raw)
        except DecodeError as error:
            log.warning("live view: a delta can't be read, so it begins anew: %s", error)
            self._perform(self._machine.restart(boot_ns()), ())
            return
        for fault in piece.tables.faults:
            log.warning("live view: rows can't be read, so they are not shown: %s", fault)
        whole = self._pieces.add(piece)
        if whole is None:
            self._perform(self._machine.step(Digested(state.position), boot_ns()), ())
            return
        state = whole.state
        readings, cases = self._taken(whole)
        self._hear(is_live=True)
        told = Changes(
            items=list(state.items),
            readings=readings,
            cases=cases,
            stale=self._stale,
            forced=self._forced,
            position=state.position,
            is_whole=state.is_snapshot,
        )
        for watching in self._watching:
            watching.put(self._node, told)
        are_kept = [one.put(whole) for one in self._states]
        self._perform(self._machine.step(Digested(state.position), boot_ns()), ())
        if not all(are_kept):
            self._perform(self._machine.restart(boot_ns()), ())

    def _taken(self, told: StateChange) -> tuple[list[Reading], list[ItemCase]]:
        """Take the delta into the tables; the readings and cases in it."""
        state = told.state
        if state.is_snapshot:
            self._items.clear()
            self._named.clear()
            self._readings.clear()
            self._cases.clear()
            self._forced = frozenset()
            self._is_known = True
        self._position = state.position
        self._stale = {} if state.stale_since_ns is None else {self._node: state.stale_since_ns}
        for known in state.items:
            self._items[known.item_id] = known
            self._named[known.item_id] = (known.full_name, known.item)
        forces = told.tables.of(FORCES)
        if forces.rows or forces.gone:
            begun = {self._named[one.item_id][0] for one in forces.rows if one.item_id in self._named}
            ended = {self._named[one][0] for one in forces.gone if one in self._named}
            self._forced = (self._forced | begun) - ended
        found = told.tables.of(CASES)
        cases = [self._named_case(case) for case in found.rows]
        for case_id in found.gone:
            self._cases.pop(case_id, None)
        for case in cases:
            if case.lifecycle_status == "closed":
                self._cases.pop(case.case_id, None)
            else:
                self._cases[case.case_id] = case
        without_value = frozenset(state.without_value)
        readings = [one for batch in told.batches for one in self._read(batch, without_value)]
        self._readings.update((one.item_id, one) for one in readings)
        return readings, cases

    def _named_case(self, case: Case) -> ItemCase:
        known = self._named.get(case.item_id)
        return ItemCase(**msgspec.structs.asdict(case), item="" if known is None else known[0])

    def _read(self, batch: SampleBatch, without_value: frozenset[int]) -> list[Reading]:
        named = self._named
        rows = zip(
            batch.item_id.tolist(),
            batch.values(),
            batch.quality.tolist(),
            batch.source_ns.tolist(),
            batch.node_ns.tolist(),
            strict=True,
        )
        return [
            Reading(
                item_id=item_id,
                name=named[item_id][0],
                value=None if item_id in without_value else value,
                quality=quality,
                source_ns=source_ns,
                node_ns=node_ns,
                unit=named[item_id][1].unit,
                word=word_of(named[item_id][1].states, value),
            )
            for item_id, value, quality, source_ns, node_ns in rows
            if item_id in named
        ]


def matches(known: KnownItem, patterns: Sequence[str]) -> bool:
    """The full or the local name of the item is one of these, or fits a pattern with * and ?."""
    names = known.full_name, known.item.name
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)
