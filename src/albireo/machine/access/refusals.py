"""Refusals of access as messages: each kind of sender is told in its own words."""

from typing import Final

from albireo.codec.message import (
    Answer,
    AnyMessage,
    Append,
    AppendRefused,
    Ask,
    FeedAck,
    FeedAnswer,
    FeedHello,
    ProducerHello,
)

REASON: Final = "access"
"""Reason of `AppendRefused`: the principal lacks the role."""


def refusal_of(message: AnyMessage, text: str) -> AnyMessage | None:
    """Answer to a message whose sender lacks the role; None: there is none to this kind of message.

    A producer in the middle of its batches is told without a word: it says hello again, and that is refused for good,
    with the words.
    """
    match message:
        case Ask(request_id=request_id):
            return Answer(request_id=request_id, error=text)
        case ProducerHello(run=run):
            return AppendRefused(producer_id=0, producer_sequence=0, reason=REASON, run=run, detail=text)
        case Append():
            return AppendRefused(producer_id=0, producer_sequence=0, reason=REASON)
        case FeedHello() | FeedAck():
            return FeedAnswer(verdict="refused", reason=text)
        case _:
            return None
