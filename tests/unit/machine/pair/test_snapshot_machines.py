"""What holder and follower say when only a snapshot helps: each rule of it by itself."""

import random

import msgspec
import pytest

from albireo.codec.pair_message import (
    FoldsAsked,
    FoldsSent,
    FollowAcked,
    FollowAnswered,
    FollowAsked,
    Frames,
    Heartbeat,
    Leaving,
    PeerMessage,
    RangeAsked,
    RangeSent,
)
from albireo.machine.pair.candidacy import Grant
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    AppendFrames,
    AskVoter,
    CaseTold,
    CutTo,
    DamageFound,
    Effect,
    ForceAsked,
    FromPeer,
    PersistStore,
    Refused,
    RepairLog,
    Replicate,
    SendFolds,
    SendRange,
    Started,
    StartOver,
    State,
    TakeFolds,
    TellPeer,
    TimePassed,
    Transitioned,
)
from albireo.machine.pair.following import Following
from albireo.machine.pair.hold_off import HoldOff
from albireo.machine.pair.holder import SESSION_LOST, Holder
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts, Party, Peer
from albireo.model.instant import SECOND, Instant
from albireo.model.log_view import Beginning
from albireo.model.position import BEGINNING, EpochEntry, EpochHistory, Position

CONFIG = PairConfig(cluster="c", voters=("v0",))
HISTORY = EpochHistory((EpochEntry(2, 1, 11), EpochEntry(4, 501, 12)))
BEGIN = Beginning(position=Position(2, 300), header_crc=77, log_time_ms=9)
FOLDED = Position(4, 800)
NOW = Instant(SECOND)
LEAD = MemberFacts(
    index=0, run=7, store="a", history=HISTORY, end=Position(4, 900), durable=Position(4, 900),
    committed=Position(4, 900), begin=BEGIN,
)  # fmt: skip
EMPTY = MemberFacts(
    index=1, run=20, store="b", history=EpochHistory(), end=BEGINNING, durable=BEGINNING, committed=BEGINNING
)
HEAD = {"cluster": "c", "member": 1, "run": 20, "store": "b", "to_run": 7, "epoch": 4, "session": 1}
ASKED = msgspec.convert(HEAD | {"history": (), "end": (0, 0)}, FollowAsked)
BEAT = Heartbeat(
    cluster="c", member=0, run=7, store="a", beat=1, sent=NOW, state="solo", epoch=4, is_acting=True, is_holder=True,
    members=(0,), end=Position(4, 900), committed=Position(4, 900), accepted_epoch=4, session=1, sent_to=900,
)  # fmt: skip


def leading(members: tuple[int, ...] = (0,), **facts: object) -> Holder:
    own = Party(CONFIG, msgspec.structs.replace(LEAD, **facts), random.Random(1))
    peer = Peer()
    beat = msgspec.structs.replace(BEAT, member=1, run=20, store="b", is_holder=False, is_acting=False, session=0)
    peer.hear(beat, NOW)
    own.out.clear()
    tenure = Holder(own, peer, grant(members), HoldOff(), NOW)
    tenure.noop = 501
    return tenure


def grant(members: tuple[int, ...]) -> Grant:
    return Grant(epoch=4, members=members, accepted_by=("v0",), from_voters=Instant(NOW + SECOND))


def told(effects: list[Effect], kind: type[PeerMessage]) -> list[PeerMessage]:
    found = [one.message for one in effects if isinstance(one, TellPeer) and isinstance(one.message, kind)]
    effects.clear()
    return list(found)


def acked(durable: int, *, is_complete: bool) -> FollowAcked:
    return msgspec.convert(HEAD | {"received": durable, "durable": durable, "is_complete": is_complete}, FollowAcked)


