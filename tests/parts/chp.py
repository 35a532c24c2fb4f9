"""A CHP server's machine, and clients that do what RFC 12 tells them to; time, sockets and node are played here."""

from collections import deque
from collections.abc import Iterator

import msgspec

from albireo.codec.chp import HUGZ, KTHXBAI, KeyValue, decode, encode, encode_reading
from albireo.machine.chp.answering import SnapshotPiece
from albireo.machine.chp.server import (
    ChpNoted,
    ChpServer,
    Effects,
    Event,
    MirrorChanged,
    PieceTaken,
    PlaceOrder,
    Publish,
    RequestReceived,
    SetReceived,
)
from albireo.model import quality as q
from albireo.model.instant import Instant, TimePassed
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType

Map = dict[bytes, bytes]


class ChpClient:
    """A client by the letter of the RFC: KVSYNCs fill the map, KTHXBAI gives the number, KVPUBs above it count."""

    def __init__(self, name: bytes, subtree: bytes) -> None:
        self.name = name
        self.subtree = subtree
        self.snapshots: dict[int, Map] = {}
        """KVSYNCs by their number, which is that of their snapshot."""
        self.loses = 0
        """Publications that get lost on the way."""
        self.map: Map = {}
        self.sequence: int | None = None
        """Number of the last command that counts; None: it is not synchronised."""
        self.synchronised = 0
        self.hugs = 0
        self.room: int | None = None
        """Commands that its queue still takes; None: it reads all the time."""
        self._subscribed: deque[KeyValue] = deque()

    def forget(self) -> None:
        """Begin, or begin anew."""
        self.map, self.sequence = {}, None
        self.snapshots.clear()
        self._subscribed.clear()

    def takes(self, commands: list[KeyValue]) -> int:
        """Read commands of its snapshot connection, as many as its queue takes."""
        count = len(commands) if self.room is None else min(self.room, len(commands))
        if self.room is not None:
            self.room -= count
        for one in commands[:count]:
            assert (one.uuid, one.properties) == (b"", b"")
            if one.key == KTHXBAI:
                assert one.value == self.subtree
                self.sequence = one.sequence
                self.synchronised += 1
            else:
                assert one.value, "an empty value is no value"
                self.map[one.key] = one.value
                self.snapshots.setdefault(one.sequence, {})[one.key] = one.value
        self._read()
        return count

    def hears(self, one: KeyValue) -> None:
        """Get what its subscription passes."""
        if one.key == HUGZ:
            self.hugs += 1
        elif self.loses:
            self.loses -= 1
        elif one.key.startswith(self.subtree):
            self._subscribed.append(one)
            self._read()

    def _read(self) -> None:
        while self.sequence is not None and self._subscribed:
            one = self._subscribed.popleft()
            if one.sequence <= self.sequence:
                continue
            self.sequence = one.sequence
            if one.value:
                self.map[one.key] = one.value
            else:
                self.map.pop(one.key, None)


