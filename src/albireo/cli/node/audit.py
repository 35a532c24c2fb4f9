"""`albireo audit`: export the audit records with their chain, and check an export offline."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pyarrow.compute as pc

from albireo.cli.node.audit_check import WORDS, BrokenExport, GoodExport, check, part
from albireo.cli.output import ExitCode, Failure, Output, printed, progress, say
from albireo.cli.place import FILE, data_option, find_data, runs
from albireo.cli.target import failure_of
from albireo.client import ClientError, connect
from albireo.codec.audit_chain import (
    FORMAT,
    AuditEntry,
    ExportEnd,
    ExportHeader,
    ExportLine,
    encode_line,
    first_head,
    next_head,
)
from albireo.codec.errors import DecodeError
from albireo.log import LogError, OsFileSystem, write_aside
from albireo.log.inspection import header_of, newest_snapshot
from albireo.log.store.store import StoreHeader
from albireo.machine.fold.people.audit import AuditChain
from albireo.machine.history.aggregate import TIME_LIMIT_NS
from albireo.model.status import AuditHead
from albireo.node.history.access import HistoryAccess
from albireo.node.history.errors import HistoryError
from albireo.node.history.query import TimeRange

EVERYTHING: Final = TimeRange(-TIME_LIMIT_NS, TIME_LIMIT_NS)


@click.group("audit")
def command() -> None:
    """Prove what is on record of orders and operators: export the audit records, check an export."""


@command.command("export")
@click.argument("file", type=FILE)
@data_option
@printed
def export(file: Path, data: Path | None) -> Output:
    """Write the audit records to FILE, one JSON object a line, each with the head of the chain there.

    If the node does not run, what it stored in files is exported.
    """
    directory = find_data(data)
    try:
        header = header_of(directory / "log")
        told = _told(directory)
        entries = _entries(directory, header, told.first_sequence)
    except (LogError, HistoryError, DecodeError, OSError) as error:
        raise Failure(f"the audit records can't be read: {error}", "look at the log with `albireo stores`") from error
    lines, heads = [], [first_head(bytes.fromhex(header.log_id)).hex()]
    begin = ExportHeader(
        albireo_audit=FORMAT,
        cluster=header.cluster,
        log_id=header.log_id,
        first_sequence=told.first_sequence,
        before=heads[0],
    )
    with progress("exporting", total=len(entries)) as advance:
        for number, one in enumerate(entries, start=1):
            heads.append(next_head(bytes.fromhex(heads[-1]), one).hex())
            lines.append(encode_line(ExportLine(number=number, entry=one, head=heads[-1])))
            advance(1, "")
    _compare(told, heads)
    end = ExportEnd(count=len(entries), head=heads[-1])
    try:
        write_aside(OsFileSystem(), file, [encode_line(begin), *lines, encode_line(end)])
    except OSError as error:
        raise Failure(f"{file} can't be written: {error}", "name a file in a directory that you may write") from error
    value = {"file": str(file), "log_id": header.log_id, "first_sequence": told.first_sequence}
    value |= {"count": end.count, "head": end.head}
    return Output(value, f"{file}: {end.count} entries since sequence {told.first_sequence}, head {end.head}")


def _told(directory: Path) -> AuditHead:
    """The chain as the running node has it, else as its newest snapshot does."""
    try:
        with connect(directory, is_pinned=True) as client:
            return client.status().audit
    except ClientError as error:
        if runs(directory):
            raise failure_of(error, directory) from error
        say("the node does not run: what is stored in files is exported")
    snapshot = newest_snapshot(directory / "log")
    chain = AuditChain.restore(snapshot.sections["audit"]) if snapshot is not None else AuditChain()
    if not chain:
        raise Failure("the files of the node tell no audit chain", "start the node, and export while it runs")
    return chain.told()


def _entries(directory: Path, header: StoreHeader, first_sequence: int) -> list[AuditEntry]:
    """Audit records from `first_sequence` on that are still in the log's own line; what was cut is left out."""
    if not first_sequence:
        return []
    table = HistoryAccess(directory).event_reader().events(EVERYTHING)
    rows = table.filter((pc.field("kind") == "audit") & (pc.field("sequence") >= first_sequence)).to_pylist()
    found: dict[int, AuditEntry] = {}
    for one in _read(rows):
        if header.history.epoch_of(one.sequence) not in (0, one.epoch):
            continue
        before = found.get(one.sequence)
        if before is None or before.epoch < one.epoch:
            found[one.sequence] = one
    return [found[sequence] for sequence in sorted(found)]


