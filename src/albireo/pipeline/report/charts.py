"""Drawings of the report, as SVG text that takes its colours from the page: light and dark alike.

matplotlib draws with placeholder colours; these become CSS variables, so the page decides.
"""

import datetime as dt
import io
import re
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from albireo.pipeline.report.alarms import FLOOD_BEGINS, WINDOW_NS
from albireo.pipeline.tables import DAY_NS, HOUR_NS

Row = dict[str, Any]

_INKS: Final = {
    "#010101": "var(--ink)",
    "#020202": "var(--faint)",
    "#030303": "var(--line)",
    "#040404": "var(--band)",
    "#050505": "var(--alarm)",
    "#060606": "var(--warning)",
    "#070707": "var(--normal)",
}
_INK, _FAINT, _LINE, _BAND, _ALARM, _WARNING, _NORMAL = _INKS
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "albireo",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.grid": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.4,
    "hatch.color": _WARNING,
    "hatch.linewidth": 0.6,
}
_WIDTH_IN: Final = 9.0


def trend(rows: Sequence[Row]) -> str:
    """Average as a line, minimum to maximum as a band, times that were not good hatched.

    The page writes name and unit beside it: of texts of others, which may hold formulas, letters that no font has, or
    thousands of letters, matplotlib gets none.

    Args:
        rows: of one item, sorted by time: bucket_ns, average, minimum, maximum, is_good.
    """
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(2.0)
        times = [_time(row["bucket_ns"]) for row in rows]
        low, high, middle = (_column(rows, key) for key in ("minimum", "maximum", "average"))
        axes.fill_between(times, low, high, color=_BAND, linewidth=0, step="post")
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.step(times, middle, where="post", color=_LINE, linewidth=1.2)
        for begin, end in _bad_spans(rows):
            axes.axvspan(_time(begin), _time(end), facecolor="none", edgecolor=_WARNING, hatch="///", linewidth=0)
        return _svg(figure, axes)


def rate_bars(rows: Sequence[Row]) -> str:
    """Annunciations per 10 minutes, with the limit of a flood.

    Args:
        rows: of alarm_rate, sorted by time.
    """
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(2.0)
        seen = [row for row in rows if row["annunciations"]]
        times = [_time(row["window_ns"]) for row in seen]
        colours = [_ALARM if row["is_flood"] else _NORMAL for row in seen]
        width = 0.9 * WINDOW_NS / DAY_NS
        axes.bar(times, [row["annunciations"] for row in seen], width=width, align="edge", color=colours)
        axes.set_xlim(_time(rows[0]["window_ns"]), _time(rows[-1]["window_ns"] + WINDOW_NS))
        axes.axhline(FLOOD_BEGINS, color=_ALARM, linewidth=0.8, linestyle="--")
        axes.text(
            1.0, FLOOD_BEGINS, "flood", color=_ALARM, ha="right", va="bottom", transform=axes.get_yaxis_transform()
        )
        axes.set_title("Annunciations per 10 minutes", loc="left", fontsize=10)
        return _svg(figure, axes)


def quality_bars(rows: Sequence[Row]) -> str:
    """Share of good, uncertain and bad time per hour. Time of which nothing is recorded stays empty.

    Args:
        rows: sums over all items per hour, sorted: bucket_ns, good_ns_sum, uncertain_ns_sum, bad_ns_sum, item_id_count.
    """
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(1.6)
        times = [_time(row["bucket_ns"]) for row in rows]
        width = 0.96 * HOUR_NS / DAY_NS
        base = [0.0] * len(rows)
        for name, colour, hatch in (("good", _NORMAL, ""), ("uncertain", _WARNING, ".."), ("bad", _ALARM, "//")):
            share = [100 * row[f"{name}_ns_sum"] / (row["item_id_count"] * HOUR_NS) for row in rows]
            axes.bar(times, share, width=width, align="edge", bottom=base, color=colour, hatch=hatch, label=name)
            base = [low + part for low, part in zip(base, share, strict=True)]
        axes.set_ylim(0, 100)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, labelcolor=_INK)
        axes.set_title("Quality of all items per hour, % of time (empty: not recorded)", loc="left", fontsize=10)
        return _svg(figure, axes)


def _axes(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    locator = AutoDateLocator(minticks=3, maxticks=9, tz=dt.UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=dt.UTC))
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Figure, axes: Axes) -> str:
    axes.margins(x=0.0)
    figure.patch.set_alpha(0.0)
    axes.patch.set_alpha(0.0)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _inlined(text.getvalue())


def _inlined(svg: str) -> str:
    """The <svg> element alone, scalable, its colours left to the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", body, count=1)
    for placeholder, variable in _INKS.items():
        body = body.replace(placeholder, variable)
    return re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)


def _time(ns: int) -> float:
    """Matplotlib's number of a time: days since 1970."""
    return ns / DAY_NS


def _column(rows: Sequence[Row], key: str) -> list[float]:
    return [float("nan") if row[key] is None else row[key] for row in rows]


def _bad_spans(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Stretches of rows that are not good, each to the start of the next row."""
    spans: list[tuple[int, int]] = []
    for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True):
        if row["is_good"]:
            continue
        if spans and spans[-1][1] == row["bucket_ns"]:
            spans[-1] = (spans[-1][0], after["bucket_ns"])
        else:
            spans.append((row["bucket_ns"], after["bucket_ns"]))
    return spans
