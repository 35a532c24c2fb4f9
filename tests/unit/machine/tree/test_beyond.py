"""What a node follows of its parent, and what its parent gives it: never the node's own subtree."""

import msgspec
import pytest

from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedHello, FeedState, RoleAsked, RoleTold
from albireo.codec.tree.hello import ParentHello
from albireo.machine.kernel.config import RootConfig
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.machine.tree.mirror import HISTORY
from albireo.model import quality as q
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING, EpochEntry, Position
from albireo.model.tree.nodes import ChildConfig
from albireo.model.value import ItemId
from tests.parts.beyond import RUN, state_of
from tests.parts.root_roles import LOG, Side

SITE, ABOVE, OTHER = "root/site", "root", "root/other"


class Site(Side):
    """A node that wants the states of its parent, a pair, and of a sibling."""

    def __init__(self) -> None:
        super().__init__(RootConfig(node=SITE, log_id=LOG, parent=ABOVE, beyond=(ABOVE, OTHER)))
        self.lead()

    def hear(self, member: int, epoch: int, *, is_acting: bool = True) -> None:
        self.letter(ParentHello(node=ABOVE, member=member), sender=PARENT_LINES[member])
        told = RoleTold(is_acting=is_acting, epoch=epoch, member=member)
        self.letter(told, sender=PARENT_LINES[member])

    def hellos(self) -> list[FeedHello]:
        return [one for one in self.take(FeedHello) if isinstance(one, FeedHello)]

    def give(
        self, member: int, state: tuple[FeedState, list[bytes]], verdict: str = "snapshot", run: bytes = RUN
    ) -> None:
        """The parent's member answers the hello for the sibling, and tells this state of it."""
        answer = FeedAnswer(verdict=verdict, log_id=run, history=HISTORY.entries, position=state[0].previous, channel=1)
        self.letter(answer, sender=PARENT_LINES[member])
        self.letter(state[0], state[1], sender=PARENT_LINES[member])

    def shown(self) -> tuple[object, int, int | None]:
        """Value and quality of the sibling's item, and since when that node is stale."""
        mirror = self.root.tree.all_mirrors[OTHER]
        index = mirror.dim.index_of(ItemId(1))
        assert index is not None
        reading = mirror.dim.reading_at(index)
        return reading.value, reading.quality, mirror.stale_since_ns

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now = Instant(self.now + SECOND)
            self.step(TimePassed())


def test_it_asks_the_member_that_acts_for_the_parents_own_state_and_for_each_other_node() -> None:
    site = Site()
    site.hear(1, 4, is_acting=False)
    assert not site.hellos()
    assert site.take(RoleAsked)
    site.hear(0, 4)
    asked = site.hellos()
    assert [(one.of, one.channel, one.mode, one.follower) for one in asked] == [
        ("", 0, "state", SITE),
        (OTHER, 1, "state", SITE),
    ]
    site.give(1, state_of(OTHER, 9, 1.0))
    assert not len(site.root.tree.all_mirrors[OTHER].dim), "what a member says that does not act is taken"
    site.give(0, state_of(OTHER, 9, 1.0))
    assert site.shown() == (1.0, q.GOOD, None)
    assert site.take(FeedAck)


def test_a_parent_whose_other_member_acts_is_asked_there_and_nothing_looks_live_meanwhile() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(OTHER, 9, 1.0))
    site.hear(0, 5, is_acting=False)
    value, quality, since = site.shown()
    assert (value, quality) == (1.0, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE)
    assert since
    site.hellos()
    site.hear(1, 5)
    assert [one.of for one in site.hellos()] == ["", OTHER]
    site.give(1, state_of(OTHER, 3, 2.0), run=b"S" * 16)
    assert site.shown() == (2.0, q.GOOD, None)


def test_a_parent_that_says_nothing_for_three_seconds_leaves_nothing_looking_live() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(OTHER, 9, 1.0))
    site.pass_time(2)
    assert site.shown()[1] == q.GOOD
    site.pass_time(1)
    assert site.shown()[1] == q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE


def test_a_node_that_the_parent_hears_no_more_is_stale_since_the_parent_says() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(OTHER, 9, 1.0, stale_since_ns=77))
    assert site.shown()[2] == 77
    site.hear(0, 5, is_acting=False)
    assert site.shown()[2] == 77, "the parent is away as well, and the node still since then"


def test_what_changed_alone_follows_on_a_new_link_and_what_did_not_is_good_again() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(OTHER, 9, 1.0))
    site.pass_time(4)
    assert site.shown()[1] == q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
    site.hellos()
    site.hear(0, 4)
    asked = site.hellos()[-1]
    assert (asked.of, asked.position, asked.log_id, asked.history) == (OTHER, Position(1, 9), RUN, HISTORY.entries)
    answer = FeedAnswer(verdict="resume", log_id=RUN, history=HISTORY.entries, position=Position(1, 9), channel=1)
    site.letter(answer, sender=PARENT_LINES[0])
    assert site.shown()[1] == q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, "it looks live before the parent said so"
    nothing = FeedState(epoch=1, position=Position(1, 9), previous=Position(1, 9), channel=1)
    site.letter(nothing, sender=PARENT_LINES[0])
    assert site.shown() == (1.0, q.GOOD, None)


