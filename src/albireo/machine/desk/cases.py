"""Cases that follow from what is committed: drafted, and counted."""

from collections.abc import Sequence
from typing import Protocol

from albireo.codec.record import CaseChanged, Record, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Turn


class CasesRoot(Protocol):
    """The root machine, as far as cases need it."""

    folds: Folds


class CaseDesk(RootPart):
    """The machine; lives as long as its root machine."""

    def __init__(self, root: CasesRoot) -> None:
        self._root = root
        self.raised = 0
        """Number of cases raised in this run."""

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        self.raised += sum(isinstance(one, CaseChanged) and one.cause == "raised" for one in records)

    def consequences(self, now: Footing, turn: Turn) -> None:
        if now.is_open and (changes := self._root.folds.propose(now.moment.wall)):
            turn.record(Stream.CASES, changes)
