"""Answers of the actor `topics`: single messages, which CORE asks for on behalf of programs."""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np

from albireo.codec.message import Answer, Ask
from albireo.codec.puts import Extra
from albireo.codec.questions.topics import TOPIC_MESSAGE, TopicMessageAsked, TopicMessageTold
from albireo.codec.served import MessageColumns
from albireo.machine.topics.tail import MessageTail
from albireo.model.refusal import Refusal, RefusalCode, unknown_question
from albireo.node.topics.reads import StoreReads
from albireo.node.topics.store import StoredPiece, TopicStore

EARLY_MAX: Final = 64
"""Most questions that wait for the tail."""
_GONE: Final = Refusal(RefusalCode.UNKNOWN_NAME, "the message is gone", "look up its key again")
_LACKING: Final = Refusal(RefusalCode.NOT_YET, "the message is being fetched from the other member", "ask again soon")
_EARLY: Final = Refusal(RefusalCode.BUSY, "too many ask for messages that are not here yet", "ask again soon")


class MessageAnswers:
    """The questions of one link. `say` answers one, by its sender."""

    def __init__(self, say: Callable[[bytes, Answer], object], reads: StoreReads) -> None:
        self._say = say
        self._reads = reads
        self._early: list[tuple[bytes, int, TopicMessageAsked]] = []

    def asked(self, sender: bytes, ask: Ask, tail: MessageTail, store: TopicStore) -> None:
        """Answer a question, at once, after a look into files, or as soon as the tail is where it says."""
        refusal: Refusal | None = None
        if ask.what != TOPIC_MESSAGE.name:
            refusal = unknown_question(ask.what, [TOPIC_MESSAGE.name])
        else:
            try:
                self._look(sender, ask.request_id, msgspec.convert(ask.arguments, TopicMessageAsked), tail, store)
            except msgspec.ValidationError as error:
                refusal = Refusal(RefusalCode.MALFORMED, str(error))
        if refusal is not None:
            self._say(sender, Answer(request_id=ask.request_id, refusal=refusal))

    def grown(self, tail: MessageTail, store: TopicStore) -> None:
        """The tail has more."""
        if self._early:
            early, self._early = self._early, []
            for one in early:
                self._look(*one, tail, store)

    def _look(
        self, sender: bytes, request_id: int, wanted: TopicMessageAsked, tail: MessageTail, store: TopicStore
    ) -> None:
        if wanted.sequence > tail.end.sequence:
            if len(self._early) >= EARLY_MAX:
                self._say(sender, Answer(request_id=request_id, refusal=_EARLY))
            else:
                self._early.append((sender, request_id, wanted))
            return
        if wanted.sequence > tail.begin.sequence:
            messages = tail.behind(wanted.sequence - 1)[0].messages
            self._told(sender, request_id, wanted, messages)
            return
        of = {wanted.topic_id: wanted.number - 1}, wanted.sequence - 1, wanted.sequence, 1
        self._reads.read(store, *of, partial(self._was_read, sender, request_id, wanted))

    def _was_read(
        self, sender: bytes, request_id: int, wanted: TopicMessageAsked, piece: StoredPiece | None, problem: str
    ) -> None:
        if piece is None:
            refusal = Refusal(RefusalCode.DISK_FAILED, problem, "look at the log of the actor `topics`")
            self._say(sender, Answer(request_id=request_id, refusal=refusal))
        elif piece.hole is not None:
            self._say(sender, Answer(request_id=request_id, refusal=_LACKING))
        else:
            self._told(sender, request_id, wanted, piece.messages)

    def _told(self, sender: bytes, request_id: int, wanted: TopicMessageAsked, messages: MessageColumns | None) -> None:
        index = 0 if messages is None else int(np.searchsorted(messages.sequence, wanted.sequence))
        if messages is None or index == len(messages) or not _is_it(messages, index, wanted):
            self._say(sender, Answer(request_id=request_id, refusal=_GONE))
            return
        begin = int(messages.starts[index])
        body = bytes(memoryview(messages.buffer)[begin : begin + int(messages.lengths[index])])
        extra = messages.extras.get(index, Extra())
        told = TopicMessageTold(body=body, headers=extra.headers, at_ns=int(messages.at_ns[index]))
        self._say(sender, Answer(request_id=request_id, result=msgspec.to_builtins(told, builtin_types=(bytes,))))


def _is_it(messages: MessageColumns, index: int, wanted: TopicMessageAsked) -> bool:
    found = messages.sequence[index], messages.topic_id[index], messages.number[index]
    return found == (wanted.sequence, wanted.topic_id, wanted.number)
