"""Errors of a client that gets no answer.

ClientError
  +- NodeUnreachable   nobody answered in time: the node is not there, or hangs
  +- NodeRefused       the node answered no, with the reason and the remedy
  +- QueueFull         earlier offers still wait; nothing was taken
"""


class ClientError(Exception):
    """Base of all errors of a client."""


class NodeUnreachable(ClientError):
    """No answer within the time given."""


class NodeRefused(ClientError):
    """The node said no."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


class QueueFull(ClientError):
    """A producer holds as much as it may; nothing of this offer was taken."""
