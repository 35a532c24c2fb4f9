"""Orders: what a client asks of orders that were given, and messages; the same for threads and for coroutines."""

import time
import uuid
from typing import Final, TypeVar

import msgspec

from albireo.client import requests
from albireo.client.conversation import Conversation, understood
from albireo.client.core import ClientCore
from albireo.client.errors import ClientError, NodeRefused
from albireo.client.questions import Request
from albireo.model.command import SELECT_MS, ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.message import MessageName
from albireo.model.tree.proof import MessageProof
from albireo.model.value import Value

_Wanted = TypeVar("_Wanted")
GRACE_S: Final = 5.0
"""The answer about a message whose time runs out comes this much later at most."""
RECEIVE_S: Final = 20.0
"""Time for which one question waits for a message."""
CANCEL_S: Final = 20.0
"""Longest time that it may take until an owner has said whether it had begun."""
MOVED: Final = "the lead has changed"
"""Words with which a member that leads no more sends a receiver on."""
MOVED_PAUSE_S: Final = 0.2
LATEST: Final = 50
"""Commands that are listed if nobody says how many."""


def command(command_id: str) -> Conversation[CommandCourse]:
    """The life of one command."""
    reply = yield Request(what="command", arguments={"command_id": command_id})
    return understood("command", reply.result, CommandCourse)


def commands(limit: int) -> Conversation[list[CommandCourse]]:
    """The latest commands, the newest first."""
    reply = yield Request(what="commands", arguments={"limit": limit})
    return understood("commands", reply.result, list[CommandCourse])


def cancel(command_id: str, user: str, reason: str) -> Conversation[MessageProof]:
    """Take an order or a message back."""
    arguments = {"command_id": command_id, "user": user, "reason": reason}
    reply = yield Request(what="cancel", arguments=arguments, wait_s=CANCEL_S)
    return understood("cancel", reply.result, MessageProof)


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a receiver has; `take` makes it its own."""

    name: MessageName
    lease: int
    kind: str
    body: bytes
    user: str
    principal: str
    reason: str

    @property
    def origin(self) -> str:
        """Node that it was sent from."""
        return self.name.origin


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent."""

    node: str
    body: bytes
    kind: str
    reason: str
    expires_s: float


def send(message: OutgoingMessage, user: str) -> Conversation[MessageProof]:
    """Send a message, and wait for what becomes of it."""
    arguments = {
        "node": message.node,
        "body": message.body,
        "kind": message.kind,
        "reason": message.reason,
        "user": user,
        "command_id": str(uuid.uuid4()),
        "expires_ms": round(message.expires_s * 1000),
    }
    reply = yield Request(what="send", arguments=arguments, wait_s=message.expires_s + GRACE_S)
    return understood("send", reply.result, MessageProof)


def receive(timeout_s: float | None) -> Conversation[InboxMessage | None]:
    """The next message of the inbox; None: none came in time."""
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = 0.0
    while True:
        left_s = RECEIVE_S if ends is None else max(0.0, min(RECEIVE_S, ends - time.monotonic()))
        arguments = {"wait_ms": round(left_s * 1000)}
        try:
            reply = yield Request(what="receive", arguments=arguments, wait_s=left_s + GRACE_S, pause_s=pause_s)
        except NodeRefused as error:
            if MOVED not in error.reason:
                raise
            if ends is not None and time.monotonic() >= ends:
                return None
            pause_s = MOVED_PAUSE_S
            continue
        if reply.result is not None:
            return understood("receive", reply.result, InboxMessage)
        if ends is not None and time.monotonic() >= ends:
            return None
        pause_s = 0.0


def take(message: InboxMessage) -> Conversation[None]:
    """Say that a message is taken."""
    yield Request(what="take", arguments={"name": msgspec.to_builtins(message.name), "lease": message.lease})


class OrderingClient:
    """A connected client, as far as it asks and orders."""

    def __init__(self, core: ClientCore) -> None:
        """Use `connect`."""
        self._core = core

    def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        try:
            request = next(conversation)
            while True:
                if request.pause_s:
                    time.sleep(request.pause_s)
                try:
                    reply = self._core.begin(request).result()
                except ClientError as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(reply)
        except StopIteration as ended:
            wanted: _Wanted = ended.value
            return wanted

    def write(
        self,
        item: str,
        value: Value,
        reason: str = "",
        *,
        expires_s: float = 10.0,
        selection: ItemSelection | None = None,
    ) -> Receipt:
        """Set an item, and say what became of it.

        Args:
            selection: What `select` returned, for an item whose `control` is `select`; the order uses it up.

        Raises:
            NodeRefused: the item is unknown or takes no orders; `AccessRefused`: our role does not suffice;
                `NotSelected`: the item has to be selected first, or the selection is over.
            OutcomeUnknown: no answer came, and nobody here knows whether the order was carried out.
        """
        return self.converse(requests.write(item, value, self._core.user, reason, expires_s, selection))

    def select(self, item: str, reason: str = "", *, for_s: float = SELECT_MS / 1000) -> ItemSelection:
        """Have an item for this client alone for a moment, to look at it and to write it next.

        It ends with the write that names it, with `deselect`, or after `for_s`, 300 s at most. Nothing is written.

        Raises:
            AlreadySelected: somebody has selected it; says who, and for how long still.
            NodeRefused: the item takes orders directly, or none.
            OutcomeUnknown: no answer came; what may be selected ends by itself.
        """
        return self.converse(requests.select(item, self._core.user, reason, for_s))

    def deselect(self, selection: ItemSelection, reason: str = "") -> None:
        """Give a selection back. Raises NotSelected: it was over, or has been used."""
        self.converse(requests.deselect(selection, self._core.user, reason))

    def force(self, item: str, value: Value, reason: str, *, for_s: float) -> ForcedItem:
        """Put a value to an item in the place of what its device measures, for a time.

        Everybody sees it with the quality `Good_LocalOverride`; what is measured goes on as `<item>/measured`. Nothing
        is written to the device.

        Raises: as `write`.
        """
        return self.converse(requests.force(item, value, self._core.user, reason, for_s))

    def release(self, item: str, reason: str = "") -> None:
        """End the force of an item before its time; a moment later it shows what is measured.

        Raises: as `write`.
        """
        self.converse(requests.release(item, self._core.user, reason))

    def forces(self) -> list[ForcedItem]:
        """Forced items here and at the nodes below, with what is measured of each, by name."""
        return self.converse(requests.forces())

    def command(self, command_id: str) -> CommandCourse:
        """The life of one command. Raises NodeRefused: this node neither gave nor has it, or has forgotten it."""
        return self.converse(command(command_id))

    def cancel(self, command_id: str, reason: str = "") -> MessageProof:
        """Take an order back, or a message, and say what became of it: `cancelled` is a promise.

        An order to an item of the node itself is taken back until its adapter was told, one to another node until its
        owner has it.
        """
        return self.converse(cancel(command_id, self._core.user, reason))

    def commands(self, *, limit: int = LATEST) -> list[CommandCourse]:
        """The latest commands that this node gave, or carried out for others, the newest first."""
        return self.converse(commands(limit))
