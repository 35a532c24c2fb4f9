"""Status: what a member tells of its pair: who leads, who has what, who hears whom and what was refused.

The status only listens: nothing here decides anything.
Spec: design/pair.md, rules 3, 13 and Bad input; docs/pair.md.
"""

from collections import Counter
from typing import Final

import msgspec

from albireo.codec.message import HistoryTold
from albireo.codec.pair_message import CopyTold, Heartbeat, HeartbeatAnswered, PeerMessage, Record, Voted
from albireo.machine.kernel.events import MemberSaid, PairFigures
from albireo.machine.pair.events import CaseTold, State
from albireo.machine.pair.levels import why_apart
from albireo.machine.pair.member import Member
from albireo.machine.tree.neighbours import said_by
from albireo.machine.vote.voter import VoterRefusal
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.model.log_view import LogView
from albireo.model.position import EpochHistory
from albireo.model.status import CatchingUp, OtherMember, PairStatus, PlcVoterStatus, VoterRecord, VoterStatus
from albireo.node.member.marks import UNREADABLE, MarkedCase, Marks
from albireo.node.membership.pair_arguments import Seats

VOTER_SILENT_NS: Final = 3 * SECOND
"""Time without an answer after which a voter counts as silent; it is asked at least once a second."""
REASONS: Final = frozenset(one.value for one in VoterRefusal)
"""Reasons of a voter against a question; any other word of a voter is counted as `other`."""


UNTIL_SEEN: Final = frozenset({"history_at_risk", "tail_quarantined", UNREADABLE})
"""Cases that stand, over restarts, until somebody has looked: nothing else can say that nothing is lost."""
CARRIED: Final = UNTIL_SEEN | {"store_refused", "disk_refuses", "no_room"}
"""Cases that the other member shows too."""
DETAIL_CHARS_MAX: Final = 200
"""Most characters that are shown of what the other member says of a case."""


PASSING_NS: Final = 10 * SECOND
"""Time for which a member may be alone without an alarm after its start, or after the other one took its leave: members
of a pair start and stop one after the other. A takeover is told at once."""
REFUSED_MAX: Final = 256
"""Most kinds of refusals counted apart; further ones count as `other`."""


class VoterSeen(msgspec.Struct):
    """A voter as this run of the member knows it."""

    at: Instant = Instant(0)
    """When the last answer came; 0: none yet."""
    last: Voted | None = None
    refused: Counter[str] = msgspec.field(default_factory=Counter)


