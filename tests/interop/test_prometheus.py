"""A real Prometheus at the face of a node, and the files that are given for it and for Grafana."""

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.face.web.metrics import FAMILIES
from tests.parts.port import free_ports
from tests.parts.waiting import awaited
from tests.parts.web import HIGH, WebNode, item

pytestmark = [pytest.mark.interop, pytest.mark.slow]

GIVEN = Path(__file__).parents[2] / "examples" / "prometheus"


def program(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"{name} is missing: apt-get install prometheus")


@contextlib.contextmanager
def prometheus(home: Path, target: int) -> Iterator[int]:
    """A Prometheus with the files that are given, at another target and more often; its port."""
    (port,) = free_ports(1)
    text = (GIVEN / "prometheus.yml").read_text().replace("15s", "1s").replace("8080", str(target))
    (home / "prometheus.yml").write_text(text)
    shutil.copy(GIVEN / "albireo.rules.yml", home)
    command = [
        program("prometheus"),
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (home / "prometheus.log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def asked(port: int, path: str, **query: str) -> Any:
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]
    except OSError:  # It begins.
        return {"result": []}


def alerts(port: int) -> set[str]:
    """Names of the alerts that fire, or will."""
    return {one["labels"]["alertname"] for one in asked(port, "alerts")["alerts"]}


def test_a_real_prometheus_scrapes_a_face_and_judges_the_rules(tmp_path: Path) -> None:
    program("prometheus")

    def look(port: int) -> None:
        cases = 'albireo_cases{node="root",priority="1",acked="false"}'
        (found,) = awaited(lambda: asked(port, "query", query=f"{cases} > 0")["result"])
        assert found["value"][1] == "1" and found["metric"]["place"] == "root"
        (leads,) = asked(port, "query", query="albireo_leads")["result"]
        assert leads["value"][1] == "1"
        told = awaited(lambda: asked(port, "rules").get("groups", []), lambda one: one and one[0]["evaluationTime"])
        assert {one["health"] for one in told[0]["rules"]} == {"ok"}
        awaited(lambda: alerts(port), lambda firing: "AlbireoCaseUnacked" in firing)
        assert alerts(port).isdisjoint({"AlbireoPageGone", "AlbireoMemberSilent", "AlbireoNobodyLeads"})
        (target,) = asked(port, "targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await asyncio.to_thread(node.produce, item("co", alarm=HIGH), value=150.0)
            with prometheus(tmp_path, node.port) as port:
                await asyncio.to_thread(look, port)

    asyncio.run(main())


def test_the_given_rules_and_configuration_are_good() -> None:
    promtool = program("promtool")
    for what, file in (("rules", "albireo.rules.yml"), ("config", "prometheus.yml")):
        checked = subprocess.run([promtool, "check", what, GIVEN / file], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_rules_and_dashboard_name_figures_that_there_are() -> None:
    dashboard = json.loads((GIVEN / "albireo-dashboard.json").read_text())
    asked_for = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    text = (GIVEN / "albireo.rules.yml").read_text() + "\n".join(asked_for)
    names = set(re.findall(r"\balbireo_(\w+)", text))
    assert len(names) > 15 and names <= set(FAMILIES)
