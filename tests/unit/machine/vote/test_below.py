"""Voters below: who is asked where, and whose votes count."""

import pytest

from albireo.codec.pair_message import Voted, VoterHello
from albireo.machine.vote.below import TWICE_NS, VotersBelow
from albireo.model.instant import SECOND, Instant

NORTH, SOUTH = "node:root/north", "node:root/south[primary]"
VOTERS = (NORTH, SOUTH, "witness:w1")
NOW = Instant(SECOND)
SOON = Instant(NOW + TWICE_NS)
LATER = Instant(SOON + 1 + TWICE_NS)
LINK, OTHER_LINK = b"link", b"other link"


def hello(voter: str = NORTH, cluster: str = "c/root") -> VoterHello:
    return VoterHello(voter=voter, cluster=cluster)


def vote(voter: str = NORTH) -> Voted:
    return Voted(voter=voter, cluster="c/root", generation=1, to_run=1, round=1, question="pair_read", is_granted=True)


def heard(*voters: str) -> VotersBelow:
    """The voters of the pair, these of which have said hello."""
    below = VotersBelow("c/root", VOTERS)
    for voter in voters:
        below.hears(hello(voter), LINK, NOW)
    return below


def test_places_below_vote_and_others_of_the_list_do_not() -> None:
    below = heard()
    assert below.places == {"root/north", "root/south[primary]"}
    assert NORTH in below
    assert "witness:w1" not in below


def test_a_voter_is_asked_where_it_said_hello_last() -> None:
    below = heard()
    assert below.at(NORTH) == b""
    below.hears(hello(), LINK, NOW)
    below.hears(hello(), OTHER_LINK, LATER)
    assert (below.at(NORTH), below.at(SOUTH)) == (OTHER_LINK, b"")


def test_two_that_claim_one_voter_are_asked_nothing_until_one_is_silent() -> None:
    below = heard(NORTH)
    below.hears(hello(), OTHER_LINK, SOON)
    assert (below.at(NORTH), below.is_twice(NORTH)) == (b"", True)
    assert [below.objection(vote(), link, "root/north") for link in (LINK, OTHER_LINK)] == 2 * ["voter_twice"]
    below.hears(hello(), LINK, Instant(SOON + 1))
    below.hears(hello(), OTHER_LINK, LATER)
    assert below.is_twice(NORTH)
    below.hears(hello(), OTHER_LINK, Instant(LATER + 2))
    assert (below.at(NORTH), below.is_twice(NORTH)) == (OTHER_LINK, False)
    assert below.objection(vote(), OTHER_LINK, "root/north") == ""


@pytest.mark.parametrize("principal", ["root/north", "", "local:0"], ids=["its key", "no keys", "local"])
def test_a_listed_voter_is_heard(principal: str) -> None:
    assert heard().objection(hello(), LINK, principal) == ""
    assert heard(NORTH).objection(vote(), LINK, principal) == ""


@pytest.mark.parametrize(
    ("message", "principal", "objection"),
    [
        (hello("node:root/west"), "root/west", "voter_unlisted"),
        (hello("node:root/south"), "root/south", "voter_unlisted"),
        (hello("witness:w1"), "witness:w1", "voter_unlisted"),
        (hello(), "root/south[primary]", "voter_with_foreign_key"),
        (hello(SOUTH), "root/south[backup]", "voter_with_foreign_key"),
        (hello(), "operator@desk", "voter_with_foreign_key"),
        (hello(cluster="c/other"), "root/north", "voter_of_foreign_pair"),
        (vote("node:root/west"), "root/west", "voter_unlisted"),
        (vote(), "root/south[primary]", "voter_with_foreign_key"),
        (vote(SOUTH), "root/south[primary]", "vote_without_hello"),
    ],
)
def test_whoever_may_not_vote_is_refused_by_reason(message: VoterHello | Voted, principal: str, objection: str) -> None:
    assert heard(NORTH).objection(message, LINK, principal) == objection


def test_a_vote_from_another_link_than_the_hello_does_not_count() -> None:
    """Without keys nothing else tells two processes apart that claim one name."""
    assert heard(NORTH).objection(vote(), OTHER_LINK, "") == "vote_without_hello"
