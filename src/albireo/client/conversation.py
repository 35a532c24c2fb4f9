"""Conversation: a generator that yields requests, is sent their replies, and returns what the caller wanted.

Whoever runs it decides how to wait: a thread (client.py) or a coroutine (aio.py).
"""

from collections.abc import Generator
from typing import TypeVar

import msgspec

from albireo.client.errors import AnswerNotUnderstood
from albireo.client.questions import NodeReply, Request

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
