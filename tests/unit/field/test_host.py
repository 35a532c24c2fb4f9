"""HostAdapter adapter: agrees with the kernel's own files, declares what is there, survives what hangs or vanishes."""

import asyncio
import threading
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from albireo.field.contract import DeviceLost
from albireo.field.host import adapter as host
from albireo.field.host.adapter import HostAdapter, Probe, Rate, create
from albireo.field.kinds import Surroundings
from albireo.model.instant import SECOND, Instant
from albireo.model.item import DataItem
from albireo.model.quality import BAD_NO_DATA, GOOD
from albireo.model.samples import Strings
from albireo.model.topology import AdapterConfig
from albireo.model.value import ValueType
from albireo.runtime.clock import boot_ns
from tests.parts.waiting import PATIENCE_S


def polled(adapter: HostAdapter) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for column in asyncio.run(adapter.poll()):
        assert not isinstance(column.value, Strings)
        for row, value, quality in zip(
            column.rows.tolist(), column.value.tolist(), column.quality.tolist(), strict=True
        ):
            found[adapter.items[row].name] = (value, quality)
    return found


def probe(name: str, read: object) -> Probe:
    return Probe(item=DataItem(name=f"h/{name}", value_type=ValueType.FLOAT64), read=read)  # type: ignore[arg-type]


class Temperature(NamedTuple):
    """As psutil gives it."""

    label: str
    current: float
    high: float | None
    critical: float | None


def of_machine(data: Path) -> HostAdapter:
    return create(AdapterConfig(name="h", kind="host"), [], Surroundings(data, boot_ns))


def kernel() -> tuple[float, float]:
    """Available memory in bytes, and uptime in seconds."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024, float(Path("/proc/uptime").read_text().split()[0])


def test_memory_disk_and_uptime_agree_with_the_kernel(tmp_path: Path) -> None:
    """Between what the kernel says before and after, however long the reading takes."""
    memory_before, uptime_before = kernel()
    found = polled(of_machine(tmp_path))
    memory_after, uptime_after = kernel()
    memory = sorted((memory_before, memory_after))
    assert 0.8 * memory[0] <= found["h/memory_available"][0] <= 1.2 * memory[1]
    assert uptime_before - 5 <= found["h/uptime"][0] <= uptime_after + 5
    assert 0 < found["h/disk_free_percent"][0] < 100
    assert found["h/node_processes"][0] >= 1


def test_what_decides_over_a_node_has_an_alarm(tmp_path: Path) -> None:
    alarms = {one.name: one.alarm for one in of_machine(tmp_path).items}
    disk = alarms["h/disk_free_percent"]
    assert disk is not None
    assert (disk.lo, disk.lo_lo) == (10, 5)
    assert alarms["h/memory_percent"] is not None


def test_a_sensor_that_is_not_there_is_not_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_temperatures", dict, raising=False)
    items = of_machine(tmp_path).items
    assert [one.name for one in items if "temperature" in one.name] == []


def test_a_sensor_that_is_there_has_its_own_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Temperature("Package 0", 40.0, 90.0, 100.0)
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: {"coretemp": [entry]}, raising=False)
    adapter = of_machine(tmp_path)
    (item,) = [one for one in adapter.items if "temperature" in one.name]
    assert item.name == "h/temperature_coretemp_package_0"
    assert item.alarm is not None
    assert (item.alarm.hi, item.alarm.hi_hi) == (90.0, 100.0)
    assert polled(adapter)[item.name] == (40.0, GOOD)


def test_a_sensor_that_vanishes_later_is_bad_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its chip, or alone, so that the others of the chip move up."""
    first, second = Temperature("Core 0", 40.0, 90.0, 100.0), Temperature("Core 1", 50.0, 90.0, 100.0)
    bare = [Temperature("", 30.0, None, None), Temperature("", 31.0, None, None)]
    sensors = {"coretemp": [first, second], "acpitz": bare}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    adapter = of_machine(tmp_path)
    names = {one: f"h/temperature_{one}" for one in ("coretemp_core_0", "coretemp_core_1", "acpitz_0", "acpitz_1")}
    seen = polled(adapter)
    assert [seen[name] for name in names.values()] == [(40.0, GOOD), (50.0, GOOD), (30.0, GOOD), (31.0, GOOD)]
    sensors = {"coretemp": [second], "acpitz": bare[1:]}
    seen = polled(adapter)
    assert seen[names["coretemp_core_0"]][1] == BAD_NO_DATA
    assert seen[names["coretemp_core_1"]] == (50.0, GOOD)
    assert {seen[names[one]][1] for one in ("acpitz_0", "acpitz_1")} == {BAD_NO_DATA}, "nobody knows which is left"
    sensors = {}
    seen = polled(adapter)
    assert {seen[name][1] for name in names.values()} == {BAD_NO_DATA}
    assert seen["h/uptime"][1] == GOOD


def test_what_vanishes_is_bad_and_counted_and_takes_nothing_along() -> None:
    def gone() -> float:
        raise FileNotFoundError("sensor")

    adapter = HostAdapter("h", [probe("gone", gone), probe("there", lambda: 5.0)])
    assert polled(adapter) == {"h/gone": (0.0, BAD_NO_DATA), "h/there": (5.0, GOOD)}
    assert adapter.counters() == {"errors": 1}


def test_a_rate_needs_two_readings_and_a_counter_that_goes_on() -> None:
    clock = [0]
    rate = Rate(lambda: Instant(clock[0]))
    found = []
    for seconds, total in [(0, 100), (2, 300), (3, 10), (4, 30), (4, 40)]:
        clock[0] = seconds * SECOND
        found.append(rate.of(total))
    assert found == [None, 100.0, None, 20.0, None]


def test_a_reading_that_hangs_is_a_lost_device_and_begins_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "READ_TIMEOUT_S", 0.05)
    release, others = threading.Event(), set(threading.enumerate())
    adapter = HostAdapter("h", [probe("stuck", lambda: release.wait(PATIENCE_S) and 1.0)])
    try:
        for reason in ("no reading within", "still hangs", "still hangs"):
            with pytest.raises(DeviceLost, match=reason):
                polled(adapter)
        assert [one.name for one in set(threading.enumerate()) - others].count("albireo-h_0") == 1
    finally:
        release.set()


def test_a_machine_answers_again_once_the_reading_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "READ_TIMEOUT_S", 0.05)
    release = threading.Event()
    adapter = HostAdapter("h", [probe("stuck", lambda: release.wait(PATIENCE_S) and 1.0)])
    with pytest.raises(DeviceLost):
        polled(adapter)
    release.set()
    assert adapter._reading is not None
    adapter._reading.exception(timeout=PATIENCE_S)
    monkeypatch.setattr(host, "READ_TIMEOUT_S", PATIENCE_S)
    assert polled(adapter) == {"h/stuck": (1.0, GOOD)}
