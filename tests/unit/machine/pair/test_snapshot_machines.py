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
    Commit,
    CutTo,
    Effect,
    ForceAsked,
    FromPeer,
    LogChanged,
    MemberStarted,
    Objection,
    PersistStore,
    Refused,
    RepairLog,
    Replicate,
    SendFolds,
    SendRange,
    StartOver,
    State,
    TakeFolds,
    TellPeer,
    Transitioned,
)
from albireo.machine.pair.following import Following
from albireo.machine.pair.hold_off import HoldOff
from albireo.machine.pair.holder import SESSION_LOST, Holder
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts, Party, Peer
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.log_view import Beginning, LogView
from albireo.model.position import EpochEntry, EpochHistory, Position

CONFIG = PairConfig(cluster="c", voters=("v0",))
HISTORY = EpochHistory((EpochEntry(2, 1, 11), EpochEntry(4, 501, 12)))
BEGIN = Beginning(position=Position(2, 300), header_crc=77, log_time_ms=9)
FOLDED = Position(4, 800)
NOW = Instant(SECOND)
LEAD = MemberFacts(index=0, run=7, store="a")
EMPTY = MemberFacts(index=1, run=20, store="b")
NEW = LogView()
HEAD = {"cluster": "c", "member": 1, "run": 20, "store": "b", "to_run": 7, "epoch": 4, "session": 1}
ASKED = msgspec.convert(HEAD | {"history": (), "end": (0, 0)}, FollowAsked)
BEAT = Heartbeat(feature_level=1, log_level=1,
    cluster="c", member=0, run=7, store="a", beat=1, sent=NOW, state="solo", epoch=4, is_acting=True, is_holder=True,
    members=(0,), end=Position(4, 900), committed=Position(4, 900), accepted_epoch=4, session=1, sent_to=900,
)  # fmt: skip


def view(end: Position, history: EpochHistory = HISTORY, **changes: object) -> LogView:
    """A log that is committed and durable to its end."""
    log = LogView(history=history, end=end, durable=end, told=end, committed=end)
    return msgspec.structs.replace(log, **changes)


def leading(members: tuple[int, ...] = (0,), begin: Beginning = BEGIN) -> Holder:
    own = Party(CONFIG, LEAD, random.Random(1))
    own.log = view(Position(4, 900), begin=begin)
    peer = Peer()
    beat = msgspec.structs.replace(BEAT, member=1, run=20, store="b", is_holder=False, is_acting=False, session=0)
    peer.hear(beat, NOW)
    return Holder(own, peer, grant(members), HoldOff(), NOW)


def grant(members: tuple[int, ...]) -> Grant:
    return Grant(epoch=4, members=members, accepted_by=("v0",), from_voters=Instant(NOW + SECOND))


def told(effects: list[Effect], kind: type[PeerMessage]) -> list[PeerMessage]:
    found = [one.message for one in effects if isinstance(one, TellPeer) and isinstance(one.message, kind)]
    effects.clear()
    return list(found)


def acked(durable: int, *, is_complete: bool) -> FollowAcked:
    return msgspec.convert(HEAD | {"received": durable, "durable": durable, "is_complete": is_complete}, FollowAcked)


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
    holder.send_more()
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
    assert holder.own.out == [Refused(Objection.OTHER_SESSION)]


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
    assert holder.own.out == [Refused(Objection.BEGINNING_UNREADABLE)]


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
    holder.send_more()
    assert holder.own.out == []
    holder.own.log = view(Position(4, 900), begin=Beginning(position=Position(4, 600)))
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
    assert holder.own.out == [Refused(Objection.OTHER_SESSION)] * 2
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


def answer(following: Following, **changes: object) -> FollowAnswered:
    said = FollowAnswered(
        cluster="c", member=0, run=7, store="a", to_run=20, epoch=4, session=following.session, position=300,
        history=HISTORY.entries, is_snapshot=True, header_crc=77, log_time_ms=9,
    )  # fmt: skip
    return msgspec.structs.replace(said, **changes)


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


def following(log: LogView = NEW, **facts: object) -> Following:
    own = Party(CONFIG, msgspec.structs.replace(EMPTY, **facts), random.Random(1))
    own.log = log
    return Following(own, BEAT, NOW)


def begun_over(made: Following, **changes: object) -> None:
    """The holder's snapshot is gone on with: the log has begun over."""
    assert made.answered(answer(made, **changes))
    made.own.log = view(BEGIN.position, begin=BEGIN)
    made.log_changed()


def parts_asked(effects: list[Effect]) -> list[int]:
    return [one.part for one in told(effects, FoldsAsked) if isinstance(one, FoldsAsked)]


def test_the_log_is_put_away_first_and_nothing_is_acknowledged_before_the_folds_are_here() -> None:
    made = following(view(Position(2, 50), EpochHistory((EpochEntry(2, 1, 11),)), told=Position(2, 40)))
    own = made.own
    begun_over(made)
    assert own.out[0] == StartOver(BEGIN, HISTORY)
    assert [type(one) for one in own.out] == [StartOver, PersistStore, TellPeer]
    assert (own.is_complete, own.lacks_folds) == (False, True)
    assert parts_asked(own.out) == [0]
    made.frames(frames(made))
    assert own.out == [Refused(Objection.FOLDS_FIRST)]
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
    assert own.out[-1] == Commit(Position(2, 400))


