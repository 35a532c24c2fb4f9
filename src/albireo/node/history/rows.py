"""Rows of gaps and events: what records of the log become in the stored history."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from albireo.codec.frame import FrameHeader
from albireo.codec.history import EVENTS, GAPS, Hole
from albireo.codec.record import Audited, CaseChanged, EpochGranted, GapFound, NodeStopped
from albireo.machine.history.declared import DeclaredItems, Row
from albireo.model.case import Cause
from albireo.model.value import Value

_WITH_MESSAGE: Final = (Cause.RAISED, Cause.ACTIVATED)
_JUDGED: Final = (*_WITH_MESSAGE, Cause.CLEARED)
BY_FORCED: Final = "judged by a forced value"
"""Begin of the detail of a judgement that a forced value brought about."""


def gaps_table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=GAPS)


def events_table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=EVENTS)


def worded(events: pa.Table, declared: DeclaredItems) -> pa.Table:
    """Events with `shown`: how people read the value of a case, if not by its digits or its text."""
    rows = zip(*(events[name].to_pylist() for name in ("item_id", "sequence", "value_f64")), strict=True)
    found = [None if row[0] is None or row[2] is None else declared.shown(*row) for row in rows]
    return events.append_column("shown", pa.array(found, pa.string()))


def hole_row(hole: Hole) -> Row:
    """Row of the gap that readers see in place of a hole."""
    where: Row = {"node_ns": hole.to_ns, "epoch": hole.behind.epoch, "sequence": hole.behind.sequence}
    what: Row = {"source": "history", "reason": hole.reason, "item_ids": [], "lost": None}
    return what | {"from_ns": hole.from_ns, "to_ns": hole.to_ns} | where


def _place(header: FrameHeader, index: int) -> Row:
    return {"node_ns": header.node_ns, "epoch": header.epoch, "sequence": header.first_sequence + index}


def gap_row(header: FrameHeader, index: int, gap: GapFound) -> Row:
    return {
        "source": gap.source,
        "reason": gap.reason,
        "from_ns": gap.from_ns,
        "to_ns": gap.to_ns,
        "item_ids": list(gap.item_ids),
        "lost": gap.lost,
        **_place(header, index),
    }


def event(header: FrameHeader, index: int, *, kind: str, action: str, **more: object) -> Row:
    row: Row = {
        "at_ns": header.node_ns,
        "kind": kind,
        "action": action,
        "user": "",
        "principal": "",
        "speaker": "",
        "subject": "",
        "detail": "",
    }
    return row | _place(header, index) | more


def act_row(header: FrameHeader, index: int, record: Audited | EpochGranted | NodeStopped) -> Row:
    match record:
        case Audited(at_ns=at_ns, user=user, action=action, subject=subject, detail=detail):
            more: Row = {
                "at_ns": at_ns,
                "user": user,
                "principal": record.principal,
                "speaker": record.speaker,
                "subject": subject,
                "detail": detail,
            }
            return event(header, index, kind="audit", action=action) | more
        case EpochGranted(epoch=epoch, node=node, reason=reason):
            return event(
                header, index, kind="control", action="epoch_granted", subject=node, detail=f"{epoch}: {reason}"
            )
        case NodeStopped(at_ns=at_ns):
            return event(header, index, kind="control", action="node_stopped") | {"at_ns": at_ns}


def case_row(header: FrameHeader, index: int, record: CaseChanged) -> Row:
    case = record.case
    return event(header, index, kind="case", action=record.cause) | {
        "at_ns": case.changed_ns,
        "user": case.actor,
        "detail": _detail(record),
        "case_id": case.case_id or header.first_sequence + index,
        "item_id": case.item_id,
        "condition": str(case.condition),
        "severity": case.severity,
        "lifecycle_status": str(case.lifecycle_status),
        "is_active": case.is_active,
        "is_acked": case.is_acked,
        "is_latched": case.is_latched,
        "shelving": str(case.shelving),
        "is_suppressed": case.is_suppressed,
        "is_out_of_service": case.is_out_of_service,
        "is_chattering": case.is_chattering,
        "activations": case.activations,
        "raised_ns": case.raised_ns,
        **_value_columns(case.value),
    }


def _detail(record: CaseChanged) -> str:
    case = record.case
    text = case.message or case.comment if record.cause in _WITH_MESSAGE else case.comment
    is_judged_forced = case.is_forced and record.cause in _JUDGED
    return "; ".join(part for part in (BY_FORCED if is_judged_forced else "", text) if part)


def _value_columns(value: Value | None) -> Row:
    if value is None:
        return {"value_f64": None, "value_str": None}
    if isinstance(value, str):
        return {"value_f64": None, "value_str": value}
    return {"value_f64": float(value), "value_str": None}
