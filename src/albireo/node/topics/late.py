"""Late begin: follows a log that begins behind what the files have.

The tables come from CORE as of some record. A first pass over the log counts the messages up to it, so that the second
one, which takes them, begins with the right numbers.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.codec.questions.topics import TOPIC_TABLES, TopicTablesTold
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import count_chunk
from albireo.model.position import Position
from albireo.runtime import Link

ASKED: Final = 1
"""Number of the question to CORE."""


class LateBegin:
    """The first pass."""

    def __init__(self, begin: Position) -> None:
        self.begin = begin
        self.told: TopicTablesTold | None = None
        self._counts: dict[int, int] = {}
        """Messages of each topic between the begin and the record of the tables."""

    def ask(self, core: Link) -> None:
        """Ask CORE, again each second: it may have ended between question and answer."""
        if self.told is None:
            core.send(Ask(request_id=ASKED, what=TOPIC_TABLES.name))

    def take(self, answer: Answer) -> None:
        self.told = msgspec.convert(answer.result, TopicTablesTold)

    def count(self, parts: Sequence[bytes | memoryview]) -> None:
        """Count what was delivered, from the begin on."""
        assert self.told is not None
        for part in parts:
            count_chunk(part, self.told.position.sequence, self._counts)

    def is_over(self, position: Position) -> bool:
        """True: everything up to the record of the tables is counted."""
        return self.told is not None and position.sequence >= self.told.position.sequence

    def restore(self, tables: TopicTables) -> int:
        """Set tables as they were at the begin, but for what they tell of records behind it; the record they are of."""
        assert self.told is not None
        tables.restore(self.told.sections)
        tables.set_back(self._counts)
        return self.told.position.sequence
