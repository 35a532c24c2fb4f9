"""The tables that there are, each declared in the folder of its owner.

Whoever folds, tells, mirrors or watches goes through this list, so that a further table is one more line here.
"""

from collections.abc import Mapping
from typing import Any

from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.commands.commands import RECEIPTS
from albireo.machine.fold.commands.selections import Selections
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.table.fold import TableFold
from albireo.machine.table.told import AnyShape

FOLDS: tuple[type[TableFold[Any, Any]], ...] = (Forces, SessionFold, Selections)


def shapes() -> Mapping[str, AnyShape]:
    """Declarations of the tables, by name."""
    found: list[AnyShape] = [CASES, RECEIPTS, *(one.shape for one in FOLDS)]
    return {one.name: one for one in found}
