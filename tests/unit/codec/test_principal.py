"""Who is heard where: the table, complete over ends x kinds x messages, as docs/keys.md tells it."""

from typing import get_args

import pytest

from albireo.codec.message import AnyMessage
from albireo.codec.principal import CHILD_WORDS, MAY_SAY, PARENT_WORDS, VOTER_WORDS, Audience, KeyedEnd
from albireo.model.principal import UNKEYED, PrincipalKind, kind_of

OTHER = "root[backup]"
WITNESS = "witness:w1"
PROGRAM = "operator@desk"
STRANGERS = ("north[primary]", "witness:w9")
EXPECTED = frozenset({OTHER, WITNESS})
PEER_WORDS = (
    "Heartbeat HeartbeatAnswered FollowAsked FollowAnswered Frames FollowAcked FoldsAsked FoldsSent RangeAsked "
    "RangeSent Leaving Yielded Carried"
)
HEARD = {
    (KeyedEnd.PEER, OTHER): PEER_WORDS,
    (KeyedEnd.CLIENT, OTHER): "Ask RoleAsked FeedHello FeedAck",
    (KeyedEnd.CLIENT, PROGRAM): "Ask RoleAsked ProducerHello Append FeedHello FeedAck",
    (KeyedEnd.WITNESS, OTHER): "Read Prepare Accept Release Install Ask",
    (KeyedEnd.TO_WITNESS, WITNESS): "Voted",
    (KeyedEnd.TO_PAIR, OTHER): "Read Prepare Accept Release Install",
}
"""Everything that is heard at all."""


def test_the_table_is_complete() -> None:
    assert set(MAY_SAY) == set(KeyedEnd)
    assert all(set(kinds) == set(PrincipalKind) - UNKEYED - {PrincipalKind.PERSON} for kinds in MAY_SAY.values())


@pytest.mark.parametrize("end", list(KeyedEnd))
@pytest.mark.parametrize("name", [OTHER, WITNESS, PROGRAM, *STRANGERS, "local:0", ""])
@pytest.mark.parametrize("message", get_args(AnyMessage), ids=lambda one: one.__name__)
def test_what_is_not_in_the_table_is_not_heard(end: KeyedEnd, name: str, message: type) -> None:
    is_listed = message.__name__ in HEARD.get((end, name), "").split()
    assert (message in Audience(end, EXPECTED).hears(name)) is is_listed


@pytest.mark.parametrize("name", ["root/north", "root/north[primary]"])
@pytest.mark.parametrize("message", get_args(AnyMessage), ids=lambda one: one.__name__)
def test_a_child_says_the_words_of_its_kind_and_those_of_a_child(name: str, message: type) -> None:
    usual = Audience(KeyedEnd.CLIENT).hears(name)
    assert Audience(KeyedEnd.CLIENT, children=frozenset({name})).hears(name) == usual | CHILD_WORDS
    assert (message in Audience(KeyedEnd.CLIENT, children=frozenset({"root/south"})).hears(name)) is (message in usual)


@pytest.mark.parametrize("name", ["root/north", "root/north[primary]", "root/north/pump"])
@pytest.mark.parametrize("message", get_args(AnyMessage), ids=lambda one: one.__name__)
def test_a_voter_below_votes_and_nobody_else_does(name: str, message: type) -> None:
    usual = Audience(KeyedEnd.CLIENT).hears(name)
    voters = Audience(KeyedEnd.CLIENT, voters=frozenset({name}))
    assert voters.hears(name) == usual | VOTER_WORDS
    assert (message in voters.hears("root/south")) is (message in Audience(KeyedEnd.CLIENT).hears("root/south"))
    assert not VOTER_WORDS & Audience(KeyedEnd.CLIENT, children=frozenset({name})).hears(name)


@pytest.mark.parametrize("name", ["root", "root[primary]"])
def test_a_parent_is_heard_by_its_name_only(name: str) -> None:
    assert Audience(KeyedEnd.TO_PARENT, parents=frozenset({name})).hears(name) == PARENT_WORDS
    assert Audience(KeyedEnd.TO_PARENT, parents=frozenset({"other"})).hears(name) == frozenset()


def test_names_of_the_table_are_names_of_messages() -> None:
    known = {one.__name__ for one in get_args(AnyMessage)}
    assert {word for words in HEARD.values() for word in words.split()} <= known


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("root[primary]", PrincipalKind.MEMBER),
        ("a/b[backup]", PrincipalKind.MEMBER),
        ("witness:w1", PrincipalKind.WITNESS),
        ("root[third]", PrincipalKind.PROGRAM),
        ("root[primary]x", PrincipalKind.PROGRAM),
        ("witness", PrincipalKind.PROGRAM),
        ("mes-1", PrincipalKind.PROGRAM),
        ("local:0", PrincipalKind.LOCAL),
        ("", PrincipalKind.ANYBODY),
    ],
)
def test_a_name_has_a_kind(name: str, kind: PrincipalKind) -> None:
    assert kind_of(name) is kind
