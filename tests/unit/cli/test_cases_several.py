"""`albireo cases ACTION` on several cases at once, against a real node that stands alone."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import Client, connect
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts import core_actor
from tests.parts.access_cli import with_node
from tests.parts.waiting import PATIENCE_S, awaited

ALARM = AlarmSettings(hi=100.0)
ITEMS = [
    DataItem(name=name, value_type=ValueType.INT64, alarm=ALARM) for name in ("co_1", "co_2", "co_3", "fan_1", "fan_2")
]


def raised(client: Client) -> list[str]:
    """Numbers of a case of each of the items, in their order."""
    now, count = np.full(len(ITEMS), time.time_ns()), len(ITEMS)
    batch = SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.arange(count, dtype=np.uint32),
        source_ns=now,
        node_ns=now,
        value=np.full(count, 150),
        quality=np.zeros(count, np.uint32),
    )
    with client.producer("plant", ITEMS) as producer:
        producer.offer([batch])
        assert producer.flush(PATIENCE_S)
    cases = awaited(client.cases, lambda found: len(found) == count)
    by_item = {case.item: str(case.case_id) for case in cases}
    return [by_item[f"root:{one.name}"] for one in ITEMS]


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["cases", *arguments, "--data", str(data)])


def told(result: Result) -> Any:
    (line,) = result.stdout.splitlines()
    return json.loads(line)


@pytest.mark.slow
def test_each_case_is_tried_and_each_is_told(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            one, two, three, four, five = raised(client)
            colleague = run(tmp_path, "ack", two)
            assert (colleague.exit_code, colleague.stdout) == (0, f"case {two}: active acked\n")

            some = run(tmp_path, "ack", one, one, two, three, one, "--json")
            said = told(some)
            assert (some.exit_code, said["exit"]) == (3, 3)
            assert [str(case["case_id"]) for case in said["cases"]] == [one, three]
            assert [(case["case"], case["code"]) for case in said["refused"]] == [(two, "not_possible")]
            assert two in said["error"] and said["not_tried"] == []

            none = run(tmp_path, "ack", one, "999999", "--json")
            assert none.exit_code == 1 and [case["case"] for case in told(none)["refused"]] == [one, "999999"]
            assert f"case {one}" in told(run(tmp_path, "ack", one, "--json"))["error"]
            text = run(tmp_path, "shelve", one, "999999", two)
            assert text.exit_code == 3
            assert [line.split(":")[0] for line in text.stdout.splitlines()] == [
                f"case {one}", "case 999999", f"case {two}"
            ]  # fmt: skip

            fans = told(run(tmp_path, "ack", "--all", "fan_*", "--json"))
            assert [str(case["case_id"]) for case in fans["cases"]] == [five, four]
            assert run(tmp_path, "ack", "--all").stdout == "no open case waits for it\n"
            assert len(told(run(tmp_path, "comment", "--comment", "seen", "--all", "--json"))["cases"]) == 5
            assert len(told(run(tmp_path, "shelve", "--all", "--json"))["cases"]) == 3
            assert len(told(run(tmp_path, "unshelve", "--all", "root:*", "--json"))["cases"]) == 5
            assert len(told(run(tmp_path, "out-of-service", "--all", "co_?", "--json"))["cases"]) == 3
            assert len(told(run(tmp_path, "in-service", "--all", "--json"))["cases"]) == 3

    with_node(tmp_path, story)


@pytest.mark.slow
def test_a_program_acknowledges_all_that_waits(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            numbers = raised(client)
            assert sorted(str(one.case_id) for one in client.ack_all("flood")) == sorted(numbers)
            assert all(one.is_acked for one in client.cases())

    with_node(tmp_path, story)


@pytest.mark.parametrize("arguments", [("ack",), ("ack", "1", "--all", "co_*")])
def test_cases_are_named_or_all_are_meant(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run(tmp_path, *arguments, "--json")
    assert result.exit_code == 2


@pytest.mark.slow
def test_the_longest_shelve_is_that_of_the_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            (case, *_) = raised(client)
            refused = run(tmp_path, "shelve", case, "--for", "61s", "--json")
            assert refused.exit_code == 1 and "60000 ms" in told(refused)["remedy"]
            assert run(tmp_path, "shelve", case, "--for", "59s").exit_code == 0

    monkeypatch.setitem(core_actor.ARGUMENTS, "alarms", {"shelve_max_ms": 60_000})
    with_node(tmp_path, story)
