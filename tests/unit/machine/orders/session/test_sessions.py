"""Sessions at the root machine: what begins one, what ends it, who may end it, and that all of it is bounded."""

from typing import Any

import pytest

from albireo.codec.message import (
    Answer,
    Append,
    AppendEntry,
    Ask,
    FeedAck,
    FeedAnswer,
    FeedHello,
    ProducerHello,
    RoleAsked,
)
from albireo.codec.record import Audited, SessionBegan, SessionEnded, SessionRoleChanged
from albireo.machine.kernel.events import AdmissionChanged, KeysListed, Served, Suspended
from albireo.machine.orders.session import sessions as module
from albireo.machine.orders.session.sessions import BEGUN_MAX, LINKS_MAX, SILENCE_NS, TURNED_AWAY_MAX
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND
from albireo.model.position import Position
from albireo.model.settings import LimitSettings
from albireo.model.tree.session import LOCALHOST
from tests.parts.present import ANNA, DESK, MES, PLANT, asked, causes, facts, present, rows, said
from tests.parts.refusals import code, refused_with
from tests.parts.retired_items import again
from tests.parts.root import World

ADMIN = RoleGrant(AccessRole.ADMIN)
STATUS = Ask(request_id=9, what="status")
HELLO = FeedHello(follower="view", mode="state")
ACK = FeedAck(received=Position(1, 1), durable=Position(1, 1), credit_bytes=1 << 20)


def up(**more: Any) -> World:
    """A node at which `anna@desk` is an admin and `mes-1` may view."""
    one = World(**more)
    one.step(KeysListed({ANNA: ADMIN, MES: RoleGrant(AccessRole.VIEW)}))
    return one


def live(one: World, seconds: int) -> None:
    for _ in range(seconds):
        one.pass_time(SECOND)


# What begins one.


def test_a_question_begins_a_session_with_who_where_when_and_role() -> None:
    one = up()
    asked(one)
    (row,) = rows(one)
    assert (row["principal"], row["address"], row["role"], row["node"]) == (ANNA, DESK, "admin", "root")
    assert (row["since_ns"], row["stale_since_ns"]) == (one.moment().wall, None)
    assert one.ask("status").result["sessions"] == 1  # type: ignore[index]


def test_a_session_is_seen_only_once_its_record_is_committed() -> None:
    one = up()
    said(one, STATUS)
    assert present(one) == []
    one.sync()
    assert len(present(one)) == 1


@pytest.mark.parametrize(
    "message", [RoleAsked(adapter="x"), HELLO, ACK, ProducerHello(producer="p", run=1), Append(entries=())]
)
def test_nothing_but_a_question_begins_one(message: Any) -> None:
    one = up()
    said(one, message)
    one.sync()
    assert facts(one) == []


def test_an_actor_of_the_node_is_nobody() -> None:
    one = up()
    one.letter(b"history#1", STATUS)
    one.sync()
    assert facts(one) == []


def test_commands_one_after_the_other_and_further_links_are_one_session() -> None:
    one = up()
    for number in range(500):
        asked(one, sender=b"command%d" % number)
        one.pass_time(SECOND)
    assert len(present(one)) == 1
    assert len(facts(one)) == 1


def test_each_principal_and_each_address_has_its_own() -> None:
    one = up()
    for principal, address in ((ANNA, DESK), (ANNA, PLANT), (MES, PLANT), ("local:1000", LOCALHOST), ("", "127.0.0.1")):
        asked(one, sender=f"{principal}{address}".encode(), principal=principal, address=address)
    assert [(who, where) for _, who, where in present(one)] == [
        (ANNA, DESK),
        (ANNA, PLANT),
        (MES, PLANT),
        ("local:1000", LOCALHOST),
        ("", "127.0.0.1"),
    ]


def test_a_question_that_is_refused_is_presence_too() -> None:
    one = up()
    assert "needs the role" in refused_with(asked(one, "access_list", principal=MES))
    assert len(present(one)) == 1


def test_while_the_disk_is_full_nothing_is_recorded_and_the_next_question_begins_one() -> None:
    one = up()
    asked(one)
    one.step(AdmissionChanged("the disk is full"))
    live(one, 60)
    asked(one, principal=MES, sender=b"m")
    assert len(facts(one)) == 1
    one.step(AdmissionChanged(""))
    asked(one, principal=MES, sender=b"m")
    one.pass_time(SECOND)
    assert (causes(one), [who for _, who, _ in present(one)]) == (["link"], [MES])


