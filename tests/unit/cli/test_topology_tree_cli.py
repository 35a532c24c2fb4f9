"""`albireo topology show` and `diff`: a tree of nodes, how they are, and what changed in it."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.cli.site.tree import seen_health, tree_of
from albireo.cli.topology_file import read_topology
from albireo.codec.topology.meaning import topology_hash
from albireo.model.instant import SECOND
from albireo.model.tree.node_row import NodeRow
from tests.parts.core_pair import aside
from tests.parts.lone import LoneNode
from tests.parts.port import free_port

ROOT = Path(__file__).resolve().parents[3]
TUNNELS = ROOT / "examples" / "tunnels" / "topology.toml"
OPERATOR = "operator@desk"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["topology", *map(str, arguments)])


def told(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("file", sorted((ROOT / "examples").rglob("topology.toml")), ids=lambda path: path.parent.name)
def test_every_example_is_good_without_a_warning(file: Path) -> None:
    assert told("check", file)["mistakes"] == []


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("pair-at-root", ["root"]),
        ("pair-in-middle", ["root/tunnel"]),
        ("pair-at-bottom", ["root/tunnel/hall"]),
        ("pairs-everywhere", ["root", "root/tunnel", "root/tunnel/hall"]),
    ],
)
def test_pairs_stand_at_any_level_of_the_examples(name: str, pairs: list[str]) -> None:
    tree = told("show", ROOT / "examples" / name / "topology.toml")
    assert [one["id"] for one in tree["nodes"]] == ["root", "root/tunnel", "root/tunnel/hall"]
    assert [one["id"] for one in tree["nodes"] if one["kind"] == "pair"] == pairs
    assert all(one["voters"] for one in tree["nodes"] if one["kind"] == "pair")


@pytest.mark.parametrize(
    ("name", "votes"),
    [
        ("pair-at-root", {"root": ["node:root/tunnel", "node:root/tunnel/hall"]}),
        ("pair-in-middle", {"root/tunnel": ["node:root/tunnel/hall"]}),
        ("pair-at-bottom", {}),
        (
            "pairs-everywhere",
            {
                "root": ["node:root/tunnel[primary]", "node:root/tunnel/hall[backup]"],
                "root/tunnel": ["node:root/tunnel/hall[primary]"],
            },
        ),
    ],
)
def test_pairs_of_the_examples_are_voted_from_below_where_something_is_below(
    name: str, votes: dict[str, list[str]]
) -> None:
    tree = told("show", ROOT / "examples" / name / "topology.toml")
    below = {one["id"]: [voter for voter in one.get("voters", ()) if voter[:5] == "node:"] for one in tree["nodes"]}
    assert {node: voters for node, voters in below.items() if voters} == votes


def test_the_tree_of_an_example_has_each_node_with_what_it_runs_and_whom_it_dials() -> None:
    tree = told("show", TUNNELS)
    assert tree["hash"] == topology_hash(read_topology(TUNNELS))
    root, north, south = tree["nodes"]
    assert [(one["id"], one["parent"], one["kind"]) for one in (root, north, south)] == [
        ("root", "", "pair"),
        ("root/north", "root", "lone"),
        ("root/south", "root", "pair"),
    ]
    assert [one["name"] for one in root["places"]] == ["root[primary]", "root[backup]"]
    assert (north["label"], north["items"], north["objects"]) == ("North tunnel", 6, ["fan_1", "fan_2"])
    assert [one["endpoint"] for one in north["dials"]] == ["tcp://10.0.0.1:5000", "tcp://10.0.0.2:5000"]
    assert north["wants"] == ["root/south"]
    assert (south["voters"], south["adapters"][0]["kind"], south["adapters"][0]["items"]) == (["plc:s1"], "modbus", 3)
    assert [one["name"] for one in tree["witnesses"]] == ["w1"]
    assert [one["label"] for one in tree["groups"]] == ["Ventilation", "Machines"]
    assert {one["health"]["state"] for one in tree["nodes"]} == {"not asked"} and tree["asked"] is None


def test_the_tree_is_drawn_for_people_each_node_below_its_parent() -> None:
    lines = run("show", TUNNELS).stdout.splitlines()
    assert lines[1] == 'root  "Control centre"  pair, 0 items; not asked'
    assert '|- root/north  "North tunnel"  lone, 6 items; not asked' in lines
    assert '`- root/south  "South tunnel"  pair, 3 items; not asked' in lines
    assert "        voters plc:s1" in lines


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The example after an evening's work."""
    site = shutil.copytree(TUNNELS.parent, tmp_path / "tunnels")
    text = (site / "topology.toml").read_text()
    for old, new in (("hold_days = 60", "hold_days = 61"), ("Fan 2", "Fan two"), ('["plc:s1"]', '["witness:w1"]')):
        assert old in text
        text = text.replace(old, new)
    (site / "topology.toml").write_text(text)
    table = (site / "north.csv").read_text()
    (site / "north.csv").write_text(table.replace("0.5,70,,carbon monoxide in", "0.5,80,,carbon monoxide in"))
    return site / "topology.toml"


def test_a_diff_names_each_change_and_all_that_has_to_be_restarted(changed: Path) -> None:
    answer = told("diff", TUNNELS, changed)
    assert answer["hash"]["old"] != answer["hash"]["new"]
    assert [(one["what"], one["node"], one["name"], one["live"]) for one in answer["changes"]] == [
        ("object", "root/north", "fan_2", True),
        ("setting", "root/north", "uplink.hold_days", False),
        ("item", "root/north", "co_middle", True),
        ("setting", "root/south", "voters", False),
    ]
    assert answer["restart"] == ["root/north", "root/south[primary]", "root/south[backup]", "witness:w1"]
    text = run("diff", TUNNELS, changed).stdout
    assert 'changed item co_middle of root/north: {"hi":"70"} -> {"hi":"80"} (no restart, p1 starts anew)' in text
    assert "4 changes. To restart: root/north, root/south[primary], root/south[backup], witness:w1." in text


