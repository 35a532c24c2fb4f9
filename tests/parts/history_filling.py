"""What tests of filling share: a site, its own history, and the one above that lacks a part of it."""

from pathlib import Path

import msgspec

from albireo.codec.history import BelowFolder
from albireo.codec.record import Audited, EpochGranted, ItemDeclared, ItemForgotten, OriginGap, Stream
from albireo.log.files import FileSystem, OsFileSystem
from albireo.machine.history.copy_pace import FROM_BELOW
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.below.origin import OriginHistory
from albireo.node.history.files.store import HistoryStore
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog
from tests.parts.history_copy import Copy

NORTH = "root/north"
FOLDER = BelowFolder(NORTH, LOG_ID)


def declares(log: MemoryLog, item_id: int, name: str, at_ns: int, unit: str = "", node: str = NORTH) -> None:
    item = DataItem(name=name, value_type=ValueType.FLOAT64, unit=unit)
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(item_id), node=node, item=item)], at_ns)


def begins_epoch(log: MemoryLog, at_ns: int) -> None:
    log.epoch += 1
    log.records(Stream.CONTROL, [EpochGranted(epoch=log.epoch, branch_id=7, node=NORTH, reason="start")], at_ns)


def site_log() -> tuple[MemoryLog, int, int]:
    """A log over three epochs, the second of which lies within what goes; the ends of what goes.

    An item is declared anew meanwhile, and another one comes and is forgotten.
    """
    log = MemoryLog()
    at = DAY_ZERO

    def measured(items: list[int], count: int) -> None:
        nonlocal at
        for _ in range(count):
            at += 3600 * SECOND
            log.samples([(item, at, float(log.end), 0) for item in items], at)

    declares(log, 1, "level", at)
    measured([1], 5)
    first = log.end + 1
    measured([1], 5)
    begins_epoch(log, at)
    declares(log, 2, "level.old", at)
    declares(log, 1, "level", at, unit="cm")
    measured([1, 2], 10)
    log.records(Stream.AUDIT, [Audited(at_ns=at, user="u", action="write", subject="s")], at)
    log.records(Stream.STATE, [ItemForgotten(item_ids=(2,))], at)
    declares(log, 1, "level", at, unit="m")
    measured([1], 5)
    begins_epoch(log, at)
    measured([1], 5)
    last = log.end
    measured([1], 5)
    declares(log, 1, "level", at, unit="m")  # Anew, as after every gap.
    measured([1], 5)
    return log, first, last


def above_of(data: Path, log: MemoryLog, first: int, last: int, files: FileSystem | None = None) -> OriginHistory:
    """The history of the site above, sealed: it lacks `first` to `last`, which the site let go of."""
    origin = opened_above(data, files)
    origin.may_lack = True
    before = [one for one in log.frames if one.header.first_sequence < first]
    behind = [one for one in log.frames if one.header.first_sequence > last]
    for one in before:
        origin.take(one.header, one.body)
    header = behind[0].header
    from_ns = before[-1].header.node_ns if before else 0
    place = {"epoch": header.epoch, "sequence": header.first_sequence}
    origin.let_go(OriginGap(index=1, first=first, from_ns=from_ns, to_ns=header.node_ns, **place))
    for one in behind:
        origin.take(one.header, one.body)
    seal(origin)
    return origin


def opened_above(data: Path, files: FileSystem | None = None) -> OriginHistory:
    store, _ = HistoryStore.open(data, NORTH, files or OsFileSystem(), FOLDER.path)
    return OriginHistory(FOLDER, store)


def seal(origin: OriginHistory) -> None:
    one = origin.seal(Position(1, origin.hot.position.sequence))
    one.write(DAY_ZERO)
    origin.hot.drop(one.content)


def filling(source: HistoryStore, above: OriginHistory, *, is_final: bool = True) -> Copy:
    """A copy of what is missing above, from the history of the site."""
    return Copy(source, above.store, config=msgspec.structs.replace(FROM_BELOW, node=NORTH), is_final=is_final)
