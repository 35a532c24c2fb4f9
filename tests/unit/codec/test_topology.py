"""Topology files: what is good, and that each mistake is told with file, key path, line and remedy."""

import inspect
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from albireo.codec.topology.adapter_kind import AdapterKind, AddressSpan, Judged, RowMistake
from albireo.codec.topology.mistakes import MISTAKES_MAX, Mistake
from albireo.codec.topology.schema import schema_text
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.modbus import config as modbus
from albireo.field.modbus.config import ModbusConfig
from albireo.model import settings
from albireo.model import topology as model
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.settings import Placement
from albireo.model.topology import Place, UnknownPlace, find_place, places
from albireo.model.value import ValueType

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = 'cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"\n'
PAIR = """
[[witness]]
name = "w1"
endpoint = "tcp://10.0.0.9:5000"
[[node]]
id = "root"
primary = { client = "tcp://10.0.0.1:5000", peer = ["tcp://10.1.0.1:5001"] }
backup  = { client = "tcp://10.0.0.2:5000", peer = ["tcp://10.1.0.2:5001"] }
voters  = ["plc:p1", "witness:w1", "plc:p2"]
"""
NORTH = """
[[node]]
id = "root/north"
endpoint = "tcp://10.0.0.10:5000"
  [[node.adapter]]
  name = "p1"
  kind = "test"
  url = "tcp://10.0.2.5:502"
  items = "p1.csv"
  voter_address = 9000
  [[node.adapter]]
  name = "p2"
  kind = "test"
  url = "tcp://10.0.2.6:502"
  items = "p2.csv"
  voter_address = 9100
"""
ONE = """
[[node]]
id = "root"
  [[node.adapter]]
  name = "p1"
  kind = "test"
  url = "tcp://10.0.2.5:502"
  items = "p1.csv"
"""
TABLES = {"p1.csv": "name,address\na,1\nb,2\n", "p2.csv": "name;address\nc;1\n"}


def judge(cells: Mapping[str, str]) -> Judged | list[RowMistake]:
    """The simplest adapter: an address, and a limit that must not be negative."""
    if not cells.get("address", "").isdigit():
        return [RowMistake("address", f"address is {cells.get('address')!r}", "write a whole number")]
    try:
        alarm = AlarmSettings(hi=float(cells.get("hi", "0")), suppressed_by=cells.get("suppressed_by", ""))
    except ValueError as error:
        return [RowMistake("hi", str(error), "")]
    value_type = ValueType.BOOL if cells.get("type") == "bool" else ValueType.FLOAT64
    item = DataItem(name=cells["name"], value_type=value_type, alarm=alarm, was=cells.get("was", ""))
    return Judged(item, AddressSpan("registers", int(cells["address"]), int(cells.get("count", "1"))))


KINDS = {
    "test": AdapterKind(
        columns=("name", "address", "count", "hi", "type", "suppressed_by", "was"), judge=judge, settings=ModbusConfig
    ),
    "host": AdapterKind(needs_url=False, needs_items=False),
}


def load(text: str, tables: Mapping[str, str] = TABLES) -> LoadedTopology | list[Mistake]:
    def read(name: str) -> str:
        found = {"topology.toml": text, **tables}
        if name not in found:
            raise FileNotFoundError(2, "no such file", name)
        return found[name]

    return load_topology("topology.toml", read, KINDS)


def loaded(text: str, tables: Mapping[str, str] = TABLES) -> LoadedTopology:
    answer = load(text, tables)
    assert isinstance(answer, LoadedTopology), answer
    return answer


def the_mistake(text: str, tables: Mapping[str, str] = TABLES) -> Mistake:
    answer = load(text, tables)
    assert isinstance(answer, list) and len(answer) == 1, answer
    return answer[0]