# --- Holder ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{}, {"lacks_folds": True, "history": HISTORY.entries, "end": Position(4, 800)}])
def test_who_is_too_old_or_has_no_folds_is_told_where_to_begin_and_sent_nothing_before_it_has_them(
    change: dict[str, object],
) -> None:
    holder = leading()
    holder.asked(msgspec.structs.replace(ASKED, **change), NOW)
    assert not [one for one in holder.own.out if isinstance(one, Replicate)]
    (answer,) = told(holder.own.out, FollowAnswered)
    assert isinstance(answer, FollowAnswered)
    assert (answer.is_snapshot, answer.position) == (True, 300)
    assert (answer.header_crc, answer.log_time_ms) == (77, 9)
    holder.appended(900, NOW)
    assert holder.own.out == []
    holder.state_asked(msgspec.convert(HEAD | {"part": 2}, FoldsAsked))
    assert holder.own.out == [SendFolds(1, 20, 4, 2)]
    holder.own.out.clear()
    holder.acked(acked(300, is_complete=False), NOW)
    assert holder.own.out == [Replicate(1, 20, 4, 300)]


def test_who_has_all_that_was_pruned_follows_without_a_snapshot() -> None:
    holder = leading()
    holder.asked(msgspec.structs.replace(ASKED, history=HISTORY.entries, end=Position(2, 300)), NOW)
    answer = next(one.message for one in holder.own.out if isinstance(one, TellPeer))
    assert isinstance(answer, FollowAnswered)
    assert (answer.is_snapshot, answer.position) == (False, 300)
    assert Replicate(1, 20, 4, 300) in holder.own.out
    holder.own.out.clear()
    holder.state_asked(msgspec.convert(HEAD | {"part": 0}, FoldsAsked))
    assert holder.own.out == [Refused("other_session")]


def test_a_member_of_the_set_is_taken_out_before_it_gives_its_log_away() -> None:
    holder = leading(members=(0, 1))
    holder.match = 900
    ask = msgspec.structs.replace(ASKED, history=HISTORY.entries, end=Position(4, 900), lacks_folds=True)
    holder.asked(ask, NOW)
    assert not told(list(holder.own.out), FollowAnswered)
    assert any(isinstance(one, CaseTold) and one.case == "store_refused" for one in holder.own.out)
    assert holder.changes.latest.members == (0,)
    assert [one for one in holder.own.out if isinstance(one, AskVoter)]
    holder.own.out.clear()
    holder.asked(ask, NOW)
    assert not told(holder.own.out, FollowAnswered), "not before the voters have confirmed it"
    holder.changes.accepted("v0", holder.changes.latest.version)
    holder.asked(ask, NOW)
    assert told(holder.own.out, FollowAnswered)


def test_nobody_is_told_of_a_beginning_that_can_not_be_read() -> None:
    holder = leading(begin=Beginning(position=Position(2, 300), is_known=False))
    holder.asked(ASKED, NOW)
    assert holder.own.out == [Refused("beginning_unreadable")]


def test_it_is_asked_for_only_when_its_own_snapshot_has_the_folds() -> None:
    holder = leading()
    holder.asked(ASKED, NOW)
    holder.acked(acked(900, is_complete=False), NOW)
    holder.tick(NOW)
    holder.tick(Instant(NOW + 1))
    assert (holder.changes.latest.members, holder.admitting_since) == ((0,), None)
    holder.acked(acked(900, is_complete=True), NOW)
    holder.tick(Instant(NOW + 2))
    assert holder.changes.latest.members == (0, 1)


def test_a_session_that_the_log_can_not_serve_is_called_lost_and_a_new_one_begins() -> None:
    holder = leading()
    holder.asked(msgspec.structs.replace(ASKED, history=HISTORY.entries, end=Position(2, 400)), NOW)
    holder.lost(1)
    assert holder.session == SESSION_LOST
    holder.own.out.clear()
    holder.appended(900, NOW)
    assert holder.own.out == []
    holder.own.begin = Beginning(position=Position(4, 600))
    ask = msgspec.structs.replace(ASKED, session=2, history=HISTORY.entries, end=Position(2, 400))
    holder.asked(ask, NOW)
    (answer,) = told(holder.own.out, FollowAnswered)
    assert isinstance(answer, FollowAnswered)
    assert (answer.session, answer.is_snapshot, answer.position) == (2, True, 600)


def test_retention_waits_for_a_follower_that_is_here() -> None:
    holder = leading()
    assert holder.wanted_from(NOW) is None
    holder.asked(ASKED, NOW)
    holder.acked(acked(320, is_complete=False), NOW)
    assert holder.wanted_from(NOW) == 320
    assert holder.wanted_from(Instant(NOW + CONFIG.silence_ns)) is None


