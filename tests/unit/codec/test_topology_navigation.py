"""Labels, objects and groups of a topology: what people are led to is there, and each mistake is told."""

import pytest

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.navigation import items_of
from albireo.codec.topology.topology import LoadedTopology, load_topology

SITE = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[group]]
label = "Ventilation"
description = "All fans"
members = ["root", "root/north:fan_1", "root/north:co_*", "root:limit", "root/north:p1/connected"]
[[group]]
label = "Air"
members = ["root/north:co_*"]
[[node]]
id = "root"
endpoint = "tcp://10.0.0.1:5000"
label = "Control room"
[[node.adapter]]
name = "limits"
kind = "test"
items = "limits.csv"
[[node]]
id = "root/north"
label = "North portal"
description = "Two fans, one PLC"
[[node.object]]
name = "fan_1"
label = "Fan 1"
description = "Jet fan at the portal"
items = ["fan_1_*", "co_1", "p1/running", "core/turn_ms"]
[[node.adapter]]
name = "p1"
kind = "test"
label = "PLC 1"
description = "In the cabinet"
items = "p1.csv"
"""
TABLES = {"p1.csv": "name\nfan_1_speed\nfan_1_power\nco_1\nco_2\n", "limits.csv": "name\nlimit\n"}
KINDS = {"test": AdapterKind(needs_url=None), "free": AdapterKind(needs_url=None, needs_items=False)}


def load(text: str) -> LoadedTopology | list[Mistake]:
    return load_topology("topology.toml", lambda name: {"topology.toml": text, **TABLES}[name], KINDS)


def loaded(text: str) -> LoadedTopology:
    answer = load(text)
    assert isinstance(answer, LoadedTopology), answer
    return answer


def test_nodes_adapters_objects_and_groups_have_words_for_people() -> None:
    answer = loaded(SITE)
    assert answer.warnings == ()
    root, north = answer.topology.node
    assert (root.label, north.label, north.description) == ("Control room", "North portal", "Two fans, one PLC")
    assert (north.adapter[0].label, north.adapter[0].description) == ("PLC 1", "In the cabinet")
    (fan,) = north.object
    assert (fan.name, fan.label, fan.description) == ("fan_1", "Fan 1", "Jet fan at the portal")
    assert [group.label for group in answer.topology.group] == ["Ventilation", "Air"]
    assert answer.topology.group[0].members[1] == "root/north:fan_1"


def test_an_adapter_is_not_told_words_that_are_for_people() -> None:
    (adapter,) = loaded(SITE).arguments["root/north"]
    assert adapter["name"] == "p1" and not {"label", "description"} & adapter.keys()


def test_an_object_has_the_items_that_one_of_its_patterns_matches() -> None:
    names = ["fan_1_speed", "fan_2_speed", "co_1", "co_10"]
    assert items_of(("fan_?_speed", "co_1"), names) == ("fan_1_speed", "fan_2_speed", "co_1")


@pytest.mark.parametrize(
    ("old", "new", "path", "said", "remedy"),
    [
        ('"fan_1_*", "co_1"', '"fan_2_*"', "node[1].object[0].items[0]", "no item of root/north is called like fan_2_*",
         "fan_1_"),
        ('"fan_1_*", "co_1"', '"co1"', "node[1].object[0].items[0]", "root/north has no item co1", "'co_1'"),
        ('"fan_1_*", "co_1"', '"limit"', "node[1].object[0].items[0]", "root/north has no item limit", "Known are"),
        ('"fan_1_*", "co_1"', '"p2/running"', "node[1].object[0].items[0]", "has no item p2/running", "Known are"),
        ('"fan_1_*", "co_1"', '"a b"', "node[1].object[0].items[0]", "form", "Change"),
        ('items = ["fan_1_*", "co_1", "p1/running", "core/turn_ms"]', "items = []", "node[1].object[0].items",
         "length >= 1", "Change"),
        ('name = "fan_1"', 'name = "co_1"', "node[1].object[0].name", "has an item co_1 too", "Rename"),
        ('name = "fan_1"', 'name = "Fan 1"', "node[1].object[0].name", "form", "Lower-case"),
        ('label = "Fan 1"', 'labels = "Fan 1"', "node[1].object[0].labels", "not known", "'label'"),
        ("[[node.adapter]]\nname = \"p1\"", '[[node.object]]\nname = "fan_1"\nitems = ["co_2"]\n'
         '[[node.adapter]]\nname = "p1"', "node[1].object[1].name", "two objects fan_1", "Rename"),
        ('"root/north:fan_1"', '"root/nort:fan_1"', "group[0].members[1]", "the node root/nort is not", "'root/north'"),
        ('"root/north:fan_1"', '"root/north:fan_2"', "group[0].members[1]", "has no item fan_2", "'fan_1'"),
        ('"root/north:fan_1"', '"root/north:"', "group[0].members[1]", "form", "root/north"),
        ('"root/north:fan_1"', '"root"', "group[0].members[1]", "root stands there twice", "once"),
        ('label = "Air"', 'label = "Ventilation"', "group[1].label", "'Ventilation' is there twice", "Rename"),
        ('label = "Air"', 'label = ""', "group[1].label", "length >= 1", "Change"),
        ('label = "North portal"', f'label = "{"x" * 129}"', "node[1].label", "length <= 128", "Change"),
    ],
)  # fmt: skip
def test_each_mistake_of_what_people_are_led_to_is_told(old: str, new: str, path: str, said: str, remedy: str) -> None:
    assert old in SITE
    told = load(SITE.replace(old, new, 1))
    assert isinstance(told, list)
    assert any(
        one.key_path == path and said in one.text and remedy in one.remedy and one.line and not one.is_warning
        for one in told
    ), told


def test_where_an_adapter_knows_its_own_items_an_unknown_one_is_only_doubted() -> None:
    text = SITE.replace('"fan_1_*", "co_1"', '"x_*"') + '[[node.adapter]]\nname = "far"\nkind = "free"\n'
    (warning,) = loaded(text).warnings
    assert warning.key_path == "node[1].object[0].items[0]" and "not all of its items stand there" in warning.text


def test_a_wrong_row_is_no_second_mistake_of_the_object_that_names_it() -> None:
    tables = {**TABLES, "p1.csv": TABLES["p1.csv"] + "co_1\n"}
    told = load_topology("topology.toml", lambda name: {"topology.toml": SITE, **tables}[name], KINDS)
    assert isinstance(told, list) and [one.file for one in told] == ["p1.csv"]
