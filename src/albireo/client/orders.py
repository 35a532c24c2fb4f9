"""Orders: what a client asks of orders that were given; the same for threads and for coroutines."""

import uuid
from typing import Any, Final, TypeVar

from albireo.client import requests
from albireo.client.conversation import Conversation, held, understood
from albireo.client.core import ClientCore
from albireo.client.questions import Request, milliseconds
from albireo.model.command import SELECT_MS, ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.proof import MessageProof
from albireo.model.value import Value

_Wanted = TypeVar("_Wanted")
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


def select(item: str, user: str, reason: str, for_s: float) -> Conversation[ItemSelection]:
    """Have an item for oneself for a moment."""
    arguments: dict[str, Any] = {
        "item": item,
        "selection_id": str(uuid.uuid4()),
        "for_ms": milliseconds(for_s),
        "user": user,
        "reason": reason,
    }
    reply = yield Request(what="select", arguments=arguments, wait_s=requests.ACTION_S)
    return understood("select", reply.result, ItemSelection)


def deselect(selection: ItemSelection, user: str, reason: str) -> Conversation[None]:
    """Give a selection back."""
    named = {"item": selection.item, "selection_id": selection.selection_id}
    yield Request(what="deselect", arguments={**named, "user": user, "reason": reason}, wait_s=requests.ACTION_S)


def end_selection(selection: ItemSelection, user: str, reason: str) -> Conversation[None]:
    """End a selection, also one of somebody else."""
    named = {"item": selection.item, "selection_id": selection.selection_id, "of_others": True}
    yield Request(what="deselect", arguments={**named, "user": user, "reason": reason}, wait_s=requests.ACTION_S)


class OrderingClient:
    """A connected client, as far as it asks and orders."""

    def __init__(self, core: ClientCore) -> None:
        """Use `connect`."""
        self._core = core

    def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        return held(conversation, self._core.begin)

    def write(
        self,
        item: str,
        value: Value,
        reason: str = "",
        *,
        expires_s: float = 10.0,
        selection: ItemSelection | None = None,
    ) -> Receipt:
        """Set an item, and say what became of it.

        Args:
            selection: What `select` returned, for an item whose `control` is `select`; the order uses it up.

        Raises:
            NodeRefused: the item is unknown or takes no orders; `AccessRefused`: our role does not suffice;
                `NotSelected`: the item has to be selected first, or the selection is over.
            OutcomeUnknown: no answer came, and nobody here knows whether the order was carried out.
        """
        return self.converse(requests.write(item, value, self._core.user, reason, expires_s, selection))

    def select(self, item: str, reason: str = "", *, for_s: float = SELECT_MS / 1000) -> ItemSelection:
        """Have an item for this client alone for a moment, to look at it and to write it next.

        It ends with the write that names it, with `deselect`, or after `for_s`, 300 s at most. Nothing is written.

        Raises:
            AlreadySelected: somebody has selected it; says who, and for how long still.
            NodeRefused: the item takes orders directly, or none.
            OutcomeUnknown: no answer came; what may be selected ends by itself.
        """
        return self.converse(select(item, self._core.user, reason, for_s))

    def deselect(self, selection: ItemSelection, reason: str = "") -> None:
        """Give a selection back. Raises NotSelected: it was over, or has been used."""
        self.converse(deselect(selection, self._core.user, reason))

    def selections(self, pattern: str = "*") -> list[ItemSelection]:
        """Selected items here and at the nodes that are known here, by name. `pattern`: only at nodes that it means."""
        return self.converse(requests.selections(pattern))

    def end_selection(self, selection: ItemSelection, reason: str = "") -> None:
        """End a selection of anybody, as an admin of the node that owns the item. Raises: as `write`."""
        self.converse(end_selection(selection, self._core.user, reason))

    def force(self, item: str, value: Value, reason: str, *, for_s: float) -> ForcedItem:
        """Put a value to an item in the place of what its device measures, for a time.

        Everybody sees it with the quality `Good_LocalOverride`; what is measured goes on as `<item>/measured`. Nothing
        is written to the device.

        Raises: as `write`.
        """
        return self.converse(requests.force(item, value, self._core.user, reason, for_s))

    def release(self, item: str, reason: str = "") -> None:
        """End the force of an item before its time; a moment later it shows what is measured.

        Raises: as `write`.
        """
        self.converse(requests.release(item, self._core.user, reason))

    def forces(self) -> list[ForcedItem]:
        """Forced items here and at the nodes below, with what is measured of each, by name."""
        return self.converse(requests.forces())

    def command(self, command_id: str) -> CommandCourse:
        """The life of one command. Raises NodeRefused: this node neither gave nor has it, or has forgotten it."""
        return self.converse(command(command_id))

    def cancel(self, command_id: str, reason: str = "") -> MessageProof:
        """Take an order back, or a message, and say what became of it: `cancelled` is a promise.

        An order to an item of the node itself is taken back until its adapter was told, one to another node until its
        owner has it.
        """
        return self.converse(cancel(command_id, self._core.user, reason))

    def commands(self, *, limit: int = LATEST) -> list[CommandCourse]:
        """The latest commands that this node gave, or carried out for others, the newest first."""
        return self.converse(commands(limit))
