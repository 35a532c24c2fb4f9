"""Messages between the actors and clients of a node: one msgpack map, tagged, then raw parts.

    message  = map:bytes  raw:bytes*
    raw      = the bodies of `Append` (one per entry), frames end to end (`FeedData`, `Frames`: one part)

A part is never copied into the map: what is large and checksummed travels beside it. Decoding is total: hostile bytes
give a DecodeError, never anything else.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Union, get_args

import msgspec
from msgspec import Meta

from albireo.codec.bounds import MESSAGE_BYTES_MAX, OPEN_BYTES_MAX, PARTS_MAX
from albireo.codec.delta import StateCursor, StateDelta, TablePart
from albireo.codec.errors import DecodeError
from albireo.codec.files_told import MessagesTold, SealTold
from albireo.codec.pair_message import Carried, CopyTold, FoldsSent, Frames, PeerMessage, RangeSent, VoteMessage
from albireo.codec.register_block import RegisterMessage
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.codec.tree.letters import TreeMessage
from albireo.codec.tree.stored import StoredAsked, StoredGiven
from albireo.model import bounded
from albireo.model.bounded import ENTRIES_MAX
from albireo.model.command import Receipt
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import Epochs, Position
from albireo.model.refusal import Refusal
from albireo.model.status import FaceAddress
from albireo.model.value import Value

ENDS_MAX: Final = 256
"""Most batches of messages of which one receipt says where they stand."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of all messages: each subclass names its tag."""


class Started(Message, frozen=True, tag="started"):
    """The actor is ready: its sockets are bound and its state is rebuilt."""

    actor: bounded.Name
    pid: bounded.Count
    address: FaceAddress = FaceAddress()


class AliveAsked(Message, frozen=True, tag="dead?"):
    """DEAD?: goes through the actor's own loop, so a hung actor does not answer."""

    nonce: bounded.Word


class AliveAnswered(Message, frozen=True, tag="alive!"):
    nonce: bounded.Word
    actor: bounded.Name
    cpu_ns: bounded.Count = 0
    """CPU time used since the start, by the process or, in thread placement, by the thread."""
    longest_turn_ns: bounded.Count = 0
    """Longest turn of the last 10..20 s."""
    longest_turn_cpu_ns: bounded.Count = 0
    """Most CPU time that a turn used in the last 10..20 s."""
    malformed: bounded.Count = 0
    """Number of malformed messages since the start."""
    log_dropped: bounded.Count = 0
    """Number of log lines lost since the start."""


class StopAsked(Message, frozen=True, tag="stop"):
    pass


class Stopped(Message, frozen=True, tag="stopped"):
    """Everything is released; nothing follows."""

    actor: bounded.Name


class ProducerHello(Message, frozen=True, tag="producer_hello"):
    """A named producer opens or re-opens. An adapter sends its items along."""

    producer: bounded.Text
    items: Annotated[tuple[DataItem, ...], Meta(max_length=ENTRIES_MAX)] = ()
    run: bounded.Word = 0
    """Random number of the producer's run; a new one means a new life, and a gap."""
    takes_orders: bool = False
    """True: this producer carries out orders for its items."""
    life: bounded.Count = 0
    """Producer id of the last welcome of this run; 0: none came yet."""


class ProducerWelcome(Message, frozen=True, tag="producer_welcome"):
    producer_id: bounded.Count
    """Number of the producer's life: batches carry it, and their numbers mean nothing in another."""
    last_sequence: bounded.Count
    """Last producer sequence of this life that is committed or pending; the producer goes on with the next."""
    item_ids: Annotated[tuple[bounded.Number32, ...], Meta(max_length=ENTRIES_MAX)]
    """Ids of the hello's items, in the same order."""
    epoch: bounded.Count
    credit_bytes: bounded.Count
    """Bytes of bodies that may be on their way unanswered."""
    run: bounded.Word
    """Run of the hello."""


class AppendEntry(msgspec.Struct, frozen=True, array_like=True):
    """One body to append; its bytes are the raw part of the same index."""

    stream: bounded.Number32
    kind: bounded.Number32
    record_count: bounded.Number32
    body_crc: bounded.Number32


class Append(Message, frozen=True, tag="append"):
    """Bodies with consecutive producer sequences, in order."""

    entries: Annotated[tuple[AppendEntry, ...], Meta(max_length=PARTS_MAX)]


