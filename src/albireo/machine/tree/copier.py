"""Copier: takes the frames that a child gave, checks them, and drafts them in envelopes.

    chunk of the child's log --> the child's own frames   --> envelopes of the child's origin
                             --> its envelopes            --> the frames inside, in envelopes of their own origins

A frame is taken only if it is of the log that it is said to be of, is whole, continues the chain, and lies behind the
copy of that log; one at or below the end of the copy is a repeat and is left out, whatever way it came. A chunk with a
fault is taken up to the fault. What a child forwards of a node that does not stand below it is left out and counted.

Sequences of a log need not follow each other: envelopes of its own are left out. Only where a node said that it let go
of records, itself or of the node that it forwards, a jump is a gap, which is put on record right before the frame
behind it.

The ends of the copies are those of the appended view: what is drafted counts before it is folded.

Spec: design/tree.md, Origins; ADR-0185.
"""

from collections.abc import Callable, Mapping

import msgspec

from albireo.codec import record as codec
from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader, Origin, frames
from albireo.codec.record import Kind, OriginDeclared, OriginForked, OriginGap, Stream
from albireo.codec.tree.envelope import encode_envelope, inside
from albireo.machine.fold.origins import ORIGINS_MAX, Enveloped, Origins, Told, epochs_to, told_in
from albireo.machine.kernel.turn import OWN_PRODUCER, Draft, Turn
from albireo.model.item import KnownItem
from albireo.model.position import BEGINNING, EpochEntry, EpochHistory, Position

Bytes = bytes | memoryview


class CopyEnd(msgspec.Struct):
    """End of the copy of one log, in the appended view."""

    index: int
    node: str
    log_id: bytes
    last: Position
    last_crc: int
    """CRC of the header of the last frame; 0: not known."""
    origins: dict[int, tuple[str, bytes]]
    """Node and log id of the origins that lie in that log, by their index there."""
    epochs: tuple[EpochEntry, ...] = ()
    """Epochs that begin within the copy."""
    complete_to_ns: int = 0
    """Wall time at which the origin appended the last frame."""
    missing_to: int = 0
    """Last sequence of which it is on record that it is missing."""
    may_lack: bool = False
    """Records may be missing before the next frame."""


