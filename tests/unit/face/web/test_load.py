"""Alarm load of the journal: what is new is counted by client, command and page; what nobody is shown is not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import Client
from albireo.client.load import DAY_NS, TEN_MINUTES_NS
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.page_plant import PagePlant, page_plant
from tests.parts.waiting import awaited
from tests.parts.web import PASSWORD

pytestmark = [pytest.mark.slow]
CO, SMOKE = (
    DataItem(name=name, value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=40.0, severity=severity))
    for name, severity in (("co_8", 700), ("smoke", 900))
)
NEW = {700: 3, 900: 1}
OFTEN = [("root:co_8", "hi", 3), ("root:smoke", "hi", 1)]


def alarms(plant: PagePlant, client: Client) -> None:
    """Three activations of one rule and one of another; one more that is shelved."""
    for value in (50.0, 10.0, 50.0, 10.0, 50.0):
        plant.say({CO: value})
        awaited(lambda value=value: client.read("root:co_8").value == value)  # type: ignore[misc]
    plant.say({SMOKE: 50.0}, "smoke")
    case = awaited(lambda: [one for one in client.cases() if one.item == "root:smoke"])[0]
    client.shelve(case.case_id, duration_s=600)
    for value in (10.0, 50.0):
        plant.say({SMOKE: value}, "smoke")
        awaited(lambda value=value: client.read("root:smoke").value == value)  # type: ignore[misc]


def test_new_alarms_are_counted_of_the_journal(tmp_path: Path) -> None:
    with page_plant(tmp_path) as plant, plant.client() as client:
        alarms(plant, client)
        end = wall_ns()
        awaited(lambda: 900 in client.alarm_load(end - 30 * DAY_NS, end).by_severity)
        load = client.alarm_load(end - 30 * DAY_NS, end)
        assert load.by_severity == NEW
        assert [(one.item, one.condition, one.count) for one in load.often] == OFTEN
        assert (sum(load.per_10min), sum(load.per_10min[-2:]), load.is_cut) == (4, 4, False)
        assert load.from_ns % TEN_MINUTES_NS == 0 and len(load.per_10min) in (30 * 144, 30 * 144 + 1)
        said = CliRunner().invoke(cli, ["cases", "load", "--data", str(tmp_path), "--json"])
        assert json.loads(said.stdout)["load"]["by_severity"] == {"700": 3, "900": 1}, said.output
        said = CliRunner().invoke(cli, ["cases", "load", "--data", str(tmp_path), "--days", "1"])
        assert "root:co_8 hi" in said.stdout and "4.0" in said.stdout
        plant.add_person("anna")
        token = json.loads(plant.at.request("POST", "/login", {"name": "anna", "password": PASSWORD})[2])["token"]
        status, _, body = plant.at.request("GET", "/api/v1/load?days=30", Authorization=f"Bearer {token}")
        told = json.loads(body)
        assert (status, sum(told["per_10min"]), told["lacks"]) == (200, 4, []), body
        assert told["often"][0] == {"item": "root:co_8", "condition": "hi", "count": 3}
