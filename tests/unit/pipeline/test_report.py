"""The report: one file that loads nothing, lets nobody's name become markup, and stays small."""

import html.parser
import re
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.history import Manifest
from albireo.pipeline import lake, tables
from albireo.pipeline.report import chapters, charts
from albireo.pipeline.report.report import write_report
from tests.unit.pipeline.history_files import DAY0, SECOND, Row
from tests.unit.pipeline.lake_tables import HOUR, MINUTE, manifest, rollup_rows, store

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)<b>\"'& $\\frac$"


class Loader(html.parser.HTMLParser):
    """Collects everything by which a page could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.loaded.append(f"{tag} {name}={value}")
            assert not name.startswith("on")


def plant(directory: Path, *, hours: int) -> Manifest:
    """Tables of ten items with hostile names, alarms, gaps."""
    end = DAY0 + hours * HOUR
    names = [f"{HOSTILE}{index}" for index in range(10)]
    store(
        directory,
        tables.ITEMS,
        [
            {"item_id": index, "node": "root", "name": name, "unit": HOSTILE, "value_type": 1}
            for index, name in enumerate(names)
        ],
    )
    for table, width in ((tables.ROLLUP_1H, HOUR), (tables.ROLLUP_1MIN, MINUTE)):
        store(directory, table, rollup_rows(10, DAY0, end, width))
    availability = {"known_ns": 10 * HOUR, "good_ns": 9 * HOUR, "uncertain_ns": 0, "bad_ns": HOUR, "lost_ns": HOUR}
    store(directory, tables.AVAILABILITY, [{"item_id": 3, "rows": 5, "day": "2026-03-01"} | availability])
    gap = {
        "node": "root",
        "source": HOSTILE,
        "reason": "device_lost",
        "from_ns": DAY0,
        "to_ns": DAY0 + HOUR,
        "items": 4,
    }
    store(directory, tables.GAPS, [gap])
    window = {"start": None, "urgent": 0, "high": 0, "medium": 0, "low": 0}
    store(
        directory,
        tables.ALARM_RATE,
        [window | {"window_ns": DAY0 + n * 10 * MINUTE, "annunciations": n, "is_flood": n >= 10} for n in range(20)],
    )
    actor = {"rank": 1, "item_id": 3, "condition": "hi", "annunciations": 9, "share": 1.0, "cumulated_share": 1.0}
    store(directory, tables.ALARM_ACTORS, [actor | {"cases": 1, "active_ns": HOUR}])
    return manifest(end)


def test_the_page_loads_nothing_and_escapes_names(tmp_path: Path) -> None:
    counts = {table.name: 1 for table in tables.TABLES}
    page = write_report(tmp_path / "report.html", tmp_path, plant(tmp_path, hours=5), counts).read_text()
    loader = Loader()
    loader.feed(page)
    assert loader.loaded == []
    assert not loader.tags & {"script", "link", "img", "iframe", "object", "base"}
    assert "url(http" not in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 2 + lake.TRENDS_MAX
    for placeholder in charts._INKS:
        assert placeholder not in page


def test_a_month_stays_small(tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", tmp_path, plant(tmp_path, hours=31 * 24), {})
    assert page.stat().st_size < 1_000_000


@pytest.mark.parametrize(("hours", "words"), [(30, "per minute"), (20 * 24, "per hour")])
def test_what_is_too_fine_to_draw_is_not_read(tmp_path: Path, hours: int, words: str) -> None:
    """The files of the finer rollups are gone: nobody misses them, because the hours tell how much is in them."""
    known = plant(tmp_path, hours=hours)
    store(tmp_path, tables.ROLLUP_1S, rollup_rows(1, DAY0, DAY0 + SECOND, SECOND))
    for table in (tables.ROLLUP_1S, *([tables.ROLLUP_1MIN] if words == "per hour" else [])):
        for path in (tmp_path / table.name).rglob("*.parquet"):
            path.unlink()
    found = lake.opened_lake(tmp_path, known.complete_to_ns)
    said, rows = lake.trend_rows(found, lake.interesting_items(found))
    assert said == words
    assert len(rows) == lake.TRENDS_MAX


def test_few_seconds_are_drawn_as_such(tmp_path: Path) -> None:
    """An hour of one sample a minute has no more rows in seconds than in minutes."""
    known = plant(tmp_path, hours=1)
    store(tmp_path, tables.ROLLUP_1S, rollup_rows(10, DAY0, DAY0 + SECOND, SECOND))
    found = lake.opened_lake(tmp_path, known.complete_to_ns)
    assert lake.trend_rows(found, lake.interesting_items(found))[0] == "per second"


def painted(svg: str) -> list[tuple[float, float, float, float]]:
    """Bars of a drawing with something to see: left, right, bottom and top as shares of its area."""
    paths = re.findall(r'<g id="patch_\d+">\s*<path d="([^"]*)z\s*"([^>]*)>', svg)
    corners = [[tuple(map(float, point)) for point in re.findall(r"[ML] (\S+) (\S+)", path)] for path, _ in paths]
    boxes = [[(min(axis), max(axis)) for axis in zip(*one, strict=True)] for one in corners]
    (left, right), (top, bottom) = boxes[1]  # After the figure's background that of its area.
    wide, high = right - left, bottom - top
    return [
        ((x0 - left) / wide, (x1 - left) / wide, (bottom - y1) / high, (bottom - y0) / high)
        for ((x0, x1), (y0, y1)), (_, style) in zip(boxes, paths, strict=True)
        if "clip-path" in style and y1 > y0
    ]


def test_the_hours_are_painted_as_far_as_they_are_recorded(tmp_path: Path) -> None:
    """Five hours: good, nothing known, half of it known of one item, lost and unknown by turns, good.

    Shares are of the whole hour: nothing is stretched to fill what nobody knows.
    """

    def hour(item_id: int, index: int, **known: float) -> Row:
        times = dict.fromkeys(("good_ns", "uncertain_ns", "bad_ns", "lost_ns"), 0)
        times |= {f"{name}_ns": int(share * HOUR) for name, share in known.items()}
        begin = DAY0 + index * HOUR
        row: Row = rollup_rows(1, begin, begin + HOUR, HOUR).to_pylist()[0]
        return row | times | {"item_id": item_id}

    rows = [hour(1, 0, good=1), hour(2, 0, good=1), hour(1, 2, good=0.25, bad=0.25), hour(1, 4, good=1)]
    rows += [hour(1, 3, uncertain=0.5, bad=0.5, lost=0.5), hour(2, 3)]
    store(tmp_path, tables.ROLLUP_1H, rows)
    page = write_report(tmp_path / "report.html", tmp_path, manifest(DAY0 + 5 * HOUR), {}).read_text()
    begin = page.index('id="availability"')
    bars = painted(page[page.index("<svg", begin) : page.index("</svg>", begin)])
    found: dict[int, list[float]] = {}
    for left, right, bottom, top in sorted(bars, key=lambda bar: (bar[0], bar[2])):
        index = int(left * 5)
        assert index <= left * 5 < right * 5 < index + 1.05, "a bar stays in its hour"
        assert bottom == pytest.approx(sum(found.get(index, [])), abs=1e-4), "bars stand on each other"
        found.setdefault(index, []).append(top - bottom)
    assert found == {
        0: [pytest.approx(1.0)],
        2: [pytest.approx(0.25, abs=1e-4), pytest.approx(0.25, abs=1e-4)],
        3: [pytest.approx(0.25, abs=1e-4), pytest.approx(0.25, abs=1e-4)],
        4: [pytest.approx(1.0)],
    }


def test_no_tables_at_all_give_a_page(tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", tmp_path / "none", manifest(0), {}).read_text()
    assert "Nothing is recorded yet" in page
    assert "The record has no gaps." in page


def test_thinning_keeps_extremes_and_bad_times() -> None:
    rows: list[dict[str, Any]] = [
        {
            "bucket_ns": n,
            "average": float(n),
            "minimum": float(-n),
            "maximum": float(n),
            "is_good": n != 777,
            "is_whole": True,
        }
        for n in range(10_000)
    ]
    thin = lake.thinned(rows)
    assert len(thin) <= lake.POINTS_SHOWN
    assert min(row["minimum"] for row in thin) == -9999.0
    assert max(row["maximum"] for row in thin) == 9999.0
    assert sum(not row["is_good"] for row in thin) == 1
    assert thin[0]["bucket_ns"] == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_a_duration_is_said_in_two_units(seconds: float, text: str) -> None:
    assert chapters.span(seconds * SECOND) == text


def test_an_unknown_duration_is_not_zero() -> None:
    assert chapters.span(None) == "–"