def test_a_tree_with_a_pair_and_item_tables_is_loaded() -> None:
    answer = loaded(CLUSTER + PAIR + NORTH)
    assert [node.id for node in answer.topology.node] == ["root", "root/north"]
    assert answer.warnings == ()
    first, second = answer.arguments["root/north"]
    assert first["name"] == "p1" and first["kind"] == "test" and first["url"] == "tcp://10.0.2.5:502"
    assert first["poll_ms"] == 1_000 and first["device_id"] == 1, "defaults are written out"
    assert first["items"] == [{"name": "a", "address": "1"}, {"name": "b", "address": "2"}]
    assert second["items"] == [{"name": "c", "address": "1"}]
    assert msgspec.json.decode(msgspec.json.encode(answer.arguments["root/north"]))


def test_each_place_is_found_by_its_name() -> None:
    topology = loaded(CLUSTER + PAIR + NORTH).topology
    assert [place.name for place in places(topology)] == ["root[primary]", "root[backup]", "root/north"]
    backup = find_place(topology, "root[backup]")
    assert (backup.endpoint, backup.directory_name) == ("tcp://10.0.0.2:5000", "root.backup")
    north = find_place(topology, "root/north")
    assert (north.endpoint, north.directory_name, north.node.parent) == ("tcp://10.0.0.10:5000", "root~north", "root")


@pytest.mark.parametrize("wanted", ["root", "root[third]", "root/north[primary]", "", "root[primary", "[primary]"])
def test_a_place_that_is_not_there_is_refused_with_those_that_are(wanted: str) -> None:
    with pytest.raises(UnknownPlace, match="root/north"):
        find_place(loaded(CLUSTER + PAIR + NORTH).topology, wanted)


def test_sections_of_the_file_hold_for_every_node_and_a_node_changes_single_keys() -> None:
    text = (
        CLUSTER
        + "[log]\nsegment_mib = 8\nscrub_mib_per_s = 1.5\n"
        + ONE.replace('id = "root"', 'id = "root"\nruntime = { placement = "thread" }\nlog = { segment_mib = 16 }')
    )
    node = loaded(text).topology.node[0]
    assert (node.log.segment_mib, node.log.scrub_mib_per_s) == (16, 1.5)
    assert node.runtime.placement is Placement.THREAD


def test_a_table_of_the_whole_node_names_the_owner_of_each_row() -> None:
    text = CLUSTER + ONE.replace('id = "root"', 'id = "root"\nitems = "all.csv"').replace('items = "p1.csv"', "")
    (adapter,) = loaded(text, {"all.csv": "adapter,name,address\np1,a,1\np1,b,2\n"}).arguments["root"]
    assert [row["name"] for row in adapter["items"]] == ["a", "b"]
    assert "adapter" not in adapter["items"][0]


