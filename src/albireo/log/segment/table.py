"""Segments of the log, and the frames that are on their way into the last of them."""

import threading

import msgspec

from albireo.codec.frame import Frame
from albireo.log.segment.segment import Segment


class Queued(msgspec.Struct, frozen=True):
    """A frame on its way to the disk."""

    encoded: bytes
    """Bytes of the frame's header."""
    frame: Frame
    total_bytes: int
    """Bytes appended since open, this frame included."""


class SegmentTable:
    """The segments of the log, oldest first. Changed under a lock, read without one: a reader takes the tuple."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self._lock = threading.Lock()
        self.segments = segments

    def add(self, segment: Segment) -> None:
        with self._lock:
            self.segments = (*self.segments, segment)

    def put(self, segment: Segment) -> None:
        """Put in a segment that was missing, or that replaces the one with the same first sequence."""
        with self._lock:
            others = [one for one in self.segments if one.first_sequence != segment.first_sequence]
            self.segments = tuple(sorted([*others, segment], key=lambda one: one.first_sequence))

    def drop_oldest(self, count: int) -> None:
        with self._lock:
            self.segments = self.segments[count:]
