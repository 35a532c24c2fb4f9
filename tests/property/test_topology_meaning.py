"""The hash of a topology: the same for every way of writing a site, another for every other site."""

import csv
import io
import json
import random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.changes import changes_of
from albireo.codec.topology.meaning import meaning_of, topology_hash
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.modbus.config import ModbusConfig

KINDS = {"test": AdapterKind(needs_url=None, needs_items=False, settings=ModbusConfig)}
CLUSTER = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
Site = dict[str, Any]
"""Oracle: a site as JSON values, in which every field that can be written has a value, defaults too."""

words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S"), exclude_characters="#"), max_size=6)
"""No #: a row that begins with it is a comment."""
numbers = st.integers(10, 2_000)


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """A root, some nodes below it, each with adapters and items; a pair now and then."""
    ids = ["root", *(f"root/n{at}" for at in range(draw(st.integers(0, 2))))]
    witnesses = {f"w{at}": f"tcp://w{at}:{draw(st.integers(1, 9))}" for at in range(1, 4)}
    return {
        "witness": witnesses,
        "group": [{"label": f"G{at}", "members": draw(st.permutations(ids))} for at in range(draw(st.integers(0, 2)))],
        "node": {one: draw(nodes(one, list(witnesses))) for one in ids},
    }


@st.composite
def nodes(draw: st.DrawFn, node_id: str, witnesses: list[str]) -> Site:
    name = node_id.replace("/", "-")
    adapters = [f"p{at}" for at in range(draw(st.integers(0, 2)))]
    rows = [f"i{at}" for at in range(draw(st.integers(0, 3)))] if adapters else []
    return {
        "port": draw(st.integers(1, 9)),
        "voters": draw(st.permutations(witnesses)) if draw(st.booleans()) else [],
        "label": draw(words),
        "segment_mib": draw(st.integers(1, 70)),
        "scrub_mib_per_s": float(draw(st.integers(3, 5))),
        **({} if node_id == "root" else {"hold_days": float(draw(st.integers(29, 31)))}),
        "adapter": {one: {"poll_ms": draw(numbers), "url": f"tcp://{name}-{one}:502"} for one in adapters},
        "item": {
            one: {"adapter": draw(st.sampled_from(adapters)), "unit": draw(words), "hi": str(draw(numbers))}
            for one in rows
        },
    }


def quoted(text: str) -> str:
    """A TOML string: JSON's, as no character of `words` is written as a pair of surrogates."""
    return json.dumps(text, ensure_ascii=False)


