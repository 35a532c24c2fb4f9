"""Membership: CORE's actor asks it if this node serves, and what is committed.

Two answers: `alone.Alone` and `node.member.member.PairMembership`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from albireo.codec.message import AnyMessage
from albireo.log import FileSystem
from albireo.log.log import Log
from albireo.machine.node.events import Event, PairFigures
from albireo.machine.node.root import Root
from albireo.model.instant import Instant
from albireo.model.position import Position
from albireo.node.core.private_log import PrivateLog
from albireo.runtime import Letter


class LogAndFolds(Protocol):
    """CORE's actor as its membership sees it."""

    files: FileSystem
    """Where its data directory is."""
    entropy: Callable[[int], bytes]
    """Random bytes, so many."""
    log: Log
    private: PrivateLog | None
    """Samples that are not replicated."""
    root: Root
    is_complete: bool
    """Folds could be rebuilt: the log goes on from its first record, or from a snapshot."""

    @property
    def feature_level(self) -> int:
        """The highest that this node knows, or is held back to."""

    def tell(self, event: Event) -> None:
        """One step of the root machine, and what it wants done."""

    def commit(self, position: Position) -> None:
        """Everything up to there is committed; folds of who holds have it now, of who follows soon."""

    def wake(self) -> None:
        """Something changed outside a wake-up: look at the deadlines again."""

    def fold_anew(self) -> None:
        """What the log says was not all read: rebuild the folds from it."""

    def save_snapshot(self) -> None:
        """Begin one soon."""

    def say(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview] = ()) -> object:
        """Send to an actor of this node."""


class Membership(Protocol):
    """Calls come from the actor's wake-ups; what follows from one is done before it returns."""

    @property
    def shutdown_id(self) -> str:
        """Of a stop of both members with equal logs; empty: the log draws its own."""

    def begin(self) -> None:
        """Log and folds are there; letters come from now on."""

    def hears(self, letter: Letter) -> bool:
        """Take a letter of the membership's own links; False: it is meant for the root machine."""

    def appended(self) -> None:
        """The root machine's drafts stand in the log."""

    def synced(self, position: Position) -> None:
        """The log is on the disk up to here."""

    def awaits_disk(self) -> bool:
        """Something follows as soon as more is durable here; False: other things have to come before."""

    def ticked(self, now: Instant) -> None:
        """Time has passed; `deadline` may have come."""

    def deadline(self) -> Instant | None:
        """When `ticked` is due."""

    def describe(self) -> dict[str, object] | None:
        """The pair as this member sees it, for `status`; nothing: no pair."""

    def figures(self) -> PairFigures | None:
        """What the pair looks like, for its diagnostics items."""

    def wanted_from(self) -> int | None:
        """Records above this sequence should stay for somebody who is catching up; None: nobody is."""

    def has_all_folded(self) -> bool:
        """The folds lack nothing of the log that could still be got: a snapshot of them may be kept."""

    async def stop(self) -> None:
        """Give up what is held, in order; returns when the process may end."""

    def close(self) -> None:
        """Close the links."""
