"""Questions about messages of programs."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind
from albireo.model.access import AccessRole
from albireo.model.bounded import Count, Name, Signed
from albireo.model.order_text import OrderText
from albireo.model.tree.message import DEFAULT_INBOX, EXPIRES_MS_MAX, REPLY_BYTES_MAX, MessageName
from albireo.model.tree.proof import MessageProof

SEND_BYTES_MAX: Final = 512 * 1024
"""Largest body that a program sends: a question, of 1 MiB at most, has it whole."""


RECEIVE_MS_MAX: Final = 25_000
"""Longest time for which a receiver waits in one question: less than a lease lasts, so it is heard in between."""


InboxName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
"""Name of an inbox: a word of letters, digits, dots, dashes and underscores."""


class MessageAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `send`."""

    node: Annotated[Name, Meta(min_length=1)]
    """Id of the node, or of one that is known here the end of it."""
    body: Annotated[bytes, Meta(max_length=SEND_BYTES_MAX)]
    command_id: Annotated[OrderText, Meta(min_length=1)]
    kind: Annotated[Name, Meta(min_length=1)] = "message"
    """A word that receivers go by."""
    reason: OrderText = ""
    user: OrderText = "unknown"
    expires_ms: Annotated[int, Meta(ge=1, le=EXPIRES_MS_MAX)] = 10_000
    inbox: InboxName = DEFAULT_INBOX
    wait: bool = True
    """False: answer once it is on record here, with its id."""


class BecomeAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `message`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]
    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0


class ReceiveAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `receive`."""

    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0
    inbox: InboxName = DEFAULT_INBOX


class TakeAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `take`."""

    name: MessageName
    lease: Count
    reply: Annotated[bytes, Meta(max_length=REPLY_BYTES_MAX)] | None = None


class GiveBackAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `give_back`."""

    name: MessageName
    lease: Count


class WithdrawAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `withdraw`."""

    request_id: Signed


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a receiver has; `take` makes it its own, `give_back` another one's."""

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

    @property
    def inbox(self) -> str:
        """Inbox that it came to."""
        return self.name.inbox


SEND: Final[QuestionKind[MessageAsked, MessageProof | str]] = QuestionKind(
    name="send",
    shape=MessageAsked,
    answer=MessageProof | str,  # type: ignore[arg-type]  # There is no type of a union to mypy.
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="send a message to another node",
    told="the proof, once the message has an end (docs/messages.md); its id, if nobody waits",
    is_known_again=True,
)
MESSAGE: Final[QuestionKind[BecomeAsked, MessageProof | None]] = QuestionKind(
    name="message",
    shape=BecomeAsked,
    answer=MessageProof | None,  # type: ignore[arg-type]  # There is no type of a union to mypy.
    answerer=Answerer.CORE,
    role=AccessRole.OPERATE,
    meaning="what became of a message that was sent, and the reply",
    told="the proof, once the message has an end; null if it has none in time",
    is_reading=True,
)
RECEIVE: Final[QuestionKind[ReceiveAsked, InboxMessage | None]] = QuestionKind(
    name="receive",
    shape=ReceiveAsked,
    answer=InboxMessage | None,  # type: ignore[arg-type]  # There is no type of a union to mypy.
    answerer=Answerer.CORE,
    role=AccessRole.OPERATE,
    meaning="wait for a message of the inbox",
    told="a message of the inbox: `name`, `lease`, `kind`, `body`, `user`, `principal`, `reason`; null if none came in "
    "time",
    is_known_again=True,
)
TAKE: Final = QuestionKind(
    name="take",
    shape=TakeAsked,
    answer=bool,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="say that it is taken",
    told="true, once it is on record that the message is taken",
    is_known_again=True,
)
GIVE_BACK: Final = QuestionKind(
    name="give_back",
    shape=GiveBackAsked,
    answer=bool,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="say that nothing was done with it, so that another receiver has it",
    told="true: nothing was done with the message, and the next receiver has it",
    is_known_again=True,
)
WITHDRAW: Final = QuestionKind(
    name="withdraw",
    shape=WithdrawAsked,
    answer=bool,
    answerer=Answerer.CORE,
    meaning="say that nobody waits any more for the answer to an earlier question of this client",
    told="true: it waits no more, and a message that it was given goes to the next receiver at once",
    is_reading=True,
)
KINDS: Final = (SEND, MESSAGE, RECEIVE, TAKE, GIVE_BACK, WITHDRAW)
