"""Write the kept stores of a release, with the code that is there: `python -m tests.stores.write VERSION`.

Real processes and public ways only, so that the same program writes those of every later release: topology files, the
`albireo` command, the client. `tests/stores/VERSION` gets an archive of each, and beside it what the code that wrote it
tells of it (telling.py). See docs/formats/stores.md for what is in them.

It takes some two minutes. What is random in a store (ids, times, the machine's own items) differs from run to run; the
values of devices and programs do not.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from albireo.client import Acknowledged, NodeUnreachable, SampleProducer, connect
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.link.lines import LineTo
from tests.parts.process_pair import ALBIREO, ENVIRONMENT, VOTERS, Pair, until
from tests.parts.producing import producing
from tests.parts.waiting import PATIENCE_S
from tests.stores.archive import FOLDER, pack, told_beside, unpack
from tests.stores.plc import COUNT, MUTE, STRICT, STUBBORN, TEXT_WORDS, TEXTS, Plc
from tests.stores.telling import command, told_of

CLUSTER: Final = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
LOG: Final = """
[log]
segment_mib = 1
disk_reserve_mib = 0
bytes_max_mib = 64
snapshot_every_s = 2
[history]
seal_every_s = 3600
"""
"""Segments as small as they can be; sealed when it is asked for."""
ALONE: Final = f'''cluster = "{CLUSTER}"
{LOG}
[[node]]
id = "root"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:%d"
  items = "p1.csv"
  poll_ms = 10
  timeout_ms = 5000
  backoff_min_ms = 50
  backoff_max_ms = 100
  [[node.adapter]]
  name = "host"
  kind = "host"
  poll_ms = 3600000
'''
TABLE: Final = f"""\
name,kind,address,type,length,scale,hi_hi,hi,lo,hysteresis,off_normal,latched,suppressed_by,writable,minimum,maximum
level,holding,0,float32,,,95,80,,2,,,,,,
temperature,holding,2,int16,,0.1,,60,,,,true,,,,
flow,holding,3,uint16,,,,,5,,,,,,,
total,holding,4,int64,,,,,,,,,,,,
setpoint,holding,8,uint16,,,,,,,,,,true,0,100
stubborn,holding,{STUBBORN},uint16,,,,,,,,,,true,,
mute,holding,{MUTE},uint16,,,,,,,,,,true,,
strict,holding,{STRICT},uint16,,,,,,,,,,true,,
door,coil,0,bool,,,,,,,true,,maintenance,,,
maintenance,coil,1,bool,,,,,,,,,,,,
pump,coil,2,bool,,,,,,,true,,,,,
fan,coil,3,bool,,,,,,,true,,,,,
lamp,coil,4,bool,,,,,,,,,,true,,
count,holding,{COUNT},uint16,,,,,,,,,,,,
"""
TEXT_ROW: Final = "text_{0},holding,{1},string,{2},,,,,,,,,,,\n"
READINGS: Final = 1000
"""So many times eight texts of 200 characters fill two segments."""
SEALS: Final = 13
"""Twelve files of a kind are merged."""
METER: Final = (
    DataItem(name="power", value_type=ValueType.FLOAT64, unit="kW", alarm=AlarmSettings(hi=900.0, lo=10.0)),
    DataItem(name="energy", value_type=ValueType.INT64, unit="Wh"),
)
LEASE_S: Final = 1.0
"""An active member without voters suspends itself before."""
TRIES: Final = 5
FIRST_NS: Final = 1_800_000_000 * 10**9
"""Source time of a program's first sample; the next ones are a second apart."""


