"""Days of 23 and 25 hours: what people type and read is UTC, whatever the clock of the machine's zone does."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from albireo.cli.display import time_text
from albireo.cli.timespan import DURATION, TIME
from albireo.client.history import wall_ns
from albireo.model.instant import SECOND
from albireo.pipeline.plan import midnight

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600 * SECOND
SHORT, LONG = "2026-03-29", "2026-10-25"
"""At 1:00 UTC of each the clock is put an hour ahead, or back."""


@pytest.fixture(params=["CET-1CEST,M3.5.0,M10.5.0/3", "UTC0", "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of this process; Central Europe, none, and the Chatham Islands."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def typed(text: str) -> int:
    return TIME.convert(text, None, None)


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("day", [SHORT, LONG])
def test_each_quarter_of_an_hour_of_the_day_is_there_once(day: str) -> None:
    """Read and typed again it is the same time, also where the zone's clock shows it twice or never."""
    begin = typed(day)
    quarters = [begin + number * HOUR // 4 for number in range(26 * 4)]
    shown = [time_text(one) for one in quarters]
    assert shown == sorted(set(shown))
    assert [typed(one) for one in shown] == quarters
    assert shown[0] == f"{day} 00:00:00.000" and shown[-8].endswith(" 00:00:00.000"), "24 hours, as UTC has it"
    assert {midnight(one) for one in quarters} == {begin, begin + 24 * HOUR}
    assert DURATION.convert("1d", None, None) == 24 * HOUR


@pytest.mark.usefixtures("zone")
def test_an_hour_that_is_there_twice_is_told_apart_by_what_names_its_zone() -> None:
    first, second = typed(f"{LONG}T02:30+02:00"), typed(f"{LONG}T02:30+01:00")
    assert second - first == HOUR
    assert (typed(f"{LONG}T00:30Z"), typed(f"{LONG}T01:30")) == (first, second)
    local = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert (wall_ns(local), wall_ns(local.replace(fold=1))) == (first, second)
    assert wall_ns(datetime(2026, 10, 25, 0, 30)) == first  # noqa: DTZ001  # Without a zone it is UTC.


@pytest.mark.usefixtures("zone")
def test_a_day_of_a_zone_is_as_long_as_it_is() -> None:
    for year, month, day, hours in ((2026, 3, 29, 23), (2026, 10, 25, 25), (2026, 6, 1, 24)):
        begin = datetime(year, month, day, tzinfo=BERLIN)
        assert wall_ns(begin + timedelta(days=1)) - wall_ns(begin) == hours * HOUR
        assert wall_ns(begin) == wall_ns(begin.astimezone(UTC))
