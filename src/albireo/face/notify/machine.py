"""NotifyMachine: which notices there are, who is told next, and what is on record before and after.

    a case asks --rule, hours--> waiting --few: each, many: one--> Notice
    Notice: due --RecordNotice(leaving)--> recorded --SendNotice--> sent --RecordNotice(outcome)--> due, when it is
            none of its cases asks any more --ForgetNotice--> gone

A case asks while it is active, not acknowledged and not silent. While somebody is still to be told of it, its notice
rests when it goes, and goes on where it was when it comes again, for a rule's time; acknowledged, it is over. A notice
that was leaving when its face died is sent again, since nobody knows whether it left: under the same Message-ID, with
words that say so. One who refuses, or can't be reached TRIES times, is followed by the next one at once; one who was
told, after the rule's time. A round in which nobody was reached begins again after AGAIN_NS, and is told of meanwhile
(TellUnreached). Once all on duty were told, whoever begins is told as he begins.

Invariants
    order:  SendNotice follows the record of its own try, and one record of a notice is under way at a time.
    once:   a case stands in one notice of a rule; a try without doubt is not made again once it was sent.
    bounds: NOTICES_MAX notices, SLOTS under way of each kind of address; what finds no room waits, and is not lost.

Elapsed time is that of `now`; wall time is data, so a clock that is set back holds nothing up for longer than a rule's
time. Not done here: the store, sending, clocks (actor.py).
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from albireo.face.notify.notice import CASES_MAX, CaseKey, Notice, SendOutcome, Try, notice_of, tried
from albireo.face.notify.rules import Duty, NotifyRules, Rule
from albireo.model.case import ItemCase, LifecycleStatus, Shelving
from albireo.model.instant import SECOND, Instant

TRIES: Final = 3
"""Tries at one address before the next one is told."""
RETRY_NS: Final = 30 * SECOND
AGAIN_NS: Final = 60 * SECOND
"""Time after which everybody on duty is tried again if nobody was reached, and whoever has begun if somebody was."""
SLOTS: Final = 4
NOTICES_MAX: Final = 1_000


class RecordNotice(msgspec.Struct, frozen=True):
    """Effect: put it on record; answered by `recorded`."""

    notice: Notice
    version: int
    """Version that it must have there; 0: none."""


class SendNotice(msgspec.Struct, frozen=True):
    """Effect: send it once; answered by `sent`."""

    notice: Notice
    to: Try
    may_be_second: bool


class ForgetNotice(msgspec.Struct, frozen=True):
    """Effect: take it off the record; answered by `recorded`."""

    number: str
    version: int


class TellUnreached(msgspec.Struct, frozen=True):
    """Effect: say how many notices reached nobody, and why the last one did not."""

    count: int
    why: str


Effect = RecordNotice | SendNotice | ForgetNotice | TellUnreached


class _Entry(msgspec.Struct, eq=False):
    notice: Notice
    due: Instant | None
    version: int = 0
    is_busy: bool = False
    """A record or a send of it is under way."""
    sends: bool = False
    """It is sent once what is under way is on record."""
    is_leaving: bool = False
    """It is being sent."""
    is_gone: bool = False
    rests_until: Instant | None = None
    """Its cases are gone, unacknowledged; until then it goes on if one comes again."""
    is_told: bool = False
    """All who are on duty were told."""
    begins_anew: bool = False
    """The next try begins another round."""
    why: str = ""
    """Why nobody was reached in the last round; empty: that is not so."""

    @property
    def goes_on(self) -> bool:
        """Somebody is still to be told, so an alarm of it that comes again asks by it."""
        return self.due is not None and not self.is_told and not self.is_gone

    def is_due(self, now: Instant) -> bool:
        return not self.is_busy and self.rests_until is None and self.due is not None and self.due <= now


class _Window(msgspec.Struct, eq=False):
    """Alarms of a rule within a time."""

    ends: Instant = Instant(0)
    room: int = 0
    is_flood: bool = False


def is_unseen(case: ItemCase) -> bool:
    """Whether nobody has looked at a case, or silenced it: people are asked to while it is active."""
    is_silent = case.is_suppressed or case.is_out_of_service or case.shelving is not Shelving.UNSHELVED
    is_open = case.lifecycle_status is not LifecycleStatus.CLOSED
    return is_open and not case.is_acked and not case.is_unasked and not is_silent


def key_of(case: ItemCase) -> CaseKey:
    return case.node, case.case_id, case.activations


class NotifyMachine:
    """The machine. Its time passes by `passed`."""

    def __init__(self, own: Iterable[str] = ()) -> None:
        """`own`: full names of items of the face itself, of which it tells nobody."""
        self._own = frozenset(own)
        self._rules: NotifyRules | None = None
        self._cases: dict[tuple[str, int], ItemCase] = {}
        """Cases that ask."""
        self._resting: set[tuple[str, int]] = set()
        """Those that would, were they active."""
        self._silent: frozenset[str] = frozenset()
        """Nodes that are not heard: their cases are as they were."""
        self._is_live = self._leads = self._is_changed = False
        self._entries: dict[str, _Entry] = {}
        self._takers: dict[tuple[str, int], frozenset[str]] = {}
        """Rules that take an item's cases of a severity."""
        self._waiting: dict[str, dict[CaseKey, ItemCase]] = {}
        """Cases that no notice has, by rule."""
        self._windows: dict[str, _Window] = {}
        self._unreached = TellUnreached(-1, "")

    @property
    def notices(self) -> list[Notice]:
        return [one.notice for one in self._entries.values()]

    def ruled(self, rules: NotifyRules) -> None:
        """These rules hold from now on."""
        self._rules, self._takers = rules, {}
        self._windows = {name: self._windows.get(name, _Window()) for name in rules.rules}
        self._sort()

    def heard(self, cases: Iterable[ItemCase], silent: Iterable[str], *, is_whole: bool, is_live: bool) -> None:
        """Take what changed. `is_whole`: these are all cases there are."""
        if is_whole:
            self._cases, self._resting = {}, set()
        for case in cases:
            place = case.node, case.case_id
            self._cases.pop(place, None)
            self._resting.discard(place)
            if is_unseen(case) and case.item not in self._own:
                if case.is_active:
                    self._cases[place] = case
                else:
                    self._resting.add(place)
            self._is_changed = True
        silent = frozenset(silent)
        self._is_changed |= is_whole or silent != self._silent
        self._silent, self._is_live = silent, is_live

    def loaded(self, notices: Mapping[str, tuple[Notice, int]], now: Instant, wall_ns: int) -> None:
        """It leads from now on; these notices are on record, each with its version."""
        self._leads = True
        for number, (notice, version) in notices.items():
            if number not in self._entries:  # Else it is just being sent, from the time before.
                entry = self._entries[number] = _Entry(notice, None, version)
                entry.due = self._due(entry, now, max(0, wall_ns - notice.tried[-1].at_ns) if notice.tried else 0)
        self._unreached = TellUnreached(-1, "")
        self._sort()

    def lost(self) -> None:
        """It leads no more: what is not being sent right now is somebody else's."""
        self._leads = False
        self._entries = {number: one for number, one in self._entries.items() if one.is_leaving}

    def recorded(self, number: str, version: int, now: Instant) -> list[Effect]:
        """It is on record as it was told, or gone from there."""
        entry = self._entries.get(number)
        if entry is None:
            return []
        entry.version, entry.is_busy = version, False
        if entry.is_gone or not self._leads:
            del self._entries[number]
        elif entry.sends:
            entry.sends = False
            if self._still_asks(entry):
                entry.is_busy = entry.is_leaving = True
                one = entry.notice.tried[-1]
                return [SendNotice(entry.notice, one, one.address in entry.notice.doubtful)]
        return []

    def sent(self, number: str, outcome: SendOutcome, why: str, now: Instant, wall_ns: int) -> list[Effect]:
        """The outcome of a send, which is put on record whoever leads."""
        entry = self._entries[number]
        last = entry.notice.tried[-1]
        entry.is_leaving = False
        entry.why = "" if outcome is SendOutcome.SENT else entry.why
        return self._record(entry, tried(entry.notice, last, outcome, last.attempt, wall_ns, why), now)

    def passed(self, now: Instant, wall_ns: int) -> list[Effect]:
        """Time passed, or something came: what is to be done now."""
        if self._rules is None or not self._leads or not self._is_live:
            return []
        effects: list[Effect] = []
        if self._is_changed:
            self._sort()
        if self._is_changed or any(one.rests_until is not None for one in self._entries.values()):
            effects += self._forgotten(now)
        local = self._rules.local(wall_ns)
        for name, rule in self._rules.rules.items():
            if self._waiting[name] and rule.holds(local):
                self._gather(name, now, wall_ns)
        effects += self._advanced(now, wall_ns)
        return effects + self._told_unreached()

    # Cases to notices.

    def _sort(self) -> None:
        """Find for each rule the cases that ask and stand in no notice of it that goes on."""
        self._is_changed = True
        notices = [(one.notice.rule, one) for one in self._entries.values()]
        told = {(name, key) for name, one in notices for key in one.notice.cases}
        goes_on = {(name, key[:2]) for name, one in notices if one.goes_on for key in one.notice.cases}
        self._waiting = {name: {} for name in self._windows}
        for case in self._cases.values():
            key = key_of(case)
            for name in self._takers_of(case):
                if (name, key) not in told and (name, key[:2]) not in goes_on:
                    self._waiting[name][key] = case

    def _takers_of(self, case: ItemCase) -> frozenset[str]:
        about = case.item, case.severity
        if about not in self._takers:
            rules = {} if self._rules is None else self._rules.rules
            self._takers[about] = frozenset(name for name, rule in rules.items() if rule.takes(case))
        return self._takers[about]

    def _still_asks(self, entry: _Entry) -> bool:
        return any(self._asks(*key, is_any=entry.goes_on) for key in entry.notice.cases)

    def _asks(self, node: str, case_id: int, activation: int, *, is_any: bool) -> bool:
        """Whether this activation of a case asks, with `is_any` whether any of its activations does."""
        case = self._cases.get((node, case_id))
        return node in self._silent if case is None else is_any or case.activations == activation

    def _rests(self, entry: _Entry, now: Instant) -> bool:
        """Whether an alarm of it that went may come again soon, and the next one is to be told then."""
        last, keys = _last(entry.notice), entry.notice.cases
        is_told = last is not None and last.outcome is SendOutcome.SENT and entry.goes_on
        if not is_told or len(self._entries) >= NOTICES_MAX or not any(key[:2] in self._resting for key in keys):
            return False
        if entry.rests_until is None:
            assert self._rules is not None
            minutes = self._rules.rules[entry.notice.rule].settings.escalate_min
            entry.rests_until = Instant(now + minutes * 60 * SECOND)
        return now < entry.rests_until

    def _forgotten(self, now: Instant) -> list[Effect]:
        """Let notices go of which no case asks any more, or whose rule is gone."""
        self._is_changed = False
        assert self._rules is not None
        effects: list[Effect] = []
        for number, entry in list(self._entries.items()):
            is_ruled = entry.notice.rule in self._rules.rules
            if is_ruled and self._still_asks(entry):
                entry.rests_until = None
                continue
            if entry.is_busy:
                self._is_changed = True
                continue
            if is_ruled and self._rests(entry, now):
                continue
            if not entry.version:  # It never was on record.
                del self._entries[number]
                continue
            entry.is_busy = entry.is_gone = True
            effects.append(ForgetNotice(number, entry.version))
        return effects

    def _gather(self, name: str, now: Instant, wall_ns: int) -> None:
        """Make notices of the cases that wait: of few each, of many one when their time is over."""
        assert self._rules is not None
        waiting, window = self._waiting[name], self._windows[name]
        settings = self._rules.rules[name].settings
        if window.ends <= now:
            was_flood = window.is_flood
            window.ends, window.room, window.is_flood = Instant(now + settings.within_s * SECOND), settings.most, False
            if was_flood:
                self._write(name, list(waiting.values()), CASES_MAX, now, wall_ns)
                return
        if window.is_flood or len(waiting) > window.room:
            window.is_flood = True
            return
        window.room -= len(waiting)
        self._write(name, list(waiting.values()), 1, now, wall_ns)

    def _write(self, name: str, cases: list[ItemCase], each: int, now: Instant, wall_ns: int) -> None:
        cases.sort(key=lambda one: (-one.severity, one.raised_ns))
        for at in range(0, len(cases), each):
            if len(self._entries) >= NOTICES_MAX:
                return
            part = cases[at : at + each]
            notice = notice_of(name, part, wall_ns)
            self._entries[notice.number] = _Entry(notice, now)
            for case in part:
                del self._waiting[name][key_of(case)]

    # Notices to people.

    def _advanced(self, now: Instant, wall_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        due = [one for one in self._entries.values() if one.is_due(now)]
        taken = self._taken() if due else {}
        for entry in sorted(due, key=lambda one: (-one.notice.severity, one.notice.made_ns)):
            assert self._rules is not None
            rule = self._rules.rules[entry.notice.rule]
            effects += self._advance(entry, rule, taken, now, wall_ns)
        return effects

    def _taken(self) -> dict[str, int]:
        """How many notices are under way to each kind of address."""
        taken: dict[str, int] = {}
        for one in self._entries.values():
            if one.sends or one.is_leaving:
                kind = one.notice.tried[-1].kind
                taken[kind] = taken.get(kind, 0) + 1
        return taken

    def _advance(self, entry: _Entry, rule: Rule, taken: dict[str, int], now: Instant, wall_ns: int) -> list[Effect]:
        """Have the next one told of a notice that is due."""
        assert self._rules is not None
        notice, last = entry.notice, _last(entry.notice)
        if last is not None and last.outcome is SendOutcome.LEAVING:  # Whoever sent it is gone.
            notice = tried(
                notice, last, SendOutcome.UNKNOWN, last.attempt, last.at_ns, "the face ended as it sent this"
            )
            last = notice.tried[-1]
        if entry.begins_anew:
            notice, last, entry.begins_anew = msgspec.structs.replace(notice, tried=()), None, False
        duties = rule.on_duty(self._rules.local(wall_ns))
        if last is not None and _may_be_tried(last):
            to: Duty | Try | None = last
            attempt = last.attempt + 1
        else:
            known = {_way(one) for one in notice.tried}
            to = next((one for one in duties if _way(one) not in known), None)
            attempt = 1
            notice = self._renewed(notice)
        if to is None:
            on_duty = {_way(one) for one in duties}
            told = [one for one in notice.tried if one.outcome is SendOutcome.SENT]
            entry.is_told = any(_way(one) in on_duty for one in told) if on_duty else bool(told)
            entry.due, entry.begins_anew = Instant(now + AGAIN_NS), not entry.is_told
            entry.why = "" if entry.is_told else "nobody is on duty" if last is None else last.why
            self._is_changed = True  # An alarm that came again since is told anew.
            return []
        if taken.get(to.kind, 0) >= SLOTS:
            return []
        taken[to.kind] = taken.get(to.kind, 0) + 1
        entry.sends, entry.is_told = True, False
        return self._record(entry, tried(notice, to, SendOutcome.LEAVING, attempt, wall_ns), now)

    def _renewed(self, notice: Notice) -> Notice:
        """The notice with its alarms that came again since, as they are now."""
        cases = [self._cases[key[:2]] for key in notice.cases if key[:2] in self._cases]
        keys = {key_of(one)[:2]: key_of(one) for one in cases}
        if set(keys.values()) <= set(notice.cases):
            return notice
        said = notice_of(notice.rule, cases, notice.made_ns)
        return msgspec.structs.replace(
            notice, subject=said.subject, body=said.body, cases=tuple(keys.get(one[:2], one) for one in notice.cases)
        )

    def _record(self, entry: _Entry, notice: Notice, now: Instant) -> list[Effect]:
        entry.notice, entry.is_busy = notice, True
        entry.due = self._due(entry, now, 0)
        return [RecordNotice(notice, entry.version)]

    def _due(self, entry: _Entry, now: Instant, elapsed_ns: int) -> Instant | None:
        """Instant at which something is to be done about a notice; None: never."""
        rule = None if self._rules is None else self._rules.rules.get(entry.notice.rule)
        last, delay = _last(entry.notice), 0
        if last is not None and last.outcome is SendOutcome.SENT:
            if rule is None or not rule.settings.escalate_min:
                return None
            delay = rule.settings.escalate_min * 60 * SECOND
        elif last is not None and _may_be_tried(last):
            delay = RETRY_NS
        return Instant(now + max(0, delay - elapsed_ns))

    def _told_unreached(self) -> list[Effect]:
        whys = [one.why for one in self._entries.values() if one.why and not one.is_gone]
        before, self._unreached = self._unreached, TellUnreached(len(whys), whys[-1] if whys else "")
        return [self._unreached] if self._unreached != before else []


def _last(notice: Notice) -> Try | None:
    return notice.tried[-1] if notice.tried else None


def _way(one: Duty | Try) -> tuple[str, str]:
    return one.kind, one.address


def _may_be_tried(last: Try) -> bool:
    """Whether the same address is to be tried again."""
    return last.outcome in (SendOutcome.LATER, SendOutcome.UNKNOWN) and last.attempt < TRIES