class Alone:
    """A node on its device, and the commands given to it."""

    def __init__(self, home: Path, plc: Plc) -> None:
        self.plc = plc
        self.data = home / "root"
        self._home = home
        self._topology = home / "plant.toml"
        self._topology.write_text(ALONE % plc.port)
        rows = (TEXT_ROW.format(number, COUNT + 1 + number * TEXT_WORDS, 2 * TEXT_WORDS) for number in range(TEXTS))
        (home / "p1.csv").write_text(TABLE + "".join(rows))
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        order = ["node", "run", "--topology", str(self._topology), "--data", str(self.data)]
        with (self._home / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*ALBIREO, *order], env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        self.order("stop")
        assert self._process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        """Kill all of its processes at once, as a power cut would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def order(self, *arguments: str, exit_codes: Sequence[int] = (0,)) -> dict[str, Any]:
        return command(*arguments, "--data", str(self.data), exit_codes=exit_codes)

    def ask(self, what: str, of: str = "core") -> Any:
        with connect(self.data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            return client.ask(what, of=of)

    def value(self, item: str) -> Any:
        """None while nobody knows."""
        with contextlib.suppress(NodeUnreachable):
            for one in self.ask("read"):
                if one["name"] == f"root:{item}" and one["quality"] == 0:
                    return one["value"]
        return None

    def shows(self, item: str, value: object) -> None:
        until(lambda: self.value(item) == value, lambda: f"{item} is {self.value(item)}, wanted {value}")

    def case(self, item: str, *, is_active: bool) -> str:
        """The number of the item's newest case, once it is so."""
        found: list[str] = []

        def is_there() -> bool:
            cases = self.order("cases", "list", "--all")["cases"]
            own = [one for one in cases if one["item"] == f"root:{item}"]
            newest = max(own, key=lambda one: one["case_id"], default=None)
            found.extend([str(newest["case_id"])] if newest and newest["is_active"] is is_active else [])
            return bool(found)

        until(is_there, lambda: f"no case of {item} that is {is_active}")
        return found[0]

    def act(self, action: str, item: str, *more: str, is_active: bool = True) -> None:
        """An operator acts on the item's newest case."""
        self.order("cases", action, self.case(item, is_active=is_active), "--user", "operator", *more)

    def write(self, item: str, value: str) -> None:
        """Whatever becomes of it is what is wanted."""
        self.order("write", item, value, "--user", "operator", "--expires", "5", exit_codes=(0, 1))

    def manifest(self) -> dict[str, Any]:
        found = json.loads((self.data / "history" / "manifest.json").read_text())
        assert isinstance(found, dict)
        return found


def write_alone(home: Path) -> None:
    """Cases in every state, orders with every end, a lost device, segments, merged files; in the end a power cut."""
    with Plc() as plc:
        node = Alone(home, plc)
        try:
            plc.set_float(0, 50.0)
            plc.set_word(2, 200)
            plc.set_word(3, 20)
            node.start()
            node.shows("level", 50.0)
            raise_cases(node)
            give_orders(node)
            lose_device(node)
            node.stop()
            node.start()
            merge_files(node)
            fill_segments(node)
            end_abruptly(node)
        finally:
            node.kill()


def raise_cases(node: Alone) -> None:
    plc = node.plc
    plc.set_float(0, 97.5)
    plc.set_word(2, 650)
    plc.set_word(3, 1)
    for coil in (0, 2, 3):
        plc.set_coil(coil, is_on=True)
    node.shows("level", 97.5)
    node.act("ack", "temperature", "--comment", "seen")
    node.act("comment", "level", "--comment", "watch it")
    node.act("shelve", "flow", "--for", "36000")
    node.act("shelve", "pump")
    node.act("out-of-service", "fan")
    node.case("door", is_active=True)
    plc.set_coil(1, is_on=True)
    plc.set_word(2, 300)
    node.shows("temperature", 30.0)
    node.case("temperature", is_active=False)
    # A case that is closed, and raised again as another one.
    plc.set_float(0, 50.0)
    node.act("ack", "level", is_active=False)
    plc.set_float(0, 85.0)
    node.case("level", is_active=True)


def give_orders(node: Alone) -> None:
    """Verified twice, never sent, mismatched, refused by the device, unknown."""
    node.write("setpoint", "42")
    node.write("lamp", "true")
    node.write("setpoint", "1000")
    node.write("stubborn", "7")
    node.write("strict", "7")
    node.write("mute", "7")
    node.shows("setpoint", 42)


def lose_device(node: Alone) -> None:
    """The device hangs up on every request for a while: a case, a gap, and values that nobody knows."""
    node.plc.is_off = True
    until(lambda: node.value("level") is None, lambda: "the device is not lost")
    node.plc.is_off = False
    node.shows("level", 85.0)


