"""Cases: the table of open cases, folded from the records of stream CASES, and the proposals that become those records.

Not done here: judging (`conditions`), the transitions of one case (`transitions`), appending (CORE).

The idea: `conditions` says which conditions hold, the records say which were noted. `propose` yields the difference,
at most so many records per call, so 20,000 cases at once are many short turns. A proposal counts as noted as soon as it
is handed out (the *appended* view); the table changes when its record is committed and folded (the *committed* view,
the only view that readers see). After a restart the same comparison yields exactly the records that are missing.

A rule whose record is on its way gets no other proposal before that is committed: states are compared, so waiting
loses nothing, and a case has its number before any later record of it.

Invariants
    at most one open case per rule (item x condition)
    `_ahead` holds the rules with records on their way, and nothing after a restart
    columns describe the appended view: `is_active`, ... of the last record handed out or folded

Spec: ADR-0052; OPC UA Part 9, 5.8.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import CaseChanged
from albireo.codec.slices import read_slices, sliced, unsliced
from albireo.machine.fold.alarms import transitions as t
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.flood import Flood, FloodMetrics, FloodSnapshot
from albireo.machine.fold.alarms.rules import NotedRules
from albireo.machine.fold.columns import NEVER
from albireo.machine.table.shape import TableShape
from albireo.machine.table.table import Table
from albireo.model.case import Action, Case, LifecycleStatus
from albireo.model.instant import LogTime, WallTime
from albireo.model.item import AlarmSettings, Condition
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.settings import AlarmConfig

PROPOSED_MAX: Final = 500
"""Records per call of `propose` or `act`: what one turn of CORE can make and encode within a few milliseconds."""
EDITS_MAX: Final = 2_000
"""Open cases that one call of `propose` compares with their settings, of those whose item was declared anew."""
CLOSED_MAX: Final = 10_000
"""Closed cases remembered for state followers; one further behind takes a snapshot."""
SHOWN_MAX: Final = 100_000
"""Most open cases of another node that are shown: five times as many as a node is built for."""
CASES: Final = TableShape(
    "cases",
    Case,
    lambda one: one.case_id,
    SHOWN_MAX,
    gone_max=CLOSED_MAX,
    is_over=lambda one: one.lifecycle_status is LifecycleStatus.CLOSED,
    is_kept_above=True,
)

Rows = NDArray[np.intp]


class CaseCounters(msgspec.Struct):
    """Counts of records that the fold could not use."""

    unknown: int = 0
    """Records of rules that no item declares."""


class _CasesHead(msgspec.Struct, frozen=True, array_like=True):
    """First slice of a snapshot; after it comes the table."""

    flood: FloodSnapshot
    counters: CaseCounters


class Cases:
    """The fold and its proposals."""

    def __init__(self, conditions: Conditions, config: AlarmConfig | None = None) -> None:
        self._conditions = conditions
        self._config = config or AlarmConfig()
        self._noted = NotedRules()
        self.table = Table(CASES)
        """Open cases of the committed view, and those closed lately, for viewers."""
        self._open: dict[int, Case] = {}
        """Open cases of the committed view, by rule row."""
        self._ahead: dict[int, Case] = {}
        """Cases of the appended view, by rows of the rules with records on their way."""
        self._acking: tuple[t.OperatorAsked, deque[tuple[int, int]]] | None = None
        """Rest of an ACK_ALL: its request, and the case ids with their activations that are still to be done."""
        self._redefined: set[int] = set()
        """Rows whose open case may differ from the settings of its item."""
        self.messages: dict[int, str] = {}
        """Text of the node on an item, by its id, for cases that become active."""
        self._unshelve_at = NEVER
        self._flood = Flood()
        self._looked_at = -1
        """Value of `Conditions.changes` at which nothing was left to propose."""
        self.counters = CaseCounters()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Case]:
        """Open cases, oldest first."""
        return iter(sorted(self.table, key=lambda case: case.case_id))

    def find(self, case_id: int) -> Case | None:
        """The open case with this number."""
        return self.table.get(case_id)

    def _row_of(self, case_id: int) -> int | None:
        """Rule row of an open case."""
        case = self.table.get(case_id)
        return None if case is None else self._conditions.row_of(case.item_id, case.condition)

    def find_rule(self, item_id: int, condition: Condition) -> Case | None:
        row = self._conditions.row_of(item_id, condition)
        return None if row is None else self._open.get(row)

    def closed(self) -> Iterator[Case]:
        """Cases closed lately, at most CLOSED_MAX, in the order of their closing."""
        return self.table.last_words()

    def metrics(self, log_time: LogTime) -> FloodMetrics:
        """Alarm load at `log_time`."""
        return self._flood.metrics(log_time, self._conditions)

    @property
    def unacked_count(self) -> int:
        return self._flood.unacked_count

    def fold(self, changed: CaseChanged, sequence: int) -> Case | None:
        """Fold a committed record.

        Returns:
            The case with its number, None if its rule is unknown (counted).
        """
        case = changed.case
        row = self._conditions.row_of(case.item_id, case.condition)
        if row is None:
            self.counters.unknown += 1
            return None
        if not case.case_id:
            case = msgspec.structs.replace(case, case_id=sequence)
        self._grow()
        self._note_committed(row, case, sequence)
        self._flood.fold(row, case, changed.cause, self._conditions.log_time)
        on_way = int(self._noted.on_way[row])
        if on_way > 1:
            self._noted.on_way[row] = on_way - 1
            ahead = self._ahead[row]
            if not ahead.case_id:
                self._ahead[row] = msgspec.structs.replace(ahead, case_id=case.case_id)
        else:
            self._noted.on_way[row] = 0
            self._ahead.pop(row, None)
            self._note(row, case)
        self._looked_at = -1
        return case

    def redefined(self, item_ids: Iterable[int]) -> None:
        """These items are declared anew, after `Conditions.fold_items`: their open cases follow the settings."""
        rows = (row for item_id in item_ids for row in self._conditions.rows_of(item_id).tolist())
        self._redefined.update(row for row in rows if row in self._open or row in self._ahead)

    def concerns(self, item_id: int) -> bool:
        """True: a case of this item is open, on its way, or about to be raised; in the appended view."""
        self._grow()
        rows, noted = self._conditions.rows_of(item_id), self._noted
        is_wrong = self._conditions.is_active()[rows] | self._conditions.rules.raw[rows]
        return bool((noted.is_open[rows] | (noted.on_way[rows] > 0) | is_wrong).any())

    def forget(self, rows: Rows, sequence: int) -> None:
        """Forget the rules of items that the record `sequence` forgot, and whatever is open or on its way of them."""
        self._grow()
        for row in rows.tolist():
            case = self._open.pop(row, None)
            if case is not None:
                self.table.remove(case.case_id, sequence)
            self._ahead.pop(row, None)
            self._redefined.discard(row)
        self._noted.clear(rows)
        self._unshelve_at = int(self._noted.unshelve_at.min())
        self._flood.forget(rows)

    def _note_committed(self, row: int, case: Case, sequence: int) -> None:
        before = self._open.get(row)
        if before is not None and before.case_id != case.case_id:
            self.table.remove(before.case_id, sequence)
        self.table.put(case, sequence)
        if case.lifecycle_status is LifecycleStatus.CLOSED:
            self._open.pop(row, None)
        else:
            self._open[row] = case

    def _note(self, row: int, case: Case | None) -> None:
        """`case` is the appended view of this rule (None: it has no case)."""
        noted = self._noted
        is_open = case is not None and case.lifecycle_status is not LifecycleStatus.CLOSED
        noted.is_open[row] = is_open
        noted.is_active[row] = is_open and case is not None and case.is_active
        noted.is_suppressed[row] = is_open and case is not None and case.is_suppressed
        noted.is_chattering[row] = is_open and case is not None and case.is_chattering
        unshelve_at = case.unshelve_at if is_open and case is not None else None
        if unshelve_at is not None or noted.unshelve_at[row] != NEVER:
            noted.unshelve_at[row] = NEVER if unshelve_at is None else min(unshelve_at, NEVER)
            self._unshelve_at = int(noted.unshelve_at.min())

    def _grow(self) -> None:
        missing = self._conditions.count - self._noted.count
        if missing > 0:
            self._noted.add(missing)

    def deadline(self) -> LogTime | None:
        """Log time at which the next shelve ends."""
        return None if self._unshelve_at == NEVER else LogTime(self._unshelve_at)

    def propose(self, log_time: LogTime, wall_ns: WallTime, limit: int = PROPOSED_MAX) -> list[CaseChanged]:
        """Records that bring the noted state nearer to the judged one, at most `limit`; call again until none come.

        CORE appends all of them in this order, or calls `drop_pending`.
        """
        found = self._propose_acks(wall_ns, limit)
        is_due = log_time >= self._unshelve_at
        if len(found) >= limit or (self._looked_at == self._conditions.changes and not is_due):
            return found
        self._grow()
        rows, is_rest = self._differing(log_time, limit - len(found))
        for row in rows.tolist():
            found.append(self._handed_out(row, self._next(row, log_time, wall_ns)))
        if not (is_rest or len(self._redefined) > EDITS_MAX):
            self._looked_at = self._conditions.changes
        return found

    def _differing(self, log_time: LogTime, limit: int) -> tuple[Rows, bool]:
        """Rows of rules whose state must be noted, and whether more are left."""
        noted, conditions = self._noted, self._conditions
        count = conditions.count
        is_open = noted.is_open[:count]
        differs = conditions.is_active() != noted.is_active[:count]
        differs |= is_open & (conditions.is_suppressed() != noted.is_suppressed[:count])
        differs |= is_open & (conditions.is_chattering() != noted.is_chattering[:count])
        differs |= noted.unshelve_at[:count] <= log_time
        differs[self._edited()] = True
        rows = np.flatnonzero(differs & (noted.on_way[:count] == 0))
        return rows[:limit], len(rows) > limit

    def _edited(self) -> list[int]:
        """Rows, of EDITS_MAX looked at, whose open case differs from the settings of its item."""
        looked_at = [row for row in sorted(self._redefined)[:EDITS_MAX] if row not in self._ahead]
        edited = [row for row in looked_at if self._edit_at(row) is not None]
        self._redefined.difference_update(set(looked_at).difference(edited))
        return edited

    def _edit_at(self, row: int) -> t.Redefined | t.ItemRetired | None:
        """Event that brings the open case of a rule to the settings of its item; None: none is needed."""
        case, conditions = self._open.get(row), self._conditions
        if case is None or row not in self._redefined:
            return None
        is_retired = conditions.item_at(row).is_retired
        return t.edit_of(case, self._settings_at(row) if conditions.is_enabled_at(row) else None, is_retired=is_retired)

    def _next(self, row: int, log_time: LogTime, wall_ns: WallTime) -> CaseChanged:
        """The next record of this rule: silences before activity, so that they hold for a new alarm."""
        conditions = self._conditions
        case = self._open.get(row)
        if case is None:
            return self._raised(row)
        is_chattering = bool(conditions.chatter.flips.is_chattering[row])
        event: t.Event
        if (edit := self._edit_at(row)) is not None:
            event = edit
        elif case.unshelve_at is not None and case.unshelve_at <= log_time:
            event = t.ShelveEnded()
        elif case.is_suppressed != self._is_suppressed_at(row):
            event = t.SuppressionEnded() if case.is_suppressed else t.SuppressionBegan()
        elif case.is_chattering != is_chattering and (case.is_active or case.is_chattering):
            # A case that begins to chatter is noted as active first: it is held active from here on.
            event = t.ChatterBegan() if is_chattering else t.ChatterEnded()
        else:
            cleared = t.Cleared(row in conditions.rules.by_forced)
            return self._stepped(case, cleared if case.is_active else self._activated(row), self._at_ns(row))
        return self._stepped(case, event, wall_ns)

    def _raised(self, row: int) -> CaseChanged:
        return t.raised(
            self._conditions.item_at(row).item_id,
            self._conditions.condition_at(row),
            self._activated(row),
            is_suppressed=self._is_suppressed_at(row),
            at_ns=self._at_ns(row),
        )

    def _activated(self, row: int) -> t.Activated:
        settings, item_id = self._settings_at(row), int(self._conditions.item_at(row).item_id)
        return t.Activated(
            value=self._conditions.value_at(row),
            severity=settings.severity,
            is_latched=settings.is_latched,
            is_chattering=bool(self._conditions.chatter.flips.is_chattering[row]),
            message=self.messages.get(item_id, ""),
            is_forced=row in self._conditions.rules.by_forced,
        )

    def _settings_at(self, row: int) -> AlarmSettings:
        return self._conditions.item_at(row).item.alarm or _NO_ALARMS

    def _is_suppressed_at(self, row: int) -> bool:
        conditions = self._conditions
        return bool(conditions.watched.is_suppressed[conditions.rules.item[row]])

    def _at_ns(self, row: int) -> WallTime:
        return WallTime(int(self._conditions.rules.at_ns[row]))

    def _stepped(self, case: Case, event: t.Event, at_ns: WallTime) -> CaseChanged:
        changed = t.step(case, event, at_ns)
        assert isinstance(changed, CaseChanged), "only operators are refused"
        return changed

    def _handed_out(self, row: int, changed: CaseChanged) -> CaseChanged:
        """Take `changed` into the appended view."""
        self._ahead[row] = changed.case
        self._noted.on_way[row] += 1
        self._note(row, changed.case)
        return changed

    def drop_pending(self) -> None:
        """Records handed out will not be appended: the appended view falls back to the committed view.

        The rest of an ACK_ALL goes with them: who asked for it was told that the lead is gone.
        """
        for row in self._ahead:
            self._noted.on_way[row] = 0
            self._note(row, self._open.get(row))
        self._ahead.clear()
        self._redefined.update(self._open)
        self._acking = None
        self._looked_at = -1

    def act(self, asked: ActionAsked, log_time: LogTime, wall_ns: WallTime) -> list[CaseChanged] | Refusal:
        """An operator's action as records to append, or why it is refused.

        ACK_ALL gives its first slice; `propose` yields the rest (forgotten by a crash: the operator sees what is left).
        """
        refused = t.text_refused(asked)
        if refused is not None:
            return refused
        if asked.action is Action.ACK_ALL:
            waiting = deque((case.case_id, case.activations) for case in self if t.asks(case))
            self._acking = (t.OperatorAsked(action=asked.action, user=asked.user, comment=asked.comment), waiting)
            acked = self._propose_acks(wall_ns, PROPOSED_MAX)
            return acked or t.not_possible("no case waits to be acknowledged", "nothing is left to do")
        self._grow()
        found = self._target(asked, wall_ns)
        if isinstance(found, Refusal):
            return found
        row, case = found
        if (passed := t.activation_passed(case, asked)) is not None:
            return passed
        unshelve_at = t.unshelve_time(asked, self._config.shelve_max_ms, log_time)
        if isinstance(unshelve_at, Refusal):
            return unshelve_at
        event = t.OperatorAsked(action=asked.action, user=asked.user, comment=asked.comment, unshelve_at=unshelve_at)
        changed = t.step(case, event, wall_ns)
        return changed if isinstance(changed, Refusal) else [self._handed_out(row, changed)]

    def _target(self, asked: ActionAsked, wall_ns: WallTime) -> tuple[int, Case] | Refusal:
        """Rule row and case (appended view) that the operator means."""
        if asked.case_id is not None:
            row = self._row_of(asked.case_id)
            if row is None:
                remedy = "list the open cases; it may have closed meanwhile"
                return Refusal(RefusalCode.UNKNOWN_NAME, f"no open case {asked.case_id}", remedy)
        elif asked.item_id is not None and asked.condition is not None:
            row = self._conditions.row_of(asked.item_id, asked.condition)
            if row is None or (row not in self._open and not self._conditions.is_enabled_at(row)):
                cause = f"no {asked.condition} alarm on item {asked.item_id}"
                return Refusal(RefusalCode.UNKNOWN_NAME, cause, "set its limit in the item table")
        else:
            cause = "neither a case nor an item with a condition is named"
            return Refusal(RefusalCode.MALFORMED, cause, "name one of them")
        case = self._ahead.get(row) or self._open.get(row)
        if case is not None and case.lifecycle_status is LifecycleStatus.CLOSED:
            return t.not_possible("it is just being closed", "nothing is left to do")
        if case is not None:
            raising = Refusal(RefusalCode.NOT_YET, "it is just being raised", "ask again in a moment")
            return (row, case) if case.case_id else raising
        if asked.action not in (Action.SHELVE, Action.SHELVE_ONCE, Action.OUT_OF_SERVICE):
            return t.not_possible("it has no open case", "only shelving and taking out of service need none")
        return row, self._reserved(row, asked.condition or self._conditions.condition_at(row), wall_ns)

    def _reserved(self, row: int, condition: Condition, wall_ns: WallTime) -> Case:
        return t.reserved(
            self._conditions.item_at(row).item_id,
            condition,
            self._settings_at(row).severity,
            is_suppressed=self._is_suppressed_at(row),
            at_ns=wall_ns,
        )

    def _propose_acks(self, wall_ns: WallTime, limit: int) -> list[CaseChanged]:
        found: list[CaseChanged] = []
        while self._acking is not None and len(found) < limit:
            event, waiting = self._acking
            if not waiting:
                self._acking = None
                break
            case_id, activations = waiting.popleft()
            row = self._row_of(case_id)
            case = None if row is None else self._ahead.get(row) or self._open.get(row)
            if row is None or case is None or case.lifecycle_status is LifecycleStatus.CLOSED:
                continue
            if case.activations != activations or not t.asks(case):
                continue  # Nobody who asked has seen a later activation.
            changed = t.step(case, event, wall_ns)
            if isinstance(changed, CaseChanged):
                found.append(self._handed_out(row, changed))
        return found

    def snapshot_slices(self) -> Iterator[bytes]:
        """The committed view as it stands now, encoded slice by slice as the iterator is drawn on."""
        head = _CasesHead(self._flood.snapshot(), msgspec.structs.replace(self.counters))
        return chain([sliced(head)], self.table.snapshot_slices())

    def snapshot(self) -> bytes:
        """All slices; equal folds give equal bytes."""
        return b"".join(self.snapshot_slices())

    @classmethod
    def restore(cls, data: bytes | memoryview, conditions: Conditions, config: AlarmConfig | None = None) -> "Cases":
        """Inverse of `snapshot`, over the conditions restored from the same position.

        Raises:
            DecodeError: not a snapshot of this fold, or of other conditions.
        """
        slices = read_slices(data)
        head = unsliced(next(slices, b""), _CasesHead)
        self = cls(conditions, config)
        self._grow()
        self._flood.restore(head.flood)
        self.counters = head.counters
        self.table.restore(slices)
        for case in self.table:
            row = conditions.row_of(case.item_id, case.condition)
            if row is None or row in self._open:
                raise DecodeError(0, f"cases snapshot: case {case.case_id} has no rule, or not alone")
            self._open[row] = case
            self._note(row, case)
        self._redefined.update(self._open)
        return self


_NO_ALARMS: Final = AlarmSettings()