@pytest.mark.parametrize(
    ("text", "path", "line", "said", "remedy"),
    [
        (ONE, "", None, "'cluster' is missing", "uuid"),
        ('cluster = "abc"' + ONE, "cluster", 1, "form", "uuid"),
        ("cluster = 5" + ONE, "cluster", 1, "a string", "quotes"),
        (CLUSTER, "", None, "'node' is missing", "node"),
        (CLUSTER + "node = 5", "node", 2, "list of tables", "[[node]]"),
        (CLUSTER + "node = []", "node", 2, "at least 1", "[[node]]"),
        (CLUSTER + ONE + '[[node]]\nid = "root"', "node[1].id", 11, "there twice", "of its own"),
        (CLUSTER + ONE + '[[node]]\nid = "rot/a"', "node[1].id", 11, "hangs below rot", "'root'"),
        (CLUSTER + ONE + '[[node]]\nid = "other"', "node[1].id", 11, "second root", "root/other"),
        (CLUSTER + ONE + '[[node]]\nid = "root/a"', "node[0]", 3, "no address", "endpoint"),
        (CLUSTER + ONE.replace('"root"', '"Root"'), "node[0].id", 4, "form", "root/north"),
        (CLUSTER + ONE.replace('"test"', '"tset"'), "node[0].adapter[0].kind", 7, "no adapter of kind", "'test'"),
        (CLUSTER + ONE + "  poll_ms = 0\n", "node[0].adapter[0].poll_ms", 10, ">= 10", "Change"),
        (CLUSTER + ONE + '  poll_ms = "1"\n', "node[0].adapter[0].poll_ms", 10, "whole number", "quotes"),
        (CLUSTER + ONE + "  backoff_max_ms = 10\n", "node[0].adapter[0]", 5, "backoff_min_ms", "Change one"),
        (CLUSTER + ONE.replace("tcp://10.0.2.5:502", "10.0.2.5"), "node[0].adapter[0].url", 8, "no address", "tcp://"),
        (CLUSTER + ONE.replace("10.0.2.5", "plc..hall"), "node[0].adapter[0].url", 8, "an empty part", "as the"),
        (CLUSTER + ONE.replace("10.0.2.5", ".hall"), "node[0].adapter[0].url", 8, "an empty part", "as the network"),
        (CLUSTER + ONE.replace("10.0.2.5", "p" * 64 + ".hall"), "node[0].adapter[0].url", 8, "63 characters", "as the"),
        (CLUSTER + ONE.replace("10.0.2.5", "plc." * 63 + "hall"), "node[0].adapter[0].url", 8, "253 characters", "as"),
        (CLUSTER + ONE.replace(":502", ":70000"), "node[0].adapter[0].url", 8, "no address", "65535"),
        (CLUSTER + ONE.replace(":502", ":0"), "node[0].adapter[0].url", 8, "it has port 0", "65535"),
        (CLUSTER + ONE.replace("10.0.2.5", "me:x@10.0.2.5"), "node[0].adapter[0].url", 8, "it has a user", "tcp://"),
        (CLUSTER + ONE.replace(":502", ":502?unit=3"), "node[0].adapter[0].url", 8, "it has a query", "tcp://"),
        (CLUSTER + ONE.replace(":502", ":502/#3"), "node[0].adapter[0].url", 8, "a fragment and a path", "tcp://"),
        (CLUSTER + ONE.replace('  url = "tcp://10.0.2.5:502"\n', ""), "node[0].adapter[0]", 5, "has no url", "url ="),
        (CLUSTER + ONE.replace('  items = "p1.csv"\n', ""), "node[0].adapter[0]", 5, "has no items", "items ="),
        (CLUSTER + ONE.replace("p1.csv", "p9.csv"), "node[0].adapter[0].items", 9, "no such file", "relative"),
        (CLUSTER + ONE.replace('"test"', '"host"'), "node[0].adapter[0].url", 8, "has no url", "away"),
        (CLUSTER + ONE + "[log]\nsegment_mib = 300\n", "log.segment_mib", 11, "<= 256", "Change"),
        (CLUSTER + ONE + "[log]\nbytes_max_mib = 16\n", "log", 10, "segment_mib", "Change one"),
        (CLUSTER + "[log]\nsegment_mib = 256\n[[node]]\nid = 'root'\nlog.bytes_max_mib = 900\n",
         "node[0].log", 6, "with the keys of [log]", "Change one"),
        (CLUSTER + "[runtime]\nplacement = 'fiber'\n" + ONE, "runtime.placement", 3, "'fiber'", "Change"),
        (CLUSTER + "[[node]\n", "", 2, "not TOML", "quotes"),
        (CLUSTER + "x = " + "[" * 5_000, "", None, "not TOML", ""),
    ],
)  # fmt: skip
def test_each_mistake_of_the_file_is_told_with_its_place_and_its_remedy(
    text: str, path: str, line: int | None, said: str, remedy: str
) -> None:
    mistake = the_mistake(text)
    assert (mistake.file, mistake.key_path) == ("topology.toml", path)
    assert line is None or mistake.line == line
    assert said in mistake.text and remedy in mistake.remedy and not mistake.is_warning


