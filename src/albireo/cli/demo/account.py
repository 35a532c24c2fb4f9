"""The demo's account: what left the adapters against what lies in the history, read after a clean stop.

What it does not do: trust counters in memory. All figures come from what is on disk: the history, and the last line of
each adapter in the node's log.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from albireo.codec.history import MANIFEST_NAME, SCHEMAS, FileKind, Manifest, decode_manifest
from albireo.machine.history.declared import DeclaredItems
from albireo.model.instant import SECOND
from albireo.model.quality import BAD

STOPPED_EVENT: Final = "adapter_stopped"
"""Last line of an adapter in the node's log, with its totals."""
STANDING_BY: Final = b'"event":"standing_by"'
LOG_BYTES_ITEM: Final = "core/log_bytes"
LOG_TAIL_BYTES: Final = 256 * 1024
"""Bytes read from the end of the node's log; the lines looked for are among the last twenty."""

Row = dict[str, Any]


class DemoAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one demo, from its first start to its stop."""

    seconds: float
    """Seconds from the first poll of a PLC to the last."""
    samples_acquired: int
    """Past the dead band, of every adapter and of the node itself."""
    samples_committed: int
    samples_dropped: int
    cases_raised: int
    log: dict[str, int]
    history: dict[str, int]

    def complaints(self, *, had_takeover: bool = False) -> list[str]:
        """Figures that do not fit together, one sentence each; empty when all do.

        Args:
            had_takeover: an adapter that was killed, or had to stand by, had acquired what nobody has: a gap record
                stands for it.
        """
        found = []
        if self.samples_acquired == 0:
            found.append("no sample was acquired")
        if self.samples_committed != self.samples_acquired and not had_takeover:
            found.append(f"{self.samples_acquired} samples acquired, {self.samples_committed} committed")
        if self.samples_dropped:
            found.append(f"{self.samples_dropped} samples dropped")
        if self.history["rows"] != self.samples_committed:
            found.append(f"{self.samples_committed} samples committed, {self.history['rows']} rows in the history")
        return found


def account_of(data: Path, since_ns: int, plcs: Collection[str]) -> DemoAccount:
    """The account of what the node in `data` appended at or after `since_ns` (wall time).

    Args:
        plcs: names of the adapters that poll the plant.
    Raises:
        OSError, DecodeError: there is no readable manifest.
    """
    root = data / "history"
    manifest = decode_manifest((root / MANIFEST_NAME).read_bytes())
    stored = Stored(root, manifest, since_ns)
    final = final_counts(data / "node.log")
    acquired, dropped = (
        {one: with_last(stored.runs(f"{one}/{what}"), final.get(one, {}).get(what)) for one in stored.adapters}
        for what in ("acquired", "dropped")
    )
    events = stored.table(FileKind.EVENTS, ["kind", "action"]).to_pylist()
    return DemoAccount(
        seconds=stored.polled_s(plcs),
        samples_acquired=sum(acquired.values()) + stored.own_rows + stored.rows_of_silence,
        samples_committed=stored.rows,
        samples_dropped=sum(dropped.values()),
        cases_raised=sum(row["kind"] == "case" and row["action"] == "raised" for row in events),
        log={
            "epoch": manifest.position.epoch,
            "sequence": manifest.position.sequence,
            "bytes": stored.log_bytes or bytes_below(data / "log"),
        },
        history={
            "files": len(manifest.of_kind(FileKind.SAMPLES)),
            "rows": stored.rows,
            "gaps": stored.table(FileKind.GAPS, ["source"]).num_rows,
        },
    )


class Stored:
    """Rows since `since_ns` in the listed files of the history."""

    def __init__(self, root: Path, manifest: Manifest, since_ns: int) -> None:
        self._root = root
        self._manifest = manifest
        self._is_new = ds.field("node_ns") >= since_ns
        rows = self._dataset(FileKind.ITEMS).to_table().to_pylist()
        items: list[Row] = list(DeclaredItems.of_rows(rows).items.values())
        self._ids = {str(row["name"]): int(row["item_id"]) for row in items}
        named = {str(row["adapter"]) for row in items}
        self.adapters = sorted(one for one in named if f"{one}/acquired" in self._ids)
        """Adapters that count what they hand on; CORE's own items have none such."""
        self._of_adapter = {one: [int(row["item_id"]) for row in items if row["adapter"] == one] for one in named}
        ids, counts = np.unique(self.table(FileKind.SAMPLES, ["item_id"])["item_id"].to_numpy(), return_counts=True)
        self._counts: dict[int, int] = dict(zip(ids.tolist(), counts.tolist(), strict=True))

    def _dataset(self, kind: FileKind) -> ds.Dataset:
        paths = [str(self._root / entry.path) for entry in self._manifest.of_kind(kind)]
        return ds.dataset(paths, schema=SCHEMAS[kind], format="parquet")

    def table(self, kind: FileKind, columns: list[str], where: ds.Expression | None = None) -> pa.Table:
        """Rows that were appended since `since_ns`."""
        wanted = self._is_new if where is None else self._is_new & where
        return self._dataset(kind).to_table(columns=columns, filter=wanted)

    @property
    def rows(self) -> int:
        return sum(self._counts.values())

    @property
    def own_rows(self) -> int:
        """Samples that no adapter handed on: the node's own diagnostics."""
        foreign = {item_id for one in self.adapters for item_id in self._of_adapter[one]}
        return sum(count for item_id, count in self._counts.items() if item_id not in foreign)

    @property
    def rows_of_silence(self) -> int:
        """Samples by which the node says that an adapter is silent: of all its items at once, its counters too."""
        count, is_bad = 0, ds.field("quality") >= BAD
        for one in self.adapters:
            of_counter = is_bad & (ds.field("item_id") == self._ids[f"{one}/acquired"])
            times = self.table(FileKind.SAMPLES, ["node_ns"], of_counter)["node_ns"].unique()
            of_all = is_bad & ds.field("item_id").isin(self._of_adapter[one]) & ds.field("node_ns").isin(times)
            count += self.table(FileKind.SAMPLES, ["item_id"], of_all).num_rows
        return count

    def runs(self, name: str) -> list[int]:
        """Last value of a counter in each run of its adapter; it begins again at 0 when the adapter does.

        A row that says that the adapter is silent has a bad quality and 0 for a value: no run begins with it.
        """
        where = (ds.field("item_id") == self._ids[name]) & (ds.field("quality") < BAD)
        rows = self.table(FileKind.SAMPLES, ["value_i64", "sequence"], where).sort_by("sequence")
        return last_of_runs([int(value) for value in rows["value_i64"].to_pylist() if value is not None])

    @property
    def log_bytes(self) -> int:
        """Bytes of records, as CORE said last; its segments are prepared ahead, so their files are larger."""
        where = ds.field("item_id") == self._ids.get(LOG_BYTES_ITEM, -1)
        rows = self.table(FileKind.SAMPLES, ["value_f64", "sequence"], where).sort_by("sequence")
        return int(rows["value_f64"][-1].as_py() or 0) if rows.num_rows else 0

    def polled_s(self, plcs: Collection[str]) -> float:
        """Seconds from the first good value of these adapters to their last."""
        ids = [item_id for one in plcs for item_id in self._of_adapter.get(one, [])]
        where = ds.field("item_id").isin(ids) & (ds.field("quality") == 0)
        times = self.table(FileKind.SAMPLES, ["source_ns"], where)["source_ns"].to_numpy()
        return round((int(times.max()) - int(times.min())) / SECOND, 3) if len(times) else 0.0