def test_late_words_of_a_run_before_are_not_those_of_the_follower() -> None:
    """Of a killed process, read behind a pause. What it had on its disk says nothing of the disk that is there now."""
    holder = leading()
    holder.hears(ASKED, NOW)
    holder.own.out.clear()
    late = msgspec.structs.replace(acked(900, is_complete=True), run=ASKED.run - 1)
    leaving = Leaving(cluster=late.cluster, member=late.member, run=late.run, store=late.store)
    for message in (late, leaving):
        holder.hears(message, NOW)
    assert holder.own.out == [Refused("other_session")] * 2
    assert (holder.match, holder.is_peer_leaving) == (0, False)
    holder.hears(acked(900, is_complete=True), NOW)
    assert holder.match == 900


def test_a_late_hello_of_a_run_before_takes_the_present_one_out_of_the_set_only_until_that_is_heard() -> None:
    holder = leading((0, 1))
    holder.hears(ASKED, NOW)
    holder.hears(acked(900, is_complete=True), NOW)
    beat, late = holder.peer.last, ASKED.run - 1
    assert beat is not None
    holder.peer.hear(msgspec.structs.replace(beat, run=late), NOW)
    holder.hears(msgspec.structs.replace(ASKED, run=late, history=HISTORY.entries, end=Position(4, 600)), NOW)
    assert holder.has_peer_lost
    assert holder.changes.latest.members == (0,)
    holder.peer.hear(msgspec.structs.replace(beat, beat=beat.beat + 1), NOW)
    assert not holder.has_peer_lost


# --- Follower -------------------------------------------------------------------------------------------------------


def answer(following: Following, **changes: object) -> FollowAnswered:
    fields = {"cluster": "c", "member": 0, "run": 7, "store": "a", "to_run": 20, "epoch": 4}
    fields |= {"session": following.session, "position": 300, "history": HISTORY.entries, "is_snapshot": True}
    return msgspec.convert(fields | {"header_crc": 77, "log_time_ms": 9} | changes, FollowAnswered)


def folds(following: Following, part: int, parts: int = 2, position: Position = FOLDED) -> FoldsSent:
    return FoldsSent(
        cluster="c", member=0, run=7, store="a", to_run=20, epoch=4, session=following.session, part=part, parts=parts,
        position=position, log_time_ms=5, payload=b"",
    )  # fmt: skip


def frames(following: Following, previous: int = 300, last: int = 400) -> Frames:
    return Frames(
        cluster="c", member=0, run=7, store="a", to_run=20, epoch=4, session=following.session, previous=previous,
        last=Position(2, last), committed=Position(4, 900), payload=b"",
    )  # fmt: skip


def following(**facts: object) -> Following:
    made = Following(Party(CONFIG, msgspec.structs.replace(EMPTY, **facts), random.Random(1)), BEAT, NOW)
    made.own.out.clear()
    return made


def parts_asked(effects: list[Effect]) -> list[int]:
    return [one.part for one in told(effects, FoldsAsked) if isinstance(one, FoldsAsked)]


def test_the_log_is_put_away_first_and_nothing_is_acknowledged_before_the_folds_are_here() -> None:
    made = following(history=EpochHistory((EpochEntry(2, 1, 11),)), end=Position(2, 50), committed=Position(2, 40))
    own = made.own
    assert made.answered(answer(made))
    assert own.out[0] == StartOver(BEGIN, HISTORY)
    assert [type(one) for one in own.out] == [StartOver, PersistStore, TellPeer]
    assert (own.end, own.durable, own.committed) == (BEGIN.position,) * 3
    assert (own.is_complete, own.lacks_folds) == (False, True)
    assert parts_asked(own.out) == [0]
    made.frames(frames(made))
    assert own.out == [Refused("folds_first")]
    own.out.clear()
    made.folds(folds(made, 0))
    assert isinstance(own.out[0], TakeFolds)
    assert parts_asked(own.out) == [1]
    made.folds(folds(made, 1))
    (ack,) = told(own.out, FollowAcked)
    assert isinstance(ack, FollowAcked)
    assert (ack.received, ack.durable, ack.is_complete) == (300, 300, False)
    made.frames(frames(made))
    assert any(isinstance(one, AppendFrames) for one in own.out)
    assert own.committed == Position(2, 400)