@pytest.mark.parametrize("host", ["plc", "plc.hall", "plc.hall.", "p" * 63 + ".hall", "10.0.2.5", "[fe80::1]"])
def test_a_host_name_that_a_resolver_takes_is_no_mistake(host: str) -> None:
    assert loaded(CLUSTER + ONE.replace("10.0.2.5", host)).warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ('"plc:p2"]', "]", "node[0].voters", "2 voters: an even number"),
        ('"plc:p2"', '"plc:p3"', "node[0].voters[2]", "plc:p3 is not there"),
        ('"plc:p2"', '"witness:w2"', "node[0].voters[2]", "witness:w2 is not there"),
        ('"plc:p2"', '"plc:p1"', "node[0].voters[2]", "votes twice"),
        ('"plc:p2"', '"p2"', "node[0].voters[2]", "form"),
        ("10.0.0.2:5000", "10.0.0.1:5000", "node[0].backup.client", "port clash"),
        ("10.1.0.2:5001", "10.1.0.1:5001", "node[0].backup.peer[0]", "port clash"),
        ("10.0.0.10:5000", "10.0.0.1:5000", "node[1].endpoint", "port clash"),
        ("10.0.0.10:5000", "10.0.0.10:05000", "node[1].endpoint", ""),
        ("10.0.0.9:5000", "10.0.0.10:5000", "witness[0].endpoint", "port clash"),
        ("10.0.2.6:502", "10.0.0.1:5000", "node[1].adapter[1].url", "port clash"),
        ("backup  = ", "# ", "node[0]", "has no backup"),
        ("voters", 'endpoint = "tcp://10.0.0.3:1"\nvoters', "node[0].endpoint", "is a pair"),
        ('["tcp://10.1.0.2:5001"]', "[]", "node[0].backup.peer", "length >= 1"),
        ('name = "p2"', 'name = "p1"', "node[1].adapter[1].name", "two adapters p1"),
        ("  voter_address = 9100\n", "", "node[0].voters[2]", "plc:p2 has no registers"),
        ("voter_address = 9000", 'guard = "plc"', "node[1].adapter[0]", "needs mailbox_address"),
        ("9000", "9000\n  mailbox_address = 9063", "node[1].adapter[0]", "overlap"),
        ("9100", "9100\n  mailbox_address = 9073", "node[1].adapter[1]", "overlap"),
        ("9100", "65473", "node[1].adapter[1].voter_address", "<= 65472"),
        ('endpoint = "tcp://10.0.0.10:5000"', 'voters = ["plc:p1"]', "node[1].voters", "no pair"),
        ('endpoint = "tcp://10.0.0.10:5000"', 'open_on_loopback = true\nendpoint = "tcp://10.0.0.10:5000"',
         "node[1].open_on_loopback", "without keys"),
        ('endpoint = "tcp://10.0.0.10:5000"', 'open_on_loopback = true\nendpoint = "tcp://127.0.0.1:5000"',
         "node[1].endpoint", ""),
        ("voters", "open_on_loopback = true\nvoters", "node[0].open_on_loopback", "no endpoint"),
        ('[[witness]]', '[[witness]]\nname = "w1"\nendpoint = "tcp://10.0.0.8:1"\n[[witness]]',
         "witness[1].name", "there twice"),
    ],
)  # fmt: skip
def test_each_mistake_between_tables_is_told(old: str, new: str, path: str, said: str) -> None:
    whole = CLUSTER + PAIR + NORTH
    assert old in whole
    answer = load(whole.replace(old, new, 1))
    if not said:
        assert isinstance(answer, LoadedTopology)
        return
    assert isinstance(answer, list)
    assert any(one.key_path == path and said in one.text and one.remedy and one.line for one in answer), answer


GATED = """
  [[node.adapter]]
  name = "g1"
  kind = "test"
  url = "tcp://10.0.2.7:502"
  gated_url = "tcp://10.9.0.7:502"
  guard = "gate"
  mailbox_address = 9100
  items = "g1.csv"
"""
GATE_TABLES = {**TABLES, "g1.csv": "name,address\ng,1\n", "g2.csv": "name,address\nh,1\n"}
SECOND = GATED.replace('"g1"', '"g2"').replace("g1.csv", "g2.csv")


