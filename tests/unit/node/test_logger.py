"""LOGGER: where lines end, and what happens when they can't."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from albireo.codec.message import Ask, Logged
from albireo.model.instant import Instant
from albireo.node.logger import FileSink, StreamSink, SyslogSink, create
from albireo.runtime import ActorContext, Letter, running
from albireo.runtime.line_writer import LineWriter
from tests.parts.waiting import PATIENCE_S


def line(event: str, level: str = "info", **fields: object) -> Logged:
    return Logged(at_ns=1_700_000_000_123_000_000, level=level, actor="core", event=event, fields=fields)


class ListSink:
    """Keeps lines; blocks or fails on demand. A second implementation of the seam, not a mock of one."""

    def __init__(self) -> None:
        self.lines: list[Logged] = []
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_failing = False
        self.has_begun = threading.Event()
        self.has_written = threading.Event()

    def write(self, lines: Sequence[Logged]) -> None:
        self.has_begun.set()
        assert self.may_write.wait(PATIENCE_S)
        fails = self.is_failing
        self.has_written.set()
        if fails:
            raise OSError(28, "No space left on device")
        self.lines += lines

    def close(self) -> None:
        pass


def writer_of(sink: ListSink, capacity: int = 10) -> LineWriter[Logged]:
    writer = LineWriter(sink.write, lambda count, total: line("log_lines_dropped", count=count, total=total), capacity)
    writer.start()
    return writer


def test_a_blocked_sink_costs_the_oldest_lines_and_they_are_counted() -> None:
    sink = ListSink()
    sink.may_write.clear()
    writer = writer_of(sink, capacity=10)
    assert writer.put(line("event_0"))
    assert sink.has_begun.wait(PATIENCE_S)
    for number in range(1, 1000):
        assert writer.put(line(f"event_{number}"))
    sink.may_write.set()
    assert writer.stop(PATIENCE_S, PATIENCE_S)
    events = [one.event for one in sink.lines]
    assert events[-1] == "event_999"
    [gap] = [one for one in sink.lines if one.event == "log_lines_dropped"]
    assert gap.fields["count"] == writer.dropped == 1000 - (len(events) - 1)


def test_a_failing_sink_loses_lines_counts_them_and_says_so_once_it_works() -> None:
    sink = ListSink()
    sink.is_failing = True
    writer = writer_of(sink)
    writer.put(line("lost"))
    assert sink.has_written.wait(PATIENCE_S)
    sink.is_failing = False
    writer.put(line("kept"))
    assert writer.stop(PATIENCE_S, PATIENCE_S)
    assert [one.event for one in sink.lines if one.event != "log_lines_dropped"] == ["kept"]
    assert (writer.failed, writer.dropped) == (1, 1)


def test_a_sink_that_never_returns_does_not_hold_the_stop() -> None:
    sink = ListSink()
    sink.may_write.clear()
    writer = writer_of(sink)
    writer.put(line("stuck"))
    assert not writer.stop(PATIENCE_S, 0.05)
    sink.may_write.set()
    assert writer.stop(PATIENCE_S, PATIENCE_S)


def test_a_file_is_rotated_by_size_and_the_oldest_goes(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "journal", bytes_max=1000)
    for number in range(100):
        sink.write([line("event", number=number, padding="x" * 50)])
    sink.close()
    files = sorted((tmp_path / "journal").iterdir())
    assert [file.name for file in files] == ["node.log", *(f"node.log.{n}" for n in range(1, 6))]
    assert all(file.stat().st_size <= 1000 for file in files)
    numbers = [
        json.loads(text)["number"]
        for file in [*reversed(files[1:]), files[0]]
        for text in file.read_text().splitlines()
    ]
    assert numbers == list(range(numbers[0], 100)), "no line is missing between the files"
    assert files[0].stat().st_mode & 0o077 == 0


def test_a_file_is_continued_after_a_restart(tmp_path: Path) -> None:
    for event in ("first", "second"):
        sink = FileSink(tmp_path, bytes_max=1000)
        sink.write([line(event)])
        sink.close()
    assert [json.loads(text)["event"] for text in (tmp_path / "node.log").read_text().splitlines()] == [
        "first",
        "second",
    ]


def test_stdout_gets_one_json_object_per_line() -> None:
    reading, writing = os.pipe()
    sink = StreamSink(writing)
    sink.write([line("case_raised", case=7, text="a\nb"), line("done")])
    os.close(writing)
    with os.fdopen(reading) as pipe:
        first, second = pipe.read().splitlines()
    assert json.loads(first) == {
        "at": "2023-11-14T22:13:20.123Z",
        "level": "info",
        "actor": "core",
        "event": "case_raised",
        "case": 7,
        "text": "a\nb",
    }
    assert json.loads(second)["event"] == "done"


def test_a_terminal_gets_text() -> None:
    leader, follower = os.openpty()
    StreamSink(follower).write([line("case_raised", text="a b", case=7)])
    text = os.read(leader, 1000).decode()
    os.close(leader)
    os.close(follower)
    assert text.strip() == '2023-11-14T22:13:20.123Z info    core case_raised text="a b" case=7'


def test_syslog_gets_datagrams_and_a_restarted_daemon_gets_the_next_ones(tmp_path: Path) -> None:
    path = tmp_path / "log"
    sink = SyslogSink(path)
    with pytest.raises(OSError, match="No such file"):
        sink.write([line("nobody_there")])
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(str(path))
            try:
                sink.write([line("disk_full", level="error")])
            except ConnectionRefusedError:
                sink.write([line("disk_full", level="error")])
            datagram = daemon.recv(65536).decode()
        path.unlink()
        assert datagram.startswith(f"<27>albireo[{os.getpid()}]: {{")
        assert json.loads(datagram.partition(": ")[2])["event"] == "disk_full"
    sink.close()


@pytest.mark.parametrize("arguments", [{"target": "printer"}, {"level": "loud"}, {"colour": "red"}])
def test_wrong_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        create(arguments)


class Talker:
    """Logs while it starts and when it is told to."""

    name = "talker"

    async def start(self, actor: ActorContext) -> None:
        self.link = actor.connect("logger")
        actor.log.info("talker_started")

    def drained(self, letters: Sequence[Letter]) -> None:
        raise AssertionError("nobody writes to it")

    def ticked(self, now: Instant) -> None:
        pass

    async def stop(self) -> None:
        pass


def test_lines_of_actors_reach_the_file_and_anything_else_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        talker = Talker()
        async with running(create({"target": "file", "level": "info"}), tmp_path), running(talker, tmp_path) as context:
            context.log.debug("not_wanted")
            context.log.warning("pressure_low", bar=1.5)
            assert talker.link.send(Ask(request_id=1, what="hello"))
            assert talker.link.send_encoded([b"\xc1 no message"])
            path = tmp_path / "journal" / "node.log"
            async with asyncio.timeout(PATIENCE_S):
                while not path.exists() or len(path.read_text().splitlines()) < 5:  # noqa: ASYNC110  # A thread writes it.
                    await asyncio.sleep(0.01)

    asyncio.run(story())
    lines = [json.loads(text) for text in (tmp_path / "journal" / "node.log").read_text().splitlines()]
    events = [one["event"] for one in lines]
    assert set(events) >= {
        "logger_started",
        "talker_started",
        "pressure_low",
        "message_unexpected",
        "message_malformed",
    }
    assert "not_wanted" not in events
    assert events[-1] == "logger_stopped"
