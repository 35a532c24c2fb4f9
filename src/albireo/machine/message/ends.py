"""Ends of orders in the words of messages, and back.

An order that a message became has the message's name in its command id.
"""

from typing import Final

from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.model.command import Outcome, Receipt
from albireo.model.tree.message import AddCause, MessageName, MessageOutcome

PREFIX: Final = "message "
"""Beginning of the command id of each order that a message became."""


CAUSES: Final[dict[Outcome, AddCause]] = {
    Outcome.VERIFIED: AddCause.NONE,
    Outcome.EXECUTED: AddCause.NONE,
    Outcome.MISMATCHED: AddCause.ABORTION_DUE_TO_DEVIATION,
    Outcome.REJECTED: AddCause.BLOCKED_BY_PROCESS,
    Outcome.EXPIRED: AddCause.TIME_LIMIT_OVER,
    Outcome.UNKNOWN: AddCause.UNKNOWN,
}
"""Cause that is told of an order's outcome. ASSUMED for `rejected`: a receipt says in words why a device refused."""


_WORDS: Final = {one.value: one for one in AddCause}


def command_id_of(name: MessageName) -> str:
    """Command id of the order that a message becomes at its owner."""
    return f"{PREFIX}{name}"


def end_of(receipt: Receipt) -> tuple[MessageOutcome, AddCause]:
    """Outcome and cause of an order in the words of messages. A receipt has no outcome for what was taken back."""
    cause = _WORDS.get(receipt.cause, CAUSES[receipt.outcome])
    if receipt.outcome is Outcome.REJECTED and cause is AddCause.ABORTION_BY_CANCEL:
        return MessageOutcome.CANCELLED, cause
    return MessageOutcome(receipt.outcome.value), cause


_OUTCOMES: Final = {one: Outcome(one.value) for one in MessageOutcome if one is not MessageOutcome.CANCELLED} | {
    MessageOutcome.CANCELLED: Outcome.REJECTED
}
"""Outcome of an order by that of the message that carried it."""


def receipt_of(receipt: MessageReceipt) -> Receipt:
    """Receipt that an order has of the message that carried it."""
    end = receipt.end
    return Receipt(
        command_id=receipt.command_id,
        outcome=_OUTCOMES[end.outcome],
        detail=str(end.refusal),
        read_back=end.read_back,
        finished_ns=end.ended_ns,
        ack_guid=receipt.guid,
    )
