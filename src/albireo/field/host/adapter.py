"""Host adapter: the machine a node runs on, as items.

Sensors and counters are looked up once at the start; one that this machine does not have is not declared, so no item is
ever there without a value behind it. All reading is done in a thread: a network disk that hangs must not hang the
actor.

Items (names after the adapter's, so `host/...` for the usual name; see docs/adapters/host.md):

    cpu_percent, load_1m, memory_percent, memory_available, swap_percent, disk_free, disk_free_percent, disk_read_rate,
    disk_write_rate, net_received_rate, net_sent_rate, net_errors, temperature_<sensor>, open_files, uptime, boot_time,
    node_cpu_percent, node_memory, node_processes

psutil's types stop here. Spec: ADR-0031.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partialmethod
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import psutil
from numpy.typing import NDArray

from albireo.field.contract import DeviceLost, PolledColumns, SendGuard, Written
from albireo.field.kinds import Rows, Surroundings
from albireo.model.command import Outcome
from albireo.model.instant import SECOND, Instant
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.quality import BAD_NO_DATA, GOOD
from albireo.model.topology import AdapterConfig
from albireo.model.value import Value, ValueType
from albireo.runtime.directory import holder

READ_TIMEOUT_S: Final = 10.0
"""Longest reading; beyond it the machine counts as not answering (a hung mount, a stuck controller)."""
FAMILY_NS: Final = 10 * SECOND
"""Time for which a list of the node's processes is good: making one reads all of /proc."""
SENSORS_MAX: Final = 64
"""Temperatures declared at most."""

UNREADABLE: Final = (OSError, psutil.Error, RuntimeError, AttributeError, LookupError)
"""Errors of a reading whose thing is not there: a process that ended, a sensor that was pulled, with or without its
chip, a function that psutil does not have here."""
_NOT_WORD: Final = re.compile(r"[^A-Za-z0-9_]+")