def test_what_the_holder_does_not_have_is_told_when_the_log_is_put_away() -> None:
    made = following(history=EpochHistory((EpochEntry(3, 1, 99),)), end=Position(3, 50), committed=Position(3, 40))
    made.answered(answer(made))
    assert {one.case for one in made.own.out if isinstance(one, CaseTold)} == {"history_at_risk", "tail_quarantined"}


def test_parts_of_two_snapshots_are_not_mixed() -> None:
    made = following()
    made.answered(answer(made))
    made.folds(folds(made, 0))
    made.own.out.clear()
    made.folds(folds(made, 1, position=Position(4, 801)))
    assert made.own.out == [Refused("folds_moved")]
    assert made.wants_part == 0


@pytest.mark.parametrize(("part", "parts", "reason"), [(1, 2, "other_part"), (0, 0, "impossible_folds")])
def test_a_part_that_was_not_asked_for_is_refused(part: int, parts: int, reason: str) -> None:
    made = following()
    made.answered(answer(made))
    made.own.out.clear()
    made.folds(folds(made, part, parts))
    assert made.own.out == [Refused(reason)]


def test_folds_of_before_the_log_begins_are_refused() -> None:
    made = following()
    made.answered(answer(made))
    made.own.out.clear()
    made.folds(folds(made, 0, position=Position(2, 299)))
    assert made.own.out == [Refused("impossible_folds")]


def test_a_part_that_got_lost_is_asked_for_again() -> None:
    made = following()
    made.ask(NOW)
    made.answered(answer(made))
    made.own.out.clear()
    made.heartbeat(BEAT, Instant(NOW + CONFIG.heartbeat_ns))
    assert parts_asked(made.own.out) == []
    made.heartbeat(BEAT, Instant(NOW + CONFIG.silence_ns))
    assert parts_asked(made.own.out) == [0]
    assert made.own.committed == BEGIN.position, "nothing is committed meanwhile"


def test_without_folds_only_a_snapshot_is_taken() -> None:
    made = following(history=HISTORY, end=Position(4, 900), is_complete=False)
    assert not made.answered(answer(made, is_snapshot=False))
    assert made.own.out == [Refused("impossible_answer")]


def test_folds_of_a_branch_that_is_no_more_are_not_gone_on_with() -> None:
    """A holder was forced to lead from before the folds: what they say above that never happened."""
    made = following()
    made.answered(answer(made))
    for part in (0, 1):
        made.folds(folds(made, part))
    forked = EpochHistory((EpochEntry(2, 1, 11), EpochEntry(4, 501, 12), EpochEntry(6, 700, 13)))
    again = Following(made.own, msgspec.structs.replace(BEAT, epoch=6), NOW)
    session = again.session
    made.own.out.clear()
    assert not again.answered(answer(again, epoch=6, position=300, history=forked.entries, is_snapshot=False))
    assert Refused("folds_of_another_branch") in made.own.out
    assert not [one for one in made.own.out if isinstance(one, CutTo)]
    again.ask(NOW)
    (ask,) = told(made.own.out, FollowAsked)
    assert isinstance(ask, FollowAsked)
    assert ask.lacks_folds
    assert ask.session > session


def test_a_member_without_its_folds_stands_for_nothing_and_can_not_be_forced_to_lead() -> None:
    machine = Member(CONFIG, msgspec.structs.replace(EMPTY, is_complete=False), random.Random(1), Instant(0))
    machine.step(Started(), Instant(0))
    assert not [one for one in machine.step(TimePassed(), Instant(60 * SECOND)) if isinstance(one, AskVoter)]
    assert Refused("state_incomplete") in machine.step(ForceAsked(), Instant(60 * SECOND))


# --- Repair ---------------------------------------------------------------------------------------------------------

ROTTEN: dict[str, object] = {
    "history": HISTORY,
    "end": Position(4, 900),
    "durable": Position(4, 900),
    "committed": Position(4, 900),
}
ROTTEN |= {"committed": Position(4, 900), "is_whole": False, "damaged_from": 450}


