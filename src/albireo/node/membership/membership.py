"""Membership: CORE's actor asks it if this node serves, and what is committed.

Two classes do: `alone.Alone` and `node.member.member.PairMembership`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from albireo.codec.message import AnyMessage
from albireo.log import FileSystem
from albireo.log.log import Log
from albireo.machine.kernel.events import Event, PairFigures
from albireo.machine.root.root import Root
from albireo.model.instant import Instant
from albireo.model.position import Position
from albireo.model.settings import AlarmConfig
from albireo.model.status import PairStatus
from albireo.node.membership.door import ProgramDoor
from albireo.node.membership.private_log import PrivateLog
from albireo.runtime import Letter


class LogAndFolds(Protocol):
    """CORE's actor as its membership sees it."""

    files: FileSystem
    """File system that holds the data directory."""
    entropy: Callable[[int], bytes]
    """Gives as many random bytes as it is asked for."""
    log: Log
    private: PrivateLog | None
    """Log of samples that are not replicated; None: there are none."""
    root: Root
    alarms: AlarmConfig
    """How the folds judge."""
    is_complete: bool
    """True: the folds could be rebuilt, for the log goes on from its first record, or from a snapshot."""

    @property
    def feature_level(self) -> int:
        """Highest feature level that this node knows, or is held back to."""

    def tell(self, event: Event) -> None:
        """Have the root machine take one step, and do what it wants done."""

    def commit(self, position: Position) -> None:
        """Commit everything up to `position`; the folds of a holder have it now, those of a follower soon."""

    def wake(self) -> None:
        """Look at the deadlines again: something has changed outside a wake-up."""

    def fold_anew(self) -> None:
        """Rebuild the folds from the log, not all of which could be read before."""

    def save_snapshot(self) -> None:
        """Have a snapshot saved soon."""

    def say(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview] = ()) -> object:
        """Send to an actor of this node."""


class Membership(Protocol):
    """Calls of CORE's actor to its membership, in its wake-ups; what follows from a call is done before it returns."""

    @property
    def shutdown_id(self) -> str:
        """Shutdown id of a stop of both members with equal logs; empty: the log draws its own."""

    door: ProgramDoor
    """Door at which programs are heard."""

    def begin(self) -> None:
        """Begin: log and folds are there, letters come from now on."""

    def hears(self, letter: Letter) -> bool:
        """Take a letter of the membership's own links; False: it is meant for the root machine."""

    def appended(self) -> None:
        """Take note that drafts of the root machine stand in the log."""

    def synced(self, position: Position) -> None:
        """Take note that the log is on the disk up to `position`."""

    def awaits_disk(self) -> bool:
        """True: something follows as soon as more is durable here; False: other things have to come before."""

    def ticked(self, now: Instant) -> None:
        """Do what is due: time has passed, and `deadline` may have come."""

    def deadline(self) -> Instant | None:
        """When `ticked` is due."""

    def describe(self) -> PairStatus | None:
        """The pair as this member sees it, for `status`; None: no pair."""

    def figures(self) -> PairFigures | None:
        """Figures of the pair for its diagnostics items; None: no pair."""

    def wanted_from(self) -> int | None:
        """Sequence above which records should stay for a member that is catching up; None: nobody is."""

    def has_all_folded(self) -> bool:
        """True: the folds lack nothing of the log that could still be got: a snapshot of them may be kept."""

    async def stop(self) -> None:
        """Hand over or leave the set, in order; return when the process may end."""

    def close(self) -> None:
        """Close the links."""
