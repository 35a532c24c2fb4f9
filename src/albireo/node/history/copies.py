"""Copies: questions of a history to that of the other member, and answers to it. A shell around
`machine.history.copying`.

Words go through both COREs, which do not read them (`Carry`); a word that gets lost is sent again.

Spec: ADR-0124.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.history_copy import (
    GroupAsked,
    GroupSent,
    PieceAsked,
    PieceSent,
    Word,
    decode_word,
    encode_word,
)
from albireo.codec.message import Carry, HistoryTold
from albireo.codec.pair_message import CopyTold
from albireo.machine.history.copying import (
    AskPeer,
    Copying,
    CountRefusal,
    Effect,
    EndHole,
    Event,
    Forget,
    HolesKnown,
    KeepGroup,
    PeerAnswered,
    StorePiece,
    TakeFile,
    Worked,
)
from albireo.machine.history.giving import group_sent
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.node.history.copy_work import CopyWork, read_piece
from albireo.node.history.errors import FileRefused, HistoryDamaged, MergeAbandoned
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import ActorContext, Link

TOLD_EVERY_NS: Final = SECOND
ANSWERS_MAX: Final = 4
"""Most answers being prepared at once; the other history asks one question at a time, and repeats it only after a
while."""


class Copies:
    """The copies, for the loop of the actor; they do nothing for a node that stands alone."""

    def __init__(
        self,
        actor: ActorContext,
        store: HistoryStore,
        threads: HistoryThreads,
        core: Link,
        on_due: Callable[[], object],
        *,
        is_paired: bool,
    ) -> None:
        """`on_due`: called when `deadline` has changed."""
        self._actor = actor
        self._store = store
        self._threads = threads
        self._core = core
        self._on_due = on_due
        self._is_on = is_paired
        self._abandon = threading.Event()
        self._machine = Copying(secrets.randbits(31))
        self._work = CopyWork(store, self._abandon)
        self._refused: Counter[str] = Counter()
        self._other = CopyTold()
        """Progress of the other history with its copy of ours, as its questions show."""
        self._answering = 0
        self._tell_at = Instant(0)

    @property
    def told(self) -> HistoryTold:
        """Progress in both directions, for status."""
        return HistoryTold(own=self._machine.progress, other=self._other, refused=dict(self._refused))

    def deadline(self) -> Instant | None:
        if not self._is_on:
            return None
        due = self._machine.deadline()
        return self._tell_at if due is None else min(due, self._tell_at)

    def ticked(self, now: Instant) -> None:
        if not self._is_on:
            return
        if now >= self._tell_at:
            self._tell_at = Instant(now + TOLD_EVERY_NS)
            self._core.send(self.told)
        self._step(TimePassed())

    def manifest_changed(self) -> None:
        """Take note that the manifest has changed, and may list a new hole."""
        self._step(HolesKnown(self._store.manifest.holes, self._store.manifest.log_id))

    def stop(self) -> None:
        """Give up the work under way; files that are being listed will be listed."""
        self._is_on = False
        self._abandon.set()

    def hears(self, raw: Sequence[bytes | memoryview]) -> None:
        """Take a word of the other history."""
        if not self._is_on:
            return
        try:
            word = decode_word(raw[0] if raw else b"")
        except DecodeError:
            self._refuse("malformed")
            return
        match word:
            case GroupAsked():
                self._answer(lambda: (group_sent(self._store.manifest, word), b""), lambda sent: self._gave(word, sent))
            case PieceAsked():
                self._answer(lambda: read_piece(self._store, word), lambda _: None)
            case GroupSent() | PieceSent():
                self._step(PeerAnswered(word, raw[1] if len(raw) > 1 else b""))

    def _answer(
        self, work: Callable[[], tuple[GroupSent | PieceSent, bytes]], then: Callable[[GroupSent | PieceSent], None]
    ) -> None:
        if self._answering >= ANSWERS_MAX:
            self._refuse("too_many_questions")
            return
        self._answering += 1

        def done(outcome: tuple[GroupSent | PieceSent, bytes] | Exception) -> None:
            self._answering -= 1
            assert not isinstance(outcome, Exception), outcome  # Errors of the disk are part of an answer.
            word, piece = outcome
            self._say(word, piece)
            then(word)

        self._threads.read(work, done)

    def _gave(self, ask: GroupAsked, sent: GroupSent | PieceSent) -> None:
        """Note the other history's progress, which its question tells."""
        if not isinstance(sent, GroupSent) or sent.reason:
            return
        left = sent.left + ask.missed
        is_incomplete = bool(left or sent.group)
        self._other = CopyTold(is_incomplete=is_incomplete, files=sent.files, done=max(0, sent.files - left))

    def _say(self, word: Word, piece: bytes = b"") -> None:
        if self._is_on:
            self._core.send(Carry(), [encode_word(word), piece] if piece else [encode_word(word)])

    def _refuse(self, reason: str) -> None:
        self._refused[reason] += 1
        self._actor.log.limited("history_refused", reason, reason=reason)

    def _step(self, event: Event) -> None:
        if not self._is_on:
            return
        for effect in self._machine.step(event, self._actor.now()):
            self._perform(effect)
        self._on_due()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AskPeer(word):
                self._say(word)
            case StorePiece():
                self._threads.copy(lambda: self._work.store_piece(effect), self._worked)
            case TakeFile():
                self._threads.copy(lambda: self._work.take(effect), self._worked)
            case KeepGroup() | EndHole():
                self._list(effect)
            case Forget():
                self._work.forget()
            case CountRefusal(reason):
                self._refuse(reason)

    def _list(self, effect: KeepGroup | EndHole) -> None:
        wall_ns = self._actor.wall_ns()

        def work() -> None:
            if isinstance(effect, KeepGroup):
                self._work.keep(effect, wall_ns)
            else:
                self._work.end(effect, wall_ns)

        def done(outcome: Exception | None) -> None:
            if outcome is None:
                self._note(effect)
                self.manifest_changed()
            self._worked(outcome)

        self._threads.write(work, done)

    def _note(self, effect: KeepGroup | EndHole) -> None:
        hole = effect.hole
        log, about = self._actor.log, {"first": hole.first_sequence, "last": hole.last_sequence}
        if isinstance(effect, KeepGroup):
            log.info("history_copied", upto=effect.after.upto, missed=len(effect.after.missed), **about)
        else:
            log.info("history_complete", lacks_too=len(effect.left), **about)

    def _worked(self, outcome: Exception | None) -> None:
        match outcome:
            case None:
                self._step(Worked())
            case FileRefused():
                self._step(Worked(outcome.fault))
            case OSError():
                self._step(Worked(outcome.strerror or str(outcome), is_disk=True))
            case HistoryDamaged():
                self._step(Worked(outcome.reason, is_disk=True))
            case MergeAbandoned():
                pass  # The actor stops.
            case _:
                raise outcome
