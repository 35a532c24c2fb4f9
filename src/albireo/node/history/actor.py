"""The actor `history` (the first seed's STORAGE): follows the log, keeps the hot tail, seals it, answers.

The historian is a thin shell around parts that know nothing of each other: the feed's follower, the hot tail, the pace
(when to seal, when to stop taking), the store, its merges, and the copies from the other member of a pair and from
nodes below. Long work is done in threads (threads.py).

Only the manifest's position is acknowledged as durable. Neither a full hot tail nor a full disk loses a row: the log
keeps the rows, and they come once there is credit again.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from albireo.codec import frame
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.history import Manifest
from albireo.codec.message import Answer, Ask, Carry, FeedAlive, FeedAnswer, FeedData, FeedState
from albireo.codec.questions.history import SEAL, STATS
from albireo.codec.questions.kind import Nothing, by_name, taken
from albireo.codec.record import OriginDeclared, Stream
from albireo.codec.tree.stored import StoredAsked, StoredGiven
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Effect,
    Event,
    Follower,
    FollowerConfig,
    FollowPhase,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.history.declared import Row
from albireo.machine.history.sealing import SealPace, SealPaceConfig
from albireo.model.instant import Instant, TimePassed, soonest
from albireo.model.item import KnownItem
from albireo.model.position import BEGINNING, EpochHistory, Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.node.history.arrow import leave_pandas_out
from albireo.node.history.below.answers import HistoryAnswers, handled, place_of
from albireo.node.history.below.fillings import FillingsBelow
from albireo.node.history.below.origin import figures_of
from albireo.node.history.below.origins import BelowSeal, HistoryBelow, OriginUnknown
from albireo.node.history.copies import Copies
from albireo.node.history.errors import SEAL_REMEDY, HistoryRefused, QueryRefused, seal_told
from albireo.node.history.files.hot import HotContent, HotTail
from albireo.node.history.files.store import HistoryStore, OpenReport
from albireo.node.history.merges import Merges
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import ActorContext, Letter, Link

STREAMS: Final = (Stream.SAMPLES, Stream.CASES, Stream.STATE, Stream.AUDIT, Stream.CONTROL, Stream.BELOW)
ITEMS_ASKED: Final = 1
ORIGINS_ASKED: Final = 2
"""Numbers of the questions to CORE."""
SEAL_WAITERS_MAX: Final = 64
WAIT_MS: Final = 100
"""Longest delay of records on the way to the history: fewer and larger pieces cost CORE and the history less."""
REST_S: Final = 1.0
"""Time at a stop for the records that CORE still has."""


class HistoryArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from boot."""

    node: str
    pace: SealPaceConfig = SealPaceConfig()
    capacity_bytes: int = 8 << 20
    """Most bytes of frames that may be under way to the history."""
    is_paired: bool = False
    """True: the node is a pair, and the other member's history may have files that this history lacks."""


def create(arguments: Mapping[str, object]) -> "Historian":
    """Factory for the runtime."""
    leave_pandas_out()
    return Historian(msgspec.convert(arguments, HistoryArguments))


