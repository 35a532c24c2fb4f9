"""Holder: what the member that the voters' record names does for its set, its lease and its follower.

    confirmed record -> no-op appended -> no-op committed -> acting
    other lost       -> ask {self}, acknowledge nothing until confirmed
    other level      -> admit: acknowledgements wait for it -> ask {both}
    lease over       -> suspended: READ, then the same epoch again

Invariants
    commit:    never above what is durable here and on each member that `required` names, as verified in this epoch;
               never before a record of this epoch is.
    match:     what the other member acknowledged in this epoch; it falls only when that member leaves the set.
    admitting: the other member is not in the set yet, but acknowledgements wait for it already.

Spec: design/pair.md, rules 3 to 7.
"""

from typing import ClassVar, Final

from albireo.codec.pair_message import (
    Accept,
    FoldsAsked,
    FollowAcked,
    FollowAnswered,
    FollowAsked,
    FromFollower,
    Heartbeat,
    Leaving,
    RangeAsked,
    Record,
    Voted,
)
from albireo.machine.kernel.permit import Permit
from albireo.machine.pair.candidacy import Grant
from albireo.machine.pair.config import after
from albireo.machine.pair.events import CaseTold, Objection, Replicate, SendFolds, SendRange, State
from albireo.machine.pair.gain import Gain
from albireo.machine.pair.hold_off import HoldOff
from albireo.machine.pair.lease import Lease
from albireo.machine.pair.levels import Levels
from albireo.machine.pair.party import Party, Peer
from albireo.machine.pair.set_changes import SetChanges
from albireo.model.instant import Instant
from albireo.model.log_view import Beginning
from albireo.model.position import EpochHistory, Position

SESSION_LOST: Final = -1
"""Session in a heartbeat that says: nothing more comes in the last session; ask again."""