def test_a_plc_stands_behind_a_gate_of_ours_or_of_others() -> None:
    ours = loaded(CLUSTER + PAIR + NORTH + GATED, GATE_TABLES).topology.node[1].adapter[2]
    assert isinstance(ours, ModbusConfig)
    assert ours.device_behind_gate == "tcp://10.9.0.7:502" and ours.mailbox_address == 9100
    of_others = GATED.replace('  gated_url = "tcp://10.9.0.7:502"\n', "").replace("  mailbox_address = 9100\n", "")
    assert not loaded(CLUSTER + PAIR + NORTH + of_others, GATE_TABLES).topology.node[1].adapter[2].device_behind_gate


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("  mailbox_address = 9100\n", "", "node[1].adapter[2]", "mailbox_address"),
        ('  gated_url = "tcp://10.9.0.7:502"\n', "", "node[1].adapter[2]", "gated_url"),
        ('guard = "gate"', 'guard = "plc"', "node[1].adapter[2]", 'guard is "plc"'),
        ('guard = "gate"', 'guard = "gate"\n  voter_address = 9000', "node[1].adapter[2]", "can't vote"),
        ("tcp://10.9.0.7:502", "10.9.0.7", "node[1].adapter[2].gated_url", "is no address"),
        ("tcp://10.9.0.7:502", "tcp://10.0.0.10:5000", "node[1].adapter[2].gated_url", "port clash"),
        ("tcp://10.9.0.7:502", "tcp://10.0.2.6:0502", "node[1].adapter[1].url", "beside the gate"),
        ("tcp://10.9.0.7:502", "tcp://10.0.2.7:502", "node[1].adapter[2].url", "beside the gate"),
        ("tcp://10.0.2.7:502", "tcp://10.0.2.6:502", "node[1].adapter[1].voter_address", "vote through the gate"),
        ("", SECOND, "node[1].adapter[3].gated_url", "second gate"),
    ],
)
def test_what_would_get_around_a_gate_is_told(old: str, new: str, path: str, said: str) -> None:
    text = GATED.replace(old, new, 1) if old else GATED + new
    answer = load(CLUSTER + PAIR + NORTH + text, GATE_TABLES)
    assert isinstance(answer, list)
    assert any(one.key_path == path and said in one.text and one.remedy and one.line for one in answer), answer


@pytest.mark.parametrize("stream", ["cases", "state", "command", "audit", "control"])
def test_a_stream_that_must_not_be_cut_is_never_local(stream: str) -> None:
    text = CLUSTER + PAIR + f'durability = {{ {stream} = "local" }}\n' + NORTH
    mistake = the_mistake(text)
    assert (mistake.key_path, mistake.line) == (f"node[0].durability.{stream}", 11)
    assert f"{stream} can't be local: " in mistake.text and "Take it away" in mistake.remedy
    assert not mistake.is_warning


def test_samples_are_on_both_unless_the_node_says_otherwise() -> None:
    assert loaded(CLUSTER + PAIR + NORTH).topology.node[0].durability.local_streams == ()
    local = loaded(CLUSTER + PAIR + '[node.durability]\nsamples = "local"\n' + NORTH)
    assert local.topology.node[0].durability.local_streams == ("samples",)
    assert local.topology.node[1].durability.local_streams == (), "each node for itself"
    assert local.warnings == ()


def test_a_node_that_stands_alone_is_told_that_its_durability_changes_nothing() -> None:
    answer = loaded(CLUSTER + ONE + '[node.durability]\nsamples = "local"\n')
    (warning,) = answer.warnings
    assert (warning.key_path, warning.line) == ("node[0].durability", 10)
    assert "no pair" in warning.text


