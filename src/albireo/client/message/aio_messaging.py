"""Messages of programs, as a client for coroutines sends and receives them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal, TypeVar, overload

from albireo.client.conversation import Conversation
from albireo.client.core import ClientCore
from albireo.client.errors import ClientError
from albireo.client.message import messages
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof

_Wanted = TypeVar("_Wanted")


class AsyncMessagingClient:
    """A connected client, as far as it asks, and speaks with programs at other nodes."""

    def __init__(self, core: ClientCore) -> None:
        """Use `aconnect`."""
        self._core = core

    async def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        try:
            request = next(conversation)
            while True:
                if request.pause_s:
                    await asyncio.sleep(request.pause_s)
                try:
                    reply = await asyncio.wrap_future(self._core.begin(request))
                except ClientError as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(reply)
        except StopIteration as ended:
            wanted: _Wanted = ended.value
            return wanted

    @overload
    async def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = ...,
        kind: str = ...,
        reason: str = ...,
        expires_s: float = ...,
        wait: Literal[True] = ...,
    ) -> MessageProof: ...
    @overload
    async def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = ...,
        kind: str = ...,
        reason: str = ...,
        expires_s: float = ...,
        wait: Literal[False],
    ) -> str: ...
    async def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = DEFAULT_INBOX,
        kind: str = "message",
        reason: str = "",
        expires_s: float = 10.0,
        wait: bool = True,
    ) -> MessageProof | str:
        """Send something to the programs that receive at another node, as `Client.send` does."""
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        if wait:
            return await self.converse(messages.send(message, self._core.user))
        return await self.converse(messages.send_off(message, self._core.user))

    async def message(self, command_id: str, *, timeout_s: float = 0.0) -> MessageProof | None:
        """Tell what became of a message, as `Client.message` tells."""
        return await self.converse(messages.proof(command_id, timeout_s))

    async def inbox(self, inbox: str = DEFAULT_INBOX, *, timeout_s: float | None = None) -> AsyncIterator[InboxMessage]:
        """Messages to this node, as `Client.inbox` gives them."""
        while (found := await self.converse(messages.receive(inbox, timeout_s))) is not None:
            yield found

    async def take(self, message: InboxMessage, reply: bytes | None = None) -> None:
        """Say that a message is taken, as `Client.take` does."""
        await self.converse(messages.take(message, reply))

    async def give_back(self, message: InboxMessage) -> None:
        """Say that nothing was done with a message, as `Client.give_back` does."""
        await self.converse(messages.give_back(message))
