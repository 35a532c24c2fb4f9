"""What opening a log needs besides recovery: whose store it is, and where its chain and log time stand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import StoreIdentity
from albireo.log.errors import StoreDamaged, WrongStore
from albireo.log.files import FileSystem
from albireo.log.segment.recovery import Recovered, RecoveryReport
from albireo.log.segment.segment import SUFFIX, Segment
from albireo.log.store.snapshots import SnapshotName
from albireo.log.store.store import Base, Store, StoreHeader

SEGMENTS: Final = "segments"
SNAPSHOTS: Final = "snapshots"
QUARANTINE: Final = "quarantine"
LOCK: Final = "lock"

Entropy = Callable[[int], bytes]
"""Draws random bytes for ids."""


class Opened(msgspec.Struct, frozen=True):
    """What `open` hands to the constructor."""

    lock: int
    store: Store
    found: Recovered
    entropy: Entropy


def store_of(directory: Path, identity: StoreIdentity, files: FileSystem, entropy: Entropy) -> tuple[Store, bool]:
    """The store in `directory`, made if there is none; and whether it was made."""
    store = Store.load(files, directory)
    if store is None:
        if any(name.endswith(SUFFIX) for name in files.names(directory / SEGMENTS)):
            raise StoreDamaged(str(directory), "segments, but no readable store header")
        store_id, log_id = entropy(16).hex(), identity.log_id.hex() or entropy(16).hex()
        header = StoreHeader(cluster=identity.cluster, node=identity.node, store_id=store_id, log_id=log_id)
        store = Store.create(files, directory, header)
        files.sync_directory(directory.parent)
        return store, True
    if (store.header.cluster, store.header.node) != (identity.cluster, identity.node):
        owner = f"node {store.header.node!r} of cluster {store.header.cluster}"
        raise WrongStore(str(directory), f"belongs to {owner}; this is {identity.node!r} of {identity.cluster}")
    if identity.log_id.hex() not in ("", store.header.log_id):
        wanted = f"{identity.node!r} keeps log {identity.log_id.hex()}"
        raise WrongStore(str(directory), f"holds log {store.header.log_id}; {wanted}: move it away and let it catch up")
    return store, False


def report_of(
    store: Store, is_new: bool, was_clean: bool, found: Recovered, deleted: Sequence[SnapshotName]
) -> RecoveryReport:
    """What opening found and did."""
    return RecoveryReport(
        is_new=is_new,
        was_clean=was_clean or is_new,
        committed_sequence=found.committed_sequence,
        end_sequence=found.next_sequence - 1,
        corrupt=found.corrupt,
        torn=found.torn,
        rewritten_bytes=found.rewritten_bytes,
        scanned_bytes=found.scanned_bytes,
        repaired_copies=store.repaired_copies,
        deleted_snapshots=tuple(map(str, deleted)),
    )


def end_of(segments: Sequence[Segment], last_sequence: int, base: Base | None) -> tuple[int, int]:
    """(header CRC to chain to, log time in ms) of a log that ends with `last_sequence`."""
    for segment in reversed(segments):
        if segment.summary.frame_count:
            joins = segment.last_sequence == last_sequence and not segment.has_lost_end
            return (segment.summary.last_header_crc if joins else 0), segment.summary.log_time_ms
    if base is not None:
        return (base.header_crc if base.position.sequence == last_sequence else 0), base.log_time_ms
    return 0, 0
