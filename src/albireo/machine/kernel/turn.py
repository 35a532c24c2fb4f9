"""One turn of CORE: all that it wants appended, sent and told.

A turn's effects are carried out in this order: everything is appended, then everything is sent, then followers are
given what they pull. Nothing that depends on an append is sent in the turn that appended it; such answers wait in the
root machine for the commit.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from albireo.codec import record, samples
from albireo.codec.crc import crc32c
from albireo.codec.frame import Origin
from albireo.codec.message import Answer, AnyMessage
from albireo.codec.record import Audited, Kind, Record, Stream
from albireo.machine.fold.contents import Content
from albireo.machine.kernel.pull import Pull
from albireo.model.feature import FIRST_LEVEL
from albireo.model.instant import Instant, WallTime
from albireo.model.log_view import LogView
from albireo.model.refusal import Refusal
from albireo.model.samples import SampleBatch
from albireo.model.status import DoorStatus, PairStatus

_Value = TypeVar("_Value")

OWN_PRODUCER: Final = 0
"""Producer id of CORE's own records: they need no sequence, nobody retries them."""
NOBODY: Final = b""
"""Asker of an order that a message gave: its outcome goes back as that of the message."""
RECORDS_BYTES: Final = 256 * 1024
"""Size above which CORE's own records go into several frames: none is too large for a segment, whatever texts say."""


class Moment(msgspec.Struct, frozen=True):
    """Beginning of a turn: one reading of both clocks."""

    now: Instant
    wall: WallTime


class Question(msgspec.Struct, frozen=True):
    """Asker and time of one question."""

    sender: bytes
    request_id: int
    moment: Moment
    principal: str
    """Who asks (model.principal)."""
    pair: PairStatus | None = None
    """The pair as this member sees it, if that was asked for."""
    door: DoorStatus | None = None
    """The door of this node, likewise."""
    speaker: str = ""
    """Principal that speaks, if who asks is a person; empty: it asks for itself, or is anybody."""


class NotAnswered(Exception):
    """A question that is answered with a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def granted(outcome: _Value | Refusal) -> _Value:
    """The value of an outcome.

    Raises:
        NotAnswered: it is a refusal.
    """
    if isinstance(outcome, Refusal):
        raise NotAnswered(outcome)
    return outcome


def answer_to(request_id: int, outcome: object) -> Answer:
    """The answer to a question: with a value, or with a refusal."""
    if isinstance(outcome, Refusal):
        return Answer(request_id=request_id, refusal=outcome)
    return Answer(request_id=request_id, result=msgspec.to_builtins(outcome))


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A batch to append; epoch and sequence are the log's to give."""

    stream: int
    kind: int
    record_count: int
    body: bytes | memoryview
    body_crc: int
    producer_id: int
    producer_sequence: int
    content: Content
    """Part of the payload that the folds take: it was read for a check, and is not read again."""
    origin: Origin | None = None
    """Place of the first record of an envelope in the log that it was written in; None: an own record."""


class Send(msgspec.Struct, frozen=True, eq=False):
    """One message to one peer of CORE's link."""

    to: bytes
    message: AnyMessage
    raw: Sequence[bytes | memoryview] = ()


class Note(msgspec.Struct, frozen=True):
    """A line for the structured log."""

    level: str
    """Method of the journal; `limited`, with a `key`, for what a peer can cause at any rate."""
    event: str
    fields: dict[str, object] = {}


class Turn:
    """Collected effects of one turn; foretells the sequence of each draft."""

    __slots__ = ("drafts", "elapsed_ms", "end", "level", "log", "notes", "pulls", "sends", "speaker")

    def __init__(self, log: LogView, level: int = FIRST_LEVEL) -> None:
        self.log = log
        """View of the log when the turn began."""
        self.end = log.end.sequence
        """Sequence of the last record appended, drafts of this turn included."""
        self.level = level
        """Feature level of the log."""
        self.drafts: list[Draft] = []
        self.elapsed_ms = 0
        """Boot-clock time from the last drafts to these: the log time that passes with them."""
        self.sends: list[Send] = []
        self.notes: list[Note] = []
        self.speaker = ""
        """Principal that speaks for the person whose word is heard now; entries of the audit trail get it."""
        self.pulls: list[Pull] = []
        """Reads of the log for followers; `FollowersServed` says what became of each."""

    @property
    def epoch(self) -> int:
        """Epoch under which records are appended."""
        return self.log.history.epoch

    def append(self, draft: Draft) -> int:
        """Take a draft; returns the sequence that its last record will have."""
        self.drafts.append(draft)
        self.end += draft.record_count
        return self.end

    def record(self, stream: Stream, records: Sequence[Record]) -> int:
        """Append CORE's own records, as one batch unless they are large; of no kind above the level of the log."""
        assert all(record.may_append(one, self.level) for one in records), f"level {self.level}: {records}"
        if self.speaker and stream == Stream.AUDIT:
            records = [replace(one, speaker=self.speaker) if isinstance(one, Audited) else one for one in records]
        body = record.encode_records(OWN_PRODUCER, 0, list(records))
        if len(body) > RECORDS_BYTES and len(records) > 1:
            half = len(records) // 2
            self.record(stream, records[:half])
            return self.record(stream, records[half:])
        return self.append(
            Draft(stream, Kind.RECORDS, len(records), body, crc32c(body), OWN_PRODUCER, 0, tuple(records))
        )

    def samples(self, batch: SampleBatch) -> int:
        """Append samples of CORE's own (its diagnostics, or what it knows of a silent adapter)."""
        body = samples.encode_body(OWN_PRODUCER, 0, batch)
        return self.append(
            Draft(Stream.SAMPLES, int(batch.value_type), len(batch), body, crc32c(body), OWN_PRODUCER, 0, batch)
        )

    def send(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview] = ()) -> None:
        self.sends.append(Send(to, message, raw))

    def answer(self, question: Question, outcome: object) -> None:
        """Answer now: with a value, or with a refusal."""
        self.send(question.sender, answer_to(question.request_id, outcome))

    def note(self, level: str, event: str, **fields: object) -> None:
        self.notes.append(Note(level, event, fields))
