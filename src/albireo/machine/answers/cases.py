"""Answers about cases: those of this node, and those of the nodes below."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from albireo.codec.pieces import InPieces
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.places import Places
from albireo.model.bounded import Name
from albireo.model.case import Case


class CasesAsked(InPieces, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `cases`: open ones only, or all that are remembered."""

    include_closed: bool = False
    node: Name = ""
    """Node below whose cases are meant, of which open ones only are known here; empty: this node."""


class CaseRoot(Protocol):
    """The root machine, as far as these answers need it."""

    folds: Folds


class CaseAnswers:
    """The part of the answers that is about cases."""

    def __init__(self, root: CaseRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.known: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
            "cases": (CasesAsked, self._cases),
        }
        """Shape and handler of each question."""

    def _cases(self, question: Question, asked: CasesAsked, turn: Turn) -> None:
        folds, mirror, dim = self._root.folds, self._places.mirror(asked.node), self._places.dim(asked.node)
        closed = folds.cases.closed() if asked.include_closed and mirror is None else ()
        cases = [*closed, *(folds.cases if mirror is None else mirror.table(CASES))]
        after = asked.after
        behind = sorted((one for one in cases if one.case_id > after), key=lambda one: one.case_id)
        turn.answer(question, asked.told((one.case_id, _row_of(one, dim)) for one in behind))


def _row_of(case: Case, dim: Dim) -> dict[str, object]:
    known = dim.by_id(case.item_id)
    row: dict[str, object] = msgspec.to_builtins(case)
    return row | {"item": "" if known is None else known.full_name}
