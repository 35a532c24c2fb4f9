"""A real node on a real simulated plant, and real signals.

Goal: whatever is killed, every record that a follower was given before is in the log afterwards, byte for byte; folds
equal a replay from zero; the time without samples is a gap record; what was not told was not promised.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from albireo.client import ClientError, connect
from albireo.codec.frame import frames
from albireo.codec.message import FeedAlive, FeedAnswer, FeedData
from albireo.codec.record import GapFound, Kind, Stream, decode_records
from albireo.log import StoreIdentity
from albireo.log.log import Log
from albireo.machine.feed.follower import Deliver, Digested, Follower, FollowerConfig, LinkUp, Received, TellLeader
from albireo.machine.fold.folds import Folds
from albireo.model.instant import TimePassed
from albireo.model.value import ValueType
from albireo.plant.tunnel.processes import Tunnel, start_tunnel
from albireo.plant.tunnel.scenario import Scenario
from albireo.runtime import SyncLink
from albireo.runtime.clock import boot_ns
from tests.parts.other_format import OTHER, make_other
from tests.parts.plc import patient_site
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

LOOK_S = 2.0
"""For one answer of a node of which it is not known whether it is there."""
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()", "node", "run"]


class Site:
    """The plant, and whatever node runs on it."""

    def __init__(self, directory: Path, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.data = directory / "data"
        self.topology = patient_site(directory / "site", tunnel.ports)
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._answer_s = PATIENCE_S

    def start(self) -> subprocess.Popen[bytes]:
        command = [*PROGRAM, "--topology", str(self.topology), "--data", str(self.data)]
        with (self.data.parent / f"node-{len(self.nodes)}.log").open("wb") as said:
            node = subprocess.Popen(command, stdout=said, stderr=said)
        self.nodes.append(node)
        return node

    def running(self) -> subprocess.Popen[bytes]:
        """A node all of whose actors run and that has samples of the plant."""
        node = self.start()
        self.until(lambda: self.is_sampling(), node)
        return node

    def is_sampling(self) -> bool:
        """Every adapter is there, and something of each is committed."""
        adapters = {one["name"] for one in self.ask("status")["adapters"] if one["connected"]}
        readings = self.ask("read", names=[f"{one}/connected" for one in ("p1", "p2", "host")])
        return {"p1", "p2", "host"} <= adapters and all(one["value"] for one in readings)

    def ask(self, what: str, **arguments: Any) -> Any:
        with connect(self.data, timeout_s=self._answer_s, is_pinned=True) as client:
            return client.ask(what, **arguments)

    def until(self, condition: Callable[[], bool], node: subprocess.Popen[bytes] | None = None) -> None:
        """Wait for a condition; no answer counts as not yet."""
        ends = time.monotonic() + PATIENCE_S
        self._answer_s = LOOK_S
        try:
            while time.monotonic() < ends:
                assert node is None or node.poll() is None, "the node ended"
                with contextlib.suppress(ClientError):
                    if condition():
                        return
                time.sleep(0.05)  # A real node in other processes: nothing else tells.
        finally:
            self._answer_s = PATIENCE_S
        raise AssertionError("waited in vain")

    def pid_of(self, actor: str) -> int:
        found = next(one for one in self.ask("actors", of="boot") if one["name"] == actor)
        return int(found["pid"])

    def stop(self, node: subprocess.Popen[bytes]) -> int:
        node.terminate()
        return node.wait(PATIENCE_S)

    def log(self) -> Log:
        """The store itself, once no node runs."""
        cluster = next(one for one in self.topology.read_text().splitlines() if one.startswith("cluster"))
        return Log.open(self.data / "log", StoreIdentity(cluster.split('"')[1], "root"))[0]

    def close(self) -> None:
        for node in self.nodes:
            if node.poll() is None:
                node.kill()
                node.wait()


class Witness:
    """A follower in a thread that writes down every frame it was given: those are promised."""

    def __init__(self, data: Path) -> None:
        self.seen: dict[int, int] = {}
        self._data = data
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[int, int]:
        self._is_stopping.set()
        self._thread.join(PATIENCE_S)
        return self.seen

    def _run(self) -> None:
        machine = Follower(FollowerConfig(name="witness"))
        with SyncLink(self._data, "core") as link:
            _say(link, machine.step(LinkUp(), boot_ns()))
            while not self._is_stopping.is_set():
                received = link.receive(0.1)
                if received is None:
                    _say(link, machine.step(TimePassed(), boot_ns()))
                    continue
                message, raw = received
                if isinstance(message, FeedAnswer | FeedData | FeedAlive):
                    effects = machine.step(Received(message, sum(map(len, raw))), boot_ns())
                    if any(isinstance(one, Deliver) for one in effects):
                        self.seen |= {header.first_sequence: header.header_crc for header, _ in frames(raw[0])}
                        effects += machine.step(Digested(machine.position), boot_ns())
                    _say(link, effects)


def _say(link: SyncLink, effects: list[Any]) -> None:
    for effect in effects:
        if isinstance(effect, TellLeader):
            link.send(effect.message)


@pytest.fixture(scope="module")
def tunnel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnel]:
    with start_tunnel(tmp_path_factory.mktemp("plant")) as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, tunnel: Tunnel) -> Iterator[Site]:
    made = Site(tmp_path, tunnel)
    yield made
    made.close()


def check_store(site: Site, promised: dict[int, int]) -> Folds:
    """Every promised frame is there, unchanged; the folds of the newest snapshot equal a replay from zero."""
    log = site.log()
    try:
        log.commit(log.durable)
        stored = {frame.header.first_sequence: frame.header.header_crc for frame in log.replay(0, log.end.sequence)}
        missing = {sequence for sequence, crc in promised.items() if stored.get(sequence) != crc}
        assert not missing
        replayed = Folds()
        for frame in log.replay(0, log.end.sequence):
            replayed.replay(frame)
        for snapshot in log.load_snapshots():
            folds = Folds.restore(snapshot.sections, snapshot.log_time // 1_000_000)
            for frame in log.replay(snapshot.position.sequence, log.end.sequence):
                folds.replay(frame)
            assert folds.snapshot() == replayed.snapshot()
    finally:
        log.close(clean=False)
    return replayed


def gaps(site: Site) -> list[GapFound]:
    log = site.log()
    try:
        log.commit(log.durable)
        return [
            record
            for frame in log.replay(0, log.end.sequence)
            if frame.header.stream == Stream.SAMPLES and frame.header.kind == Kind.RECORDS
            for record in decode_records(frame.body, frame.header.record_count)
            if isinstance(record, GapFound)
        ]
    finally:
        log.close(clean=False)


def test_kill_9_of_the_whole_node_loses_nothing_that_was_told(site: Site) -> None:
    node = site.running()
    witness = Witness(site.data)
    first = site.ask("status")["samples_committed"]
    site.until(lambda: site.ask("status")["samples_committed"] > first + 500 and len(witness.seen) > 20, node)
    # The one first that would start the others again.
    for process in [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    node.wait()
    promised = witness.stop()
    check_store(site, promised)

    again = site.running()
    assert site.ask("status")["log"]["epoch"] == 2
    assert site.stop(again) == 0
    check_store(site, promised)
    found = gaps(site)
    assert {(gap.source, gap.reason) for gap in found} >= {("p1", "node_down"), ("p2", "node_down")}
    assert all(gap.from_ns < gap.to_ns for gap in found)


def test_kill_9_of_any_actor_costs_a_restart_and_nothing_else(site: Site) -> None:
    """One after the other. CORE comes first: adapters live on and keep their samples, so the only gap is that of the
    adapter that is killed itself."""
    node = site.running()
    witness = Witness(site.data)
    for actor in ("core", "history", "logger", "comm.p1"):
        check_kill(site, node, actor)
    promised = witness.stop()
    assert site.stop(node) == 0
    check_store(site, promised)
    assert {(gap.source, gap.reason) for gap in gaps(site) if gap.source != "core"} == {("p1", "adapter_down")}


def check_kill(site: Site, node: subprocess.Popen[bytes], actor: str) -> None:
    pid = site.pid_of(actor)
    os.kill(pid, signal.SIGKILL)
    site.until(lambda: site.pid_of(actor) not in (0, pid), node)
    site.until(lambda: all(one["state"] == "running" for one in site.ask("actors", of="boot")), node)
    before = site.ask("status")["log"]["sequence"]
    site.until(lambda: site.is_sampling() and site.ask("status")["log"]["sequence"] > before + 200, node)
    assert site.ask("seal", of="history") is not None


def test_a_node_at_work_and_its_clean_stop(site: Site) -> None:
    """SIGTERM at the end leaves nothing behind, and the next one starts where it ended."""
    node = site.running()
    check_second_is_refused(site, node)
    check_write(site)
    check_plc_off(site, node)
    children = psutil.Process(node.pid).children(recursive=True)
    assert site.stop(node) == 0
    assert not [one for one in children if one.is_running()]
    log = site.log()
    assert log.committed == log.end
    log.close(clean=False)
    assert ("p1", "device_lost") in {(gap.source, gap.reason) for gap in gaps(site)}
    stopped = site.running()
    assert site.stop(stopped) == 0
    check_another_format_is_refused(site)


def check_second_is_refused(site: Site, node: subprocess.Popen[bytes]) -> None:
    """On the same data."""
    second = site.start()
    assert second.wait(PATIENCE_S) == 78
    site.until(site.is_sampling, node)


def check_another_format_is_refused(site: Site) -> None:
    make_other(site.data / "log")
    node = site.start()
    assert node.wait(PATIENCE_S) == 78
    said = (site.data.parent / f"node-{len(site.nodes) - 1}.log").read_text()
    assert f"the store has format {OTHER}, this software reads format" in said


def check_write(site: Site) -> None:
    """It reaches the plant and is read back."""
    items = [one["item"] for one in site.ask("items")]
    writable = next(one for one in items if one.get("is_writable") and one["value_type"] == ValueType.FLOAT64)
    value = writable.get("maximum", 1.0)
    order = {"item": writable["name"], "value": value, "command_id": "c-1", "user": "drill", "expires_ms": 60_000}
    receipt = site.ask("write", **order)
    assert receipt["outcome"] == "verified"
    assert receipt["read_back"] == pytest.approx(value, rel=0.01)
    assert site.ask("write", **order) == receipt


def check_plc_off(site: Site, node: subprocess.Popen[bytes]) -> None:
    """It is a case, and its items are bad until it is back."""
    site.tunnel.begin(Scenario.PLC_OFF, plc="p1")

    def is_lost() -> bool:
        cases = site.ask("cases")
        return any(case["condition"] == "device_lost" and case["is_active"] for case in cases)

    site.until(is_lost, node)
    bad = site.ask("status")["bad_items"]
    assert bad > 100
    site.tunnel.begin(Scenario.CLEAR)  # Sooner than the scenario would end by itself.
    site.until(lambda: not is_lost() and site.ask("status")["bad_items"] < bad, node)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_is_a_case_first_then_a_stop_and_goes_on_by_itself(tmp_path: Path, tunnel: Tunnel) -> None:
    site = Site(tmp_path, tunnel)
    site.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", str(site.data)], check=True)
    try:
        text = site.topology.read_text()
        limits = "[log]\nsegment_mib = 1\ndisk_reserve_mib = 2\nbytes_max_mib = 64\n[history]\nseal_every_s = 5\n"
        site.topology.write_text(text.replace("[[node]]", limits + "[[node]]", 1))
        node = site.running()
        witness = Witness(site.data)
        filler = site.data / "filler"

        def room() -> int:
            disk = os.statvfs(site.data)
            return disk.f_bavail * disk.f_frsize

        filler.write_bytes(bytes(room() - (5 << 20)))
        site.until(lambda: any("log_room" in case["item"] for case in site.ask("cases")), node)
        assert site.ask("status")["log"]["admission"] == ""

        with filler.open("ab") as file:
            file.write(bytes(room() - (1 << 20)))
        site.until(lambda: site.ask("status")["log"]["admission"] != "", node)
        stopped = site.ask("status")
        assert "unknown" not in stopped["log"]["admission"]
        with pytest.raises(ClientError, match="nothing is recorded now"):
            site.ask("write", item="anything", value=1.0, command_id="c-full")

        filler.unlink()
        site.until(lambda: site.ask("status")["log"]["admission"] == "", node)
        before = site.ask("status")["samples_committed"]
        site.until(lambda: site.ask("status")["samples_committed"] > before + 500, node)
        promised = witness.stop()
        assert site.stop(node) == 0
        check_store(site, promised)
        assert not [gap for gap in gaps(site) if gap.reason == "overflow"]
    finally:
        site.close()
        subprocess.run(["umount", "-l", str(site.data)], check=True)
