"""The answer of a store to the code that opens it, as plain JSON: positions, frames, folds, stored values.

`told` is asked twice of each kept store: by the release that wrote it, whose answer is kept beside it, and by every
later one, whose answer must be the same. Names in the answer are those of formats and of commands, never those of
modules or classes. This is the only module of the kept stores that knows the inside of the product, so that it alone
follows when something is moved.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import msgspec
from click.testing import CliRunner

from albireo.cli import cli
from albireo.codec.frame import Frame, encode, frames
from albireo.codec.record import Kind, Stream, decode_records
from albireo.codec.reference import is_reference
from albireo.log import OsFileSystem, StoreIdentity
from albireo.log.log import Log
from albireo.log.segment.recovery import RecoveryReport
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.state_piece import WHOLE, StateAsked
from albireo.model.feature import FEATURE_LEVEL
from albireo.model.instant import MS
from albireo.model.position import Position
from albireo.node.core.level_check import check_level
from albireo.node.member.marks import Marks
from albireo.node.membership.private_log import PrivateLog
from albireo.node.vote.store import VoterDisk

CHUNK_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 24
"""In front of the JSON of a voter's store."""
REPORTED: Final = ("is_new", "was_clean", "committed_sequence", "end_sequence", "corrupt", "torn")
"""Fields of the recovery report that do not depend on how recovery works."""
COLUMNS: Final = {
    "samples": "item_id source_ns node_ns value_f64 value_i64 value_str quality epoch sequence",
    "partials": "item_id bucket_ns rows good_rows first_ns first_value first_quality last_ns last_value last_quality "
    "integral good_ns uncertain_ns bad_ns minimum minimum_ns maximum maximum_ns total sequence_max",
    "gaps": "source reason from_ns to_ns item_ids lost node_ns epoch sequence",
    "events": 'at_ns kind action "user" subject detail case_id item_id condition severity lifecycle_status is_active '
    "is_acked is_latched shelving is_suppressed is_out_of_service is_chattering activations raised_ns value_f64 "
    "value_str node_ns epoch sequence",
    "items": "item_id node name value_type unit description adapter",
}
"""Columns of the stored tables as docs/formats/history.md has them; a later release may add some."""
AGGREGATES: Final = ("raw", "average", "max", "last")
"""`last` is asked for last, because texts have it too."""
INTERVALS: Final = 8
ROWS_SHOWN: Final = 100


def told_of(home: Path, asked: Sequence[str]) -> dict[str, Any]:
    """Answers of all stores below `home`, by their directory. They are opened: a second call finds them changed.

    Args:
        asked: full names of items whose stored values are wanted one by one.
    """
    nodes = sorted(one.parent for one in home.glob("*/log"))
    beside = {f"{one.name} {two.name}": compared(one, two) for one, two in combinations(nodes, 2)}
    voters = {one.parents[1].name: voter_told(one, voter_of(one)) for one in sorted(home.glob("*/voters/*"))}
    found = {"compared": beside, "nodes": {one.name: told(one, asked) for one in nodes}, "voters": voters}
    answer = plain(found)
    assert isinstance(answer, dict)
    return answer


def told(data: Path, asked: Sequence[str]) -> dict[str, Any]:
    """The answer of one node's data directory."""
    found: dict[str, Any] = {
        "store": store_of(data),
        "quarantine": command("quarantine", "--data", str(data))["quarantined"],
    }
    if (data / "history" / "manifest.json").exists():
        found["history"] = history_of(data, asked)
    log, report = opened(data / "log")
    private = None
    try:
        found["recovery"] = reported(report)
        if (data / "private").is_dir():
            private, report = opened(data / "private")
            private.commit(private.durable)
            found["private"] = {"recovery": reported(report), "frames": counted(committed(private))}
        found |= log_of(log, private)
    finally:
        for one in (log, private):
            if one is not None:
                one.close(clean=False)
    if (data / "pair.json").exists():
        found["marks"] = marks_of(data)
    return found


def command(*arguments: str, exit_codes: Sequence[int] = (0,)) -> dict[str, Any]:
    """The JSON that `albireo` answers."""
    ran = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    assert ran.exit_code in exit_codes, ran.output
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def store_of(data: Path) -> dict[str, Any]:
    """The store as `albireo stores` sees it, which takes two: it is compared with itself."""
    answer = command("stores", str(data), str(data), exit_codes=(1,))
    return {name: value for name, value in answer["stores"][0].items() if name not in ("directory", "pid")}


def compared(first: Path, second: Path) -> dict[str, Any]:
    """The verdict of `albireo stores` on two directories."""
    answer = command("stores", str(first), str(second), exit_codes=(0, 1))
    return {name: answer[name] for name in ("kind", "common", "newest")}


def owner_of(directory: Path) -> StoreIdentity:
    """The cluster and the place that the log in `directory` belongs to."""
    seen = store_of(directory.parent)
    header = seen["header"] if directory.name == "log" else seen["private"]["header"]
    return StoreIdentity(cluster=header["cluster"], node=header["node"])