class ChpWorld:
    """The server with its clients."""

    def __init__(self, subtrees: tuple[bytes, ...] = (), *, is_set_allowed: bool = False) -> None:
        self.server = ChpServer(subtrees, is_set_allowed=is_set_allowed)
        self.now = Instant(0)
        self.clients: dict[bytes, ChpClient] = {}
        self.gone: set[bytes] = set()
        self.orders: list[PlaceOrder] = []
        self.notes: list[ChpNoted] = []
        self.history: list[KeyValue] = []
        """All publications but HUGZ."""
        self.first: Map = {}
        """State before the first publication."""
        self._subtrees = subtrees or (b"",)
        self._is_begun = False
        self._values: dict[int, Reading] = {}
        self._known: dict[int, KnownItem] = {}

    def step(self, event: Event) -> None:
        effects = self.server.step(event, self.now)
        while effects:
            effects = [again for effect in effects for again in self._performed(effect)]

    def _performed(self, effect: object) -> Effects:
        match effect:
            case Publish(commands):
                for one in commands:
                    assert decode(encode(one)) == one
                    self._published(one)
            case SnapshotPiece(client, commands):
                if client in self.gone:
                    return self.server.step(PieceTaken(client, 0, is_gone=True), self.now)
                asker = self.clients[client]
                before = asker.synchronised
                count = asker.takes(commands)
                if asker.synchronised > before:
                    self._check_snapshot(asker, commands[-1].sequence)
                return self.server.step(PieceTaken(client, count), self.now)
            case PlaceOrder():
                self.orders.append(effect)
            case ChpNoted():
                self.notes.append(effect)
        return []

    def _published(self, one: KeyValue) -> None:
        if one.key != HUGZ:
            assert not self.history or one.sequence > self.history[-1].sequence, "numbers rise strictly"
            self.history.append(one)
        for client in self.clients.values():
            client.hears(one)

    def _check_snapshot(self, client: ChpClient, sequence: int) -> None:
        """A snapshot is exactly what the publications up to its number make of the first state: no gap, no double."""
        made = dict(self.first)
        for one in self.history:
            if one.sequence <= sequence:
                made[one.key] = one.value
        wanted = {key: value for key, value in made.items() if value and key.startswith(client.subtree)}
        assert client.snapshots.get(sequence, {}) == wanted

    def tell(
        self, values: dict[str, float], sequence: int, *, is_whole: bool = False, retired: tuple[str, ...] = ()
    ) -> None:
        """The node has these values at this position, and these items no more."""
        if is_whole:
            self._values.clear()
            self._known.clear()
        readings = [self._reading(name, value) for name, value in values.items()]
        known = [self._item(one) for one in values if self._number(one) not in self._known]
        known += [self._item(one, is_retired=True) for one in retired]
        self._known.update((one.item_id, one) for one in known)
        self._values.update((one.item_id, one) for one in readings)
        if is_whole and not self._is_begun:
            self._is_begun, self.first = True, self.truth()
        self.step(MirrorChanged(items=known, readings=readings, position=Position(1, sequence), is_whole=is_whole))

    def knows(self, name: str) -> bool:
        """The item was declared."""
        return self._number(name) in self._known

    def truth(self) -> Map:
        """The map as the node has it, as far as it is served."""
        found = {
            f"/{one.node}/{one.item.name}".encode(): encode_reading(self._values[number])
            for number, one in self._known.items()
            if not one.is_retired and number in self._values
        }
        return {key: value for key, value in found.items() if key.startswith(self._subtrees)}

    def join(self, name: bytes, subtree: bytes = b"") -> ChpClient:
        self.clients[name] = ChpClient(name, subtree)
        return self.clients[name]

    def ask(self, client: ChpClient) -> None:
        self.step(RequestReceived(client.name, [b"ICANHAZ?", client.subtree]))

    def set(self, *parts: bytes) -> None:
        self.step(SetReceived(parts))

    def pass_time(self, duration_ns: int) -> None:
        """Do whatever is due on the way."""
        ends = self.now + duration_ns
        for due in self._due(ends):
            self.now = max(self.now, due)
            self.step(TimePassed())
        self.now = Instant(ends)
        self.step(TimePassed())

    def _due(self, ends: int) -> Iterator[Instant]:
        at_once = 0
        while (due := self.server.deadline()) is not None and due <= ends:
            at_once = at_once + 1 if due <= self.now else 0
            assert at_once < 10_000, "it spins"
            yield due

    def _number(self, name: str) -> int:
        return 1 + sum(byte << (8 * at) for at, byte in enumerate(name.encode()))

    def _item(self, name: str, *, is_retired: bool = False) -> KnownItem:
        node, _, local = name.rpartition(":")
        item = DataItem(name=local, value_type=ValueType.FLOAT64)
        return KnownItem(item_id=ItemId(self._number(name)), node=node or "site", item=item, is_retired=is_retired)

    def _reading(self, name: str, value: float) -> Reading:
        return Reading(
            item_id=self._number(name), name=name, value=value, quality=q.GOOD, source_ns=0, node_ns=0, unit=""
        )


def value_in(body: bytes) -> object:
    """The value that a client sees."""
    told = msgspec.json.decode(body)
    assert isinstance(told, dict)
    return told["value"]