class Writer:
    """Writes a site as files, each choice of form by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.files: dict[str, str] = {}

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _shuffled(self, entries: list[str]) -> list[str]:
        return self._random.sample(entries, len(entries))

    def _gap(self) -> str:
        return self._random.choice(["", "\n", "# cluster = 1\n", "  \n\t# a [[node]] \n"])

    def write(self, site: Site) -> dict[str, str]:
        common = self._random.choice([None, *(one["segment_mib"] for one in site["node"].values())])
        tables = [
            *(f'[[witness]]\nname = "{name}"\nendpoint = "{at}"\n' for name, at in site["witness"].items()),
            *(self._node(node_id, node, common) for node_id, node in site["node"].items()),
        ]
        if common is not None:
            tables.append(f"[log]\nsegment_mib = {common}\n")
        head = [f'cluster = "{CLUSTER}"\n']
        groups = [
            f"[[group]]\nlabel = '{one['label']}'\nmembers = {json.dumps(one['members'])}\n" for one in site["group"]
        ]
        at = self._random.randint(0, len(tables))
        tables = self._shuffled(tables)
        whole = [*head, *tables[:at], *groups, *tables[at:]]
        self.files["topology.toml"] = "".join(self._gap() + one for one in whole)
        return self.files

    def _node(self, node_id: str, node: Site, common: int | None) -> str:
        host = node_id.replace("/", "-")
        keys = [f'id = "{node_id}"']
        if node["voters"]:
            for at, member in enumerate(("primary", "backup")):
                client, peer = f'client = "tcp://{host}{at}:{node["port"]}"', f'peer = ["tcp://{host}{at}:99"]'
                entries = self._shuffled([client, peer])
                keys.append(f"{member} = {{ {', '.join(entries)} }}")
            keys.append(f"voters = {json.dumps([f'witness:{one}' for one in node['voters']])}")
        else:
            keys.append(f'endpoint = "tcp://{host}:{node["port"]}"')
        if node["label"] or self._coin():
            keys.append(f"label = {quoted(node['label'])}")
        if node["segment_mib"] != (64 if common is None else common) or self._coin():
            keys.append(f"log.segment_mib = {node['segment_mib']}")
        if node["scrub_mib_per_s"] != 4 or self._coin():
            speed = node["scrub_mib_per_s"]
            keys.append(f"log.scrub_mib_per_s = {int(speed) if speed.is_integer() and self._coin() else speed}")
        if "hold_days" in node and (node["hold_days"] != 30 or self._coin()):
            keys.append(f"uplink = {{ hold_days = {node['hold_days']} }}")
        own = self._coin()
        if node["item"] and not own:
            keys.append(f'items = "{host}.csv"')
            self.files[f"{host}.csv"] = self._table(node["item"], ["name", "adapter", "unit", "hi"])
        adapters = [self._adapter(host, name, one, node["item"], own) for name, one in node["adapter"].items()]
        lines = [self._gap() + one + "\n" for one in self._shuffled(keys)]
        return "[[node]]\n" + "".join(lines) + "".join(self._shuffled(adapters))

    def _adapter(self, host: str, name: str, adapter: Site, items: Site, own: bool) -> str:
        keys = [f'name = "{name}"', "kind = 'test'", f"url = {quoted(adapter['url'])}"]
        if adapter["poll_ms"] != 1_000 or self._coin():
            keys.append(f"poll_ms = {adapter['poll_ms']}")
        rows = {one: cells for one, cells in items.items() if cells["adapter"] == name}
        if rows and own:
            file = self._random.choice([f"{host}-{name}.csv", f"{name}_of_{host}.txt"])
            keys.append(f'items = "{file}"')
            self.files[file] = self._table(rows, ["name", "unit", "hi"])
        return "[[node.adapter]]\n" + "".join(f"{one}\n" for one in self._shuffled(keys))

    def _table(self, items: Site, columns: list[str]) -> str:
        columns = self._shuffled([*columns, *(["empty"] if self._coin() else [])])
        out = io.StringIO()
        mark = self._random.choice(",;\t")
        quoting: Literal[0, 1] = self._random.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
        writer = csv.writer(out, delimiter=mark, quoting=quoting)
        writer.writerow(columns)
        for name in self._shuffled(list(items)):
            writer.writerow([{"name": name, "empty": "", **items[name]}[column] for column in columns])
        return out.getvalue()


def loaded(files: dict[str, str]) -> LoadedTopology:
    answer = load_topology("topology.toml", files.__getitem__, KINDS)
    assert isinstance(answer, LoadedTopology), (files, answer)
    return answer


@given(sites(), st.integers(0, 999), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_two_ways_of_writing_a_site_have_one_hash(site: Site, form: int, other_form: int) -> None:
    one, other = loaded(Writer(form).write(site)), loaded(Writer(other_form).write(site))
    assert meaning_of(one) == meaning_of(other)
    assert topology_hash(one) == topology_hash(other)
    assert changes_of(one, other) == ()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*path, key))]
    return [path]


@given(st.data(), sites())
@settings(max_examples=100, deadline=None)
def test_a_site_in_which_one_thing_is_another_has_another_hash(data: st.DataObject, site: Site) -> None:
    other = json.loads(json.dumps(site))
    paths = [one for one in leaves(site) if has_another(one, site)]
    kind = data.draw(st.sampled_from(sorted({one[-1] for one in paths if one[0] == "node"} | {"group", "w1"})))
    path = data.draw(st.sampled_from([one for one in paths if one[-1] == kind]))
    place: Any = other
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(another(path, place[path[-1]], site))
    form, other_form = data.draw(st.integers(0, 999)), data.draw(st.integers(0, 999))
    before, after = loaded(Writer(form).write(site)), loaded(Writer(other_form).write(other))
    assert topology_hash(before) != topology_hash(after)
    assert changes_of(before, after)


def has_another(path: tuple[Any, ...], site: Site) -> bool:
    return path[-1] != "adapter" or len(site["node"][path[1]]["adapter"]) > 1


def another(path: tuple[Any, ...], value: Any, site: Site) -> st.SearchStrategy[Any]:
    """Another value of the same form."""
    other: st.SearchStrategy[Any]
    match path[-1]:
        case "voters":
            other = st.permutations(list(site["witness"]))
        case "group":
            other = st.lists(st.just({"label": "X", "members": ["root"]}), max_size=1)
        case "label" | "unit":
            other = words
        case "url":
            other = st.just(f"{value}3")
        case "hi":
            other = numbers.map(str)
        case "adapter":
            other = st.sampled_from(list(site["node"][path[1]]["adapter"])) | st.just(value)
        case "poll_ms":
            other = numbers
        case "scrub_mib_per_s" | "hold_days":
            other = st.floats(0, 1_000)
        case "port" | "segment_mib":
            other = st.integers(1, 70)
        case _:
            other = st.integers(1, 9).map(lambda port: f"tcp://x:{port}")
    return other.filter(lambda it: it != value)


WHOLE = f"""cluster = "{CLUSTER}"
[[witness]]
name = "w1"
endpoint = "tcp://w:1"
[[group]]
label = "All"
members = ["root", "root/n"]
[[node]]
id = "root"
primary = {{ client = "tcp://a:1", peer = ["tcp://a:2", "tcp://a:3"] }}
backup = {{ client = "tcp://b:1", peer = ["tcp://b:2", "tcp://b:3"] }}
voters = ["witness:w1", "node:root/n", "plc:p1"]
[[node]]
id = "root/n"
endpoint = "tcp://n:1"
uplink = {{ hold_gib = 2 }}
[[node.object]]
name = "fan"
items = ["a", "b"]
[[node.adapter]]
name = "p1"
kind = "test"
items = "p1.csv"
voter_address = 9000
"""
TABLE = "name,hi\na,1.0\nb,2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CLUSTER, CLUSTER.replace("6", "7")),
        ('name = "w1"\nendpoint = "tcp://w:1"', 'name = "w1"\nendpoint = "tcp://w:2"'),
        ('["root", "root/n"]', '["root/n", "root"]'),
        ('label = "All"', 'label = "Each"'),
        ('voters = ["witness:w1", "node:root/n"', 'voters = ["node:root/n", "witness:w1"'),
        ('"tcp://a:2", "tcp://a:3"', '"tcp://a:3", "tcp://a:2"'),
        ("hold_gib = 2", "hold_days = 2"),
        ('["a", "b"]', '["b", "a"]'),
        ('["a", "b"]', '["a"]'),
        ('name = "fan"', 'name = "jet"'),
        ("voter_address = 9000", "voter_address = 9001"),
        ("voter_address = 9000", "voter_address = 9000\nlabel = 'PLC'"),
        ("a,1.0", "a,1.1"),
        ("a,1.0", "a,1"),
        ("a,1.0\n", "a,1.0\nc,\n"),
    ],
)  # fmt: skip
def test_each_thing_that_a_site_says_is_in_its_hash(old: str, new: str) -> None:
    files = {"topology.toml": WHOLE, "p1.csv": TABLE}
    other = {name: text.replace(old, new, 1) for name, text in files.items()}
    assert other != files
    assert topology_hash(loaded(files)) != topology_hash(loaded(other))


def test_the_hash_of_a_file_is_the_same_in_every_version() -> None:
    """Nodes of two versions compare hashes: neither a new key nor a new default may change that of an old file."""
    text = f'cluster = "{CLUSTER}"\n[[node]]\nid = "root"\nlog.keep_h = 12\n'
    assert (
        topology_hash(loaded({"topology.toml": text}))
        == "a416676712da5cd603ecde8eaa1984cc51ec74e382337870d20c9ea4c607bfcf"
    )


def test_the_meaning_has_only_what_a_file_says_beyond_defaults() -> None:
    text = f'cluster = "{CLUSTER}"\n[[node]]\nid = "root"\nlog.keep_h = 12\nruntime.log_level = "info"\n'
    text += "[[node.adapter]]\nname = 'p1'\nkind = 'test'\nitems = 'p1.csv'\npoll_ms = 1000\n"
    assert meaning_of(loaded({"topology.toml": text, "p1.csv": "name,hi\na,1.0\n"})) == {
        "cluster": CLUSTER,
        "witness": {},
        "node": {
            "root": {
                "log": {"keep_h": 12.0},
                "adapter": {"p1": {"kind": "test"}},
                "item": {"a": {"adapter": "p1", "hi": "1.0"}},
            }
        },
    }
