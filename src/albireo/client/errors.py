"""Errors of a client. Each has a `remedy`: what a person can do about it, also the end of its text.

The error that a refusal becomes follows from its code, by the registry (model/refusal.py, docs/refusals.md).

ClientError
  +- ClientClosed        the client was closed, or its process has forked since: make another one
  +- ClientBusy          too many questions wait for their answers
  +- ArgumentRefused     what was given can't be said to a node: nothing was asked; a ValueError too
  +- TargetRefused       what was to be connected to is no node: no endpoint, no data directory, no keys
  +- NodeUnreachable     nobody answered in time: the node is not there, or hangs
  |    +- KeyNotTrusted    somebody is there, and one of the two keys is not trusted at the other end
  |    +- NotInTime        somebody is there, and the answer did not come in time: busy, stopped, starting, or far
  |    +- OutcomeUnknown   an order went out, and its answer did not come: nobody here knows whether it was done
  +- NodeRefused         the node answered no: its `code`, the reason and the remedy
  |    +- AccessRefused    the role of our key does not suffice
  |    +- SessionOver      somebody has ended our session: make another client
  |    +- CommandIdReused  the id of an order names another order already; nothing of this one is done
  |    +- NotSelected      an item that has to be selected first is not, or not by us
  |    +- AlreadySelected  somebody has selected the item
  |    +- QuestionUnknown  the node does not know the question: it is older than this client
  +- AnswerNotUnderstood the answer has another form than this version knows: the node is newer, or much older
  +- HistoryCutShort     a long answer ended before its end; says how far it came
  +- FileNotSent         a file can't be sent, or its receiver does not take it
  +- FileNotReceived     a file can't be kept in its receiver's directory: both ends hear why
  +- QueueFull           earlier offers still wait; nothing was taken
  +- NotDelivered        a producer was closed before everything it had taken was recorded
  +- NameTaken           another program has this producer's name; it is superseded, for good
  +- ProducerRefused     the node refuses this producer for good: an item is another's, a name can't be,
                          a table is full, or it was forgotten
"""

from datetime import UTC, datetime
from typing import Any, Final

from albireo.codec.message import FeedAnswer, Successor
from albireo.model.instant import SECOND
from albireo.model.refusal import REGISTRY, WHAT_TO_DO, Refusal, RefusalCode, kind_of_code


class ClientError(Exception):
    """Base of all errors of a client."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}{WHAT_TO_DO}{remedy}" if remedy else cause)
        self.cause = cause
        self.remedy = remedy


class ClientClosed(ClientError):
    """The client does nothing any more."""

    def __init__(self, why: str = "the client is closed") -> None:
        super().__init__(why, "connect anew, and use the client inside of its `with`")


class ClientBusy(ClientError):
    """Too many questions are open."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} questions wait for their answers", "wait for some of them, then ask again")


class ArgumentRefused(ClientError, ValueError):
    """An argument can't be said to a node. Nothing was asked, and nothing was done."""

    def __init__(self, what: object, error: Exception) -> None:
        remedy = "give plain values: text, bytes, true or false, floats, integers of 64 bits, lists and dicts of these"
        super().__init__(f"{what!r:.100} can't be asked so: {str(error) or type(error).__name__:.200}", remedy)


class FileNotSent(ClientError):
    """A file can't be sent, or its receiver does not take it."""


class FileNotReceived(ClientError):
    """A file can't be kept in the directory that its receiver named; its sender hears it, too."""

    def __init__(self, name: str, directory: object, size_bytes: int, error: OSError) -> None:
        cause = f"{name} ({size_bytes} bytes) can't be put into {directory}: {error.strerror or error}"
        super().__init__(cause, "make room there, or name a directory that takes files of such names and sizes")


class TargetRefused(ClientError):
    """There is nothing that could be connected to."""


class NodeUnreachable(ClientError):
    """No answer within the time given."""


class KeyNotTrusted(NodeUnreachable):
    """A key is not trusted, here or there; the remedy has the line that changes it."""


class NotInTime(NodeUnreachable):
    """Somebody is there, and no answer came in time; the same may be asked again, with more time."""

    def __init__(self, cause: str, remedy: str = "ask again, with more time; `albireo status -v` there tells") -> None:
        super().__init__(cause, remedy)


