"""Messages: what a client asks about messages of programs."""

import time
import uuid
from typing import Final, TypeVar

import msgspec

from albireo.client.conversation import Conversation, asks, understood
from albireo.client.errors import NodeRefused
from albireo.client.orders import ACTION_S, GRACE_S
from albireo.client.questions import milliseconds
from albireo.codec.questions.kind import QuestionKind, ShapeT
from albireo.codec.questions.messages import (
    GIVE_BACK,
    MESSAGE,
    RECEIVE,
    SEND,
    TAKE,
    BecomeAsked,
    GiveBackAsked,
    InboxMessage,
    MessageAsked,
    ReceiveAsked,
    TakeAsked,
)
from albireo.codec.questions.orders import CANCEL, CancelAsked
from albireo.model.refusal import RefusalCode
from albireo.model.tree.proof import MessageProof

WAIT_S: Final = 20.0
"""Time for which one question waits for a message, or for the end of one."""
TAKE_S: Final = 30.0
"""Time for which the word that a message is taken is said again, if a takeover comes in between."""
MOVED_PAUSE_S: Final = 0.2

_Answer = TypeVar("_Answer")
_WaitingT = TypeVar("_WaitingT", BecomeAsked, ReceiveAsked)


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent."""

    node: str
    body: bytes
    kind: str
    reason: str
    expires_s: float
    inbox: str

    def asked(self, user: str, *, wait: bool) -> MessageAsked:
        """Arguments of the question `send`, with an id of its own."""
        return MessageAsked(
            node=self.node,
            body=self.body,
            kind=self.kind,
            reason=self.reason,
            user=user,
            command_id=str(uuid.uuid4()),
            expires_ms=milliseconds(self.expires_s),
            inbox=self.inbox,
            wait=wait,
        )


def send(message: OutgoingMessage, user: str) -> Conversation[MessageProof]:
    """Send a message, and wait for what becomes of it."""
    told = yield from asks(SEND, message.asked(user, wait=True), message.expires_s + GRACE_S)
    return understood(SEND.name, told, MessageProof)


def send_off(message: OutgoingMessage, user: str) -> Conversation[str]:
    """Send a message, and wait until it is on record where it is sent from; its id."""
    told = yield from asks(SEND, message.asked(user, wait=False))
    return understood(SEND.name, told, str)


def proof(command_id: str, timeout_s: float) -> Conversation[MessageProof | None]:
    """Tell what became of a message; None: it has no end in this time."""
    return _asked_on(MESSAGE, BecomeAsked(command_id=command_id), timeout_s)


def take_back(command_id: str, user: str) -> Conversation[MessageProof]:
    """Take a message back, and say what became of it."""
    return asks(CANCEL, CancelAsked(command_id=command_id, user=user), ACTION_S)


def receive(inbox: str, timeout_s: float | None) -> Conversation[InboxMessage | None]:
    """The next message of an inbox; None: none came in time."""
    return _asked_on(RECEIVE, ReceiveAsked(inbox=inbox), timeout_s)


def take(message: InboxMessage, reply: bytes | None) -> Conversation[None]:
    """Say that a message is taken, and answer it."""
    asked = TakeAsked(name=message.name, lease=message.lease, reply=reply)
    yield from asks(TAKE, asked, TAKE_S)


def give_back(message: InboxMessage) -> Conversation[None]:
    """Say that nothing was done with a message, so that another receiver has it."""
    asked = GiveBackAsked(name=message.name, lease=message.lease)
    yield from asks(GIVE_BACK, asked, TAKE_S)


def _asked_on(
    kind: QuestionKind[_WaitingT, _Answer | None], asked: _WaitingT, timeout_s: float | None
) -> Conversation[_Answer | None]:
    """Ask again until there is an answer, or the time is over."""
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = WAIT_S if ends is None else max(0.0, min(WAIT_S, ends - time.monotonic()))
        asked = msgspec.structs.replace(asked, wait_ms=round(left_s * 1000))
        answer = yield from _moved_on(kind, asked, left_s + GRACE_S, ends)
        if answer is not None or (ends is not None and time.monotonic() >= ends):
            return answer


def _moved_on(
    kind: QuestionKind[ShapeT, _Answer], asked: ShapeT, wait_s: float, ends: float | None
) -> Conversation[_Answer | None]:
    """Ask, and ask the member that leads now if it has changed; None: it went on changing until the time was over."""
    pause_s = 0.0
    while True:
        try:
            return (yield from asks(kind, asked, wait_s, pause_s=pause_s))
        except NodeRefused as error:
            if error.code != RefusalCode.MOVED:
                raise
            if ends is not None and time.monotonic() >= ends:
                return None
            pause_s = MOVED_PAUSE_S
