"""Messages of programs, as a client sends and receives them."""

from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from albireo.client.conversation import Conversation
from albireo.client.conversed import AnyClient, LoopClient, ThreadClient, conversed
from albireo.client.message import messages
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof

_ProofT = TypeVar("_ProofT", covariant=True)
_IdT = TypeVar("_IdT", covariant=True)


class _Options(TypedDict, total=False):
    inbox: str
    kind: str
    reason: str
    expires_s: float


class _Send(Protocol[_ProofT, _IdT]):
    """`send`, as a type checker sees it: its type follows from `wait`."""

    @overload
    def __call__(self, node: str, body: bytes, *, wait: Literal[False], **more: Unpack[_Options]) -> _IdT: ...
    @overload
    def __call__(self, node: str, body: bytes, *, wait: Literal[True] = ..., **more: Unpack[_Options]) -> _ProofT: ...


class _Sends(Protocol):
    """The same of both kinds of client."""

    @overload
    def __get__(self, client: ThreadClient, owner: type | None = ...) -> _Send[MessageProof, str]: ...
    @overload
    def __get__(
        self, client: LoopClient, owner: type | None = ...
    ) -> _Send[Coroutine[Any, Any, MessageProof], Coroutine[Any, Any, str]]: ...


class MessageClient(AnyClient):
    """A client, as far as it speaks with programs at other nodes."""

    @conversed
    def _send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = DEFAULT_INBOX,
        kind: str = "message",
        reason: str = "",
        expires_s: float = 10.0,
        wait: bool = True,
    ) -> Conversation[MessageProof | str]:
        """Send at most 512 KiB to the programs that receive at another node, and say what became of it.

        A receiver of that inbox there has to take it within `expires_s`; `kind` is a word that receivers go by.

        Args:
            wait: False: return an id once it is on record here; `message` tells what became of it.

        Raises: as `write`.
        """
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        return messages.send(message, self.user) if wait else messages.send_off(message, self.user)

    send: _Sends = cast(_Sends, _send)

    @conversed
    def message(self, command_id: str, *, timeout_s: float = 0.0) -> Conversation[MessageProof | None]:
        """Tell what became of a message, and the reply; None: it has no end after `timeout_s`."""
        return messages.proof(command_id, timeout_s)

    @conversed
    def take(self, message: InboxMessage, reply: bytes | None = None) -> Conversation[None]:
        """Say that a message is taken: its sender hears `executed`, and `reply`, of at most 16 KiB.

        Raises:
            NodeRefused: another one may have it.
        """
        return messages.take(message, reply)

    @conversed
    def give_back(self, message: InboxMessage) -> Conversation[None]:
        """Say that nothing was done with a message: another receiver gets it at once, this one not for 30 s.

        Raises:
            NodeRefused: another one may have it already.
        """
        return messages.give_back(message)