class Holder:
    """One tenure. Its methods are events; effects go to `own.out`."""

    changes_type: ClassVar[type[SetChanges]] = SetChanges
    lease_type: ClassVar[type[Lease]] = Lease

    def __init__(self, own: Party, peer: Peer, grant: Grant, hold_off: HoldOff, now: Instant) -> None:
        config = own.config
        self.own = own
        self.peer = peer
        self.grant = grant
        self.epoch = grant.epoch
        self.changes = self.changes_type(grant.members, config.majority)
        for voter in grant.accepted_by:
            self.changes.accepted(voter, 1)
        if grant.is_decided:
            self.changes.decide()
        self.lease = self.lease_type(config, grant.from_voters)
        self.hold_off = hold_off
        self.may_renew = True
        self.has_yielded = False
        self.must_raise = False
        self.match = 0
        self.session = 0
        self._session_run = 0
        self._session_start = 0
        self._given: Beginning | None = None
        """Beginning of the follower's log, if the session began with a snapshot."""
        self._flows = False
        """True: frames are sent. After a snapshot the folds come first, and the first acknowledgement after them."""
        self.received = self.sent_to = 0
        self.moved_at = now
        """Instant since which the other member's durable position stands still while something waits for it."""
        self._was_level = False
        """True: at the last look the other member had all of this log."""
        self._stood_at = -1
        """Value of `match` when the other member was taken out of the set; no use in adding it before it has moved."""
        self.admitting_since: Instant | None = None
        self.is_peer_complete = True
        self.is_peer_leaving = False
        self._lost_by = 0
        self.levels = Levels(own, peer.last)
        self.gain = Gain(config, now)
        self._admitting_ns = config.solo_after_ns
        self._unsynced: tuple[int, Instant, Instant] | None = None
        self.renew_at = now

    @property
    def noop(self) -> int:
        """Sequence of the first record of this epoch, 0 until it is appended."""
        log = self.own.log
        return log.history.entries[-1].first_sequence if log.end.epoch == self.epoch else 0

    @property
    def record(self) -> Record:
        own, latest = self.own, self.changes.latest
        return Record(
            cluster=own.config.cluster,
            voters=own.config.voters,
            generation=own.config.generation,
            epoch=self.epoch,
            version=latest.version,
            holder=own.index,
            run=own.run,
            members=latest.members,
            lease_ns=own.config.lease_ns,
            is_forced=self.grant.is_forced,
        )

    @property
    def is_alone(self) -> bool:
        """True, ground (c): the confirmed set is the holder itself and no add was sent since."""
        return self.changes.confirmed == (self.own.index,) and self.changes.required == {self.own.index}

    @property
    def has_peer_lost(self) -> bool:
        """True: the other member came back with less than it had acknowledged: out of the set first, then repaired.

        That is a fact of its present run: a late hello of the run before says nothing.
        """
        return self._lost_by == self.peer.run != 0

    @property
    def is_followed(self) -> bool:
        """True: the other member follows in its present run. What an earlier one had says nothing: its disk may be
        another by now."""
        return self.session > 0 and self._session_run == self.peer.run

    @property
    def needs_peer(self) -> bool:
        return self.own.other in self.changes.required

    def ask_set(self, members: tuple[int, ...], now: Instant) -> None:
        """Ask the voters for another set; sent again with each renewal until confirmed or deposed."""
        was_in = self.own.other in self.changes.confirmed
        self.changes.ask(members)
        self.admitting_since = None
        if not self.own.config.voters:
            self.changes.decide()
        if members == (self.own.index,) and was_in:
            self.hold_off = self.hold_off.lost(now, self.own.config)
            self._stood_at = self.match
        self.moved_at = now
        if self.may_renew:
            self.renew(now)

    def renew(self, now: Instant) -> None:
        """Send one round to all voters: renewal, set change and repair alike."""
        own = self.own
        number = own.next_round()
        self.renew_at = after(now, own.config.renew_ns)
        self.lease.sent(number, now)
        own.ask_all(Accept(**own.voter_head, round=number, record=self.record, floor=own.log.told))

    def voted(self, voted: Voted, now: Instant) -> str:
        """Take an answer to a round of this tenure; returns why the tenure is over, or nothing."""
        record = voted.record
        if record is not None and record.epoch > self.epoch:
            return "higher_record"
        if voted.is_granted and record is not None and (record.epoch, record.run) == (self.epoch, self.own.run):
            if self.may_renew:
                self.lease.confirmed(voted.round, voted.voter, now)
            if self.changes.accepted(voted.voter, record.version) and self.changes.confirmed == (0, 1):
                self.hold_off = self.hold_off.added(now)
        elif voted.promised > self.epoch:
            self.must_raise = True
        return ""

    def tick(self, now: Instant) -> None:
        """Do everything that only the log and the passing of time decide."""
        self._note_synced(now)
        is_level = self.match >= self.own.log.end.sequence
        if self._was_level and not is_level:
            self.moved_at = now
        self._was_level = is_level
        self._watch_peer(now)
        if self.may_renew and not self.has_yielded and now >= self.renew_at and not self.is_stalled(now):
            self.renew(now)

    def _watch_peer(self, now: Instant) -> None:
        own, config = self.own, self.own.config
        if not self.changes.confirmed or self.has_yielded:
            return
        if self.changes.latest.members != (own.index,):
            stands = own.log.end.sequence > self.match and now - self.moved_at >= self.hold_off.patience_ns(config)
            is_present = self.peer.is_present(now, config)
            is_lost = stands or self.is_peer_leaving or not is_present or self.levels.apart
            if is_lost and (is_present or self._has_ears()):
                self.ask_set((own.index,), now)
        else:
            self._consider_add(now)

    def compare(self, other: Heartbeat) -> None:
        """Judge the other member's level: the log is raised while both are in the set and both know more."""
        changes = self.changes
        are_in = not self.has_yielded and changes.confirmed == (0, 1) and not changes.has_unresolved
        self.levels.compare(other, are_in=are_in)
        if self.levels.apart:  # Nobody follows: nothing is sent, nothing is kept.
            self.session, self._flows, self._given = 0, False, None

    def _has_ears(self) -> bool:
        """True: voters are heard since the other member fell silent. Otherwise this member may be the deaf one.

        A holder that is deaf and not dumb would take the other out of the set and never learn of it: nobody could lead.
        """
        config, peer = self.own.config, self.peer
        asked_at = self.lease.from_voters - config.lease_ns
        return peer.is_gone or not config.voters or asked_at > peer.heard_at + 2 * config.heartbeat_ns

    def _consider_add(self, now: Instant) -> None:
        """Ask for a set with the other member once it follows again and lacks nothing that is committed.

        Under load it always lags a round behind what a lone holder commits. So acknowledgements wait for it first
        (admitting), and the add is sent when it has reached the commit position, which then stands still.
        """
        own, config, gain = self.own, self.own.config, self.gain
        if self.is_followed and self._flows:
            gain.looks(own.log.told.sequence, self.match, now)
        near_ns = gain.near_ns(self.hold_off.patience_ns(config), now)
        if not self._is_fit(now) or (self.admitting_since is None and gain.late_ns > near_ns):
            self.admitting_since = None
            return
        if self.admitting_since is None:
            self.admitting_since, self._admitting_ns = now, 2 * near_ns
        elif now - self.admitting_since >= self._admitting_ns:
            self.admitting_since = None
            self.hold_off = HoldOff(now, self.hold_off.wait_ns).lost(now, config)
            return
        if self.match >= max(own.log.told.sequence, self.noop) and now < self.lease.until and self.may_renew:
            self.ask_set((0, 1), now)

    def _is_fit(self, now: Instant) -> bool:
        """True: the other member may be added, as far as it is itself concerned."""
        is_free = now >= self.hold_off.not_before or self.needs_peer
        is_here = self.is_followed and self.peer.is_present(now, self.own.config)
        moves = self.match > self._stood_at or self.match >= self.own.log.end.sequence
        return bool(
            self.noop and is_free and is_here and moves and self.is_peer_complete and not self.is_peer_leaving
            and not self.has_peer_lost and not self.levels.apart
        )  # fmt: skip

    def is_stalled(self, now: Instant) -> bool:
        """True: the oldest append waits for its sync too long: this disk hangs, let somebody else lead."""
        return self._unsynced is not None and now - self._unsynced[1] >= self.own.config.sync_stall_ns

    def _note_synced(self, now: Instant) -> None:
        """Take note of what is on this disk.

        The mark, `_unsynced`, moves when what was appended before it is durable; a new one counts from the mark before.
        """
        log = self.own.log
        is_caught_up = log.durable.sequence >= log.end.sequence
        if self._unsynced is None:
            self._unsynced = None if is_caught_up else (log.end.sequence, now, now)
        elif log.durable.sequence >= self._unsynced[0]:
            self._unsynced = None if is_caught_up else (log.end.sequence, self._unsynced[2], now)

    def send_more(self) -> None:
        """Have the follower sent by what the log grew."""
        end = self.own.log.end.sequence
        if self._flows and self.sent_to < end:
            self.own.out.append(Replicate(self.session, self.peer.run, self.epoch, self.sent_to))
            self.sent_to = end

    def hears(self, message: FromFollower, now: Instant) -> None:
        """Take a message of the follower. Only a hello may be of another run: the rest may be of a run before."""
        if message.run != self._session_run and not isinstance(message, FollowAsked):
            self.own.refuse(Objection.OTHER_SESSION)
            return
        match message:
            case FollowAsked() if self.levels.apart is not None:
                self.own.refuse(self.levels.apart)
            case FollowAsked():
                self.asked(message, now)
            case FollowAcked():
                self.acked(message, now)
            case FoldsAsked() | RangeAsked():
                self.state_asked(message)
            case Leaving():
                self.is_peer_leaving = True

    def asked(self, hello: FollowAsked, now: Instant) -> None:
        """Answer a member that wants to follow: find the last record that both histories prove equal."""
        own, log = self.own, self.own.log
        if not self.changes.confirmed or hello.epoch != self.epoch:
            own.refuse(Objection.NOT_HOLDER)
            return
        if hello.run == self._session_run and hello.session <= self.session:
            if hello.session == self.session:
                self._answer(hello)  # The answer got lost, or the hello was repeated below.
            else:
                own.refuse(Objection.OLD_SESSION)
            return
        theirs = EpochHistory.told(hello.history)
        if theirs is None or hello.end.sequence < 0:
            own.refuse(Objection.IMPOSSIBLE_HISTORY)
            return
        common = log.history.common_point(theirs, log.end.sequence, hello.end.sequence)
        is_too_old = hello.lacks_folds or common < log.begin.position.sequence
        is_less = hello.is_damaged or is_too_old or common < max(log.told.sequence, self.match)
        if self.needs_peer and is_less:
            self._peer_lost(hello.run, common, now)
            return
        if is_too_old and not log.begin.is_known:
            own.refuse(Objection.BEGINNING_UNREADABLE)
            return
        if hello.is_damaged:
            own.out.append(CaseTold("store_refused", True, "records below its commit position are damaged"))
        self._lost_by, self.is_peer_leaving = 0, False
        self._given, self._flows = (log.begin, False) if is_too_old else (None, True)
        if is_too_old:
            common, self.is_peer_complete = log.begin.position.sequence, False
        self._was_level = False
        self._stood_at = -1
        self.received = self.sent_to = common
        if not self.needs_peer:
            self.match = min(self.match, common)
            self.admitting_since = None
        self.session, self._session_run, self._session_start = hello.session, hello.run, common
        self.gain.begins(log.told.sequence, self.match, now)
        self._answer(hello)
        self.send_more()

    def _peer_lost(self, run: int, common: int, now: Instant) -> None:
        """Take the other member out of the set: it has less than it had acknowledged."""
        own = self.own
        self._lost_by = run
        own.out.append(CaseTold("store_refused", True, f"has {common}, acknowledged {self.match}"))
        if self.changes.latest.members != (own.index,):
            self.ask_set((own.index,), now)

    def state_asked(self, ask: FoldsAsked | RangeAsked) -> None:
        """Give the follower what it asks for: a part of the folds, or frames that it can't read."""
        is_range = isinstance(ask, RangeAsked)
        if (ask.epoch, ask.session) != (self.epoch, self.session) or (self._given is None) is not is_range:
            self.own.refuse(Objection.OTHER_SESSION)
        elif isinstance(ask, RangeAsked):
            self.own.out.append(SendRange(ask.session, ask.run, ask.epoch, ask.after))
        else:
            self.own.out.append(SendFolds(ask.session, ask.run, ask.epoch, ask.part))

    def lost(self, session: int) -> None:
        """End a session: the log has let go of what comes next in it."""
        if session == self.session:
            self.session, self._flows, self._given = SESSION_LOST, False, None

    def wanted_from(self, now: Instant) -> int | None:
        """Last sequence on the follower's disk, for which retention should wait; None: nobody follows."""
        is_here = self.session != 0 and self.peer.is_present(now, self.own.config)
        return self.match if is_here else None

    def _answer(self, hello: FollowAsked) -> None:
        own, given = self.own, self._given
        own.tell(
            FollowAnswered(
                **own.peer_head,
                to_run=hello.run,
                epoch=self.epoch,
                session=hello.session,
                position=self._session_start,
                history=own.log.history.entries,
                is_snapshot=given is not None,
                header_crc=0 if given is None else given.header_crc,
                log_time_ms=0 if given is None else given.log_time_ms,
            )
        )

    def acked(self, ack: FollowAcked, now: Instant) -> None:
        """Take what the other member verified in this session and epoch."""
        least, most = min(ack.received, ack.durable), max(ack.received, ack.durable)
        is_possible = least >= 0 and most <= self.own.log.end.sequence
        if (ack.epoch, ack.session) != (self.epoch, self.session) or not is_possible:
            self.own.refuse(Objection.OTHER_SESSION)
            return
        self.is_peer_complete, self._flows = ack.is_complete, True
        self.received = max(self.received, ack.received)
        durable = self._counts(ack)
        if durable > self.match:
            self.match = durable
            self.moved_at = now
        if ack.has_gap:
            self.sent_to = ack.received
        self.send_more()

    def _counts(self, ack: FollowAcked) -> int:
        return ack.durable

    def commit(self, now: Instant) -> None:
        own, sequence, noop = self.own, self._committable(), self.noop
        is_early = now - self.gain.committed_at < self.slow_ns
        if self.changes.confirmed and noop and sequence >= noop and sequence > own.log.told.sequence and not is_early:
            self.gain.committed_at = now
            own.commit(Position(self.epoch, sequence))

    @property
    def slow_ns(self) -> int:
        """Time for which each commit waits, so that a follower that is not in the set comes nearer; 0: none does."""
        return 0 if self._waits_for_peer or not self.is_followed else self.gain.slow_ns

    def _committable(self) -> int:
        """Highest sequence that is durable wherever it must be."""
        durable = self.own.log.durable.sequence
        return min(durable, self.match) if self._waits_for_peer else durable

    def awaits_disk(self, durable: Position) -> bool:
        """True: the next commit follows from the own sync, not from the other member's."""
        return not self._waits_for_peer or self.match > durable.sequence

    @property
    def _waits_for_peer(self) -> bool:
        return self.needs_peer or self.admitting_since is not None

    def state(self, now: Instant) -> State:
        """State that this tenure amounts to at `now`."""
        if self.has_yielded or not (now < self.lease.until or self.is_alone):
            return State.SUSPENDED
        noop = self.noop
        if not noop or self.own.log.told.sequence < noop:
            return State.RECOVERING
        return State.SOLO if self.changes.confirmed == (self.own.index,) else State.ACTIVE

    def permit(self, now: Instant) -> Permit:
        """Permit that an output order made now must carry."""
        until = max(self.lease.until, after(now, self.own.config.lease_ns) if self.is_alone else Instant(0))
        return Permit(self.epoch, self.grant.not_before, until)
