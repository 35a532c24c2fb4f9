"""Refusals as tests look at them."""

from albireo.client.errors import ClientError, refused
from albireo.codec.message import Answer, AppendRefused, FeedAnswer
from albireo.model.refusal import Refusal


def refused_with(answer: Answer) -> str:
    """Cause and remedy of a refusal; empty: the answer is a value."""
    return "" if answer.refusal is None else str(answer.refusal)


def code(answer: Answer | AppendRefused | FeedAnswer) -> str:
    """Code of a refusal; empty: there is none."""
    return "" if answer.refusal is None else answer.refusal.code


def no(code: str, cause: str = "no", remedy: str = "") -> Refusal:
    """A refusal of this code."""
    return Refusal(code, cause, remedy)


def error_of(what: str, answer: Answer) -> ClientError:
    """The error that a client raises for a refused question."""
    assert answer.refusal is not None
    return refused(what, answer.refusal)