def last_of_runs(values: Sequence[int]) -> list[int]:
    """The value before each fall, and the last one.

    >>> last_of_runs([1, 5, 9, 2, 4])
    [9, 4]
    """
    lasts: list[int] = []
    for value in values:
        if lasts and value >= lasts[-1]:
            lasts[-1] = value
        else:
            lasts.append(value)
    return lasts


def with_last(runs: list[int], final: int | None) -> int:
    """The sum over all runs, the last one as the adapter itself said it at its stop.

    Samples that an adapter could not hand over before it stopped are in its own last line, not in the history.
    """
    if final is None:
        return sum(runs)
    return sum(runs[:-1]) + final


def final_counts(log: Path) -> Mapping[str, Mapping[str, int]]:
    """The last counts that each adapter logged: `acquired` and `dropped`, by adapter."""
    found: dict[str, dict[str, int]] = {}
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(said, dict) and said.get("event") == STOPPED_EVENT:
            counts = {what: said[what] for what in ("acquired", "dropped") if isinstance(said.get(what), int)}
            found[str(said.get("adapter"))] = counts
    return found


def stood_by(log: Path, since_ns: int) -> bool:
    """Whether an adapter logged at or after `since_ns` that it stands by: what it had not handed over belongs to none.

    A member does so when another one leads, and for a moment when its own lease ran out.
    """
    since = datetime.fromtimestamp(since_ns // SECOND, UTC)
    try:
        lines = log.read_bytes().splitlines()
    except FileNotFoundError:
        return False
    said = [msgspec.json.decode(line, type=_LogLine) for line in lines if STANDING_BY in line and line.endswith(b"}")]
    return any(one.at >= since for one in said)


class _LogLine(msgspec.Struct, frozen=True):
    at: datetime


def bytes_below(directory: Path) -> int:
    """Sizes of all files below `directory`."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
