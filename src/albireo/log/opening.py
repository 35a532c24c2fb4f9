"""Opening a store: taking its directory, whose it is, what recovery finds, and where the log ends."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from albireo.log.config import LogConfig, StoreIdentity
from albireo.log.errors import OpenFailed, OpenRefused, StoreDamaged, StoreLocked, WrongStore
from albireo.log.files import FileSystem, Locked, sync_names
from albireo.log.segment.recovery import Recovered, Recovery, RecoveryReport
from albireo.log.segment.segment import SUFFIX
from albireo.log.store.snapshots import Snapshots
from albireo.log.store.store import Store, StoreHeader
from albireo.log.write.appending import End

SEGMENTS: Final = "segments"
SNAPSHOTS: Final = "snapshots"
QUARANTINE: Final = "quarantine"
LOCK: Final = "lock"

Entropy = Callable[[int], bytes]
"""Draws random bytes for ids."""


class OpenedStore(msgspec.Struct, frozen=True):
    """A store that was taken and recovered: all that a log begins with."""

    lock: int
    """Handle of the lock file; closing it releases the directory."""
    store: Store
    found: Recovered
    entropy: Entropy
    report: RecoveryReport


@contextlib.contextmanager
def taken(files: FileSystem, directory: Path) -> Iterator[int]:
    """The lock of `directory`, which is made durable if it is not there; released again when the block fails.

    Raises:
        OpenRefused: also instead of an OSError of the block.
    """
    lock = -1
    try:
        below = [directory / name for name in (SEGMENTS, SNAPSHOTS, QUARANTINE)]
        for place in (directory, *below):
            files.make_directory(place)
        for place in below:
            files.sync_directory(place)
        sync_names(files, directory)
        lock = files.lock(directory / LOCK)
        yield lock
    except Locked as error:
        raise StoreLocked(str(directory), error.holder) from error
    except OpenRefused:
        files.close(lock)
        raise
    except OSError as error:
        if lock >= 0:
            files.close(lock)
        raise OpenFailed(str(directory), error) from error


def recovered(
    lock: int, directory: Path, identity: StoreIdentity, config: LogConfig, files: FileSystem, entropy: Entropy
) -> OpenedStore:
    """The store in `directory`, recovered, or a new one. Raises OpenRefused, OSError."""
    store, is_new = _store_of(directory, identity, files, entropy)
    was_clean = store.header.is_clean
    store.update(run_id=entropy(8).hex(), is_clean=False, shutdown_id="")
    found = Recovery(files, directory / SEGMENTS, directory / QUARANTINE, config, store).recover()
    snapshots = Snapshots(files, directory / SNAPSHOTS, directory / QUARANTINE, config.snapshots_kept)
    report = RecoveryReport(
        is_new=is_new,
        was_clean=was_clean or is_new,
        committed_sequence=found.committed_sequence,
        end_sequence=found.next_sequence - 1,
        corrupt=found.corrupt,
        torn=found.torn,
        rewritten_bytes=found.rewritten_bytes,
        scanned_bytes=found.scanned_bytes,
        repaired_copies=store.repaired_copies,
        deleted_snapshots=tuple(map(str, snapshots.delete_above(found.next_sequence - 1))),
    )
    return OpenedStore(lock, store, found, entropy, report)


def _store_of(directory: Path, identity: StoreIdentity, files: FileSystem, entropy: Entropy) -> tuple[Store, bool]:
    """The store in `directory`, made if there is none; and whether it was made."""
    store = Store.load(files, directory)
    if store is None:
        if any(name.endswith(SUFFIX) for name in files.names(directory / SEGMENTS)):
            raise StoreDamaged(str(directory), "segments, but no readable store header")
        store_id, log_id = entropy(16).hex(), identity.log_id.hex() or entropy(16).hex()
        header = StoreHeader(cluster=identity.cluster, node=identity.node, store_id=store_id, log_id=log_id)
        store = Store.create(files, directory, header)
        return store, True
    if (store.header.cluster, store.header.node) != (identity.cluster, identity.node):
        owner = f"node {store.header.node!r} of cluster {store.header.cluster}"
        raise WrongStore(str(directory), f"belongs to {owner}; this is {identity.node!r} of {identity.cluster}")
    if identity.log_id.hex() not in ("", store.header.log_id):
        wanted = f"{identity.node!r} keeps log {identity.log_id.hex()}"
        raise WrongStore(str(directory), f"holds log {store.header.log_id}; {wanted}: move it away and let it catch up")
    return store, False


def end_of(found: Recovered, header: StoreHeader) -> End:
    """End of a recovered log; the header CRC is 0 when the last frame is lost."""
    last, base = header.position(found.next_sequence - 1), header.base
    for segment in reversed(found.segments):
        if segment.summary.frame_count:
            joins = segment.last_sequence == last.sequence and not segment.has_lost_end
            return End(last, segment.summary.last_header_crc if joins else 0, segment.summary.log_time_ms)
    if base is not None:
        return End(last, base.header_crc if base.position == last else 0, base.log_time_ms)
    return End(last, 0, 0)
