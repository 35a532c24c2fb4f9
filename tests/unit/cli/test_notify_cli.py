"""`albireo notify check` and `test`: mistakes by line, who would be told, and a message that is really sent."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from click.testing import CliRunner

from albireo.cli import cli
from tests.parts.notify import web_hook

RULES = """[scripts]
pager = ["true"]
[[rule]]
name = "all"
roster = "r.csv"
priorities = ["critical"]
"""


def ran(*arguments: object) -> tuple[int, dict[str, Any]]:
    told = CliRunner().invoke(cli, ["notify", *map(str, arguments), "--json"], catch_exceptions=False)
    return told.exit_code, json.loads(told.stdout.splitlines()[-1])


def written(home: Path, *rows: str) -> Path:
    (home / "r.csv").write_text("\n".join(["name,kind,address,order,weekly", *rows, ""]))
    (home / "notify.toml").write_text(RULES)
    return home / "notify.toml"


def test_check_shows_who_would_be_told_now(tmp_path: Path) -> None:
    file = written(tmp_path, "Bob,script,pager,2,", "Anna,webhook,https://chat.plant/x,1,")
    code, told = ran("check", file)
    assert (code, told["zone"]) == (0, "UTC")
    (rule,) = told["rules"]
    assert (rule["tells"], [one["name"] for one in rule["on_duty"]]) == (True, ["Anna", "Bob"])
    assert ran("check", file, "--severity", 700)[1]["rules"][0]["tells"] is False
    shown = CliRunner().invoke(cli, ["notify", "check", str(file)])
    assert "Anna (webhook https://chat.plant/x), Bob (script pager)" in shown.stdout.replace("\n", "")


def test_check_reads_hours_by_the_zone_of_the_topology(tmp_path: Path) -> None:
    file = written(tmp_path, "Bob,script,pager,2,")
    topology = tmp_path / "topology.toml"
    topology.write_text(f'cluster = "{uuid4()}"\nzone = "Pacific/Kiritimati"\n[[node]]\nid = "root"\n')
    told = ran("check", file, "--topology", topology)[1]
    assert told["zone"] == "Pacific/Kiritimati"
    ahead = datetime.fromisoformat(told["at"]) - datetime.now(UTC).replace(tzinfo=None)
    assert timedelta(hours=13.9) < ahead < timedelta(hours=14.1)
    topology.write_text(topology.read_text().replace("Kiritimati", "Atlantis"))
    code, told = ran("check", file, "--topology", topology)
    assert (code, told["mistakes"][0]["key_path"]) == (78, "zone")


def test_check_names_mistakes_with_line_and_remedy(tmp_path: Path) -> None:
    code, told = ran("check", written(tmp_path, "Bob,script,pagr,2,"))
    assert code == 78
    (one,) = told["mistakes"]
    assert (one["file"], one["line"], one["key_path"]) == ("r.csv", 2, "address")
    assert "Did you mean 'pager'?" in one["remedy"]
    assert ran("check", tmp_path / "none.toml")[0] == 78
    assert ran("check", tmp_path)[0] == 78
    assert ran("check", "/dev/zero")[0] == 78


def test_test_sends_a_message(tmp_path: Path) -> None:
    came: list[dict[str, object]] = []

    async def run() -> tuple[int, dict[str, Any]]:
        async with web_hook() as hook:
            file = written(tmp_path, f"Anna,webhook,{hook.url},1,", "Bob,script,pager,2,")
            answer = await asyncio.to_thread(ran, "test", file, "Anna")
            came.extend(hook.bodies)
            return answer

    code, told = asyncio.run(run())
    assert (code, told["tried"][0]["outcome"], came[0]["subject"]) == (0, "sent", "[test] Albireo")
    file = tmp_path / "notify.toml"
    code, told = ran("test", file, "Anna")
    assert (code, told["tried"][0]["outcome"]) == (1, "later"), "nobody listens any more"
    assert ran("test", file, "Bob")[0] == 0
    code, told = ran("test", file, "Eve")
    assert code == 2 and "Anna, Bob" in told["remedy"]
