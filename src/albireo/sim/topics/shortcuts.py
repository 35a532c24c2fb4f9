"""Rules of topics left out one by one, to show that the world would notice. None of them is reachable from a node."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from albireo.codec.message import FeedHello
from albireo.codec.puts import PutHead
from albireo.machine.fold.topics.keys import TopicKeys
from albireo.machine.fold.topics.subscriptions import Cursors
from albireo.machine.topics import fetching, tail
from albireo.machine.topics.consumer import Consumer
from albireo.machine.topics.dead_letters import DeadLetters
from albireo.machine.topics.serving import Serving
from albireo.machine.topics.serving_effects import RecordMoves
from albireo.machine.topics.settling import Settling
from albireo.machine.topics.shared_messages import SharedMessages
from albireo.machine.topics.shared_serving import SharedServing
from albireo.model.position import BEGINNING
from albireo.model.topic import Cursor
from albireo.sim.engine.stage import first_caught, taken
from albireo.sim.topics.log import TopicsCore
from albireo.sim.topics.member import SimMember
from albireo.sim.topics.world import TopicsWorld

SEEDS_PER_SHORTCUT: Final = 50


def _cursor_told_early(real: Any) -> Any:
    def record(self: Serving) -> Any:
        effects = real(self)
        early = [one for each in effects if isinstance(each, RecordMoves) for one in self.recorded(each.batch)]
        return [*effects, *early]

    return record


def _fold_without(real: Any, field: str) -> Any:
    """Leave this part of a batch that has messages, too, out of the fold: half a transaction."""

    def fold(self: Any, record: Any, sequence: int, header: Any) -> None:
        if isinstance(record, PutHead) and record.runs:
            record = msgspec.structs.replace(record, **{field: ()})
        real(self, record, sequence, header)

    return fold


def _sees_puts_before(real: Any) -> Any:
    def put(self: Cursors, subscription_id: int, topic_id: int, low: int, sequence: int) -> None:
        real(self, subscription_id, topic_id, max(0, low - 1), sequence)

    return put


def _any_hello(real: Any) -> Any:
    def hello(self: Serving, place: Any, asked: FeedHello, *others: Any) -> Any:
        return real(self, place, msgspec.structs.replace(asked, not_before=BEGINNING), *others)

    return hello


def _begins_unlevel(_: Any) -> Any:
    return lambda self: True


def _without_pending(real: Any) -> Any:
    def judged(self: Any, *arguments: Any, **named: Any) -> Any:
        pending, self._pending = self._pending, {}
        try:
            return real(self, *arguments, **named)
        finally:
            self._pending = pending

    return judged


def _off_by_one(real: Any) -> Any:
    """Numbers of a chunk are counted from one too many where it begins with a message."""

    def read(runs: Any, header: Any, body: Any, begin: int, tables: Any, known_to: int) -> None:
        real(runs, header, body, begin, tables, known_to)
        if runs.rows and header.first_sequence % 7 == 0:
            runs.rows[0] = (runs.rows[0][0], runs.rows[0][1] + 1, *runs.rows[0][2:])

    return read


def _forgets_holds(real: Any) -> Any:
    return lambda self, asked: real(self, msgspec.structs.replace(asked, holds={}))


def _gives_twice(real: Any) -> Any:
    def serve(self: SharedServing, subscription_id: int) -> Any:
        self._giving.discard(subscription_id)
        return real(self, subscription_id)

    return serve


def _settled_early(_: Any) -> Any:
    return lambda self, settled: True


def _never_over(_: Any) -> Any:
    """A lease that is over counts as one that goes on, where it is given anew."""
    return lambda self, now_ms: msgspec.structs.replace(
        self, leases=tuple(msgspec.structs.replace(one, consumer=0, until_ms=0) for one in self.leases)
    )


def _delivers_again(real: Any) -> Any:
    def begins(self: Any) -> Any:
        self.delivered = BEGINNING
        return real(self)

    return begins


def _two_dead(real: Any) -> Any:
    """Dead letters are put, and not done where they were."""

    def letters(self: DeadLetters, subscription_id: int, messages: Any) -> Any:
        found = real(self, subscription_id, messages)
        return [msgspec.structs.replace(one, move=msgspec.structs.replace(one.move, done=())) for one in found]

    return letters


def _silent_gap(_: Any) -> Any:
    def skip(self: Consumer, topic_id: int, gone: int) -> None:
        self.wanted[topic_id] = gone

    return skip


def _unflagged(_: Any) -> Any:
    return lambda self, messages: np.zeros(len(messages), np.uint8)


def _keeps_consumers(_: Any) -> Any:
    """Consumers are not sent on when another member leads: they stay, and hear nothing."""

    def stands_by(self: Serving) -> Sequence[Any]:
        self._moved.clear()
        self._unsaid.clear()
        self._under_way.clear()
        return []

    return stands_by


def _dedup_forgotten(real: Any) -> Any:
    def append(self: Any, producer: str, number: int, *others: Any) -> Any:
        if number == self._numbers.get(producer):
            self._numbers[producer] = number - 1
        return real(self, producer, number, *others)

    return append


def _acknowledges_given(real: Any) -> Any:
    """A cursor moves over all that was given, whatever of it is acknowledged."""

    def takes(self: Consumer) -> dict[int, int]:
        moved: dict[int, int] = real(self)
        for one in self.given if moved else ():
            moved.update(one.lasts)
        return moved

    return takes


Change = tuple[Any, str, Callable[[Any], Any]]
TOPIC_SHORTCUTS: Final[Mapping[str, Change]] = {
    "cursor told before its commit": (Serving, "_record", _cursor_told_early),
    "half a transaction: messages without the cursor": (Cursors, "fold", lambda real: _fold_without(real, "moves")),
    "subscription gets a message put before it": (Cursors, "_put", _sees_puts_before),
    "served before the place is reached that a consumer names": (Serving, "hello", _any_hello),
    "served before the tables are level": (SimMember, "_is_level", _begins_unlevel),
    "transactions judged by what is folded only": (Cursors, "conflict", _without_pending),
    "versions of keys judged by what is folded only": (TopicKeys, "objection", _without_pending),
    "number off by one": (tail, "_read_puts", _off_by_one),
    "holds forgotten": (SharedMessages, "owed", _forgets_holds),
    "leases given twice at once": (SharedServing, "_serve", _gives_twice),
    "settled before it is folded": (Settling, "_is_folded", _settled_early),
    "all leases over with the first": (Cursor, "at", _never_over),
    "delivered again on a new line": (fetching._Consumer, "begins", _delivers_again),
    "dead letter not done where it was": (DeadLetters, "letters", _two_dead),
    "gap of a policy not told": (Consumer, "skip", _silent_gap),
    "redelivery not marked": (Consumer, "flags_of", _unflagged),
    "consumers not sent on": (Serving, "stands_by", _keeps_consumers),
    "batch taken twice": (TopicsCore, "append", _dedup_forgotten),
    "cursor moved over what is given": (Consumer, "takes", _acknowledges_given),
}
"""Rule that each leaves out: a class or module, the name of a function of it, and what takes its place."""


def catch(name: str, seeds: range) -> tuple[int, str] | None:
    """The first of these seeds whose world notices the shortcut, and what it saw."""
    owner, attribute, change = TOPIC_SHORTCUTS[name]
    with taken((owner, attribute, change(owner.__dict__[attribute]))):
        return first_caught(lambda seed: TopicsWorld(seed).play(), seeds)
