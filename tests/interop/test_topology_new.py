"""`albireo topology new` against the simulated PLCs, over real Modbus TCP."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.plant.tunnel.processes import start_tunnel
from albireo.plant.tunnel.site import write_site

pytestmark = pytest.mark.slow


def table(path: Path) -> dict[tuple[str, int], str]:
    with path.open() as file:
        return {(row["kind"], int(row["address"])): row["type"] for row in csv.DictReader(file)}


def test_the_table_of_an_unknown_plc_covers_what_it_holds(tmp_path: Path) -> None:
    with start_tunnel(tmp_path / "tunnel") as tunnel:
        write_site(tmp_path / "site", tunnel.ports)
        device = f"127.0.0.1:{tunnel.ports['p1']}"
        result = CliRunner().invoke(
            cli, ["topology", "new", "--modbus", device, "--out", str(tmp_path / "n"), "--json"]
        )
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["device_id"] == 1 and answer["requests"] < 1_200
    assert [one["looked_until"] for one in answer["tables"]] == [2_001] * 4
    assert not answer["complete"], "most addresses above 127 were not looked at"
    real, found = table(tmp_path / "site" / "p1.csv"), table(tmp_path / "n" / "plc.csv")
    bits = {place for place, kind in real.items() if kind == "bool" and place[0] in ("coil", "discrete")}
    assert bits <= set(found), "a plant that is well has many false bits: they are kept"
    single = {place for place, kind in real.items() if kind in ("int16", "uint16")}
    assert len(single & set(found)) >= 0.75 * len(single), "what moved or was not zero stands in the table"
    right = [place for place, kind in found.items() if kind == "float32" and real.get(place) == "float32"]
    wrong = [place for place, kind in found.items() if kind == "float32" and real.get(place) != "float32"]
    assert len(right) > len(wrong), "guesses are better than a coin"
    checked = CliRunner().invoke(cli, ["topology", "check", str(tmp_path / "n" / "topology.toml")])
    assert checked.exit_code == 0
