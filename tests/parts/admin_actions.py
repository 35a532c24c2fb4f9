"""Parts that tests share: admin actions, on real machines."""

from collections.abc import Callable
from typing import Any

from albireo.codec.message import Answer, AnyMessage, Ask
from albireo.model.instant import MS, SECOND
from albireo.runtime import Letter
from tests.parts.pair import OPERATOR, Side
from tests.parts.refusals import refused_with

ANSWERED_NS = 15 * SECOND


class Desk:
    """Where answers to orders arrive; stands for a link."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def send(self, message: AnyMessage, raw: object = (), to: bytes = b"") -> bool:
        assert isinstance(message, Answer)
        self.answers.append(message)
        return True


def order(side: Side, what: str, **arguments: object) -> Callable[[], Answer | None]:
    """Give it; the result tells what was answered up to now."""
    desk = Desk()
    letter = Letter(desk, b"c", Ask(request_id=7, what=what), [], OPERATOR)  # type: ignore[arg-type]  # Only `send`.
    assert side.actions.asked(letter, Ask(request_id=7, what=what, arguments=arguments), side.table.now)
    return lambda: desk.answers[0] if desk.answers else None


def outcome(side: Side, what: str, **arguments: object) -> Answer:
    """Give an order and wait for what becomes of it."""
    answered = order(side, what, **arguments)
    until = side.table.now + ANSWERED_NS
    side.table.deliver()
    while (answer := answered()) is None:
        assert side.table.now < until, "an order is always answered"
        side.table.pass_time(20 * MS)
    return answer


def done(side: Side, what: str, **arguments: object) -> dict[str, Any]:
    answer = outcome(side, what, **arguments)
    assert refused_with(answer) == ""
    assert isinstance(answer.result, dict)
    return answer.result
