"""Lines written by a thread of their own: whoever has one to write never waits for a pipe, a terminal or a disk.

    actor --put--> mailbox (drop oldest, count) --> thread --> sink that may block, or be gone

`never_block` puts one behind each standard stream of a process, so that nothing that it says - lines of the last
resort, tracebacks, reasons - delays or ends it: neither a full pipe, nor one without a reader, nor a full disk.
"""

import atexit
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from albireo.runtime.mailbox import Mailbox, Overflow

LINES_PER_WRITE_MAX: Final = 500
PIECES_WAITING_MAX: Final = 1000
"""Pieces of some KiB between a standard stream and its thread. Overflow rule: drop oldest and count."""
STOP_S: Final = 5.0
"""Longest wait of a stop for the last lines."""
BLOCKED_S: Final = 0.5
"""Longest wait of a stop for a sink that takes none."""

LineT = TypeVar("LineT")


class LineWriter(Generic[LineT]):
    """The thread between the mailbox and the sink."""

    def __init__(
        self, write: Callable[[Sequence[LineT]], None], gap: Callable[[int, int], LineT], capacity: int
    ) -> None:
        """Prepare the thread.

        Args:
            write: writes lines to the sink, all of them before it returns; may block, may raise OSError.
            gap: makes the line that tells how many were lost since the last such line, and in all.
            capacity: lines that wait at most; the oldest go first.
        """
        self._sink = write
        self._gap = gap
        self._mailbox: Mailbox[LineT] = Mailbox("lines", capacity, Overflow.DROP_OLDEST)
        self._has_work = threading.Event()
        self._is_stopping = False
        self._told = 0
        self.written = 0
        self.failed = 0
        """Lines that the sink refused."""
        self._thread = threading.Thread(target=self._write, name="line-writer", daemon=True)

    @property
    def dropped(self) -> int:
        """Lines lost: dropped as the oldest of a full mailbox, or refused by the sink."""
        return self._mailbox.dropped + self.failed

    def start(self) -> None:
        self._thread.start()

    def put(self, line: LineT) -> bool:
        """Take a line, at the cost of the oldest if need be; never blocks."""
        self._mailbox.put(line)
        self._has_work.set()
        return True

    def stop(self, timeout_s: float = STOP_S, blocked_s: float = BLOCKED_S) -> bool:
        """Write the waiting lines and end; False: the sink took none for `blocked_s`, or not all in `timeout_s`."""
        self._is_stopping = True
        self._has_work.set()
        ends, before = boot_ns() + int(timeout_s * SECOND), -1
        while self._thread.is_alive() and before < (done := self.written + self.failed) and boot_ns() < ends:
            before = done
            self._thread.join(blocked_s)
        return not self._thread.is_alive()

    def _write(self) -> None:
        while True:
            self._has_work.wait()
            self._has_work.clear()
            while lines := self._mailbox.take(LINES_PER_WRITE_MAX):
                self._write_some(lines)
            if self._is_stopping and len(self._mailbox) == 0:
                return

    def _write_some(self, lines: list[LineT]) -> None:
        dropped = self.dropped
        if dropped > self._told:
            lines = [self._gap(dropped - self._told, dropped), *lines]
        try:
            self._sink(lines)
        except OSError:
            self.failed += len(lines)  # The first line that gets through again says so.
        else:
            self._told = dropped
            self.written += len(lines)


class _Aside(io.RawIOBase):
    """A standard stream that a thread writes, from its first piece on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writer = LineWriter(self._write_all, self._gap, PIECES_WAITING_MAX)
        self._has_begun = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: bytes) -> int:  # type: ignore[override]  # Nobody hands us another buffer.
        if not self._has_begun:
            self._has_begun = True
            self._writer.start()
        self._writer.put(bytes(data))
        return len(data)

    def end(self) -> None:
        """Give the last pieces their time."""
        if self._has_begun:
            self._writer.stop()

    def _write_all(self, pieces: Sequence[bytes]) -> None:
        write_all(self._descriptor, b"".join(pieces))

    @staticmethod
    def _gap(count: int, total: int) -> bytes:
        return f"albireo: {count} pieces of output are lost here, {total} in all\n".encode()


def never_block() -> None:
    """Let nobody in this process wait for its standard output or error: what is not taken is dropped.

    For a process that has others to serve; a command that hands out data waits for whoever takes them.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            aside = _Aside(stream.fileno())
            setattr(sys, name, io.TextIOWrapper(aside, stream.encoding, stream.errors, line_buffering=True))
            atexit.register(last_words)


def last_words() -> None:
    """Wait until what was said is written, as long as somebody takes it. For a process that ends now."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        if isinstance(aside := getattr(stream, "buffer", None), _Aside):
            aside.end()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`: pipes and disks take less than asked when they are nearly full."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # Whoever started us has it non-blocking.
            select.select([], [descriptor], [])
