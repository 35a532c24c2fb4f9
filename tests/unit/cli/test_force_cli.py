"""`albireo force` and `albireo forces` against a real node that stands alone, over a restart of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.cli.display import left_text
from albireo.client import connect
from albireo.model import quality
from tests.parts.access_cli import with_node
from tests.parts.client import produce
from tests.parts.waiting import PATIENCE_S

REASON = ("--reason", "sensor broken")


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(data)])


def told(data: Path, *arguments: str) -> Any:
    result = run(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def shown(data: Path, *names: str) -> list[tuple[object, str]]:
    return [(row["value"], row["quality_name"]) for row in told(data, "items", *names)["items"]]


def measured_again(data: Path) -> bool:
    """The item shows what is measured; that has to come."""
    with connect(data, timeout_s=PATIENCE_S) as client:
        for changes in client.watch("number", timeout_s=PATIENCE_S):
            if not changes.readings:
                break
            if [(one.value, one.quality) for one in changes.readings] == [(5, quality.GOOD)]:
                return True
    return False


@pytest.mark.slow
def test_a_force_is_shown_survives_a_restart_and_is_released(tmp_path: Path) -> None:
    def first() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            produce(client, 1, 3)
            row = told(tmp_path, "force", "number", "-7", "--for", "2h", *REASON, "--user", "anna")
            assert (row["item"], row["value"], row["left_ms"]) == ("root:number", -7, 7_200_000)
            produce(client, 4, 5)
            assert client.read("number").value == -7
            assert client.read("number/measured").value == 5
        assert shown(tmp_path, "number", "number/measured") == [(-7, "GoodLocalOverride"), (5, "Good")]

    def second() -> None:
        assert shown(tmp_path, "number") == [(-7, "GoodLocalOverride")]
        (row,) = told(tmp_path, "forces")["forces"]
        assert (row["item"], row["value"], row["user"], row["reason"]) == ("root:number", -7, "anna", "sensor broken")
        assert row["measured"]["value"] == 5
        assert 0 < row["left_ms"] <= 7_200_000
        table = run(tmp_path, "forces").stdout
        assert "anna" in table
        assert "sensor broken" in table
        done = run(tmp_path, "force", "number", "--release", "--reason", "repaired")
        assert (done.exit_code, done.stdout) == (0, "number is released\n")
        assert measured_again(tmp_path)
        assert run(tmp_path, "forces").stdout == "nothing is forced\n"

    with_node(tmp_path, first)
    entries = with_node(tmp_path, second)
    assert [one.action for one in entries] == ["forced", "force_released"]
    assert [one.detail for one in entries] == ["-7 for 7200 s: sensor broken", "repaired"]


@pytest.mark.slow
def test_what_is_refused_says_why_and_what_to_do(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            produce(client, 1, 1)
        for arguments, exit_code, words in (
            (("nothing", "1", "--for", "1m", *REASON), 2, "no item nothing"),
            (("number", "1", "--for", "1m"), 1, "--reason TEXT"),
            (("number", "1", "--for", "8d", *REASON), 1, "7 days"),
            (("number", "fast", "--for", "1m", *REASON), 1, "takes int64"),
            (("number", "--release"), 1, "`albireo forces` lists what is"),
        ):
            refused = run(tmp_path, "force", *arguments)
            assert refused.exit_code == exit_code, refused.output
            assert words in refused.output
        assert told(tmp_path, "forces") == {"forces": []}

    with_node(tmp_path, story)


@pytest.mark.parametrize(
    "arguments", [("co",), ("co", "1"), ("co", "1", "--for", "1m", "--release"), ("co", "1", "--for", "soon")]
)
def test_an_order_that_is_not_whole_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert run(tmp_path, "force", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("left_ms", "text"),
    [(0, "0 s"), (999, "1 s"), (61_000, "1 min 1 s"), (7_200_000, "2 h"), (90_061_000, "1 d 1 h")],
)
def test_what_is_left_is_told_in_two_units(left_ms: int, text: str) -> None:
    assert left_text(left_ms) == text