class OutcomeUnknown(NodeUnreachable):
    """An order may have been carried out, or not."""

    def __init__(self, what: str, cause: str, command_id: str = "", remedy: str = "") -> None:
        super().__init__(
            f"{what}: {cause}; nobody here knows whether it was done",
            remedy or "look at the item, the cases or the events of the node before you order again",
        )
        self.what = what
        self.command_id = command_id


class NodeRefused(ClientError):
    """The node said no."""

    def __init__(self, what: str, refusal: Refusal) -> None:
        self.what = what
        self.refusal = refusal
        self.reason = refusal.cause if refusal.code in REGISTRY else f"{refusal.cause} ({refusal.code})"
        """Cause as the node says it; of a newer version with its code, which nothing here knows."""
        super().__init__(f"{what}: {self.reason}", refusal.remedy)

    @property
    def code(self) -> str:
        """Word of docs/refusals.md, or of a newer version."""
        return self.refusal.code


class AccessRefused(NodeRefused):
    """The role of the key does not suffice."""


class SessionOver(NodeRefused):
    """Somebody has ended the session of this client; the next one that is made begins another."""


class CommandIdReused(NodeRefused):
    """An order, or a message, came under the id of another one, with another item, value, content or principal."""


class NotSelected(NodeRefused):
    """The item has to be selected before it is written, or the selection is over or somebody else's."""


class AlreadySelected(NodeRefused):
    """Somebody has selected the item; the text says who, and for how long still."""


class QuestionUnknown(NodeRefused):
    """The node does not know this question."""


class AnswerNotUnderstood(ClientError):
    """The answer has a form that this version does not know."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"the answer to {what!r} has a form that this version does not know: {reason}",
            "use the same version of albireo here and at the node",
        )
        self.what = what


class HistoryCutShort(ClientError):
    """A long answer ended early."""

    def __init__(self, why: ClientError, table: Any, cursor: str) -> None:
        super().__init__(
            f"the answer ended after {len(table)} rows: {why.cause}",
            "what came is in `table` of this error; the rest comes with the same question and its `cursor`",
        )
        self.table = table
        """Arrow table of what came."""
        self.cursor = cursor
        """Place where the answer goes on."""


class QueueFull(ClientError):
    """A producer holds as much as it may; nothing of this offer was taken."""


class NotDelivered(ClientError):
    """Batches that were offered are not known to be recorded; what was under way may still be."""

    def __init__(self, name: str, batches: int) -> None:
        super().__init__(
            f"producer {name!r} ended with {batches} batches that nobody acknowledged",
            "close later, or offer them again under the same name: some may be recorded twice then",
        )
        self.name = name
        self.batches = batches


class NameTaken(ClientError):
    """Another program has the producer's name since: this one is superseded and sends nothing any more.

    Batches that are not acknowledged may be recorded up to one of them.
    """

    def __init__(self, name: str, by: Successor) -> None:
        since = (
            f" since {datetime.fromtimestamp(by.since_ns // SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC" if by.since_ns else ""
        )
        super().__init__(
            f"producer {name!r} is superseded: life {by.producer_id} (run {by.run}) has the name{since}",
            "end this program, or give each of the two programs a name of its own and start both again",
        )
        self.name = name
        self.by = by


class ProducerRefused(ClientError):
    """The node refuses the producer for good, and nothing of it is recorded: to ask again would not help."""

    def __init__(self, name: str, refusal: Refusal) -> None:
        super().__init__(f"producer {name!r} is refused: {refusal.cause}", refusal.remedy)
        self.name = name
        self.refusal = refusal


_OF_REFUSALS: Final = {
    one.__name__: one
    for one in (
        NodeRefused,
        AccessRefused,
        SessionOver,
        CommandIdReused,
        NotSelected,
        AlreadySelected,
        QuestionUnknown,
    )
}


def refused(what: str, refusal: Refusal, command_id: str = "") -> ClientError:
    """The error that the refusal of a question means."""
    name = kind_of_code(refusal.code).error
    if name == OutcomeUnknown.__name__:
        return OutcomeUnknown(what, refusal.cause, command_id, refusal.remedy)
    return _OF_REFUSALS.get(name, NodeRefused)(what, refusal)


def session_over(what: str, answer: FeedAnswer) -> SessionOver | None:
    """The error of a follower whose session was ended; None: the answer says something else."""
    refusal = answer.refusal
    is_over = refusal is not None and refusal.code == RefusalCode.SESSION_OVER
    return SessionOver(what, refusal) if refusal is not None and is_over else None
