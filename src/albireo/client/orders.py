"""Orders: what a client asks of orders that were given, and messages; the same for threads and for coroutines."""

import time
import uuid
from typing import Final

import msgspec

from albireo.client.conversation import Conversation, understood
from albireo.client.errors import NodeRefused
from albireo.client.questions import Request
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.message import MessageName
from albireo.model.tree.proof import MessageProof

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
