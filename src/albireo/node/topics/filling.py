"""Messages that files lack: from the other member's files, by way of both COREs; and the same for the other member.

The machine is machine/topics/filling.py. A word that gets lost is asked for again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from albireo.codec.errors import DecodeError
from albireo.codec.files_told import MessagesTold
from albireo.codec.message import Carry
from albireo.codec.served import decode_served, encode_served
from albireo.codec.topic_files import FillWord, MessagesAsked, MessagesSent, decode_word, encode_word
from albireo.machine.topics.filling import HoleFilling, KeepPieces
from albireo.machine.topics.tables import TopicTables
from albireo.model.instant import SECOND, Instant, soonest
from albireo.node.topics.reads import StoreReads
from albireo.node.topics.store import StoredPiece, TopicStore
from albireo.node.topics.writes import StoreWrites
from albireo.runtime import ActorContext, Link

NAME: Final = "topics"
"""Name of the actor, of its links, of its door, and of the producer of cursors."""
HERE_NS: Final = SECOND
"""Time between two words to CORE that this actor is here."""
PIECE_BYTES: Final = 512 << 10
ANSWERS_MAX: Final = 4
"""Most questions of the other member that are being answered; it asks one at a time."""


class MessageFilling:
    """Both directions, for the loop of the actor; of a node that stands alone neither."""

    def __init__(
        self,
        actor: ActorContext,
        core: Link,
        reads: StoreReads,
        writes: StoreWrites,
        changed: Callable[[], object],
        *,
        is_paired: bool,
    ) -> None:
        """`changed`: there are other files."""
        self.machine = HoleFilling()
        self.is_paired = is_paired
        self.wants_files = False
        """True: the other member lacks what is in no file here yet."""
        self._actor = actor
        self._core = core
        self._reads = reads
        self._writes = writes
        self._changed = changed
        self._here_at = Instant(0)
        self._answering = 0

    def deadline(self) -> Instant | None:
        return soonest(self._here_at, self.machine.deadline())

    def ticked(self, now: Instant, store: TopicStore) -> None:
        self.wants_files = False  # It asks again.
        if now >= self._here_at:
            self._here_at = Instant(now + HERE_NS)
            self._core.send(MessagesTold(lacking=len(store.holes)))
            if self.is_paired:
                self._core.send(Carry(actor=NAME))
        self.machine.holes(store.manifest.holes, now)
        for ask in self.machine.ticked(now):
            log_id = store.manifest.log_id
            self._say(MessagesAsked(number=ask.number, log_id=log_id, after=ask.after, up_to=ask.up_to))

    def heard(self, raw: Sequence[bytes | memoryview], store: TopicStore, tables: TopicTables) -> None:
        """A word of the other member."""
        try:
            word = decode_word(raw[0] if raw else b"")
            messages = decode_served(raw[1]).messages if len(raw) > 1 else None
        except DecodeError as error:
            self._actor.log.limited("messages_refused", "word", reason=error.reason)
            return
        if isinstance(word, MessagesSent):
            for done in self.machine.heard(word, messages, self._actor.now()):
                self._keep(done, store, tables)
        elif word.log_id == store.manifest.log_id and self._answering < ANSWERS_MAX:
            self._answering += 1
            up_to = min(word.up_to, store.manifest.position.sequence)
            self.wants_files = up_to < word.up_to
            names = {one.topic_id: one.name for one in tables.topics}
            then = partial(self._was_read, word, names)
            wanted = {one.topic_id: one.gone for one in tables.topics}
            self._reads.read(store, wanted, word.after, up_to, PIECE_BYTES, then)

    def _was_read(self, word: MessagesAsked, names: dict[int, str], piece: StoredPiece | None, problem: str) -> None:
        self._answering -= 1
        if piece is None:
            return
        sent = MessagesSent(
            number=word.number,
            scanned_to=piece.scanned_to,
            lacks_to=0 if piece.hole is None else piece.hole.last_sequence,
        )
        messages = piece.messages
        if messages is None:
            self._say(sent)
        else:
            told = {one: names[one] for one in np.unique(messages.topic_id).tolist()}
            self._say(sent, encode_served(messages, np.zeros(len(messages), np.uint8), told))

    def _keep(self, done: KeepPieces, store: TopicStore, tables: TopicTables) -> None:
        """Put messages of the other member in the place of a hole."""
        topics = {one.topic_id: one.name for one in tables.topics}

        def kept(error: Exception | None) -> None:
            self.machine.kept(self._actor.now())
            if error is None:
                event = "messages_given_up" if done.is_given_up else "messages_filled"
                count = sum(map(len, done.pieces))
                self._actor.log.info(event, first=done.hole.first_sequence, up_to=done.up_to, count=count)
            self._changed()

        told = done.pieces, topics, tables.kept(), done.hole, done.up_to
        self._writes.write(partial(store.fill, *told), kept)

    def give_up(self, store: TopicStore, name: str, then: Callable[[], None]) -> None:
        """Move a damaged file aside; the other member may have its messages."""

        def given_up(_: Exception | None) -> None:
            self._changed()
            then()

        self._writes.write(partial(store.give_up, name, is_alone=not self.is_paired), given_up)

    def _say(self, word: FillWord, *parts: bytes) -> None:
        self._core.send(Carry(actor=NAME), [encode_word(word), *parts])