def verified() -> Following:
    """It follows, and its log ends at 300."""
    made = following(view(Position(2, 300)))
    assert made.answered(answer(made, is_snapshot=False))
    made.own.out.clear()
    return made


@pytest.mark.parametrize("last", [Position(2, 300), Position(2, 299), Position(3, 400), Position(2, 501)])
def test_frames_that_claim_an_end_that_can_not_be_are_refused(last: Position) -> None:
    made = verified()
    made.frames(msgspec.structs.replace(frames(made), last=last))
    assert made.own.out == [Refused(Objection.IMPOSSIBLE_FRAMES)]


@pytest.mark.parametrize("committed", [Position(4, 350), Position(1, 350), Position(-1, 350)])
def test_a_commit_position_of_another_epoch_than_the_log_says_is_refused(committed: Position) -> None:
    made = verified()
    made.frames(msgspec.structs.replace(frames(made), committed=committed))
    assert [type(one) for one in made.own.out] == [AppendFrames, Refused]
    assert made.own.out[-1] == Refused(Objection.IMPOSSIBLE_COMMIT)


@pytest.mark.parametrize(
    "change", [{"header_crc": -1}, {"header_crc": 1 << 32}, {"log_time_ms": -1}, {"position": 1 << 63}]
)
def test_a_beginning_that_no_log_can_have_is_refused(change: dict[str, int]) -> None:
    made = following()
    assert not made.answered(answer(made, **change))
    assert made.own.out == [Refused(Objection.IMPOSSIBLE_ANSWER)]


def test_what_the_holder_does_not_have_is_told_when_the_log_is_put_away() -> None:
    made = following(view(Position(3, 50), EpochHistory((EpochEntry(3, 1, 99),)), told=Position(3, 40)))
    made.answered(answer(made))
    assert {one.case for one in made.own.out if isinstance(one, CaseTold)} == {"history_at_risk", "tail_quarantined"}


def test_parts_of_two_snapshots_are_not_mixed() -> None:
    made = following()
    begun_over(made)
    made.folds(folds(made, 0))
    made.own.out.clear()
    made.folds(folds(made, 1, position=Position(4, 801)))
    assert made.own.out == [Refused(Objection.FOLDS_MOVED)]
    assert made.wants_part == 0


@pytest.mark.parametrize(
    ("part", "parts", "reason"), [(1, 2, Objection.OTHER_PART), (0, 0, Objection.IMPOSSIBLE_FOLDS)]
)
def test_a_part_that_was_not_asked_for_is_refused(part: int, parts: int, reason: Objection) -> None:
    made = following()
    begun_over(made)
    made.own.out.clear()
    made.folds(folds(made, part, parts))
    assert made.own.out == [Refused(reason)]


def test_folds_of_before_the_log_begins_are_refused() -> None:
    made = following()
    begun_over(made)
    made.own.out.clear()
    made.folds(folds(made, 0, position=Position(2, 299)))
    assert made.own.out == [Refused(Objection.IMPOSSIBLE_FOLDS)]


def test_a_part_that_got_lost_is_asked_for_again() -> None:
    made = following()
    made.ask(NOW)
    begun_over(made)
    made.own.out.clear()
    made.heartbeat(BEAT, Instant(NOW + CONFIG.heartbeat_ns))
    assert parts_asked(made.own.out) == []
    made.heartbeat(BEAT, Instant(NOW + CONFIG.silence_ns))
    assert parts_asked(made.own.out) == [0]
    assert not [one for one in made.own.out if isinstance(one, Commit)], "nothing is committed meanwhile"


def test_without_folds_only_a_snapshot_is_taken() -> None:
    made = following(view(Position(4, 900)), is_complete=False)
    assert not made.answered(answer(made, is_snapshot=False))
    assert made.own.out == [Refused(Objection.IMPOSSIBLE_ANSWER)]


def test_folds_of_a_branch_that_is_no_more_are_not_gone_on_with() -> None:
    """A holder was forced to lead from before the folds: what they say above that never happened."""
    made = following()
    begun_over(made)
    for part in (0, 1):
        made.folds(folds(made, part))
    forked = EpochHistory((EpochEntry(2, 1, 11), EpochEntry(4, 501, 12), EpochEntry(6, 700, 13)))
    again = Following(made.own, msgspec.structs.replace(BEAT, epoch=6), NOW)
    session = again.session
    made.own.out.clear()
    assert not again.answered(answer(again, epoch=6, position=300, history=forked.entries, is_snapshot=False))
    assert Refused(Objection.FOLDS_OF_ANOTHER_BRANCH) in made.own.out
    assert not [one for one in made.own.out if isinstance(one, CutTo)]
    again.ask(NOW)
    (ask,) = told(made.own.out, FollowAsked)
    assert isinstance(ask, FollowAsked)
    assert ask.lacks_folds
    assert ask.session > session