# What ends one.


def test_a_session_ends_when_nothing_was_heard_for_thirty_seconds() -> None:
    one = up()
    asked(one)
    live(one, SILENCE_NS // SECOND - 1)
    assert causes(one) == []
    one.pass_time(SECOND)
    assert (causes(one), present(one)) == (["link"], [])


@pytest.mark.parametrize("message", [STATUS, Ask(request_id=0, what="session"), RoleAsked(adapter="c"), ACK])
def test_any_word_of_a_link_keeps_its_session(message: Any) -> None:
    one = up()
    asked(one)
    for _ in range(10):
        live(one, 20)
        said(one, message)
    one.sync()
    assert len(facts(one)) == 1


def test_a_link_that_follows_belongs_to_the_session_and_keeps_it() -> None:
    one = up()
    asked(one)
    said(one, HELLO, b"view")
    for _ in range(5):
        live(one, 20)
        one.letter(b"view", ACK, principal=ANNA)
    assert len(facts(one)) == 1


def test_who_comes_back_after_the_end_begins_another_one() -> None:
    one = up()
    asked(one)
    live(one, 31)
    asked(one)
    assert (len(one.records(SessionBegan)), causes(one)) == (2, ["link"])
    assert len({number for number, _, _ in present(one)}) == 1


def test_a_peer_that_connects_and_drops_writes_two_records_in_thirty_seconds_at_most() -> None:
    one = up()
    for number in range(300):
        asked(one, sender=b"drop%d" % number)
        live(one, 1 if number % 40 else 31)
    assert len(facts(one)) <= 2 * (1 + 300 // 31)


# Bounds.


def test_a_thousand_connections_of_one_place_are_one_session_and_end_together() -> None:
    one = up()
    for number in range(1_000):
        said(one, STATUS, b"c%d" % number, MES, PLANT)
    one.sync()
    (session,) = present(one)
    one.sent.clear()
    assert refused_with(asked(one, "session_end", session_id=session[0])) == ""
    refused = {b"c%d" % number for number in range(1_000) if one.root.sessions.refusal_of(b"c%d" % number)}
    assert len(refused) == min(1_000, TURNED_AWAY_MAX)


def test_sessions_begin_no_faster_than_their_bound_and_who_was_left_out_begins_later() -> None:
    one = up()
    for number in range(BEGUN_MAX + 20):
        said(one, STATUS, b"c%d" % number, MES, f"10.0.1.{number}")
    one.sync()
    assert (len(present(one)), one.root.sessions.left_out) == (BEGUN_MAX, 20)
    one.pass_time(SECOND)
    for number in range(BEGUN_MAX + 20):
        said(one, STATUS, b"c%d" % number, MES, f"10.0.1.{number}")
    one.sync()
    assert len(present(one)) == BEGUN_MAX + 20


def test_a_full_table_leaves_out_and_counts_and_serves_all_the_same() -> None:
    one = up()
    for number in range(LimitSettings().sessions_max + 5):
        said(one, STATUS, b"c%d" % number, MES, f"2001:db8::{number:x}")
        if number % BEGUN_MAX == BEGUN_MAX - 1:
            one.pass_time(SECOND)
    one.sync()
    answer = asked(one, sender=b"late", address="10.9.9.9")
    assert (len(present(one)), refused_with(answer)) == (LimitSettings().sessions_max, "")
    assert one.ask("status").result["sessions_left_out"] == 6  # type: ignore[index]
    live(one, 31)
    assert causes(one) == ["link"] * LimitSettings().sessions_max


def test_ends_of_many_at_once_are_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHANGED_MAX", 3)
    one = up()
    for number in range(8):
        said(one, STATUS, b"c%d" % number, MES, f"10.0.1.{number}")
    live(one, 30)
    assert len(causes(one)) == 3
    live(one, 2)
    assert len(causes(one)) == 8


def test_links_are_bounded_and_the_one_not_heard_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINKS_MAX >= LimitSettings().sessions_max
    monkeypatch.setattr(module, "LINKS_MAX", 3)
    one = up()
    for sender in (b"c1", b"c2", b"c3", b"c1", b"c4"):
        said(one, STATUS, sender, MES, PLANT)
    one.sync()
    assert refused_with(asked(one, "session_end", session_id=present(one)[0][0])) == ""
    assert [bool(one.root.sessions.refusal_of(sender)) for sender in (b"c1", b"c2", b"c3", b"c4")] == [
        True,
        False,
        False,
        True,
    ]


# Ended by somebody.


def ended_by_anna(one: World) -> int:
    """A session of mes-1 with two links, the second one a follower, that anna ends."""
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    said(one, HELLO, b"m2", MES, PLANT)
    (session,) = present(one)
    answer = asked(one, "session_end", session_id=session[0], reason="shift is over", user="anna")
    assert refused_with(answer) == ""
    return session[0]


def test_its_links_are_told_at_once_and_refused_until_they_connect_anew() -> None:
    one = up()
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    said(one, HELLO, b"m2", MES, PLANT)
    said(one, Ask(request_id=3, what="session_end", arguments={"session_id": present(one)[0][0], "reason": "over"}))
    assert [to for to, each in one.sent if isinstance(each, Answer) and each.request_id == 0] == [], "not committed yet"
    one.sync()
    told = {to: refused_with(each) for to, each in one.sent if isinstance(each, Answer) and each.request_id == 0}
    assert set(told) == {b"m1", b"m2"}
    assert told[b"m1"] == f"your session was ended by {ANNA}: over; what to do: connect anew, or ask who ended it"
    assert [to for to, each in one.sent if isinstance(each, FeedAnswer) and each.verdict == "refused"] == [b"m2"]
    one.sent.clear()
    live(one, 2)
    assert [to for to, _ in one.sent if to == b"m2"] == [], "nothing is fed any more"
    for _ in range(3):
        live(one, 20)
        assert code(asked(one, sender=b"m1", principal=MES, address=PLANT)) == "session_over"
    said(one, HELLO, b"m2", MES, PLANT)
    refused = [each for to, each in one.sent if to == b"m2"]
    assert isinstance(refused[-1], FeedAnswer) and code(refused[-1]) == "session_over"
    assert refused_with(asked(one, sender=b"m3", principal=MES, address=PLANT)) == "", "on a new link"
    assert [who for _, who, _ in present(one)] == [MES]


def test_the_end_is_on_record_with_who_ended_it_and_why() -> None:
    one = up()
    number = ended_by_anna(one)
    (ended,) = one.records(SessionEnded)
    assert ended == SessionEnded(session_id=number, cause="ended", by=ANNA, reason="shift is over")
    (entry,) = (each for each in one.records(Audited) if isinstance(each, Audited) and each.action == "session_ended")
    assert (entry.subject, entry.detail) == (f"session {number} of {MES} from {PLANT}", "shift is over")
    assert (entry.user, entry.principal) == ("anna", ANNA)


def test_everybody_may_end_his_own_and_is_answered_before_he_is_refused() -> None:
    one = up()
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    number = present(one)[0][0]
    said(one, Ask(request_id=4, what="session_end", arguments={"session_id": number}), b"m1", MES, PLANT)
    one.sync()
    answers = [each for to, each in one.sent if to == b"m1" and isinstance(each, Answer)][-2:]
    assert [(each.request_id, code(each)) for each in answers] == [(4, ""), (0, "session_over")]
    assert present(one) == []


def test_that_of_another_principal_needs_admin_and_a_refusal_is_on_record() -> None:
    one = up()
    asked(one)
    number = present(one)[0][0]
    answer = asked(one, "session_end", b"m1", MES, PLANT, session_id=number, user="rosa")
    assert f"needs the role admin at root; {MES!r} has view" in refused_with(answer)
    (entry,) = (each for each in one.records(Audited) if isinstance(each, Audited))
    assert (entry.action, entry.principal, entry.user) == ("access_refused", MES, "rosa")
    assert len(present(one)) == 2


def test_two_programs_without_a_name_are_no_owners_of_each_others_sessions() -> None:
    one = up()
    asked(one, sender=b"x", principal="", address="127.0.0.1")
    number = present(one)[0][0]
    assert "needs the role admin" in refused_with(asked(one, "session_end", b"m1", MES, PLANT, session_id=number))


@pytest.mark.parametrize(
    "arguments", [{}, {"session_id": -1}, {"session_id": 1, "reason": "x" * 1_001}, {"session_id": "7"}]
)
def test_what_can_not_be_meant_is_refused(arguments: dict[str, Any]) -> None:
    one = up()
    assert refused_with(asked(one, "session_end", **arguments))


def test_one_that_is_not_there_or_ends_already_is_refused() -> None:
    one = up()
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    number = present(one)[0][0]
    assert "no session 4711" in refused_with(asked(one, "session_end", session_id=4711))
    for request in (1, 2):
        said(one, Ask(request_id=request, what="session_end", arguments={"session_id": number}))
    one.sync()
    errors = {
        each.request_id: refused_with(each)
        for _, each in one.sent
        if isinstance(each, Answer) and each.request_id in (1, 2)
    }
    assert errors[1] == "" and "is ending already" in errors[2]
    assert causes(one) == ["ended"]


def test_a_word_between_the_order_and_its_commit_begins_no_other_session() -> None:
    one = up()
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    number = present(one)[0][0]
    said(one, Ask(request_id=1, what="session_end", arguments={"session_id": number}))
    said(one, STATUS, b"m1", MES, PLANT)
    one.sync()
    assert [who for _, who, _ in present(one)] == [ANNA]


def test_while_nothing_is_recorded_no_session_is_ended() -> None:
    one = up()
    asked(one)
    one.step(AdmissionChanged("the disk is full"))
    assert "nothing is recorded now" in refused_with(asked(one, "session_end", session_id=present(one)[0][0]))


def test_who_asks_learns_of_his_own_session() -> None:
    one = up()
    assert asked(one, "session").result is None, "its record is not committed yet"
    result: Any = asked(one, "session").result
    assert (result["principal"], result["address"]) == (ANNA, DESK)


# Roles.


def test_a_role_that_changes_is_on_record_for_the_sessions_that_go_on() -> None:
    one = up()
    asked(one)
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    one.step(KeysListed({ANNA: ADMIN, MES: RoleGrant(AccessRole.OPERATE)}))
    live(one, 3)
    assert len(one.records(SessionRoleChanged)) == 1
    assert refused_with(asked(one, "access_grant", principal=ANNA, sender=b"a1"))
    answer = one.ask("access_grant", principal=MES, role="engineer")
    assert refused_with(answer) == ""
    live(one, 2)
    assert [row["role"] for row in rows(one)] == ["admin", "engineer"]
    assert len(one.records(SessionRoleChanged)) == 2


# Tenures.


def test_a_node_that_stands_alone_ends_at_its_start_what_it_finds() -> None:
    one = up()
    asked(one)
    two = again(one)
    two.sync()
    assert (causes(two), present(two)) == (["start"], [])
    asked(two)
    assert len(present(two)) == 1


def test_after_a_takeover_a_session_goes_on_if_its_principal_comes_back_in_time() -> None:
    one = up(is_paired=True)
    asked(one)
    asked(one, sender=b"m1", principal=MES, address=PLANT)
    before = present(one)
    two = again(one, is_paired=True)
    live(two, 20)
    assert present(two) == before
    asked(two, "session", sender=b"another line", principal=ANNA)
    live(two, 20)
    assert (causes(two), present(two)) == (["takeover"], before[:1])
    live(two, 15)
    assert causes(two) == ["takeover", "link"], "who had come back and went is gone as ever"


def test_a_lease_that_pauses_ends_nothing_and_turns_nobody_away() -> None:
    one = up(is_paired=True)
    asked(one)
    one.step(Suspended("the lease is over"))
    live(one, 60)
    assert len(facts(one)) == 1
    one.step(Served())
    one.sync()
    asked(one)
    live(one, 20)
    assert (len(facts(one)), one.root.sessions.refusal_of(b"a1")) == (1, None)


def test_a_link_that_was_turned_away_stays_so_in_the_next_tenure_of_this_process() -> None:
    one = up(is_paired=True)
    ended_by_anna(one)
    one.step(Suspended("the lease is over"))
    one.step(Served())
    one.sync()
    assert code(asked(one, sender=b"m1", principal=MES, address=PLANT)) == "session_over"


def test_entries_of_appends_are_heard_from_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer of an ended session's principal goes on: it is known by its own link, and by its own table."""
    one = up()
    ended_by_anna(one)
    said(one, Append(entries=(AppendEntry(1, 1, 1, 0),)), b"producer", MES, PLANT)
    assert not one.root.sessions.refusal_of(b"producer")
