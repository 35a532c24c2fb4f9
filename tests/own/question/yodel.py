"""A question of the tests' own: CORE says a word again, to whoever may operate."""

from typing import Final

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind
from albireo.machine.answers.answers import AnsweringRoot
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.places import Places
from albireo.model.access import AccessRole
from albireo.model.bounded import Name


class YodelAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `yodel`."""

    word: Name
    times: int = 1


YODEL: Final = QuestionKind(
    name="yodel",
    shape=YodelAsked,
    answer=list[str],
    answerer=Answerer.CORE,
    role=AccessRole.OPERATE,
    meaning="say a word again",
    is_reading=True,
    subject="word",
)


class YodelAnswers:
    """The part of the answers that is about yodels."""

    def __init__(self, root: AnsweringRoot, _: Places) -> None:
        self.handlers = (handled(YODEL, self._yodel),)

    def _yodel(self, question: Question, asked: YodelAsked, turn: Turn) -> None:
        turn.answer(question, [asked.word] * asked.times)
