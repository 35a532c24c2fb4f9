"""Parts that tests share: a log of topics, as chunks of frames, and the actor's machines behind it."""

from collections.abc import Sequence

from albireo.codec.frame import Frame, FrameHeader, body_crc, encode
from albireo.codec.puts import CursorMoved, Extra, LeaseMoved, decode_head, encode_puts, record_count_of
from albireo.codec.record import Kind, Record, Stream, encode_records
from albireo.codec.topic_records import Subscribed, TopicDeclared
from albireo.machine.topics.serving import Serving
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageTail, read_chunk
from albireo.model.position import BEGINNING

LOG_ID = b"L" * 16
WHO = "mes"


class TopicsLog:
    """A log with records of topics only."""

    def __init__(self) -> None:
        self.epoch = 1
        self.end = 0
        self.frames: list[bytes] = []

    def state(self, *records: Record) -> int:
        """Append records; sequence of the last one, the id of what it declares."""
        return self._append(Stream.STATE, Kind.RECORDS, encode_records(0, 0, list(records)), len(records))

    def topic(self, name: str) -> int:
        return self.state(TopicDeclared(name=name, since_ns=0))

    def subscribe(self, subscriber: str, *patterns: str, principal: str = WHO) -> int:
        return self.state(Subscribed(subscriber=subscriber, principal=principal, patterns=patterns, since_ns=0))

    def put(
        self,
        *messages: tuple[int, Sequence[bytes]],
        moves: Sequence[CursorMoved] = (),
        extras: dict[int, Extra] | None = None,
        leases: Sequence[LeaseMoved] = (),
    ) -> int:
        body = encode_puts(1, 1, messages, moves, extras, leases=leases)
        return self._append(Stream.PUTS, Kind.PUTS, body, record_count_of(decode_head(body)))

    def _append(self, stream: Stream, kind: Kind, body: bytes, count: int) -> int:
        header = FrameHeader(
            log_id=LOG_ID,
            epoch=self.epoch,
            first_sequence=self.end + 1,
            record_count=count,
            stream=stream,
            kind=kind,
            body_bytes=len(body),
            body_crc=body_crc(body),
            node_ns=1_000 + self.end,
        )
        self.frames.append(encode(Frame(header, body)))
        self.end += count
        return self.end

    def take(self) -> bytes:
        """The frames since the last call, end to end."""
        frames, self.frames = self.frames, []
        return b"".join(frames)


def begun(log: TopicsLog) -> Serving:
    """The machine that serves, at the begin of a log, and leading."""
    serving = Serving(TopicTables(), MessageTail(BEGINNING))
    follow(serving, log)
    serving.begins(1)
    return serving


def follow(serving: Serving, log: TopicsLog) -> list[object]:
    """Take what was appended; the effects."""
    block = read_chunk(log.take(), serving.tables)
    if block is None:
        return []
    serving.tail.add(block)
    return [*serving.took(block), *serving.serve()]
