"""A historian without its actor, over a log with envelopes: it lives, seals, is killed and lives again."""

import json
from collections.abc import Sequence
from pathlib import Path

from albireo.codec.frame import Frame
from albireo.codec.history import MANIFEST_NAME, BelowFolder
from albireo.codec.record import OriginForked, Stream
from albireo.log.files import FileSystem
from albireo.model.instant import Instant, WallTime
from albireo.model.value import Value
from albireo.node.history.below.origin import OriginHistory
from albireo.node.history.below.origins import HistoryBelow
from albireo.node.history.files.store import HistoryStore, read_manifest
from albireo.runtime import Journal
from tests.parts.history import (
    DAY_ZERO,
    LOG_ID,
    DyingFiles,
    MemoryLog,
    Sample,
    hot_of,
    listed_files_are_there,
    stored_rows,
)


class Site:
    """A node below: its log, and what of it the log above holds."""

    def __init__(self, index: int, node: str) -> None:
        self.index = index
        self.log = MemoryLog(bytes([index]) * 16)
        self.folder = BelowFolder(node, self.log.log_id)
        self.above = 0
        """Last sequence that the log above holds."""

    def pending(self) -> list[Frame]:
        return [one for one in self.log.frames if one.header.first_sequence > self.above]

    def send(self, above: MemoryLog, frames: Sequence[Frame]) -> None:
        """Put frames into the log above, in one envelope."""
        if frames:
            above.envelope(self.index, frames)
            self.above = max(self.above, frames[-1].header.last_sequence)

    def restored(self, above: MemoryLog, sequence: int) -> None:
        """The store of the site comes from an old copy: its log goes another way."""
        self.log.cut(sequence)
        self.log.samples([(1, DAY_ZERO, -1.0, 0)], DAY_ZERO)  # An epoch begins with a record.
        if self.above > sequence:
            before = [one.header for one in self.log.frames if one.header.last_sequence <= self.log.end - 1]
            epoch = before[-1].epoch if before else 0
            end = before[-1].last_sequence if before else 0
            fork = OriginForked(index=self.index, epoch=epoch, sequence=end)
            above.records(Stream.CONTROL, [fork], DAY_ZERO)
            self.above = end


class Historian:
    """One life of a historian, in the order in which the actor does it."""

    def __init__(
        self, data: Path, files: FileSystem | None = None, *, node: str = "root", log_id: bytes = LOG_ID
    ) -> None:
        """`files`: by default those that a kill does no harm, and which never sync."""
        files = files or DyingFiles()
        self.log_id = log_id
        self.store, _ = HistoryStore.open(data, node, files)
        self.hot = hot_of(self.store)
        journal = Journal("history", lambda _: True, lambda: WallTime(0), lambda: Instant(0))
        self.below = HistoryBelow(data, journal, files)
        self.below.open(self.store.manifest)
        self.below.remove_leftovers()
        self.taken = min(self.store.manifest.position, self.below.refill_from or self.store.manifest.position)

    def take(self, log: MemoryLog, upto: int | None = None) -> None:
        for one in log.frames:
            if one.header.last_sequence > self.taken.sequence and (upto is None or one.header.last_sequence <= upto):
                self.below.take(one.header, one.body)
                self.hot.take(one.header, one.body)
                self.taken = one.header.last

    def seal(self, dies_after: int | None = None) -> None:
        """`dies_after`: number of histories after which it is killed; the own one comes last."""
        own, below = self.hot.content(), self.below.begin_seal(self.taken)
        for one in below.seals[:dies_after]:
            one.write(DAY_ZERO)
            below.done.append(one)
        if dies_after is not None and dies_after <= len(below.seals):
            return
        self.store.seal(own, self.log_id.hex(), DAY_ZERO)
        self.below.sealed(below)
        self.hot.drop(own)

    def of(self, site: Site) -> OriginHistory:
        (found,) = (one for one in self.below if one.folder == site.folder)
        return found


def rows_below(data: Path, site: Site) -> list[tuple[int, int, int, Value, int]]:
    return stored_rows(data / site.folder.path)


def is_whole(data: Path, log: MemoryLog, sites: Sequence[Site]) -> None:
    """Every history has exactly the rows of its log, once."""
    assert stored_rows(data / "history") == sorted(log.rows)
    for site in sites:
        assert rows_below(data, site) == sorted(site.log.rows), site.folder.node
        listed_files_are_there(data / site.folder.path, read_manifest(data / site.folder.path))


def damage_newest(data: Path, site: Site) -> bool:
    """Damage the newest manifest of a site's history; False: there is none."""
    path = data / site.folder.path / MANIFEST_NAME
    if not path.exists():
        return False
    plain = json.loads(path.read_bytes())
    path.write_text(json.dumps({**plain, "complete_to_ns": 1}))
    return True


def rows(count: int, at: int = 0) -> list[Sample]:
    """Rows of item 1, whatever the node: ids of several nodes are equal."""
    return [(1, DAY_ZERO + at + number, float(at + number), 0) for number in range(count)]


def sites() -> tuple[MemoryLog, list[Site]]:
    """A log above with two nodes below."""
    log, below = MemoryLog(), [Site(1, "root/north"), Site(2, "root/south")]
    for one in below:
        log.declares(one.index, one.folder.node, one.log)
    return log, below
