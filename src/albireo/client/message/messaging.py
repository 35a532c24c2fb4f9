"""Messages of programs, as a client for threads sends and receives them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, overload

from albireo.client.message import files, messages
from albireo.client.orders import OrderingClient
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof


class MessagingClient(OrderingClient):
    """A connected client, as far as it orders, and speaks with programs at other nodes."""

    @overload
    def send(
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
    def send(
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
    def send(
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
        """Send at most 512 KiB to the programs that receive at another node, and say what became of it.

        A receiver of that inbox there has to take it within `expires_s`; `kind` is a word that receivers go by.

        Args:
            wait: False: return its id once it is on record here; `message` tells what became of it. Raises: as `write`.
        """
        message = messages.OutgoingMessage(
            node=node, body=body, kind=kind, reason=reason, expires_s=expires_s, inbox=inbox
        )
        if wait:
            return self.converse(messages.send(message, self._core.user))
        return self.converse(messages.send_off(message, self._core.user))

    def message(self, command_id: str, *, timeout_s: float = 0.0) -> MessageProof | None:
        """Tell what became of a message, and the reply; None: it has no end after `timeout_s`."""
        return self.converse(messages.proof(command_id, timeout_s))

    def inbox(self, inbox: str = DEFAULT_INBOX, *, timeout_s: float | None = None) -> Iterator[InboxMessage]:
        """Messages to this node, each given to one of all clients that receive from this inbox here.

        It is this client's for 30 s, and then given to another one, unless `take` says in time that it is taken. Ends
        after `timeout_s` without a message; None: never.
        """
        while (found := self.converse(messages.receive(inbox, timeout_s))) is not None:
            yield found

    def take(self, message: InboxMessage, reply: bytes | None = None) -> None:
        """Say that a message is taken: its sender hears `executed`, and `reply`, of at most 16 KiB.

        Raises:
            NodeRefused: another one may have it.
        """
        self.converse(messages.take(message, reply))

    def give_back(self, message: InboxMessage) -> None:
        """Say that nothing was done with a message: another receiver gets it at once, this one not for 30 s.

        Raises:
            NodeRefused: another one may have it already.
        """
        self.converse(messages.give_back(message))

    def send_file(
        self,
        node: str,
        file: str | Path | bytes,
        *,
        name: str = "",
        inbox: str = DEFAULT_INBOX,
        reason: str = "",
        expires_s: float = 600.0,
        progress: files.Progress | None = None,
        transfer: str = "",
    ) -> MessageProof:
        """Send a file of at most 64 MiB to a program that calls `receive_file` at another node.

        Args:
            file: its path, or what is in it.
            name: its name there; empty: as here.
            progress: is called with the number of bytes that were taken so far, and of all.
            transfer: id of a transfer that did not end: what its receiver has is not sent again.
        Returns:
            `executed`: it is whole there, with the same sum.
        Raises:
            FileNotSent: it can't be sent, or is not taken there. And as `send`.
        """
        if isinstance(file, bytes):
            data = file
        else:
            with Path(file).open("rb") as opened:
                data = files.read_up_to_one_more(opened)
        named = name or ("" if isinstance(file, bytes) else Path(file).name)
        sent = files.OutgoingFile(
            node=node,
            name=named,
            data=data,
            inbox=inbox,
            reason=reason,
            expires_s=expires_s,
            transfer=transfer or files.new_transfer(),
        )
        return self.converse(files.send_file(sent, self._core.user, progress))

    def receive_file(self, message: InboxMessage, directory: str | Path) -> Path | None:
        """Take a message of kind `file`, and what belongs to it.

        Returns:
            Where the file is, whole and checked; None: not yet, or it was there before. Its sender announces it again.
        """
        return self.converse(files.receive_file(message, Path(directory)))
