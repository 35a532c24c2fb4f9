"""The next version of the tests' own: one feature level more, which brings a kind of record, its table, and a question.

Somebody notes a text; the table counts how often each was noted, so that a note that is doubled shows. A process is of
the next version by `sitecustomize.py` beside this; a test declares it for a while (`known`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from albireo.codec import record
from albireo.codec.frame import FrameHeader
from albireo.codec.record import Stream
from albireo.machine.answers.answers import AnsweringRoot, Answers
from albireo.machine.fold import declared
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to
from albireo.machine.table.fold import TableFold
from albireo.machine.table.shape import TableShape
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


class NoteAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `note`."""

    text: Name


class NotesAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the question `notes`: none."""


def declare() -> None:
    """Add all of it to what this process knows."""
    record.declare(Noted, LEVEL)
    declared.FOLDS = (*declared.FOLDS, Notes)
    # Questions are no list yet to which one adds.
    Answers.__init__ = with_questions(Answers.__init__)  # type: ignore[method-assign, assignment]  # By hand.


def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it known until the end of a test. Levels of members are what the test gives them."""
    monkeypatch.setattr(record, "_decoder", record._decoder)
    monkeypatch.setattr(declared, "FOLDS", declared.FOLDS)
    monkeypatch.setattr(Answers, "__init__", Answers.__init__)
    monkeypatch.setitem(record.LEVELS, Noted, LEVEL)
    declare()


def with_questions(begins: Callable[[Answers, AnsweringRoot], None]) -> Callable[[Answers, AnsweringRoot], None]:
    """The beginning of the answers, which know two more questions."""

    def begin(self: Answers, root: AnsweringRoot) -> None:
        begins(self, root)
        self._known |= {"note": (NoteAsked, partial(_note, root)), "notes": (NotesAsked, partial(_notes, root))}

    return begin


def _note(root: AnsweringRoot, question: Question, asked: NoteAsked, turn: Turn) -> None:
    root.admission.check_open()
    noted: Any = Noted(text=asked.text)
    if not record.may_append(noted, turn.level):
        cause = f"the log is at feature level {turn.level}, and notes need {LEVEL}"
        raise NotAnswered(Refusal(RefusalCode.NOT_POSSIBLE, cause))
    end = turn.record(Stream.STATE, [noted])
    root.after(end, question.sender, answer_to(question.request_id, asked.text), turn)


def _notes(root: AnsweringRoot, question: Question, _: NotesAsked, turn: Turn) -> None:
    counts = {one.text: one.count for one in root.folds.of(Notes)}
    turn.answer(question, counts)
