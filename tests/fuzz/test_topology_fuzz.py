"""Loading a topology is total: whatever the texts, the answer is a topology or a list of mistakes."""

import string
import tomllib
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.item_table import read_rows
from albireo.codec.topology.mistakes import Findings, Mistake
from albireo.codec.topology.text import FirstAdapter, table_text, topology_text
from albireo.codec.topology.toml_lines import key_lines
from albireo.codec.topology.topology import LoadedTopology, load_topology
from tests.long_form import examples

GOOD = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[log]
segment_mib = 8
[[witness]]
name = "w"
endpoint = "tcp://h:1"
[[node]]
id = "root"
primary = { client = "tcp://a:1", peer = ["tcp://a:2"] }
backup = { client = "tcp://b:1", peer = ["tcp://b:2"] }
voters = ["witness:w"]
items = "t.csv"
[[node.adapter]]
name = "p"
kind = "k"
url = "tcp://c:1"
[[node.object]]
name = "o"
items = ["a", "[a-b]*"]
[[node]]
id = "root/n"
uplink = { hold_days = 7, state = ["root/m"] }
[[node]]
id = "root/m"
[[group]]
label = "g"
members = ["root/n", "root:o", "root:a*"]
"""
TABLE = "name,adapter,x\na,p,1\n"
KINDS = {"k": AdapterKind()}

json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_the_good_file_is_good() -> None:
    assert isinstance(load(GOOD), LoadedTopology)


def load(text: str, table: str = TABLE) -> LoadedTopology | list[Mistake]:
    return load_topology("t.toml", lambda name: text if name == "t.toml" else table, KINDS)


def check(answer: LoadedTopology | list[Mistake]) -> None:
    if isinstance(answer, list):
        assert answer and any(not one.is_warning for one in answer)
        assert all(one.text and one.remedy and len(str(one)) < 5_000 for one in answer)


@given(st.text(max_size=200))
@example("\ufeff")
@example("[" * 3_000)
@example("a=" + "1" * 5_000)
@example("node = [1]")
@example("node = [[]]")
@example("[node]\nid = 1")
@example('cluster = "x"\nnode = [{id = "root", adapter = 5, log = 7}]')
@example("a = 1979-05-27T07:32:00Z")
@settings(max_examples=examples(200), deadline=None)
def test_any_text_gives_an_answer(text: str) -> None:
    check(load(text))


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_good_file_with_a_piece_changed_gives_an_answer(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 20)))
    piece = data.draw(st.text(alphabet=string.printable, max_size=10))
    check(load(GOOD[:start] + piece + GOOD[end:]))


@given(st.sampled_from(["cluster", "log", "node", "witness"]), json_like)
@settings(max_examples=examples(200), deadline=None)
def test_any_value_in_the_place_of_a_section_gives_an_answer(key: str, value: Any) -> None:
    """Past the parser: what TOML cannot say (null, NaN keys) must not break the judge either."""
    from albireo.codec.topology.mistakes import build
    from albireo.model.topology import Topology

    found = Findings("t.toml")
    built = build(Topology, {**tomllib.loads(GOOD), key: value}, (), found)
    assert built is not None or found.mistakes()


@given(st.text(max_size=300))
@example('name,x\n"a\n')
@example("name\x00\na")
@example("name\ra\r\n")
@example(",".join(["name"] * 500))
@settings(max_examples=examples(300), deadline=None)
def test_any_table_gives_rows_or_mistakes(table: str) -> None:
    found = Findings("t.csv")
    rows = read_rows(table, found)
    assert rows or found.mistakes() or len(table.split("\n")) < 400
    assert all(row.line >= 1 and all(row.cells.values()) for row in rows)
    check(load(GOOD, table))


@given(st.text(max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_the_line_scanner_takes_any_text(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


@given(
    st.lists(st.sampled_from(["a", "b c", "d.e", "\u00e9"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["1", '"x # y"', "'''\n[z]\n'''", "[1,\n 2]", "{ k = 1 }"]), min_size=3, max_size=3),
)
def test_the_line_scanner_names_exactly_the_keys_of_the_parser(keys: list[str], values: list[str]) -> None:
    text = "\n".join(f'"{key}" = {value}' for key, value in zip(keys, values, strict=False))
    assert {path[0] for path in key_lines(text)} == set(tomllib.loads(text))


@given(st.text(max_size=20), st.lists(st.dictionaries(st.sampled_from(["name", "unit"]), st.text(max_size=9))))
def test_what_is_written_is_toml_and_csv_again(url: str, rows: list[dict[str, str]]) -> None:
    adapter = FirstAdapter(name="p", kind="k", keys={"url": url, "device_id": 1}, items="p.csv")
    read = tomllib.loads(topology_text("c", "root", [adapter]))
    assert read["node"][0]["adapter"][1]["url"] == url
    assert table_text(rows).startswith("name,kind,address")
