"""Conversation: a generator that yields requests, is sent their replies, and returns what the caller wanted.

Whoever runs it decides how to wait: a thread (`held`) or a coroutine (aio.py).
"""

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

import msgspec

from albireo.client.errors import AnswerNotUnderstood, ClientError
from albireo.client.questions import NodeReply, Request
from albireo.codec.questions.kind import QuestionKind, ShapeT, arguments_of

_Wanted = TypeVar("_Wanted")
Conversation = Generator[Request, NodeReply, _Wanted]


def understood(what: str, result: object, shape: type[_Wanted]) -> _Wanted:
    """The answer as a value.

    Raises:
        AnswerNotUnderstood: it has another form.
    """
    try:
        return msgspec.convert(result, shape)
    except msgspec.ValidationError as error:
        raise AnswerNotUnderstood(what, str(error)) from error


def asks(kind: QuestionKind[ShapeT, _Wanted], asked: ShapeT, wait_s: float | None = None) -> Conversation[_Wanted]:
    """One question of the list.

    Args:
        wait_s: time that the answer may take; None: that of the client.
    """
    reply = yield Request(what=kind.name, of=kind.answerer.part, arguments=arguments_of(asked), wait_s=wait_s)
    return understood(kind.name, reply.result, kind.answer)


def held(conversation: Conversation[_Wanted], begin: "Callable[[Request], Future[NodeReply]]") -> _Wanted:
    """The end of a conversation that this thread holds.

    Args:
        begin: asks one question.
    """
    try:
        request = next(conversation)
        while True:
            if request.pause_s:
                time.sleep(request.pause_s)
            try:
                reply = begin(request).result()
            except ClientError as error:
                request = conversation.throw(error)
            else:
                request = conversation.send(reply)
    except StopIteration as ended:
        wanted: _Wanted = ended.value
        return wanted
