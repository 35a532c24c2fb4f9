"""Answers that list rows of a table: those of this node, or of another one as far as they are known here."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from albireo.codec.questions.cases import CASES, CasesAsked
from albireo.codec.questions.orders import FORCES, SELECTIONS, ForcesAsked, SelectionsAsked
from albireo.codec.questions.people import SESSIONS, SessionsAsked
from albireo.machine.fold.alarms.cases import CASES as CASE_TABLE
from albireo.machine.fold.commands.selections import SELECTIONS as SELECTION_TABLE
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.sessions import SESSIONS as SESSION_TABLE
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.orders.force.elsewhere import rows_below
from albireo.machine.orders.force.forcing import Forcing
from albireo.machine.orders.places import Places
from albireo.machine.orders.session.kinds import session_row
from albireo.machine.orders.write.orders import Orders
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.case import Case
from albireo.model.command import ItemSelection, Selection
from albireo.model.instant import MS, WallTime
from albireo.model.tree.session import Session, SessionRow

Rows = Iterator[tuple[int, object]]
"""Rows by a rising number of their own."""


class RowsRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    forcing: Forcing
    orders: Orders


class RowAnswers:
    """The part of the answers that lists rows: those of another node by its mirror, those of this node without one."""

    def __init__(self, root: RowsRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (
            handled(CASES, partial(self._list, self._cases)),
            handled(FORCES, partial(self._list, self._forces)),
            handled(SELECTIONS, partial(self._list, self._selections)),
            handled(SESSIONS, partial(self._list, self._sessions)),
        )

    def _list(
        self, rows: Callable[[NodeMirror | None, Any, Moment], Rows], question: Question, asked: Any, turn: Turn
    ) -> None:
        turn.answer(question, asked.told(rows(self._places.mirror(asked.node), asked, question.moment)))

    def _cases(self, mirror: NodeMirror | None, asked: CasesAsked, _: Moment) -> Rows:
        folds, after = self._root.folds, asked.after
        dim = folds.dim if mirror is None else mirror.dim
        closed = folds.cases.closed() if asked.include_closed and mirror is None else ()
        cases: list[Case] = [*closed, *(folds.cases if mirror is None else mirror.table(CASE_TABLE))]
        for one in sorted((one for one in cases if one.case_id > after), key=attrgetter("case_id")):
            known = dim.by_id(one.item_id)
            yield one.case_id, msgspec.to_builtins(one) | {"item": "" if known is None else known.full_name}

    def _forces(self, mirror: NodeMirror | None, asked: ForcesAsked, moment: Moment) -> Rows:
        return self._root.forcing.rows(asked.after) if mirror is None else rows_below(mirror, asked.after, moment)

    def _selections(self, mirror: NodeMirror | None, asked: SelectionsAsked, moment: Moment) -> Rows:
        if mirror is None:
            return self._root.orders.selecting.rows(asked.after, moment.now)
        return selections_below(mirror, asked.after, moment.wall)

    def _sessions(self, mirror: NodeMirror | None, asked: SessionsAsked, _: Moment) -> Rows:
        if mirror is None:
            return _sessions_behind(self._root.folds.of(SessionFold), asked.after, self._root.config.node)
        return _sessions_behind(mirror.table(SESSION_TABLE), asked.after, mirror.node, mirror.stale_since_ns)


def _sessions_behind(
    found: Iterable[Session], after: int, node: str, stale_since_ns: int | None = None
) -> Iterator[tuple[int, SessionRow]]:
    for one in sorted((one for one in found if one.session_id > after), key=attrgetter("session_id")):
        yield one.session_id, session_row(one, node, stale_since_ns)


def selections_below(mirror: NodeMirror, after: int, wall: WallTime) -> Iterator[tuple[int, ItemSelection]]:
    """Selected items of another node with an id above `after`, by rising id.

    What is left is reckoned by the wall clocks of both nodes: elapsed time there is not known here.
    """
    for one in sorted(mirror.table(SELECTION_TABLE), key=attrgetter("item_id")):
        known = mirror.dim.by_id(one.item_id)
        if one.item_id > after and known is not None:
            left_ms = min(one.for_ms, max(0, one.for_ms - (wall - one.since_ns) // MS))
            fields = {name: getattr(one, name) for name in Selection.__struct_fields__ if name != "item_id"}
            row = ItemSelection(**fields, item=known.full_name, left_ms=left_ms, stale_since_ns=mirror.stale_since_ns)
            yield one.item_id, row
