"""Fillings: what a node below let go of, or what was missed here, comes from the stored history that the node keeps.

Each history of a node below that has an open hole asks that of the node itself, and this history answers those above
in the same way: out of its own rows, and out of those of nodes further below. The ways are CORE's (StoredRelay).

Spec: ADR-0218.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.history import Hole
from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent, Word
from albireo.codec.tree.stored import StoredAsked, StoredGiven
from albireo.machine.history.copy_pace import FROM_BELOW
from albireo.machine.history.declared import Row
from albireo.model.instant import Instant, soonest
from albireo.node.history.below.origin import OriginHistory
from albireo.node.history.below.origins import HistoryBelow
from albireo.node.history.copies import Filling, Giver, Question, Reply, parts_of, word_in
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import ActorContext, Letter, Link

HOLES_TOLD: Final = 16
"""Most holes of one history that `stats` tells, the newest ones."""


class FillingsBelow:
    """The fillings, and answers to nodes above, for the loop of the actor."""

    def __init__(
        self,
        actor: ActorContext,
        store: HistoryStore,
        below: HistoryBelow,
        threads: HistoryThreads,
        core: Link,
        on_due: Callable[[], object],
        *,
        is_paired: bool,
    ) -> None:
        """
        Args:
            store: of this node.
            on_due: called when `deadline` has changed.
            is_paired: the other member of this node may have what `store` lacks.
        """
        self._actor = actor
        self._store = store
        self._below = below
        self._threads = threads
        self._core = core
        self._on_due = on_due
        self._is_paired = is_paired
        self._giver = Giver(threads)
        self._fillings: dict[bytes, Filling] = {}
        """By log; of the histories that have, or had, an open hole in this run."""
        self._is_on = True

    def deadline(self) -> Instant | None:
        return soonest(*(one.deadline() for one in self._fillings.values()))

    def ticked(self) -> None:
        for one in list(self._fillings.values()):
            one.ticked()

    def look(self) -> None:
        """Take note that manifests have changed, and may list new holes."""
        for origin in self._below:
            log_id = origin.folder.log_id
            if log_id not in self._fillings and any(not one.is_settled for one in origin.store.manifest.holes):
                self._fillings[log_id] = self._filling_of(origin)
        for one in list(self._fillings.values()):
            one.manifest_changed()

    def _filling_of(self, origin: OriginHistory) -> Filling:
        node, log_id = origin.node, origin.folder.log_id

        def say(word: Question) -> None:
            self._core.send(StoredAsked(node=node, log_id=log_id), parts_of(word, b""))

        config = msgspec.structs.replace(FROM_BELOW, node=node)
        return Filling(self._actor, origin.store, self._threads, say, self._on_due, config)

    def stop(self) -> None:
        """Give up the work under way; files that are being listed will be listed."""
        self._is_on = False
        for one in self._fillings.values():
            one.stop()

    def hears(self, letter: Letter, message: StoredAsked | StoredGiven) -> None:
        """Take a question of a node above, or an answer of one below."""
        if not self._is_on:
            return
        try:
            word, piece = word_in(letter.raw)
        except DecodeError as error:
            self._actor.log.limited("history_refused", f"{message.node} malformed", node=message.node, why=str(error))
            return
        match message, word:
            case StoredGiven(), GroupSent() | PieceSent():
                self._given(message, word, piece)
            case StoredAsked(), GroupAsked() | PieceAsked():
                self._asked(letter, message, word)
            case _:
                pass  # An answer where a question is expected, or the other way round.

    def _given(self, given: StoredGiven, word: Reply, piece: bytes | memoryview) -> None:
        """Take an answer about a log of the node that gives it, and of no other."""
        origin, filling = self._below.of_log(given.log_id), self._fillings.get(given.log_id)
        if origin is not None and filling is not None and origin.node == given.node:
            filling.hears(word, piece)

    def _asked(self, letter: Letter, asked: StoredAsked, ask: Question) -> None:
        def say(word: Word, piece: bytes) -> None:
            answer = StoredGiven(node=asked.node, log_id=asked.log_id, member=asked.member)
            if self._is_on:
                letter.link.send(answer, parts_of(word, piece), to=letter.sender)

        store, is_final = self._store_of(asked)
        if store is None:
            say(no_such_log(ask), b"")
        elif not self._giver.answers(store, ask, say, is_final=is_final):
            self._actor.log.limited("history_refused", "too_many_questions", reason="too_many_questions")

    def _store_of(self, asked: StoredAsked) -> tuple[HistoryStore | None, bool]:
        """The history of a log, and whether nobody is asked for what it lacks."""
        own = self._store.manifest
        if (asked.node, asked.log_id.hex()) == (own.node, own.log_id):
            return self._store, not self._is_paired
        origin = self._below.of_log(asked.log_id)
        return (None if origin is None or origin.node != asked.node else origin.store), False

    def figures(self) -> list[Row]:
        """Figures of each history below, what it lacks, and how far the filling is; for `stats`."""
        return [origin.figures() | self._lacking(origin) for origin in self._below]

    def _lacking(self, origin: OriginHistory) -> Row:
        holes = (*origin.store.manifest.holes, *origin.hot.holes)
        filling = self._fillings.get(origin.folder.log_id)
        return {
            "generation": origin.store.manifest.generation,
            "filled": origin.store.manifest.filled,
            "holes": len(holes),
            "settled": sum(hole.is_settled for hole in holes),
            "lacks": [_told(hole) for hole in holes[-HOLES_TOLD:]],
            "copy": None if filling is None else msgspec.to_builtins(filling.progress),
            "refused": {} if filling is None else dict(filling.refused),
        }


def no_such_log(ask: Question) -> Reply:
    """Answer where there is no history of the log."""
    if isinstance(ask, PieceAsked):
        return PieceSent(number=ask.number, path=ask.path, offset=ask.offset, reason="gone")
    return GroupSent(number=ask.number, reason="other_log")


def _told(hole: Hole) -> Row:
    return {
        "first": hole.first_sequence,
        "last": hole.last_sequence,
        "from_ns": hole.from_ns,
        "to_ns": hole.to_ns,
        "reason": hole.reason,
        "is_final": hole.is_settled,
    }