def test_a_parent_that_is_restored_on_the_same_line_is_followed_under_its_lower_epoch() -> None:
    site = Site()
    site.hear(0, 4)
    own = FeedAnswer(verdict="snapshot", log_id=LOG, history=(EpochEntry(4, 1, 7),))
    site.letter(own, sender=PARENT_LINES[0])
    restored = msgspec.structs.replace(own, history=(EpochEntry(3, 1, 8),))
    for _ in range(4):
        site.pass_time(1)
        site.letter(ParentHello(node=ABOVE), sender=PARENT_LINES[0])
        if any(not one.of for one in site.hellos()):
            site.letter(restored, sender=PARENT_LINES[0])
    state = FeedState(epoch=3, position=Position(3, 9), previous=BEGINNING, is_snapshot=True)
    site.letter(state, sender=PARENT_LINES[0])
    assert site.root.tree.all_mirrors[ABOVE].stale_since_ns is None
    assert site.take(FeedAck)


def test_what_an_earlier_run_of_the_parent_told_does_not_look_live_until_the_new_state_is_whole() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(OTHER, 9, 1.0))
    for _ in range(3):
        site.pass_time(1)
        site.letter(ParentHello(node=ABOVE), sender=PARENT_LINES[0])
    answer = FeedAnswer(verdict="snapshot", log_id=b"S" * 16, history=HISTORY.entries, channel=1)
    site.letter(answer, sender=PARENT_LINES[0])
    assert site.shown()[1] == q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
    state, raw = state_of(OTHER, 3, 2.0)
    site.letter(state, raw, sender=PARENT_LINES[0])
    assert site.shown() == (2.0, q.GOOD, None)


def test_items_of_another_node_than_the_one_that_was_asked_for_are_refused_and_counted() -> None:
    site = Site()
    site.hear(0, 4)
    site.give(0, state_of(SITE, 9, 1.0))
    assert not len(site.root.tree.all_mirrors[OTHER].dim)
    (row,) = (one for one in site.root.tree.seen() if one.node == OTHER)
    assert (row.refused, row.by) == (1, ABOVE)
    assert all(one.item.name != "co" for one in site.root.folds.dim)


@pytest.mark.parametrize("message", [FeedAlive(1, True, BEGINNING, BEGINNING), RoleTold(is_acting=True, epoch=9)])
def test_a_parent_that_did_not_say_hello_is_not_heard(message: FeedAlive | RoleTold) -> None:
    site = Site()
    site.letter(message, sender=PARENT_LINES[0])
    assert not site.hellos()


CHILDREN = (ChildConfig(node=SITE, places=(SITE,), nodes=(f"{SITE}/pump",)), ChildConfig(node=OTHER, places=(OTHER,)))


@pytest.mark.parametrize(
    ("follower", "of", "words"),
    [
        (SITE, OTHER, ""),
        (SITE, SITE, "own subtree"),
        (SITE, f"{SITE}/pump", "own subtree"),
        (OTHER, f"{SITE}/pump", ""),
        (SITE, "root/none", "nothing is known"),
        ("desk", SITE, ""),
    ],
)
def test_a_parent_gives_a_child_every_other_node_but_nothing_of_its_own_subtree(
    follower: str, of: str, words: str
) -> None:
    above = Side(RootConfig(node=ABOVE, log_id=LOG, children=CHILDREN))
    above.lead()
    above.letter(FeedHello(follower=follower, mode="state", of=of, in_pieces=True), sender=b"site")
    (answer,) = above.take(FeedAnswer)
    assert isinstance(answer, FeedAnswer)
    assert (answer.verdict == "refused") is bool(words)
    assert words in str(answer.refusal)


@pytest.mark.parametrize("follower", [ABOVE, SITE])
def test_a_position_of_another_run_of_the_parent_is_answered_with_the_whole_state(follower: str) -> None:
    above = Side(RootConfig(node=ABOVE, log_id=LOG, children=CHILDREN, seed=1))
    above.lead()
    mirror = above.root.tree.mirrors[OTHER]
    for at in range(1, 9):
        mirror.take(FeedState(epoch=1, position=Position(1, at), previous=Position(1, at)), [])
    verdicts = []
    for run in (mirror.run, RUN):
        hello = FeedHello(
            follower=follower,
            mode="state",
            of=OTHER,
            in_pieces=True,
            log_id=run,
            history=HISTORY.entries,
            position=Position(1, 5),
        )
        above.letter(hello, sender=b"site")
        verdicts += [one.verdict for one in above.take(FeedAnswer) if isinstance(one, FeedAnswer)]
    assert verdicts == ["resume", "snapshot"]
