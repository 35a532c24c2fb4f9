"""Settling: what consumers of shared subscriptions say of messages, until it is on record.

said --leases are on their way--> waits --judged by the tables--> recorded --folded--> answered
"""

from collections.abc import Sequence, Set

import msgspec

from albireo.codec.puts import MOVES_MAX, CursorMoved, LeaseMoved, LeaseStep
from albireo.codec.sharing import TopicSettle, TopicSettled
from albireo.machine.topics.shared_effects import AnswerTo, AskPlace, RecordShared, answered
from albireo.machine.topics.tables import TopicTables
from albireo.model.topic_lease import NOBODY, Range, joined, spans, without


class _Settled(msgspec.Struct):
    """An answer that waits until what it tells is folded."""

    place: AskPlace
    told: TopicSettled
    moves: Sequence[CursorMoved]
    leases: list[LeaseMoved]
    """Changes of leases that are not folded yet."""


class Settling:
    """Words of consumers that are not answered."""

    def __init__(self, tables: TopicTables) -> None:
        self._tables = tables
        self._settles: list[tuple[AskPlace, TopicSettle]] = []
        self._settled: list[_Settled] = []

    def __len__(self) -> int:
        return len(self._settles) + len(self._settled)

    @property
    def is_due(self) -> bool:
        """True: something was said that is not on its way."""
        return bool(self._settles)

    def add(self, place: AskPlace, asked: TopicSettle) -> None:
        self._settles.append((place, asked))

    def clear(self) -> list[AskPlace]:
        """Forget everything; who is not answered."""
        waiting = [place for place, _ in self._settles] + [one.place for one in self._settled]
        self._settles, self._settled = [], []
        return waiting

    def folded(self, leases: Sequence[LeaseMoved]) -> list[AnswerTo]:
        """Answers of which everything is folded, now that these changes are."""
        for settled in self._settled:
            settled.leases = [one for one in settled.leases if one not in leases]
        folded = [one for one in self._settled if self._is_folded(one)]
        self._settled = [one for one in self._settled if one not in folded]
        return [answered(one.place, msgspec.to_builtins(one.told)) for one in folded]

    def settle(self, giving: Set[int]) -> list[RecordShared | AnswerTo]:
        """Have recorded what consumers said, but for subscriptions of which leases are on their way."""
        later = [one for one in self._settles if one[1].subscription_id in giving]
        moves: list[CursorMoved] = []
        leases: list[LeaseMoved] = []
        effects: list[RecordShared | AnswerTo] = []
        for place, asked in self._settles:
            if asked.subscription_id in giving:
                continue
            done, changes, over = self._judged(asked)
            if len(moves) + len(done) > MOVES_MAX or len(leases) + len(changes) > MOVES_MAX:
                effects.append(RecordShared(tuple(moves), tuple(leases)))
                moves, leases = [], []
            moves += done
            leases += changes
            self._settled.append(_Settled(place, TopicSettled(over=over), done, changes))
        self._settles = later
        if moves or leases:
            effects.append(RecordShared(tuple(moves), tuple(leases)))
        ready = [one for one in self._settled if not one.moves and not one.leases]
        self._settled = [one for one in self._settled if one.moves or one.leases]
        answers = (answered(one.place, msgspec.to_builtins(one.told)) for one in ready)
        return [*effects, *answers]

    def _is_folded(self, settled: _Settled) -> bool:
        """True: the tables have what a consumer said."""
        for move in settled.moves:
            cursor = self._tables.cursors.of(move.subscription_id, move.topic_id)
            if cursor is not None and without([(0, move.low), *move.done], [(0, cursor.low), *cursor.done]):
                return False
        return not settled.leases

    def _judged(self, asked: TopicSettle) -> tuple[list[CursorMoved], list[LeaseMoved], dict[int, tuple[Range, ...]]]:
        """Changes that are to be recorded of what a consumer says, and messages of which nothing is."""
        moves: list[CursorMoved] = []
        leases: list[LeaseMoved] = []
        over: dict[int, tuple[Range, ...]] = {}
        subscription_id, consumer = asked.subscription_id, asked.consumer
        topics = {*asked.done, *asked.lows, *asked.given_back, *asked.extended}
        if asked.is_leaving:
            topics |= self._tables.cursors.topics_of(subscription_id)
        for topic_id in sorted(topics):
            cursor, topic = self._tables.cursors.of(subscription_id, topic_id), self._tables.topics.find(topic_id)
            if cursor is None or topic is None:
                continue  # Whoever asks for more hears that it is gone.
            own = joined(spans(one for one in cursor.leases if one.consumer == consumer))
            free = joined([*own, *spans(one for one in cursor.leases if one.consumer == NOBODY)])
            done = joined(asked.done.get(topic_id, ()))
            late = without(done, joined([*free, (0, cursor.low), *cursor.done]))
            done = without(without(done, late), joined([(0, cursor.low), *cursor.done]))
            low = min(asked.lows.get(topic_id, 0), topic.gone)
            if done or low > cursor.low:
                moves.append(CursorMoved(subscription_id, topic_id, low, tuple(done)))
            failed, kept = (joined(one.get(topic_id, ())) for one in (asked.given_back, asked.extended))
            rest = without(own, joined([*done, *failed, *kept])) if asked.is_leaving else []
            for wanted, step in (
                (failed, LeaseStep.GIVEN_BACK),
                (rest, LeaseStep.RELEASED),
                (kept, LeaseStep.EXTENDED),
            ):
                ranges = without(wanted, without(wanted, own))
                late = joined([*late, *without(wanted, own)])
                if ranges:
                    leases.append(LeaseMoved(subscription_id, topic_id, tuple(ranges), consumer, step))
            if late:
                over[topic_id] = tuple(late)
        return moves, leases, over
