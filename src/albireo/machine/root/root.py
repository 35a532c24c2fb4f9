"""The root machine of CORE: admission, folds, orders and feeds, driven by one `step`.

An event is everything one wake-up brought; the answer is one `Turn` of effects. The log's writer is outside: the
machine drafts batches, the shell appends them and says so (`FramesAppended`), and later that more is committed
(`Committed`). The view that comes with each event says where the log begins and ends, what of it is durable and
committed, and under which epoch; the machine itself keeps only how far its folds are. Folds and feeds see committed
records only; what waits for a commit waits here. Answers leave before the folds are done (`Answered`): nobody waits for
a fold.

    letters --> admission / orders / cases / answers --> drafts
    drafts  --> [log] --> pending frames --> committed --> answers, then folds --> new drafts, feeds
    holder's frames --> [log] --> pending frames --> committed --> folds, and nothing follows from them

Invariants
    pending:   frames appended and not yet folded, in log order; admission decides on folds plus pending.
    answers:   nothing that depends on a record is said before that record is committed; of batches alone a producer
               may be told before, if the stream is so configured (receipts.py).
    drafts:    only while this node serves, save the first record of an epoch.

Not decided here: where the bytes are (log), who may be holder (machine.pair), how processes live (runtime).
Spec: design/log-and-feed.md, The loop of CORE.
"""

import itertools
from typing import Final

from albireo.codec.frame import BODY_BYTES_MAX, HEADER_BYTES, FrameHeader
from albireo.codec.message import AnyMessage
from albireo.codec.record import (
    EpochGranted,
    FeatureRaised,
    GapFound,
    Marked,
    NodeStopped,
    Stream,
)
from albireo.machine.access.changes import AccessChanges
from albireo.machine.access.judge import AccessJudge
from albireo.machine.answers.answers import Answers
from albireo.machine.answers.topics import end_left_behind
from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.desk.cases import CaseDesk
from albireo.machine.desk.feeds import Feeds
from albireo.machine.desk.forgetting import Forgetting
from albireo.machine.desk.hellos import Hellos
from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.pending import Pending
from albireo.machine.desk.receipts import Receipts
from albireo.machine.desk.registry import Registry
from albireo.machine.desk.role import Role
from albireo.machine.diagnostics.actors import ActorWatch
from albireo.machine.diagnostics.adapters import TICK_NS
from albireo.machine.diagnostics.own import CommitTimes, Diagnostics
from albireo.machine.diagnostics.topics import TopicFigures
from albireo.machine.fold.commands.selections import SelectionWatch
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.origins import Enveloped
from albireo.machine.fold.people.persons import People
from albireo.machine.kernel import events
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.part import Ear, Footing, RootParts
from albireo.machine.kernel.turn import OWN_PRODUCER, Draft, Moment, Turn
from albireo.machine.orders.force.forcing import Forcing
from albireo.machine.orders.session.sessions import Sessions
from albireo.machine.orders.write.command_waiters import CommandWaiters
from albireo.machine.orders.write.orders import Orders
from albireo.machine.orders.write.outputs import OutputOrders
from albireo.model.instant import MS, SECOND, Instant, LogTime, TimePassed, soonest
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.samples import SampleBatch

IDLE_MARK_NS: Final = 50 * MS
"""Time without an append after which a mark records the last commit."""
CLOSED_MARK_NS: Final = SECOND
"""Shortest time between marks that carry log time forward while nothing is admitted: what is due may have to wait."""


