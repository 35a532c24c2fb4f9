"""Following: the part of a member that has another one as its holder.

    holder heard -> FollowAsked -> FollowAnswered: cut, persist, catch up -> Frames ... -> in the set: ready
                                 \\ is_snapshot: start over, persist, FoldsAsked, FoldsSent ... -> Frames ...

Invariants
    verified:  until the answer came, nothing is acknowledged and nobody counts as followed.
    data:      frames are appended only where the log ends, of this epoch and session.
    repair:    a damaged member of the set is taken out of it first; it is complete again once all of it can be read.
    folds:     after a snapshot the folds come first: nothing is appended or acknowledged before they are here.
    epoch:     `accepted_epoch` is on the disk before the first acknowledgement under it.

Spec: design/pair.md, rules 2 and 6; design/log-and-feed.md, Feed.
"""

from albireo.codec.pair_message import (
    FoldsAsked,
    FoldsSent,
    FollowAcked,
    FollowAnswered,
    FollowAsked,
    Frames,
    FromHolder,
    Heartbeat,
    RangeAsked,
    RangeSent,
)
from albireo.machine.pair.config import after
from albireo.machine.pair.events import (
    AppendFrames,
    CaseTold,
    Commit,
    CutTo,
    RepairLog,
    StartOver,
    TakeFolds,
)
from albireo.machine.pair.party import Party
from albireo.model.instant import Instant
from albireo.model.log_view import Beginning
from albireo.model.position import BEGINNING, EpochHistory, Position


