"""Commands say the word of a value to people, and the bare value as JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import connect
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.item_states import states_of
from albireo.model.value import ValueType
from tests.parts.access_cli import with_node
from tests.parts.page_plant import say
from tests.parts.tree_orders import Device
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow
BOOL, INT = ValueType.BOOL, ValueType.INT64
BARRIER = DataItem(name="barrier", value_type=BOOL, is_writable=True, states=states_of("0=open;1=closed", BOOL))
MODE = DataItem(name="mode", value_type=INT, is_writable=True, unit="x", states=states_of("3=service", INT))
DOOR = DataItem(
    name="door", value_type=BOOL, states=states_of("0=shut;1=open", BOOL), alarm=AlarmSettings(off_normal=True)
)
LEVEL = DataItem(name="level", value_type=INT, alarm=AlarmSettings(hi=1.0))


def run(data: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--data", str(data)])
    assert result.exit_code == 0, result.output
    return result.stdout


def told(data: Path, *arguments: str) -> Any:
    return json.loads(run(data, *arguments, "--json").splitlines()[-1])


def with_device(data: Path, item: DataItem, story: Callable[[], None]) -> list[str]:
    """Details of the audit journal after a story beside a node with an adapter that has this item."""

    def beside() -> None:
        device = Device(data, item)
        device.start()
        try:
            with connect(data, timeout_s=PATIENCE_S) as client:
                awaited(lambda: client.items(item.name))
            story()
        finally:
            device.end()

    return [one.detail for one in with_node(data, beside)]


@pytest.mark.parametrize(
    ("item", "value", "bare", "raw", "text"),
    [
        (BARRIER, "closed", "true", True, "closed (true)"),
        (MODE, "service", "3", 3, "service (3)"),
        (MODE, "4", "4", 4, "4"),
        (msgspec.structs.replace(BARRIER, states=()), "true", "true", True, "true"),
    ],
)
def test_an_order_and_its_read_back_are_told_by_the_word(
    tmp_path: Path, item: DataItem, value: str, bare: str, raw: object, text: str
) -> None:
    def story() -> None:
        command_id = told(tmp_path, "write", item.name, value, "--reason", "test")["command_id"]
        shown = run(tmp_path, "command", "show", command_id)
        assert shown.splitlines()[0] == f"write root:{item.name} = {text}: verified"
        assert f"read back {text}" in shown.splitlines()
        assert f"write root:{item.name} = {text}\tverified" in run(tmp_path, "command", "list")
        for course in (told(tmp_path, "command", "show", command_id), *told(tmp_path, "command", "list")["commands"]):
            assert (course["subject"], course["read_back"]) == (f"root:{item.name} = {bare}", raw)

    details = with_device(tmp_path, item, story)
    assert any(one.startswith(f"{text} [") and one.endswith("]: test") for one in details), details


def test_an_order_whose_item_is_of_another_type_now_has_no_word(tmp_path: Path) -> None:
    def story() -> None:
        told(tmp_path, "write", "barrier", "true")

    def later() -> None:
        shown = run(tmp_path, "command", "list")
        assert "write root:barrier = true\tverified" in shown

    with_device(tmp_path, msgspec.structs.replace(BARRIER, states=()), story)
    with_device(tmp_path, msgspec.structs.replace(BARRIER, value_type=INT, states=states_of("1=closed", INT)), later)


def test_the_value_of_a_case_is_told_by_its_word(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            say(client, {DOOR: True, LEVEL: 3})
            awaited(lambda: len([one for one in client.cases() if one.item in ("root:door", "root:level")]) == 2)
        rows = [line.split("\t") for line in run(tmp_path, "cases", "list").splitlines()[1:]]
        assert {row[2]: row[5] for row in rows} == {"root:door": "open (true)", "root:level": "3"}
        found = {one["item"]: one for one in told(tmp_path, "cases", "list")["cases"]}
        assert found["root:door"]["value"] is True
        assert "states" not in found["root:door"]
        assert "word" not in found["root:door"]

    with_node(tmp_path, story)
