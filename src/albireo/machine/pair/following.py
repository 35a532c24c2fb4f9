"""Following: the part of a member that has the other member as its holder.

    holder heard -> FollowAsked -> FollowAnswered: cut, persist, catch up -> Frames ... -> in the set: ready
                                 \\ is_snapshot: start over, persist, FoldsAsked, FoldsSent ... -> Frames ...

Invariants
    verified:  until the answer came, nothing is acknowledged and nobody counts as followed.
    data:      frames are appended only where the log ends, of this epoch and session.
    repair:    a damaged member of the set is taken out of it first; it is complete again once all of it can be read.
    folds:     after a snapshot the folds come first: nothing is appended or acknowledged before they are here.
    epoch:     `accepted_epoch` is on the disk before the first acknowledgement under it.
    patience:  heartbeats may be late behind frames. While frames come, a member that catches up goes on, though the
               voters say that it is not in the set: it knows that.

Spec: design/pair.md, rules 2 and 6; design/log-and-feed.md, Feed.
"""

from typing import Final

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
    CutTo,
    Objection,
    RepairLog,
    StartOver,
    TakeFolds,
)
from albireo.machine.pair.party import Party
from albireo.model.instant import SECOND, Instant
from albireo.model.log_view import Beginning
from albireo.model.position import BEGINNING, ENDLESS, EpochHistory, Position

FED_NS: Final = 5 * SECOND
"""Time after a piece of the log within which another one may be on its way: 256 KiB over a link of 50 kB/s."""
LOG_TIME_MS_MAX: Final = 1 << 53
"""No log is that old: 285,000 years."""


