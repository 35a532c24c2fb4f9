"""A node that does not serve records nothing of the nodes below, and goes on where its copy ends once it serves."""

import pytest

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, RoleAsked, RoleTold
from albireo.codec.record import Kind
from albireo.codec.tree.hello import ChildHello
from albireo.codec.tree.letters import OutcomeHeard
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import Event, HandoverBegun, Served, Suspended
from albireo.model.instant import MS, Instant, TimePassed
from albireo.model.position import Position
from albireo.model.tree.message import Life, MessageName
from albireo.model.tree.nodes import ChildConfig
from tests.parts.copier import SITE, SITE_LOG, SiteLog
from tests.parts.root_roles import LOG, Side

STATE, BULK = b"state", b"bulk"


class Above(Side):
    """A node that serves and follows the log of a site."""

    def __init__(self) -> None:
        super().__init__(RootConfig(node="root", log_id=LOG, children=(ChildConfig(node=SITE, places=(SITE,)),)))
        self.site = SiteLog(SITE_LOG)
        self.lead()
        self.step(TimePassed())
        self.hear_site()

    def hear_site(self) -> None:
        for link, is_bulk in ((STATE, False), (BULK, True)):
            self.letter(ChildHello(node=SITE, log_id=SITE_LOG, feature_level=1, is_bulk=is_bulk), sender=link)
        self.letter(RoleTold(is_acting=True, epoch=1, member=0), sender=STATE)

    def resume(self, link: bytes = BULK) -> Position:
        """Answer the newest hello for the log; returns the position that it asks from."""
        asked = [one for one in self.take(FeedHello) if isinstance(one, FeedHello) and one.mode == "log"][-1]
        answer = FeedAnswer(verdict="resume", position=asked.position, log_id=SITE_LOG)
        self.letter(answer, sender=link)
        return asked.position

    def give(self) -> None:
        """Have the site send one more frame of its log."""
        before = Position(1, self.site.end) if self.site.end else Position()
        frame = self.site.frame()
        last = Position(1, self.site.end)
        self.letter(FeedData(epoch=1, first=last, last=last, previous=before), [frame], sender=BULK)

    def acknowledged(self, link: bytes = BULK) -> Position:
        """Position up to which the site is told that its records are safe here."""
        self.take(FeedAck)
        end = Position(1, self.site.end)
        self.letter(FeedAlive(1, True, end, end, sent=end, scanned=end.sequence), sender=link)
        (ack,) = self.take(FeedAck)
        assert isinstance(ack, FeedAck)
        return ack.durable

    @property
    def envelopes(self) -> int:
        return sum(one.header.kind == Kind.ENVELOPE for one in self.frames)


@pytest.mark.parametrize("ended", [HandoverBegun("switchover"), Suspended("the lease is over")])
def test_nothing_of_a_site_is_recorded_while_this_node_does_not_serve(ended: Event) -> None:
    above = Above()
    assert above.resume() == Position()
    above.give()
    assert above.envelopes == 1
    above.commit()
    above.step(ended)
    appended = len(above.frames)
    above.give()
    assert len(above.frames) == appended, "appended although this node may not"


def test_a_link_for_the_log_is_not_silent_while_nothing_is_followed_on_it() -> None:
    above = Above()
    above.take(RoleAsked)
    hello = ChildHello(node=SITE, log_id=SITE_LOG, feature_level=1, is_bulk=True)
    above.letter(hello, sender=BULK)
    assert not above.take(RoleAsked), "said more than the feed, which keeps the link alive by itself"
    above.step(Suspended("the lease is over"))
    above.letter(hello, sender=BULK)
    assert above.take(RoleAsked), "the site takes a link that is silent for lost, and dials it anew for ever"


def test_a_site_is_followed_on_from_the_end_of_its_copy_once_this_node_serves_again() -> None:
    above = Above()
    above.resume()
    above.give()
    above.commit()
    above.step(Suspended("the lease is over"))
    above.give()
    above.step(Served())
    above.step(TimePassed())
    assert above.resume() == Position(1, 1), "not asked again from the end of the copy"


def test_what_is_not_committed_is_not_acknowledged_on_a_new_link_either() -> None:
    above = Above()
    above.resume()
    above.give()
    above.commit()
    above.give()
    assert above.acknowledged() == Position(1, 1)
    above.letter(ChildHello(node=SITE, log_id=SITE_LOG, feature_level=1, is_bulk=True), sender=b"new")
    assert above.resume(b"new") == Position(1, 2)
    assert above.acknowledged(b"new") == Position(1, 1), "the site may let go of what could still be lost here"


def test_a_letter_that_comes_while_this_node_stands_by_leaves_it_at_rest() -> None:
    """Found by the simulated tree: turn after turn was due, to tell a site what a node on standby does not tell."""
    above = Above()
    above.step(Suspended("the lease is over"))
    above.letter(ChildHello(node=SITE, log_id=SITE_LOG, feature_level=1), sender=b"anew")
    above.letter(RoleTold(is_acting=True, epoch=1, member=0), sender=b"anew")
    above.now = Instant(above.now + 10 * MS)
    name = MessageName(origin=SITE, owner="root", life=Life(1, 1), number=1)
    above.letter(OutcomeHeard(name=name, low=1, since=0), sender=b"anew")
    above.step(TimePassed())
    assert above.root.deadline() > above.now
