"""`albireo picture check`: a topology or a directory; mistakes with file, line, element and remedy."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from albireo.cli import cli
from tests.parts.pictures import HOSTILE, SVG, TOML, drawn

TOPOLOGY = """cluster = "7a1d1c52-6f0e-4a35-9b8f-0f6f6f1f2a11"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:5000"
  [[node.face]]
  name = "page"
  kind = "web"
  pictures = "drawn"
[[node]]
id = "root/north"
endpoint = "tcp://127.0.0.1:5001"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:502"
  items = "p1.csv"
"""
TABLE = """name,kind,address,type
co_7,input,1,uint16
co_8,input,2,uint16
fan_running,discrete,1,bool
fan_trip,discrete,2,bool
"""


def ran(*arguments: object) -> tuple[int, dict[str, Any]]:
    told = CliRunner().invoke(cli, ["picture", "check", *map(str, arguments), "--json"], catch_exceptions=False)
    return told.exit_code, json.loads(told.stdout.splitlines()[-1])


def site(home: Path, toml: str, svg: str = SVG) -> Path:
    (home / "p1.csv").write_text(TABLE)
    (home / "topology.toml").write_text(TOPOLOGY)
    drawn(home / "drawn", toml=toml, svg=svg)
    return home / "topology.toml"


ON_NORTH = TOML.replace("\n\n", '\nnode = "root/north"\n\n')


def test_an_item_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, told = ran(site(tmp_path, ON_NORTH))
    assert code == 78 and told["valid"] is False
    (one,) = told["mistakes"]
    assert (one["file"], one["line"], one["key_path"]) == ("tunnel.toml", 6, "element.ghost")
    assert "root/north has no item co_88" in one["text"] and "Did you mean 'co_8'?" in one["remedy"]
    shown = CliRunner().invoke(cli, ["picture", "check", str(tmp_path / "topology.toml")])
    assert "tunnel.toml:6: element.ghost: root/north has no item co_88. Did you mean 'co_8'?" in shown.stderr


def test_a_node_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, told = ran(site(tmp_path, TOML.replace('"co_88"', '"root/nort:co_8"')))
    assert code == 78
    assert any("the node root/nort is not there" in one["text"] for one in told["mistakes"])


def test_good_pictures_of_a_topology(tmp_path: Path) -> None:
    code, told = ran(site(tmp_path, ON_NORTH.replace("co_88", "core/epoch")))
    assert code == 0
    (one,) = told["pictures"]
    assert one == {"name": "tunnel", "title": "North tunnel", "node": "root/north", "elements": 5}


def test_a_directory_is_judged_without_items(tmp_path: Path) -> None:
    code, told = ran(drawn(tmp_path / "drawn"))
    assert (code, told["valid"], len(told["pictures"])) == (0, True, 1)
    shown = CliRunner().invoke(cli, ["picture", "check", str(tmp_path / "drawn")])
    assert "North tunnel" in shown.stdout and "name a topology" in shown.stderr


def test_a_hostile_drawing_is_named(tmp_path: Path) -> None:
    code, told = ran(site(tmp_path, 'title = "T"', HOSTILE["script"][0]))
    assert code == 78
    (one,) = told["mistakes"]
    assert (one["file"], one["key_path"], one["text"]) == ("tunnel.svg", "script", "<script> is not allowed")
    assert "no program" in one["remedy"]


def test_places_that_are_none(tmp_path: Path) -> None:
    assert ran(tmp_path / "none.toml")[0] == 78
    topology = site(tmp_path, TOML)
    topology.write_text(TOPOLOGY.replace('  pictures = "drawn"\n', ""))
    assert ran(topology) == (0, {"file": str(topology), "valid": True, "pictures": [], "mistakes": []})
    topology.write_text(TOPOLOGY.replace('"drawn"', '"nowhere"'))
    assert ran(topology)[0] == 78
