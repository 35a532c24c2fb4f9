"""LOGGER: takes every actor's log lines and writes them where the configuration says.

    actors --Logged--> link "logger" --> mailbox (drop oldest, count) --> writer thread --> stdout | file | syslog

The writer has a thread of its own because a stalled terminal or a full disk blocks: the actor goes on answering
DEAD?, the mailbox drops its oldest lines, and the first line that gets through again says how many are missing.

Not done here: lines of an actor while logger is not there (runtime/journal.py).
"""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from albireo.codec.message import Logged
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Letter, LinkLimits, Mailbox, Overflow
from albireo.runtime.journal import LEVELS, render_json, render_text

LINES_WAITING_MAX: Final = 10_000
"""Lines between the link and the writer. Overflow rule: drop oldest and count."""
LINES_PER_WRITE_MAX: Final = 500
LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is cut; it would not be read by a human or taken by syslog anyway."""
FILES_KEPT: Final = 5
"""Rotated files beside the current one."""
QUIET_S: Final = 0.05
"""At a stop, lines are taken until none has come for this long: boot's last line is on another link than its stop."""
QUIET_TRIES_MAX: Final = 20
JOIN_S: Final = 5.0
"""Longest wait of a stop for the last lines."""
LINK_LIMITS: Final = LinkLimits(receive_messages_max=1000, send_messages_max=1, message_bytes_max=1024 * 1024)
SYSLOG: Final = Path("/dev/log")
_SYSLOG_DAEMON: Final = 3 << 3
"""Facility `daemon`, RFC 5424 section 6.2.1."""
_SYSLOG_SEVERITY: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3}


class LoggerArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from boot."""

    target: Literal["stdout", "file", "syslog"] = "stdout"
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written."""
    file_mib: int = 10
    """Size at which the file is rotated."""


class LineSink(Protocol):
    """End of the lines: StreamSink, FileSink, SyslogSink. Only the writer thread calls it."""

    def write(self, lines: Sequence[Logged]) -> None:
        """Write `lines`, all of them before returning. Blocking is fine.

        Raises:
            OSError: the lines are lost, at least partly; the next call tries afresh.
        """

    def close(self) -> None:
        """Release what is open."""