def opened(directory: Path) -> tuple[Log, RecoveryReport]:
    """The log in `directory`, as its owner opens it."""
    return Log.open(directory, owner_of(directory))


def reported(report: RecoveryReport) -> dict[str, Any]:
    builtins = msgspec.to_builtins(report)
    return {name: builtins[name] for name in REPORTED}


def committed(log: Log) -> list[Frame]:
    return list(log.replay(log.begin_sequence - 1, log.committed.sequence))


def uncommitted(log: Log) -> list[Frame]:
    found: list[Frame] = []
    while (after := found[-1].header.last_sequence if found else log.committed.sequence) < log.end.sequence:
        found += [Frame(*one) for one in frames(log.read_appended(after, CHUNK_BYTES))]
    return found


def log_of(log: Log, private: Log | None) -> dict[str, Any]:
    """Frames of the log, and its folds: replayed from the first frame on, and from each snapshot on."""
    if not log.header.node.endswith("]"):
        log.commit(log.durable)  # Nobody else has to have it.
    damages: list[str] = []
    join = None
    if private is not None:
        join = PrivateLog(
            private, log, frozenset(), 1 << 20, lambda: FEATURE_LEVEL, lambda why: damages.append(str(why))
        )
    stored, tail = committed(log), uncommitted(log)
    whole = stored if join is None else [join.whole(one) for one in stored]
    snapshots = list(log.load_snapshots())
    begun = (Folds(), 0)
    if log.begin_sequence > 1:
        begun = (Folds.restore(snapshots[-1].sections, snapshots[-1].log_time // MS), snapshots[-1].position.sequence)
    folds = replayed(*begun, whole)
    check_level(folds, tail, FEATURE_LEVEL)
    resumed = [
        replayed(Folds.restore(one.sections, one.log_time // MS), one.position.sequence, whole) for one in snapshots
    ]
    found = {
        "begin": log.begin_sequence,
        "committed": log.committed,
        "end": log.end,
        "frames": counted(stored),
        "uncommitted": counted(tail),
        "snapshots": [
            {"position": one.position, "gives_the_same": known(again, one.sections) == known(folds, one.sections)}
            for one, again in zip(snapshots, resumed, strict=True)
        ],
        "folds": folds_of(folds, log.committed),
    }
    if join is not None:
        references = [one for one in stored if is_reference(one)]
        found["references"] = {
            "all": len(references),
            "joined": sum(is_reference(one) and not is_reference(two) for one, two in zip(stored, whole, strict=True)),
            "whole": digest(encode(one) for one in whole),
            "damages": damages,
        }
    return found


def replayed(folds: Folds, after: int, stored: Sequence[Frame]) -> Folds:
    for frame in stored:
        if frame.header.first_sequence > after:
            folds.replay(frame)
    return folds


def counted(stored: Sequence[Frame]) -> dict[str, Any]:
    """Number of records by stream, kind and tag, and every byte of the frames in one digest."""
    kinds: Counter[str] = Counter()
    records: Counter[str] = Counter()
    for frame in stored:
        header = frame.header
        kinds[f"{Stream(header.stream).name} {Kind(header.kind).name}".lower()] += header.record_count
        if header.kind == Kind.RECORDS:
            decoded = decode_records(frame.body, header.record_count)
            records.update(str(type(one).__struct_config__.tag) for one in decoded)
    return {
        "count": len(stored),
        "records": sum(kinds.values()),
        "by_stream_and_kind": dict(sorted(kinds.items())),
        "by_record": dict(sorted(records.items())),
        "sha256": digest(encode(one) for one in stored),
    }


def folds_of(folds: Folds, at: Position) -> dict[str, Any]:
    """The state in words, and every byte of it in digests of the sections that a snapshot of it would have."""
    asked = StateAsked(since=WHOLE, epoch=at.epoch, position=at, previous=at, bytes_max=1 << 30)
    piece = folds.state_piece(asked)
    assert piece is not None
    state, batches = piece.message, piece.raw
    return {
        "log_time_ms": folds.log_time_ms,
        "feature_level": folds.feature_level,
        "unreadable": folds.unreadable,
        "items": {
            one.name: [one.item_id, one.value, one.quality, one.source_ns, one.node_ns]
            for one in folds.readings(state.items)
        },
        "declared_sha256": digest(msgspec.json.encode(one) for one in state.items),
        "values_sha256": digest(map(bytes, batches)),
        "cases": state.cases,
        "receipts": state.receipts,
        "sections": {name: [len(section), digest([section])] for name, section in sorted(folds.snapshot().items())},
    }


def marks_of(data: Path) -> dict[str, Any]:
    marks = Marks(data)
    return {
        "drained_since_ns": marks.maintenance_since_ns,
        "at_risk_since_ns": marks.at_risk_since_ns,
        "cases": marks.cases,
        "orders": marks.actions,
    }


def history_of(data: Path, asked: Sequence[str]) -> dict[str, Any]:
    """The stored history as the commands answer it while no node runs, so from files alone."""
    manifest = json.loads((data / "history" / "manifest.json").read_text())
    by_kind = Counter(f"{one['kind']}, level {one['level']}" for one in manifest["files"])
    samples = [one for one in manifest["files"] if one["kind"] == "samples"]
    first = min(one["min_source_ns"] for one in samples)
    last = max(one["max_source_ns"] for one in samples)
    return {
        "position": manifest["position"],
        "files": dict(sorted(by_kind.items())),
        "retired": len(manifest["retired"]),
        "tables": {table: table_of(data, table, columns) for table, columns in COLUMNS.items()},
        "events": events_of(data),
        "items": {name: values_of(data, name, first, last) for name in asked},
    }


def table_of(data: Path, table: str, columns: str) -> dict[str, Any]:
    """Every row of every file, in one digest."""
    wanted = ", ".join(columns.split())
    names = [one.strip('"') for one in columns.split()]
    rows = command("history", "--data", str(data), "--sql", f"SELECT {wanted} FROM {table} ORDER BY ALL")["rows"]
    return {"rows": len(rows), "sha256": digest(json.dumps([row[one] for one in names]).encode() for row in rows)}


def events_of(data: Path) -> list[str]:
    span = ("--from", "2020-01-01", "--limit", "1000000", "--to", "2100-01-01")
    rows = command("events", "--data", str(data), *span)["events"]
    return [" ".join(str(row[name] or "-") for name in ("sequence", "kind", "action", "item", "user")) for row in rows]


def values_of(data: Path, name: str, first_ns: int, last_ns: int) -> dict[str, Any]:
    """An item's stored values, raw and per interval."""
    begin, end = first_ns // 10**9, last_ns // 10**9 + 1
    span = ("--from", moment(begin), "--to", moment(end), "--every", f"{max(1, (end - begin) // INTERVALS)}s")
    found: dict[str, Any] = {}
    for aggregate in AGGREGATES:
        options = ("--data", str(data), *span, "--aggregate", aggregate)
        answer = command("history", name, *options, exit_codes=(0, 1))
        found[aggregate] = answer["error"] if "error" in answer else columns_of(answer["rows"])
    found["gaps"] = answer["gaps"]
    return found


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Column by column; of many rows only their digest."""
    for row in rows:
        row.pop("quality_name", None)
    if len(rows) > ROWS_SHOWN:
        return {"rows": len(rows), "sha256": digest(json.dumps(list(row.values())).encode() for row in rows)}
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def voter_of(folder: Path) -> tuple[str, str]:
    """Name and cluster of the voter with the store in <data>/voters/<node>."""
    kept = json.loads((folder / "store.a").read_bytes()[HEAD_BYTES:].rstrip(b"\0"))
    return kept["voter"], kept["store"]["cluster"]


def voter_told(folder: Path, owner: tuple[str, str]) -> dict[str, Any]:
    """Its promises."""
    disk = VoterDisk(OsFileSystem(), folder.parents[1], folder.name, *owner)
    return {
        "store": disk.store,
        "repaired": disk.mirrored.repaired_copies,
        "is_damaged": disk.mirrored.is_damaged,
    }


def plain(found: Any) -> Any:
    """The same value as JSON gives it back."""
    return json.loads(msgspec.json.encode(found))


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of all parts, each with its length before it."""
    whole = hashlib.sha256()
    for one in parts:
        whole.update(len(one).to_bytes(8) + one)
    return whole.hexdigest()


def known(folds: Folds, sections: Mapping[str, bytes]) -> dict[str, bytes]:
    """The folds as sections, without those that the snapshot they resume from is older than (ADR-0148, ADR-0150).

    Without an audit chain it is one of 0.1.0, whose conditions were judged by other rules (ADR-0163, ADR-0164).
    """
    later = {"audit", "heard"} - sections.keys()
    if "audit" in later:
        later |= {"conditions"}
    return {name: one for name, one in folds.snapshot().items() if name not in later}


def differences(wanted: Any, found: Any, place: str = "") -> list[str]:
    """Places where `found` is not as `wanted`. A key that only `found` has is none: a later release may add it."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        lacking = [f"{place}/{name} is gone" for name in wanted if name not in found]
        both = (differences(wanted[name], found[name], f"{place}/{name}") for name in wanted if name in found)
        return lacking + [one for some in both for one in some]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [one for index, pair in pairs for one in differences(*pair, f"{place}/{index}")]
    if isinstance(wanted, float) and isinstance(found, float) and math.isclose(wanted, found, rel_tol=1e-12):
        return []
    return [] if type(wanted) is type(found) and wanted == found else [f"{place}: {found!r}, it was {wanted!r}"]