def test_a_file_does_not_differ_from_itself_written_otherwise(tmp_path: Path) -> None:
    other = shutil.copytree(TUNNELS.parent, tmp_path / "tunnels") / "topology.toml"
    other.write_text("\n".join(line.partition("  #")[0] for line in other.read_text().splitlines()))
    assert told("diff", TUNNELS, other)["changes"] == []
    assert "mean the same" in run("diff", TUNNELS, other).stdout


def test_a_file_with_mistakes_has_no_tree_and_no_diff(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("cluster = 5\n")
    for arguments in (("show", tmp_path / "bad.toml"), ("diff", TUNNELS, tmp_path / "bad.toml")):
        assert run(*arguments).exit_code == ExitCode.BAD_CONFIGURATION


LONE = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "{node}"
endpoint = "{endpoint}"
[[node]]
id = "{node}/north"
"""


@pytest.mark.slow
def test_the_node_that_is_asked_has_its_health_in_the_tree(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR, topology_hash="f" * 64)
        keys = lone.keys[OPERATOR].directory
        file, other = tmp_path / "topology.toml", tmp_path / "other.toml"
        file.write_text(LONE.format(node="root", endpoint=lone.endpoint))
        other.write_text(LONE.format(node="plant", endpoint=lone.endpoint))

        def asked() -> None:
            for way in (("--id", "root"), ("--at", lone.endpoint)):
                tree = told("show", file, *way, "--keys", keys)
                assert (tree["asked"]["node"], tree["asked"]["trouble"]) == ("root", "")
                root, north = (one["health"] for one in tree["nodes"])
                assert (root["state"], root["is_safe"]) == ("answers", True)
                assert root["leads"] == "root runs alone, it is no member of a pair"
                assert root["hash"] == "f" * 64 and any(
                    "another file, hash ffffffffffff" in one for one in root["wrong"]
                )
                assert (north["state"], north["is_safe"]) == ("not asked", None)
            foreign = told("show", other, "--at", lone.endpoint, "--keys", keys)
            assert "does not have" in foreign["asked"]["trouble"]
            assert {one["health"]["state"] for one in foreign["nodes"]} == {"not asked"}

        async with lone.core_up():
            await aside(asked)

    asyncio.run(story())


@pytest.mark.slow
def test_a_node_that_does_not_answer_leaves_the_tree_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "topology.toml").write_text(LONE.format(node="root", endpoint=f"tcp://127.0.0.1:{free_port()}"))
    tree = told("show", tmp_path / "topology.toml", "--id", "root")
    assert tree["asked"]["node"] is None and tree["asked"]["trouble"]
    assert {one["health"]["state"] for one in tree["nodes"]} == {"not asked"}


def test_one_node_is_asked_at_most() -> None:
    assert run("show", TUNNELS, "--id", "root", "--at", "tcp://10.0.0.1:5000").exit_code == ExitCode.USAGE


def seen(*rows: NodeRow) -> list[str]:
    """Lines of the example's tree, as its root sees it."""
    loaded = read_topology(TUNNELS)
    health = seen_health("root", None, rows, WALL, topology_hash(loaded))
    return list(tree_of("topology.toml", loaded, health).lines())


WALL = 1_800_000_000 * SECOND


def row(node: str, **fields: Any) -> NodeRow:
    told = {"stale_since_ns": None, "items": 3, "position": "1:9", "complete_to_ns": WALL, "behind": 0}
    return NodeRow(node=node, by=node, **{**told, **fields})


def test_nodes_below_have_the_health_that_the_node_above_knows() -> None:
    other = "e" * 64
    lines = seen(
        row("root/north", stale_since_ns=WALL - 90 * SECOND, trouble="it is dialled in vain", missing=7),
        row("root/south", behind=12, topology_hash=other),
    )
    north = next(one for one in lines if "root/north" in one)
    south = next(one for one in lines if "root/south" in one and "values of" not in one)
    assert north.endswith("6 items; NOT HEARD 90 s as root sees it")
    assert south.endswith("3 items; live as root sees it, 12 to come")
    assert any(one.endswith("! it is dialled in vain") for one in lines)
    assert any(one.endswith("! 7 records missing in the log") for one in lines)
    assert any(one.endswith("! it runs by another file, hash eeeeeeeeeeee: albireo topology apply") for one in lines)


def test_a_member_that_copies_no_log_says_nothing_of_what_is_to_come() -> None:
    north = next(one for one in seen(row("root/north", behind=-1)) if "root/north" in one)
    assert north.endswith("live as root sees it")


def test_a_node_of_which_the_one_above_knows_nothing_stays_not_asked() -> None:
    assert any("root/south" in one and one.endswith("not asked") for one in seen(row("root/north")))


def test_health_from_above_is_told_in_figures_too() -> None:
    rows = [row("root/north", stale_since_ns=0), row("root/south", behind=12)]
    health = seen_health("root", None, rows, WALL, "")
    north, south = health["root/north"], health["root/south"]
    assert (north.state, north.seen_by, north.stale_since_ns, north.behind) == ("not heard", "root", 0, None)
    assert (south.state, south.seen_by, south.stale_since_ns, south.behind) == ("heard", "root", None, 12)
    assert north.is_safe is south.is_safe is None
