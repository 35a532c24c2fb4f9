"""Handlers of questions in CORE: each is bound to its question, whose shape it takes."""

from collections.abc import Callable
from typing import Any, TypeAlias

from albireo.codec.questions.kind import Handled, QuestionKind, ShapeT
from albireo.machine.kernel.turn import Question, Turn

Handler: TypeAlias = Callable[[Question, Any, Turn], None]
"""Answers a question, now or after a later commit."""


def handled(kind: QuestionKind[ShapeT, Any], handler: Callable[[Question, ShapeT, Turn], None]) -> Handled[Handler]:
    """Bind a handler to a question."""
    return Handled(kind, handler)
