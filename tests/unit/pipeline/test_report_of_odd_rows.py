"""The report of rows that no plant should have, and one has: the page is there, and shows what is known."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from albireo.codec import history as stored
from albireo.pipeline import lake, tables
from albireo.pipeline.report import charts
from albireo.pipeline.report.report import write_report
from tests.unit.pipeline.history_files import DAY0
from tests.unit.pipeline.lake_tables import HOUR, manifest, rollup_rows, store

pytestmark = pytest.mark.slow

END = DAY0 + 10 * HOUR
FLOAT_MAX = 1.7976931348623157e308
FAR = stored.day_start_ns("2099-01-01")
NOT_DRAWN = "can&#39;t be drawn"


def page_of(directory: Path, hours: pa.Table, unit: str = "", *, name: str = "odd") -> str:
    kinds = {"item_id": 0, "node": "root", "name": name, "unit": unit, "value_type": 1}
    store(directory, tables.ITEMS, [kinds])
    store(directory, tables.ITEMS_SCD, [kinds | {"sequence": 0}])
    store(directory, tables.ROLLUP_1H, hours)
    return write_report(directory / "report.html", directory, manifest(END), {}).read_text()


def drawings(page: str) -> list[list[str]]:
    """Words of each drawing."""
    return [re.findall(r"<text[^>]*>([^<]*)</text>", one) for one in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def with_values(values: list[float | None]) -> pa.Table:
    """Hours of the item 0, one after the other."""
    plain = rollup_rows(1, DAY0, DAY0 + len(values) * HOUR, HOUR)
    for name in ("average", "minimum", "maximum"):
        plain = plain.set_column(plain.schema.get_field_index(name), name, pa.array(values, pa.float64()))
    return plain


@pytest.mark.parametrize("huge", [1e300, 1e301, 1e308, FLOAT_MAX, -FLOAT_MAX, float("inf"), float("nan")])
def test_one_huge_value_leaves_the_rest_of_its_trend(tmp_path: Path, huge: float) -> None:
    """Also among so many rows that neighbours are joined, and beside another one."""
    values: list[float | None] = [20.0 + index % 7 for index in range(lake.POINTS_SHOWN * 2)]
    values[3:5] = [huge, huge]
    values[7] = -huge
    page = page_of(tmp_path, with_values(values[:10]))
    assert len(drawings(page)) == 2
    assert NOT_DRAWN not in page
    assert ("are left out" in page) == (abs(huge) > lake.DRAWN_MAX)
    many = [{"bucket_ns": n, "average": v, "minimum": v, "maximum": v, "quality": 0} for n, v in enumerate(values)]
    thin = lake.thinned([lake._drawable(row) | {"is_good": True} for row in many])
    assert len(thin) <= lake.POINTS_SHOWN
    assert charts.trend(thin)


@pytest.mark.parametrize("low", [-FLOAT_MAX, -1e300, 0.0, 5e-324, -(2.0**63)])
@pytest.mark.parametrize("high", [1e-320, 2.0**63, 1e300, FLOAT_MAX])
def test_items_are_chosen_by_how_far_they_moved_at_any_size(tmp_path: Path, low: float, high: float) -> None:
    page = page_of(tmp_path, with_values([low, high]))
    found = lake.opened_lake(tmp_path, END)
    assert lake.interesting_items(found) == [0]
    assert len(drawings(page)) == 2
    assert NOT_DRAWN not in page


@pytest.mark.parametrize(
    "text",
    [
        "\x00\x07\x1b[31m",
        "°C\n\nm",
        "立方米",
        "😀",
        "$\\frac{",
        "<svg onload=x>",
        "\u202emm",
        "x" * 10_000,
        "]]>",
        "{{ 7 }}",
    ],
    ids=["control", "lines", "letters", "picture", "formula", "markup", "turned", "long", "cdata", "template"],
)
def test_an_odd_unit_or_name_meets_no_drawing(tmp_path: Path, text: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        page = page_of(tmp_path, with_values([1.0, 2.0]), text, name=text)
    assert [str(one.message) for one in said] == []
    assert len(drawings(page)) == 2
    assert NOT_DRAWN not in page
    assert "onload" not in page.replace("&lt;svg onload=x&gt;", "")
    assert len(page) < 200_000


def test_a_drawing_that_fails_is_told_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(rows: object) -> str:
        raise OverflowError("too large")

    monkeypatch.setattr(charts, "trend", fails)
    page = page_of(tmp_path, with_values([1.0, 2.0]))
    assert f"root:odd This {NOT_DRAWN} (OverflowError: too large)." in page
    assert len(drawings(page)) == 1


def test_what_is_stamped_behind_all_that_is_known_stretches_nothing(tmp_path: Path) -> None:
    """Of the item that has the rest too, of one that has nothing else, and a window of alarms."""
    hours = rollup_rows(1, DAY0, END, HOUR)
    ahead = rollup_rows(2, FAR, FAR + HOUR, HOUR)
    ahead = ahead.set_column(ahead.schema.get_field_index("day"), "day", pa.array(["2099-01-01"] * 2))
    window = {"urgent": 0, "high": 0, "medium": 0, "low": 0, "is_flood": False}
    ranges = [*range(DAY0, END, HOUR // 6), FAR]
    store(tmp_path, tables.ALARM_RATE, [window | {"window_ns": ns, "annunciations": 1} for ns in ranges])
    store(tmp_path, tables.ALARM_FLOODS, [{"start_ns": FAR, "end_ns": FAR + HOUR, "annunciations": 1, "peak": 1}])
    page = page_of(tmp_path, pa.concat_tables([hours, ahead]))
    found = drawings(page)
    assert len(found) == 3
    assert [one for one in found if any(re.search(r"20[3-9]\d", word) for word in one)] == []
    assert "2099" not in page
    assert "0 floods" in page
    assert "36,000 samples of the last 31 days are reported here; 7,200 are stamped later" in page


def test_alarms_of_years_are_drawn_of_the_reported_days(tmp_path: Path) -> None:
    """A record of eleven years, as a clock that began in 1970 makes it, has more windows than can be drawn."""
    window = {"urgent": 0, "high": 0, "medium": 0, "low": 0, "is_flood": False, "annunciations": 0}
    count = 600_000
    ns = END - (np.arange(count)[::-1] + 1) * HOUR // 6
    rows: dict[str, Any] = {name: pa.repeat(one, count) for name, one in window.items()}
    store(tmp_path, tables.ALARM_RATE, pa.table(rows | {"window_ns": ns}))
    found = lake.opened_lake(tmp_path, END)
    assert len(found.rates) <= lake.DAYS_MAX * 144
    assert len(charts.rate_bars(found.rates)) < 20_000


def test_times_of_many_items_are_summed_without_overflow(tmp_path: Path) -> None:
    """Of 4,000 items in 31 days, half of them good."""
    month = 31 * tables.DAY_NS
    day = {"rows": 1, "known_ns": month, "good_ns": month // 2, "uncertain_ns": 0, "bad_ns": month // 2, "lost_ns": 0}
    store(tmp_path, tables.AVAILABILITY, [{"item_id": n, "day": "2026-03-01"} | day for n in range(4_000)])
    page = page_of(tmp_path, with_values([1.0, 2.0]))
    assert "<b>50.00%</b>" in page
