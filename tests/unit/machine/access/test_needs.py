"""The table of roles: complete, the same in docs/access.md, and kept by the root machine for each role and message."""

import re
from pathlib import Path
from typing import Final, get_args

import msgspec
import pytest

from albireo.codec.message import Answer, AnyMessage, AppendRefused, Ask, FeedAnswer, FeedHello, ProducerHello
from albireo.codec.principal import PROGRAM_WORDS
from albireo.codec.questions.cases import CASE_ACTION
from albireo.codec.questions.declared import QUESTIONS, asked_of, roles_table
from albireo.codec.questions.kind import Answerer
from albireo.codec.record import Audited
from albireo.machine.access.needs import MESSAGES, needed_for
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import ROLE_WORDS, AccessRole, RoleGrant
from albireo.model.case import Action
from albireo.node.member.admin_actions import ACTIONS
from tests.parts.message import plain
from tests.parts.refusals import code, no, refused_with
from tests.parts.root import World

PAGE: Final = Path(__file__).parents[4] / "docs" / "access.md"
ROW: Final = re.compile(r"^\| `([a-z_ ]+)` \| (\w+) \|", re.MULTILINE)
KEY: Final = "mes-1"
GIVEN: Final = [AccessRole[word.upper()] for word in ROLE_WORDS]
ASKED: Final[list[AnyMessage]] = [
    *(Ask(request_id=1, what=one.name) for one in QUESTIONS.values() if one.answerer.part == "core"),
    *(Ask(request_id=1, what="case_action", arguments={"action": str(one), "user": "u"}) for one in Action),
    *(plain(one) for one in MESSAGES),
]


def tag_of(kind: type) -> str:
    tag = msgspec.inspect.type_info(kind).tag  # type: ignore[attr-defined]  # A message is a struct with a tag.
    assert isinstance(tag, str)
    return tag


def test_the_page_has_the_roles_of_messages_and_questions_as_they_are() -> None:
    page = PAGE.read_text()
    assert roles_table() in page
    told = {name: AccessRole[word.upper()] for name, word in ROW.findall(page.partition(roles_table())[0])}
    assert told == {
        **{tag_of(kind): role for kind, role in MESSAGES.items()},
    }


def test_every_message_of_a_program_has_its_role() -> None:
    assert set(MESSAGES) == PROGRAM_WORDS - {Ask}
    assert set(ACTIONS) <= asked_of(Answerer.MEMBER)
    assert set(CASE_ACTION.roles) <= set(Action)


def test_a_message_that_no_program_says_needs_the_highest_role() -> None:
    others = [kind for kind in get_args(AnyMessage) if isinstance(kind, type) and kind not in PROGRAM_WORDS]
    assert {needed_for(plain(kind)) for kind in others} == {AccessRole.ADMIN}


@pytest.mark.parametrize("action", [None, 7, [], "nonsense", {}])
def test_a_case_action_that_is_none_needs_what_all_of_them_need(action: object) -> None:
    asked = Ask(request_id=1, what="case_action", arguments={"action": action})
    assert needed_for(asked) is AccessRole.OPERATE


def is_refused(world: World, message: AnyMessage) -> bool:
    """Whether it was refused for want of a role; everything else that it may be answered is let go."""
    sent, world.sent = [one for _, one in world.sent], []
    for one in sent:
        match one:
            case Answer() | AppendRefused() | FeedAnswer() if code(one) == "access":
                return True
    return False


@pytest.mark.parametrize("role", GIVEN)
@pytest.mark.parametrize("message", ASKED, ids=lambda one: f"{tag_of(type(one))} {getattr(one, 'what', '')}")
def test_a_role_may_what_the_table_says_and_a_refused_order_is_on_record(message: AnyMessage, role: AccessRole) -> None:
    world = World()
    world.step(KeysListed({KEY: RoleGrant(role)}))
    world.sent.clear()
    world.letter(b"m", message, principal=KEY)
    world.sync()
    needed = needed_for(message)
    assert is_refused(world, message) is (role < needed)
    refused = [one for one in world.records(Audited) if isinstance(one, Audited) and one.action == "access_refused"]
    assert [one.principal for one in refused] == [KEY] * (role < needed)


def test_an_unknown_question_is_answered_so_to_whoever_may_look() -> None:
    world = World()
    world.letter(b"m", Ask(request_id=1, what="fly"), principal=KEY)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert "unknown question 'fly'" in refused_with(answer)


@pytest.mark.parametrize(
    ("principal", "is_heard"),
    [("local:1000", True), ("root[backup]", True), ("", True), (KEY, False), ("witness:w1", False)],
)
def test_each_kind_of_principal_has_its_role(principal: str, is_heard: bool) -> None:
    world = World()
    world.letter(b"m", ProducerHello(producer="p", run=1), principal=principal)
    world.sync()
    assert is_refused(world, ProducerHello(producer="p")) is not is_heard


def test_a_witness_may_not_even_look() -> None:
    world = World()
    world.letter(b"m", Ask(request_id=1, what="status"), principal="witness:w1")
    world.letter(b"m", FeedHello(follower="f"), principal="witness:w1")
    answer, feed = (one for _, one in world.sent)
    assert isinstance(answer, Answer) and "is a witness" in refused_with(answer)
    assert isinstance(feed, FeedAnswer) and feed.verdict == "refused"
    assert world.records(Audited) == []


def test_a_role_below_a_node_does_not_reach_up_or_aside() -> None:
    for node, is_covered in (("", True), ("root", True), ("root/north", False), ("roo", False), ("rootless", False)):
        world = World()
        world.step(KeysListed({KEY: RoleGrant(AccessRole.ADMIN, node)}))
        world.letter(b"m", ProducerHello(producer="p", run=1), principal=KEY)
        assert is_refused(world, ProducerHello(producer="p")) is not is_covered, node


def test_the_words_say_what_is_missing_and_who_gives_it() -> None:
    world = World()
    world.letter(b"m", Ask(request_id=1, what="write", arguments={"item": "fan_set", "user": "rosa"}), principal=KEY)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert answer.refusal == no(
        "access",
        "write fan_set needs the role operate at root; 'mes-1' has view",
        "an admin grants it: albireo access grant mes-1 operate",
    )


def test_a_question_that_everybody_may_ask_of_core_is_asked_again_when_its_member_dies() -> None:
    """What needs no more than VIEW changes nothing, but for one's own session; what changes something is asked once, or
    is known by an id."""
    known = [one for one in QUESTIONS.values() if one.answerer in (Answerer.CORE, Answerer.ACTING)]
    assert {one.name for one in known if one.role is AccessRole.VIEW and not one.is_reading} == {"session_end"}
    assert {one.name for one in known if one.role > AccessRole.VIEW and one.is_reading} == {
        "access_list",
        "message",
        "topic_tables",
        "people",
        "credentials",
        "login",
    }
