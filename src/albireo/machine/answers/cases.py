"""Answers about cases: those of this node, and those of the nodes below."""

from typing import Protocol

import msgspec

from albireo.codec.questions.cases import CASES, FLOOD, CasesAsked
from albireo.codec.questions.kind import Nothing
from albireo.machine.fold.alarms.cases import CASES as CASE_TABLE
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.places import Places
from albireo.model.case import Case
from albireo.model.instant import MS, LogTime


class CaseRoot(Protocol):
    """The root machine, as far as these answers need it."""

    folds: Folds


class CaseAnswers:
    """The part of the answers that is about cases."""

    def __init__(self, root: CaseRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (
            handled(CASES, self._cases),
            handled(FLOOD, self._flood),
        )

    def _cases(self, question: Question, asked: CasesAsked, turn: Turn) -> None:
        folds, mirror, dim = self._root.folds, self._places.mirror(asked.node), self._places.dim(asked.node)
        closed = folds.cases.closed() if asked.include_closed and mirror is None else ()
        cases = [*closed, *(folds.cases if mirror is None else mirror.table(CASE_TABLE))]
        after = asked.after
        behind = sorted((one for one in cases if one.case_id > after), key=lambda one: one.case_id)
        turn.answer(question, asked.told((one.case_id, _row_of(one, dim)) for one in behind))

    def _flood(self, question: Question, _: Nothing, turn: Turn) -> None:
        folds = self._root.folds
        turn.answer(question, folds.cases.metrics(LogTime(folds.log_time_ms * MS)))


def _row_of(case: Case, dim: Dim) -> dict[str, object]:
    known = dim.by_id(case.item_id)
    row: dict[str, object] = msgspec.to_builtins(case)
    return row | {"item": "" if known is None else known.full_name}
