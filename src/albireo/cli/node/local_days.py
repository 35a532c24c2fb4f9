"""Intervals by the clock of a plant's zone: days begin at its midnight, and two of a year have 23 and 25 hours.

The idea: the history computes intervals of one length, so a range is cut where their length changes.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final

import msgspec

from albireo.model.instant import SECOND
from albireo.node.history.query import INTERVALS_MAX, TimeRange

HOUR_NS: Final = 3_600 * SECOND
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(msgspec.Struct, frozen=True):
    """A range that has intervals of one length."""

    from_ns: int
    to_ns: int
    every_ns: int


def stretches(span: TimeRange, every_ns: int, zone: tzinfo) -> list[Stretch]:
    """The range from the begin of its first interval on, cut where the length of the intervals changes.

    Up to an hour they have one length, and begin on whole multiples by the clock at the begin of the range. Longer ones
    have as many hours as the clock needs: none is left out, and none is empty.
    """
    offset = (_EPOCH + timedelta(microseconds=span.from_ns // 1000)).astimezone(zone).utcoffset()
    assert offset is not None
    offset_ns = offset // timedelta(seconds=1) * SECOND
    begin_ns = span.from_ns - (span.from_ns + offset_ns) % every_ns
    if every_ns <= HOUR_NS or (span.to_ns - begin_ns) // every_ns > INTERVALS_MAX:  # Which are refused.
        return [Stretch(begin_ns, span.to_ns, every_ns)]
    wall_ns = begin_ns + offset_ns
    edges = [_of_wall(wall_ns, zone)]
    while edges[-1] < span.to_ns:
        wall_ns += every_ns
        edges.append(max(_of_wall(wall_ns, zone), edges[-1] + SECOND))
    found: list[Stretch] = []
    for start_ns, end_ns in pairwise(edges):
        last = found[-1] if found else None
        to_ns = min(end_ns, span.to_ns)
        if last is not None and last.every_ns == end_ns - start_ns:
            found[-1] = Stretch(last.from_ns, to_ns, last.every_ns)
        else:
            found.append(Stretch(start_ns, to_ns, end_ns - start_ns))
    return found


def _of_wall(wall_ns: int, zone: tzinfo) -> int:
    """The time at which the clock shows this; one that it never shows is as far behind the change."""
    shown = (_EPOCH + timedelta(microseconds=wall_ns // 1000)).replace(tzinfo=zone)
    return (shown - _EPOCH) // timedelta(microseconds=1) * 1000