class Appended(Message, frozen=True, tag="appended"):
    """Receipt for all batches up to `producer_sequence`: recorded, and committed but for the last `uncommitted`."""

    producer_id: bounded.Count
    producer_sequence: bounded.Count
    position: Position
    durability: bounded.Name = "local"
    """`both`: on the disks of both members; `local`: on this one's, the only member of the set or the only node."""
    members: bounded.Members = ()
    """In-sync set at this moment, or this member alone if any batch is uncommitted; empty: no pair."""
    uncommitted: bounded.Count = 0
    """Number of batches, of a stream whose durability is `local`, that are on this member's disk and may be cut by a
    takeover; the producer keeps them. Another receipt follows once all are committed."""
    ends: Annotated[tuple[bounded.Count, ...], Meta(max_length=ENDS_MAX)] = ()
    """Sequence of the last record of each of the last batches that this receipt is for, if they are puts."""


class Successor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Life that has the name of a superseded one."""

    producer_id: bounded.Count
    run: bounded.Word
    since_ns: bounded.Signed = 0
    """Node time at which it began; 0: not known."""


class AppendRefused(Message, frozen=True, tag="append_refused"):
    """Nothing of the message from `producer_sequence` on was taken.

    Codes: `gap` (send `wanted` first), `unknown_producer` (say hello again), `not_recording` (try later), `not_holder`
    (ask the other member), `malformed` (CRC, length, stream; the batch is dropped and counted), `access` (of a batch: a
    hello is refused for good then). For good, to a program's `run`: `superseded` (a later one has the name), and to a
    hello `malformed` (a name or size), `not_owner`, `full` (a table), `forgotten` (this program's life), `access`.
    """

    producer_id: bounded.Count
    producer_sequence: bounded.Count
    refusal: Refusal
    wanted: bounded.Count = 0
    is_final: bool = False
    """True: the program of this `run` is refused for good."""
    run: bounded.Word = 0
    successor: Successor | None = None
    """Code `superseded`: life that has the name."""


class WriteOrder(Message, frozen=True, tag="write_order"):
    """CORE to adapter. The adapter checks `epoch` and `not_after` right before it sends."""

    command_id: bounded.Text
    item_id: bounded.Number32
    value: Value
    epoch: bounded.Count
    not_after: bounded.Signed
    """Instant (boot clock of this machine) from which on the order is not sent any more."""
    not_before: bounded.Signed = 0
    """Instant from which this holder may write; until then the previous one may. The order waits for it."""


class WriteDone(Message, frozen=True, tag="write_done"):
    """Adapter to CORE: final outcome of an order."""

    receipt: Receipt


class RoleTold(Message, frozen=True, tag="role_told"):
    """CORE to each adapter of its own member: on every change, in answer to `RoleAsked`, and to a hello while passive.

    If this member does not act the adapter stands by as configured, writes nothing, and says so. If it acts the adapter
    says hello with a new run. A node that stands alone never sends it.
    """

    is_acting: bool
    epoch: bounded.Count
    """Epoch that this member holds or follows. An adapter ignores `is_acting` under a lower epoch than it has heard."""
    committed: Position = Position()
    """Last committed record as this is said."""
    member: bounded.Seat = 0
    """Index of this member, and of its mailbox in a PLC."""
    not_before: bounded.Signed = 0
    not_after: bounded.Signed = 0
    """Instants (boot clock) of the holder's present permit, for writes of an adapter without an order; 0: none."""
    stand_down: bounded.Count = 0
    """Number of times that this run of CORE has stopped acting; `WritesEnded` names it."""


class RoleAsked(Message, frozen=True, tag="role_asked"):
    """Adapter to CORE, each second while it stands by, and whenever it needs a permit. Answered by `RoleTold`.

    CORE learns from it whom to tell of a promotion, also after a restart of its own.
    """

    adapter: bounded.Name
    reaches: bool | None = None
    """True: the adapter reaches its device; None: not tried (`standby = "off"`), or not known yet."""


class WritesEnded(Message, frozen=True, tag="writes_ended"):
    """Adapter to CORE: it writes no more. Sent at its stop, when it stands by, and when the last write then ends."""

    stand_down: bounded.Count
    """Number in the `RoleTold` that the adapter heard last."""
    lands_until: bounded.Signed = 0
    """Instant (boot clock) by which the writes under way have landed, or never will; 0: none is under way."""
    is_stopped: bool = False


class FeedMessage(Message, frozen=True, kw_only=True):
    """Base of what a feed is made of. `channel`: its number among the feeds of one link; 0 unless there are several."""

    channel: bounded.Register = 0


class FeedHello(FeedMessage, frozen=True, tag="feed_hello"):
    """The follower says what it has and what it wants. `in_pieces`: it takes long deltas of a state, and
    large frames of a log, in pieces."""

    follower: bounded.Text
    log_id: bounded.LogId = b""
    """Id of the log that the follower has; empty: it has nothing yet."""
    history: Epochs = ()
    position: Position = Position()
    """Last position that the follower has made durable; a claim, never an acknowledgement."""
    streams: bounded.Streams = ()
    """Streams that are wanted; empty: all."""
    mode: bounded.Name = "log"
    """`log`: every record; `state`: latest value per key."""
    credit_bytes: bounded.Signed = 1 << 20
    max_wait_ms: bounded.Signed = 0
    """Mode `log`: longest time for which few new records may be kept back (as Kafka's `fetch.max.wait.ms`)."""
    of: bounded.Name = ""
    """Mode `state`: node below whose state is wanted; empty: that of the node itself."""
    in_pieces: bool = False
    delta: StateDelta | None = None
    """Mode `state`: the delta behind `position` that goes on behind these pieces."""
    subscription_id: bounded.Count = 0
    """Said to the actor `topics`: subscription whose messages are wanted."""
    not_before: Position = Position()
    """The same: position that it has to have come to before it serves: what was acknowledged up to there is done."""
    program: bounded.Count = 0
    """The same: number that the program drew, 0: none."""
    line: bounded.Count = 0
    """The same: number of the program's line. Of two hellos of one program the one of the later line counts."""


class FeedAnswer(FeedMessage, frozen=True, tag="feed_answer"):
    """`verdict`: resume, truncate, fork, snapshot, behind, refused; the last two have a `refusal`."""

    verdict: bounded.Name
    position: Position = Position()
    log_id: bounded.LogId = b""
    history: Epochs = ()
    refusal: Refusal | None = None


class FeedData(FeedMessage, frozen=True, tag="feed_data"):
    """Mode log: frames as they stand in the log, one raw part; or a piece of one frame, for who takes pieces."""

    epoch: bounded.Count
    first: Position
    last: Position
    previous: Position
    """Last position sent before `first` through this filter, by which the follower finds gaps."""
    piece: bounded.Count = 0
    goes_on: bool = False
    """`piece` is one of a frame; the follower is at `last` once it does not go on."""


TABLES_MAX: Final = 64
"""Most tables of one state."""


class FeedState(FeedMessage, frozen=True, tag="feed_state"):
    """Mode state: what changed up to `position`, latest value per key, encoded once per tick for all followers."""

    epoch: bounded.Count
    position: Position
    previous: Position
    is_snapshot: bool = False
    piece: bounded.Count = 0
    behind: StateCursor = StateCursor()
    after: StateCursor | None = None
    """`piece` is one of a delta, all with the same positions. It begins behind `behind`, the next one behind `after`;
    without that this is the last one, and the follower is at `position`."""
    items: Annotated[tuple[KnownItem, ...], Meta(max_length=ENTRIES_MAX)] = ()
    tables: Annotated[dict[bounded.Name, TablePart], Meta(max_length=TABLES_MAX)] = {}
    """Changes of tables, by name; who does not know a table passes over it."""
    value_parts: Annotated[tuple[tuple[bounded.Register, bounded.Number32], ...], Meta(max_length=PARTS_MAX)] = ()
    """(value type, row count) of each raw part: sample columns as in codec.samples. Under a bad quality a value is
    the last usable one."""
    without_value: Annotated[tuple[bounded.Number32, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Ids of items in those parts that had no usable value yet: what stands there for it means nothing."""
    stale_since_ns: bounded.Signed | None = None
    """Wall time since which whoever says this hears nothing of the node that it is about; 0: never; none: it does."""

    @property
    def goes_on(self) -> bool:
        return self.after is not None


class FeedAck(FeedMessage, frozen=True, tag="feed_ack"):
    """Acknowledgement of all up to two positions, and new credit. `pieces`: number received behind `received`."""

    received: Position
    durable: Position
    credit_bytes: bounded.Signed
    pieces: bounded.Count = 0


class FeedDone(FeedMessage, frozen=True, tag="feed_done"):
    """The actor `topics` to a consumer: what it acknowledged up to here is on record, and never given to it again."""

    durable: Position


class FeedAlive(FeedMessage, frozen=True, tag="feed_alive"):
    epoch: bounded.Count
    is_acting: bool
    committed: Position
    end: Position
    sent: Position = Position()
    """Last position sent to this follower; a follower that is not there yet has missed something."""
    pieces: bounded.Count = 0
    """Pieces sent of the delta behind `sent`."""
    scanned: bounded.Count = 0
    """Sequence up to which everything was sent, or is not wanted."""


class Carry(Message, frozen=True, tag="carry"):
    """Actor to CORE: take the raw parts to the same actor of the other member. CORE to actor: they come from there.

    Parts that can't be sent at once are lost; the actors ask for them again. Without parts it says where the actor is.
    """

    actor: bounded.Name = "history"


class HistoryTold(Message, frozen=True, tag="history_told"):
    """History to CORE, each second in a pair: how complete the stored history is, here and as the other asks for it.

    CORE learns from it where what it carries is to go, also after a restart of its own.
    """

    own: CopyTold
    other: CopyTold
    refused: bounded.Counts = {}
    """Number of words of the other history that were not believed, by reason."""


class Ask(Message, frozen=True, tag="ask"):
    """A question, answered by `Answer` with the same id. docs/node-protocol.md has all; unknown ones are refused."""

    request_id: bounded.Signed
    what: bounded.Text
    arguments: dict[str, object] = {}
    of: bounded.Name = ""
    """Said to CORE: who is asked. Empty: CORE itself; `history`: CORE hands the question on, and the answer back."""
    person: bounded.Name = ""
    """Said to CORE by an admin: name of the person for whom it asks, and with whose role; empty: for itself."""


class Answer(Message, frozen=True, tag="answer"):
    """`result` is JSON-like, unless there is a `refusal` in its place. Raw parts may follow."""

    request_id: bounded.Signed
    result: object = None
    refusal: Refusal | None = None

    @property
    def outcome(self) -> object:
        """The result, or the refusal."""
        return self.result if self.refusal is None else self.refusal


class Logged(Message, frozen=True, tag="log"):
    """One structured log line on its way to `logger`."""

    at_ns: bounded.Signed
    level: bounded.Name
    actor: bounded.Name
    event: bounded.Name
    fields: bounded.Fields = {}


AnyMessage = (
    Started | AliveAsked | AliveAnswered | StopAsked | Stopped
    | ProducerHello | ProducerWelcome | Append | Appended | AppendRefused | WriteOrder | WriteDone
    | FeedHello | FeedAnswer | FeedData | FeedState | FeedAck | FeedAlive | FeedDone
    | ChildHello | ParentHello | Ask | Answer | Logged | Carry | HistoryTold | MessagesTold | SealTold | Carried
    | VoteMessage | PeerMessage | RoleTold | RoleAsked | WritesEnded
    | TreeMessage | StoredAsked | StoredGiven | RegisterMessage
)  # fmt: skip

OPEN: Final = (Ask, Answer, Logged, Frames, FoldsSent, RangeSent)
"""Messages with a field of any content."""
_CLOSED: Final = [one for one in get_args(AnyMessage) if one not in OPEN]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)
_decoder_of_large: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(Union[tuple(_CLOSED)])  # noqa: UP007  # Made, not written.
_decoder_of_large_answers: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(Union[(*_CLOSED, Answer)])


def encode(message: AnyMessage, raw: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """The parts of one multipart message."""
    return [_encoder.encode(message), *raw]


def decode(
    parts: Sequence[bytes | memoryview], *, takes_answers: bool = True
) -> tuple[AnyMessage, list[bytes | memoryview]]:
    """The message and its raw parts. `takes_answers`: a map above OPEN_BYTES_MAX may be an answer.

    Raises:
        DecodeError: no parts, a part above MESSAGE_BYTES_MAX, or a map that is no known message within its bounds.
    """
    if not parts:
        raise DecodeError(0, "no parts")
    for part in parts:
        if len(part) > MESSAGE_BYTES_MAX:
            raise DecodeError(0, f"a part of {len(part)} bytes, at most {MESSAGE_BYTES_MAX}")
    decoder = _decoder
    if len(parts[0]) > OPEN_BYTES_MAX:
        decoder = _decoder_of_large_answers if takes_answers else _decoder_of_large
    try:
        return decoder.decode(parts[0]), list(parts[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(0, str(error)) from error
