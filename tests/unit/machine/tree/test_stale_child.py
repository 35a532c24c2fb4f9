"""A member of a pair below that was taken over, and does not know it yet: nothing that it says counts above."""

import copy

import pytest

from albireo.codec.message import AnyMessage, FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, RoleTold
from albireo.codec.record import Kind
from albireo.codec.tree.hello import ChildHello
from albireo.codec.tree.letters import AcceptedSaid, OutcomeSaid
from albireo.machine.kernel.config import RootConfig
from albireo.model.instant import TimePassed
from albireo.model.position import Position
from albireo.model.tree.message import Life, MessageName, MessageOutcome
from albireo.model.tree.nodes import ChildConfig
from tests.parts.copier import SITE, SITE_LOG, SiteLog
from tests.parts.root_roles import LOG, Side

STATE, BULK = (b"state 0", b"state 1"), (b"bulk 0", b"bulk 1")
NAME = MessageName(origin="root", life=Life(1, 7), owner=SITE, number=1)


class AboveAPair(Side):
    """A node that serves, above a pair whose member 1 took over from member 0."""

    def __init__(self) -> None:
        places = (f"{SITE}[primary]", f"{SITE}[backup]")
        super().__init__(RootConfig(node="root", log_id=LOG, children=(ChildConfig(node=SITE, places=places),)))
        self.log = SiteLog(SITE_LOG)
        self.lead()
        self.step(TimePassed())
        for member in range(2):
            for link, is_bulk in ((STATE[member], False), (BULK[member], True)):
                hello = ChildHello(node=SITE, log_id=SITE_LOG, feature_level=1, member=member, is_bulk=is_bulk)
                self.letter(hello, sender=link)
        self.acts(0, epoch=1)
        self.give(0, self.log)
        self.stale_log = copy.copy(self.log)
        self.acts(1, epoch=2)
        self.log.epoch = 2

    def acts(self, member: int, epoch: int) -> None:
        """This member says that it acts, and lets its log be followed."""
        self.letter(RoleTold(is_acting=True, epoch=epoch, member=member), sender=STATE[member])
        asked = [one for one in self.take(FeedHello) if isinstance(one, FeedHello) and one.mode == "log"][-1]
        self.letter(FeedAnswer(verdict="resume", position=asked.position, log_id=SITE_LOG), sender=BULK[member])

    def give(self, member: int, log: SiteLog) -> None:
        """This member sends one more frame of its log."""
        before = Position(1, log.end) if log.end else Position()
        frame = log.frame()
        last = Position(log.epoch, log.end)
        self.letter(FeedData(epoch=log.epoch, first=last, last=last, previous=before), [frame], sender=BULK[member])
        self.commit()

    @property
    def envelopes(self) -> int:
        return sum(one.header.kind == Kind.ENVELOPE for one in self.frames)


def test_its_records_are_not_taken_and_not_acknowledged() -> None:
    above = AboveAPair()
    above.take(FeedAck)
    above.give(0, above.stale_log)
    end = Position(1, above.stale_log.end)
    above.letter(FeedAlive(1, True, end, end, sent=end, scanned=end.sequence), sender=BULK[0])
    assert above.envelopes == 1, "a frame that only the stale member has is on record above"
    assert not above.take(FeedAck)
    above.give(1, above.log)
    assert above.envelopes == 2, "the member that acts is not heard any more"


def test_its_word_that_it_acts_moves_nobody() -> None:
    above = AboveAPair()
    above.letter(RoleTold(is_acting=True, epoch=1, member=0), sender=STATE[0])
    above.step(TimePassed())
    assert not above.take(FeedHello)
    above.give(1, above.log)
    assert above.envelopes == 2


@pytest.mark.parametrize(
    "letter",
    [
        OutcomeSaid(name=NAME, life=Life(1, 1), guid="g", outcome=MessageOutcome.VERIFIED),
        AcceptedSaid(name=NAME, life=Life(1, 1), guid="g"),
    ],
)
def test_what_it_says_of_an_order_is_not_heard(letter: AnyMessage) -> None:
    above = AboveAPair()
    above.step(TimePassed())
    above.letter(letter, sender=STATE[0])
    assert above.root.tree.post.not_theirs == 1
    above.letter(letter, sender=STATE[1])
    assert above.root.tree.post.not_theirs == 1
