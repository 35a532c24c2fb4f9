"""Messages: what a client asks about messages of programs; the same for threads and for coroutines."""

import time
import uuid
from typing import Any, Final, TypeVar

import msgspec

from albireo.client.conversation import Conversation, understood
from albireo.client.errors import NodeRefused
from albireo.client.questions import NodeReply, Request, milliseconds
from albireo.codec.questions.messages import InboxMessage
from albireo.model.refusal import RefusalCode
from albireo.model.tree.proof import MessageProof

GRACE_S: Final = 5.0
"""The answer about a message whose time runs out comes this much later at most."""
WAIT_S: Final = 20.0
"""Time for which one question waits for a message, or for the end of one."""
TAKE_S: Final = 30.0
"""Time for which the word that a message is taken is said again, if a takeover comes in between."""
MOVED: Final = "the lead has changed"
"""Words with which a member that leads no more sends a receiver on."""
MOVED_PAUSE_S: Final = 0.2

_Answer = TypeVar("_Answer")


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent."""

    node: str
    body: bytes
    kind: str
    reason: str
    expires_s: float
    inbox: str

    def arguments(self, user: str, *, wait: bool) -> dict[str, Any]:
        """Arguments of the question `send`, with an id of its own."""
        return {
            "node": self.node,
            "body": self.body,
            "kind": self.kind,
            "reason": self.reason,
            "user": user,
            "command_id": str(uuid.uuid4()),
            "expires_ms": milliseconds(self.expires_s),
            "inbox": self.inbox,
            "wait": wait,
        }


def send(message: OutgoingMessage, user: str) -> Conversation[MessageProof]:
    """Send a message, and wait for what becomes of it."""
    arguments = message.arguments(user, wait=True)
    reply = yield Request(what="send", arguments=arguments, wait_s=message.expires_s + GRACE_S)
    return understood("send", reply.result, MessageProof)


def send_off(message: OutgoingMessage, user: str) -> Conversation[str]:
    """Send a message, and wait until it is on record where it is sent from; its id."""
    reply = yield Request(what="send", arguments=message.arguments(user, wait=False))
    return understood("send", reply.result, str)


def proof(command_id: str, timeout_s: float) -> Conversation[MessageProof | None]:
    """Tell what became of a message; None: it has no end in this time."""
    return (yield from _asked_on("message", {"command_id": command_id}, timeout_s, MessageProof))


def receive(inbox: str, timeout_s: float | None) -> Conversation[InboxMessage | None]:
    """The next message of an inbox; None: none came in time."""
    return (yield from _asked_on("receive", {"inbox": inbox}, timeout_s, InboxMessage))


def take(message: InboxMessage, reply: bytes | None) -> Conversation[None]:
    """Say that a message is taken, and answer it."""
    arguments = {"name": msgspec.to_builtins(message.name), "lease": message.lease, "reply": reply}
    yield from _moved_on(Request(what="take", arguments=arguments, wait_s=TAKE_S), time.monotonic() + TAKE_S)


def give_back(message: InboxMessage) -> Conversation[None]:
    """Say that nothing was done with a message, so that another receiver has it."""
    arguments = {"name": msgspec.to_builtins(message.name), "lease": message.lease}
    yield from _moved_on(Request(what="give_back", arguments=arguments, wait_s=TAKE_S), time.monotonic() + TAKE_S)


def _asked_on(
    what: str, arguments: dict[str, Any], timeout_s: float | None, shape: type[_Answer]
) -> Conversation[_Answer | None]:
    """Ask again until there is an answer, or the time is over."""
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = WAIT_S if ends is None else max(0.0, min(WAIT_S, ends - time.monotonic()))
        waiting = arguments | {"wait_ms": round(left_s * 1000)}
        reply = yield from _moved_on(Request(what=what, arguments=waiting, wait_s=left_s + GRACE_S), ends)
        if reply is not None and reply.result is not None:
            return understood(what, reply.result, shape)
        if ends is not None and time.monotonic() >= ends:
            return None


def _moved_on(request: Request, ends: float | None) -> Conversation[NodeReply | None]:
    """Ask, and ask the member that leads now if it has changed; None: it went on changing until the time was over."""
    pause_s = 0.0
    while True:
        try:
            return (yield msgspec.structs.replace(request, pause_s=pause_s))
        except NodeRefused as error:
            if error.code != RefusalCode.MOVED:
                raise
            if ends is not None and time.monotonic() >= ends:
                return None
            pause_s = MOVED_PAUSE_S
