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
NOTES_MAX: Final = 100


class Noted(msgspec.Struct, frozen=True, kw_only=True, tag="noted"):
    """Somebody noted a text. Stream STATE."""

    text: Name


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was noted."""

    text: Name
    count: Count
    """Number of times that it was noted."""


NOTES: Final = TableShape("notes", Note, lambda one: one.text, NOTES_MAX)


class Notes(TableFold[str, Note]):
    """The fold."""

    shape = NOTES
    records = (Noted,)

    def fold(self, record: Noted, sequence: int, header: FrameHeader) -> None:
        before = self.find(record.text)
        self.table.put(Note(text=record.text, count=1 + (before.count if before else 0)), sequence)


class NoteAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `note`."""

    text: Name


NOTE: Final = QuestionKind(
    name="note", shape=NoteAsked, answer=str, answerer=Answerer.ACTING, role=AccessRole.OPERATE, meaning="note a text"
)
COUNTS: Final = QuestionKind(
    name="notes",
    shape=Nothing,
    answer=dict[str, int],
    answerer=Answerer.CORE,
    meaning="how often each was noted",
    is_reading=True,
)


def declare() -> None:
    """Add all of it to what this process knows."""
    record.declare(Noted, LEVEL)
    declared.FOLDS = (*declared.FOLDS, Notes)
    QUESTIONS.update({one.name: one for one in (NOTE, COUNTS)})
    answers.PARTS = (*answers.PARTS, NoteAnswers)


def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it known until the end of a test. Levels of members are what the test gives them."""
    monkeypatch.setattr(record, "_decoder", record._decoder)
    monkeypatch.setattr(declared, "FOLDS", declared.FOLDS)
    monkeypatch.setattr(answers, "PARTS", answers.PARTS)
    for one in (NOTE, COUNTS):
        monkeypatch.setitem(QUESTIONS, one.name, one)
    monkeypatch.setitem(record.LEVELS, Noted, LEVEL)
    declare()


class NoteAnswers:
    """The part of the answers that is about notes."""

    def __init__(self, root: AnsweringRoot, _: Places) -> None:
        self.handlers = (handled(NOTE, partial(_note, root)), handled(COUNTS, partial(_notes, root)))


def _note(root: AnsweringRoot, question: Question, asked: NoteAsked, turn: Turn) -> None:
    root.admission.check_open()
    noted: Any = Noted(text=asked.text)
    if not record.may_append(noted, turn.level):
        cause = f"the log is at feature level {turn.level}, and notes need {LEVEL}"
        raise NotAnswered(Refusal(RefusalCode.NOT_POSSIBLE, cause))
    end = turn.record(Stream.STATE, [noted])
    root.after(end, question.sender, answer_to(question.request_id, asked.text), turn)


def _notes(root: AnsweringRoot, question: Question, _: Nothing, turn: Turn) -> None:
    counts = {one.text: one.count for one in root.folds.of(Notes)}
    turn.answer(question, counts)
