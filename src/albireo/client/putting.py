"""Putting messages to topics: what becomes one batch, and the wait for its receipt."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from msgspec.msgpack import decode, encode

from albireo.client.conversation import Conversation, asks
from albireo.client.conversed import LoopClient, ThreadClient
from albireo.client.errors import NodeRefused, OutcomeUnknown
from albireo.client.orders import ACTION_S
from albireo.client.questions import sayable
from albireo.client.topic_message import NewMessage
from albireo.codec.puts import HEADERS_MAX, KEYS_PUT_MAX, RUNS_MAX, CursorMoved, Extra, KeyPut
from albireo.codec.questions.topics import TOPIC, TopicNamed
from albireo.machine.producer.flight import MESSAGE_BYTES, PutOffer
from albireo.machine.producer.sending import Acknowledged
from albireo.model.refusal import RefusalCode
from albireo.model.topic import KEY_BYTES_MAX
from albireo.runtime.clock import wall_ns

if TYPE_CHECKING:
    from albireo.client.core import ClientCore

LENGTH_BYTES: Final = 4
"""Bytes that a batch takes for a message beside the message."""
EXTRA_BYTES: Final = 32
"""The same for a message with a key or headers, at most and beside these."""
BODIES: Final = frozenset({bytes, bytearray, memoryview})
Runs = list[tuple[str, list[bytes | NewMessage]]]
"""Messages that stand behind each other, by name of their topic."""


class TopicPutting:
    """Messages and moves of cursors that are to be one batch."""

    def __init__(
        self,
        core: "ClientCore",
        runs: Sequence[tuple[str, Sequence[bytes | NewMessage]]],
        moves: Sequence[CursorMoved] = (),
    ) -> None:
        """Raises ValueError: it is no batch: nothing, or too much."""
        self._core = core
        self._moves = moves
        self._stays_here = False
        self._extras: dict[int, Extra] = {}
        self._keyed: dict[int, NewMessage] = {}
        """Messages with a key, by index."""
        self._runs: list[tuple[str, Sequence[bytes]]] = []
        count = self._bytes = 0
        for name, messages in runs:
            extras = {}
            for index, one in enumerate(messages, count):
                if isinstance(one, NewMessage):
                    extras[index] = Extra(one.key, dict(one.headers))
                    if one.key is not None:
                        self._keyed[index] = one
            bodies = [one.body if isinstance(one, NewMessage) else one for one in messages] if extras else messages
            if not {*map(type, bodies)} <= BODIES:
                raise ValueError("a message is bytes, or a NewMessage with a body of bytes")
            self._runs.append((name, bodies))  # type: ignore[arg-type]
            self._extras |= extras
            self._bytes += sum(map(len, bodies)) + sum(map(_size_of, extras.values()))  # type: ignore[arg-type]
            count += len(bodies)
        self._bytes += LENGTH_BYTES * count
        if not (count or moves) or self._bytes > MESSAGE_BYTES or len(runs) > RUNS_MAX:
            limits = f"put one or more, of {MESSAGE_BYTES:,} bytes together, each with {LENGTH_BYTES} for its length"
            raise ValueError(f"{count:,} messages of {self._bytes:,} bytes are no batch: {limits}")

    def offered(self) -> "Conversation[Future[Acknowledged]]":
        """Offer them to the topics that have these names now; ends with what will be the receipt."""
        topics = self._core.topics
        extras, keys = dict(self._extras), list[KeyPut]()
        count = 0
        for name, bodies in self._runs:
            if name not in topics:
                topics[name] = yield from asks(TOPIC, TopicNamed(name=name))
            if topics[name].policy.last_value:
                keys += [self._key_at(index, name, extras) for index in range(count, count + len(bodies))]
            count += len(bodies)
        if len(keys) > KEYS_PUT_MAX:
            raise ValueError(f"a batch has {KEYS_PUT_MAX:,} messages to key-value stores at most")
        if extras or keys or self._moves:
            heads = (extras, keys, self._moves)
            sayable("put", lambda: decode(encode(heads), type=tuple[dict[int, Extra], list[KeyPut], list[CursorMoved]]))
        runs = [(topics[name].topic_id, bodies) for name, bodies in self._runs]
        self._stays_here = any(topics[name].stays_here for name, _ in self._runs)
        offer = PutOffer(wall_ns(), runs, extras, self._moves, keys, (), self._bytes, self._stays_here)
        return self._core.putter(stays_here=self._stays_here).deliver(offer)

    def _key_at(self, index: int, name: str, extras: dict[int, Extra]) -> KeyPut:
        """Key of a message as it stands in the head of the batch, and so no more among the extras."""
        one = self._keyed.get(index)
        if one is None or one.key is None:
            raise ValueError(f"the topic {name!r} keeps the last message of each key: put each with a key")
        del extras[index]
        if one.headers:
            extras[index] = Extra(None, dict(one.headers))
        return KeyPut(index, one.key, one.since, one.is_deleted)

    def unknown(self) -> OutcomeUnknown:
        """Error of a batch that may still be taken."""
        held_up = self._core.putter(stays_here=self._stays_here).part.machine.held_up
        cause = "" if held_up is None else f": {held_up.cause}"
        return OutcomeUnknown("put", f"no answer within {ACTION_S:g} s{cause}")

    def is_made_anew(self, error: NodeRefused) -> bool:
        """True: a topic is gone whose id was known, so nothing was put, and one of its name may be there."""
        known = [self._core.topics.pop(name, None) for name, _ in self._runs]
        return error.code == RefusalCode.UNKNOWN_TOPIC and any(one is not None for one in known)


def _size_of(extra: Extra) -> int:
    """Size of key and headers, in bytes. Raises ValueError: they are too large."""
    key = len(extra.key or b"")
    if key > KEY_BYTES_MAX or len(extra.headers) > HEADERS_MAX:
        raise ValueError(f"a key has {KEY_BYTES_MAX:,} bytes at most, and a message {HEADERS_MAX} headers")
    return EXTRA_BYTES + key + sum(8 + 4 * (len(name) + len(value)) for name, value in extra.headers.items())


def received(client: ThreadClient, putting: TopicPutting) -> Acknowledged:
    """Put, and wait for the receipt.

    Raises:
        NodeRefused: nothing was put. OutcomeUnknown: no answer came in time.
    """
    try:
        return client.converse(putting.offered()).result(ACTION_S)
    except NodeRefused as error:
        if not putting.is_made_anew(error):
            raise
        return received(client, putting)
    except TimeoutError as error:
        raise putting.unknown() from error


async def receives(client: LoopClient, putting: TopicPutting) -> Acknowledged:
    """As `received`, for coroutines."""
    import asyncio  # A program of threads does without it.

    try:
        receipt = await client.converse(putting.offered())
        async with asyncio.timeout(ACTION_S):
            return await asyncio.wrap_future(receipt)
    except NodeRefused as error:
        if not putting.is_made_anew(error):
            raise
        return await receives(client, putting)
    except TimeoutError as error:
        raise putting.unknown() from error
