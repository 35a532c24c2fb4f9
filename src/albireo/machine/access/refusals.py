"""Refusals as messages: each kind of sender is told by a message of its own kind."""

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
from albireo.model.refusal import Refusal


def refusal_of(message: AnyMessage, refusal: Refusal) -> AnyMessage | None:
    """Message that refuses a message; None: there is none to this kind.

    A producer in the middle of its batches says hello again upon it, and that is refused for good.
    """
    match message:
        case Ask(request_id=request_id):
            return Answer(request_id=request_id, refusal=refusal)
        case ProducerHello(run=run):
            return AppendRefused(producer_id=0, producer_sequence=0, refusal=refusal, is_final=True, run=run)
        case Append():
            return AppendRefused(producer_id=0, producer_sequence=0, refusal=refusal)
        case FeedHello() | FeedAck():
            return FeedAnswer(verdict="refused", refusal=refusal)
        case _:
            return None
