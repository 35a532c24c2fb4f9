"""`albireo history` begins days and hours by the clock of the node that it asks, unless it is told another zone."""

import asyncio
import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli.node.history import command as history
from albireo.cli.output import ExitCode
from albireo.codec.record import ItemDeclared, Stream
from albireo.codec.topology.zone import ZONE_REMEDY, zone_named
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.store import HistoryStore
from albireo.node.kept_zone import keep_zone, kept_zone
from tests.parts.core_pair import aside
from tests.parts.history import LOG_ID, MemoryLog, fill, hot_of, iso
from tests.parts.lone import LoneNode
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow]
DESK = "anna@desk"
HOUR = 3_600 * SECOND
SPRING = 1_774_652_400 * SECOND
"""2026-03-28T00:00+01:00, the day before the one of 23 hours."""
AUTUMN = 1_792_792_800 * SECOND
"""2026-10-24T00:00+02:00, the day before the one of 25 hours."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node that does not run, with a value every half hour around both changes of the clock."""
    data = tmp_path_factory.mktemp("node")
    (data / "log" / "segments").mkdir(parents=True)
    log = MemoryLog()
    item = DataItem(name="co", value_type=ValueType.FLOAT64)
    log.records(Stream.STATE, [ItemDeclared(item_id=ItemId(1), node="root", item=item)], SPRING)
    for day in (SPRING, AUTUMN):
        log.samples([(1, day + n * HOUR // 2, float(n), 0) for n in range(150)], day + 75 * HOUR)
    store, _ = HistoryStore.open(data, "root")
    hot = hot_of(store)
    fill(hot, log)
    store.seal(hot.content(), LOG_ID.hex(), AUTUMN)
    keep_zone(data, "Europe/Vienna")
    return data


def asked(begin_ns: int, *arguments: str) -> Result:
    span = [f"--{name}={iso(at)}" for name, at in (("from", begin_ns + HOUR), ("to", begin_ns + 71 * HOUR))]
    return CliRunner().invoke(history, ["co", *span, "--every", "1d", *arguments])


def told(begin_ns: int, *arguments: str) -> tuple[str, list[float]]:
    """The zone that the answer names, and the hours from the begin of each interval to that of the next one."""
    result = asked(begin_ns, "--json", *arguments)
    assert result.exit_code == 0, result.output
    answer: Any = json.loads(result.stdout.splitlines()[-1])
    begins = [row["start_ns"] for row in answer["rows"]]
    return answer["zone"], [(after - one) / HOUR for one, after in pairwise(begins)]


def test_days_of_the_topologys_zone_have_the_hours_that_they_have(data: Path) -> None:
    assert told(SPRING, "--data", str(data)) == ("Europe/Vienna", [24.0, 23.0])
    assert told(AUTUMN, "--data", str(data)) == ("Europe/Vienna", [24.0, 25.0])
    assert "Europe/Vienna" in asked(SPRING, "--data", str(data)).stderr, "times are shown in UTC, so it says why"


def test_an_option_wins_and_no_variable_does(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALBIREO_ZONE", "Asia/Kathmandu")
    assert told(SPRING, "--data", str(data), "--zone", "UTC") == ("UTC", [24.0, 24.0])
    assert told(SPRING, "--data", str(data))[0] == "Europe/Vienna"


def test_a_zone_that_nobody_knows_is_refused_in_the_words_of_the_topology(data: Path) -> None:
    with pytest.raises(ValueError, match="no zone") as caught:
        zone_named("Mars/Olympus")
    refused = asked(SPRING, "--data", str(data), "--zone", "Mars/Olympus")
    assert refused.exit_code == ExitCode.USAGE
    assert str(caught.value) in refused.stderr and ZONE_REMEDY in refused.stderr


def test_a_directory_that_no_node_of_a_topology_ran_on_is_read_by_utc(tmp_path: Path) -> None:
    assert kept_zone(tmp_path) == "UTC"
    keep_zone(tmp_path, "Asia/Kathmandu")
    keep_zone(tmp_path, "Europe/Vienna")
    assert kept_zone(tmp_path) == "Europe/Vienna"
    keep_zone(tmp_path / "gone", "Europe/Vienna")  # A node runs without it.


def test_a_node_elsewhere_tells_its_zone(tmp_path: Path) -> None:
    def story(lone: LoneNode) -> None:
        lone.produce(DESK, [(0, SPRING + n * HOUR // 2, float(n), 0) for n in range(150)])
        at = ("--at", lone.endpoint, "--keys", str(lone.keys[DESK].directory))
        awaited(lambda: asked(SPRING, *at, "--json").exit_code == 0)
        assert told(SPRING, *at) == ("Europe/Vienna", [24.0, 23.0])
        assert told(SPRING, *at, "--zone", "UTC") == ("UTC", [24.0, 24.0])

    async def world() -> None:
        lone = LoneNode(tmp_path, DESK, zone="Europe/Vienna")
        async with lone.core_up(), lone.history_up():
            await aside(partial(story, lone))

    asyncio.run(world())