def piece(made: Following, after: int, **changes: object) -> RangeSent:
    fields = {"cluster": "c", "member": 0, "run": 7, "store": "a", "to_run": 20, "epoch": 4}
    return msgspec.convert(fields | {"session": made.session, "after": after, "payload": b"f"} | changes, RangeSent)


def test_damage_is_fetched_piece_by_piece_and_the_member_is_complete_when_all_can_be_read() -> None:
    made = following(**ROTTEN)
    own = made.own
    assert made.answered(answer(made, position=900, is_snapshot=False))
    asked = [one.message for one in own.out if isinstance(one, TellPeer)]
    assert [type(one) for one in asked] == [FollowAcked, RangeAsked]
    assert isinstance(asked[0], FollowAcked) and not asked[0].is_complete
    assert isinstance(asked[1], RangeAsked) and asked[1].after == 449
    own.out.clear()
    made.hears(piece(made, 460))
    assert own.out == [Refused("other_range")]
    own.out.clear()
    made.hears(piece(made, 449))
    assert own.out == [RepairLog(b"f")]
    own.out.clear()
    own.damaged(470)
    made.ask_range()
    assert [one.after for one in told(own.out, RangeAsked) if isinstance(one, RangeAsked)] == [469]
    own.damaged(0)
    made.ask_range()
    made.acknowledge()
    (ack,) = told(own.out, FollowAcked)
    assert isinstance(ack, FollowAcked) and ack.is_complete


def test_what_the_holder_has_let_go_of_can_not_be_repaired_and_a_snapshot_is_asked_for() -> None:
    made = following(**ROTTEN)
    made.answered(answer(made, position=900, is_snapshot=False))
    made.hears(piece(made, 449, is_gone=True))
    made.own.out.clear()
    made.ask(NOW)
    (ask,) = told(made.own.out, FollowAsked)
    assert isinstance(ask, FollowAsked) and ask.lacks_folds and ask.is_damaged
    assert made.answered(answer(made))
    assert made.own.is_whole


def test_damage_above_the_common_point_goes_with_the_cut() -> None:
    made = following(**ROTTEN | {"damaged_from": 850})
    made.answered(answer(made, position=800, is_snapshot=False))
    assert made.own.is_whole
    assert told(made.own.out, RangeAsked) == []


def test_the_holder_reads_its_own_frames_for_the_session_that_asks() -> None:
    holder = leading()
    holder.asked(msgspec.structs.replace(ASKED, history=HISTORY.entries, end=Position(4, 900)), NOW)
    holder.own.out.clear()
    holder.hears(msgspec.convert(HEAD | {"after": 449}, RangeAsked), NOW)
    assert holder.own.out == [SendRange(1, 20, 4, 449)]
    holder.own.out.clear()
    holder.hears(msgspec.convert(HEAD | {"after": 449, "session": 9}, RangeAsked), NOW)
    assert holder.own.out == [Refused("other_session")]


def test_damage_found_in_the_set_leads_out_of_it_before_anything_is_repaired() -> None:
    facts = msgspec.structs.replace(EMPTY, **ROTTEN | {"is_whole": True, "damaged_from": 0})
    machine = Member(CONFIG, facts, random.Random(1), Instant(0))
    machine.step(Started(), Instant(0))
    machine.step(FromPeer(msgspec.structs.replace(BEAT, session=0)), NOW)
    assert machine.following is not None
    machine.step(FromPeer(answer(machine.following, position=900, is_snapshot=False)), NOW)
    beat = msgspec.structs.replace(BEAT, beat=2, members=(0, 1), session=machine.following.session)
    moved = machine.step(FromPeer(beat), NOW) + machine.step(DamageFound(450), NOW)
    assert [(one.old, one.new) for one in moved if isinstance(one, Transitioned)] == [
        (State.CATCHING_UP, State.READY),
        (State.READY, State.JOINING),
    ]
    effects = machine.step(FromPeer(msgspec.structs.replace(beat, beat=3)), Instant(NOW + SECOND))
    (ask,) = told(effects, FollowAsked)
    assert isinstance(ask, FollowAsked) and ask.is_damaged
