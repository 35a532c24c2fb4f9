"""Orders: what a client asks of orders that were given; the same for threads and for coroutines."""

from typing import Final

from albireo.client.conversation import Conversation, understood
from albireo.client.questions import Request
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.proof import MessageProof

CANCEL_S: Final = 20.0
"""Longest time that it may take until an owner has said whether it had begun."""
LATEST: Final = 50
"""Commands that are listed if nobody says how many."""


def command(command_id: str) -> Conversation[CommandCourse]:
    """The life of one command."""
    reply = yield Request(what="command", arguments={"command_id": command_id})
    return understood("command", reply.result, CommandCourse)


def commands(limit: int) -> Conversation[list[CommandCourse]]:
    """The latest commands, the newest first."""
    reply = yield Request(what="commands", arguments={"limit": limit})
    return understood("commands", reply.result, list[CommandCourse])


def cancel(command_id: str, user: str, reason: str) -> Conversation[MessageProof]:
    """Take an order or a message back."""
    arguments = {"command_id": command_id, "user": user, "reason": reason}
    reply = yield Request(what="cancel", arguments=arguments, wait_s=CANCEL_S)
    return understood("cancel", reply.result, MessageProof)