class MemberStatus:
    """Notes taken beside the member machine; one per run of CORE."""

    def __init__(self, seats: Seats, voters: tuple[str, ...], marks: Marks) -> None:
        self.seats = seats
        self.refused: Counter[str] = Counter()
        self.cause = ""
        """Cause of the last change of state."""
        self.since_ns = 0
        """Wall time of the last change of state."""
        self.voters = {voter: VoterSeen() for voter in voters}
        self._marks = marks
        self._cases = {name: (case.detail, case.since_ns) for name, case in marks.cases.items() if name in UNTIL_SEEN}
        self._unmeasured: set[str] = set()
        """Cases that began since figures were recorded: each is in one measurement at least, however short it stood."""
        self._leads_since: Instant | None = None
        self._other_run = 0
        self._paths: list[Instant | None] = [None for _ in seats.peers[seats.member]]
        self._answered_at: Instant | None = None
        self._history = HistoryTold(own=CopyTold(), other=CopyTold())
        self._began = Instant(0)
        """When `figures` was asked first; 0: not yet."""
        self._said: MemberSaid | None = None
        """Last word of the other member about itself; None: none was heard in this run."""

    def refuse(self, reason: str) -> None:
        """Count something that was not believed."""
        is_known = reason in self.refused or len(self.refused) < REFUSED_MAX
        self.refused[reason if is_known else "other"] += 1

    def moved(self, new: State, cause: str, wall_ns: int) -> None:
        self.cause, self.since_ns = cause, wall_ns
        if new is State.SOLO:
            self._marks.at_risk(wall_ns)
        elif new in (State.ACTIVE, State.READY):
            self._marks.at_risk(0)
            self._cases.pop("store_refused", None)  # Both are in the set again.

    def told(self, case: CaseTold, wall_ns: int) -> None:
        """Take note that a case of the pair begins or ends."""
        if not case.is_on:
            self._cases.pop(case.case, None)
            return
        _, since_ns = self._cases.get(case.case, ("", wall_ns))
        self._cases[case.case] = (case.detail, since_ns)
        self._unmeasured.add(case.case)
        if case.case in UNTIL_SEEN:
            self._marks.case(case.case, MarkedCase(since_ns, case.detail))

    def seen(self) -> list[str]:
        """End the cases that stand until somebody looks; returns their names."""
        ended = sorted(self._cases.keys() & UNTIL_SEEN)
        for case in ended:
            del self._cases[case]
            self._marks.case(case, None)
        return ended

    def carried(self) -> tuple[tuple[str, str], ...]:
        """Cases that the other member shows too, with their details."""
        return tuple((case, detail) for case, (detail, _) in self._cases.items() if case in CARRIED)

    def _look(self, member: Member, history: EpochHistory, now: Instant) -> None:
        """Take note of a loss, also of one that is over before the next measurement."""
        if member.holder is None:
            self._leads_since = None
            return
        self._leads_since = self._leads_since or now
        if _is_taken_over(member, history):
            self._unmeasured |= {"taken_over", "other_lost"}

    def beat(self, beat: Heartbeat, wall: WallTime, member: Member, history: EpochHistory) -> None:
        """Take note of the other member's last heartbeat, fresh. Another run of it has died, if it did not leave."""
        self._said, holder = said_by(beat, wall), member.holder
        self._look(member, history, member.peer.heard_at)
        if self._other_run not in (0, beat.run) and holder is not None and not holder.is_peer_leaving:
            self._unmeasured.add("other_lost")
        self._other_run = beat.run

    def marked(self, beat: Heartbeat, topology_hash: str, wall: WallTime) -> Heartbeat:
        """The heartbeat, saying which topology this member runs, and what its clock shows."""
        return msgspec.structs.replace(beat, topology_hash=topology_hash, wall_ns=wall)

    def history_told(self, told: HistoryTold, wall_ns: int) -> None:
        """Take note how complete the stored history is, here and at the other member."""
        self._history = told
        for case, copy in (("history_incomplete", told.own), ("other_history_incomplete", told.other)):
            _, since_ns = self._cases.get(case, ("", wall_ns))
            self.told(CaseTold(case, copy.is_incomplete, copy_text(copy)), since_ns)

    def voted(self, voted: Voted, now: Instant) -> None:
        """Take note of a voter's answer on its own link; a voter that is not in the list is left out."""
        seen = self.voters.get(voted.voter)
        if seen is None:
            return
        since = None if self._leads_since is None else max(seen.at, self._leads_since)
        if since is not None and now - since > VOTER_SILENT_NS:
            self._unmeasured.add("voters_silent")
        seen.at, seen.last = now, voted
        if not voted.is_granted:
            seen.refused[voted.reason if voted.reason in REASONS else "other"] += 1

    def figures(self, member: Member, history: EpochHistory, now: Instant, is_recorded: bool) -> PairFigures:
        """Figures of the pair for its items; used on the active member, whose log has this history.

        Args:
            is_recorded: they are, now.
        """
        self._look(member, history, now)
        own, holder = member.own, member.holder
        is_alone, is_taken_over = _is_alone(member), _is_taken_over(member, history)
        self._began = self._began or now
        has_left = holder is not None and holder.is_peer_leaving and now - member.peer.heard_at < PASSING_NS
        is_passing = has_left or (now - self._began < PASSING_NS and not is_taken_over)
        passed = set(self._unmeasured)
        shown = self._cases.keys() | passed | _heard_cases(member).keys()
        if is_recorded or holder is None:
            self._unmeasured.clear()
        silent = sum(now - seen.at > VOTER_SILENT_NS for seen in self.voters.values())
        return PairFigures(
            at_risk=float(is_alone and not is_passing),
            other_lost=float("other_lost" in passed or not (is_passing or member.peer.is_present(now, own.config))),
            voters_silent=float(max(silent, "voters_silent" in passed)),
            taken_over=float(is_taken_over or "taken_over" in passed),
            store_refused=float("store_refused" in shown),
            tail_quarantined=float("tail_quarantined" in shown),
            history_at_risk=float("history_at_risk" in shown),
            history_incomplete=float(sum(_missing(one) for one in (self._history.own, self._history.other))),
            disk_refuses=float("disk_refuses" in shown or "no_room" in shown),
            other_said=self._said,
        )

    def heard(self, path: int, message: PeerMessage, now: Instant) -> None:
        """Take note that the other member spoke on that path."""
        if path < len(self._paths):
            self._paths[path] = now
        if isinstance(message, HeartbeatAnswered):
            self._answered_at = now

    def describe(
        self,
        member: Member,
        log: LogView,
        now: Instant,
        plc_voters: dict[str, PlcVoterStatus] | None = None,
        topology_hash: str = "",
    ) -> PairStatus:
        """The pair as this member sees it."""
        told = self._seen_by(member, log, now)
        return msgspec.structs.replace(told, plc_voters=plc_voters or {}, topology_hash=topology_hash)

    def _seen_by(self, member: Member, log: LogView, now: Instant) -> PairStatus:
        own, holder, other = member.own, member.holder, member.peer.last
        confirmed = holder.changes.confirmed if holder is not None else (other.members if other else ())
        return PairStatus(
            member=own.index,
            place=self.seats.place(own.index),
            state=member.state.value,
            cause=self.cause,
            since_ns=self.since_ns,
            epoch=_epoch(member, log),
            run=own.run,
            members=tuple(confirmed),
            set=tuple(self.seats.places(confirmed)),
            end=log.end.sequence,
            durable=log.durable.sequence,
            committed=log.told.sequence,
            accepted_epoch=own.accepted_epoch,
            feature_level=own.feature_level,
            log_level=own.log_level,
            apart="" if other is None else why_apart(own, other) or "",
            lag=log.end.sequence - holder.match if holder is not None else None,
            catching_up=_catching_up(member, now),
            lease_left_ms=max(0, holder.lease.until - now) // MS if holder is not None else None,
            client=self.seats.clients[own.index],
            peer=tuple(self.seats.peers[own.index]),
            guards=dict(self.seats.guards),
            other=self._other(member, now),
            voters=tuple(own.config.voters),
            voters_seen={voter: _seen(one, now) for voter, one in self.voters.items()},
            maintenance_since_ns=self._marks.maintenance_since_ns,
            at_risk_since_ns=self._marks.at_risk_since_ns,
            cases={case: detail for case, (detail, _) in self._cases.items()},
            cases_since_ns={case: since_ns for case, (_, since_ns) in self._cases.items()},
            refused={**self.refused, **{f"history_{one}": count for one, count in self._history.refused.items()}},
        )

    def _other(self, member: Member, now: Instant) -> OtherMember:
        peer, index = member.peer, member.own.other
        heard = peer.last
        told = OtherMember(
            place=self.seats.place(index),
            client=self.seats.clients[index],
            heard_ms=None if heard is None else (now - peer.heard_at) // MS,
            is_present=peer.is_present(now, member.config),
            answers_ms=None if self._answered_at is None else (now - self._answered_at) // MS,
            paths_ms=tuple(None if at is None else (now - at) // MS for at in self._paths),
            state="unknown" if heard is None else heard.state,
            cases=_heard_cases(member),
        )
        if heard is None:
            return told
        return msgspec.structs.replace(
            told,
            epoch=heard.epoch,
            run=heard.run,
            end=heard.end.sequence,
            committed=heard.committed.sequence,
            accepted_epoch=heard.accepted_epoch,
            is_held=heard.is_held,
            feature_level=heard.feature_level,
            topology_hash=heard.topology_hash,
        )


def _is_alone(member: Member) -> bool:
    """True: it leads, and no other is in the set."""
    return member.holder is not None and member.holder.changes.confirmed == (member.own.index,)


def _catching_up(member: Member, now: Instant) -> CatchingUp | None:
    holder = member.holder
    if holder is None or not _is_alone(member) or not holder.is_followed:
        return None
    gain, wait_ns = holder.gain, max(0, holder.hold_off.not_before - now)
    whole_in_s = gain.behind / gain.per_s if gain.per_s > 0 else None
    return CatchingUp(
        behind=gain.behind,
        late_ms=gain.late_ns // MS,
        gains_per_s=gain.per_s,
        whole_in_s=whole_in_s if gain.behind else wait_ns / SECOND,
        slowed_ms=holder.slow_ns // MS,
        not_before_s=wait_ns / SECOND,
    )


def _is_taken_over(member: Member, history: EpochHistory) -> bool:
    """True: it leads alone, since the member that led before was lost."""
    epochs = [one.epoch for one in history.entries[-2:]]
    was_other = len(epochs) == 2 and epochs[0] % 2 == member.own.other  # An epoch's parity is its member.
    granted = () if member.holder is None else member.holder.grant.members
    return _is_alone(member) and was_other and granted == (member.own.index,)


def _heard_cases(member: Member) -> dict[str, str]:
    """Cases that the other member told last, with their details."""
    heard = member.peer.last
    cases = () if heard is None else heard.cases
    return {case: detail[:DETAIL_CHARS_MAX] for case, detail in cases if case in CARRIED}


def copy_text(copy: CopyTold) -> str:
    """How far a copy of history files is, for people."""
    counted = f"{copy.done} of {copy.files} files" if copy.files else "its files are not counted yet"
    return f"{counted}; {copy.trouble}" if copy.trouble else counted


def _missing(copy: CopyTold) -> int:
    """Number of files that a copy lacks, at least."""
    return max(1, copy.files - copy.done) if copy.is_incomplete else 0


def _epoch(member: Member, log: LogView) -> int:
    if member.holder is not None:
        return member.holder.epoch
    return member.following.epoch if member.following is not None else log.history.epoch


def _seen(one: VoterSeen, now: Instant) -> VoterStatus:
    last = one.last
    if last is None:
        return VoterStatus()
    return VoterStatus(
        answered_ms=(now - one.at) // MS,
        promised=last.promised,
        record=None if last.record is None else _record(last.record),
        is_lease_running=last.lease_left_ns > 0,
        lease_left_ms=max(0, last.lease_left_ns - (now - one.at)) // MS,
        floor=(last.floor.epoch, last.floor.sequence),
        reason="" if last.is_granted else last.reason,
        refused=dict(one.refused),
    )


def _record(record: Record) -> VoterRecord:
    return VoterRecord(
        epoch=record.epoch,
        version=record.version,
        holder=record.holder,
        run=record.run,
        members=record.members,
        is_forced=record.is_forced,
    )
