"""Metrics: figures of a node in the text format of Prometheus, version 0.0.4.

All has the labels `node`, that it is about, and `place`, that tells it. Nothing is said that is not known: without an
answer of the own member there is `albireo_up 0`, and what the face knows by itself.

Spec: prometheus.io, Exposition formats; Metric and label naming.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from albireo import __version__
from albireo.face.web.arrivals import CountedAnswers
from albireo.face.web.face import Face
from albireo.face.web.state import PlantState, Row
from albireo.face.web.words import ShownCase
from albireo.machine.pair.events import ACTING
from albireo.model.case import LifecycleStatus, Shelving
from albireo.model.instant import SECOND
from albireo.model.item import name_parts
from albireo.model.quality import BAD_CLASS, SEVERITY_SHIFT
from albireo.model.status import NodeStatus
from albireo.model.tree.node_row import NodeRow
from albireo.model.value import ValueType

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
FAMILIES: Final = {
    "build_info": "Version of the face.",
    "up": "1: the own member answers, and its state is heard.",
    "newest_value_timestamp_seconds": "Time at which the newest value was recorded.",
    "member_info": "State of this member.",
    "leads": "1: this member leads; a node that stands alone does.",
    "epoch": "Epoch of the log: one more for each takeover.",
    "log_committed_sequence": "Last record up to which all is committed.",
    "commit_lag_records": "Records that are not committed yet.",
    "pair_lag_records": "Records that the other member lacks.",
    "commit_delay_median_seconds": "From acquisition to commit, median of the last batches.",
    "commit_delay_p99_seconds": "From acquisition to commit, 99th percentile of the last batches.",
    "recording": "1: records are taken in.",
    "log_room_bytes": "Room that the log has still.",
    "log_size_bytes": "Size of the log on disk.",
    "sessions": "Number of those who are present.",
    "commands_open": "Orders that have not ended.",
    "parent_unreached_seconds": "Time since a member of the node above was heard.",
    "samples_committed_total": "Samples committed since the start.",
    "batches_not_taken_total": "Batches of producers that were not taken, by reason.",
    "adapter_connected": "1: the adapter is heard, and its device.",
    "adapter_silent_seconds": "Time since an adapter was heard.",
    "face_running": "1: the face runs.",
    "node_stale_seconds": "Time since another node was heard; 0: it is, +Inf: never.",
    "node_watermark_age_seconds": "Age up to which all of another node is here; +Inf: nothing is.",
    "node_behind_records": "Records of another node that are still to come.",
    "node_missing_records": "Records of another node that no log here will have.",
    "items": "Items, by quality; bad, too: no value yet.",
    "items_forced": "Forced items.",
    "cases": "Open cases that nothing withholds; priority 1: severity 800 and above, 2: 600.",
    "cases_withheld": "Open cases that are shelved, suppressed or out of service.",
    "pages": "Pages that are open here.",
    "watches": "Watches over HTTP that are open here.",
    "http_responses_total": "Answers of the face over HTTP, by status.",
    "pages_closed_total": "Pages that the face refused or closed, by code.",
    "actor_restarts_total": "Restarts of an actor.",
    "actor_cpu_seconds_total": "Processor time of an actor.",
    "item_value": "Value of an item in its own unit.",
    "item_quality_code": "OPC UA StatusCode of an item.",
}
"""Families by name, without `albireo_`: their meaning. The last two are told on demand."""

_CLASSES: Final = ("good", "uncertain", "bad")
_PRIORITIES: Final = ((800, "1"), (600, "2"), (0, "3"))
"""Least severity of each priority, as the page has them."""
_HOWS: Final = ("shelved", "suppressed", "out_of_service")


class ScrapedNode(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of the node."""

    status: NodeStatus | None
    """None: the own member does not answer."""
    tree: Sequence[NodeRow]
    actors: Sequence[Mapping[str, Any]]


class _Exposition:
    """Samples by family."""

    def __init__(self, face: Face) -> None:
        self._node = face.node
        self._place = face.member.place
        self._lines: dict[str, list[str]] = {name: [] for name in FAMILIES}

    def tell(self, name: str, value: float | None, /, **labels: str) -> None:
        """Add a sample; None: it is not known, and not told."""
        if value is not None:
            told = {"node": self._node, **labels, "place": self._place}
            named = ",".join(f'{key}="{escaped(one)}"' for key, one in told.items())
            self._lines[name].append(f"albireo_{name}{{{named}}} {number(value)}\n")

    def __bytes__(self) -> bytes:
        text = ""
        for name, lines in self._lines.items():
            if lines:
                kind = "counter" if name.endswith("_total") else "gauge"
                text += f"# HELP albireo_{name} {FAMILIES[name]}\n# TYPE albireo_{name} {kind}\n{''.join(lines)}"
        return text.encode(errors="replace")


def exposition(face: Face, answers: CountedAnswers, told: ScrapedNode) -> bytes:
    """The whole answer to a scrape."""
    text, state = _Exposition(face), face.state
    text.tell("build_info", 1, version=__version__)
    text.tell("up", told.status is not None and face.is_heard)
    text.tell("newest_value_timestamp_seconds", state.newest_ms / 1000 or None)
    if told.status is not None:
        _member(text, told.status)
        _below(text, told.status.wall_ns, told.tree)
    text.tell("log_room_bytes", numeric(state.row_of(f"{face.node}:core/log_room")))
    text.tell("log_size_bytes", numeric(state.row_of(f"{face.node}:core/log_bytes")))
    _plant(text, state)
    text.tell("pages", face.pages.total())
    text.tell("watches", face.watches.total())
    for status, count in sorted(answers.by_status.items()):
        text.tell("http_responses_total", count, code=str(status))
    for code, count in sorted(answers.by_close.items()):
        text.tell("pages_closed_total", count, code=str(code))
    for actor in told.actors:
        text.tell("actor_restarts_total", actor["restarts"], actor=actor["name"])
        text.tell("actor_cpu_seconds_total", actor["cpu_ns"] / SECOND, actor=actor["name"])
    return bytes(text)