class Historian:
    """The behaviour of the actor `history`."""

    name = "history"

    def __init__(self, arguments: HistoryArguments) -> None:
        self._arguments = arguments
        self._actor: ActorContext
        self._store: HistoryStore
        self._hot: HotTail
        self._below: HistoryBelow
        self._taken = BEGINNING
        """Last record that was looked at: that of the hot tail, or an earlier one while envelopes are taken again."""
        self._refill_from: Position | None = None
        """Record behind which envelopes are to be taken again, once CORE has said that the log is still the same."""
        self._follower: Follower
        self._core: Link
        self._asked: Link
        self._pace = SealPace(arguments.pace)
        self._threads: HistoryThreads
        self._merges: Merges
        self._copies: Copies
        self._fillings: FillingsBelow
        self._idle = asyncio.Event()
        self._heard = asyncio.Event()
        self._answers: HistoryAnswers
        self._seal_waiters: list[tuple[Position, Letter, int]] = []
        """Requests for a seal, answered once their position is durable."""
        self._problem = ""
        """Why nothing new comes in, for `stats`."""
        self._lost_to: int | None = None
        """Sequence up to which the log pruned the next records before they were taken; None: it pruned none."""

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._store, report = HistoryStore.open(actor.data, self._arguments.node)
        self._note_opening(report)
        manifest = self._store.manifest
        self._hot = HotTail(manifest.position, manifest.complete_to_ns, self._store.declared)
        self._below = HistoryBelow(actor.data, actor.log)
        self._below.open(manifest)
        self._taken, self._refill_from = manifest.position, self._below.refill_from
        self._new_follower(bytes.fromhex(manifest.log_id), EpochHistory(manifest.history))
        self._asked = actor.bind("history")
        self._core = actor.connect("core")
        self._threads = HistoryThreads(actor)
        self._threads.write(self._below.remove_leftovers, lambda _: None)
        self._answers = HistoryAnswers(
            self._store, self._hot, self._below, self._threads, lambda: self._follower.log_id
        )
        self.handlers = by_name([handled(STATS, self._tell), handled(SEAL, self._seal_asked), *self._answers.handlers])
        self._merges = Merges(actor, self._stores, self._threads, self._idle.set)
        self._copies = Copies(
            actor, self._store, self._threads, self._core, self._arm, is_paired=self._arguments.is_paired
        )
        self._fillings = FillingsBelow(
            actor, self._store, self._below, self._threads, self._core, self._arm, is_paired=self._arguments.is_paired
        )
        self._copies.manifest_changed()
        self._fillings.look()
        actor.at_ready(lambda: self._step(LinkUp()))
        actor.at_ready(self._arm)  # The first hello can be lost, before CORE's link is up.

    def _stores(self) -> list[HistoryStore]:
        return [self._store, *(one.store for one in self._below)]

    def _new_follower(self, log_id: bytes, history: EpochHistory) -> None:
        """A follower that goes on after the last record looked at."""
        config = FollowerConfig(
            name="history",
            streams=tuple(int(stream) for stream in STREAMS),
            capacity_bytes=self._arguments.capacity_bytes,
            max_wait_ms=WAIT_MS,
        )
        self._follower = Follower(config, self._taken, log_id)
        self._follower.history = history

    def _note_opening(self, report: OpenReport) -> None:
        log = self._actor.log
        if report.quarantine:
            log.error("history_moved_aside", folder=report.quarantine, reason=report.problem)
        elif report.problem:
            log.error("manifest_damaged", reason=report.problem, remedy="went back to the one before; the log refills")
        manifest = self._store.manifest
        log.info(
            "history_opened",
            files=len(manifest.files),
            position=str(manifest.position),
            leftovers=report.leftovers,
            items=len(self._store.declared.versions),
        )

    async def stop(self) -> None:
        """Take the last records, seal the hot tail, then release."""
        await self._take_the_rest()
        self._merges.abandon.set()
        self._copies.stop()
        self._fillings.stop()
        await self._until_idle()
        if self._has_news:
            self._seal()
            await self._until_idle()
        self._actor.arm(None)
        self._threads.end()
        for link in (self._core, self._asked):
            link.close()

    async def _take_the_rest(self) -> None:
        """Take the records that CORE has kept back for a moment: a hello brings them at once."""
        self._step(LinkUp())
        with contextlib.suppress(TimeoutError):  # A CORE that has gone gives nothing; the log has it at the next start.
            async with asyncio.timeout(REST_S):
                while not self._follower.is_level:
                    self._heard.clear()
                    await self._heard.wait()

    @property
    def _has_news(self) -> bool:
        return self._hot.position != self._store.manifest.position or self._below.has_news

    async def _until_idle(self) -> None:
        while self._pace.is_sealing or self._merges.is_merging:
            self._idle.clear()
            await self._idle.wait()

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case FeedAnswer() | FeedData() | FeedAlive() | FeedState() if letter.link is self._core:
                    size_bytes = sum(len(part) for part in letter.raw)
                    self._step(Received(letter.message, size_bytes), letter)
                case Answer(request_id=number) as answer if letter.link is self._core:
                    (self._origins_told if number == ORIGINS_ASKED else self._items_told)(answer)
                case Carry() if letter.link is self._core:
                    self._copies.hears(letter.raw)
                case StoredAsked() | StoredGiven() if letter.link is self._asked:
                    self._fillings.hears(letter, letter.message)
                case Ask() if letter.link is self._asked:
                    self._answer(letter, letter.message)
                case other:
                    self._actor.log.limited("message_unexpected", type(other).__name__, link=letter.link.name)
        self._heard.set()
        self._arm()

    def ticked(self, now: Instant) -> None:
        self._step(TimePassed())
        self._copies.ticked(now)
        self._fillings.ticked()
        if self._pace.is_due(now) and not self._actor.is_stopping:
            self._seal()
        self._arm()

    def _arm(self) -> None:
        parts = (self._follower, self._pace, self._copies, self._fillings)
        self._actor.arm(soonest(*(one.deadline() for one in parts)))

    def _step(self, event: Event, letter: Letter | None = None) -> None:
        for effect in self._follower.step(event, self._actor.now()):
            self._perform(effect, letter)
        if self._refill_from is not None and self._follower.phase is FollowPhase.FOLLOWING:
            self._taken, self._refill_from = min(self._taken, self._refill_from), None
            self._follow_anew()

    def _follow_anew(self) -> None:
        self._new_follower(self._follower.log_id, self._follower.history)
        self._step(LinkUp())

    def _perform(self, effect: Effect, letter: Letter | None) -> None:
        match effect:
            case TellLeader(message=message):
                self._core.send(message)
            case Deliver():
                assert letter is not None
                self._take(letter)
            case TakeSnapshot(position=position):
                self._actor.log.error("history_fell_behind", pruned_to=str(position), had=str(self._taken))
                is_refill = position.sequence <= self._hot.position.sequence
                self._below.fell_behind(is_refill=is_refill)
                if not is_refill:
                    self._lost_to = position.sequence
                    self._ask_items()  # The declarations of items may have been pruned too.
            case CutBack(position=position):
                self._went_another_way(position)
            case Noted(event="refused" | "behind" | "stale_epoch" as event, detail=detail):
                self._problem = f"CORE says {event}: {detail}"
                self._actor.log.limited(f"feed_{event}", event, reason=detail, remedy="move the history folder away")
            case Noted(event=event, detail=detail):
                self._actor.log.info(event, detail=detail)

    def _went_another_way(self, position: Position) -> None:
        """The log has lost records that were committed, and goes on in a new epoch from `position`.

        Rows of the branch that was left are kept aside (files/branches.py) by a seal at once. Without a common point a
        second copy of every row would come: then nothing more is taken.
        """
        if position.sequence == 0:
            self._problem = "the log and this history have nothing in common; restore the log or start a new history"
            self._actor.log.error("history_ahead_of_log", had=str(self._hot.position), remedy=self._problem)
            self._new_follower(self._follower.log_id, self._follower.history)
            return
        self._actor.log.error("log_went_another_way", at=str(position), had=str(self._hot.position))
        self._hot.fork(position)
        self._taken = position
        self._ask_items()  # Declarations of the branch that was left may be gone.
        self._pace.asked(self._actor.now())
        self._arm()

    def _take(self, letter: Letter) -> None:
        """Take the frames of one delivery; damaged bytes are asked for again."""
        is_forked = False
        try:
            for header, body in (one for part in letter.raw for one in frame.frames(part)):
                is_forked |= self._take_frame(header, body)
        except OriginUnknown:
            self._core.send(Ask(request_id=ORIGINS_ASKED, what="origins"))  # Its answer comes before the frames do.
            self._follow_anew()
        except DecodeError as error:
            self._actor.log.error("frames_damaged", reason=str(error), after=str(self._taken))
            self._follow_anew()
            return
        self._took()
        if is_forked:
            self._pace.asked(self._actor.now())
        if self._pace.has_room():
            self._step(Digested(self._taken))

    def _take_frame(self, header: FrameHeader, body: memoryview) -> bool:
        """Take a frame; True: the log of a node below went another way."""
        is_new = header.first_sequence > self._hot.position.sequence
        if is_new and self._lost_to is not None:
            self._hot.lost(self._lost_to, header)
            self._lost_to = None
        is_forked = False
        try:
            is_forked = self._below.take(header, body)
        except DecodeError as error:
            self._actor.log.limited("envelope_damaged", "below", at=str(header.last), reason=str(error))
            if is_new:
                self._hot.not_readable(header, str(error))
        if is_new:
            self._hot.take(header, body)
        self._taken = header.last
        return is_forked

    def _took(self) -> None:
        rows, size_bytes = self._hot_size()
        self._pace.took(rows, size_bytes, self._actor.now())

    def _hot_size(self) -> tuple[int, int]:
        """Rows and bytes in memory, of this node and of all below."""
        return self._hot.rows + self._below.rows, self._hot.size_bytes + self._below.size_bytes

    def _ask_items(self) -> None:
        self._core.send(Ask(request_id=ITEMS_ASKED, what="items"))

    def _items_told(self, answer: Answer) -> None:
        try:
            items = msgspec.convert(answer.result, list[KnownItem])
        except msgspec.ValidationError as error:
            self._actor.log.error("items_not_told", reason=str(answer.refusal or error))
            return
        self._hot.declare(items)
        self._took()

    def _origins_told(self, answer: Answer) -> None:
        try:
            origins = msgspec.convert(answer.result, list[OriginDeclared])
        except msgspec.ValidationError as error:
            self._actor.log.error("origins_not_told", reason=str(answer.refusal or error))
            origins = []
        self._below.told(origins, self._follower.log_id)

    def _seal(self) -> None:
        content = self._hot.content()
        log_id, history = self._follower.log_id.hex(), self._follower.history.entries
        now_ns = self._actor.now()
        below = self._below.begin_seal(self._taken)
        self._pace.started()

        def work() -> Manifest:
            below.write(now_ns)
            return self._store.seal(content, log_id, now_ns, history)  # Last: the log lets go of what it says.

        self._threads.write(work, lambda out: self._sealed(content, below, out))

    def _sealed(self, content: HotContent, below: BelowSeal, outcome: Manifest | Exception) -> None:
        self._below.sealed(below)
        self._core.send(seal_told(outcome))
        if isinstance(outcome, Exception):
            self._seal_failed(outcome)
            return
        if self._pace.failures:
            self._actor.log.info("seal_recovered", failures=self._pace.failures)
        self._hot.drop(content)
        self._pace.sealed(*self._hot_size())
        self._actor.log.info(
            "sealed", position=str(content.position), files=len(outcome.files), hot_rows=self._hot.rows
        )
        self._answer_waiters()
        self._step(MadeDurable(content.position))
        if self._pace.has_room():
            self._step(Digested(self._taken))
        self._copies.manifest_changed()
        self._fillings.look()
        if not self._actor.is_stopping:
            self._merges.look()
        self._idle.set()
        self._arm()

    def _seal_failed(self, error: Exception) -> None:
        self._pace.failed(self._actor.now())
        report = self._actor.log.error if self._pace.failures == 1 else self._actor.log.debug
        report("seal_failed", reason=str(error), hot_rows=self._hot.rows, remedy=SEAL_REMEDY)
        self._answer_waiters(Refusal(RefusalCode.DISK_FAILED, f"not sealed: {error}"))
        self._idle.set()
        self._arm()

    def _answer(self, letter: Letter, ask: Ask) -> None:
        found = taken(self.handlers, ask)
        try:
            refusal = found if isinstance(found, Refusal) else found[0].handler(letter, ask, found[1])
        except HistoryRefused as error:
            refusal = error.refusal
        if refusal is not None:
            letter.link.send(Answer(request_id=ask.request_id, refusal=refusal), to=letter.sender)

    def stats(self) -> Row:
        """Figures of the history, JSON-like."""
        manifest = self._store.manifest
        return {
            **place_of(manifest, self._hot),
            **figures_of(manifest),
            "hot_rows": self._hot.rows,
            "hot_bytes": self._hot.size_bytes,
            "seal_failures": self._pace.failures,
            "unreadable_frames": self._hot.unreadable,
            "damaged_files": sorted(self._merges.damaged_in(self._store)),
            "below": self._fillings.figures(),
            "left_out_below": self._below.left_out,
            "problem": self._problem,
            "feed_phase": self._follower.phase.value,
            "copy": msgspec.to_builtins(self._copies.told),
        }

    def _tell(self, letter: Letter, ask: Ask, _: Nothing) -> None:
        letter.link.send(Answer(request_id=ask.request_id, result=self.stats()), to=letter.sender)

    def _seal_asked(self, letter: Letter, ask: Ask, _: Nothing) -> None:
        if len(self._seal_waiters) >= SEAL_WAITERS_MAX:
            raise QueryRefused(f"{SEAL_WAITERS_MAX} others wait for a seal", "ask again later", RefusalCode.BUSY)
        self._seal_waiters.append((self._hot.position, letter, ask.request_id))
        if not self._has_news:
            self._answer_waiters()
        else:
            self._pace.asked(self._actor.now())

    def _answer_waiters(self, refusal: Refusal | None = None) -> None:
        """Answer the requests whose rows are durable; with a refusal all of them."""
        waiters, self._seal_waiters = self._seal_waiters, []
        for position, letter, request_id in waiters:
            if refusal is not None or position <= self._store.manifest.position:
                letter.link.send(Answer(request_id=request_id, result=self.stats(), refusal=refusal), to=letter.sender)
            else:
                self._seal_waiters.append((position, letter, request_id))
