"""Sections of the topology file that hold for a whole node: its log, its history, its limits, its actors.

Each is a default at the top of the file and can be changed, key by key, in a node (codec/topology/topology.py).
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta


class Placement(StrEnum):
    """Placement of a node's actors."""

    PROCESS = "process"
    THREAD = "thread"


class LogTarget(StrEnum):
    """Destination of a node's structured log."""

    STDOUT = "stdout"
    FILE = "file"
    SYSLOG = "syslog"


class Severity(StrEnum):
    """Least severity that is written to the structured log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Durability(StrEnum):
    """Durability of a record when its producer is told of it. Readers see it once it is on both members, either way."""

    BOTH = "both"
    """Durable on every member of the set."""
    LOCAL = "local"
    """Durable on the active member."""


class StreamReplication(StrEnum):
    """Part of a stream that the other member gets."""

    ALL = "all"
    CONFIGURATION = "configuration"
    """References to the samples or messages only; these stay with the member that took them."""
    NONE = "none"
    """Nothing."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every table of the file: a key that nobody reads is a mistake, never a silent default."""


class LogSettings(Config, frozen=True):
    """`[log]`: the store of a node. Retention ends at whole segments."""

    segment_mib: Annotated[int, Meta(ge=1, le=256)] = 64
    """Size of a segment. 64: a new one each quarter of an hour at 5,000 samples/s; smaller for small disks."""
    disk_reserve_mib: Annotated[int, Meta(ge=0, le=1_048_576)] = 64
    """Space left free: a segment that would leave less is not prepared, and admission stops until there is room."""
    snapshot_every_s: Annotated[int, Meta(ge=1, le=86_400)] = 300
    """Time between snapshots; bounds the replay after a crash."""
    scrub_mib_per_s: Annotated[float, Meta(ge=0, le=1_024)] = 4.0
    """Speed of the scrub, the slow check of sealed segments; 0 switches it off."""
    keep_h: Annotated[float, Meta(ge=0, le=87_600)] = 24.0
    """Log time for which records stay once the history has them; records that it or a snapshot lacks stay anyway."""
    bytes_max_mib: Annotated[int, Meta(ge=16, le=16_777_216)] = 65_536
    """Size of the whole log; above it the oldest records that the history has go before their time."""
    quarantine_count_max: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Cuts kept for people; beyond this or the next two bounds the oldest cut goes, but never the newest one."""
    quarantine_mib_max: Annotated[int, Meta(ge=0, le=16_777_216)] = 4_096
    """Size of all cuts on the disk."""
    quarantine_days_max: Annotated[int, Meta(ge=1, le=36_500)] = 90
    """Age of a cut, in days of log time."""

    def __post_init__(self) -> None:
        if self.bytes_max_mib < 4 * self.segment_mib:
            raise ValueError("bytes_max_mib must be at least 4 x segment_mib: one open, one prepared, two kept")


class HistorySettings(Config, frozen=True):
    """`[history]`: samples as Parquet files."""

    seal_every_s: Annotated[int, Meta(ge=1, le=3_600)] = 60
    """Age at which the hot tail becomes a file; readers of files wait at most so long."""
    tail_rows_max: Annotated[int, Meta(ge=1_000, le=50_000_000)] = 2_000_000
    """Rows of the hot tail in memory (about 50 bytes each); more are sealed early."""


class DurabilitySettings(Config, frozen=True):
    """`[node.durability]` of a pair: for each stream, when the sender of a record is told that it is recorded."""

    samples: Durability = Durability.BOTH
    """`both`: on the disks of both members. `local`: on the disk of the active member; until the other member has the
    record a takeover may cut it."""
    cases: Durability = Durability.BOTH
    """Only `both`."""
    state: Durability = Durability.BOTH
    """Only `both`."""
    command: Durability = Durability.BOTH
    """Only `both`."""
    audit: Durability = Durability.BOTH
    """Only `both`."""
    control: Durability = Durability.BOTH
    """Only `both`."""

    @property
    def local_streams(self) -> tuple[str, ...]:
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is Durability.LOCAL)


class ReplicationSettings(Config, frozen=True):
    """`[node.replication]` of a pair: for each stream, which part of it the other member gets."""

    samples: StreamReplication = StreamReplication.ALL
    """`all`: everything. `configuration`: items, producers and the numbers of their batches; the values stay in the
    private log of the member that took them. After a takeover they are still there, and the other member has a gap."""
    cases: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    state: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    command: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    audit: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    control: StreamReplication = StreamReplication.ALL
    """Only `all`."""
    own_puts: StreamReplication = StreamReplication.ALL
    """Messages of topics that stay with one member. `all`: there are no such topics. `configuration`: there may be."""
    topics: StreamReplication = StreamReplication.ALL
    """Which member has the messages of a topic that is created without saying so: `all`, or with `own_puts` as said
    there `configuration` (the one that took them) or `none` (the same, and the topic ends when the other one leads)."""

    @property
    def private_streams(self) -> tuple[str, ...]:
        streams = (one for one in self.__struct_fields__ if one != "topics")
        return tuple(name for name in streams if getattr(self, name) is not StreamReplication.ALL)


class LimitSettings(Config, frozen=True):
    """`[limits]`: sizes of the tables in which every name takes a place, and the patience of links."""

    producers_max: Annotated[int, Meta(ge=1, le=16_384)] = 4_096
    """Names of producers; the hello of one more is refused. Every name is part of every snapshot."""
    items_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000_000
    """Items; a hello with one more is refused."""
    sessions_max: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """Sessions; who comes then is served as ever, without one."""
    followers_max: Annotated[int, Meta(ge=16, le=16_384)] = 1_024
    """Followers of the log, and of each state; the hello of one more is refused."""
    visitors_max: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Clients at each door, such as those that read topics; one more is let in once another one is quiet. Each needs a
    file descriptor of the process."""
    forget_producers_days: Annotated[int, Meta(ge=0, le=3_650)] = 90
    """Time without a record after which a producer that owns no items is forgotten, of the wall clock and of time that
    the node ran, both; 0: never. A program that sends again after that has to be started anew."""
    handshake_least_ms: Annotated[int, Meta(ge=500, le=120_000)] = 2_000
    """Time that a peer which this node dials has at first to prove its key; it gets more as the way needs more. A
    handshake takes four round trips."""
    handshake_most_ms: Annotated[int, Meta(ge=500, le=120_000)] = 15_000
    """Most of that, and the time that this node gives to whoever dials it: a round trip of 3 s. Until it is over a
    stranger takes a place among 1,024 connections."""

    def __post_init__(self) -> None:
        if self.handshake_least_ms > self.handshake_most_ms:
            raise ValueError("handshake_least_ms must be at most handshake_most_ms")