class Copier:
    """The ends of all copies; lives as long as a tenure."""

    def __init__(self, origins: Origins, body_bytes_max: int) -> None:
        self._origins = origins
        self._body_bytes_max = body_bytes_max
        self._ends = {
            one.log_id: CopyEnd(
                *(one.index, one.node, one.log_id, one.last, one.last_crc, dict(one.origins)),
                *(one.epochs, one.complete_to_ns, one.missing_to, one.may_lack),
            )
            for one in origins
        }
        self._next_index = origins.next_index
        self.not_taken = 0
        """Number of envelopes that were left out, because of what a child may not forward or cannot have meant."""

    def end_of(self, log_id: bytes) -> Position:
        """Last record of the copy of this log."""
        end = self._ends.get(log_id)
        return BEGINNING if end is None else end.last

    def safe_of(self, log_id: bytes) -> Position:
        """Last record of the copy of this log that is committed here."""
        known = self._origins.of_log(log_id)
        return BEGINNING if known is None else min(known.last, self.end_of(log_id))

    def items_of(self, node: str) -> Mapping[int, KnownItem]:
        """Items of a node, by id, as the copy of its log tells."""
        known = self._origins.of_node(node)
        return {} if known is None else known.items

    def epochs_of(self, log_id: bytes) -> EpochHistory:
        """Epochs of this log, as far as they begin within the copy."""
        end = self._ends.get(log_id)
        return EpochHistory() if end is None else EpochHistory.told(end.epochs) or EpochHistory()

    def forked(self, log_id: bytes, position: Position, turn: Turn) -> None:
        """The log went another way behind `position`: what follows is taken, whatever its epochs are."""
        end = self._ends.get(log_id)
        if end is not None and position < end.last:
            turn.record(
                Stream.CONTROL, [OriginForked(index=end.index, epoch=position.epoch, sequence=position.sequence)]
            )
            end.last, end.last_crc = position, 0
            end.epochs = epochs_to(end.epochs, position.sequence)
            end.missing_to = min(end.missing_to, position.sequence)

    def let_go(self, node: str, log_id: bytes, turn: Turn) -> None:
        """The node says that it let go of records which were never copied: those before what it gives next."""
        end = self._end(node, log_id, turn)
        if end is not None:
            end.may_lack = True

    def lacks_below(self, end: CopyEnd, log_id: bytes | None = None) -> None:
        """Records of nodes that this one forwards may be missing: of one log, or of all."""
        for _, one in end.origins.values():
            if one in self._ends and log_id in (None, one):
                self._ends[one].may_lack = True

    def take(self, child: str, log_id: bytes, chunk: Bytes, turn: Turn) -> str:
        """Draft what is new in a chunk of the child's log; returns the fault that ended it, empty: none."""
        end = self._end(child, log_id, turn)
        if end is None:
            return f"{ORIGINS_MAX} logs of nodes below are kept already"
        run = _Run(end, self._body_bytes_max, self)
        try:
            run.take(chunk, turn, lambda header, body: self._take_nested(header, body, end, turn))
        except DecodeError as error:
            return str(error)
        return ""

    def _end(self, node: str, log_id: bytes, turn: Turn) -> CopyEnd | None:
        """The end of the copy of this log, which is declared if it is a new one; None: there are too many."""
        end = self._ends.get(log_id)
        if end is None and len(self._ends) < ORIGINS_MAX:
            turn.record(Stream.CONTROL, [OriginDeclared(index=self._next_index, node=node, origin_log=log_id)])
            end = self._ends[log_id] = CopyEnd(self._next_index, node, log_id, BEGINNING, 0, {})
            self._next_index += 1
        return end

    def _take_nested(self, header: FrameHeader, body: Bytes, child: CopyEnd, turn: Turn) -> None:
        """Take what the child forwards of a node below it."""
        node, log_id = child.origins.get(0 if header.origin is None else header.origin.node, ("", b""))
        is_new = log_id not in self._ends
        end = self._end(node, log_id, turn) if node.startswith(f"{child.node}/") else None
        if end is None or end.node != node:
            self.not_taken += 1
            return
        if is_new and child.missing_to:
            end.may_lack = True  # Its declaration may have gone with the records, and what came before this one, too.
        try:
            _Run(end, self._body_bytes_max, self).take(inside(body), turn, _no_envelope)
        except DecodeError:  # It is damaged in the child's log too: asking again would not mend it.
            self.not_taken += 1


