"""Files, as a client for threads sends and receives them: it reads and writes a disk meanwhile."""

from pathlib import Path

from albireo.client.conversed import ThreadClient
from albireo.client.message import files
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import DEFAULT_INBOX
from albireo.model.tree.proof import MessageProof


class FileClient(ThreadClient):
    """A client for threads, as far as it sends files."""

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
        return self.converse(files.send_file(sent, self.user, progress))

    def receive_file(self, message: InboxMessage, directory: str | Path) -> Path | None:
        """Take a message of kind `file`, and what belongs to it.

        Returns:
            Where the file is, whole and checked; None: not yet, or it was there before. Its sender announces it again.
        Raises:
            FileNotReceived: the directory does not take it; its sender has been told. And as `take`.
        """
        return self.converse(files.receive_file(message, Path(directory)))
