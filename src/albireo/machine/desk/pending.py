"""Pending: the frames that stand in the log and are not folded, in log order, with what was drafted for them.

Invariants
    order:   each frame continues the one before; the first one continues what is folded, or about to be.
    drafts:  a frame without one was not drafted here in this tenure: it is folded, and nothing follows from it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from albireo.codec.frame import Frame
from albireo.machine.fold.declared import fold_cost
from albireo.machine.kernel.turn import Draft
from albireo.model.instant import MS, Instant
from albireo.model.position import Position

FOLD_COST_MAX: Final = 4_000
"""Cost of folding at which a wake-up leaves the rest to the next, in microseconds as measured on a slow core."""


class PendingFrame(NamedTuple):
    """A frame in the log that is not folded."""

    frame: Frame
    draft: Draft | None


class Pending:
    """The queue between the log and the folds."""

    def __init__(self, log_time_ms: int, last_append: Instant) -> None:
        self.log_time_ms = log_time_ms
        """Log time at the end of the log."""
        self.last_append = last_append
        """Instant from which log time goes on behind the end of the log."""
        self.is_due_again = False
        """True: more was committed than the last turn had time to fold."""
        self._frames: deque[PendingFrame] = deque()
        self._due: list[PendingFrame] = []
        self._budget = FOLD_COST_MAX
        """Cost that may still be folded in this wake-up."""

    def log_time_ns(self, now: Instant) -> int:
        """Log time at this instant: that of the end of the log, and what has passed since."""
        return self.log_time_ms * MS + max(0, now - self.last_append)

    def elapsed_ms(self, now: Instant) -> int:
        """Boot-clock milliseconds since the last drafts; takes them: the next call counts from here."""
        elapsed = max(0, now - self.last_append) // MS
        self.last_append = Instant(self.last_append + elapsed * MS)
        return elapsed

    def __bool__(self) -> bool:
        return bool(self._frames)

    def committed(self, position: Position, *, is_first: bool) -> Sequence[PendingFrame]:
        """Take note that all up to `position` is committed; returns as much of it as this wake-up may still fold.

        Args:
            is_first: first call of a wake-up, which may fold as much as the one before, however many calls it brings.
        """
        assert not self._due, "what is due was not folded"
        if is_first:
            self._budget = FOLD_COST_MAX
        while self._budget > 0 and self._is_first_within(position):
            self._due.append(self._frames.popleft())
            self._budget -= fold_cost(self._due[-1].frame.header)
        self.is_due_again = self._is_first_within(position)
        return self._due

    def _is_first_within(self, position: Position) -> bool:
        return bool(self._frames) and self._frames[0].frame.header.last_sequence <= position.sequence

    def take_due(self) -> Sequence[PendingFrame]:
        """Take what `committed` returned, to be folded."""
        due, self._due = self._due, []
        return due

    def appended(self, frames: Sequence[Frame], drafts: Sequence[Draft]) -> None:
        """Add the frames in which own drafts stand in the log."""
        for frame, draft in zip(frames, drafts, strict=True):
            self._add(PendingFrame(frame, draft))

    def followed(self, frames: Sequence[Frame]) -> None:
        """Add frames of the holder, or those found at the start, that stand in the log."""
        for frame in frames:
            self._add(PendingFrame(frame, None))

    def _add(self, one: PendingFrame) -> None:
        self._frames.append(one)
        self.log_time_ms = one.frame.header.log_time_ms

    def disown(self) -> None:
        """Forget the drafts of a deposed node: what waits here may be cut, or be committed by somebody else."""
        frames = [one.frame for one in self._frames]
        self._frames.clear()
        self._frames.extend(PendingFrame(frame, None) for frame in frames)

    def cut(self, position: Position, folded_ms: int) -> None:
        """Drop the frames above `position`, where the log ends now; `folded_ms` is the log time of what is folded."""
        while self._frames and self._frames[-1].frame.header.last_sequence > position.sequence:
            self._frames.pop()
        self.log_time_ms = self._frames[-1].frame.header.log_time_ms if self._frames else folded_ms
