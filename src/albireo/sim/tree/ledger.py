"""Ledger of what each node of a tree committed, and the judge of every copy of it.

Checked of a copy
    true       each frame in it is one that its origin committed, of the branch that lived when it came
    once       each frame stands in it once, in the order of the origin
    whole      nothing that the origin committed in between is missing, save where a gap stands for it

Checked of a log
    counted    what each program counted stands there once, in order, with nothing missing that it was told of

Spec: design/tree.md.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

from albireo.codec import record, samples
from albireo.codec.frame import Frame, FrameHeader
from albireo.codec.record import Kind, OriginDeclared, OriginForked, OriginGap, Stream, decode_records
from albireo.codec.tree.envelope import open_envelope

Own = tuple[int, int]
"""Last sequence and header CRC of a frame."""


class TreeLedger:
    """Judge of one world."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self.fail = fail
        self._living: dict[bytes, list[Own]] = {}
        """Committed frames of each log but for its envelopes, in the branch that lives."""
        self._ever: dict[bytes, set[Own]] = {}
        """Committed frames of each log, in any branch."""
        self._recorded: dict[bytes, int] = {}
        """Bytes of the committed frames of each log, in all branches."""
        self._counts: dict[bytes, list[tuple[int, int, int]]] = {}
        """Counts of programs in the branch that lives: last sequence of the frame, program, count."""
        self._declared: dict[str, dict[int, bytes]] = {}
        """Logs by index in each log that was judged: the records that declare them may be gone the next time."""
        self.gaps: dict[str, dict[bytes, list[tuple[int, int]]]] = {}
        """Gaps of each copy in a log that was judged: the first record that is missing, the first one behind them."""

    def opened(self, log_id: bytes, end: int) -> None:
        """A log goes on from here: what it had above is a branch that was left."""
        living = self._living.setdefault(log_id, [])
        self._living[log_id] = [one for one in living if one[0] <= end]
        self._counts[log_id] = [one for one in self._counts.get(log_id, []) if one[0] <= end]

    def committed(self, frame: Frame) -> None:
        header = frame.header
        own = header.last_sequence, header.header_crc
        self._ever.setdefault(header.log_id, set()).add(own)
        self._recorded[header.log_id] = self.recorded_bytes(header.log_id) + header.frame_bytes
        if header.kind == Kind.ENVELOPE:
            return
        self._living.setdefault(header.log_id, []).append(own)
        if header.kind == Kind.INT64 and header.stream == Stream.SAMPLES and record.decode_producer(frame.body)[0]:
            batch = samples.decode_body(frame.body, header.kind, header.record_count)
            for count, program in (divmod(int(value), 10) for value in batch.values()):
                self._counts.setdefault(header.log_id, []).append((own[0], program, count))

    def first_behind(self, log_id: bytes, sequence: int) -> int:
        """Last record of the first frame behind a record, envelopes not counted."""
        return next(last for last, _ in self._living[log_id] if last > sequence)

    def recorded_bytes(self, log_id: bytes) -> int:
        return self._recorded.get(log_id, 0)

    def knows(self, frame: Frame) -> bool:
        """True: the frame is committed as it stands here."""
        return (frame.header.last_sequence, frame.header.header_crc) in self._ever.get(frame.header.log_id, ())

    def check_counts(self, name: str, log_id: bytes, program: int, above: int, to: int) -> None:
        """Check that what a program counted stands there in order, once each, and all of it above one count."""
        found = [count for _, one, count in self._counts.get(log_id, []) if one == program]
        if any(later <= earlier for earlier, later in pairwise(found)):
            self.fail(f"{name}: the counts of {program} do not rise: {found}")
        if missing := set(range(above + 1, to + 1)) - set(found):
            self.fail(f"{name}: {sorted(missing)[:5]} of {above + 1}..{to} of {program} are missing")

    def end_of(self, log_id: bytes) -> int:
        """Last committed sequence of the log, envelopes not counted."""
        living = self._living.get(log_id)
        return living[-1][0] if living else 0

    def judge(self, name: str, frames: Iterable[Frame]) -> dict[bytes, int]:
        """Check all copies in a log; returns where each ends."""
        copies: dict[bytes, list[Own]] = {}
        logs: dict[int, bytes] = {}
        gaps: dict[bytes, list[tuple[int, int]]] = {}
        begin = 0
        for frame in frames:
            if not begin:
                begin = frame.header.first_sequence
                logs = self._declared.get(name, logs) if begin > 1 else logs
            if frame.header.kind == Kind.ENVELOPE:
                for inner, _ in open_envelope(frame.header, frame.body, verify=True):
                    assert frame.header.origin is not None
                    self._take(name, logs.get(frame.header.origin.node, b""), inner, copies)
            elif frame.header.stream == Stream.CONTROL:
                for one in decode_records(frame.body, frame.header.record_count):
                    if isinstance(one, OriginDeclared):
                        logs[one.index] = one.origin_log
                    elif isinstance(one, OriginGap):
                        gaps.setdefault(logs[one.index], []).append((one.first, one.sequence))
                    elif isinstance(one, OriginForked):
                        log_id = logs[one.index]
                        copies[log_id] = [own for own in copies.get(log_id, []) if own[0] <= one.sequence]
        self._declared[name], self.gaps[name] = logs, gaps
        for log_id, copy in copies.items():
            living = self._living.get(log_id, [])
            if begin > 1 and copy and copy[0] in living:
                living = living[living.index(copy[0]) :]
            for first, behind in gaps.get(log_id, ()):
                living = [own for own in living if not first <= own[0] < behind]
            if copy and copy != living[: len(copy)] and copy[-1] in living:
                self.fail(f"{name}: the copy of {log_id.hex()[:8]} lacks frames that its origin committed")
        return {log_id: copy[-1][0] for log_id, copy in copies.items() if copy}

    def _take(self, name: str, log_id: bytes, inner: FrameHeader, copies: dict[bytes, list[Own]]) -> None:
        own = inner.last_sequence, inner.header_crc
        copy = copies.setdefault(log_id, [])
        if inner.log_id != log_id:
            self.fail(f"{name}: a frame of {inner.log_id.hex()[:8]} in the copy of {log_id.hex()[:8]}")
        if own not in self._ever.get(log_id, ()):
            self.fail(f"{name}: frame {inner.last} of {log_id.hex()[:8]} was never committed there")
        if copy and inner.first_sequence <= copy[-1][0]:
            self.fail(f"{name}: frame {inner.last} of {log_id.hex()[:8]} stands behind {copy[-1][0]}")
        copy.append(own)
