"""Records: content of the body of a log frame.

    body     = producer_id:u64 producer_sequence:u64 payload          producer id: number of the producer's life
    payload  = sample columns (codec.samples)      stream samples, kinds FLOAT64 INT64 BOOL STRING
             | frames of another node (codec.tree.envelope)        kind ENVELOPE
             | messages to topics behind a head (codec.puts)       kind PUTS
             | msgpack array of `record_count` tagged maps    every other kind

The producer builds the body and its CRC; the broker never decodes a payload to store or forward it. The first field of
every tagged map is its type, so a reader that does not know a kind can name it.
"""

import struct
from enum import IntEnum
from typing import Final, Union, get_args

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import BODY_BYTES_MAX, RECORDS_MAX
from albireo.codec.message_records import (
    MessageRecord,
)
from albireo.codec.people_records import PeopleRecord
from albireo.codec.topic_records import TopicRecord
from albireo.model.bounded import Count, Ids, LogId, Name, Number32, Register, Signed, Text, Word
from albireo.model.case import Case
from albireo.model.command import Command, Receipt, Selection
from albireo.model.feature import FIRST_LEVEL
from albireo.model.force import Force
from albireo.model.item import KnownItem
from albireo.model.value import Gap

PRODUCER: Final = struct.Struct("<QQ")


class Stream(IntEnum):
    """Subject of a record; retention and durability go by stream."""

    SAMPLES = 1
    CASES = 2
    STATE = 3
    COMMAND = 4
    AUDIT = 5
    CONTROL = 6
    BELOW = 7
    """Records of the nodes below, in envelopes (codec.tree.envelope)."""
    PUTS = 8
    """Messages to topics, and cursors that move (codec.puts)."""
    OWN_PUTS = 9
    """Messages to topics that are kept with one member."""
    PEOPLE = 10
    """Persons, and what they log in by: for members of the pair only."""


class Kind(IntEnum):
    """Shape of a payload. 1..4 are the value types of sample columns."""

    FLOAT64 = 1
    INT64 = 2
    BOOL = 3
    STRING = 4
    RECORDS = 16
    REFERENCE = 17
    """Samples, or messages, whose payload is in the private log of the member that took them (codec.reference)."""
    ENVELOPE = 18
    """Frames of the log of a node below, as they stand there (codec.tree.envelope)."""
    PUTS = 19
    """Messages to topics behind a head (codec.puts)."""


class ItemDeclared(KnownItem, frozen=True, kw_only=True, tag="item"):
    """An item exists from here on, or its declaration has changed. Stream STATE."""


class GapFound(Gap, frozen=True, kw_only=True, tag="gap"):
    """Samples were lost. Stream SAMPLES, so that it is kept and pruned with the samples around the gap."""


class CaseChanged(msgspec.Struct, frozen=True, kw_only=True, tag="case"):
    """A case as it stands after a transition. `case.case_id` 0: raised by this very record. Stream CASES."""

    case: Case
    cause: Name
    """Transition as one verb: `raised`, `cleared`, `activated`, `acked`, `shelved`, ... (model.case.Cause)."""


class CommandRequested(msgspec.Struct, frozen=True, kw_only=True, tag="command"):
    """Somebody ordered a write. Stream COMMAND."""

    command: Command


class CommandAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="accepted"):
    """The order may be sent from here on, so the write may have happened. Stream COMMAND."""

    command_id: Text


class CommandFinished(msgspec.Struct, frozen=True, kw_only=True, tag="receipt"):
    """A command has its outcome. Stream COMMAND."""

    receipt: Receipt


class Audited(msgspec.Struct, frozen=True, kw_only=True, tag="audit"):
    """Somebody did something. Stream AUDIT."""

    at_ns: Signed
    user: Text
    action: Text
    subject: Text
    detail: Text = ""
    principal: Text = ""
    """Name of the key, or the local user, behind it (model.principal); `user` is what was claimed. Empty: anybody on a
    link without keys, the node itself, or a version that did not record it."""
    speaker: Text = ""
    """Principal that spoke for it, if it is a person; empty: nobody did, or the entry follows from an earlier one."""


