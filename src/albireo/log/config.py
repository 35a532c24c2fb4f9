"""Limits of the log, read once."""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * 1024
DAY_NS: Final = 24 * 3600 * 1_000_000_000

Task = Callable[[], None]
"""One piece of housekeeping; handles the errors of its file operations itself."""


class StoreIdentity(msgspec.Struct, frozen=True):
    """Owner of a store; a directory is never opened under another one."""

    cluster: str
    """UUID of the cluster, from the topology."""
    node: str
    """The node's place, like `root[primary]` or `root/north`."""
    log_id: bytes = b""
    """16 bytes; the members of a pair derive the same one (`pair_log_id`). Empty: drawn at random for a new store."""

    def __post_init__(self) -> None:
        if len(self.log_id) not in (0, 16):
            raise ValueError(f"log_id: 16 bytes, got {len(self.log_id)}")


def pair_log_id(pair: str) -> bytes:
    """The log id that both members of a pair use; `pair` names the cluster and the place, like `plant/root`."""
    return hashlib.blake2b(pair.encode()).digest()[:16]


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the log on its disk and in memory."""

    segment_bytes: int = 64 * MIB
    """Length of one segment file, at most 256 MiB. With 64 MiB of small frames an open stays below a second."""
    pending_bytes_max: int = 64 * MIB
    """Bytes that may wait for the sync thread; `admission` stops at half, so the node's own records have room."""
    free_bytes_min: int = 64 * MIB
    """Bytes left free on the disk when a segment is prepared: snapshots and history files need room to make room."""
    prepare_retry_ms: int = 1000
    """Pause before the next try after a segment could not be prepared."""
    index_every_bytes: int = 16 * KIB
    """One index entry per so many bytes: a read skips no more than that, and passes over as much at a time."""
    snapshots_kept: int = 2
    """Snapshots kept at a time; a bad newest one falls back to the previous one."""
    quarantine_count_max: int = 32
    """Cuts kept for people; beyond this or the next two bounds the oldest cut goes, but never the newest one."""
    quarantine_bytes_max: int = 4096 * MIB
    """Bytes of all cuts on the disk. A cut that is larger alone is kept until the next one comes."""
    quarantine_days_max: int = 90
    """Age of a cut in days of log time."""
    handles_max: int = 16
    """Sealed segments kept open for readers."""
    tail_bytes_max: int = 32 * MIB
    """Bytes of durable frames kept in memory, besides all that are not durable, once `read_appended` was called."""

    def __post_init__(self) -> None:
        if not 4 * KIB <= self.segment_bytes <= 256 * MIB or self.segment_bytes % 4096:
            raise ValueError(f"segment_bytes: 4096..268435456 in whole pages, got {self.segment_bytes}")
        if self.pending_bytes_max < self.segment_bytes // 4:
            raise ValueError(f"pending_bytes_max: at least a quarter of segment_bytes, got {self.pending_bytes_max}")
        if self.free_bytes_min < 0 or self.prepare_retry_ms < 1 or self.index_every_bytes < 128:
            raise ValueError("free_bytes_min >= 0, prepare_retry_ms >= 1, index_every_bytes >= 128")
        if self.quarantine_count_max < 1 or self.quarantine_bytes_max < 0 or self.quarantine_days_max < 1:
            raise ValueError("quarantine_count_max >= 1, quarantine_bytes_max >= 0, quarantine_days_max >= 1")
        if self.snapshots_kept < 1 or self.handles_max < 2 or self.tail_bytes_max < 0:
            raise ValueError("snapshots_kept >= 1, handles_max >= 2, tail_bytes_max >= 0")
