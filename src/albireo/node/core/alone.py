"""The membership of a node without a pair, and its door.

Spec: design/log-and-feed.md, Store header (a standalone node grants itself epoch + 1 at each start).
"""

from pathlib import Path
from typing import Final

from albireo.log.log import Log
from albireo.machine.kernel.events import Granted, LevelAgreed, PairFigures, Served
from albireo.model.instant import Instant
from albireo.model.position import EPOCHS_MOST, EpochEntry, Position
from albireo.node.membership.access import KeyAccess
from albireo.node.membership.door import DoorArguments, ProgramDoor
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Keys, Letter, StoreRefused

FULL: Final = (
    f"{EPOCHS_MOST} starts within the records that are kept, as many as a store header holds: move the log away (the "
    "stored history stays), and see why the node starts so often"
)


def tenure_of(log: Log) -> bytes:
    """The last tenure of a log, as its run leaves it to the next one."""
    return log.log_id + log.history.epoch.to_bytes(8)


class Alone:
    """Membership of a node that leads from its start on; what is durable is committed."""

    shutdown_id = ""

    def __init__(self, core: LogAndFolds, actor: ActorContext, node: str, door: DoorArguments | None) -> None:
        """`door`: None: the topology gives this node no endpoint."""
        self._core = core
        self._actor = actor
        self._keys = None if door is None or not door.keys else Keys.load(Path(door.keys))
        self.door = ProgramDoor()
        if door is not None:
            why = door.closed_because(node, actor.data)
            self.door = ProgramDoor(door.endpoint, "; what to do: ".join(filter(None, why)))
        self._access: KeyAccess
        core.log.commit(core.log.durable)  # All that recovery made durable.

    def begin(self) -> None:
        log = self._core.log
        if not log.view().takes_epoch:
            raise StoreRefused(FULL, may_pass=False)
        self._access = KeyAccess(self._core, self._actor, self._keys)
        self._open_door()  # If its address is taken, no epoch is used up by trying again.
        first = log.end.sequence + 1
        branch_id = int.from_bytes(self._core.entropy(8))
        goes_on = self._goes_on()
        log.grant(EpochEntry(epoch=log.history.epoch + 1, first_sequence=first, branch_id=branch_id))
        if (lock := self._actor.lock) is not None:
            lock.leave(tenure_of(log))
        self._core.tell(Granted("standalone start", goes_on=goes_on))
        self._core.tell(Served())

    def _goes_on(self) -> bool:
        """Whether the store is proven to have all that was committed in the tenure before.

        The run of that tenure left its epoch under this very boot, which has held the directory ever since: nobody put
        an old copy there, and a process that dies loses nothing that is on the disk.
        """
        log, lock = self._core.log, self._actor.lock
        is_whole = not log.corrupt and not self._core.root.config.lacks_to
        return is_whole and lock is not None and lock.left() == tenure_of(log)

    def _open_door(self) -> None:
        door, log = self.door, self._actor.log
        if door.closed_because:
            log.warning("door_closed", endpoint=door.endpoint, reason=door.closed_because)
        elif door.endpoint:
            door.open(self._actor, self._keys)
            log.info("door_open", endpoint=door.endpoint, with_keys=self._keys is not None)

    def hears(self, letter: Letter) -> bool:
        return False

    def awaits_disk(self) -> bool:
        return True

    def appended(self) -> None: ...

    def synced(self, position: Position) -> None:
        self._core.commit(position)

    def ticked(self, now: Instant) -> None:
        self._access.look()
        level = self._core.root.folds.feature_level + 1
        if level <= self._core.feature_level:
            self._core.tell(LevelAgreed(level))

    def deadline(self) -> Instant | None:
        return None

    def describe(self) -> None: ...

    def figures(self) -> PairFigures | None:
        return None

    def wanted_from(self) -> int | None:
        return None

    def has_all_folded(self) -> bool:
        return True

    async def stop(self) -> None: ...

    def close(self) -> None:
        if self.door.link is not None:
            self.door.link.close(self.door.link.linger_ms)