class Rate:
    """Change per second of a counter of the kernel."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._last: tuple[Instant, float] | None = None

    def of(self, total: float) -> float | None:
        """Units per second since the last call; None at the first, and after a counter began anew."""
        now = self._now()
        last, self._last = self._last, (now, total)
        if last is None or now <= last[0] or total < last[1]:
            return None
        return (total - last[1]) * SECOND / (now - last[0])


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """An item and how it is read."""

    item: DataItem
    read: Callable[[], float | None]
    """The value; None: none this time (a rate needs two readings)."""
    dead_band: float = 0.0


class HostAdapter:
    """Adapter for the own machine."""

    def __init__(self, name: str, probes: Sequence[Probe]) -> None:
        self._probes = tuple(probes)
        self._items = tuple(one.item for one in probes)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"albireo-{name}")
        self._reading: Future[tuple[list[float | None], int]] | None = None
        """The last one handed to the thread: while it hangs, no second one is begun."""
        self._errors = 0
        self._rows = {
            value_type: np.array([r for r, one in enumerate(self._items) if one.value_type is value_type], np.intp)
            for value_type in (ValueType.FLOAT64, ValueType.INT64)
        }

    @property
    def items(self) -> Sequence[DataItem]:
        return self._items

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        return np.array([one.dead_band for one in self._probes], np.float64)

    def counters(self) -> Mapping[str, int]:
        return {"errors": self._errors}

    async def connect(self) -> None:
        """Nothing to connect to: the machine is here."""

    async def poll(self) -> Sequence[PolledColumns]:
        if self._reading is not None and not self._reading.done():
            raise DeviceLost("the last reading still hangs")
        self._reading = self._thread.submit(self._read)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                values, failed = await asyncio.wrap_future(self._reading)
        except TimeoutError as error:
            self._errors += 1
            raise DeviceLost(f"no reading within {READ_TIMEOUT_S:g} s") from error
        self._errors += failed
        found = np.array([np.nan if one is None else one for one in values], np.float64)
        quality = np.where(np.isnan(found), BAD_NO_DATA, GOOD).astype(np.uint32)
        np.round(np.nan_to_num(found), 3, out=found)  # More digits mean nothing.
        return [
            PolledColumns(
                value_type=value_type,
                rows=rows,
                value=found[rows] if value_type is ValueType.FLOAT64 else found[rows].astype(np.int64),
                quality=quality[rows],
            )
            for value_type, rows in self._rows.items()
            if len(rows)
        ]

    def _read(self) -> tuple[list[float | None], int]:
        """Values of every probe, and how many failed; called in the thread."""
        values: list[float | None] = []
        failed = 0
        for probe in self._probes:
            try:
                values.append(probe.read())
            except UNREADABLE:
                values.append(None)
                failed += 1
        return values, failed

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        return Written(outcome=Outcome.REJECTED, detail="never sent: the host adapter only reads")

    async def close(self) -> None:
        """Nothing to release; the thread is idle, or hangs in the kernel and ends with the process."""


def create(settings: AdapterConfig, rows: Rows, surroundings: Surroundings) -> HostAdapter:
    """The adapter for this machine, which knows its own items."""
    return HostAdapter(settings.name, probes(settings.name, surroundings))


def probes(adapter: str, surroundings: Surroundings) -> list[Probe]:
    """Everything that can be read on this machine."""
    make = _Make(adapter)
    found = [
        *_processor(make),
        *_memory(make),
        *_disk(make, surroundings),
        *_network(make, surroundings),
        *_temperatures(make),
        *_system(make, surroundings),
        *_node(make, surroundings),
    ]
    return [one for one in found if _can_be_read(one)]


def _can_be_read(probe: Probe) -> bool:
    """Absent things are not declared; this first reading also starts the rates."""
    try:
        probe.read()
    except UNREADABLE:
        return False
    return True


class _Make:
    """Makes probes of one adapter."""

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter

    def real(
        self,
        name: str,
        unit: str,
        description: str,
        read: Callable[[], float | None],
        *,
        value_type: ValueType = ValueType.FLOAT64,
        dead_band: float = 0.0,
        alarm: AlarmSettings | None = None,
    ) -> Probe:
        item = DataItem(
            name=f"{self._adapter}/{name}",
            value_type=value_type,
            adapter=self._adapter,
            unit=unit,
            description=description,
            alarm=alarm,
        )
        return Probe(item=item, read=read, dead_band=dead_band)

    whole = partialmethod(real, value_type=ValueType.INT64)


def _processor(make: _Make) -> list[Probe]:
    busy = AlarmSettings(hi=95, hysteresis=5, on_delay_ms=60_000, off_delay_ms=10_000, severity=300)
    return [
        make.real(
            "cpu_percent", "%", "all processors together, since the last poll",
            lambda: psutil.cpu_percent(interval=None), dead_band=1.0, alarm=busy,
        ),
        make.real(
            "load_1m", "", "processes that run or wait to, mean of a minute",
            lambda: psutil.getloadavg()[0], dead_band=0.1,
        ),
    ]  # fmt: skip


def _memory(make: _Make) -> list[Probe]:
    full = AlarmSettings(hi=90, hi_hi=97, hysteresis=2, on_delay_ms=10_000, severity=600)
    swapped = AlarmSettings(hi=80, hysteresis=5, on_delay_ms=30_000, severity=400)
    found = [
        make.real(
            "memory_percent", "%", "memory in use", lambda: psutil.virtual_memory().percent, dead_band=0.5, alarm=full
        ),
        make.whole(
            "memory_available", "B", "memory that can be had without swapping",
            lambda: psutil.virtual_memory().available, dead_band=16 << 20,
        ),
    ]  # fmt: skip
    if psutil.swap_memory().total:
        found.append(
            make.real(
                "swap_percent", "%", "swap in use", lambda: psutil.swap_memory().percent, dead_band=0.5, alarm=swapped
            )
        )
    return found


def _disk(make: _Make, surroundings: Surroundings) -> list[Probe]:
    place = _existing(surroundings.data)
    scarce = AlarmSettings(lo=10, lo_lo=5, hysteresis=1, on_delay_ms=10_000, severity=800)

    def free_percent() -> float:
        usage = psutil.disk_usage(place)
        return 100.0 * usage.free / usage.total

    found = [
        make.real(
            "disk_free_percent", "%", "room on the disk of the data directory", free_percent,
            dead_band=0.1, alarm=scarce,
        ),
        make.whole(
            "disk_free", "B", "room on the disk of the data directory",
            lambda: psutil.disk_usage(place).free, dead_band=16 << 20,
        ),
    ]  # fmt: skip
    if psutil.disk_io_counters() is not None:
        read, written = Rate(surroundings.now), Rate(surroundings.now)
        found += [
            make.real(
                "disk_read_rate", "B/s", "all disks together",
                lambda: read.of(_disk_bytes()[0]), dead_band=4096,
            ),
            make.real(
                "disk_write_rate", "B/s", "all disks together",
                lambda: written.of(_disk_bytes()[1]), dead_band=4096,
            ),
        ]  # fmt: skip
    return found


def _network(make: _Make, surroundings: Surroundings) -> list[Probe]:
    if not psutil.net_io_counters(pernic=True):
        return []
    received, sent = Rate(surroundings.now), Rate(surroundings.now)

    def errors() -> float:
        counted = psutil.net_io_counters()
        return counted.errin + counted.errout + counted.dropin + counted.dropout

    return [
        make.real(
            "net_received_rate", "B/s", "all interfaces together",
            lambda: received.of(psutil.net_io_counters().bytes_recv), dead_band=1024,
        ),
        make.real(
            "net_sent_rate", "B/s", "all interfaces together",
            lambda: sent.of(psutil.net_io_counters().bytes_sent), dead_band=1024,
        ),
        make.whole("net_errors", "", "packets in error or dropped since boot", errors),
    ]  # fmt: skip


def _temperatures(make: _Make) -> list[Probe]:
    """One item for each sensor that the machine has now; limits are the sensor's own where it states them."""
    read = getattr(psutil, "sensors_temperatures", None)
    sensors = read() if read is not None else {}
    found: list[Probe] = []
    names: set[str] = set()
    for chip, entries in sorted(sensors.items()):
        for index, entry in enumerate(entries):
            name = f"temperature_{_word(chip)}_{_word(entry.label) or index}"[:60]
            if name in names or len(found) >= SENSORS_MAX:
                continue
            names.add(name)
            found.append(
                make.real(
                    name, "°C", f"{chip} {entry.label}".strip(), _temperature(chip, index, len(entries), entry.label),
                    dead_band=0.5, alarm=_heat(entry.high, entry.critical),
                )
            )  # fmt: skip
    return found