@pytest.mark.parametrize(
    ("key", "said"), [('samples = "none"', "'none'"), ('topics = "local"', "'topics'"), ("samples = true", "True")]
)
def test_durability_is_one_of_two_words_for_a_stream_that_there_is(key: str, said: str) -> None:
    mistake = the_mistake(CLUSTER + PAIR + f"durability = {{ {key} }}\n" + NORTH)
    assert mistake.key_path.startswith("node[0].durability.") and said in mistake.text and mistake.remedy


@pytest.mark.parametrize("stream", ["cases", "state", "command", "audit", "control"])
@pytest.mark.parametrize("word", ["configuration", "none"])
def test_a_stream_that_the_pair_decides_by_is_always_replicated(stream: str, word: str) -> None:
    mistake = the_mistake(CLUSTER + PAIR + f'replication = {{ {stream} = "{word}" }}\n' + NORTH)
    assert (mistake.key_path, mistake.line) == (f"node[0].replication.{stream}", 11)
    assert f"{stream} can't stay with one member: " in mistake.text and "Take it away" in mistake.remedy


def test_samples_are_replicated_unless_the_node_says_otherwise() -> None:
    assert loaded(CLUSTER + PAIR + NORTH).topology.node[0].replication.private_streams == ()
    private = loaded(CLUSTER + PAIR + '[node.replication]\nsamples = "configuration"\n' + NORTH)
    assert private.topology.node[0].replication.private_streams == ("samples",)
    assert private.topology.node[1].replication.private_streams == (), "each node for itself"
    assert private.warnings == ()


def test_samples_of_which_the_other_knows_nothing_are_refused() -> None:
    mistake = the_mistake(CLUSTER + PAIR + 'replication = { samples = "none" }\n' + NORTH)
    assert mistake.key_path == "node[0].replication.samples" and "whoever takes over" in mistake.text
    assert '"configuration"' in mistake.remedy


def test_messages_have_an_address_of_their_own_or_a_free_port() -> None:
    own = loaded(CLUSTER + PAIR + NORTH).topology.node[0]
    host = own.primary.client.rpartition(":")[0] if own.primary else ""
    assert Place(node=own, member="primary").messages == f"{host}:*"
    client = PAIR.split('client = "', 1)[1].split('"', 1)[0]
    there = f"{host}:7799"
    text = CLUSTER + PAIR.replace(f'"{client}"', f'"{client}", messages = "{there}"') + NORTH
    assert Place(node=loaded(text).topology.node[0], member="primary").messages == there
    mistake = the_mistake(text.replace(there, client))
    assert mistake.key_path == "node[0].primary.messages" and "port clash" in mistake.text


def test_topics_stay_with_one_member_if_their_stream_may() -> None:
    own = loaded(CLUSTER + PAIR + '[node.replication]\nown_puts = "configuration"\ntopics = "none"\n' + NORTH)
    assert own.topology.node[0].replication.private_streams == ("own_puts",)
    mistake = the_mistake(CLUSTER + PAIR + 'replication = { topics = "configuration" }\n' + NORTH)
    assert mistake.key_path == "node[0].replication.topics" and 'own_puts = "configuration"' in mistake.remedy
    mistake = the_mistake(CLUSTER + PAIR + 'replication = { own_puts = "none" }\n' + NORTH)
    assert mistake.key_path == "node[0].replication.own_puts" and '"configuration"' in mistake.remedy


def test_a_node_that_stands_alone_is_told_that_its_replication_changes_nothing() -> None:
    (warning,) = loaded(CLUSTER + ONE + '[node.replication]\nsamples = "configuration"\n').warnings
    assert (warning.key_path, warning.line) == ("node[0].replication", 10)
    assert "no pair" in warning.text


def test_a_pair_without_voters_is_good_but_warned_of() -> None:
    answer = loaded(CLUSTER + PAIR.replace('voters  = ["plc:p1", "witness:w1", "plc:p2"]', "") + NORTH)
    assert [one.key_path for one in answer.warnings] == ["node[0]"]


