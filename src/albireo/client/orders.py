"""Orders: what a client orders, and what it asks about orders that were given."""

import uuid
from typing import Final

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, conversed
from albireo.client.nodes import listed_nodes, tree
from albireo.client.questions import milliseconds
from albireo.codec.questions.orders import (
    CANCEL,
    COMMAND,
    COMMANDS,
    COMMANDS_TOLD,
    DESELECT,
    FORCE,
    FORCE_RELEASE,
    FORCES,
    SELECT,
    SELECTIONS,
    WRITE,
    CancelAsked,
    CommandAsked,
    CommandsAsked,
    DeselectAsked,
    ForcesAsked,
    ItemForceAsked,
    ReleaseAsked,
    SelectAsked,
    SelectionsAsked,
    WriteAsked,
)
from albireo.model.command import SELECT_MS, ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.proof import MessageProof
from albireo.model.value import Value

ACTION_S: Final = 20.0
"""Longest time that an action which has to be committed may take, or until an owner has said whether it had begun."""
GRACE_S: Final = 5.0
"""The answer of a command or message that runs out comes this much later than its time at most."""


class OrderClient(AnyClient):
    """A client, as far as it orders."""

    @conversed
    def write(
        self,
        item: str,
        value: Value,
        reason: str = "",
        *,
        expires_s: float = 10.0,
        selection: ItemSelection | None = None,
    ) -> Conversation[Receipt]:
        """Set an item, and say what became of it.

        Args:
            selection: What `select` returned, for an item whose `control` is `select`; the order uses it up.

        Raises:
            NodeRefused: the item is unknown or takes no orders; `AccessRefused`: our role does not suffice;
                `NotSelected`: the item has to be selected first, or the selection is over.
            OutcomeUnknown: no answer came, and nobody here knows whether the order was carried out.
        """
        asked = WriteAsked(
            item=item,
            value=value,
            command_id=str(uuid.uuid4()),
            user=self.user,
            reason=reason,
            expires_ms=milliseconds(expires_s),
            selection="" if selection is None else selection.selection_id,
        )
        return asks(WRITE, asked, expires_s + GRACE_S)

    @conversed
    def select(self, item: str, reason: str = "", *, for_s: float = SELECT_MS / 1000) -> Conversation[ItemSelection]:
        """Have an item for this client alone for a moment, to look at it and to write it next.

        It ends with the write that names it, with `deselect`, or after `for_s`, 300 s at most. Nothing is written.

        Raises:
            AlreadySelected: somebody has selected it; says who, and for how long still.
            NodeRefused: the item takes orders directly, or none.
            OutcomeUnknown: no answer came; what may be selected ends by itself.
        """
        asked = SelectAsked(
            item=item,
            selection_id=str(uuid.uuid4()),
            for_ms=milliseconds(for_s),
            user=self.user,
            reason=reason,
        )
        return asks(SELECT, asked, ACTION_S)

    @conversed
    def deselect(self, selection: ItemSelection, reason: str = "") -> Conversation[None]:
        """Give a selection back. Raises NotSelected: it was over, or has been used."""
        return self._deselects(selection, reason, of_others=False)

    @conversed
    def end_selection(self, selection: ItemSelection, reason: str = "") -> Conversation[None]:
        """End a selection of anybody, as an admin of the node that owns the item. Raises: as `write`."""
        return self._deselects(selection, reason, of_others=True)

    def _deselects(self, selection: ItemSelection, reason: str, *, of_others: bool) -> Conversation[None]:
        asked = DeselectAsked(
            item=selection.item,
            selection_id=selection.selection_id,
            of_others=of_others,
            user=self.user,
            reason=reason,
        )
        yield from asks(DESELECT, asked, ACTION_S)

    @conversed
    def selections(self, pattern: str = "*") -> Conversation[list[ItemSelection]]:
        """Selected items here and at the nodes that are known here, by name. `pattern`: only at nodes that it means."""
        found: list[ItemSelection] = []
        for node in (yield from listed_nodes(pattern)):
            found += yield from all_rows(SELECTIONS, SelectionsAsked(node=node))
        return sorted(found, key=lambda one: one.item)

    @conversed
    def force(self, item: str, value: Value, reason: str, *, for_s: float) -> Conversation[ForcedItem]:
        """Put a value to an item in the place of what its device measures, for a time.

        Everybody sees it with the quality `GoodLocalOverride`; what is measured goes on as `<item>/measured`. Nothing
        is written to the device.

        Raises: as `write`.
        """
        asked = ItemForceAsked(item=item, value=value, for_ms=milliseconds(for_s), reason=reason, user=self.user)
        return asks(FORCE, asked, ACTION_S)

    @conversed
    def release(self, item: str, reason: str = "") -> Conversation[None]:
        """End the force of an item before its time; a moment later it shows what is measured.

        Raises: as `write`.
        """
        yield from asks(FORCE_RELEASE, ReleaseAsked(item=item, reason=reason, user=self.user), ACTION_S)

    @conversed
    def forces(self) -> Conversation[list[ForcedItem]]:
        """Forced items here and at the nodes below, with what is measured of each, by name."""
        found = yield from all_rows(FORCES, ForcesAsked())
        for row in (yield from tree()):
            found += yield from all_rows(FORCES, ForcesAsked(node=row.node))
        return sorted(found, key=lambda one: one.item)

    @conversed
    def command(self, command_id: str) -> Conversation[CommandCourse]:
        """The life of one command. Raises NodeRefused: this node neither gave nor has it, or has forgotten it."""
        return asks(COMMAND, CommandAsked(command_id=command_id))

    @conversed
    def commands(self, *, limit: int = COMMANDS_TOLD) -> Conversation[list[CommandCourse]]:
        """The latest commands that this node gave, or carried out for others, the newest first."""
        return asks(COMMANDS, CommandsAsked(limit=limit))

    @conversed
    def cancel(self, command_id: str, reason: str = "") -> Conversation[MessageProof]:
        """Take an order back, or a message, and say what became of it: `cancelled` is a promise.

        An order to an item of the node itself is taken back until its adapter was told, one to another node until its
        owner has it.
        """
        return asks(CANCEL, CancelAsked(command_id=command_id, user=self.user, reason=reason), ACTION_S)
