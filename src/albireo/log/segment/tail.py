"""The tail: the newest frames, kept in memory as they are encoded, durable or not.

The holder of a pair sends each group to the other member while its own disk syncs it, so it reads what it has just
appended; feeds are near the end as a rule. Nothing is decoded or checked again here.
"""

from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from albireo.codec.frame import padding
from albireo.log.config import MIB
from albireo.log.files import Buffer
from albireo.log.segment.table import Queued

FRAME_OVERHEAD_BYTES: Final = 1024
"""Charge per frame for the objects that hold it, so that tiny frames do not cost many times the limit."""
FEED_BYTES: Final = 8 * MIB
"""Bytes of durable frames kept for feeds; more are kept while there is another member."""
LOOKED_MAX: Final = 16_384
"""Most frames that one read looks at, which takes a millisecond where none is wanted."""
_SHRINK_AT: Final = 1024


class Tail:
    """Used by the thread that appends."""

    def __init__(self, kept_bytes_max: int) -> None:
        self.kept_bytes_max = kept_bytes_max
        """Bytes of durable frames kept at most."""
        self._parts: list[Queued | None] = []
        self._firsts: list[int] = []
        self._streams: list[int] = []
        self._begin = 0
        """Index of the first part that is kept; the parts before it are None, and the lists shrink now and then."""
        self._durable = 0
        """Index of the first part that is not durable."""
        self._kept_bytes = 0

    def add(self, group: list[Queued], durable_sequence: int) -> None:
        """Take frames that were appended; forget the oldest durable ones beyond the limit."""
        self._parts += group
        self._firsts += [queued.frame.header.first_sequence for queued in group]
        self._streams += [queued.frame.header.stream for queued in group]
        parts, firsts, at = self._parts, self._firsts, self._durable
        while at < len(parts) and firsts[at] <= durable_sequence:
            self._kept_bytes += _charge(parts[at])
            at += 1
        self._durable = at
        begin = self._begin
        while begin < at and self._kept_bytes > self.kept_bytes_max:
            self._kept_bytes -= _charge(parts[begin])
            parts[begin] = None
            begin += 1
        self._begin = begin
        if begin > _SHRINK_AT and 2 * begin > len(parts):
            del self._parts[:begin], self._firsts[:begin], self._streams[:begin]
            self._durable -= begin
            self._begin = 0

    def read(
        self, after_sequence: int, bytes_max: int, to_sequence: int, streams: Collection[int] = ()
    ) -> tuple[bytes, int]:
        """Frames from the one that holds `after_sequence` + 1 on, up to `to_sequence`, at least one if there is any.

        Args:
            streams: those whose frames are given; none: all.
        Returns:
            The frames, and the sequence up to which all were looked at: `after_sequence` if the first is not kept.
        """
        at = bisect_right(self._firsts, after_sequence + 1, self._begin) - 1
        if after_sequence >= to_sequence or at < self._begin:
            return b"", after_sequence
        buffers: list[Buffer] = []
        size, looked_to = 0, after_sequence
        firsts, kinds = self._firsts, self._streams
        end = bisect_right(firsts, to_sequence, at, min(len(firsts), at + LOOKED_MAX))
        for place in range(at, end):
            if streams and kinds[place] not in streams and place + 1 < end:
                continue
            queued = self._parts[place]
            assert queued is not None
            header = queued.frame.header
            if header.last_sequence > to_sequence:
                break
            if not streams or kinds[place] in streams:
                size += header.frame_bytes
                if buffers and size > bytes_max:
                    break
                buffers += (queued.encoded, queued.frame.body, padding(header.body_bytes))
            looked_to = header.last_sequence
        return b"".join(buffers), looked_to


def _charge(queued: Queued | None) -> int:
    assert queued is not None
    return queued.frame.header.frame_bytes + FRAME_OVERHEAD_BYTES
