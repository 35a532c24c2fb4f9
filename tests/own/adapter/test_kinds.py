"""Kinds of adapters: found with all that the loader must know, whoever offers them; a broken one is a mistake."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.schema import topology_schema
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.contract import ConfigurationError
from albireo.field.kinds import settings_of
from albireo.field.offered import ENTRY_POINTS, KnownKinds
from tests.own.adapter.kind import ToldConfig

MODULE = """
import threading
import msgspec
from albireo.codec.topology.adapter_kind import AdapterKind

COUNT, THREADS = 200, 4
TOGETHER = threading.Barrier(THREADS)
for number in range(COUNT):
    exec(f'''
class Outer{number}(msgspec.Struct):
    inner: "list[Inner{number}]" = []

class Inner{number}(msgspec.Struct):
    outer: "Outer{number} | None" = None
''')

KIND = AdapterKind(create="offered_adapter:create")

def create(settings, rows, surroundings):
    for number in range(COUNT):
        TOGETHER.wait()
        msgspec.convert({"inner": [{"outer": {}}]}, type=globals()[f"Outer{number}"])
"""
PROGRAM = """
import sys, threading
from pathlib import Path
from albireo.field.kinds import Surroundings, create_adapter
from albireo.runtime.clock import boot_ns

sys.setswitchinterval(1e-6)
surroundings = Surroundings(Path(), boot_ns)
arguments = {"name": "a1", "kind": "offered"}
threads = [threading.Thread(target=create_adapter, args=(arguments, surroundings)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all made")
"""


def offer(place: Path, **kinds: str) -> None:
    """A distribution that offers kinds, in this folder."""
    offering = place / "offered-1.0.dist-info"
    offering.mkdir()
    (offering / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    offered = "\n".join(f"{kind} = {value}" for kind, value in kinds.items())
    (offering / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{offered}\n")


def test_adapters_that_read_their_arguments_at_once_end_no_process(tmp_path: Path) -> None:
    """Two threads that use a type of msgspec (0.22) for the first time at once do: the process dies each time here. A
    node of two Modbus adapters in threads died so, now and then, as it started."""
    offer(tmp_path, offered="offered_adapter:KIND")
    (tmp_path / "offered_adapter.py").write_text(MODULE)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, "all made\n"), ended.stderr


SITE = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:5000"
[[node.adapter]]
name = "t1"
kind = "told"
url = "tcp://127.0.0.1:5001"
items = "t1.csv"
"""


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of another distribution: a good one, and three that can't be had."""
    offer(
        tmp_path,
        told="tests.own.adapter.kind:KIND", gone="no_such_module:KIND", broken="broken_kind:KIND",
        other="tests.own.adapter.kind:COLUMNS", modbus="tests.own.adapter.kind:KIND",
    )  # fmt: skip
    (tmp_path / "broken_kind.py").write_text("raise RuntimeError('it is broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def load(more: str = "", kind: str = "told", table: str = "name,type\na,float\n") -> LoadedTopology | list[Mistake]:
    files = {"t.toml": SITE.replace('"told"', f'"{kind}"') + more, "t1.csv": table}
    return load_topology("t.toml", files.__getitem__, KnownKinds())


@pytest.mark.usefixtures("offered")
def test_settings_of_a_kind_of_others_are_checked_with_the_file() -> None:
    loaded = load("line_bytes_max = 100\n")
    assert isinstance(loaded, LoadedTopology), loaded
    (adapter,) = loaded.topology.node[0].adapter
    assert isinstance(adapter, ToldConfig)
    assert adapter.line_bytes_max == 100
    assert loaded.arguments["root"][0]["line_bytes_max"] == 100
    assert settings_of(loaded.arguments["root"][0]) == msgspec.structs.replace(adapter, items="")


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("more", "kind", "table", "path", "line", "said"),
    [
        ("line_bytes_max = 1\n", "told", "name,type\na,float\n", "node[0].adapter[0].line_bytes_max", 10, ">= 64"),
        ("device_id = 1\n", "told", "name,type\na,float\n", "node[0].adapter[0].device_id", 10, "is not known here"),
        ("", "told", "name,type\na,colour\n", "type", 2, "no type 'colour'"),
        ("device_id = 1\n", "tolt", "name\na\n", "node[0].adapter[0].kind", 7, "no adapter of kind 'tolt'"),
        ("device_id = 1\n", "gone", "name\na\n", "node[0].adapter[0].kind", 7, "ModuleNotFoundError"),
        ("", "broken", "name\na\n", "node[0].adapter[0].kind", 7, "RuntimeError: it is broken"),
        ("", "other", "name\na\n", "node[0].adapter[0].kind", 7, "no AdapterKind"),
    ],
)
def test_what_is_wrong_in_the_settings_of_a_kind_is_told_with_its_line(
    more: str, kind: str, table: str, path: str, line: int, said: str
) -> None:
    mistakes = load(more, kind, table)
    assert isinstance(mistakes, list)
    (mistake,) = mistakes
    assert (mistake.key_path, mistake.line) == (path, line)
    assert said in mistake.text


@pytest.mark.usefixtures("offered")
def test_nobody_takes_the_place_of_a_kind_of_ours() -> None:
    assert KnownKinds()["modbus"].settings is not ToldConfig
    assert set(KnownKinds()) == {"modbus", "host", "hexabus", "told", "gone", "broken", "other"}
    assert len(KnownKinds()) == 7


@pytest.mark.usefixtures("offered")
def test_a_kind_that_cannot_be_had_is_refused_at_the_start_too() -> None:
    with pytest.raises(ConfigurationError, match="'gone' can't be had"):
        settings_of({"name": "a1", "kind": "gone"})


def test_the_schema_says_which_keys_a_kind_has() -> None:
    schema = topology_schema({"told": ToldConfig}, [])
    assert "line_bytes_max" not in schema["$defs"]["AdapterConfig"]["properties"]
    (told,) = schema["$defs"]["AdapterConfig"]["allOf"]
    assert told["if"] == {"properties": {"kind": {"const": "told"}}}
    assert {"name", "poll_ms", "line_bytes_max"} <= set(told["then"]["propertyNames"]["enum"])
    assert told["then"]["$ref"] == "#/$defs/ToldConfig"
    assert set(schema["$defs"]["ToldConfig"]["properties"]) == {"line_bytes_max"}