ACTIVATIONS_MAX: Final = 16


class AlarmConfig(Config, frozen=True):
    """`[alarms]`: how the alarms of all items are judged; what is of one item is in its row. All are log time."""

    chatter_activations: Annotated[int, Meta(ge=2, le=ACTIVATIONS_MAX)] = 3
    """Activations of one condition within the window that make it chatter. Three activations are six changes of state:
    C2MON's limit for an oscillating alarm."""
    chatter_window_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 60_000
    """Window of the activations, as in C2MON."""
    chatter_calm_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 180_000
    """Time for which a chattering condition is held active until it was calm (C2MON's time to clear)."""
    shelve_max_ms: Annotated[int, Meta(ge=1, le=604_800_000)] = 12 * 3_600_000
    """Longest shelve (MaxTimeShelved, OPC UA Part 9): none outlasts a shift, so nothing is forgotten on the shelf."""


class RuntimeSettings(Config, frozen=True):
    """`[runtime]`: actors and their supervision."""

    placement: Placement = Placement.PROCESS
    """`thread` runs the whole node in one process, for small edge boxes and tests."""
    alive_every_ms: Annotated[int, Meta(ge=50, le=60_000)] = 1_000
    """Time between two questions DEAD? to an actor."""
    alive_timeout_ms: Annotated[int, Meta(ge=200, le=600_000)] = 5_000
    """Silence after which an actor is restarted; well above the longest allowed turn (20 ms) and a busy disk."""
    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """Restarts of core and history within `restarts_within_s` before the node gives up (OTP: intensity)."""
    restarts_within_s: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """Time within which restarts are counted (OTP: period)."""
    stop_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    """Time that an actor may take to stop before it is killed."""
    log_target: LogTarget = LogTarget.STDOUT
    log_level: Severity = Severity.INFO
    log_file_mib: Annotated[int, Meta(ge=1, le=1_024)] = 10
    """Size at which the log file is rotated; five old ones are kept."""

    def __post_init__(self) -> None:
        if self.alive_timeout_ms < 3 * self.alive_every_ms:
            raise ValueError("alive_timeout_ms must be at least 3 x alive_every_ms: one lost answer is not a death")
