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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from albireo.codec.message import Logged
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, Letter, LinkLimits
from albireo.runtime.journal import LEVELS, render_json, render_text
from albireo.runtime.line_writer import LineWriter, write_all

LINES_WAITING_MAX: Final = 10_000
"""Lines between the link and the writer. Overflow rule: drop oldest and count."""
LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is cut; it would not be read by a human or taken by syslog anyway."""
FILES_KEPT: Final = 5
"""Rotated files beside the current one."""
QUIET_S: Final = 0.05
"""At a stop, lines are taken until none has come for this long: boot's last line is on another link than its stop."""
QUIET_TRIES_MAX: Final = 20
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
    """End of the lines: StreamSink, FileSink, SyslogSink. Only the writer thread calls `write`."""

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
        self._writer: LineWriter[Logged]

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        self._sink = sink_of(self._arguments, actor.data)
        self._writer = LineWriter(self._sink.write, self._gap, LINES_WAITING_MAX)
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
        is_done = await asyncio.to_thread(self._writer.stop)
        self._actor.log.redirect(lambda _: False)  # From here on stderr is all there is.
        if is_done:
            self._sink.close()
        else:
            self._actor.log.warning("log_sink_blocked", target=self._arguments.target)

    def _gap(self, count: int, total: int) -> Logged:
        fields: dict[str, object] = {"count": count, "total": total}
        return Logged(
            at_ns=self._actor.wall_ns(), level="warning", actor="logger", event="log_lines_dropped", fields=fields
        )


def _joined(lines: Sequence[Logged], render: Callable[[Logged], str]) -> bytes:
    return b"".join(render(line).encode()[:LINE_BYTES_MAX] + b"\n" for line in lines)