class Root:
    """The root machine. `folds` has been rebuilt (snapshot and replay) up to `folded_to` before the first step."""

    def __init__(
        self, config: RootConfig, folds: Folds, folded_to: Position, moment: Moment, *, has_folds: bool = True
    ) -> None:
        self.config = config
        self.folds = folds
        self.folded_to = folded_to
        self.role = Role(config)
        self.access = AccessJudge(config.node, folds.access, folds.of(People))
        self.sessions = Sessions(self)
        self._waiters = CommandWaiters()
        self._selection_watch = SelectionWatch()
        self.tree = NodeTree(self, moment)
        self.cases = CaseDesk(self)
        self.feeds = Feeds(config, folds, self.tree.let_go, is_complete=has_folds)
        self.feeds.show(self.tree.all_mirrors)
        self.answers = Answers(self)
        self._begin_afresh(moment)
        self.diagnostics = Diagnostics()
        self.commit_times = CommitTimes()
        self.samples_committed = 0
        """Number of rows of producers committed in this run, CORE's own not counted."""
        self.frames_folded = 0
        """Number of frames folded in this run, those replayed before it not counted."""
        self._pending = Pending(folds.log_time_ms, moment.now)
        self._log_reason = ""
        """Reason why the log takes nothing; empty: it takes records."""
        self._drafted: list[Draft] = []
        self._is_marked = True
        self._tick_at = moment.now

    def _begin_afresh(self, moment: Moment) -> None:
        """Take anew from the folds what is known of producers and orders: nobody is connected yet."""
        self.registry = Registry(self.config.node, self.folds, moment.now, self.config.adapters)
        self._receipts = Receipts(self.folds.producers, self.registry.sender_of, self.role)
        sender_of, owns, detours = self.registry.sender_of, self.registry.owners.owns, self.registry.detours
        self.admission = Admission(self.folds.producers, sender_of, self._receipts.of, owns, detours, self.folds)
        self.forcing = Forcing(self.config, self.folds, self.registry)
        self.orders = Orders(self.folds, self.registry, self._waiters, self._selection_watch)
        self.access_changes = AccessChanges(self.access)
        self.outputs = OutputOrders(self.folds, self.registry, self.orders, self.role, self.log_time_ns)
        self._hellos = Hellos(self.registry, self.admission, self.config.limits, self.after)
        self.actors = ActorWatch(self.config, self.registry, self.folds.cases.messages, moment.now)
        self._topic_figures = TopicFigures()
        self.forgetting = Forgetting(self.config, self.folds, self.registry, self.orders.items_ordered, moment.now)
        self.admission.close(self.role.cause, is_passive=True)
        self.sessions.begin_afresh(moment.now)
        self.tree.begin_afresh()
        of_tenure = (self.registry, self.forcing, self.outputs, self.orders, self.actors, self.forgetting)
        self._parts = RootParts(
            (self._waiters, self.role, self.cases, *of_tenure, self.sessions, self.tree, self.feeds)
        )
        self._ears: tuple[Ear, ...] = (
            self.sessions.hears,
            self.role.hears,
            self.tree.hears,
            self.answers.judges,
            self._hellos.hears,
            self.outputs.hears,
            self.feeds.hears,
            self.answers.hears,
        )
        self._raised_to = 0  # Feature level whose record is on its way in this tenure.

    def step(self, event: events.Event, log: LogView, moment: Moment) -> Turn:
        turn = Turn(log, self.folds.feature_level)
        match event:
            case events.LettersDrained(letters):
                now = self._footing(moment)
                for letter in letters:
                    for hears in self._ears:
                        if hears(letter, event, now, turn):
                            break
            case _ if isinstance(event, events.OfTheLog):
                self._of_the_log(event, moment, turn)
            case TimePassed():
                self._time_passed(moment, turn)
            case events.WakeUpEnded(busy_ns):
                self.feeds.pull(self.readable(log.committed), busy_ns, moment.now, turn)
            case events.FollowersServed(given):
                self.feeds.leader.served(given)
            case events.PeerLost(sender, unsent):
                for lost in self._parts.lost:
                    lost(sender, moment, turn)
                self.outputs.not_taken(unsent)
            case events.ActorsTold(actors):
                self.actors.told(actors)
            case events.TopologyTold():
                self._take_up(event, moment, turn)
            case _ if isinstance(event, events.OfTheHouse):
                self._of_the_house(event, moment, turn)
            case _:
                self._role_changed(event, moment, turn)
        if turn.drafts:
            self._drafted += turn.drafts
            turn.elapsed_ms = self._pending.elapsed_ms(moment.now)
        return turn

    def _take_up(self, told: events.TopologyTold, moment: Moment, turn: Turn) -> None:
        """Go on by a changed topology."""
        self.config = self.config.with_topology(told)
        self._hellos.limits = self.forgetting.limits = told.limits
        self.tree.take_up(moment, turn)
        self.feeds.show(self.tree.all_mirrors)
        self.feeds.limit(told.limits.followers_max)
        if self.role.is_serving:
            self.diagnostics.take_up(self.registry, self.config, moment, turn)

    def _of_the_log(self, event: events.OfTheLog, moment: Moment, turn: Turn) -> None:
        match event:
            case events.FramesAppended(frames):
                self._pending.appended(frames, self._drafted)
                self._receipts.appended(frames, self._drafted)
                last = self._drafted[-1].content
                self._is_marked = isinstance(last, tuple) and isinstance(last[0], Marked)
                self._drafted.clear()
            case events.FramesFollowed(frames):
                self._pending.followed([one for one in frames if one.header.last_sequence > self.folded_to.sequence])
            case events.Committed(is_first):
                self._receipts.committed(self._pending.committed(turn.log.committed, is_first=is_first), turn)
            case events.Answered():
                self._fold(moment, turn)
            case events.Durable() if self.role.is_serving:
                self._receipts.durable(turn)
            case events.LogCut():
                end = turn.log.end
                assert end.sequence >= self.folded_to.sequence, f"cut to {end}, folded to {self.folded_to}"
                self._pending.cut(end, self.folds.log_time_ms)
            case events.Restored():
                self._restore(event, moment)

    def _restore(self, event: events.Restored, moment: Moment) -> None:
        """Go on from folds that were given or rebuilt, or from none."""
        self.folds, self.folded_to = event.folds, event.folded_to
        self._pending = Pending(event.folds.log_time_ms, self._pending.last_append)
        self.access.restored(event.folds.access, event.folds.of(People))
        self.feeds.restored(event.folds, is_complete=event.has_folds)
        self._begin_afresh(moment)

    def _of_the_house(self, event: events.OfTheHouse, moment: Moment, turn: Turn) -> None:
        """Take what the shell tells of the machine, and of people."""
        if isinstance(event, events.AdmissionChanged):
            self._admission_changed(event.reason, turn)
            return
        if isinstance(event, events.KeysListed):
            self.access.told(event.roles)
            return
        if not self.role.is_serving:
            return
        match event:
            case events.Measured():
                if not self.admission.closed_because:
                    topics = *self._topic_figures.looked(self.folds), float(event.messages_lacking)
                    tree = self.tree.figures(event.other_said, moment)
                    figures = *self.forgetting.fill_percent(), *topics, *tree
                    p99, messages = self.commit_times.quantile(0.99), self.folds.cases.messages
                    self.diagnostics.measured(event, p99, figures, messages, moment, turn)
            case events.DamagePassed(from_ns, to_ns):
                gap = GapFound(source=OWN_ADAPTER, reason="log_damage", from_ns=min(from_ns, to_ns), to_ns=to_ns)
                turn.record(Stream.SAMPLES, [gap])
            case events.OrdersGiven(records):
                turn.record(Stream.AUDIT, records)
            case events.Stopping():
                turn.record(Stream.CONTROL, [NodeStopped(at_ns=moment.wall)])

    def _role_changed(self, event: events.OfTheRole, moment: Moment, turn: Turn) -> None:
        role = self.role
        match event:
            case events.Granted(reason, goes_on):
                entry, node = turn.log.history.entries[-1], self.config.node
                granted = EpochGranted(epoch=entry.epoch, branch_id=entry.branch_id, node=node, reason=reason)
                role.granted(turn.record(Stream.CONTROL, [granted]), goes_on=goes_on)
            case events.Served():
                self.outputs.goes_on(turn)
                role.may_serve()
                self._serve(moment, turn)
            case events.Suspended(cause):
                self._stand_by(role.suspend(cause), turn)
            case events.HandoverBegun(cause):
                self._stand_by(role.hand_over(cause), turn)
            case events.Deposed(cause):
                self._stand_by(role.deposed(cause), turn)
                self._pending.disown()
                self._receipts.give_up(turn)
                self._begin_afresh(moment)
            case events.PairChanged(word, members, is_catching_up):
                role.word, role.members = word, members
                self.feeds.leader.is_catching_up = is_catching_up
            case events.Permitted(permit):
                role.permit = permit
            case events.LevelAgreed(level):
                if level > max(self.folds.feature_level, self._raised_to) and not self.admission.closed_because:
                    self._raised_to = level
                    turn.record(Stream.CONTROL, [FeatureRaised(level=level)])

    def _serve(self, moment: Moment, turn: Turn) -> None:
        """Begin to serve, once the epoch's first record and everything before it is folded."""
        if not self.role.begins(self.folded_to.sequence):
            return
        if self.role.is_new_tenure():
            self._begin_afresh(moment)
            self.folds.forget_pending()
            watched = (*self.actors.declare(turn, moment.now), *self.forcing.begin(moment, turn))
            self.diagnostics.begin(self.registry, self.config, watched, moment, turn)
            self._hellos.leave(self.config.adapters)
            self.sessions.begin(turn)
            end_left_behind(self.folds, self.config.member, turn)
            self.orders.restarted(LogTime(self.log_time_ns(moment.now)), moment, turn)
        self.admission.body_bytes_max = min(BODY_BYTES_MAX, self.config.segment_bytes - HEADER_BYTES)
        self.admission.close(self._log_reason)
        self.role.tell_waiting(turn)

    def log_time_ns(self, now: Instant) -> int:
        """Log time at this instant: that of the end of the log, and what has passed since."""
        return self._pending.log_time_ns(now)

    def _stand_by(self, was_serving: bool, turn: Turn) -> None:
        self.admission.close(self.role.cause, is_passive=True)
        if was_serving:
            present = [one.sender for one in self.registry.adapters() if one.sender is not None]
            for stand_by in self._parts.stand_by:
                stand_by(turn)
            self.role.tell_stand_by(present, turn)

    def deadline(self) -> Instant:
        """Instant at which `TimePassed` is due."""
        if self._hellos and self.role.is_serving:
            return self._pending.last_append
        theirs = (deadline(self.folded_to) for deadline in self._parts.deadline)
        due = soonest(self._log_due(), self._idle_due(), *theirs)
        return self._tick_at if due is None else min(due, self._tick_at)

    def _log_due(self) -> Instant | None:
        """Instant at which a mark must carry log time forward, because something falls due although no record comes."""
        if (log_deadline := self.folds.deadline()) is None or self._pending or not self.role.is_serving:
            return None
        wait_ns = log_deadline - self._pending.log_time_ms * MS
        return Instant(self._pending.last_append + max(wait_ns, CLOSED_MARK_NS * bool(self.admission.closed_because)))

    def _idle_due(self) -> Instant | None:
        """When a mark must carry the commit position of an idle log. While a frame is not committed, none is due: a
        deadline that has come and that nothing answers would keep CORE busy."""
        if self._is_marked or self._pending or not self.role.is_serving:
            return None
        return Instant(self._pending.last_append + IDLE_MARK_NS)

    def _footing(self, moment: Moment) -> Footing:
        return Footing(moment, self.folded_to, self.role.is_serving, not self.admission.closed_because)

    @property
    def is_open(self) -> bool:
        """True: this node serves, and takes records."""
        return self.role.is_serving and not self.admission.closed_because

    @property
    def is_crowded(self) -> bool:
        return self._receipts.is_crowded

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""
        if sequence <= self.folded_to.sequence:
            turn.send(to, message)
        else:
            self._receipts.after(sequence, to, message)

    def _fold(self, moment: Moment, turn: Turn) -> None:
        """Fold what was answered, and draft what follows from it."""
        due = self._pending.take_due()
        self.frames_folded += len(due)
        for has_draft, found in itertools.groupby(due, lambda one: one.draft is not None):
            group = list(found)
            if not has_draft:
                self.folds.replay_all(one.frame for one in group)
            for frame, draft in group:
                self.folded_to = frame.header.last
                if draft is not None:
                    self._fold_own(frame.header, draft, moment, turn)
        now = self._footing(moment)
        for followed in self._parts.followed:
            followed(now, turn)
        self._serve(moment, turn)
        self._consequences(moment, turn)

    def _fold_own(self, header: FrameHeader, draft: Draft, moment: Moment, turn: Turn) -> None:
        self.folds.fold(header, draft.content)
        if draft.producer_id != OWN_PRODUCER:
            self.folds.producers.fold_batch(draft.producer_id, draft.producer_sequence, header.node_ns, header.last)
        self._after_fold(draft, moment, turn)

    @property
    def waits_for_disk(self) -> bool:
        """True: tell `Durable` when the own disk has more, even if nothing is committed by it."""
        return self._receipts.waits_for_disk

    @property
    def has_all_folded(self) -> bool:
        """True: nothing that stands in the log is still to be folded, committed or not."""
        return not self._pending

    @property
    def has_unfolded(self) -> bool:
        """True: frames are committed that the last turn had no time to fold, so tell another `Committed`."""
        return self._pending.is_due_again

    def _after_fold(self, draft: Draft, moment: Moment, turn: Turn) -> None:
        content = draft.content
        if isinstance(content, Enveloped):
            return
        if isinstance(content, SampleBatch):
            if draft.producer_id != OWN_PRODUCER:
                self.samples_committed += len(content)
                self.commit_times.took((moment.wall - int(content.node_ns[-1])) / MS)
            return
        for folded in self._parts.folded:
            folded(content, moment, turn)

    def _consequences(self, moment: Moment, turn: Turn) -> None:
        """Draft what the committed state asks for next."""
        if not self.role.is_serving:
            return
        now = self._footing(moment)
        for hook in (*self._parts.serve, *self._parts.consequences):
            hook(now, turn)

    def _admission_changed(self, reason: str, turn: Turn) -> None:
        if reason == self._log_reason:
            return
        self._log_reason = reason
        if self.role.is_serving:
            self.admission.close(reason)
        turn.note("error" if reason else "info", "admission_stopped" if reason else "admission_resumed", reason=reason)

    def _time_passed(self, moment: Moment, turn: Turn) -> None:
        now = self._footing(moment)
        if moment.now >= self._tick_at:
            self._tick_at = Instant(moment.now + TICK_NS)
            for tick in self._parts.tick:
                tick(now, turn)
        if now.is_serving:
            self._hellos.declare_more(moment, turn)
            if not self.has_unfolded:  # The next fold drafts its own.
                self._consequences(moment, turn)
            self._mark_if_due(moment.now, turn)
        for time_passed in self._parts.time_passed:
            time_passed(now, turn)

    def _mark_if_due(self, now: Instant, turn: Turn) -> None:
        due = soonest(self._log_due(), self._idle_due())
        if due is not None and now >= due and not turn.drafts:
            turn.record(Stream.CONTROL, [Marked()])

    def readable(self, stored: Position) -> Position:
        """Position up to which followers are given records: what is folded, as far as it is `stored` on this disk."""
        return min(self.folded_to, stored)
