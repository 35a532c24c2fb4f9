"""Tables of topics as the actor `topics` has them: the folds of CORE, fed with the same records in the same order."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.frame import FrameHeader
from albireo.codec.puts import PutHead
from albireo.codec.record import Record
from albireo.machine.fold.topics.keys import TopicKeys
from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import F, TableFold

FOLDS: Final[tuple[type[TableFold[Any, Any]], ...]] = (Topics, Subscriptions, Cursors, TopicKeys)


class KeptMessages(msgspec.Struct, frozen=True, eq=False):
    """Which messages of topics are kept."""

    floors: dict[int, int]
    """Number of each topic up to which no message is kept any more."""
    lasts: dict[int, NDArray[np.uint64]] = {}
    """Numbers that are kept of topics of which the last message of each key is, rising."""


class TopicTables:
    """Topics, subscriptions and cursors as of one position."""

    def __init__(self) -> None:
        self._folds: dict[type[TableFold[Any, Any]], TableFold[Any, Any]] = {one: one() for one in FOLDS}
        for one in self._folds.values():
            one.among(self)
        self.log_time_ms = 0
        self.topics = self.of(Topics)
        self.subscriptions = self.of(Subscriptions)
        self.cursors = self.of(Cursors)
        self.keys = self.of(TopicKeys)

    def of(self, which: type[F]) -> F:
        """The fold of a table."""
        found = self._folds[which]
        assert isinstance(found, which)
        return found

    def fold(self, record: Record | PutHead, sequence: int, header: FrameHeader) -> bool:
        """Fold one record; True: it is one that these tables know."""
        is_known = False
        for fold in self._folds.values():
            if isinstance(record, fold.records):
                fold.fold(record, sequence, header)
                is_known = True
        return is_known

    def time_passed(self, header: FrameHeader) -> None:
        """Log time goes on with this frame, whatever it holds."""
        self.log_time_ms = header.log_time_ms
        self.topics.let_go(header.log_time_ms, header.last_sequence)
        self.cursors.let_go(header.log_time_ms, header.last_sequence)

    def kept(self) -> "KeptMessages":
        """Which messages are kept, as of now."""
        lasts = {one.topic_id: self.keys.numbers(one.topic_id) for one in self.topics if one.policy.last_value}
        return KeptMessages(self._floors(), lasts)

    def _floors(self) -> dict[int, int]:
        read = {one.topic_id: one.count for one in self.topics}
        for cursor in self.cursors:
            read[cursor.topic_id] = min(read[cursor.topic_id], cursor.low)
        return {one.topic_id: one.kept_from(read[one.topic_id], self.log_time_ms) for one in self.topics}

    def set_back(self, counts: Mapping[int, int]) -> None:
        """Take so many messages from the count of each topic."""
        for one in list(self.topics):
            if one.topic_id in counts:
                count = one.count - counts[one.topic_id]
                self.topics.table.put(msgspec.structs.replace(one, count=count, marks=()), 0)

    def snapshot(self) -> dict[str, bytes]:
        """The tables by name."""
        return {which.shape.name: fold.table.snapshot() for which, fold in self._folds.items()}

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Take a snapshot, into tables that have folded nothing.

        Raises:
            DecodeError: it is none of these tables.
        """
        for which, fold in self._folds.items():
            fold.restore(sections.get(which.shape.name, b""))
