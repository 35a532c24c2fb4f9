"""Ends of sessions that messages order at the node that has the session, and what the nodes above are told."""

from typing import Any

import msgspec
import pytest

from albireo.codec.message import Ask, FeedState
from albireo.codec.message_records import MessageEnd
from albireo.codec.record import Audited, SessionBegan, SessionEnded
from albireo.machine.fold.people.sessions import SESSIONS, SessionFold
from albireo.machine.fold.state_piece import WHOLE, StateSource
from albireo.machine.kernel.events import KeysListed
from albireo.machine.orders.session.kinds import EndSession
from albireo.machine.orders.session.sessions import SessionEndBody
from albireo.machine.table.shape import GONE_MAX
from albireo.machine.table.told import TableChange
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND
from albireo.model.tree.message import MessageOutcome
from albireo.model.tree.session import SESSIONS_MAX, Session
from tests.parts import brought
from tests.parts.pieces import pieces_since
from tests.parts.present import ANNA, DESK, MES, PLANT, asked, present
from tests.parts.root import World
from tests.parts.tables import changes_of, header_at, told_rows

BEGAN = SessionBegan(principal=ANNA, address=DESK, role="view", since_ns=1)


def executed(one: World, body: bytes, not_after: int = SECOND) -> tuple[MessageEnd, list[Any]]:
    return brought.executed(EndSession(one.root), body, not_after, reason="over")


def body_of(session_id: int) -> bytes:
    return msgspec.msgpack.encode(SessionEndBody(session_id))


def test_a_message_ends_a_session_with_its_principal_and_reason() -> None:
    one = World()
    asked(one)
    number = present(one)[0][0]
    end, records = executed(one, body_of(number))
    assert (end.outcome, end.detail) == (MessageOutcome.EXECUTED, f"ended the session of {ANNA} from {DESK}")
    assert records[0] == SessionEnded(session_id=number, cause="ended", by="chief", reason="over")


def test_a_persons_order_that_a_message_brought_is_on_record_with_the_speaker() -> None:
    one = World()
    asked(one)
    end = brought.executed(EndSession(one.root), body_of(present(one)[0][0]), principal="person:anna", speaker="face")
    (entry,) = [each for each in end[1] if isinstance(each, Audited)]
    assert (entry.principal, entry.speaker) == ("person:anna", "face")


@pytest.mark.parametrize("body", [body_of(4711), b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"session_id": -1})])
def test_an_order_that_can_not_be_meant_is_rejected(body: bytes) -> None:
    end, records = executed(World(), body)
    assert (end.outcome, records) == (MessageOutcome.REJECTED, [])


def test_no_session_is_ended_after_the_time_of_the_order() -> None:
    one = World()
    asked(one)
    end, records = executed(one, body_of(present(one)[0][0]), not_after=0)
    assert (end.outcome, records) == (MessageOutcome.EXPIRED, [])


def test_a_later_tenure_says_that_it_does_not_know() -> None:
    assert brought.recovered(EndSession(World().root)).outcome is MessageOutcome.UNKNOWN


def test_nodes_above_see_each_session_begin_change_and_end() -> None:
    one = World()
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.ADMIN)}))
    above, top = NodeMirror("root"), NodeMirror("root")
    seen = [WHOLE, WHOLE]

    def followed() -> list[tuple[str, str]]:
        sources: tuple[StateSource, ...] = (one.root.folds, above)
        for place, (source, mirror) in enumerate(zip(sources, (above, top), strict=True)):
            at = one.root.folded_to if place == 0 else above.position
            for piece in pieces_since(source, seen[place], at, bytes_max=1):
                mirror.take(piece.message, piece.raw)
            seen[place] = at.sequence
        assert list(above.table(SESSIONS)) == list(top.table(SESSIONS))
        return [(each.principal, each.role) for each in above.table(SESSIONS)]

    assert followed() == []
    asked(one)
    assert followed() == [(ANNA, "admin")]
    asked(one, sender=b"m", principal=MES, address=PLANT)
    assert followed() == [(ANNA, "admin"), (MES, "view")]
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.VIEW)}))
    one.pass_time(SECOND)
    assert followed() == [(ANNA, "view"), (MES, "view")]
    for _ in range(30):
        one.pass_time(SECOND)
        one.letter(b"m", Ask(request_id=0, what="session"), principal=MES)
    assert followed() == [(MES, "view")]


def told(mirror: NodeMirror, *sessions: Session, ended: tuple[int, ...] = ()) -> None:
    at = mirror.position
    tables = {"sessions": told_rows(*sessions, gone=ended)}
    mirror.take(FeedState(epoch=1, position=at, previous=at, tables=tables), [])


def session(number: int) -> Session:
    return Session(session_id=number, principal=MES, address=PLANT, role="view", since_ns=1)


def test_a_mirror_takes_no_more_sessions_than_a_node_may_have_and_counts_the_rest() -> None:
    mirror = NodeMirror("root/north")
    told(mirror, *(session(number) for number in range(1, SESSIONS_MAX + 8)))
    assert (len(mirror.table(SESSIONS)), mirror.refused) == (SESSIONS_MAX, 7)


def test_a_mirror_does_not_grow_with_sessions_that_ended_and_viewers_behind_them_take_the_whole_state() -> None:
    mirror = NodeMirror("root/north")
    told(mirror, session(1))
    changes = []
    for number in range(10, 10 + GONE_MAX + 3):
        told(mirror, session(number))
        told(mirror, ended=(number,))
        changes.append(mirror.position.sequence)
    assert len(mirror.table(SESSIONS)._changed) == GONE_MAX + 1
    behind = pieces_since(mirror, changes[1], mirror.position)
    level = pieces_since(mirror, changes[2], mirror.position)
    assert [(each.message.is_snapshot, changes_of(each).of(SESSIONS)) for each in behind] == [
        (True, TableChange((session(1),)))
    ]
    assert not any(each.message.is_snapshot for each in level)
    assert sum(len(changes_of(each).of(SESSIONS).gone) for each in level) == GONE_MAX


def test_a_viewer_behind_forgotten_ends_takes_the_whole_state_of_the_node_too() -> None:
    one = World()
    asked(one)
    folds = one.root.folds
    at = one.root.folded_to.sequence
    for number in range(1, 2 * (GONE_MAX + 2), 2):
        folds.of(SessionFold).fold(SessionEnded(session_id=present(one)[0][0], cause="link"), at + number, header_at())
        folds.of(SessionFold).fold(BEGAN, at + number + 1, header_at())
    pieces = pieces_since(folds, at, one.root.folded_to)
    assert pieces[0].message.is_snapshot
    assert changes_of(pieces[-1]).of(SESSIONS).gone == ()
