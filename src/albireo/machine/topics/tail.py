"""Tail: the newest messages, as they came in chunks of the log, until they are in files.

A chunk - the raw part of one FeedData - is taken apart once, into columns; bodies stay in it. What folds need is folded
on the way, because the number of a message in its topic is the count of that topic before it.

Spec: ADR-0247.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from albireo.codec import frame, reference
from albireo.codec.frame import HEADER_BYTES, FrameHeader
from albireo.codec.puts import Extra, LeaseMoved, PutHead, decode_head, taken_apart
from albireo.codec.record import Kind, Stream, decode_records
from albireo.codec.served import MessageColumns
from albireo.codec.topic_records import Subscribed, TopicDeclared, TopicDropped, Unsubscribed
from albireo.machine.topics.tables import TopicTables
from albireo.model.position import Position

CHANGING = (TopicDeclared, TopicDropped, Subscribed, Unsubscribed)
"""Records that change who is to get which messages."""


class MessageBlock(msgspec.Struct, frozen=True, eq=False):
    """The messages of one chunk."""

    messages: MessageColumns
    last: Position
    """Last record of the chunk, whatever it holds."""
    firsts: dict[int, int]
    """Number of the first message of each topic."""
    lasts: dict[int, int]
    """Number of the last one."""
    is_changing: bool
    """True: topics or subscriptions came or went."""
    leases: tuple[LeaseMoved, ...] = ()
    """Changes of leases of shared subscriptions."""
    moved: frozenset[int] = frozenset()
    """Subscriptions of which leases or cursors moved."""


PUT_STREAMS: Final = (Stream.PUTS, Stream.OWN_PUTS)
"""Streams with messages."""


class _Runs:
    """Runs of a chunk, one entry for each, until they become columns."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        """Topic, number of the first message, count, epoch, sequence of the first message, time."""
        self.lengths: list[bytes | memoryview] = []
        self.begins: list[tuple[int, int]] = []
        """Number of messages of a frame, and place of its first body in the chunk."""
        self.extras: dict[int, Extra] = {}
        self.count = 0
        self.leases: list[LeaseMoved] = []
        self.moved: set[int] = set()

    def columns(self, chunk: bytes | memoryview) -> MessageColumns:
        rows = np.array(self.rows, np.int64).reshape(-1, 6)
        counts = rows[:, 2]
        within = np.arange(self.count) - np.repeat(np.cumsum(counts) - counts, counts)
        topic_id, number, epoch, sequence, at_ns = (np.repeat(rows[:, one], counts) for one in (0, 1, 3, 4, 5))
        lengths = np.frombuffer(b"".join(self.lengths), "<u4")
        inside = np.cumsum(lengths, dtype=np.int64) - lengths
        frames = np.array(self.begins, np.int64).reshape(-1, 2)
        firsts = np.cumsum(frames[:, 0]) - frames[:, 0]
        starts = inside + np.repeat(frames[:, 1] - inside[firsts] if len(frames) else frames[:, 1], frames[:, 0])
        return MessageColumns(
            topic_id.astype(np.uint64),
            (number + within).astype(np.uint64),
            epoch.astype(np.uint64),
            (sequence + within).astype(np.uint64),
            at_ns,
            lengths,
            starts,
            chunk,
            self.extras,
        )


def count_chunk(chunk: bytes | memoryview, up_to: int, counts: dict[int, int]) -> None:
    """Count the messages of each topic in frames up to a record. Raises DecodeError: a frame is malformed."""
    for header, body in frame.frames(chunk):
        if header.stream in PUT_STREAMS and header.last_sequence <= up_to:
            for run in (decode_head if header.kind == Kind.PUTS else reference.decode_head)(body).runs:
                counts[run.topic_id] = counts.get(run.topic_id, 0) + run.count


def read_chunk(chunk: bytes | memoryview, tables: TopicTables, known_to: int = 0) -> MessageBlock | None:
    """The messages of a chunk of whole frames, which are folded into the tables; None: it has no frame.

    Args:
        known_to: record as of which the tables are, but for the counts of topics, which are those before the chunk.

    Raises:
        DecodeError: a frame is malformed. The tables have folded those before it.
    """
    runs = _Runs()
    is_changing, last = False, None
    at = 0
    for header, body in frame.frames(chunk):
        begin = at + HEADER_BYTES
        at += header.frame_bytes
        last = header.last
        tables.time_passed(header)
        if header.stream in PUT_STREAMS and header.kind == Kind.REFERENCE:
            _read_elsewhere(runs, header, body, tables, known_to)
        elif header.stream in PUT_STREAMS:
            _read_puts(runs, header, body, begin, tables, known_to)
        elif header.stream == Stream.STATE and header.kind == Kind.RECORDS and header.last_sequence > known_to:
            records = decode_records(body, header.record_count)
            for sequence, record in enumerate(records, header.first_sequence):
                is_changing |= tables.fold(record, sequence, header) and isinstance(record, CHANGING)
    if last is None:
        return None
    messages = runs.columns(chunk)
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for topic_id, number, count, *_ in runs.rows:
        firsts.setdefault(topic_id, number)
        lasts[topic_id] = number + count - 1
    there = {topic_id for topic_id in firsts if topic_id in tables.topics}
    if len(there) < len(firsts):  # Nobody gets the messages of a topic that is gone.
        messages = messages.take(np.flatnonzero(np.isin(messages.topic_id, np.array(sorted(there), np.uint64))))
        firsts, lasts = ({one: known[one] for one in there} for known in (firsts, lasts))
    return MessageBlock(messages, last, firsts, lasts, is_changing, tuple(runs.leases), frozenset(runs.moved))


def _read_elsewhere(runs: _Runs, header: FrameHeader, body: memoryview, tables: TopicTables, known_to: int) -> None:
    """Fold messages that only the other member has: they count, and are nowhere here."""
    head = reference.decode_head(body)
    tables.fold(PutHead(head.runs) if header.last_sequence <= known_to else head, header.first_sequence, header)
    runs.moved.update(one.subscription_id for one in head.moves)


def _read_puts(
    runs: _Runs, header: FrameHeader, body: memoryview, begin: int, tables: TopicTables, known_to: int
) -> None:
    head, extras, lengths, bodies_at = taken_apart(body, header.record_count)
    sequence = header.first_sequence
    counts: dict[int, int] = {}
    for run in head.runs:
        known = tables.topics.find(run.topic_id)
        before = counts.get(run.topic_id, 0 if known is None else known.count)
        runs.rows.append((run.topic_id, before + 1, run.count, header.epoch, sequence, header.node_ns))
        counts[run.topic_id] = before + run.count
        sequence += run.count
    if header.last_sequence <= known_to:
        head = PutHead(head.runs)
    tables.fold(head, header.first_sequence, header)
    runs.moved.update(one.subscription_id for one in head.leases)
    runs.moved.update(one.subscription_id for one in head.moves)
    runs.leases += head.leases
    if head.runs:
        runs.lengths.append(lengths.data.cast("B"))
        runs.begins.append((len(lengths), begin + bodies_at))
        runs.extras.update({runs.count + index: one for index, one in extras.items()})
        runs.count += len(lengths)


class MessageTail:
    """Blocks in the order of the log."""

    def __init__(self, begin: Position) -> None:
        self.begin = begin
        """Position behind which the blocks begin."""
        self.size_bytes = 0
        self.count = 0
        """Messages in all blocks."""
        self._blocks: list[MessageBlock] = []
        self._ends: list[int] = []
        """Sequence of the last record of each block."""

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def end(self) -> Position:
        """Last record that was taken."""
        return self._blocks[-1].last if self._blocks else self.begin

    def add(self, block: MessageBlock) -> None:
        self._blocks.append(block)
        self._ends.append(block.last.sequence)
        self.size_bytes += len(block.messages.buffer)
        self.count += len(block.messages)

    def behind(self, sequence: int) -> Sequence[MessageBlock]:
        """Blocks that have records behind this one."""
        return self._blocks[bisect_right(self._ends, sequence) :]

    def let_go(self, position: Position) -> None:
        """Forget the blocks up to here: files have their messages."""
        gone = bisect_right(self._ends, position.sequence)
        self.size_bytes -= sum(len(one.messages.buffer) for one in self._blocks[:gone])
        self.count -= sum(len(one.messages) for one in self._blocks[:gone])
        del self._blocks[:gone], self._ends[:gone]
        self.begin = position