def test_a_member_without_its_folds_stands_for_nothing_and_can_not_be_forced_to_lead() -> None:
    machine = Member(CONFIG, msgspec.structs.replace(EMPTY, is_complete=False), random.Random(1), Instant(0))
    machine.step(MemberStarted(), NEW, Instant(0))
    assert not [one for one in machine.step(TimePassed(), NEW, Instant(60 * SECOND)) if isinstance(one, AskVoter)]
    assert Refused(Objection.STATE_INCOMPLETE) in machine.step(ForceAsked(), NEW, Instant(60 * SECOND))


WHOLE = view(Position(4, 900))
ROTTEN = view(Position(4, 900), damaged_from=450)


def piece(made: Following, after: int, **changes: object) -> RangeSent:
    fields = {"cluster": "c", "member": 0, "run": 7, "store": "a", "to_run": 20, "epoch": 4}
    return msgspec.convert(fields | {"session": made.session, "after": after, "payload": b"f"} | changes, RangeSent)


def test_damage_is_fetched_piece_by_piece_and_the_member_is_complete_when_all_can_be_read() -> None:
    made = following(ROTTEN)
    own = made.own
    assert made.answered(answer(made, position=900, is_snapshot=False))
    made.log_changed()
    asked = [one.message for one in own.out if isinstance(one, TellPeer)]
    assert [type(one) for one in asked] == [FollowAcked, RangeAsked]
    assert isinstance(asked[0], FollowAcked) and not asked[0].is_complete
    assert isinstance(asked[1], RangeAsked) and asked[1].after == 449
    own.out.clear()
    made.hears(piece(made, 460), NOW)
    assert own.out == [Refused(Objection.OTHER_RANGE)]
    own.out.clear()
    made.hears(piece(made, 449), NOW)
    assert own.out == [RepairLog(b"f")]
    own.out.clear()
    own.log = view(Position(4, 900), damaged_from=470)
    made.log_changed()
    assert [one.after for one in told(own.out, RangeAsked) if isinstance(one, RangeAsked)] == [469]
    own.log = WHOLE
    made.log_changed()
    (ack,) = told(own.out, FollowAcked)
    assert isinstance(ack, FollowAcked) and ack.is_complete


def test_what_the_holder_has_let_go_of_can_not_be_repaired_and_a_snapshot_is_asked_for() -> None:
    made = following(ROTTEN)
    made.answered(answer(made, position=900, is_snapshot=False))
    made.hears(piece(made, 449, is_gone=True), NOW)
    made.own.out.clear()
    made.ask(NOW)
    (ask,) = told(made.own.out, FollowAsked)
    assert isinstance(ask, FollowAsked) and ask.lacks_folds and ask.is_damaged
    begun_over(made)
    assert parts_asked(made.own.out) == [0]


def test_damage_above_the_common_point_goes_with_the_cut() -> None:
    made = following(view(Position(4, 900), damaged_from=850))
    made.answered(answer(made, position=800, is_snapshot=False))
    assert CutTo(800) in made.own.out
    made.own.log = view(Position(4, 800))
    made.log_changed()
    assert told(made.own.out, RangeAsked) == []


def test_the_holder_reads_its_own_frames_for_the_session_that_asks() -> None:
    holder = leading()
    holder.asked(msgspec.structs.replace(ASKED, history=HISTORY.entries, end=Position(4, 900)), NOW)
    holder.own.out.clear()
    holder.hears(msgspec.convert(HEAD | {"after": 449}, RangeAsked), NOW)
    assert holder.own.out == [SendRange(1, 20, 4, 449)]
    holder.own.out.clear()
    holder.hears(msgspec.convert(HEAD | {"after": 449, "session": 9}, RangeAsked), NOW)
    assert holder.own.out == [Refused(Objection.OTHER_SESSION)]


def test_damage_found_in_the_set_leads_out_of_it_before_anything_is_repaired() -> None:
    machine = Member(CONFIG, EMPTY, random.Random(1), Instant(0))
    machine.step(MemberStarted(), WHOLE, Instant(0))
    machine.step(FromPeer(msgspec.structs.replace(BEAT, session=0)), WHOLE, NOW)
    assert machine.following is not None
    machine.step(FromPeer(answer(machine.following, position=900, is_snapshot=False)), WHOLE, NOW)
    beat = msgspec.structs.replace(BEAT, beat=2, members=(0, 1), session=machine.following.session)
    moved = machine.step(FromPeer(beat), WHOLE, NOW) + machine.step(LogChanged(), ROTTEN, NOW)
    assert [(one.old, one.new) for one in moved if isinstance(one, Transitioned)] == [
        (State.CATCHING_UP, State.READY),
        (State.READY, State.JOINING),
    ]
    effects = machine.step(FromPeer(msgspec.structs.replace(beat, beat=3)), ROTTEN, Instant(NOW + SECOND))
    (ask,) = told(effects, FollowAsked)
    assert isinstance(ask, FollowAsked) and ask.is_damaged
