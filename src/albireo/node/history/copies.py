"""Copies: questions of a history to another one that may have what it lacks, and answers to it. Shells around
`machine.history.copying` and `machine.history.giving`.

    Filling   asks for what one history lacks
    Giver     answers, out of any history
    Copies    both, between the two members of a pair

Words go through COREs, which do not read them (`Carry`); a word that gets lost is sent again.

Spec: ADR-0124, ADR-0218.
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
from albireo.machine.history.copy_events import (
    AskPeer,
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
from albireo.machine.history.copy_pace import FROM_MEMBER, CopyConfig
from albireo.machine.history.copying import Copying
from albireo.machine.history.giving import group_sent
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.node.history.copy_work import CopyWork, read_piece
from albireo.node.history.errors import FileRefused, HistoryDamaged, HoleGone, MergeAbandoned
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import ActorContext, Link

TOLD_EVERY_NS: Final = SECOND
ANSWERS_MAX: Final = 4
"""Most answers being prepared at once; the other history asks one question at a time, and repeats it only after a
while."""

Question = GroupAsked | PieceAsked
Reply = GroupSent | PieceSent
Say = Callable[[Word, bytes], object]
"""Sends a word, and the piece beside it."""


def parts_of(word: Word, piece: bytes) -> list[bytes]:
    """The raw parts that carry a word."""
    return [encode_word(word), piece] if piece else [encode_word(word)]


def word_in(raw: Sequence[bytes | memoryview]) -> tuple[Word, bytes | memoryview]:
    """The word that raw parts carry, and the piece beside it.

    Raises:
        DecodeError: there is none.
    """
    return decode_word(raw[0] if raw else b""), raw[1] if len(raw) > 1 else b""


class Filling:
    """Has the holes of one history filled, for the loop of the actor."""

    def __init__(
        self,
        actor: ActorContext,
        store: HistoryStore,
        threads: HistoryThreads,
        say: Callable[[Question], object],
        on_due: Callable[[], object],
        config: CopyConfig = FROM_MEMBER,
    ) -> None:
        """
        Args:
            say: sends a question to the other history.
            on_due: called when `deadline` has changed.
        """
        self.refused: Counter[str] = Counter()
        """Number of words of the other history that were not believed, by reason."""
        self._actor = actor
        self._store = store
        self._threads = threads
        self._say = say
        self._on_due = on_due
        self._node = config.node
        self._is_on = True
        self._abandon = threading.Event()
        self._machine = Copying(secrets.randbits(31), config)
        self._work = CopyWork(store, self._abandon)

    @property
    def progress(self) -> CopyTold:
        return self._machine.progress

    def deadline(self) -> Instant | None:
        return self._machine.deadline() if self._is_on else None

    def ticked(self) -> None:
        self._step(TimePassed())

    def manifest_changed(self) -> None:
        """Take note that the manifest has changed, and may list a new hole."""
        self._step(HolesKnown(self._store.manifest.holes, self._store.manifest.log_id))

    def stop(self) -> None:
        """Give up the work under way; files that are being listed will be listed."""
        self._is_on = False
        self._abandon.set()

    def hears(self, word: Reply, piece: bytes | memoryview) -> None:
        """Take an answer of the other history."""
        self._step(PeerAnswered(word, piece))

    def refuse(self, reason: str) -> None:
        self.refused[reason] += 1
        self._actor.log.limited("history_refused", f"{self._node} {reason}", reason=reason, node=self._node)

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
                self.refuse(reason)

    def _list(self, effect: KeepGroup | EndHole) -> None:
        now_ns = self._actor.now()

        def work() -> None:
            if isinstance(effect, KeepGroup):
                self._work.keep(effect, now_ns)
            else:
                self._work.end(effect, now_ns)

        def done(outcome: Exception | None) -> None:
            if outcome is None:
                self._note(effect)
                self.manifest_changed()
            self._worked(outcome)

        self._threads.write(work, done)

    def _note(self, effect: KeepGroup | EndHole) -> None:
        hole = effect.hole
        log, about = self._actor.log, {"first": hole.first_sequence, "last": hole.last_sequence, "node": self._node}
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
            case HoleGone():
                self._step(Worked("hole_gone"))
            case OSError():
                self._step(Worked(outcome.strerror or str(outcome), is_disk=True))
            case HistoryDamaged():
                self._step(Worked(outcome.reason, is_disk=True))
            case MergeAbandoned():
                pass  # The actor stops.
            case _:
                raise outcome


class Giver:
    """Answers questions of other histories, for the loop of the actor."""

    def __init__(self, threads: HistoryThreads) -> None:
        self._threads = threads
        self._answering = 0

    def answers(self, store: HistoryStore, ask: Question, say: Say, *, is_final: bool = False) -> bool:
        """Answer a question out of `store`, soon; False: too many are being answered.

        Args:
            is_final: nobody is asked for what this history lacks.
        """
        if self._answering >= ANSWERS_MAX:
            return False
        self._answering += 1

        def work() -> tuple[Reply, bytes]:
            if isinstance(ask, PieceAsked):
                return read_piece(store, ask)
            return group_sent(store.manifest, ask, is_final=is_final), b""

        def done(outcome: tuple[Reply, bytes] | Exception) -> None:
            self._answering -= 1
            assert not isinstance(outcome, Exception), outcome  # Errors of the disk are part of an answer.
            say(*outcome)

        self._threads.read(work, done)
        return True


class Copies:
    """The copies between the members of a pair, for the loop of the actor; none for a node that stands alone."""

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
        self._store = store
        self._core = core
        self._is_on = is_paired
        self._filling = Filling(actor, store, threads, lambda word: self._say(word), on_due)
        self._giver = Giver(threads)
        self._other = CopyTold()
        """Progress of the other history with its copy of ours, as its questions show."""
        self._tell_at = Instant(0)

    @property
    def told(self) -> HistoryTold:
        """Progress in both directions, for status."""
        filling = self._filling
        return HistoryTold(own=filling.progress, other=self._other, refused=dict(filling.refused))

    def deadline(self) -> Instant | None:
        if not self._is_on:
            return None
        due = self._filling.deadline()
        return self._tell_at if due is None else min(due, self._tell_at)

    def ticked(self, now: Instant) -> None:
        if not self._is_on:
            return
        if now >= self._tell_at:
            self._tell_at = Instant(now + TOLD_EVERY_NS)
            self._core.send(self.told)
        self._filling.ticked()

    def manifest_changed(self) -> None:
        """Take note that the manifest has changed, and may list a new hole."""
        if self._is_on:
            self._filling.manifest_changed()

    def stop(self) -> None:
        """Give up the work under way; files that are being listed will be listed."""
        self._is_on = False
        self._filling.stop()

    def hears(self, raw: Sequence[bytes | memoryview]) -> None:
        """Take a word of the other history."""
        if not self._is_on:
            return
        try:
            word, piece = word_in(raw)
        except DecodeError:
            self._filling.refuse("malformed")
            return
        if isinstance(word, GroupSent | PieceSent):
            self._filling.hears(word, piece)
        elif not self._giver.answers(self._store, word, lambda sent, more: self._gave(word, sent, more)):
            self._filling.refuse("too_many_questions")

    def _gave(self, ask: Question, sent: Word, piece: bytes) -> None:
        """Answer, and note the other history's progress, which its question tells."""
        self._say(sent, piece)
        if not isinstance(ask, GroupAsked) or not isinstance(sent, GroupSent) or sent.reason:
            return
        left = sent.left + ask.missed
        is_incomplete = bool(left or sent.group)
        self._other = CopyTold(is_incomplete=is_incomplete, files=sent.files, done=max(0, sent.files - left))

    def _say(self, word: Word, piece: bytes = b"") -> None:
        if self._is_on:
            self._core.send(Carry(), parts_of(word, piece))