def merge_files(node: Alone) -> None:
    for number in range(SEALS):
        node.plc.set_word(7, number)
        node.plc.set_float(0, 60.0 + number)
        node.shows("total", number)
        node.shows("level", 60.0 + number)
        # Something of each kind: samples, and an entry of the journal.
        node.write("setpoint", str(number))
        node.ask("seal", of="history")

    def is_merged() -> bool:
        files = node.manifest()["files"]
        return {one["kind"] for one in files if one["level"] == 1} >= {"samples", "partials", "events"}

    until(is_merged, lambda: str([(one["kind"], one["level"]) for one in node.manifest()["files"]]))


def fill_segments(node: Alone) -> None:
    node.plc.count_max = READINGS
    node.shows("count", READINGS)
    node.ask("seal", of="history")


def snapshots(node: Alone) -> set[str]:
    return {one.name for one in (node.data / "log" / "snapshots").glob("*.snapshot")}


def end_abruptly(node: Alone) -> None:
    """Killed with records behind the newest snapshot, and rows that only the log has."""
    before = snapshots(node)
    until(lambda: snapshots(node) - before, lambda: "no snapshot was made")
    node.plc.set_float(0, 99.0)
    node.shows("level", 99.0)
    node.case("level", is_active=True)
    node.kill()


def begin(pair: Pair) -> None:
    """The primary leads, both are in the set."""
    with (pair.home / "plant.toml").open("a") as plant:
        plant.write(LOG.replace("[log]", "[node.log]").replace("[history]", "[node.history]"))
    pair.start(*VOTERS, "primary")
    until(lambda: pair.run("pair", "init", member="primary")[0] == 0, lambda: "not begun")
    pair.wait_for("solo", "silent")
    pair.start("backup")
    pair.wait_for("active", "ready")
    until(lambda: level_of(pair) == 2, lambda: f"the log is at level {level_of(pair)}")


def level_of(pair: Pair) -> int:
    return int(pair.run("status", member="primary")[1]["log"]["feature_level"])


def lines_of(pair: Pair) -> list[LineTo]:
    (node,) = tomllib.loads((pair.home / "plant.toml").read_text())["node"]
    return [LineTo(node[name]["client"], f"root[{name}]") for name in ("primary", "backup")]


def batches(number: int) -> list[SampleBatch]:
    """One sample of each item; power passes both of its limits now and then."""
    times = np.full(1, FIRST_NS + number * 10**9, np.int64)

    def batch(value_type: ValueType, row: int, value: Any) -> SampleBatch:
        return SampleBatch(
            value_type=value_type,
            item_id=np.full(1, row, np.uint32),
            source_ns=times,
            node_ns=times,
            value=value,
            quality=np.zeros(1, np.uint32),
        )

    return [
        batch(ValueType.FLOAT64, 0, np.array([number * 37 % 1000 + 0.5], np.float64)),
        batch(ValueType.INT64, 1, np.array([number * 1000], np.int64)),
    ]


def produce(producer: SampleProducer, first: int, last: int, within_s: float = PATIENCE_S) -> int:
    """Until the active member has told that it has them; returns where the last one stands in its log.

    Raises:
        TimeoutError: it has not.
    """
    wanted = 0
    for number in range(first, last + 1):
        wanted = producer.offer(batches(number))
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        for receipt in producer.wait(0.1):
            assert isinstance(receipt, Acknowledged), receipt
            if receipt.batch >= wanted:
                return receipt.position.sequence
    raise TimeoutError(f"batch {wanted} is not acknowledged")


def commit(pair: Pair, first: int, last: int, *, by: str = "primary") -> None:
    """Produce, and wait until all of it is committed."""
    with producing("meter", METER, lines_of(pair), None) as producer:
        sequence = produce(producer, first, last)
    until(lambda: pair.run("status", member=by)[1]["pair"]["committed"] >= sequence, lambda: "not committed")


