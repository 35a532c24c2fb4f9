"""Ends of sessions where they meet the rest of a tree: nodes beyond this one, and receivers of messages."""

import pytest

from albireo.codec.message import Answer, Ask, FeedAnswer, FeedHello, FeedState
from albireo.codec.tree.letters import MessageTold
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.nodes import ChildConfig
from albireo.model.tree.session import Session
from tests.parts.present import ANNA, MES, PLANT, asked, present, said
from tests.parts.refusals import code, refused_with
from tests.parts.root import World
from tests.parts.sessions_in_a_tree import NAME, OTHER, Site
from tests.parts.tables import told_rows


def leases(answers: list[Answer]) -> list[object]:
    return [one.result["lease"] for one in answers if isinstance(one.result, dict)]


def test_the_end_of_a_session_of_a_node_beyond_goes_there_as_a_message() -> None:
    site = Site()
    session = Session(session_id=5, principal=MES, address=PLANT, role="view", since_ns=1)
    state = FeedState(
        epoch=1, position=Position(1, 9), previous=BEGINNING, is_snapshot=True, tables={"sessions": told_rows(session)}
    )
    site.root.tree.all_mirrors[OTHER].take(state, [])
    site.ask("session_end", b"desk", session_id=5, node=OTHER)
    (told,) = site.take(MessageTold)
    assert isinstance(told, MessageTold)
    assert (told.name.owner, told.name.inbox) == (OTHER, "")


def test_a_link_whose_session_was_ended_is_given_no_message_of_an_inbox() -> None:
    site = Site()
    site.step(KeysListed({MES: RoleGrant(AccessRole.OPERATE)}))
    site.ask("receive", b"mes", MES, wait_ms=20_000)
    (session,) = site.root.folds.of(SessionFold)
    site.ask("session_end", b"desk", session_id=session.session_id)
    assert any(code(one) == "session_over" for one in site.answers())
    site.told()
    assert not site.answers(), "the message is handed to a link that can't take it any more"
    assert NAME not in site.root.folds.messages.inbox.rows


def test_what_a_receiver_had_whose_session_was_ended_goes_to_another_one_at_once() -> None:
    site = Site()
    site.step(KeysListed({MES: RoleGrant(AccessRole.OPERATE)}))
    site.ask("receive", b"mes", MES, wait_ms=20_000)
    site.told()
    (first,) = site.answers()
    assert leases([first]) == [1]
    (session,) = site.root.folds.of(SessionFold)
    site.ask("session_end", b"desk", session_id=session.session_id)
    site.answers()
    site.ask("receive", b"other", request_id=10, wait_ms=20_000)
    (second,) = site.answers()
    assert (second.request_id, leases([second])) == (10, [2])


def followers_told(world: World, message: FeedHello, sender: bytes = b"view") -> list[str]:
    """What a follower is told as the session of its place ends, which begins behind its hello if there is none yet."""
    said(world, message, sender)
    world.sync()
    asked(world)
    ((session, _, _),) = present(world)
    world.sent.clear()
    said(world, Ask(request_id=3, what="session_end", arguments={"session_id": session}))
    world.sync()
    return [one.verdict for to, one in world.sent if to == sender and isinstance(one, FeedAnswer)]


@pytest.mark.parametrize("sender", [b"view", b"a1"])
def test_a_follower_that_came_before_its_session_ends_with_it(sender: bytes) -> None:
    one = World()
    assert followers_told(one, FeedHello(follower="view", mode="state"), sender) == ["refused"]


def test_a_node_below_that_follows_from_the_place_of_a_session_does_not_end_with_it() -> None:
    one = World(children=(ChildConfig(node="root/north", places=(ANNA,)),))
    asked(one)
    assert followers_told(one, FeedHello(follower="root/north", mode="state")) == []
    said(one, FeedHello(follower="root/north", mode="state"), b"view")
    one.sync()
    answers = [each for to, each in one.sent if to == b"view" and isinstance(each, FeedAnswer)]
    assert answers and answers[-1].verdict != "refused"


def test_the_end_of_a_session_is_taken_back_by_an_admin_only() -> None:
    site = Site()
    site.step(KeysListed({MES: RoleGrant(AccessRole.OPERATE)}))
    session = Session(session_id=5, principal=MES, address=PLANT, role="view", since_ns=1)
    state = FeedState(
        epoch=1, position=Position(1, 9), previous=BEGINNING, is_snapshot=True, tables={"sessions": told_rows(session)}
    )
    site.root.tree.all_mirrors[OTHER].take(state, [])
    site.ask("session_end", b"desk", session_id=5, node=OTHER)
    (asked,) = site.root.folds.messages.outbox.open.values()
    command_id = asked.asked.command_id
    site.answers()
    site.ask("cancel", b"mes", MES, command_id=command_id)
    (refused,) = site.answers()
    assert "needs the role admin" in refused_with(refused)
    site.ask("cancel", b"desk", command_id=command_id)
    assert any(not refused_with(one) for one in site.answers())
