"""Leases: which consumer of a shared subscription has which messages of a topic, and since how many attempts.

    new --leased--> a consumer's --done--> gone
                      |    ^
        given back, or too late
                      v    |
                    nobody's, to be given again

Spec: ADR-0246.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from albireo.model.bounded import INT64_MAX, Count

NOBODY: Final = 0
DEAD_LETTERS: Final = INT64_MAX
"""The consumer that moves messages to the topic of dead letters: the node itself."""
LEASE_S_MAX: Final = 86_400

Range = tuple[Count, Count]
"""Numbers of messages of a topic: from, up to and with."""


class Sharing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a subscription is shared by several consumers, of which one gets each message."""

    lease_s: Annotated[int, Meta(ge=1, le=LEASE_S_MAX)] = 30
    """Time for which a message is one consumer's; then it is given again, unless it is acknowledged."""
    deliveries_max: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """Deliveries that fail, after which a message goes to `dead_letters`; 0: it is given again without end."""
    dead_letters: Annotated[str, Meta(max_length=200)] = ""
    """Topic for messages that nobody could deal with."""

    @property
    def told(self) -> str:
        """Its settings in words."""
        dead = f", dead letters to {self.dead_letters!r} after {self.deliveries_max} deliveries"
        return f"leases of {self.lease_s} s{dead if self.dead_letters else ''}"

    def problem(self) -> str:
        """Why it makes no sense; empty: it does."""
        if bool(self.deliveries_max) != bool(self.dead_letters):
            return "deliveries_max and dead_letters go together: after so many deliveries a message goes to that topic"
        return ""


class MessageLease(msgspec.Struct, frozen=True, array_like=True):
    """Messages behind each other that were given to a consumer and are not done."""

    first: Count
    last: Count
    consumer: Count
    """Whose they are; NOBODY: they are to be given again."""
    until_ms: Count = 0
    """Log time at which they are nobody's again."""
    given: Count = 1
    """How often they were given."""
    failed: Count = 0
    """How often whoever had them gave them back, or let the lease of the oldest one run out."""

    @property
    def count(self) -> int:
        """Number of messages."""
        return self.last - self.first + 1


def without(ranges: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    """The numbers of these ranges that are in none of the others; both rise."""
    found: list[Range] = []
    out = iter(others)
    other = next(out, None)
    for first, last in ranges:
        at = first
        while other is not None and other[0] <= last:
            if at < other[0]:
                found.append((at, other[0] - 1))
            at = max(at, other[1] + 1)
            if other[1] > last:
                break
            other = next(out, None)
        if at <= last:
            found.append((at, last))
    return found


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in their order, those that meet as one."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def first_of(ranges: Iterable[Range], count: int) -> list[Range]:
    """The first so many numbers of these ranges."""
    found: list[Range] = []
    for first, last in ranges:
        if count <= 0:
            break
        last = min(last, first + count - 1)
        found.append((first, last))
        count -= last - first + 1
    return found


def count_of(ranges: Iterable[Range]) -> int:
    """Number of the numbers in these ranges."""
    return sum(last - first + 1 for first, last in ranges)


def within(leases: Sequence[MessageLease], ranges: Iterable[Range]) -> list[MessageLease]:
    """The parts of leases that lie in these ranges; both rise."""
    found: list[MessageLease] = []
    place = 0
    for first, last in ranges:
        while place < len(leases) and leases[place].last < first:
            place += 1
        at = place
        while at < len(leases) and leases[at].first <= last:
            one = leases[at]
            found.append(replace(one, first=max(first, one.first), last=min(last, one.last)))
            at += 1
    return found


def spans(leases: Iterable[MessageLease]) -> list[Range]:
    """Their numbers."""
    return [(one.first, one.last) for one in leases]


def changed(leases: Sequence[MessageLease], parts: Sequence[MessageLease]) -> tuple[MessageLease, ...]:
    """The leases with these parts as they are given here; parts that are alike and meet become one."""
    kept = within(leases, without(spans(leases), spans(parts)))
    found: list[MessageLease] = []
    for one in sorted([*kept, *parts], key=lambda each: each.first):
        before = found[-1] if found else None
        if (
            before is not None
            and before.last + 1 == one.first
            and replace(before, first=one.first, last=one.last) == one
        ):
            found[-1] = replace(before, last=one.last)
        else:
            found.append(one)
    return tuple(found)


def expired(leases: Sequence[MessageLease], now_ms: int) -> tuple[MessageLease, ...]:
    """The leases as of a log time: what is over is nobody's. The oldest message of each consumer counts as failed."""
    parts: list[MessageLease] = []
    seen: set[int] = set()
    for one in leases:
        if one.consumer == NOBODY:
            continue
        is_oldest = one.consumer not in seen
        seen.add(one.consumer)
        if one.until_ms > now_ms:
            continue
        over = replace(one, consumer=NOBODY, until_ms=0)
        if is_oldest:
            parts.append(replace(over, last=one.first, failed=one.failed + 1))
            over = replace(over, first=one.first + 1)
        if over.first <= over.last:
            parts.append(over)
    return changed(leases, parts)
