"""Errors of a client that gets no answer.

ClientError
  +- NodeUnreachable   nobody answered in time: the node is not there, or hangs
  +- NodeRefused       the node answered no, with the reason and the remedy
  +- QueueFull         earlier offers still wait; nothing was taken
  +- NameTaken         another program has this producer's name; it is superseded, for good
  +- ProducerRefused   the pair refuses this producer for good: an item is another's, a name can't be, a table is full,
                       or it was forgotten
"""

from datetime import UTC, datetime

from albireo.codec.message import Successor
from albireo.model.instant import SECOND


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


class NameTaken(ClientError):
    """Another program has the producer's name since: this one is superseded and sends nothing any more.

    Batches that are not acknowledged may be recorded up to one of them.
    """

    def __init__(self, name: str, by: Successor) -> None:
        since = (
            f" since {datetime.fromtimestamp(by.since_ns / SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC" if by.since_ns else ""
        )
        super().__init__(
            f"producer {name!r} is superseded: life {by.producer_id} (run {by.run}) has the name{since}; what to do: "
            "end this program, or give each of the two programs a name of its own and start both again"
        )
        self.name = name
        self.by = by


class ProducerRefused(ClientError):
    """The pair refuses the producer for good, and nothing of it is recorded: to ask again would not help."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"producer {name!r} is refused: {reason}")
        self.name = name
        self.reason = reason