def test_every_mistake_is_told_at_once_errors_first() -> None:
    text = (
        CLUSTER.replace("cluster", "clusters")
        + PAIR.replace('"plc:p2"]', "]").replace("10.0.0.2:5000", "10.0.0.1:5000")
        + NORTH.replace("id =", "endpoints = 1\nid =").replace("items = ", "poll_ms = 'fast'\nitems = ", 1)
    )
    answer = load(text, {"p1.csv": "name,address\na,1\na,1\n", "p2.csv": "name,address\n1,1\nc,x\n"})
    assert isinstance(answer, list)
    told = {(one.file, one.key_path) for one in answer}
    assert {
        ("topology.toml", ""),
        ("topology.toml", "clusters"),
        ("topology.toml", "node[0].voters"),
        ("topology.toml", "node[0].backup.client"),
        ("topology.toml", "node[1].endpoints"),
        ("topology.toml", "node[1].adapter[0].poll_ms"),
        ("p1.csv", "name"),
        ("p2.csv", "name"),
        ("p2.csv", "address"),
    } <= told
    assert [one.is_warning for one in answer] == sorted(one.is_warning for one in answer)


@pytest.mark.parametrize(
    ("table", "path", "line", "said"),
    [
        ("", "", 1, "empty"),
        ("address\n1\n", "name", 1, "'name' is missing"),
        ("name,name\na,b\n", "name", 1, "twice"),
        ("name,address\n,1\n", "name", 2, "no name"),
        ("name,address\n1a,1\n", "name", 2, "no item name"),
        ("name,address\na,1\n\n# a comment, with a comma\na,2\n", "name", 5, "stands already in p1.csv, line 2"),
        ("name,address\na,x\n", "address", 2, "address is 'x'"),
        ("name,addr,address\na,1,1\n", "addr", 2, "'addr' is not known"),
        ("name,address\na,1,2\n", "", 2, "3 cells"),
        ('name,address\n"a,1\n', "", 1, "not a CSV"),
        ("name,address,suppressed_by\na,1,z\n", "suppressed_by", 2, "'z' that suppresses it is not there"),
        ("name,address,suppressed_by\na,1,b\nb,2,\n", "suppressed_by", 2, "b cannot suppress"),
        ("name,address,hi\na,1,nan\n", "hi", 2, "finite"),
        ("name,address,was\na,1,b\nb,2,\n", "was", 2, "a was b, which is there still"),
        ("name,address,was\na,1,a\n", "was", 2, "a was a, which is there still"),
        ("name,address,was\na,1,1x\n", "was", 2, "no item name"),
        ("name,address\np1/connected,1\n", "name", 2, "diagnostics item of the adapter p1"),
    ],
)
def test_each_mistake_of_an_item_table_is_told_with_its_line(
    table: str, path: str, line: int | None, said: str
) -> None:
    mistake = the_mistake(CLUSTER + ONE, {"p1.csv": table})
    assert (mistake.file, mistake.key_path, mistake.line) == ("p1.csv", path, line)
    assert said in mistake.text and mistake.remedy


def test_a_row_says_what_its_item_was_called_and_no_two_were_called_the_same() -> None:
    answer = loaded(CLUSTER + ONE, {"p1.csv": "name,address,was\na,1,old_a\nb,2,\n"})
    assert answer.arguments["root"][0]["items"][0]["was"] == "old_a"
    twice = load(CLUSTER + ONE, {"p1.csv": "name,address,was\na,1,c\nb,2,c\n"})
    assert isinstance(twice, list)
    assert ["not the only item that was c" in one.text for one in twice] == [True, True]


def test_an_item_without_owner_is_told() -> None:
    text = CLUSTER + ONE.replace('id = "root"', 'id = "root"\nitems = "all.csv"')
    answer = load(text, {**TABLES, "all.csv": "name,address,adapter\nx,1,\ny,2,p9\n"})
    assert isinstance(answer, list)
    assert [(one.line, one.key_path) for one in answer] == [(2, "adapter"), (3, "adapter")]
    assert "no owner" in answer[0].text and "'p9'" in answer[1].text and "p1" in answer[1].remedy


