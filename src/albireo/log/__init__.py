"""The log: segments, recovery, snapshots, scrub. The only fsync of live data in the project."""

from albireo.log.config import LogConfig, StoreIdentity, pair_log_id
from albireo.log.errors import (
    Backlogged,
    Corrupted,
    EntryTooLarge,
    FramesRefused,
    LogError,
    LogStopped,
    OpenFailed,
    OpenRefused,
    Pruned,
    ReadFailed,
    RepairFailed,
    SnapshotFailed,
    StoreDamaged,
    StoreLocked,
    WrongStore,
)
from albireo.log.files import FileSystem, Locked, OsFileSystem, read_file, write_aside
from albireo.log.log import Log
from albireo.log.segment.recovery import CorruptRange, RecoveryReport, TornTail
from albireo.log.segment.scrub import ScrubProgress
from albireo.log.segment.stored_log import LogStats
from albireo.log.store.quarantine import Quarantined
from albireo.log.store.retention import PrunedSegment
from albireo.log.store.snapshots import Snapshot
from albireo.log.store.store import StoreHeader
from albireo.log.write.appending import Entry
from albireo.log.write.commit import LogFailure

__all__ = [
    "Backlogged",
    "CorruptRange",
    "Corrupted",
    "Entry",
    "EntryTooLarge",
    "FileSystem",
    "FramesRefused",
    "Locked",
    "Log",
    "LogConfig",
    "LogError",
    "LogFailure",
    "LogStats",
    "LogStopped",
    "OpenFailed",
    "OpenRefused",
    "OsFileSystem",
    "Pruned",
    "PrunedSegment",
    "Quarantined",
    "ReadFailed",
    "RecoveryReport",
    "RepairFailed",
    "ScrubProgress",
    "Snapshot",
    "SnapshotFailed",
    "StoreDamaged",
    "StoreHeader",
    "StoreIdentity",
    "StoreLocked",
    "TornTail",
    "WrongStore",
    "pair_log_id",
    "read_file",
    "write_aside",
]
