"""Elsewhere: state of the folds while another member takes samples that are not replicated.

A reference says that a batch was taken; its values are on the member that took it. From then on no value known here is
current, and no judgement can be made from it:

    values here --a reference without payload--> elsewhere --the first batch with its payload--> values here
                   values unknown again                      judgements go on from the cases

Invariants
    while elsewhere:  every item waits for its first value; no case transition is proposed.
    at the return:    a rule is judged as its case says, until a sample of our own says otherwise; a stale item has
                      its whole time to give one.

Spec: ADR-0130.
"""

from typing import Final

import msgspec
import numpy as np

from albireo.codec.slices import unsliced
from albireo.machine.fold.alarms.cases import Cases
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.rules import IS_ANEW, IS_STALE, SLOT_OF, fold_bands
from albireo.machine.fold.columns import NEVER
from albireo.machine.fold.items.dim import Dim
from albireo.model import quality as q
from albireo.model.instant import LogTime
from albireo.model.item import Condition

_STALE: Final = SLOT_OF[Condition.STALE]


class Elsewhere:
    """The fold."""

    def __init__(self, dim: Dim, conditions: Conditions, cases: Cases) -> None:
        self._dim = dim
        self._conditions = conditions
        self._cases = cases
        self.last_ns = 0
        """Node time of the newest batch that another member took; 0: the values are here."""

    def __bool__(self) -> bool:
        return self.last_ns > 0

    def took(self, sequence: int, node_ns: int) -> None:
        """Another member took a batch, or all up to `sequence`. Cost: O(items), once until the values return."""
        self.last_ns = max(1, node_ns)
        live, count = self._dim.live, self._dim.live.count
        is_known = live.has_value[:count] | (live.quality[:count] != q.BAD_WAITING_FOR_INITIAL_DATA)
        known = np.flatnonzero(is_known)
        if not len(known):
            return
        types, declared_at = live.value_type[known], live.declared_at[known]
        live.clear(known)
        live.value_type[known], live.declared_at[known] = types, declared_at
        live.changed_at[known] = sequence
        self._dim.texts = [""] * len(self._dim.texts)

    def returns(self, log_time: LogTime) -> None:
        """A batch has come with its values: judge on from the recorded cases."""
        self.last_ns = 0
        conditions = self._conditions
        rules, watched = conditions.rules, conditions.watched
        rows, suppressed = self._on_record()
        rules.judged[:] = False
        rules.judged[rows] = rules.is_enabled[rows]
        rules.raw[:] = rules.judged
        rules.due[:] = rules.fall_at[:] = NEVER
        rules.before[:] = np.nan
        watched.seen[:] = log_time
        watched.flags &= ~np.uint8(IS_STALE | IS_ANEW)
        stale = np.flatnonzero(rules.judged & (rules.slot == _STALE))
        watched.flags[rules.item[stale]] |= IS_STALE
        by = watched.suppressor[suppressed]
        self._dim.live.number[by[by >= 0]] = 1.0  # The suppressor was on when last known; `has_value` stays as it is.
        fold_bands(conditions.rules, watched, np.arange(watched.count))
        conditions.judge_suppression()
        conditions.stale.find_lost(log_time)
        conditions.arm()
        conditions.changes += 1

    def _on_record(self) -> tuple[list[int], list[int]]:
        """Rules with an active case, and items whose cases are suppressed."""
        rows, items = [], []
        for case in self._cases:
            row = self._conditions.row_of(case.item_id, case.condition)
            if row is not None and case.is_active:
                rows.append(row)
            if row is not None and case.is_suppressed:
                items.append(int(self._conditions.rules.item[row]))
        return rows, items

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.last_ns)

    def restore(self, section: bytes) -> None:
        """Inverse of `snapshot`.

        Raises:
            DecodeError: not a snapshot of this fold.
        """
        self.last_ns = unsliced(section, int)
