"""Mix of faults of one world of whole nodes, drawn from its seed.

Hostile values of the configuration stand here as well: small segments, a retention of seconds, short waits.
"""

import contextlib
import random
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from albireo.log import LogConfig
from albireo.machine.pair.config import PairConfig
from albireo.model.instant import MS, SECOND
from albireo.model.topology import NODE_VOTER
from albireo.node.core.housekeeping import Retention
from albireo.sim.engine.swarm import Mix

WITNESS: Final = "witness:"
CLUSTER: Final = "c/root"


class NodeSwarm(Mix, frozen=True, kw_only=True):
    """Mix of what may go wrong in one pair of whole nodes."""

    delay_ms: float = 0.3
    sync_ms: float = 1.0
    """Longest time that a sync takes; now and then it takes up to ten times as much."""
    fault_every_ms: float = 1_000.0
    segment_bytes: int = 16_384
    keep_s: float = 0.0
    """Age up to which records are kept although snapshots and history have them."""
    scrub_bytes: int = 16_384
    messages_max: int = 1_000_000
    """Most messages under way from one process to another; one more is refused."""
    bytes_per_s: int = 100_000_000
    gives_views: bool = False
    tail_bytes: int = 1 << 20
    """Bytes of the log that are kept in memory for the other member."""
    is_local: bool = False
    """True: the active member alone acknowledges samples; whoever sent them keeps them until they are committed."""
    is_private: bool = False
    """True: samples stay with the member that took them."""
    short_writes: float = 0.0
    """Share of writes that take fewer bytes than they were given."""
    below: int = 0
    """Number of voters that are nodes below, which dial the members; the others are witnesses."""
    bounds: Mapping[str, int] = {}
    """Bounds of the product that are made small: some of `BOUNDS` and `SCRUB_OFTEN`."""


ANYTIME: Final = (
    "kill kill_both kill_in_write power power_both power_in_write pause cut_link cut_path cut_member cut_oneway "
    "cut_voter break_connections hang_disk fail_sync fail_read full_disk restart_voter lose_voter switchover "
    "maintenance stop stop_both away jump_clock"
).split()
"""Faults that may come at any time, on top of each other."""
ROTS: Final = frozenset({"rot_at_start", "rot_while_up"})
SINGLE: Final = ["empty_disk", "old_disk", "force_refused", "rewind_voter", *sorted(ROTS)]
"""Faults that are covered one at a time only (design/pair.md, What may be promised)."""
BOUNDS: Final = {
    "machine.feed.leader:PULL_BYTES": 600,
    "machine.pair.outflow:PIECE_BYTES": 600,
    "machine.pair.outflow:WINDOW_BYTES": 4_000,
    "machine.desk.pending:FOLD_COST_MAX": 30,
    "node.transfer.folds:PART_BYTES": 700,
    "node.core.housekeeping:SNAPSHOT_RECORDS": 50,
    "node.core.housekeeping:SNAPSHOT_FRAMES": 20,
    "node.transfer.peer_repair:PIECE_BYTES": 1_000,
    "node.transfer.replication:PIECES_PER_TURN": 1,
}
"""Bounds that take megabytes to reach in a plant, by module and name, with values reached in a short world."""
SCRUB_BYTES: Final = 1 << 18
SCRUB_OFTEN: Final = {"node.core.housekeeping:EVERY_NS": 200 * MS}
"""Bound of a world in which something rots: a whole segment is scrubbed, five times a second."""


def swarm_of(seed: int) -> NodeSwarm:
    """Draw the mix of one seed."""
    chance = random.Random(f"node swarm {seed}")
    faults = [fault for fault in ANYTIME if chance.random() < 0.3]
    if chance.random() < 0.5:
        faults += 2 * [chance.choice(SINGLE)]
    return NodeSwarm(
        voters=chance.choice([1, 3, 3]),
        paths=chance.choice([1, 2]),
        delay_ms=chance.choice([0.2, 0.2, 1.0, 10.0]),
        drift=chance.choice([0.0, 0.02]),
        sync_ms=chance.choice([0.5, 2.0, 10.0]),
        faults=tuple(faults) or ("kill",),
        fault_every_ms=chance.choice([250.0, 500.0, 1_000.0]),
        batch_every_ms=chance.choice([20.0, 60.0, 150.0]),
        segment_bytes=chance.choice([8_192, 16_384, 65_536]),
        keep_s=chance.choice([0.0, 0.0, 2.0, 600.0]),
        scrub_bytes=SCRUB_BYTES if ROTS & set(faults) else chance.choice([0, 8_192, 65_536]),
        messages_max=chance.choice([1_000_000, 1_000_000, 30]),
        bytes_per_s=chance.choice([100_000_000, 1_000_000]),
        gives_views=chance.random() < 0.5,
        tail_bytes=chance.choice([0, 4_096, 1 << 20]),
        is_local=chance.random() < 0.25,
        short_writes=chance.choice([0.0, 0.0, 0.05]),
        bounds=(SCRUB_OFTEN if ROTS & set(faults) else {})
        | {name: value for name, value in BOUNDS.items() if chance.random() < 0.3},
        is_private=chance.random() < 0.25,
        quiet_ms=random.Random(f"node quiet {seed}").choice([0.0, 0.0, 1_000.0, 3_000.0]),
        below=random.Random(f"node below {seed}").choice([0, 0, 1, 3]),
    )


@contextlib.contextmanager
def bounded(bounds: Mapping[str, object]) -> Iterator[None]:
    """Give the product these bounds inside, and its own afterwards."""
    with contextlib.ExitStack() as restored:
        for name, value in bounds.items():
            module, _, constant = name.partition(":")
            place = import_module(f"albireo.{module}")
            restored.callback(setattr, place, constant, getattr(place, constant))
            setattr(place, constant, value)
        yield


def pair_config_of(swarm: NodeSwarm) -> PairConfig:
    """Return the configuration with the waits of a plant, save those that would only make the worlds long."""
    return PairConfig(
        cluster=CLUSTER,
        voters=tuple(
            f"{NODE_VOTER}root/w{number}" if number < swarm.below else f"{WITNESS}w{number}"
            for number in range(swarm.voters)
        ),
        paths=swarm.paths,
        cold_wait_ns=2 * SECOND,
        hold_off_first_ns=100 * MS,
        hold_off_longest_ns=800 * MS,
        steady_ns=1 * SECOND,
        handover_ns=2 * SECOND,
    )


def log_config_of(swarm: NodeSwarm) -> LogConfig:
    return LogConfig(
        segment_bytes=swarm.segment_bytes,
        pending_bytes_max=1 << 20,
        free_bytes_min=1 << 18,
        prepare_retry_ms=200,
        index_every_bytes=1_024,
        tail_bytes_max=swarm.tail_bytes,
    )


def retention_of(swarm: NodeSwarm) -> Retention:
    return Retention(keep_h=swarm.keep_s / 3600, snapshot_every_s=1, scrub_bytes_per_s=swarm.scrub_bytes)
