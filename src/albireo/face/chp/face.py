"""ChpFace: the machine of a CHP server on real sockets, beside a client of the node.

    client.watch --a thread of its own--> queue --+
    orders       --threads----------------------> +--> the caller's thread: machine --> sockets P, P + 1, P + 2
    clients      --sockets----------------------> +

The queue is short: while it is full the client joins what changes. The machine is machine/chp/server.py.
"""

import contextlib
import queue
import threading
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from albireo.client import Changes, Client, ClientError, NodeRefused, NodeUnreachable, OutcomeUnknown
from albireo.codec.chp import PART_BYTES_MAX, encode
from albireo.face.chp.settings import ChpSettings, ports_of
from albireo.machine.chp.answering import SnapshotPiece
from albireo.machine.chp.server import (
    ORDERS_MAX,
    ChpNoted,
    ChpServer,
    Effects,
    Event,
    MirrorChanged,
    OrderFinished,
    PieceTaken,
    PlaceOrder,
    Publish,
    RequestReceived,
    SetReceived,
    SourceLost,
)
from albireo.model.instant import SECOND, TimePassed
from albireo.model.position import Position
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.link import LinkLimits
from albireo.runtime.link.plain import Fate, PlainSocket, PlainSockets
from albireo.runtime.link.sockets import Sockets

LIMITS: Final = LinkLimits(message_bytes_max=PART_BYTES_MAX, linger_ms=200, stall_ms=10_000)
"""Bounds of the snapshot and the collector port; a peer that has not read for 10 s is cut off."""
PUBLISHER_LIMITS: Final = msgspec.structs.replace(LIMITS, send_messages_max=10_000)
MESSAGES_MAX: Final = 256
"""Messages of one port that are taken in one turn."""
TOLD_MAX: Final = 2
"""Changes that wait for the machine."""
LOOK_S: Final = 0.5
"""Time after which it is noticed that the node is not heard, once its client knows."""
WAIT_S: Final = 1.0
GRACE_S: Final = 5.0
"""The answer to an order may come so much later than its time is over."""