class Following:
    """One attempt to follow one run in one epoch."""

    def __init__(self, own: Party, holder: Heartbeat, now: Instant) -> None:
        self.own = own
        self.run = holder.run
        self.epoch = holder.epoch
        self.session = own.next_round()
        self.is_verified = False
        self._told_damaged = False
        """True: the hello told the holder that records here can't be read."""
        self._range_from = 0
        """First damaged sequence that the holder was asked for."""
        self.ask_at = now
        self.came_at = now
        """Instant at which anything that this session asked for came last."""
        self.wants_part: int | None = None
        """Part of the folds that is wanted next, after a snapshot; None: they are all here."""
        self._folds: Position | None = None
        """Position of the folds whose parts came."""
        self._part_asked: int | None = None
        self._part_looked_at = 0

    def is_of(self, holder: Heartbeat) -> bool:
        return (self.run, self.epoch) == (holder.run, holder.epoch)

    @property
    def has_new_damage(self) -> bool:
        """True: the holder counts on records that can't be read here any more."""
        return not self._told_damaged and not self.own.log.is_whole

    def ask(self, now: Instant) -> None:
        """Ask to follow: say what this log has, again until answered."""
        own = self.own
        self._told_damaged = not own.log.is_whole
        self.ask_at = after(now, own.config.silence_ns)
        own.tell(
            FollowAsked(
                **own.peer_head,
                to_run=self.run,
                epoch=self.epoch,
                session=self.session,
                history=own.log.history.entries,
                end=own.log.end,
                is_damaged=self._told_damaged,
                lacks_folds=own.lacks_folds,
            )
        )

    def answered(self, answer: FollowAnswered) -> bool:
        """Have the log cut back to the common point, or begun over; False: the answer is refused.

        The next step sees what the log is then, and tells the holder.
        """
        own, log = self.own, self.own.log
        if (answer.epoch, answer.session) != (self.epoch, self.session) or self.is_verified:
            own.refuse(Objection.OTHER_SESSION)
            return False
        theirs, is_snapshot = EpochHistory.told(answer.history), answer.is_snapshot
        if theirs is None:
            own.refuse(Objection.IMPOSSIBLE_HISTORY)
            return False
        is_possible = _is_beginning(answer) if is_snapshot else 0 <= answer.position <= log.end.sequence
        if not is_possible or (own.lacks_folds and not is_snapshot) or answer.epoch < own.accepted_epoch:
            own.refuse(Objection.IMPOSSIBLE_ANSWER)
            return False
        if not is_snapshot and own.folds_at != BEGINNING and not own.has_folds_of(theirs):
            own.lacks_folds = True  # The folds are of a branch that is no more: ask again, and say so.
            own.refuse(Objection.FOLDS_OF_ANOTHER_BRANCH)
            self.session = own.next_round()
            return False
        end = log.end.sequence
        common = log.history.common_point(theirs, end, end) if is_snapshot else answer.position
        if common < log.told.sequence:
            own.out.append(CaseTold("history_at_risk", True, f"cut to {common}, committed {log.told}"))
        if is_snapshot:
            self._start_over(answer, theirs)
        elif common < end:
            own.out.append(CutTo(common))
        if common < end:
            own.out.append(CaseTold("tail_quarantined", True, f"{common + 1} to {end}"))
        own.accepted_epoch = max(own.accepted_epoch, answer.epoch)
        own.persist(theirs)
        self.is_verified = True
        self._range_from = 0
        return True

    def log_changed(self) -> None:
        """Tell the holder what of its log is here now, and ask for what is missing."""
        if not self.is_verified:
            return
        self._told_damaged = self._told_damaged and not self.own.log.is_whole
        if self.wants_part is None or self.wants_part != self._part_asked:
            self.acknowledge()
        if self.own.log.damaged_from != self._range_from:
            self.ask_range()

    def ask_range(self) -> None:
        """Fetch what can't be read here; nothing if all of it can."""
        own, first = self.own, self.own.log.damaged_from
        if first and self.is_verified:
            self._range_from = first
            own.tell(
                RangeAsked(**own.peer_head, to_run=self.run, epoch=self.epoch, session=self.session, after=first - 1)
            )

    def _range(self, sent: RangeSent) -> None:
        own, first = self.own, self.own.log.damaged_from
        if not first or (sent.epoch, sent.session, sent.after) != (self.epoch, self.session, first - 1):
            own.refuse(Objection.OTHER_RANGE)
        elif sent.is_gone:
            own.lacks_folds = True  # Only a snapshot helps: ask again, and say so.
            self.is_verified = False
            self.session = own.next_round()
        else:
            own.out.append(RepairLog(sent.payload))

    def _start_over(self, answer: FollowAnswered, theirs: EpochHistory) -> None:
        """Begin the log where the holder's begins, without folds: nothing of it goes on from here."""
        own, position = self.own, theirs.position(answer.position)
        begin = Beginning(position=position, header_crc=answer.header_crc, log_time_ms=answer.log_time_ms)
        own.is_complete, own.lacks_folds, own.folds_at = False, True, BEGINNING
        own.out.append(StartOver(begin, theirs))
        self.wants_part, self._part_asked = 0, None

    def _ask_folds(self, part: int) -> None:
        own = self.own
        self._part_asked = part
        own.tell(FoldsAsked(**own.peer_head, to_run=self.run, epoch=self.epoch, session=self.session, part=part))

    def folds(self, sent: FoldsSent) -> None:
        """Take one part of the folds, and ask for the next."""
        own = self.own
        if (sent.epoch, sent.session) != (self.epoch, self.session) or sent.part != self.wants_part:
            own.refuse(Objection.OTHER_PART)
            return
        if sent.part and sent.position != self._folds:
            self.wants_part = 0
            own.refuse(Objection.FOLDS_MOVED)
        elif sent.position < own.log.begin.position or not 0 <= sent.part < sent.parts:
            own.refuse(Objection.IMPOSSIBLE_FOLDS)
        else:
            self._folds = sent.position
            own.out.append(TakeFolds(sent))
            self.wants_part = sent.part + 1
            if self.wants_part == sent.parts:
                self.wants_part = None
                own.lacks_folds, own.folds_at = False, sent.position
            self.acknowledge()

    def _ask_folds_again(self, part: int, now: Instant) -> None:
        """Ask for a part of the folds again: an answer that does not come was lost."""
        if part != self._part_looked_at:
            self._part_looked_at = part
        elif now >= self.ask_at:
            self._ask_folds(part)
        else:
            return
        self.ask_at = after(now, self.own.config.silence_ns)

    def is_fed(self, now: Instant) -> bool:
        """True: what the holder sent for this session still comes; its heartbeats may be behind that."""
        return now - self.came_at < FED_NS

    def hears(self, message: FromHolder, now: Instant) -> None:
        if message.session == self.session:
            self.came_at = now
        match message:
            case Frames():
                self.frames(message)
            case FoldsSent():
                self.folds(message)
            case RangeSent():
                self._range(message)

    def frames(self, frames: Frames) -> None:
        own, end = self.own, self.own.log.end.sequence
        if (frames.epoch, frames.session) != (self.epoch, self.session) or not self.is_verified:
            own.refuse(Objection.OTHER_SESSION)
        elif self.wants_part is not None:
            own.refuse(Objection.FOLDS_FIRST)
        elif frames.previous > end:
            self.acknowledge(has_gap=True)
        elif frames.previous < end:
            self.acknowledge()  # A repeat: the acknowledgement got lost.
        elif frames.last.sequence <= end or not own.log.has_epoch_of(frames.last):
            own.refuse(Objection.IMPOSSIBLE_FRAMES)
        else:
            own.out.append(AppendFrames(frames.payload, frames.last))
            self.commit(frames.committed, frames.last)

    def heartbeat(self, heartbeat: Heartbeat, now: Instant) -> None:
        """Take what the holder says that it sent and that is committed."""
        if not self.is_verified or heartbeat.session != self.session:
            return
        if self.wants_part is not None:
            self._ask_folds_again(self.wants_part, now)
            return
        if now >= self.ask_at:
            self.ask_at = after(now, self.own.config.silence_ns)
            self.ask_range()
        end = self.own.log.end
        self.commit(heartbeat.committed, end)
        self.acknowledge(has_gap=heartbeat.sent_to > end.sequence)

    def commit(self, committed: Position, end: Position) -> None:
        """Commit what the log has up to the holder's commit position: folded now, it is not replayed at a promotion.

        Args:
            end: of the log, with what this step appends.
        """
        position = committed if committed.sequence <= end.sequence else end
        if position.sequence <= self.own.log.told.sequence:
            return
        if self.own.log.has_epoch_of(position):
            self.own.commit(position)
        else:
            self.own.refuse(Objection.IMPOSSIBLE_COMMIT)

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
                received=own.log.end.sequence,
                durable=self._verified_durable(),
                has_gap=has_gap,
                is_complete=own.is_complete and own.log.is_whole,
            )
        )

    def _verified_durable(self) -> int:
        """Durable sequence: everything up to the end was verified in this session, so what of it is synced counts."""
        return self.own.log.durable.sequence


def _is_beginning(answer: FollowAnswered) -> bool:
    """True: a log can begin behind what the answer says."""
    is_time = 0 <= answer.log_time_ms < LOG_TIME_MS_MAX
    return 0 <= answer.position < ENDLESS and 0 <= answer.header_crc < 1 << 32 and is_time
