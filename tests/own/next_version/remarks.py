"""The next version of the tests' own: one feature level more, which brings a kind of record, its table, and a question.

Somebody notes a text; the table counts how often each was noted, so that a note that is doubled shows. A process is of
the next version by `sitecustomize.py` beside this; a test declares it for a while (`known`).
"""

from functools import partial
from typing import Any, Final

import msgspec
import pytest

from albireo.codec import record
from albireo.codec.frame import FrameHeader
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.codec.record import Stream
from albireo.machine.answers import answers
from albireo.machine.answers.answers import AnsweringRoot
from albireo.machine.fold import declared
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to
from albireo.machine.orders.places import Places
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
from albireo.model.access import AccessRole
from albireo.model.bounded import Count, Name
from albireo.model.refusal import Refusal, RefusalCode

LEVEL: Final = 2
"""Feature level that brings it."""
REMARKS_MAX: Final = 100


class Remarked(msgspec.Struct, frozen=True, kw_only=True, tag="remarked"):
    """Somebody noted a text. Stream STATE."""

    text: Name


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was noted."""

    text: Name
    count: Count
    """Number of times that it was noted."""


REMARKS: Final = TableShape("remarks", Remark, lambda one: one.text, REMARKS_MAX)


class Remarks(TableFold[str, Remark]):
    """The fold."""

    shape = REMARKS
    records = (Remarked,)

    def fold(self, record: Remarked, sequence: int, header: FrameHeader) -> None:
        before = self.find(record.text)
        self.table.put(Remark(text=record.text, count=1 + (before.count if before else 0)), sequence)


class RemarkAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `note`."""

    text: Name


REMARK: Final = QuestionKind(
    name="remark",
    shape=RemarkAsked,
    answer=str,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="note a text",
)
COUNTS: Final = QuestionKind(
    name="remarks",
    shape=Nothing,
    answer=dict[str, int],
    answerer=Answerer.CORE,
    meaning="how often each was noted",
    is_reading=True,
)


def declare() -> None:
    """Add all of it to what this process knows."""
    record.declare(Remarked, LEVEL)
    declared.FOLDS = (*declared.FOLDS, Remarks)
    QUESTIONS.update({one.name: one for one in (REMARK, COUNTS)})
    answers.PARTS = (*answers.PARTS, RemarkAnswers)


def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it known until the end of a test. Levels of members are what the test gives them."""
    monkeypatch.setattr(record, "_decoder", record._decoder)
    monkeypatch.setattr(declared, "FOLDS", declared.FOLDS)
    monkeypatch.setattr(answers, "PARTS", answers.PARTS)
    for one in (REMARK, COUNTS):
        monkeypatch.setitem(QUESTIONS, one.name, one)
    monkeypatch.setitem(record.LEVELS, Remarked, LEVEL)
    declare()


class RemarkAnswers:
    """The part of the answers that is about notes."""

    def __init__(self, root: AnsweringRoot, _: Places) -> None:
        self.handlers = (handled(REMARK, partial(_note, root)), handled(COUNTS, partial(_notes, root)))


def _note(root: AnsweringRoot, question: Question, asked: RemarkAsked, turn: Turn) -> None:
    root.admission.check_open()
    noted: Any = Remarked(text=asked.text)
    if not record.may_append(noted, turn.level):
        cause = f"the log is at feature level {turn.level}, and notes need {LEVEL}"
        raise NotAnswered(Refusal(RefusalCode.NOT_POSSIBLE, cause))
    end = turn.record(Stream.STATE, [noted])
    root.after(end, question.sender, answer_to(question.request_id, asked.text), turn)


def _notes(root: AnsweringRoot, question: Question, _: Nothing, turn: Turn) -> None:
    counts = {one.text: one.count for one in root.folds.of(Remarks)}
    turn.answer(question, counts)