class ProducerOpened(msgspec.Struct, frozen=True, kw_only=True, tag="producer"):
    """A name of a producer is a new life's from here on, and every earlier life of the name is over. Stream CONTROL."""

    producer_id: Count
    """Number of the life."""
    name: Text
    run: Word = 0
    principal: Text = ""
    """Who opened it (model.principal), to whom the name belongs; empty: not known, or anybody."""


class ProducerForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="producer_forgotten"):
    """A name of a producer, with all its lives, is not known any more. Stream CONTROL."""

    producer_id: Count
    """Number of its last life."""
    name: Text


class ItemForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="item_forgotten"):
    """Items are not known any more; their ids are never given again. Stream STATE."""

    item_ids: Ids


class ItemForced(Force, frozen=True, kw_only=True, tag="forced"):
    """An item is forced from here on, or to another value: samples of it stand under `measured_id`, and those under its
    own id are what it is forced to. Stream STATE."""


class ForceEnded(msgspec.Struct, frozen=True, kw_only=True, tag="force_ended"):
    """An item is not forced any more: samples of it stand under its own id again. Stream STATE."""

    item_id: Number32
    cause: Name
    """`released`, `expired`, `retired`: nobody declares the item any more, or it has another type; `not_replicated`:
    the samples of this pair are not replicated any more."""


class ItemSelected(Selection, frozen=True, kw_only=True, tag="selected"):
    """Somebody has selected an item, and nobody else may order until that ends. Stream COMMAND."""


class SelectionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="select_ended"):
    """An item is not selected any more. Stream COMMAND."""

    item_id: Number32
    selection_id: Text
    cause: Name
    """`operated`: the order that used it stands right behind this record; `cancelled`; `ended`, by an admin; `expired`;
    `restarted`: the node that began to lead read it from a store, so nobody can tell how old it is."""


class SessionBegan(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """A principal is present from here on; the session's id is the sequence of this record. Stream STATE."""

    principal: Name
    address: Name
    """Address that it speaks from; empty: not known."""
    role: Name
    """Word of its role at this node (model.access)."""
    since_ns: Signed
    """Wall time at this node."""
    until_ms: Count = 0
    """Log time at which the login of a person is over; 0: it is none, and lasts as long as anything is heard."""


class SessionRoleChanged(msgspec.Struct, frozen=True, kw_only=True, tag="session_role"):
    """The principal of a session has another role from here on. Stream STATE."""

    session_id: Count
    role: Name


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="session_ended"):
    """A session is over. Stream STATE."""

    session_id: Count
    cause: Name
    """`link`, `ended`, `takeover`, `start` or `expired` (model.tree.session.EndCause)."""
    by: Text = ""
    """Who ended it; empty: nobody did, or somebody without a name."""
    reason: Text = ""


class EpochGranted(msgspec.Struct, frozen=True, kw_only=True, tag="epoch"):
    """First record of an epoch; a standalone node grants itself one at each start. Stream CONTROL."""

    epoch: Count
    branch_id: Word
    node: Name
    reason: Text


class NodeStopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped"):
    """Last record of a clean stop; its absence is how the next start knows of a node_down gap. Stream CONTROL."""

    at_ns: Signed


class Marked(msgspec.Struct, frozen=True, kw_only=True, tag="mark"):
    """Record without content: its header carries the commit position and log time forward. Stream CONTROL."""


class LowWater(msgspec.Struct, frozen=True, kw_only=True, tag="low_water"):
    """Records of `stream` below `sequence` are gone by retention. Stream CONTROL."""

    stream: Register
    sequence: Count
    reason: Text


class FeatureRaised(msgspec.Struct, frozen=True, kw_only=True, tag="feature"):
    """The log may hold records of this feature level from here on, because every member knows it. Stream CONTROL."""

    level: Count


class AccessGranted(msgspec.Struct, frozen=True, kw_only=True, tag="access_granted"):
    """A principal has a role at a node and below, in the place of the one it had there. Stream CONTROL."""

    principal: Text
    role: Name
    """Word of the role (model.access)."""
    node: Text = ""
    """Topmost node; empty: every node."""


class AccessRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="access_revoked"):
    """A principal has lost the role that it was given at `node`; empty: every role. Stream CONTROL."""

    principal: Text
    node: Text = ""


class OriginDeclared(msgspec.Struct, frozen=True, kw_only=True, tag="origin"):
    """Records of this log of a node below lie here from now on, in envelopes with this index. Stream CONTROL."""

    index: Count
    """Number of the origin in this log, above 0; never used for another one."""
    node: Name
    origin_log: LogId
    """Id of the origin's log: a wiped store of the same node is another origin."""


class OriginForked(msgspec.Struct, frozen=True, kw_only=True, tag="origin_forked"):
    """The origin's log went another way behind this position, such as one restored from a copy. Stream CONTROL.

    What lies here of it above the position is a branch that was left; what comes from now on is the one that lives.
    """

    index: Count
    epoch: Count
    sequence: Count


class OriginGap(msgspec.Struct, frozen=True, kw_only=True, tag="origin_gap"):
    """Records of the origin are missing here for good: it let go of them before they were copied. Stream CONTROL.

    It stands right before the envelope with the first record behind them.
    """

    index: Count
    first: Count
    """Sequence of the first record that is missing."""
    epoch: Count
    sequence: Count
    """Position of the first record behind them."""
    from_ns: Signed
    """Wall time at the origin of the last record before them; 0: there is none."""
    to_ns: Signed
    """Wall time at the origin of the first record behind them."""


Record = (
    ItemDeclared
    | GapFound
    | CaseChanged
    | CommandRequested
    | CommandAccepted
    | CommandFinished
    | Audited
    | ProducerOpened
    | ProducerForgotten
    | ItemForgotten
    | ItemForced
    | ForceEnded
    | ItemSelected
    | SelectionEnded
    | SessionBegan
    | SessionRoleChanged
    | SessionEnded
    | EpochGranted
    | NodeStopped
    | Marked
    | LowWater
    | FeatureRaised
    | AccessGranted
    | AccessRevoked
    | OriginDeclared
    | OriginForked
    | OriginGap
    | MessageRecord
    | TopicRecord
    | PeopleRecord
)

LEVELS: Final[dict[type, int]] = dict.fromkeys(get_args(Record), FIRST_LEVEL)
"""Every kind of record, with the feature level that brought it; a log below that holds none of the kind."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Record])


def declare(kind: type[msgspec.Struct], level: int) -> None:
    """Add a kind of record that a feature level above the first one brought; its tag is no other kind's."""
    global _decoder
    LEVELS[kind] = level
    _decoder = msgspec.msgpack.Decoder(list[Union[tuple(LEVELS)]])  # type: ignore[misc]  # noqa: UP007  # Made, not written.


def may_append(record: Record, level: int) -> bool:
    """True if a log of this feature level takes the record. The record that raises it is taken one level below."""
    if isinstance(record, FeatureRaised):
        return record.level == level + 1
    return LEVELS[type(record)] <= level


def encode_body(producer_id: int, producer_sequence: int, payload: bytes) -> bytes:
    return PRODUCER.pack(producer_id, producer_sequence) + payload


def encode_records(producer_id: int, producer_sequence: int, records: list[Record]) -> bytes:
    return PRODUCER.pack(producer_id, producer_sequence) + _encoder.encode(records)


def decode_producer(body: bytes | memoryview) -> tuple[int, int]:
    """Producer id and producer sequence of a body."""
    if len(body) < PRODUCER.size:
        raise DecodeError(len(body), "body shorter than its producer header")
    producer_id, producer_sequence = PRODUCER.unpack_from(body)
    return producer_id, producer_sequence


def decode_records(body: bytes | memoryview, record_count: int) -> list[Record]:
    """The tagged records of a frame of kind RECORDS."""
    if not 0 < record_count <= RECORDS_MAX or len(body) > BODY_BYTES_MAX:
        raise DecodeError(0, f"{record_count} records in {len(body)} bytes")
    try:
        records = _decoder.decode(memoryview(body)[PRODUCER.size :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(PRODUCER.size, str(error)) from error
    if len(records) != record_count:
        raise DecodeError(PRODUCER.size, f"{len(records)} records, the header says {record_count}")
    return records
