"""The chapters of the report: what is said of the tables, in words and numbers. Pure."""

import datetime as dt
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from albireo.codec.history import FileKind, Manifest
from albireo.pipeline import tables
from albireo.pipeline.lake import DAYS_MAX, DRAWN_MAX, Lake, Row, interesting_items, trend_rows
from albireo.pipeline.report import charts
from albireo.pipeline.report.alarms import WINDOW_NS

ACTORS_SHOWN: Final = 10
GAPS_SHOWN: Final = 20
STANDING_SHOWN: Final = 20
WORST_ITEMS_SHOWN: Final = 12
FLOOD_SHARE_GOAL: Final = 0.01
"""Share of time in flood, as commonly quoted from ISA-18.2."""
RATE_GOAL: Final = 2.0
"""Mean annunciations per 10 minutes, as commonly quoted from ISA-18.2."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its name."""

    label: str
    value: str
    note: str = ""
    state: str = "normal"
    """`normal`, `warning` or `alarm`; said in words too."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing, or the word that there is none."""

    caption: str = ""
    svg: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One chapter of the page."""

    anchor: str
    title: str
    text: str = ""
    figures: tuple[Figure, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    empty: str = ""
    """Said in place of a table without rows."""


def chapters(lake: Lake, manifest: Manifest, counts: Mapping[str, int]) -> list[Section]:
    """All of them, in order.

    Args:
        counts: rows of each table.
    """
    return [
        _overview(lake, manifest),
        _availability(lake),
        _alarms(lake),
        _actors(lake),
        _standing(lake),
        _gaps(lake),
        _trends(lake),
        _facts(lake, manifest, counts),
    ]


def moment(ns: int) -> str:
    """UTC, to the second; empty for the time before anything."""
    if ns <= 0:
        return ""
    return dt.datetime.fromtimestamp(ns // tables.SECOND_NS, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(ns: float | None) -> str:
    """A duration for a reader: the two largest units."""
    if ns is None:
        return "–"
    seconds = ns / tables.SECOND_NS
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, below, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below} {small}"
    return f"{whole} s"


def _total(table: pa.Table, name: str) -> float:
    """Sum of a column, of floats: nanoseconds of 4,000 items in a month are more than 64 bits hold."""
    return pc.sum(table[name].cast(pa.float64())).as_py() or 0


def _drawn(draw: Callable[[Sequence[Row]], str], rows: Sequence[Row], caption: str = "") -> Drawing:
    """The drawing; one that fails is told in its place, and stops neither the page nor what is made after it."""
    try:
        return Drawing(caption=caption, svg=draw(rows))
    except Exception as error:  # noqa: BLE001  # matplotlib raises whatever an odd number makes of its sums.
        return Drawing(caption=f"{caption} This can't be drawn ({type(error).__name__}: {error}).".strip())


def _overview(lake: Lake, manifest: Manifest) -> Section:
    known, good = _total(lake.availability, "known_ns"), _total(lake.availability, "good_ns")
    begin = pc.min(lake.hours["bucket_ns"]).as_py() if lake.hours.num_rows else None
    first = max(begin, _begin_ns(manifest)) if begin is not None else manifest.complete_to_ns
    annunciations = sum(row["annunciations"] for row in lake.cases)
    share = good / known if known else None
    figures = (
        Figure(label="Items", value=f"{len(lake.items):,}", note="declared"),
        Figure(label="Samples", value=f"{int(_total(lake.hours, 'rows')):,}", note=f"since {moment(first)}"),
        Figure(label="Recorded", value=span(manifest.complete_to_ns - first), note="up to the last durable record"),
        Figure(
            label="Good values",
            value="–" if share is None else f"{share:.2%}",
            note="of the time in which an item was known",
            state="normal" if share is None or share >= 0.99 else "warning",
        ),
        Figure(label="Annunciations", value=f"{annunciations:,}", note=f"in {len(lake.cases):,} cases"),
        Figure(
            label="Standing alarms",
            value=f"{len(lake.standing):,}",
            note="active at the end" if lake.standing else "none active at the end",
            state="alarm" if lake.standing else "normal",
        ),
        Figure(
            label="Gaps",
            value=f"{len(lake.gaps):,}",
            note="in the record" if lake.gaps else "the record is complete",
            state="warning" if lake.gaps else "normal",
        ),
    )
    return Section(anchor="overview", title="Overview", figures=figures)


def _begin_ns(manifest: Manifest) -> int:
    return min((one.min_source_ns for one in manifest.of_kind(FileKind.SAMPLES)), default=0)


def _availability(lake: Lake) -> Section:
    """The least available items, and the share of good time per hour over all."""
    table = lake.availability
    worst: list[Row] = []
    if table.num_rows:
        names = ("known_ns", "good_ns", "bad_ns", "uncertain_ns", "lost_ns")
        summed = table.group_by("item_id").aggregate([(name, "sum") for name in names]).to_pylist()
        worst = sorted(
            (row for row in summed if row["known_ns_sum"] and row["good_ns_sum"] < row["known_ns_sum"]),
            key=lambda row: (row["good_ns_sum"] / row["known_ns_sum"], row["item_id"]),
        )
    drawings: tuple[Drawing, ...] = ()
    if lake.hours.num_rows:
        hours = lake.hours.group_by("bucket_ns").aggregate(
            [*((name, "sum") for name in ("good_ns", "uncertain_ns", "bad_ns", "lost_ns")), ("item_id", "count")]
        )
        drawings = (_drawn(charts.quality_bars, sorted(hours.to_pylist(), key=lambda row: row["bucket_ns"])),)
    return Section(
        anchor="availability",
        title="Availability",
        text=f"{len(lake.items) - len(worst):,} of {len(lake.items):,} items were good all the time they were known. "
        "Bad includes lost: time within gaps.",
        drawings=drawings,
        columns=("Item", "Good", "Good for", "Uncertain for", "Bad for", "of which lost"),
        rows=tuple(
            (
                lake.name(row["item_id"]),
                f"{row['good_ns_sum'] / row['known_ns_sum']:.2%}",
                span(row["good_ns_sum"]),
                span(row["uncertain_ns_sum"]),
                span(row["bad_ns_sum"]),
                span(row["lost_ns_sum"]),
            )
            for row in worst[:WORST_ITEMS_SHOWN]
        ),
        empty="Every item was good all the time.",
    )


def _alarms(lake: Lake) -> Section:
    return Section(
        anchor="alarms",
        title="Alarm system",
        text="Annunciations are activations that an operator could see: not shelved, suppressed or out of service.",
        figures=(*_load_figures(lake), *_handling_figures(lake)),
        drawings=(_drawn(charts.rate_bars, lake.rates),) if lake.rates else (),
    )


def _load_figures(lake: Lake) -> tuple[Figure, ...]:
    """Figures that say how much the alarm system asks of its operator."""
    counts = [row["annunciations"] for row in lake.rates]
    mean = statistics.fmean(counts) if counts else 0.0
    in_flood = sum(row["end_ns"] - row["start_ns"] for row in lake.floods)
    share = in_flood / (len(counts) * WINDOW_NS) if counts else 0.0
    return (
        Figure(
            label="Per 10 minutes",
            value=f"{mean:.1f}",
            note=f"mean; goal at most {RATE_GOAL:.0f}; peak {max(counts, default=0)}",
            state="normal" if mean <= RATE_GOAL else "warning",
        ),
        Figure(
            label="Time in flood",
            value=f"{share:.1%}",
            note=f"{len(lake.floods)} floods; goal below {FLOOD_SHARE_GOAL:.0%}",
            state="normal" if share < FLOOD_SHARE_GOAL else "alarm",
        ),
    )


def _handling_figures(lake: Lake) -> tuple[Figure, ...]:
    """Figures that say how alarms ended, and which of them are of no use."""
    times = [row["time_to_ack_ns"] for row in lake.cases if row["time_to_ack_ns"] is not None]
    unacked = sum(1 for row in lake.cases if row["acked_ns"] is None and row["has_asked"])
    stale = sum(1 for row in lake.standing if row["is_stale"])
    return (
        Figure(
            label="Time to acknowledge",
            value=span(statistics.median(times)) if times else "–",
            note=f"median of {len(times)}; {unacked} never acknowledged",
        ),
        Figure(
            label="Chattering",
            value=str(len(lake.chatter)),
            note="alarms with 3 activations within a minute",
            state="warning" if lake.chatter else "normal",
        ),
        Figure(
            label="Stale",
            value=str(stale),
            note="standing for more than 24 h",
            state="warning" if stale else "normal",
        ),
    )


def _actors(lake: Lake) -> Section:
    chattering = {(row["item_id"], row["condition"]): row for row in lake.chatter}
    return Section(
        anchor="actors",
        title="Worst actors",
        text=f"The {ACTORS_SHOWN} alarms with most annunciations."
        + (f" They make {lake.actors[:ACTORS_SHOWN][-1]['cumulated_share']:.0%} of all." if lake.actors else ""),
        columns=("Rank", "Item", "Condition", "Annunciations", "Share", "Active for", "Chattering"),
        rows=tuple(
            (
                str(row["rank"]),
                lake.name(row["item_id"]),
                row["condition"],
                f"{row['annunciations']:,}",
                f"{row['share']:.1%}",
                span(row["active_ns"]),
                "yes" if (row["item_id"], row["condition"]) in chattering else "no",
            )
            for row in lake.actors[:ACTORS_SHOWN]
        ),
        empty="No alarm was raised.",
    )


def _standing(lake: Lake) -> Section:
    return Section(
        anchor="standing",
        title="Standing alarms",
        text=f"Active at the end, longest first{_of(STANDING_SHOWN, lake.standing)}.",
        columns=("Case", "Item", "Condition", "Severity", "Since (UTC)", "For", "Acknowledged", "Hidden"),
        rows=tuple(
            (
                str(row["case_id"]),
                lake.name(row["item_id"]),
                row["condition"],
                str(row["severity"]),
                moment(row["since_ns"]),
                span(row["standing_ns"]),
                "yes" if row["is_acked"] else "no",
                "yes" if row["is_hidden"] else "no",
            )
            for row in lake.standing[:STANDING_SHOWN]
        ),
        empty="None.",
    )


def _gaps(lake: Lake) -> Section:
    return Section(
        anchor="gaps",
        title="Gaps",
        text=f"Where samples were or may have been lost, newest first{_of(GAPS_SHOWN, lake.gaps)}.",
        columns=("From (UTC)", "To (UTC)", "For", "Source", "Reason", "Items", "Samples lost"),
        rows=tuple(
            (
                moment(row["from_ns"]),
                moment(row["to_ns"]),
                span(row["to_ns"] - row["from_ns"]),
                f"{row['node']}:{row['source']}",
                row["reason"],
                f"{row['items']:,}",
                "unknown" if row["lost"] is None else f"{row['lost']:,}",
            )
            for row in lake.gaps[:GAPS_SHOWN]
        ),
        empty="The record has no gaps.",
    )


def _trends(lake: Lake) -> Section:
    chosen = interesting_items(lake)
    table, rows = trend_rows(lake, chosen)
    drawings = tuple(
        _drawn(charts.trend, drawn, _caption(lake, item_id, declared, drawn))
        for chosen_id in chosen
        for (item_id, declared), drawn in rows.items()
        if item_id == chosen_id
    )
    return Section(
        anchor="trends",
        title="Trends",
        text=f"The items that alarmed most or moved most. Line: time-weighted average ({table}); band: minimum to "
        "maximum; shaded with hatching: not good.",
        drawings=drawings,
        empty="" if drawings else "There are no numeric items yet.",
    )


def _caption(lake: Lake, item_id: int, declared: int, rows: Sequence[Row]) -> str:
    unit = lake.unit(item_id, declared)
    left_out = "" if all(row["is_whole"] for row in rows) else f" (values beyond ±{DRAWN_MAX:g} are left out)"
    return lake.name(item_id) + (f" [{unit}]" if unit else "") + left_out


def _facts(lake: Lake, manifest: Manifest, counts: Mapping[str, int]) -> Section:
    kept = sum(one.rows for one in manifest.of_kind(FileKind.SAMPLES))
    taken = int(_total(lake.hours, "rows"))
    ahead = f"; {lake.ahead:,} are stamped later than anything is known, and left out" if lake.ahead else ""
    text = (
        f"From {len(manifest.files):,} files of the history with {kept:,} sample rows, complete to "
        f"{moment(manifest.complete_to_ns)} UTC (log {manifest.log_id[:8] or '–'}, position {manifest.position}); "
        f"{taken:,} samples of the last {DAYS_MAX} days are reported here{ahead}. Averages are time-weighted and "
        "stepped, after OPC UA Part 13. The tables beside this page are Delta tables."
    )
    return Section(
        anchor="facts",
        title="How this was made",
        text=text,
        columns=("Table", "Rows"),
        rows=tuple((name, f"{count:,}") for name, count in counts.items()),
    )


def _of(shown: int, rows: Sequence[Row]) -> str:
    return f"; {shown} of {len(rows):,}" if len(rows) > shown else ""
