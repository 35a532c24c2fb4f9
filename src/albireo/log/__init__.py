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

__all__ = [
    "Backlogged",
    "Corrupted",
    "EntryTooLarge",
    "FileSystem",
    "FramesRefused",
    "Locked",
    "LogConfig",
    "LogError",
    "LogStopped",
    "OpenFailed",
    "OpenRefused",
    "OsFileSystem",
    "Pruned",
    "ReadFailed",
    "RepairFailed",
    "SnapshotFailed",
    "StoreDamaged",
    "StoreIdentity",
    "StoreLocked",
    "WrongStore",
    "pair_log_id",
    "read_file",
    "write_aside",
]
