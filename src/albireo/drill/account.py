"""Account: what a record of the log holds of what was acknowledged. Pure.

A message is a number; each producer numbers its own from 1. The record is the numbers of one producer in log order, as
somebody read them: the consumer while it happened, or a reader of one member's log afterwards.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

NAMED_MAX: Final = 5
"""Numbers that are named for a human to look at."""


class RoundAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one round."""

    acked: int
    lost: int
    """Acknowledged, and not in the record."""
    doubled: int
    """Times that a number is in the record beyond the first."""
    reordered: int
    """Numbers that stand behind a higher one of the same producer."""
    details: tuple[str, ...] = ()
    """The first of them by number, for the log of the drill."""


def judge(acked: Mapping[str, range], records: Mapping[str, Mapping[str, Sequence[int]]]) -> RoundAccount:
    """Compare what was acknowledged with what each reader found.

    Args:
        acked: by producer, the numbers acknowledged in this round.
        records: by reader, by producer, the numbers in log order; others than those of the round are left out of
            account.
    Returns:
        The worst that any reader found.
    """
    lost = doubled = reordered = 0
    details: list[str] = []
    for reader, record in records.items():
        found_lost, found_doubled, found_reordered = 0, 0, 0
        for producer, numbers in acked.items():
            seen = [one for one in record.get(producer, ()) if one >= numbers.start]
            counts = Counter(seen)
            missing = [one for one in numbers if one not in counts]
            more = [one for one, count in counts.items() if count > 1]
            behind = _behind_a_higher_one(seen)
            found_lost += len(missing)
            found_doubled += sum(counts[one] - 1 for one in more)
            found_reordered += len(behind)
            for what, which in (("lost", missing), ("doubled", more), ("reordered", behind)):
                if which:
                    details.append(f"{reader}: {producer}: {what} {len(which)}: {which[:NAMED_MAX]}")
        lost, doubled, reordered = max(lost, found_lost), max(doubled, found_doubled), max(reordered, found_reordered)
    return RoundAccount(
        acked=sum(map(len, acked.values())), lost=lost, doubled=doubled, reordered=reordered, details=tuple(details)
    )


def _behind_a_higher_one(numbers: Sequence[int]) -> list[int]:
    """Numbers below one that came before; a repeat of the highest is doubled, not out of order."""
    highest, behind = 0, []
    for one in numbers:
        if one < highest:
            behind.append(one)
        highest = max(highest, one)
    return behind


def gap_s(times: Sequence[float], fault_at: float, until: float) -> float:
    """The longest time without an acknowledgement that ended after the fault.

    One that left just before the fault may arrive just after it: the gap then begins there, so it is the longest of the
    pauses and not merely the first.

    Args:
        times: of every acknowledgement to one producer, rising, in seconds.
        fault_at: when the fault was done.
        until: pauses that begin later are not the fault's.
    Returns:
        0.0 without two acknowledgements around it.
    """
    longest, before = 0.0, None
    for at in times:
        if before is not None and at > fault_at and before < until:
            longest = max(longest, at - before)
        before = at
    return longest
