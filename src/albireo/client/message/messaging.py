"""Messages of programs, as a client sends and receives them."""

from albireo.client.conversation import Conversation
from albireo.client.conversed import AnyClient, conversed
from albireo.client.message import messages
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof


class MessageClient(AnyClient):
    """A client, as far as it speaks with programs at other nodes."""

    @conversed
    def send(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = DEFAULT_INBOX,
        kind: str = "message",
        reason: str = "",
        expires_s: float = 10.0,
    ) -> Conversation[MessageProof]:
        """Send at most 512 KiB to the programs that receive at another node, and say what became of it.

        A receiver of that inbox there has to take it within `expires_s`; `kind` is a word that receivers go by.

        Raises: as `write`.
        """
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        return messages.send(message, self.user)

    @conversed
    def send_off(
        self,
        node: str,
        body: bytes,
        *,
        inbox: str = DEFAULT_INBOX,
        kind: str = "message",
        reason: str = "",
        expires_s: float = 10.0,
    ) -> Conversation[str]:
        """Send as `send` does, and return an id once it is on record here; `message` tells what became of it."""
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        return messages.send_off(message, self.user)

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