def _read(rows: Sequence[dict[str, Any]]) -> Iterator[AuditEntry]:
    return (AuditEntry(**{name: row[name] for name in AuditEntry.__struct_fields__}) for row in rows)


def _compare(told: AuditHead, heads: Sequence[str]) -> None:
    """Refuse to export what is not what the node has on record. Raises Failure."""
    if len(heads) <= told.count:
        raise Failure(
            f"the stored history has {len(heads) - 1} of {told.count} audit records since {told.first_sequence}",
            "if the node was asked something just now, export again in a moment; else the history lost some: export "
            "from the other member",
        )
    if told.count and heads[told.count] != told.head:
        raise Failure(
            f"the audit records in the stored history are not those of the log up to {told.sequence}",
            "keep a copy of the data directory; export from the other member and compare",
        )


@command.command("verify")
@click.argument("file", type=FILE)
@click.argument("second", type=FILE, required=False)
@click.option("--head", default=None, help="A head noted before, from `albireo status` or an export.")
@printed
def verify(file: Path, second: Path | None, head: str | None) -> Output:
    """Check an export, without a node; two: also where they part. Exit code 0 if it is whole, and two are equal.

    That a chain is whole proves little by itself: who changes an entry can compute all heads behind it again. A head
    noted earlier, in another place, proves that everything before it is what it was then.
    """
    first = _checked(file)
    answer: dict[str, Any] = {"count": len(first.entries), "head": first.head, "log_id": first.header.log_id}
    words = [f"{file}: whole, {len(first.entries)} entries, head {first.head}"]
    if head is not None:
        answer["noted_at"] = _noted(file, first, head.strip().lower())
        words.append(f"the noted head stands behind entry {answer['noted_at']}: all up to there is as it was")
    if second is not None:
        words.append(_parted(first, _checked(second), answer))
    return Output(answer, words, exit_code=ExitCode.FAILED if answer.get("part") else ExitCode.GOOD)


def _checked(file: Path) -> GoodExport:
    """Raises Failure."""
    try:
        found = check(file.read_bytes())
    except OSError as error:
        raise Failure(f"{file} can't be read: {error}", "name a file of `albireo audit export`") from error
    if isinstance(found, BrokenExport):
        raise Failure(
            f"{file}: line {found.line} is wrong: {WORDS[found.why]}",
            "export again from the node, and compare with other copies of this export",
            details={"line": found.line, "why": found.why},
        )
    return found


def _noted(file: Path, export: GoodExport, head: str) -> int:
    """Number of the entry behind which the noted head stands. Raises Failure."""
    if head not in export.heads:
        raise Failure(
            f"{file}: the noted head is not in the chain, though the chain is whole",
            "either the head is newer than the export or of another member's chain, or entries were changed and the "
            "heads computed again: compare with an export made when the head was noted",
        )
    return export.heads.index(head)


def _parted(first: GoodExport, second: GoodExport, answer: dict[str, Any]) -> str:
    if first.header.log_id != second.header.log_id:
        raise Failure("the two exports are of different logs", "compare exports of one node, or of one pair")
    found = part(first, second)
    answer["equal"] = found.equal
    if found.first is None and found.second is None:
        return f"both have the same {found.equal} entries"
    one, two = (None if some is None else msgspec.to_builtins(some) for some in (found.first, found.second))
    if found.first is None or found.second is None:
        answer["more"] = one or two
        return f"{found.equal} entries are equal; the {'second' if one is None else 'first'} has more behind them"
    answer["part"] = [one, two]
    return (
        f"{found.equal} entries are equal; then the two part: at {found.first.epoch}:{found.first.sequence} and "
        f"{found.second.epoch}:{found.second.sequence}. They are of two branches of the log, as after a "
        "forced promotion"
    )
