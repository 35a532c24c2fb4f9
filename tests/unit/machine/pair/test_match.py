"""Match: how much the holder counts on at the other member, when that comes back with less than it had."""

import random

import msgspec

from albireo.codec.message import decode, encode
from albireo.codec.pair_message import Accept, FollowAcked, FollowAsked, Heartbeat
from albireo.machine.pair.candidacy import Grant
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import AskVoter
from albireo.machine.pair.hold_off import HoldOff
from albireo.machine.pair.holder import SESSION_LOST, Holder
from albireo.machine.pair.party import MemberFacts, Party, Peer
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.log_view import LogView
from albireo.model.position import BEGINNING, EpochEntry, EpochHistory, Position

CONFIG = PairConfig(cluster="c", voters=("v0",))
HISTORY = EpochHistory((EpochEntry(4, 1, 12),))
END = Position(4, 900)
NOW = Instant(SECOND)
LOG = LogView(history=HISTORY, end=END, durable=END, told=END, committed=END)
BEAT = Heartbeat(feature_level=1, log_level=1,
    cluster="c", member=1, run=20, store="b", beat=1, sent=NOW, state="joining", epoch=0, is_acting=False,
    is_holder=False, end=BEGINNING, committed=BEGINNING, accepted_epoch=4,
)  # fmt: skip


def asked(run: int, session: int, end: Position, history: EpochHistory = HISTORY) -> FollowAsked:
    return FollowAsked(
        cluster="c", member=1, run=run, store="b", to_run=7, epoch=4, session=session, history=history.entries, end=end
    )


def acked(run: int, session: int, durable: int) -> FollowAcked:
    return FollowAcked(
        cluster="c", member=1, run=run, store="b", to_run=7, epoch=4, session=session, received=durable,
        durable=durable, has_gap=False, is_complete=True,
    )  # fmt: skip


def solo() -> Holder:
    """A holder alone in the set, with nothing under way: all of its log is committed, and nothing more comes."""
    own = Party(CONFIG, MemberFacts(index=0, run=7, store="a"), random.Random(1))
    own.log = LOG
    peer = Peer()
    peer.hear(BEAT, NOW)
    grant = Grant(epoch=4, members=(0,), accepted_by=("v0",), from_voters=Instant(NOW + SECOND))
    return Holder(own, peer, grant, HoldOff(), NOW)


def adds(holder: Holder, now: Instant) -> bool:
    """Whether the other member is asked into the set at this look."""
    holder.own.out.clear()
    holder.tick(now)
    accepts = [one.question for one in holder.own.out if isinstance(one, AskVoter)]
    return any(isinstance(one, Accept) and one.record.members == (0, 1) for one in accepts)


def test_an_empty_disk_that_comes_back_while_nothing_is_appended_is_added_only_when_it_has_everything_again() -> None:
    """What its run before had acknowledged stood on a disk that is no more: nothing of it counts."""
    holder = solo()
    holder.hears(asked(20, 1, END), NOW)
    holder.hears(acked(20, 1, 900), NOW)
    assert holder.match == 900

    holder.peer.hear(msgspec.structs.replace(BEAT, run=21), NOW)
    holder.hears(asked(21, 1, BEGINNING, EpochHistory()), NOW)
    assert holder.match == 0
    now = NOW
    for durable in (0, 300, 899):
        holder.hears(acked(21, 1, durable), now)
        for _ in range(3):
            now = Instant(now + 10 * MS)
            assert not adds(holder, now), f"{durable} of 900 on its disk"
    holder.hears(acked(21, 1, 900), now)
    assert adds(holder, Instant(now + 10 * MS))


def test_a_member_that_comes_back_is_not_added_before_its_new_run_has_said_what_it_has() -> None:
    """Found by worlds with quiet phases: its first heartbeat was enough, as nothing had been appended since the last
    acknowledgement of the run before, and the disk was another by then."""
    holder = solo()
    holder.hears(asked(20, 1, END), NOW)
    holder.hears(acked(20, 1, 900), NOW)
    holder.peer.hear(msgspec.structs.replace(BEAT, run=21), NOW)
    assert not adds(holder, Instant(NOW + 10 * MS))
    assert not adds(holder, Instant(NOW + 20 * MS))
    holder.hears(asked(21, 1, END), NOW)
    assert adds(holder, Instant(NOW + 30 * MS))


def test_a_late_acknowledgement_of_the_run_before_says_nothing_of_the_disk_that_came_back() -> None:
    holder = solo()
    holder.hears(asked(20, 1, END), NOW)
    holder.peer.hear(msgspec.structs.replace(BEAT, run=21), NOW)
    holder.hears(asked(21, 1, BEGINNING, EpochHistory()), NOW)
    holder.hears(acked(20, 1, 900), NOW)
    assert holder.match == 0


def test_a_heartbeat_can_say_over_a_link_that_the_session_is_lost() -> None:
    beat = msgspec.structs.replace(BEAT, session=SESSION_LOST)
    assert decode(encode(beat))[0] == beat
