"""Which segments may go.

A segment goes when nothing in it is wanted, and only from the oldest on, so that what remains is one gap-free sequence.
Nothing goes that is above the oldest kept snapshot: the fall-back from a bad newest snapshot needs it.
Spec: ADR-0014.
"""

from collections.abc import Mapping, Sequence

import msgspec

from albireo.log.segment.segment import Segment


class PrunedSegment(msgspec.Struct, frozen=True):
    """What has gone."""

    first_sequence: int
    last_sequence: int
    size_bytes: int
    streams: dict[int, int]
    """Last sequence of each stream in it."""


def prunable(segments: Sequence[Segment], low_water: Mapping[int, int], needless_sequence: int) -> int:
    """How many of the oldest segments may go.

    Args:
        segments: oldest first.
        low_water: by stream, the first sequence that is still wanted; a stream that is not named keeps everything.
        needless_sequence: what lies above is needed whatever the streams say: the oldest kept snapshot, or the end.
    """
    count = 0
    for segment in segments:
        if not segment.is_sealed or segment.last_sequence > needless_sequence:
            break
        if any(low_water.get(stream, 0) <= last for stream, last in segment.summary.streams.items()):
            break
        count += 1
    return count