def _temperature(chip: str, index: int, count: int, label: str) -> Callable[[], float | None]:
    def read() -> float:
        entries = psutil.sensors_temperatures()[chip]
        if len(entries) == count and entries[index].label == label:
            return float(entries[index].current)
        # Another sensor of the chip has gone or come, and the places are not what they were.
        named = [one for one in entries if label and one.label == label]
        if len(named) != 1:
            raise LookupError(f"{chip} {label or index} is gone")
        return float(named[0].current)

    return read


def _heat(high: float | None, critical: float | None) -> AlarmSettings:
    hi = high if high and 30 < high < 150 else 85.0
    hi_hi = critical if critical and critical >= hi else hi + 10
    return AlarmSettings(hi=hi, hi_hi=hi_hi, hysteresis=3, on_delay_ms=10_000, severity=600)


def _system(make: _Make, surroundings: Surroundings) -> list[Probe]:
    files = Path("/proc/sys/fs/file-nr")
    few = AlarmSettings(hi=80, hi_hi=95, hysteresis=2, on_delay_ms=10_000, severity=500)

    def files_percent() -> float:
        used, _, limit = files.read_text().split()
        return 100.0 * int(used) / int(limit)

    return [
        make.real(
            "files_percent", "%", "open files of all processes, of the system's limit", files_percent,
            dead_band=0.5, alarm=few,
        ),
        make.whole("uptime", "s", "since the last boot", lambda: surroundings.now() / SECOND, dead_band=60),
        make.whole("boot_time", "s", "Unix time of the last boot", psutil.boot_time, dead_band=2),
    ]  # fmt: skip


def _node(make: _Make, surroundings: Surroundings) -> list[Probe]:
    """Use of the machine by this node: its processes together. Its first one holds the lock of the directory."""
    root = holder(surroundings.data) or None
    family = _Family(psutil.Process(root), surroundings.now)
    return [
        make.real(
            "node_cpu_percent", "%", "all processes of the node; 100 is one processor",
            family.cpu_percent, dead_band=1.0,
        ),
        make.whole("node_memory", "B", "resident memory of the node's processes", family.memory, dead_band=1 << 20),
        make.whole("node_open_files", "", "open files of the node's processes", family.open_files),
        make.whole("node_processes", "", "processes of the node", lambda: float(len(family.members()))),
    ]  # fmt: skip


class _Family:
    """A process and what it started."""

    def __init__(self, root: psutil.Process, now: Callable[[], Instant]) -> None:
        self._root = root
        self._now = now
        self._members: list[psutil.Process] = []
        self._looked_at: Instant | None = None

    def members(self) -> list[psutil.Process]:
        """Processes of the family, as of at most FAMILY_NS ago."""
        now = self._now()
        if self._looked_at is None or now - self._looked_at >= FAMILY_NS:
            self._looked_at = now
            # The objects are kept: processor time is measured by each from one reading to the next.
            known = {one: one for one in self._members}
            found = (self._root, *self._root.children(recursive=True))
            self._members = [known.get(one, one) for one in found]
        return self._members

    def cpu_percent(self) -> float:
        return sum(self._of(one, lambda p: p.cpu_percent(interval=None)) for one in self.members())

    def memory(self) -> float:
        return sum(self._of(one, lambda p: p.memory_info().rss) for one in self.members())

    def open_files(self) -> float:
        return sum(self._of(one, lambda p: p.num_fds()) for one in self.members())

    @staticmethod
    def _of(process: psutil.Process, read: Callable[[psutil.Process], float]) -> float:
        with contextlib.suppress(psutil.NoSuchProcess):  # It ended between the two questions.
            return read(process)
        return 0.0


def _existing(place: Path) -> str:
    """`place`, or the nearest directory above it that is there."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return str(place)


def _disk_bytes() -> tuple[int, int]:
    """Read and written by all disks since boot."""
    counters = psutil.disk_io_counters()
    if counters is None:
        raise OSError("the disks have no counters any more")
    return counters.read_bytes, counters.write_bytes


def _word(text: str) -> str:
    return _NOT_WORD.sub("_", text).strip("_").lower()
