"""What an owner is told of many inboxes for which nobody asks."""

import random

from albireo.codec.tree.letters import BodyAsked, MessageTold
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.message.events import MessageLimits, MessageTimes, SendLetter
from albireo.machine.message.owner import OwnerSide
from albireo.model.instant import Instant, LogTime, WallTime
from albireo.model.tree.message import Life, MessageName

LIFE = Life(1, 1)
TIMES = MessageTimes(Instant(0), LogTime(0), WallTime(0))


class Counting(OwnerSide):
    """An owner that counts how often it looks for room."""

    looked = 0

    def _has_room(self, inbox: str, size: int) -> bool:
        self.looked += 1
        return super()._has_room(inbox, size)


def told(owner: OwnerSide, number: int, inbox: str) -> list[str]:
    """Tell of a message; the inboxes of those that are fetched then."""
    name = MessageName("root/north", "root", LIFE, number, inbox)
    effects = owner.heard(MessageTold(name=name, low=1, since=1, size=10), TIMES)
    letters = [one.letter for one in effects if isinstance(one, SendLetter)]
    return [one.name.inbox for one in letters if isinstance(one, BodyAsked)]


def test_a_letter_costs_no_look_at_each_inbox_that_nobody_asks_for() -> None:
    owner = Counting("root", InboxFold(), lambda: LIFE, random.Random(1), MessageLimits())
    owner.wants({"files": 2}, TIMES)
    for number in range(1, 1_001):
        assert told(owner, number, f"talk-{number}") == []
    owner.looked = 0
    assert told(owner, 2_000, "files") == ["files"]
    assert owner.looked <= 2