class Following:
    """One attempt to follow one run in one epoch."""

    def __init__(self, own: Party, holder: Heartbeat, now: Instant) -> None:
        self.own = own
        self.run = holder.run
        self.epoch = holder.epoch
        self.session = own.next_round()
        self.is_verified = False
        self.ask_at = now
        self.wants_part: int | None = None
        """Of the folds, after a snapshot; None: they are all here."""
        self._folds: Position | None = None
        """Where the parts that came stand."""
        self._part_looked_at = 0

    def is_of(self, holder: Heartbeat) -> bool:
        return (self.run, self.epoch) == (holder.run, holder.epoch)

    def ask(self, now: Instant) -> None:
        """Say what this log has; again until answered."""
        own = self.own
        self.ask_at = after(now, own.config.silence_ns)
        own.tell(
            FollowAsked(
                **own.peer_head,
                to_run=self.run,
                epoch=self.epoch,
                session=self.session,
                history=own.history.entries,
                end=own.end,
                is_damaged=not own.is_whole,
                lacks_folds=own.lacks_folds,
            )
        )

    def answered(self, answer: FollowAnswered) -> bool:
        """Cut back to the common point, or start over; False if the answer is not for this attempt."""
        own = self.own
        if (answer.epoch, answer.session) != (self.epoch, self.session) or self.is_verified:
            own.refuse("other_session")
            return False
        theirs, is_snapshot = EpochHistory(answer.history), answer.is_snapshot
        is_possible = is_snapshot or (answer.position <= own.end.sequence and not own.lacks_folds)
        if not is_possible or answer.epoch < own.accepted_epoch:
            own.refuse("impossible_answer")
            return False
        if not is_snapshot and own.folds_at != BEGINNING and not own.has_folds_of(theirs):
            own.lacks_folds = True  # Of a branch that is no more: ask again, and say so.
            own.refuse("folds_of_another_branch")
            self.session = own.next_round()
            return False
        end = own.end.sequence
        common = own.history.common_point(theirs, end, end) if is_snapshot else answer.position
        if common < own.committed.sequence:
            own.out.append(CaseTold("history_at_risk", True, f"cut to {common}, committed {own.committed}"))
        if is_snapshot:
            self._start_over(answer, theirs)
        elif common < end:
            own.out.append(CutTo(common))
        if common < end:
            own.out.append(CaseTold("tail_quarantined", True, f"{common + 1} to {end}"))
        if not is_snapshot:
            own.history = theirs
            own.cut(common)
        own.damaged(own.damaged_from if own.damaged_from <= own.end.sequence and not is_snapshot else 0)
        own.accepted_epoch = max(own.accepted_epoch, answer.epoch)
        own.persist()
        self.is_verified = True
        self.acknowledge()
        self.ask_range()
        return True

    # --- Repair --------------------------------------------------------------------------------------------------

    def ask_range(self) -> None:
        """Fetch what can't be read here; nothing if all of it can."""
        own = self.own
        if own.is_whole or not self.is_verified:
            return
        own.tell(
            RangeAsked(
                **own.peer_head, to_run=self.run, epoch=self.epoch, session=self.session, after=own.damaged_from - 1
            )
        )

    def _range(self, sent: RangeSent) -> None:
        own = self.own
        if own.is_whole or (sent.epoch, sent.session, sent.after) != (self.epoch, self.session, own.damaged_from - 1):
            own.refuse("other_range")
        elif sent.is_gone:
            own.lacks_folds = True  # Only a snapshot helps: ask again, and say so.
            self.is_verified = False
            self.session = own.next_round()
        else:
            own.out.append(RepairLog(sent.payload))

    # --- Snapshot ------------------------------------------------------------------------------------------------

    def _start_over(self, answer: FollowAnswered, theirs: EpochHistory) -> None:
        """Nothing of this log goes on from here: it begins where the holder's does, without folds."""
        own = self.own
        own.history = theirs
        position = own.position(answer.position)
        own.begin = Beginning(position=position, header_crc=answer.header_crc, log_time_ms=answer.log_time_ms)
        own.end = own.durable = own.committed = position
        own.is_complete, own.lacks_folds, own.folds_at = False, True, BEGINNING
        own.out.append(StartOver(own.begin, theirs))
        self.wants_part = 0

    def _ask_folds(self, part: int) -> None:
        own = self.own
        own.tell(FoldsAsked(**own.peer_head, to_run=self.run, epoch=self.epoch, session=self.session, part=part))

    def folds(self, sent: FoldsSent) -> None:
        """One part of the folds; the next one is asked for when it is here."""
        own = self.own
        if (sent.epoch, sent.session) != (self.epoch, self.session) or sent.part != self.wants_part:
            own.refuse("other_part")
            return
        if sent.part and sent.position != self._folds:
            self.wants_part = 0
            own.refuse("folds_moved")
        elif sent.position < own.begin.position or not 0 <= sent.part < sent.parts:
            own.refuse("impossible_folds")
        else:
            self._folds = sent.position
            own.out.append(TakeFolds(sent))
            self.wants_part = sent.part + 1
            if self.wants_part == sent.parts:
                self.wants_part = None
                own.lacks_folds, own.folds_at = False, sent.position
            self.acknowledge()

    def _ask_folds_again(self, part: int, now: Instant) -> None:
        """An answer that does not come was lost."""
        if part != self._part_looked_at:
            self._part_looked_at = part
        elif now >= self.ask_at:
            self._ask_folds(part)
        else:
            return
        self.ask_at = after(now, self.own.config.silence_ns)

    # --- Frames --------------------------------------------------------------------------------------------------

    def hears(self, message: FromHolder) -> None:
        match message:
            case Frames():
                self.frames(message)
            case FoldsSent():
                self.folds(message)
            case RangeSent():
                self._range(message)

    def frames(self, frames: Frames) -> None:
        own = self.own
        if (frames.epoch, frames.session) != (self.epoch, self.session) or not self.is_verified:
            own.refuse("other_session")
        elif self.wants_part is not None:
            own.refuse("folds_first")
        elif frames.previous > own.end.sequence:
            self.acknowledge(has_gap=True)
        elif frames.previous < own.end.sequence:
            self.acknowledge()  # A repeat: the acknowledgement got lost.
        else:
            own.end = frames.last
            own.out.append(AppendFrames(frames.payload, frames.last))
            self.commit(frames.committed)

    def heartbeat(self, heartbeat: Heartbeat, now: Instant) -> None:
        """The holder says what it sent and what is committed."""
        if not self.is_verified or heartbeat.session != self.session:
            return
        if self.wants_part is not None:
            self._ask_folds_again(self.wants_part, now)
            return
        if now >= self.ask_at:
            self.ask_at = after(now, self.own.config.silence_ns)
            self.ask_range()
        self.commit(heartbeat.committed)
        self.acknowledge(has_gap=heartbeat.sent_to > self.own.end.sequence)

    def commit(self, committed: Position) -> None:
        """The follower folds what its disk has up to the commit position: a promotion replays next to nothing."""
        own = self.own
        sequence = min(committed.sequence, own.end.sequence)
        if sequence > own.committed.sequence:
            own.committed = committed if sequence == committed.sequence else own.position(sequence)
            own.out.append(Commit(own.committed))

    def acknowledge(self, *, has_gap: bool = False) -> None:
        """Say what was verified; while folds are missing, ask for them instead."""
        own = self.own
        if self.wants_part is not None:
            self._ask_folds(self.wants_part)
            return
        own.tell(
            FollowAcked(
                **own.peer_head,
                to_run=self.run,
                epoch=self.epoch,
                session=self.session,
                received=own.end.sequence,
                durable=self._verified_durable(),
                has_gap=has_gap,
                is_complete=own.is_complete and own.is_whole,
            )
        )

    def _verified_durable(self) -> int:
        """Everything up to the end was verified in this session, so what of it is synced counts."""
        return min(self.own.durable.sequence, self.own.end.sequence)
