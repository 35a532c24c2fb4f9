"""Log of the world: what the member that leads has appended and committed, judged and folded as CORE does."""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.frame import Frame, FrameHeader, body_crc, encode
from albireo.codec.puts import PutHead, decode_head, encode_puts, record_count_of
from albireo.codec.record import Kind, Marked, Record, Stream, encode_records
from albireo.codec.topic_records import TopicRecord
from albireo.machine.fold.topics import puts
from albireo.machine.producer.flight import PutOffer
from albireo.machine.topics.tables import TopicTables
from albireo.model.position import BEGINNING, Position
from albireo.model.refusal import Refusal

LOG_ID: Final = b"L" * 16
OWNER: Final = "mes"
NODE: Final = "local:0"


class AppendedFrame(msgspec.Struct, frozen=True, eq=False):
    """A frame of the log."""

    header: FrameHeader
    data: bytes
    head: PutHead | None
    records: Sequence[Record]
    producer: str = ""
    number: int = 0


class TopicsCore:
    """CORE of whoever leads. What is appended and not committed may be gone after a takeover."""

    def __init__(self) -> None:
        self.tables = TopicTables()
        self.frames: list[AppendedFrame] = []
        self.pending: deque[AppendedFrame] = deque()
        self.epoch = 1
        self.now_ms = 0
        self._end = 0
        self._numbers: dict[str, int] = {}
        """Number of the last batch of each producer that is appended."""
        self.fates: dict[tuple[str, int], Position] = {}
        """Position of the last message of each batch that is committed."""

    @property
    def committed(self) -> Position:
        return self.frames[-1].header.last if self.frames else BEGINNING

    def record(self, *records: TopicRecord | Marked) -> int:
        """Append records of CORE itself; sequence of the last one."""
        stream = Stream.CONTROL if isinstance(records[0], Marked) else Stream.STATE
        body = encode_records(0, 0, list(records))
        return self._append(stream, Kind.RECORDS, body, len(records), None, records, "", 0)

    def append(self, producer: str, number: int, offer: PutOffer, principal: str = OWNER) -> Refusal | None:
        """Take a batch of a producer, once; None: it is taken, now or before."""
        if number <= self._numbers.get(producer, 0):
            return None
        body = encode_puts(1, number, offer.runs, offer.moves, offer.extras, offer.keys, offer.leases)
        head = decode_head(body)
        refusal = puts.judge(self.tables, (head,), principal)
        if refusal is None:
            self._numbers[producer] = number
            self._append(Stream.PUTS, Kind.PUTS, body, record_count_of(head), head, (), producer, number)
        return refusal

    def _append(
        self,
        stream: Stream,
        kind: Kind,
        body: bytes,
        count: int,
        head: PutHead | None,
        records: Sequence[Record],
        producer: str,
        number: int,
    ) -> int:
        header = FrameHeader(
            log_id=LOG_ID,
            epoch=self.epoch,
            first_sequence=self._end + 1,
            record_count=count,
            stream=stream,
            kind=kind,
            body_bytes=len(body),
            body_crc=body_crc(body),
            node_ns=self.now_ms,
            log_time_ms=self.now_ms,
        )
        self._end += count
        self.pending.append(AppendedFrame(header, encode(Frame(header, body)), head, records, producer, number))
        return self._end

    def commit(self) -> AppendedFrame | None:
        """Commit the next frame."""
        if not self.pending:
            return None
        one = self.pending.popleft()
        self.frames.append(one)
        self.tables.time_passed(one.header)
        if one.head is not None:
            self.tables.fold(one.head, one.header.first_sequence, one.header)
            self.fates[one.producer, one.number] = one.header.last
        for sequence, record in enumerate(one.records, one.header.first_sequence):
            self.tables.fold(record, sequence, one.header)
        return one

    def takes_over(self) -> None:
        """Another member leads: what is not committed is gone."""
        self.pending.clear()
        self.epoch += 1
        self._end = self.committed.sequence
        self._numbers = {}
        for producer, number in self.fates:
            self._numbers[producer] = max(number, self._numbers.get(producer, 0))
        self.tables.cursors.forget_pending()
        self.tables.keys.forget_pending()
        self.record(Marked())
