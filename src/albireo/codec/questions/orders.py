"""Questions by which items are ordered, forced and selected, and what became of each order."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.bounded import Name, Signed
from albireo.model.command import SELECT_MS, ItemSelection, Receipt
from albireo.model.force import ForcedItem
from albireo.model.order_text import OrderText
from albireo.model.tree.course import COURSES_MAX, CommandCourse
from albireo.model.tree.proof import MessageProof


class WriteAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `write`."""

    item: OrderText
    """Full or local name."""
    value: float | Signed | bool | OrderText
    command_id: Annotated[OrderText, Meta(min_length=1)]
    user: OrderText = "unknown"
    reason: OrderText = ""
    expires_ms: Signed = 10_000
    selection: OrderText = ""
    """Id of the selection that the order uses; empty: none."""


COMMANDS_TOLD: Final = 50
"""Commands that are told if nobody says how many."""


class CommandAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `command`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]


class CommandsAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `commands`."""

    limit: Annotated[int, Meta(ge=1, le=COURSES_MAX)] = COMMANDS_TOLD


class CancelAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `cancel`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]
    reason: OrderText = ""
    user: OrderText = "unknown"


class ItemForceAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `force`."""

    item: OrderText
    """Full or local name."""
    value: float | Signed | bool | OrderText
    for_ms: Signed
    reason: OrderText
    user: OrderText = "unknown"


class ReleaseAsked(Asked, frozen=True, kw_only=True):
    """Arguments of the question `force_release`."""

    item: OrderText
    reason: OrderText = ""
    user: OrderText = "unknown"


class ForcesAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `forces`, besides those of a piece."""

    node: Name = ""
    """Node below whose forced items are meant; empty: this node."""


class SelectAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `select`."""

    item: OrderText
    """Full or local name."""
    selection_id: Annotated[OrderText, Meta(min_length=1)]
    for_ms: Signed = SELECT_MS
    reason: OrderText = ""
    user: OrderText = "unknown"


class DeselectAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `deselect`."""

    item: OrderText
    selection_id: Annotated[OrderText, Meta(min_length=1)]
    of_others: bool = False
    """True: also one of somebody else, as an admin of its node."""
    reason: OrderText = ""
    user: OrderText = "unknown"


class SelectionsAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `selections`, besides those of a piece."""

    node: Name = ""
    """Node below whose selected items are meant; empty: this node."""


class ItemNamed(msgspec.Struct, frozen=True):
    """Answer of an order that leaves nothing behind."""

    item: str


WRITE: Final = QuestionKind(
    name="write",
    shape=WriteAsked,
    answer=Receipt,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="set an item",
    told="the receipt, once it is final; `selection`: id of the selection that it uses, of an item that asks for one",
    is_known_again=True,
    subject="item",
)
CANCEL: Final = QuestionKind(
    name="cancel",
    shape=CancelAsked,
    answer=MessageProof,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="take an order or a message back",
    told="the proof, once the order or message has an end, which may be another one than `cancelled`",
)
COMMAND: Final = QuestionKind(
    name="command",
    shape=CommandAsked,
    answer=CommandCourse,
    answerer=Answerer.CORE,
    meaning="what became of one command",
    told="the course of one command (docs/messages.md, *Courses*)",
    is_reading=True,
)
COMMANDS: Final = QuestionKind(
    name="commands",
    shape=CommandsAsked,
    answer=list[CommandCourse],
    answerer=Answerer.CORE,
    meaning="what became of the latest ones",
    told="the courses of the latest commands, the newest first; 1,000 at most",
    is_reading=True,
)
SELECT: Final = QuestionKind(
    name="select",
    shape=SelectAsked,
    answer=ItemSelection,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="have an item for oneself before writing it",
    told="the selection, once committed (docs/messages.md, Select before operate); of an item of a node below, once "
    "that has said so. The same id again is the same selection",
    is_known_again=True,
)
DESELECT: Final = QuestionKind(
    name="deselect",
    shape=DeselectAsked,
    answer=ItemNamed,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="give that back; one of somebody else needs admin at its node",
    told="the item, once it is committed that it is not selected any more; `of_others`: whoever has it, as an admin of "
    "its node",
)
SELECTIONS: Final = QuestionKind(
    name="selections",
    shape=SelectionsAsked,
    answer=list[ItemSelection],
    answerer=Answerer.CORE,
    meaning="which items are selected",
    told="selected items, of this node or of one below, each with who has it and what is left of its time",
    is_reading=True,
)
FORCE: Final = QuestionKind(
    name="force",
    shape=ItemForceAsked,
    answer=ForcedItem,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="put a value to an item",
    told="the force, once committed (docs/forces.md); of an item of a node below, once that has said so",
)
FORCE_RELEASE: Final = QuestionKind(
    name="force_release",
    shape=ReleaseAsked,
    answer=ItemNamed,
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="end that",
    told="the item, once it is committed that it is not forced any more",
)
FORCES: Final = QuestionKind(
    name="forces",
    shape=ForcesAsked,
    answer=list[ForcedItem],
    answerer=Answerer.CORE,
    meaning="which items are forced",
    told="forced items, of this node or of one below, each with what is measured of it and what is left of its time",
    is_reading=True,
)
KINDS: Final = (WRITE, CANCEL, COMMAND, COMMANDS, SELECT, DESELECT, SELECTIONS, FORCE, FORCE_RELEASE, FORCES)
