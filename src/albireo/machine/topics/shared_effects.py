"""Effects of sharing, and answers to those who ask."""

import msgspec

from albireo.codec.message import Answer
from albireo.codec.puts import CursorMoved, Extra, LeaseMoved
from albireo.model.refusal import Refusal


class AskPlace(msgspec.Struct, frozen=True):
    """Who asks."""

    link: str
    sender: bytes
    request_id: int


class AnswerTo(msgspec.Struct, frozen=True, eq=False):
    """Effect: answer a question; if nobody is there, `lost` is to be called."""

    to: AskPlace
    answer: Answer
    raw: tuple[bytes, ...] = ()


class ReadShared(msgspec.Struct, frozen=True):
    """Effect: read messages of a topic from files, from a number on, and call `read` with them."""

    subscription_id: int
    consumer: int
    topic_id: int
    first: int
    up_to: int
    """Sequence up to which files have everything."""
    bytes_max: int


class RecordShared(msgspec.Struct, frozen=True, eq=False):
    """Effect: have this recorded."""

    moves: tuple[CursorMoved, ...] = ()
    leases: tuple[LeaseMoved, ...] = ()


class PutDead(msgspec.Struct, frozen=True, eq=False):
    """Effect: put a message to the topic of dead letters, and have it done where it was, or neither."""

    target_id: int
    stays_here: bool
    """That topic is kept with one member."""
    body: bytes
    extra: Extra
    move: CursorMoved


Effect = AnswerTo | ReadShared | RecordShared | PutDead


def answered(place: AskPlace, result: object = None, raw: tuple[bytes, ...] = ()) -> AnswerTo:
    """An answer."""
    return AnswerTo(place, Answer(request_id=place.request_id, result=result), raw)


def refused(place: AskPlace, refusal: Refusal) -> AnswerTo:
    """A refusal."""
    return AnswerTo(place, Answer(request_id=place.request_id, refusal=refusal))