def seal(pair: Pair, member: str) -> None:
    def is_sealed() -> bool:
        with (
            contextlib.suppress(NodeUnreachable),
            connect(pair.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client,
        ):
            client.ask("seal", of="history")
            return True
        return False

    until(is_sealed, lambda: f"the history of {member} does not answer")


def end(pair: Pair) -> None:
    """Both members level and with one shutdown id, then the voters."""
    for member in ("primary", "backup"):
        seal(pair, member)
    pair.done("stop", "--all", member="backup")
    assert pair.wait_for_end("primary", "backup") == [0, 0]
    for voter in VOTERS:
        pair.signal(signal.SIGTERM, voter)
    assert pair.wait_for_end(*VOTERS) == [0, 0, 0]


def write_pair(home: Path) -> None:
    """A takeover cuts what the old active member alone had; it comes back. `primary.before`: as its death left it."""
    pair = Pair(home)
    with (home / "plant.toml").open("a") as plant:
        plant.write('[node.durability]\nsamples = "local"\n')
    try:
        begin(pair)
        commit(pair, 1, 40)
        assert any(cut_tail(pair) for _ in range(TRIES)), "no tail was cut"
        commit(pair, 61, 80, by="backup")
        end(pair)
    finally:
        pair.end()


def cut_tail(pair: Pair) -> bool:
    """Voters and the passive member are gone: what the active one takes, as long as its lease lets it, dies with it.

    The other one leads alone after a while. False: the lease was over before anything was taken.
    """
    until(lambda: sorted(pair.states().values()) == ["active", "ready"], lambda: str(pair.states()))
    if pair.states()["root[primary]"] != "active":
        pair.pass_lead("primary", "switchover", by="primary")
    with producing("meter", METER, lines_of(pair), None) as producer:
        produce(producer, 41, 41)
        pair.kill(*VOTERS, "backup")
        with contextlib.suppress(TimeoutError):
            produce(producer, 42, 60, LEASE_S)
        pair.kill("primary")
    before = pair.home / "primary.before"
    shutil.rmtree(before, ignore_errors=True)
    shutil.copytree(pair.data("primary"), before, ignore=shutil.ignore_patterns("run"))
    pair.start(*VOTERS, "backup")
    pair.wait_for("silent", "solo")
    pair.start("primary")
    pair.wait_for("ready", "active")
    commit(pair, 51, 60, by="backup")
    return any("not in the holder's log" in one["why"] for one in quarantined(pair))


def quarantined(pair: Pair) -> list[dict[str, Any]]:
    found = command("quarantine", "--data", str(pair.data("primary")))["quarantined"]
    assert isinstance(found, list)
    return found


def write_private(home: Path) -> None:
    """Samples are not replicated; each member took some."""
    pair = Pair(home)
    with (home / "plant.toml").open("a") as plant:
        plant.write('[node.transfer.replication]\nsamples = "configuration"\n')
    try:
        begin(pair)
        commit(pair, 1, 40)
        pair.lose("primary")
        commit(pair, 41, 60, by="backup")
        pair.start("primary")
        pair.wait_for("ready", "active")
        commit(pair, 61, 80, by="backup")
        end(pair)
    finally:
        pair.end()


WRITERS: Final[dict[str, Callable[[Path], None]]] = {
    "alone": write_alone,
    "pair": write_pair,
    "private": write_private,
}
ASKED: Final = {
    "alone": ("root:level", "root:total", "root:door", "root:text_0"),
    "pair": ("root:power", "root:energy"),
    "private": ("root:power", "root:energy"),
}


def write(name: str, archive: Path) -> None:
    """Write a store, pack it, and keep what it tells beside it."""
    with temporary() as home:
        WRITERS[name](home)
        pack(home, archive)
    with temporary() as home:
        unpack(archive, home)
        answer = told_of(home, ASKED[name])
    told_beside(archive).write_text(json.dumps(answer, indent=1, sort_keys=True) + "\n")


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Paths of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="stores-") as name:
        yield Path(name)


def main() -> None:
    _, version, *names = sys.argv
    (FOLDER / version).mkdir(exist_ok=True)
    for one in ("LOGNAME", "USER"):
        os.environ[one] = ENVIRONMENT[one] = "operator"
    for name in names or WRITERS:
        began = time.monotonic()
        archive = FOLDER / version / f"{name}.tar.xz"
        write(name, archive)
        print(f"{name}: {archive.stat().st_size} bytes, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