def items_exposition(face: Face, rows: Sequence[Row]) -> bytes:
    """Values of single items."""
    text = _Exposition(face)
    for row in rows:
        text.tell("item_value", numeric(row), node=row.shown.node, item=row.name)
        text.tell("item_quality_code", row.value[2] if row.value else None, node=row.shown.node, item=row.name)
    return bytes(text)


def families_table() -> str:
    """The families as a table of the documentation."""
    return "\n".join(["| name | meaning |", "|---|---|", *(f"| `{name}` | {FAMILIES[name]} |" for name in FAMILIES)])


def leads(status: NodeStatus) -> bool:
    """Whether a member leads, as it says itself."""
    return status.pair is None or status.pair.state in ACTING


def role_of(status: NodeStatus) -> str:
    """State of a member in one word."""
    return status.role if status.pair is None else status.pair.state


def _member(text: _Exposition, status: NodeStatus) -> None:
    log, delay, nodes = status.log, status.acquire_to_commit_ms, status.nodes
    text.tell("member_info", 1, role=role_of(status))
    text.tell("leads", leads(status))
    text.tell("epoch", log.epoch)
    text.tell("log_committed_sequence", log.sequence)
    text.tell("commit_lag_records", max(0, log.end - log.sequence))
    text.tell("pair_lag_records", None if status.pair is None else status.pair.lag)
    text.tell("commit_delay_median_seconds", None if delay.p50 is None else delay.p50 / 1000)
    text.tell("commit_delay_p99_seconds", None if delay.p99 is None else delay.p99 / 1000)
    text.tell("recording", not log.admission)
    text.tell("sessions", status.sessions)
    text.tell("commands_open", status.commands_open)
    if nodes.above:
        text.tell("parent_unreached_seconds", _age_s(status.wall_ns, nodes.unreached_since_ns))
    text.tell("samples_committed_total", status.samples_committed)
    for reason in ("refused", "malformed", "repeated", "superseded"):
        text.tell("batches_not_taken_total", getattr(status, reason), reason=reason)
    for adapter in status.adapters:
        text.tell("adapter_connected", adapter.connected, adapter=adapter.name)
        text.tell("adapter_silent_seconds", adapter.silent_ms / 1000, adapter=adapter.name)
    for face in status.faces:
        text.tell("face_running", not face.trouble, face=face.name)


def _below(text: _Exposition, wall_ns: int, tree: Sequence[NodeRow]) -> None:
    for one in tree:
        text.tell("node_stale_seconds", _age_s(wall_ns, one.stale_since_ns), node=one.node)
        text.tell("node_watermark_age_seconds", _age_s(wall_ns, one.complete_to_ns), node=one.node)
        text.tell("node_behind_records", one.behind if one.behind >= 0 else None, node=one.node)
        text.tell("node_missing_records", one.missing, node=one.node)


def _age_s(wall_ns: int, since_ns: int | None) -> float:
    return 0.0 if since_ns is None else math.inf if not since_ns else max(0.0, (wall_ns - since_ns) / SECOND)


def _plant(text: _Exposition, state: PlantState) -> None:
    items = Counter((one.shown.node, _class_of(one)) for one in state.rows if not one.shown.is_retired)
    forced = Counter(name_parts(name)[0] for name in state.forced)
    open_cases = [one for one in state.cases if one.lifecycle_status is not LifecycleStatus.CLOSED]
    withheld = Counter((one.node, how) for one in open_cases if (how := _withheld(one)))
    cases = Counter((one.node, _priority(one), one.is_acked) for one in open_cases if not _withheld(one))
    for node in sorted({node for node, _ in items}):
        for quality in _CLASSES:
            text.tell("items", items[node, quality], node=node, quality=quality)
        text.tell("items_forced", forced[node], node=node)
        for how in _HOWS:
            text.tell("cases_withheld", withheld[node, how], node=node, how=how)
        for _, priority in _PRIORITIES:
            for acked in (False, True):
                count = cases[node, priority, acked]
                text.tell("cases", count, node=node, priority=priority, acked=str(acked).lower())


def _class_of(row: Row) -> str:
    return _CLASSES[BAD_CLASS if row.value is None else min(row.value[2] >> SEVERITY_SHIFT, BAD_CLASS)]


def _withheld(case: ShownCase) -> str:
    is_shelved = case.shelving is not Shelving.UNSHELVED
    marks = (is_shelved, case.is_suppressed, case.is_out_of_service)
    return next((how for how, is_so in zip(_HOWS, marks, strict=True) if is_so), "")


def _priority(case: ShownCase) -> str:
    return next(name for least, name in _PRIORITIES if case.severity >= least)


def numeric(row: Row | None) -> float | None:
    """Value of an item as a float; None: it has none, or it is a text."""
    if row is None or row.value is None or row.value[1] is None or row.shown.item.value_type is ValueType.STRING:
        return None
    return float(row.value[1])


def number(value: float) -> str:
    """A number as the format has it."""
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def escaped(text: str) -> str:
    """The value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
