"""Parts that tests share: verdicts on a hello, and what a follower makes of each message."""

from albireo.machine.feed.leader import (
    LogFacts,
)
from albireo.model.position import EpochEntry, EpochHistory, Position

LOG = b"L" * 16


HISTORY = EpochHistory((EpochEntry(1, 1, 11), EpochEntry(2, 50, 22)))


FACTS = LogFacts(LOG, HISTORY, first_sequence=10, committed=Position(2, 100))