class _Run:
    """Frames of one log that follow each other in a chunk, up to what is left out between them."""

    def __init__(self, end: CopyEnd, body_bytes_max: int, copier: Copier) -> None:
        self._end = end
        self._copier = copier
        self._body_bytes_max = body_bytes_max
        self._begin = self._stop = 0
        """Bytes of the chunk."""
        self._first: FrameHeader | None = None
        self._last: FrameHeader
        self._records = self._unreadable = 0
        self._told: list[Told] = []
        self._epochs: list[EpochEntry] = []

    def take(self, chunk: Bytes, turn: Turn, on_envelope: Callable[[FrameHeader, Bytes], None]) -> None:
        """Draft the frames of a chunk.

        Raises:
            DecodeError: a fault; what lies before it is drafted.
        """
        data = memoryview(chunk)
        offset = 0
        before: FrameHeader | None = None
        try:
            for header, body in frames(data):
                self._look_for_branch(header, body, turn)
                self._check(header, before)
                before = header
                if header.kind == Kind.ENVELOPE:
                    self._draft(data, turn)
                is_new = header.last > self._last_taken
                if is_new and self._end.may_lack:  # Before an envelope, too: what lies in it may lack records as well.
                    self._look_for_gap(header, turn)
                if header.kind == Kind.ENVELOPE:
                    on_envelope(header, body)
                elif is_new:
                    self._add(header, body, offset)
                offset += header.frame_bytes
        finally:
            self._draft(data, turn)

    def _look_for_branch(self, header: FrameHeader, body: Bytes, turn: Turn) -> None:
        """Notice an epoch that begins within the copy and is none of its own: the origin went another way there.

        A child tells of it itself. Of a node below it nobody does, or the child was restored as well and never had the
        branch that was left.
        """
        end = self._end
        if header.first_sequence > end.last.sequence or header.kind != Kind.RECORDS or header.stream != Stream.CONTROL:
            return
        try:
            _, epochs = told_in(header, body)
        except DecodeError:
            return  # Of a kind that this version does not know.
        for one in epochs:
            if one.first_sequence <= end.last.sequence and one not in end.epochs:
                position = (EpochHistory.told(end.epochs) or EpochHistory()).position(one.first_sequence - 1)
                self._copier.forked(end.log_id, position, turn)

    def _look_for_gap(self, header: FrameHeader, turn: Turn) -> None:
        """Put on record what is missing before a frame, the first one that came since something was let go."""
        end = self._end
        end.may_lack = False
        first = max(end.last.sequence, end.missing_to) + 1
        if header.first_sequence <= first:
            return
        end.missing_to = header.first_sequence - 1
        from_ns = min(end.complete_to_ns, header.node_ns)
        behind = Position(header.epoch, header.first_sequence)
        gap = OriginGap(
            index=end.index,
            first=first,
            epoch=behind.epoch,
            sequence=behind.sequence,
            from_ns=from_ns,
            to_ns=header.node_ns,
        )
        turn.record(Stream.CONTROL, [gap])
        turn.note("warning", "records_let_go_below", node=end.node, first=first, behind=str(behind))
        self._copier.lacks_below(end)

    @property
    def _last_taken(self) -> Position:
        return self._end.last if self._first is None else self._last.last

    def _check(self, header: FrameHeader, before: FrameHeader | None) -> None:
        last, last_crc = self._end.last, self._end.last_crc
        if before is not None:
            last, last_crc = before.last, before.header_crc
        if header.log_id != self._end.log_id:
            raise DecodeError(0, "a frame of another log")
        follows = header.first_sequence == last.sequence + 1
        if follows and last_crc and header.previous_header_crc not in (0, last_crc):
            raise DecodeError(0, f"frame {header.first_sequence} does not follow the one before it")
        if header.last > self._last_taken and header.first_sequence <= self._last_taken.sequence:
            raise DecodeError(0, f"frame {header.first_sequence} lies within what was taken before")
        if header.frame_bytes > self._body_bytes_max - codec.PRODUCER.size:
            raise DecodeError(0, f"a frame of {header.frame_bytes} bytes finds no room in an envelope")

    def _add(self, header: FrameHeader, body: Bytes, offset: int) -> None:
        if self._first is None:
            self._first, self._begin = header, offset
        self._last, self._stop = header, offset + header.frame_bytes
        self._records += header.record_count
        try:
            told, epochs = told_in(header, body)
        except DecodeError:
            self._unreadable += 1
            return
        self._told += told
        self._epochs += epochs

    def _draft(self, data: memoryview, turn: Turn) -> None:
        first, end = self._first, self._end
        if first is None:
            return
        body = encode_envelope(data[self._begin : self._stop])
        epochs = tuple(self._epochs)
        content = Enveloped(end.index, self._last, self._records, tuple(self._told), epochs, self._unreadable)
        origin = Origin(end.index, first.epoch, first.first_sequence)
        turn.append(Draft(Stream.BELOW, Kind.ENVELOPE, 1, body, crc32c(body), OWN_PRODUCER, 0, content, origin))
        end.last, end.last_crc = self._last.last, self._last.header_crc
        end.complete_to_ns = self._last.node_ns
        for one in self._told:
            if isinstance(one, OriginDeclared):
                end.origins[one.index] = (one.node, one.origin_log)
            elif isinstance(one, OriginGap):
                self._copier.lacks_below(end, end.origins.get(one.index, ("", b""))[1])
        end.epochs += epochs
        self._first, self._told, self._epochs, self._records, self._unreadable = None, [], [], 0, 0


def _no_envelope(header: FrameHeader, _: Bytes) -> None:
    raise DecodeError(0, f"an envelope inside another, at {header.first_sequence}")
