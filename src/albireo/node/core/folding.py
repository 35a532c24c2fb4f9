"""Folding: when CORE folds what is committed.

A holder folds as it commits, because orders and cases follow from what is folded. A follower folds at the end of a turn
behind a sync: its holder waits for the sync, and for no fold. Nor does anybody else, so it lets frames come together,
which are folded as one (machine/fold/stretch.py): what its programs and its history see is that much later, and a
takeover folds that much more. What a wake-up has no time for goes in a turn of its own.
"""

from collections.abc import Callable
from typing import Final

from albireo.machine.kernel.events import Answered, Committed
from albireo.model.instant import MS, Instant
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext

TOGETHER_RECORDS: Final = 256
"""Records of which a follower folds what is committed."""
TOGETHER_NS: Final = 30 * MS
"""Time after which it folds fewer. With one message in flight a dozen come together, and cost little more than one."""


class Folding:
    """The folding of one run of CORE; what is folded, and what waits for it, the root machine knows."""

    def __init__(self, actor: ActorContext, core: LogAndFolds, end_turn: Callable[[], None]) -> None:
        """`end_turn`: ends a turn in which nothing else was done."""
        self._actor = actor
        self._core = core
        self._end_turn = end_turn
        self._is_posted = False
        self._has_folded = False
        """True: this wake-up has folded already, and may fold only what it has left of its budget."""
        self.is_due = False
        """True behind a sync or a tick: a follower may fold, though more of its log waits for the disk."""
        self._due_at: Instant | None = None
        """Instant at which a follower folds what is committed, however little it is; None: nothing waits."""

    def committed(self) -> None:
        """As the holder fold at once, unless frames wait for a turn of their own, or will."""
        if self._core.root.role.holds and not (self._is_posted or self._core.root.has_unfolded):
            self._fold()

    def look(self) -> None:
        """Fold at the end of a wake-up what may be folded by now, and have the rest folded soon."""
        root, log = self._core.root, self._core.log
        is_behind = root.folded_to < log.committed and not (self._is_posted or root.has_unfolded)
        if not is_behind:
            self._due_at = None
        elif (self.is_due or log.durable == log.end) and (root.role.holds or self._is_worth_it()):
            self._fold()
        self.is_due = self._has_folded = False
        if root.has_unfolded and not self._is_posted:
            self._is_posted = True
            self._actor.call(self._fold_more)

    def deadline(self) -> Instant | None:
        """When a follower has to fold."""
        return self._due_at

    def _is_worth_it(self) -> bool:
        now = self._actor.now()
        self._due_at = self._due_at or Instant(now + TOGETHER_NS)
        waiting = self._core.log.committed.sequence - self._core.root.folded_to.sequence
        return now >= self._due_at or waiting >= TOGETHER_RECORDS

    def _fold(self) -> None:
        self._due_at = None
        self._core.tell(Committed(is_first=not self._has_folded))
        self._has_folded = True
        self._core.tell(Answered())

    def _fold_more(self) -> None:
        self._is_posted = False
        self._fold()
        self._end_turn()