class ChpFace:
    """The server. `run` serves until `stop`."""

    def __init__(self, client: Client, settings: ChpSettings, tell: Callable[[ChpNoted], object]) -> None:
        """
        Args:
            client: client of the node; it is closed at the end of `run`, and if the server can't listen.
            tell: is called with what people should know, in the thread that runs.
        Raises:
            AddressTaken: it can't listen there.
        """
        self.machine = ChpServer([one.encode() for one in settings.subtrees], is_set_allowed=settings.allow_set)
        self._client = client
        self._node = settings.of
        self._position: Position | None = None
        """Position from which publications are numbered; None: that of each change."""
        self._tell = tell
        self._told: queue.Queue[Changes] = queue.Queue(TOLD_MAX)
        self._finished: deque[OrderFinished] = deque()
        self._error: ClientError | None = None
        self._is_ending = threading.Event()
        self._orders = ThreadPoolExecutor(ORDERS_MAX, "chp-order")
        self._sockets = PlainSockets()
        try:
            at = ports_of(settings.bind)
            self._snapshots = self._sockets.bind(Sockets.router, at[0], LIMITS, settings.peers)
            self._publisher = self._sockets.bind(Sockets.publisher, at[1], PUBLISHER_LIMITS, settings.peers)
            self._collector = self._sockets.bind(Sockets.collector, at[2], LIMITS, settings.peers)
        except BaseException:  # Whatever it was goes on; no socket and no thread stays.
            self._sockets.close()
            client.close(0.0)
            raise

    def run(self) -> None:
        """Serve until `stop` is called.

        Raises:
            ClientError: the client has ended.
        """
        watching = threading.Thread(target=self._watch, name="chp-watch", daemon=True)
        watching.start()
        try:
            while not self._is_ending.is_set() and self._error is None:
                due = self.machine.deadline()
                self._sockets.wait(WAIT_S if due is None else min(WAIT_S, max(0, due - boot_ns()) / SECOND))
                self._turn()
        finally:
            self._is_ending.set()
            self._client.close(0.0)  # So that nobody waits for the node any more.
            self._orders.shutdown()
            watching.join()
            self._take_finished()
            self._sockets.close(LIMITS.linger_ms)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End `run`; from any thread, and from a handler of a signal. Orders under way are not waited for."""
        if not self._is_ending.is_set():
            self._is_ending.set()
            self._sockets.wake()

    def _watch(self) -> None:
        """Hand on what changes; the body of the thread."""
        try:
            for changes in self._client.watch(f"{self._node}:*" if self._node else "*", timeout_s=LOOK_S):
                if self._node and changes.is_whole:
                    self._look_at_position()
                while not self._is_ending.is_set():
                    try:
                        self._told.put(changes, timeout=LOOK_S)
                    except queue.Full:
                        continue
                    self._sockets.wake()
                    break
                if self._is_ending.is_set():
                    return
        except ClientError as error:
            if not self._is_ending.is_set():
                self._error = error
                self._sockets.wake()

    def _look_at_position(self) -> None:
        """Count from the position of the node that is asked: those of another node's state are of one process only."""
        while not self._is_ending.is_set():
            with contextlib.suppress(NodeUnreachable):
                self._position = Position(sequence=self._client.status().log.sequence)
                return

    def _turn(self) -> None:
        for _ in range(self._told.qsize()):
            self._step(self._event_of(self._told.get_nowait()))
        self._take_finished()
        for identity, *parts in self._snapshots.drain(MESSAGES_MAX):
            self._step(RequestReceived(identity, parts))
        for parts in self._collector.drain(MESSAGES_MAX):
            self._step(SetReceived(parts))
        due = self.machine.deadline()
        if due is not None and due <= boot_ns():
            self._step(TimePassed())

    def _event_of(self, changes: Changes) -> MirrorChanged | SourceLost:
        if not changes.is_live:
            return SourceLost()
        position = self._position or changes.position
        return MirrorChanged(
            items=changes.items, readings=changes.readings, position=position, is_whole=changes.is_whole
        )

    def _take_finished(self) -> None:
        for _ in range(len(self._finished)):
            self._step(self._finished.popleft())

    def _step(self, event: Event) -> None:
        effects = deque(self.machine.step(event, boot_ns()))
        while effects:
            effects.extend(self._performed(effects.popleft()))

    def _performed(self, effect: "Publish | SnapshotPiece | PlaceOrder | ChpNoted") -> Effects:
        match effect:
            case Publish(commands):
                for one in commands:
                    self._publisher.send(encode(one))
            case SnapshotPiece():
                return self.machine.step(_sent(self._snapshots, effect), boot_ns())
            case PlaceOrder():
                self._orders.submit(self._order, effect)
            case ChpNoted():
                self._tell(effect)
        return []

    def _order(self, order: PlaceOrder) -> None:
        """Give an order, and wait for its end; the body of a thread."""
        outcome, detail = self._ordered(order)
        self._finished.append(OrderFinished(order.item, outcome, detail))
        self._sockets.wake()

    def _ordered(self, order: PlaceOrder) -> tuple[str, str]:
        arguments: dict[str, Any] = {
            "item": order.item,
            "value": order.value,
            "command_id": order.command_id or uuid.uuid4().hex,
            "user": "chp",
            "reason": "KVSET",
            "expires_ms": max(1, round(order.expires_s * 1000)),
        }
        try:
            receipt = self._client.ask("write", timeout_s=order.expires_s + GRACE_S, **arguments)
        except OutcomeUnknown as error:
            return "unknown", error.cause
        except NodeRefused as error:
            return "refused", error.reason
        except NodeUnreachable as error:
            return "unreachable", error.cause
        except ClientError as error:
            return "failed", error.cause
        assert isinstance(receipt, dict)
        return str(receipt["outcome"]), str(receipt.get("detail", ""))


def _sent(socket: PlainSocket, piece: SnapshotPiece) -> PieceTaken:
    for count, one in enumerate(piece.commands):
        fate = socket.send([piece.client, *encode(one)])
        if fate is not Fate.QUEUED:
            return PieceTaken(piece.client, count, is_gone=fate is Fate.GONE)
    return PieceTaken(piece.client, len(piece.commands))
