"""The alarm rules a second time, as docs/alarms.md tells them: samples in, transitions out, one rule at a time.

Written to be read and not to be fast. It knows no log, no columns, no intervals and no snapshot; it must not use
anything of `machine/fold`.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from albireo.model import quality as q
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, Condition

FROM_NODE = {q.BAD_NO_COMMUNICATION, q.BAD_NOT_CONNECTED, q.BAD_TIMEOUT, q.BAD_WAITING_FOR_INITIAL_DATA}
CLOCK_BACK_NS = 5 * SECOND


class PlainSample(msgspec.Struct, frozen=True):
    """One sample of a number."""

    value: float
    quality: int
    source_ns: int
    is_own: bool = True
    """The node has stamped it; otherwise the device."""

    @property
    def is_known(self) -> bool:
        return self.quality < q.BAD and not math.isnan(self.value)

    @property
    def has_node_time(self) -> bool:
        return self.is_own or self.quality in FROM_NODE


class SlowChatter:
    """Three activations within a window hold a condition active until it was calm."""

    def __init__(self, activations: int, window_ms: int, calm_ms: int) -> None:
        self.activations, self.window_ms, self.calm_ms = activations, window_ms, calm_ms
        self.is_chattering = False
        self.risen: list[int] = []
        self.calm_at = math.inf

    def flipped(self, is_active: bool, at_ms: int) -> None:
        if is_active:
            self.risen.append(at_ms)
            latest = self.risen[-self.activations :]
            if len(latest) == self.activations and at_ms - latest[0] <= self.window_ms:
                self.is_chattering = True
        if self.is_chattering:
            self.calm_at = at_ms + self.calm_ms

    def pass_to(self, at_ms: int) -> None:
        if self.calm_at <= at_ms:
            self.is_chattering, self.risen, self.calm_at = False, [], math.inf


class SlowRule:
    """One condition: its verdict, the delay that is under way, and what of it is shown."""

    def __init__(self, chatter: SlowChatter) -> None:
        self.chatter = chatter
        self.verdict = self.judged = self.shown = False
        self.due_at = math.inf
        self.fall_at = math.inf
        self.before: tuple[float, int] | None = None
        self.same_since = 0
        self.said: list[tuple[int, bool]] = []
        """(time in ms, active) of each transition."""

    def say(self, verdict: bool, alarm: AlarmSettings, at_ms: int) -> None:
        """The verdict at this moment; a delay begins or is given up when it changes."""
        if verdict == self.verdict:
            return
        self.verdict = verdict
        delay = alarm.on_delay_ms if verdict else alarm.off_delay_ms
        self.due_at = at_ms + delay if verdict != self.judged else math.inf

    def unknown(self) -> None:
        """Nobody knows the value: the judgement stays, a delay does not."""
        self.verdict, self.due_at, self.fall_at = self.judged, math.inf, math.inf

    def settle(self, at_ms: int) -> None:
        if self.due_at <= at_ms:
            self.judged, self.due_at = self.verdict, math.inf
            self.chatter.flipped(self.judged, at_ms)

    def tell(self, at_ms: int) -> None:
        shown = self.judged or self.chatter.is_chattering
        if shown != self.shown:
            self.shown = shown
            self.said.append((at_ms, shown))


LIMITS = (Condition.HI_HI, Condition.HI, Condition.LO, Condition.LO_LO)


class SlowItem:
    """One item of a number with its rules, from its declaration on."""

    def __init__(
        self, alarm: AlarmSettings, chatter: tuple[int, int, int], at_ms: int, counter_range: float | None = None
    ) -> None:
        self.alarm, self.counter_range = alarm, counter_range
        self.rules = {one: SlowRule(SlowChatter(*chatter)) for one in (*LIMITS, *WATCHED)}
        self.now_ms = self.known_at = at_ms
        """`known_at`: when the last usable value came, or the time for one began anew."""
        self.has_begun_anew = False
        self.live: PlainSample | None = None
        self.newest_ns: int | None = None
        self.late: tuple[int, int] | None = None
        """Log time in ns and source time at which a streak of late samples began."""

    # Time.

    def pass_to(self, at_ms: int) -> None:
        """Do what is due up to this moment, each at its own time."""
        while (due := self._next_due()) <= at_ms:
            self._at(max(int(due), self.now_ms))
        self.now_ms = at_ms

    def _next_due(self) -> float:
        stale = self.known_at + self._stale_ms() if self._may_get_stale() else math.inf
        rules = [min(one.due_at, one.fall_at, one.chatter.calm_at) for one in self.rules.values()]
        return min(stale, *rules)

    def _stale_ms(self) -> float:
        return math.inf if self.alarm.stale_s is None else math.ceil(self.alarm.stale_s * 1_000)

    def _may_get_stale(self) -> bool:
        return self.alarm.stale_s is not None and not self.rules[Condition.STALE].verdict

    def _at(self, at_ms: int) -> None:
        if self._may_get_stale() and self.known_at + self._stale_ms() <= at_ms:
            self.rules[Condition.STALE].say(True, self.alarm, at_ms)
        for rule in self.rules.values():
            if rule.fall_at <= at_ms:
                rule.fall_at = math.inf
                rule.say(False, self.alarm, at_ms)
            rule.settle(at_ms)
            rule.chatter.pass_to(at_ms)
            rule.tell(at_ms)

    # Settings.

    def edit(self, alarm: AlarmSettings, at_ms: int) -> None:
        self.pass_to(at_ms)
        before, self.alarm = self.alarm, alarm
        for condition, rule in self.rules.items():
            if setting_of(alarm, condition) is None:
                rule.verdict = rule.judged = False
                rule.due_at = rule.fall_at = math.inf
                rule.before = None
                rule.chatter.is_chattering, rule.chatter.risen, rule.chatter.calm_at = False, [], math.inf
            elif condition is Condition.RATE and rule.verdict and before.rate_per_s != alarm.rate_per_s:
                rule.fall_at = at_ms
        if self.live is not None and self.live.is_known:
            self._judge_limits(self.live, at_ms)
        self._told(at_ms)

    # Samples.

    def arrive(self, samples: Sequence[PlainSample], at_ms: int) -> None:
        """Several samples that came together, in the order in which they were acquired."""
        self.pass_to(at_ms)
        newest = samples[-1]  # What the node stamped last is the newest, wherever its clock stands.
        if not newest.has_node_time:
            of_device = [one for one in samples if not one.has_node_time]
            newest = max(reversed(of_device), key=lambda one: one.source_ns)
        known_ns = self.newest_ns
        if not self._is_live(newest, at_ms):
            return
        self.live = newest
        if newest.is_known:
            self.known_at, self.has_begun_anew = at_ms, False
            self.rules[Condition.STALE].say(False, self.alarm, at_ms)
            self._judge_limits(newest, at_ms)
            row = self._in_sequence(samples, newest, known_ns)
            self._judge_rate(row, at_ms)
            self._judge_frozen(row, at_ms)
        else:
            for condition, rule in self.rules.items():
                if condition is not Condition.STALE:
                    rule.unknown()
            self.rules[Condition.FROZEN].same_since = at_ms
            if newest.quality == q.BAD_WAITING_FOR_INITIAL_DATA and not self.has_begun_anew and self.alarm.stale_s:
                self.known_at, self.has_begun_anew = at_ms, True
        self._told(at_ms)

    def _told(self, at_ms: int) -> None:
        for rule in self.rules.values():
            rule.settle(at_ms)
            rule.tell(at_ms)
        self.pass_to(at_ms)

    def _is_live(self, sample: PlainSample, at_ms: int) -> bool:
        """Not late, or of a clock that was set back: late for five seconds, and no faster than a clock goes."""
        if sample.has_node_time:
            self.late = None
            return True
        if self.newest_ns is not None and sample.source_ns < self.newest_ns:
            if self.late is None or sample.source_ns < self.late[1]:
                self.late = (at_ms * MS, sample.source_ns)
            elapsed = at_ms * MS - self.late[0]
            if elapsed < CLOCK_BACK_NS or sample.source_ns - self.late[1] > 1.5 * elapsed:
                return False
        self.late, self.newest_ns = None, sample.source_ns
        return True

    def _in_sequence(
        self, samples: Sequence[PlainSample], newest: PlainSample, known_ns: int | None
    ) -> list[PlainSample]:
        """The samples that count before the newest, and it."""
        at = next(place for place, one in enumerate(samples) if one is newest)
        older = [one for place, one in enumerate(samples) if place != at and one.is_known]
        older = [one for one in older if one.is_own or known_ns is None or one.source_ns >= known_ns]
        if not newest.is_own:
            older.sort(key=lambda one: one.source_ns)
        return [*older, newest]

    def _judge_limits(self, sample: PlainSample, at_ms: int) -> None:
        for condition in LIMITS:
            limit = setting_of(self.alarm, condition)
            if limit is None:
                continue
            rule = self.rules[condition]
            slack = decimal(self.alarm.hysteresis if rule.judged else 0.0)
            is_upper = condition in (Condition.HI, Condition.HI_HI)
            value, edge = decimal(sample.value), decimal(limit)
            rule.say(value > edge - slack if is_upper else value < edge + slack, self.alarm, at_ms)

    def _judge_rate(self, row: Sequence[PlainSample], at_ms: int) -> None:
        limit = self.alarm.rate_per_s
        if limit is None:
            return
        rule = self.rules[Condition.RATE]
        verdicts, falls = [], [0.0]
        last_ns = row[-1].source_ns
        for sample in row:
            before, rule.before = rule.before, (float(sample.value), sample.source_ns)
            if before is None or sample.source_ns <= before[1]:
                continue
            change = decimal(float(sample.value)) - decimal(before[0])
            sizes = [abs(change)]
            if self.counter_range is not None:
                sizes.append(abs(change + decimal(self.counter_range)))
            if any(math.isnan(one) for one in sizes):
                continue
            steep_ns, elapsed_ns = min(sizes) / decimal(limit) * SECOND, sample.source_ns - before[1]
            verdicts.append(steep_ns > elapsed_ns)
            if verdicts[-1]:
                falls.append(max(steep_ns, 3.0 * elapsed_ns) - max(last_ns - before[1], 0))
        if not verdicts:
            return
        falls_in = max(falls)
        is_endless = not any(verdicts) or math.isinf(falls_in)
        rule.fall_at = math.inf if is_endless else at_ms + math.ceil(falls_in / MS)
        rule.say(any(verdicts), self.alarm, at_ms)

    def _judge_frozen(self, row: Sequence[PlainSample], at_ms: int) -> None:
        if self.alarm.frozen_s is None:
            return
        rule = self.rules[Condition.FROZEN]
        has_moved = False
        for sample in row:
            has_moved |= rule.before is None or rule.before[0] != sample.value
            rule.before = (sample.value, 0)
        if has_moved:
            rule.same_since = at_ms
        is_long = at_ms - rule.same_since >= math.ceil(self.alarm.frozen_s * 1_000)
        rule.say(not has_moved and (rule.verdict or is_long), self.alarm, at_ms)


WATCHED = (Condition.RATE, Condition.STALE, Condition.FROZEN)


def decimal(number: float) -> Any:
    """The decimal that a number stands for, exactly; a whole, an infinite one, and none are themselves."""
    if not math.isfinite(number):
        return number
    return Fraction(number if number == int(number) else str(number))


def setting_of(alarm: AlarmSettings, condition: Condition) -> float | None:
    """The setting that asks for a condition; None: none does."""
    return {
        Condition.HI_HI: alarm.hi_hi,
        Condition.HI: alarm.hi,
        Condition.LO: alarm.lo,
        Condition.LO_LO: alarm.lo_lo,
        Condition.RATE: alarm.rate_per_s,
        Condition.STALE: alarm.stale_s,
        Condition.FROZEN: alarm.frozen_s,
    }[condition]
