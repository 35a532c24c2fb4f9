"""The membership of a node without a pair.

Spec: design/log-and-feed.md, Store header (a standalone node grants itself epoch + 1 at each start).
"""

import secrets
from typing import Final

from albireo.machine.node.events import Granted, LevelAgreed, PairFigures, Served
from albireo.model.instant import Instant
from albireo.model.position import EPOCHS_MOST, EpochEntry, Position
from albireo.node.core.membership import LogAndFolds
from albireo.runtime import Letter, StoreRefused

FULL: Final = (
    f"{EPOCHS_MOST} starts within the records that are kept, as many as a store header holds: move the log away (the "
    "stored history stays), and see why the node starts so often"
)


class Alone:
    """Membership of a node that leads from its start on; what is durable is committed."""

    shutdown_id = ""

    def __init__(self, core: LogAndFolds) -> None:
        self._core = core
        core.log.commit(core.log.durable)  # All that recovery made durable.

    def begin(self) -> None:
        log = self._core.log
        if not log.view().takes_epoch:
            raise StoreRefused(FULL, may_pass=False)
        first = log.end.sequence + 1
        log.grant(EpochEntry(epoch=log.history.epoch + 1, first_sequence=first, branch_id=secrets.randbits(64)))
        self._core.tell(Granted("standalone start"))
        self._core.tell(Served())

    def hears(self, letter: Letter) -> bool:
        return False

    def awaits_disk(self) -> bool:
        return True

    def appended(self) -> None: ...

    def synced(self, position: Position) -> None:
        self._core.commit(position)

    def ticked(self, now: Instant) -> None:
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

    def close(self) -> None: ...