class StreamSink:
    """stdout: text for a terminal, JSON lines for everything else."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._render = render_text if os.isatty(descriptor) else render_json

    def write(self, lines: Sequence[Logged]) -> None:
        write_all(self._descriptor, _joined(lines, self._render))

    def close(self) -> None:
        """The stream is not ours."""


class FileSink:
    """`node.log`, rotated by size to `node.log.1` (the newest) .. `node.log.5`."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._path = directory / "node.log"
        self._bytes_max = bytes_max
        self._descriptor = -1

    def write(self, lines: Sequence[Logged]) -> None:
        data = _joined(lines, render_json)
        if self._descriptor < 0:
            self._open()
        size = os.fstat(self._descriptor).st_size
        if size > 0 and size + len(data) > self._bytes_max:
            self._rotate()
        write_all(self._descriptor, data)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)

    def _rotate(self) -> None:
        self.close()
        for number in range(FILES_KEPT, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class SyslogSink:
    """The local syslog daemon, one datagram per line, in the form that glibc's syslog(3) sends."""

    def __init__(self, path: Path = SYSLOG) -> None:
        self._path = path
        self._socket: socket.socket | None = None

    def write(self, lines: Sequence[Logged]) -> None:
        try:
            connected = self._connected()
            for line in lines:
                priority = _SYSLOG_DAEMON | _SYSLOG_SEVERITY.get(line.level, 6)
                text = f"<{priority}>albireo[{os.getpid()}]: {render_json(line)}"
                connected.send(text.encode()[:LINE_BYTES_MAX])
        except OSError:
            self.close()  # The daemon was restarted, perhaps: connect anew next time.
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.connect(str(self._path))
        return self._socket


class LineWriter:
    """The thread between the mailbox and the sink."""

    def __init__(self, sink: LineSink, now: Callable[[], int], capacity: int = LINES_WAITING_MAX) -> None:
        """`now` gives Unix ns for the lines that the writer adds itself."""
        self._sink = sink
        self._now = now
        self._mailbox: Mailbox[Logged] = Mailbox("logger.lines", capacity, Overflow.DROP_OLDEST)
        self._has_work = threading.Event()
        self._is_stopping = False
        self._told = 0
        self.written = 0
        self.failed = 0
        """Lines that the sink refused."""
        self._thread = threading.Thread(target=self._write, name="logger-writer", daemon=True)

    @property
    def dropped(self) -> int:
        """Lines lost: dropped as the oldest of a full mailbox, or refused by the sink."""
        return self._mailbox.dropped + self.failed

    def start(self) -> None:
        self._thread.start()

    def put(self, line: Logged) -> bool:
        """Take a line, at the cost of the oldest if need be; never blocks."""
        self._mailbox.put(line)
        self._has_work.set()
        return True

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines and end; False: the sink is still blocked after `timeout_s`."""
        self._is_stopping = True
        self._has_work.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _write(self) -> None:
        while True:
            self._has_work.wait()
            self._has_work.clear()
            while lines := self._mailbox.take(LINES_PER_WRITE_MAX):
                self._write_some(lines)
            if self._is_stopping and len(self._mailbox) == 0:
                self._sink.close()
                return

    def _write_some(self, lines: list[Logged]) -> None:
        dropped = self.dropped
        if dropped > self._told:
            fields: dict[str, object] = {"count": dropped - self._told, "total": dropped}
            gap = Logged(at_ns=self._now(), level="warning", actor="logger", event="log_lines_dropped", fields=fields)
            lines = [gap, *lines]
        try:
            self._sink.write(lines)
        except OSError:
            self.failed += len(lines)  # The first line that gets through again says so.
        else:
            self._told = dropped
            self.written += len(lines)


def sink_of(arguments: LoggerArguments, data: Path) -> LineSink:
    """The sink that `arguments` name."""
    match arguments.target:
        case "stdout":
            return StreamSink(sys.stdout.fileno())
        case "file":
            return FileSink(data / "journal", arguments.file_mib << 20)
        case "syslog":
            return SyslogSink()


def create(arguments: Mapping[str, object]) -> "Logger":
    """Factory for the runtime."""
    return Logger(msgspec.convert(arguments, LoggerArguments))


class Logger:
    """The behaviour of the actor `logger`."""

    name = "logger"

    def __init__(self, arguments: LoggerArguments) -> None:
        self._arguments = arguments
        self._lowest = LEVELS[arguments.level]
        self._writer: LineWriter

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._writer = LineWriter(sink_of(self._arguments, actor.data), actor.wall_ns)
        self._writer.start()
        actor.log.redirect(self._writer.put)
        self._link = actor.bind("logger", LINK_LIMITS)
        actor.log.info("logger_started", target=self._arguments.target, level=self._arguments.level)

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case Logged() as line:
                    if LEVELS.get(line.level, LEVELS["error"]) >= self._lowest:
                        self._writer.put(line)
                case other:
                    self._actor.log.limited("message_unexpected", type(other).__name__, sender=letter.sender)

    def ticked(self, now: Instant) -> None:
        """No timer is ever armed."""

    async def stop(self) -> None:
        for _ in range(QUIET_TRIES_MAX):
            received = self._link.received
            await asyncio.sleep(QUIET_S)
            if self._link.received == received:
                break
        self._actor.log.info("logger_stopped", written=self._writer.written, dropped=self._writer.dropped)
        is_done = await asyncio.to_thread(self._writer.stop, JOIN_S)
        self._actor.log.redirect(lambda _: False)  # From here on stderr is all there is.
        if not is_done:
            self._actor.log.warning("log_sink_blocked", target=self._arguments.target)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`: pipes and disks take less than asked when they are nearly full."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _joined(lines: Sequence[Logged], render: Callable[[Logged], str]) -> bytes:
    return b"".join(render(line).encode()[:LINE_BYTES_MAX] + b"\n" for line in lines)
