"""Conditions: which item has which fault, judged over columns.

Not done here: cases, operators, acknowledgement (`cases`).

The idea: one row per rule (item x condition). A threshold rule's raw verdict can only change when its item's value
leaves an interval; that interval is kept per item (`low`..`high`), so a batch costs two comparisons per sample, and
only items that left their interval are looked at rule by rule. After its delay a verdict becomes a judgement:

                value leaves the band                on_delay_ms over
    normal ---------------------------> pending on ---------------------> active
      ^  ^                                  |                               |
      |  +----------------------------------+                               | value back inside by the hysteresis
      |       value back at the limit                                       v
      +------------------------------------------------------------- pending off
                off_delay_ms over                     (value in the band again: back to active)

Rules of judgement
    limits, off-normal   at every live sample; of several samples of an item in one batch the newest counts. The limit
                         itself while judged normal, the limit less the hysteresis while judged active.
    rate                 change between two samples over the difference of their source times, for each two that follow
                         one another in a batch too. Between samples the value is taken as held: the verdict falls when
                         the mean rate since the sample before has fallen to the limit, and not before two samples more
                         should have come. Samples that are not later than the one before judge nothing.
    stale                no usable value of the item came for `stale_s` of log time (`staleness`).
    frozen               samples came, and told the same number for `frozen_s` of log time. Judged when one comes: an
                         item that is silent is stale.
    bad quality          the last judgement of a value stays: nothing is raised, nothing cleared, a delay under way is
                         dropped and begins anew with the next usable value, as the time of a number. NaN counts as bad.
    forced               limits and off-normal by the forced value; rate and frozen stay as they were, stale ends.
    suppression          while the bool item `suppressed_by` is true, and neither bad, nor old, nor stale.

Invariants
    due = NEVER    <=>  raw == judged                        (no delay under way)
    low <= v <= high of the item's last judged value         (no threshold verdict would change; so NaN is without)

Spec: OPC UA Part 9, 5.8.18..5.8.24 (limit, rate of change, off-normal; on and off delay); ADR-0051.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from albireo.codec.errors import DecodeError
from albireo.codec.slices import read_slices, sliced, unsliced
from albireo.machine.fold.alarms.chatter import Chatter
from albireo.machine.fold.alarms.rules import (
    FROZEN,
    HAS_FROZEN,
    HAS_RATE,
    IS_ANEW,
    IS_FORCED,
    IS_STALE,
    IS_SUPPRESSOR,
    LONGEST_NS,
    NO_ALARMS,
    RATE,
    SLOT_OF,
    SLOTS,
    STALE,
    THRESHOLDS,
    VALUED,
    Chain,
    Rules,
    WatchedItems,
    fold_bands,
    frozen_verdicts,
    is_beyond,
    is_sound,
    judge_suppression,
    limits_of,
    off_of,
    rate_verdicts,
    vacate,
)
from albireo.machine.fold.alarms.staleness import Staleness
from albireo.machine.fold.columns import NEVER, Packed
from albireo.machine.fold.items.dim import Dim, Fresh
from albireo.model import quality as q
from albireo.model.bounded import INT64_MAX, TEXT_CHARS_MAX
from albireo.model.instant import MS, LogTime, WallTime
from albireo.model.item import AlarmSettings, Condition, KnownItem
from albireo.model.settings import AlarmConfig
from albireo.model.value import Value, ValueType

Rows = NDArray[np.intp]
Marks = NDArray[np.bool_]


class Conditions:
    """The fold. Call `time_passed` with each frame's log time first, then fold what the frame holds."""

    def __init__(self, dim: Dim, config: AlarmConfig | None = None) -> None:
        self._dim = dim
        self._config = config or AlarmConfig()
        self.rules = Rules()
        self.watched = WatchedItems()
        self._suppressed_by: dict[int, str] = {}
        """Full name of the suppressing item, by dense index of the suppressed item; it may be declared later."""
        self._vacant: set[int] = set()
        """Indexes of forgotten items that no new item has taken."""
        self.chatter = Chatter(self._config)
        self._due_at = NEVER
        self._fall_at = NEVER
        self.stale = Staleness(dim, self.rules, self.watched)
        self.log_time, self.node_ns = LogTime(0), WallTime(0)
        """Log time and node time of the frame that is being folded."""
        self.changes = 0
        """Grows with every change that `cases` must look at."""

    @property
    def count(self) -> int:
        return self.rules.count

    def is_active(self) -> NDArray[np.bool_]:
        """Rules that are judged to hold, or are held active because they chatter."""
        active: NDArray[np.bool_] = self.rules.judged[: self.count] | self.is_chattering()
        return active

    def is_chattering(self) -> NDArray[np.bool_]:
        return self.chatter.flips.is_chattering[: self.count]

    def is_suppressed(self) -> NDArray[np.bool_]:
        count = self.rules.count
        return self.watched.is_suppressed[self.rules.item[:count]]

    def row_of(self, item_id: int, condition: Condition) -> int | None:
        """Row of a rule, None when there never was one."""
        index = self._dim.index_of(item_id)
        if index is None or index >= self.watched.count:
            return None
        row = int(self.watched.rule_of[index, SLOT_OF[condition]])
        return row if row >= 0 else None

    def rows_of(self, item_id: int) -> Rows:
        """Rows of all rules that there ever were of an item."""
        index = self._dim.index_of(item_id)
        of_item = self.watched.rule_of[:0] if index is None else self.watched.rule_of[index]
        return of_item[of_item >= 0].astype(np.intp)

    def is_enabled_at(self, row: int) -> bool:
        return bool(self.rules.is_enabled[row])

    def item_at(self, row: int) -> KnownItem:
        return self._dim.item_at(int(self.rules.item[row]))

    def condition_at(self, row: int) -> Condition:
        return SLOTS[int(self.rules.slot[row])]

    def value_at(self, row: int) -> Value | None:
        """Value of the item at the last activation (stale: the last that it shows); None: none, or a string."""
        if self.rules.slot[row] == STALE:
            usable = self._dim.value_at(int(self.rules.item[row]))
            return usable[:TEXT_CHARS_MAX] if isinstance(usable, str) else usable
        value = float(self.rules.value[row])
        match self.item_at(row).item.value_type:
            case ValueType.FLOAT64:
                return value
            case ValueType.INT64:
                return min(int(value), INT64_MAX)  # The float nearest to the largest integer is above it.
            case ValueType.BOOL:
                return bool(value)
            case ValueType.STRING:
                return None

    def deadline(self) -> LogTime | None:
        """Log time at which a judgement may change although no sample comes."""
        soonest = min(self._due_at, self._fall_at, self.stale.at, self.chatter.calm_at)
        return None if soonest == NEVER else LogTime(soonest)

    def fold_items(self, declared: Sequence[KnownItem], log_time: LogTime) -> None:
        """Fold declared items, after `Dim.fold_item` of the same records. Rules no longer wanted become normal.

        Cost: some 20 us an item, and O(all items) once.
        """
        for known in declared:
            index = self._dim.index_of(known.item_id)
            if index is not None:
                self._fold_item(index, known, log_time)
        self._find_suppressors()
        self.stale.find_lost(log_time)
        self.arm()
        if self._due_at <= log_time:
            self._settle(log_time, self.node_ns)
        self.changes += 1

    def _fold_item(self, index: int, known: KnownItem, log_time: LogTime) -> None:
        if index >= self.watched.count:
            first = self.watched.add(index + 1 - self.watched.count)
            self.watched.seen[first : index + 1] = log_time
        if index in self._vacant:
            self._vacant.remove(index)
            self.watched.seen[index] = log_time
        settings = known.item.alarm or NO_ALARMS
        limits = limits_of(settings, known.item.value_type)
        for slot, row in enumerate(self.watched.rule_of[index].tolist()):
            limit = limits.get(SLOTS[slot])
            if limit is not None:
                self._set_rule(index, slot, settings, limit)
            elif row >= 0:
                self._drop_rule(row)
        self._fold_flags(index, limits)
        self.stale.declared(index, known)
        if settings.suppressed_by:
            self._suppressed_by[index] = f"{known.node}:{settings.suppressed_by}"
        else:
            self._suppressed_by.pop(index, None)
        if (self.watched.rule_of[index] >= 0).any():
            self._rejudge(index, log_time)

    def forget(self, indexes: Sequence[int]) -> Rows:
        """Drop the rules of forgotten items (`Dim.forget`); returns the rows of these. Cost: O(all items) once."""
        self.watched.add(self._dim.live.count - self.watched.count)
        self._vacant.update(indexes)
        rows = vacate(self.rules, self.watched, indexes)
        self.chatter.flips.clear(rows)
        for index in indexes:
            self._suppressed_by.pop(index, None)
            self.stale.forgotten(index)
        self._find_suppressors()
        self.stale.find_lost(self.log_time)
        self.arm()
        self.changes += 1
        return rows

    def _set_rule(self, index: int, slot: int, settings: AlarmSettings, limit: tuple[float, float]) -> None:
        rules = self.rules
        row = int(self.watched.rule_of[index, slot])
        if row < 0:
            row = rules.add()
            self.chatter.flips.add()
            self.watched.rule_of[index, slot] = row
            rules.item[row], rules.slot[row] = index, slot
        sign, at = limit
        if slot == RATE and rules.raw[row] and rules.on[row] != at:
            rules.fall_at[row] = self.log_time  # The next sample judges by the new limit.
        off = off_of(slot, at, self._dim.item_at(index).item)
        if not rules.is_enabled[row] or (rules.on[row], rules.off[row]) != (at, off):
            rules.at_ns[row] = self.node_ns
        rules.is_enabled[row] = True
        rules.sign[row] = sign
        rules.on[row] = at
        rules.off[row] = off
        rules.on_delay[row] = min(settings.on_delay_ms * MS, LONGEST_NS)
        rules.off_delay[row] = min(settings.off_delay_ms * MS, LONGEST_NS)

    def _drop_rule(self, row: int) -> None:
        """The settings no longer ask for this rule: it is normal at once. Its row stays, for the case it may have."""
        rules = self.rules
        rules.at_ns[row] = self.node_ns if rules.judged[row] else rules.at_ns[row]
        rules.is_enabled[row] = rules.raw[row] = rules.judged[row] = False
        rules.due[row] = rules.fall_at[row] = NEVER
        rules.before[row] = np.nan
        rules.by_forced.discard(row)
        self.chatter.flips.clear(row)

    def _find_suppressors(self) -> None:
        """Find the suppressing item of each item, by the names declared now. Only a bool item suppresses."""
        self.watched.suppressor[:] = -1
        for index, name in self._suppressed_by.items():
            by = self._dim.index_named(name)
            if by is not None and self._dim.item_at(by).item.value_type is ValueType.BOOL:
                self.watched.suppressor[index] = by
        self.judge_suppression()

    def _fold_flags(self, index: int, limits: Collection[Condition]) -> None:
        flags = self.watched.flags
        kept = int(flags[index]) & ~(HAS_RATE | HAS_FROZEN)
        rate, frozen = Condition.RATE in limits, Condition.FROZEN in limits
        flags[index] = kept | (HAS_RATE if rate else 0) | (HAS_FROZEN if frozen else 0)

    def _rejudge(self, index: int, log_time: LogTime) -> None:
        """Judge the present value by changed settings."""
        place, live = np.array([index]), self._dim.live
        is_usable = bool(live.has_value[index]) and not q.is_bad(int(live.quality[index]))
        if is_usable and live.value_type[index] != ValueType.STRING and not np.isnan(live.number[index]):
            self._judge_thresholds(place, live.number[place], log_time)
        fold_bands(self.rules, self.watched, place)

    def arm(self) -> None:
        """Find the next of each kind of deadline anew."""
        self._due_at = int(self.rules.due.min())
        self._fall_at = int(self.rules.fall_at.min())
        self.stale.arm()
        self.chatter.arm()

    def fold_samples(self, fresh: Fresh, log_time: LogTime) -> None:
        """Judge samples that have become live. Cost: O(n), and O(rules of an item) for items that leave their band."""
        index = fresh.index
        if not len(index):
            return
        watched, is_usable = self.watched, fresh.is_usable
        if fresh.value_type is not ValueType.STRING:
            number = fresh.number
            is_calm = (number >= watched.low.take(index)) & (number <= watched.high.take(index))
            if not is_calm.all():
                is_usable = is_usable & ~np.isnan(number)
                left = np.flatnonzero(~is_calm & is_usable)
                self._judge_thresholds(index[left], number[left], log_time)
        is_blind = not is_usable.all()
        if not is_blind or is_usable.any():
            self.fold_calm(index[is_usable] if is_blind else index, log_time, log_time)
        flags = watched.flags.take(index)
        if flags.any():
            self._fold_flagged(fresh, flags, is_usable, log_time)
        if self._due_at <= log_time:
            self._settle(log_time, None)
        if is_blind:
            self._hold(index[~is_usable], log_time)
            self.stale.blind(index[~is_usable], log_time)

    def fold_calm(self, index: Rows | int, log_time: NDArray[np.int64] | int, first: int) -> None:
        """Fold rows with these log times, of which none is before `first` and none changes a judgement (`stretch`)."""
        self.watched.seen[index] = log_time
        self.stale.at = min(self.stale.at, first + self.stale.shortest)

    def force(self, index: int, *, is_forced: bool) -> None:
        """Take an item as forced, or as measured again: the time in which it has to give a sample begins anew."""
        self.watched.flags[index] = self.watched.flags[index] & ~np.uint8(IS_FORCED) | (IS_FORCED if is_forced else 0)
        self.fold_calm(index, self.log_time, self.log_time)

    def _fold_flagged(self, fresh: Fresh, flags: NDArray[np.uint8], is_usable: Marks, log_time: LogTime) -> None:
        present = int(np.bitwise_or.reduce(flags))
        flags = np.where(flags & IS_FORCED, flags & ~np.uint8(HAS_RATE | HAS_FROZEN), flags)
        if present & HAS_RATE:
            self._judge_rates(self._chain(fresh, flags & HAS_RATE != 0, is_usable, RATE), log_time)
        if present & HAS_FROZEN:
            self._judge_frozen(self._chain(fresh, flags & HAS_FROZEN != 0, is_usable, FROZEN), log_time)
        if present & (IS_STALE | IS_ANEW):
            self._refresh(fresh.index[is_usable & (flags & (IS_STALE | IS_ANEW) != 0)], log_time)
        if present & IS_SUPPRESSOR:
            self.judge_suppression()

    def _judge_thresholds(self, index: Rows, number: NDArray[np.float64], log_time: LogTime) -> None:
        if not len(index):
            return
        rules = self.rules
        of_items = self.watched.rule_of[index[:, None], THRESHOLDS]
        is_rule = of_items >= 0
        rows: Rows = of_items[is_rule].astype(np.intp)
        value = number[is_rule.nonzero()[0]]
        limit = np.where(rules.judged[rows], rules.off[rows], rules.on[rows])
        live = self._dim.live  # Items of one call have one type: they are of one batch.
        integer = live.integer[rules.item[rows]] if live.value_type[index[0]] == ValueType.INT64 else None
        verdict = is_beyond(rules.sign[rows], value, limit, integer) & rules.is_enabled[rows]
        flips = rows[verdict != rules.raw[rows]]
        if len(flips):
            self._turn(flips, log_time)
            fold_bands(self.rules, self.watched, index)

    def _chain(self, fresh: Fresh, is_asked: Marks, is_usable: Marks, slot: int) -> Chain:
        """Usable samples of the items that are asked for, with the older ones of the batch before each."""
        index, number, source_ns, starts = fresh.chained(is_asked, is_usable)
        return Chain(self.watched.rule_of[index, slot].astype(np.intp), number, source_ns, starts)

    def _judge_rates(self, chain: Chain, log_time: LogTime) -> None:
        if not len(chain.row):
            return
        rules, found = self.rules, rate_verdicts(self.rules, chain)
        rows, is_steep = found.row, found.is_steep
        if self._fall_at != NEVER:
            rules.fall_at[rows[found.can_judge]] = NEVER
        if is_steep.any():
            rules.fall_at[rows[is_steep]] = log_time + np.ceil(found.left_ns[is_steep] / MS).astype(np.int64) * MS
            self._fall_at = int(rules.fall_at.min())
        self._turn(rows[found.can_judge & (is_steep != rules.raw[rows])], log_time)

    def _judge_frozen(self, chain: Chain, log_time: LogTime) -> None:
        if len(chain.row):
            rows, is_frozen = frozen_verdicts(self.rules, chain, log_time)
            self._turn(rows[is_frozen != self.rules.raw[rows]], log_time)

    def _hold(self, index: Rows, log_time: LogTime) -> None:
        """Take bad quality of these items: drop the delays under way, keep the judgements."""
        rules = self.rules
        rows = self.watched.rule_of[index[:, None], VALUED].ravel()
        rows = rows[rows >= 0]
        rules.fall_at[rows] = NEVER
        rules.before_ns[rows[rules.slot[rows] == FROZEN]] = log_time
        pending = rows[rules.due[rows] != NEVER]
        if len(pending):
            rules.raw[pending] = rules.judged[pending]
            rules.due[pending] = NEVER
            self._due_at = int(rules.due.min())
            fold_bands(self.rules, self.watched, index)

    def _turn(self, rows: Rows, log_time: LogTime) -> None:
        """These verdicts have changed: begin, or give up, the delay of each."""
        if not len(rows):
            return
        rules = self.rules
        raw = rules.raw[rows] = ~rules.raw[rows]
        due = np.where(raw, rules.on_delay[rows], rules.off_delay[rows]) + log_time
        due = np.where(raw != rules.judged[rows], due, NEVER)
        rules.due[rows] = due
        # `_due_at` may stay too early when a delay is given up: `_settle` then finds nothing and looks for the next.
        self._due_at = min(self._due_at, int(due.min()))

    def _settle(self, log_time: LogTime, node_ns: WallTime | None) -> None:
        """Make judgements of verdicts whose delay is over, at `node_ns` (None: at the time of the item's sample)."""
        rules, live = self.rules, self._dim.live
        rows = np.flatnonzero(rules.due <= log_time)
        items = rules.item[rows]
        is_active = rules.judged[rows] = rules.raw[rows]
        rules.due[rows] = NEVER
        fold_bands(rules, self.watched, items.astype(np.intp))
        # Not before a limit was set, while which a sample may have waited, and not after now.
        sampled_ns = np.minimum(np.maximum(live.node_ns[items], rules.at_ns[rows]), self.node_ns)
        rules.at_ns[rows] = sampled_ns if node_ns is None else node_ns
        rules.note_forced(rows, self.watched.flags[items], live.quality[items])
        risen = rows[is_active]
        rules.value[risen] = live.number[rules.item[risen]]
        self.chatter.flipped(rows, is_active, log_time)
        if (rules.slot[rows] == SLOT_OF[Condition.DEVICE_LOST]).any():
            self.stale.find_lost(log_time)
        self._due_at = int(rules.due.min())
        self.changes += 1

    def judge_suppression(self) -> None:
        self.changes += judge_suppression(self._dim.live, self.watched)

    def time_passed(self, log_time: LogTime, node_ns: WallTime) -> None:
        """End delays, find stale items and calm rules, up to the log time of a frame (its node time is `node_ns`)."""
        self.log_time, self.node_ns = log_time, node_ns
        if log_time >= self.stale.at:
            self._find_stale(log_time)
        if log_time >= self._fall_at:
            rules = self.rules
            fallen = np.flatnonzero(rules.fall_at <= log_time)
            rules.fall_at[fallen] = NEVER
            self._fall_at = int(rules.fall_at.min())
            self._turn(fallen[rules.raw[fallen]], log_time)
        if log_time >= self._due_at:
            self._settle(log_time, node_ns)
        if len(calm := self.chatter.time_passed(log_time)):
            self.rules.at_ns[calm] = node_ns  # A case that was held active ends now.
            self.changes += 1

    def _find_stale(self, log_time: LogTime) -> None:
        rows = self.stale.due(log_time)
        self._turn(rows, log_time)
        self.watched.flags[self.rules.item[rows]] |= IS_STALE
        self._freshness_changed(self.rules.item[rows])
        self.stale.arm()

    def _refresh(self, index: Rows, log_time: LogTime) -> None:
        """Take the stale items of `index` as alive again."""
        self.watched.flags[index] &= ~np.uint8(IS_STALE | IS_ANEW)
        rows: Rows = self.watched.rule_of[index, STALE].astype(np.intp)
        self._turn(rows[self.rules.raw[rows]], log_time)
        self._freshness_changed(index)

    def _freshness_changed(self, items: NDArray[np.integer]) -> None:
        """Judge suppression anew if one of these items suppresses."""
        if (self.watched.flags[items] & IS_SUPPRESSOR).any():
            self.judge_suppression()

    def snapshot_slices(self) -> Iterator[bytes]:
        """The fold as it stands now, encoded slice by slice as the iterator is drawn on."""
        by_forced = sorted(self.rules.by_forced)
        return map(sliced, (self.rules.pack(), self.watched.pack(), self.chatter.flips.pack(), by_forced))

    def snapshot(self) -> bytes:
        """All slices; equal folds give equal bytes."""
        return b"".join(self.snapshot_slices())

    @classmethod
    def restore(cls, data: bytes | memoryview, dim: Dim, config: AlarmConfig | None = None) -> "Conditions":
        """Inverse of `snapshot`, over the DIM restored from the same position.

        Raises:
            DecodeError: not a snapshot of this fold, or of another DIM.
        """
        self = cls(dim, config)
        slices = list(read_slices(data))
        if len(slices) != _SLICES:
            raise DecodeError(0, f"conditions snapshot: {len(slices)} slices, expected {_SLICES}")
        self.rules.unpack(unsliced(slices[0], Packed))
        self.watched.unpack(unsliced(slices[1], Packed))
        self.chatter.flips.unpack(unsliced(slices[2], Packed))
        self.rules.by_forced.update(unsliced(slices[3], list[int]))
        known_at = [(index, dim.item_at(index)) for index in range(dim.live.count)]
        self._vacant = {index for index, known in known_at if not known.item_id}
        self._suppressed_by = {
            index: f"{known.node}:{known.item.alarm.suppressed_by}"
            for index, known in known_at
            if known.item.alarm is not None and known.item.alarm.suppressed_by
        }
        self._check()
        for index, known in known_at:
            self.stale.declared(index, known)
        self.arm()
        self.changes = 1
        return self

    def _check(self) -> None:
        """Refuse an index that leads out of its columns, and a time that no table can have set."""
        fits = (
            self.watched.count == self._dim.live.count
            and self.chatter.flips.count == self.rules.count
            and is_sound(self.rules, self.watched)
        )
        if not fits:
            raise DecodeError(0, "conditions snapshot: an index leads out of its columns, or a time is none")


_SLICES: Final = 4
"""Slices of a snapshot: rules, watched items, flips, and `Rules.by_forced`."""