def test_overlapping_addresses_are_a_warning() -> None:
    table = "name,address,count\na,10,4\nb,13,1\nc,14,1\n"
    (warning,) = loaded(CLUSTER + ONE, {"p1.csv": table}).warnings
    assert (warning.line, warning.key_path) == (3, "address")
    assert "b and a (line 2) overlap" in warning.text


def test_an_overlap_with_a_long_row_further_up_is_seen_behind_a_short_one() -> None:
    table = "name,address,count\na,10,9\nb,11,1\nc,13,1\n"
    assert [one.line for one in loaded(CLUSTER + ONE, {"p1.csv": table}).warnings] == [3, 4]


def test_two_pollers_of_one_device_are_a_warning() -> None:
    text = CLUSTER + ONE + ONE.replace('[[node]]\nid = "root"\n', "").replace("p1", "p2")
    (warning,) = loaded(text).warnings
    assert "same device as root:p1" in warning.text


def test_what_excel_writes_is_read() -> None:
    """A byte order mark, semicolons, CRLF, quoted cells over two lines."""
    table = '\ufeffname;address;hi\r\n"a";1;\r\n"b";2;"5"\r\n'
    (adapter,) = loaded(CLUSTER + ONE, {"p1.csv": table}).arguments["root"]
    assert adapter["items"] == [{"name": "a", "address": "1"}, {"name": "b", "address": "2", "hi": "5"}]


def test_a_file_that_is_not_utf_8_is_told() -> None:
    def read(name: str) -> str:
        return b"\xff".decode() if name == "p1.csv" else CLUSTER + ONE

    answer = load_topology("topology.toml", read, KINDS)
    assert isinstance(answer, list) and "not UTF-8" in answer[0].text


def test_a_topology_that_is_not_there_is_told() -> None:
    def read(name: str) -> str:
        raise PermissionError(13, "permission denied", name)

    answer = load_topology("t.toml", read, KINDS)
    assert isinstance(answer, list)
    assert answer[0].file == "t.toml" and "permission denied" in answer[0].text


def test_hostile_numbers_of_mistakes_are_bounded() -> None:
    table = "name,address\n" + "1,1\n" * (MISTAKES_MAX + 50)
    answer = load(CLUSTER + ONE, {"p1.csv": table})
    assert isinstance(answer, list) and len(answer) == MISTAKES_MAX + 1
    assert "50 more mistakes" in answer[-1].text


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "topology.schema.json").read_text()
    kinds = {"host": model.AdapterConfig, "modbus": ModbusConfig}
    assert published == schema_text(kinds, map(inspect.getsource, (model, settings, modbus))), (
        "albireo topology schema > docs/topology.schema.json"
    )


def test_every_key_of_the_file_has_a_meaning_in_the_schema() -> None:
    schema = msgspec.json.decode((ROOT / "docs" / "topology.schema.json").read_text())
    plain = {"name", "node", "witness", "adapter", "endpoint", "primary", "backup", "voters", "description", "id"}
    plain |= {"log", "history", "runtime", "log_target", "log_level"}
    silent = [
        f"{name}.{field}"
        for name, definition in schema["$defs"].items()
        for field, said in definition.get("properties", {}).items()
        if "description" not in said and field not in plain
    ]
    assert silent == []


def test_how_alarms_are_judged_is_said_for_all_nodes_and_for_one() -> None:
    one = "[node.alarms]\nchatter_calm_ms = 9000\n  [[node.adapter]]"
    loaded = load(f"{CLUSTER}[alarms]\nshelve_max_ms = 60000\n{ONE.replace('  [[node.adapter]]', one)}")
    assert isinstance(loaded, LoadedTopology)
    (node,) = loaded.topology.node
    assert (node.alarms.shelve_max_ms, node.alarms.chatter_calm_ms, node.alarms.chatter_activations) == (
        60_000,
        9_000,
        3,
    )
