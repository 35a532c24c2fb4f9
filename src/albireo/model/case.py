"""Case: one alarm of one item, from its raising to its closing.

Spec: OPC UA Part 9, 5.5 to 5.8 (active, acked, latched, suppressed, out of service, shelved); ISA-18.2 alarm states.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.model.bounded import INT64_MAX, Count, Number32, Signed, Text
from albireo.model.item import Condition, name_parts
from albireo.model.typed_number import CHARS_MAX, shortened
from albireo.model.value import Value


class LifecycleStatus(StrEnum):
    """State of a DIM object: only an `updated` one is synchronised to other nodes as live."""

    NEW = "new"
    UPDATED = "updated"
    CLOSED = "closed"


class Shelving(StrEnum):
    """OPC UA Part 9, 5.8.17 (ShelvedStateMachine)."""

    UNSHELVED = "unshelved"
    TIMED = "timed"
    ONE_SHOT = "one_shot"


class Case(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # Holds no references back; 20,000 may be open.
    """State of one case; every change of it is a record of the stream `cases`."""

    case_id: Count
    """Sequence of the record that raised the case."""
    item_id: Number32
    condition: Condition
    severity: Annotated[int, Meta(ge=0, le=1_000)]
    lifecycle_status: LifecycleStatus = LifecycleStatus.NEW
    is_active: bool = True
    """True: the condition holds now, its delays over."""
    is_acked: bool = False
    is_latched: bool = False
    """True: an operator has to reset the case before it can close."""
    shelving: Shelving = Shelving.UNSHELVED
    unshelve_at: Signed | None = None
    """Log time (ns) at which a timed shelve ends."""
    is_suppressed: bool = False
    is_out_of_service: bool = False
    is_chattering: bool = False
    activations: Count = 1
    """Number of times that the case became active since it was raised."""
    raised_ns: Signed = 0
    """Wall time of the sample that raised the case."""
    changed_ns: Signed = 0
    """Wall time of the last transition."""
    value: Value | None = None
    """Value at the last activation."""
    actor: Text = ""
    """Operator who made the last transition of an operator."""
    comment: Text = ""
    is_unasked: bool = False
    """True: suppressed since it became active, so nobody was asked to acknowledge it."""
    message: Text = ""
    """Text of the node on the last activation, such as why an adapter is lost."""
    is_forced: bool = False
    """True: a value to which the item was forced made it active, or normal again, at the last such change."""


def case_label(case_id: int, activations: int) -> str:
    """Name of an activation of a case, as people read and type it: `12`, and `12.2` at its second activation."""
    return str(case_id) if activations <= 1 else f"{case_id}.{activations}"


def label_parts(label: str) -> tuple[int, int]:
    """Case id and activation of a label.

    Raises:
        ValueError: it is none.
    """
    case_id, dot, activation = label.partition(".")
    parts = (case_id, activation) if dot else (case_id, "1")
    if not all(one.isascii() and one.isdecimal() and len(one) < CHARS_MAX and int(one) <= INT64_MAX for one in parts):
        raise ValueError(f"{shortened(label)} is no case: write 12, or 12.2 for its second activation")
    return int(parts[0]), int(parts[1])


class Cause(StrEnum):
    """The transition that a record of a case tells of."""

    RAISED = "raised"
    ACTIVATED = "activated"
    """Active again while still open."""
    CLEARED = "cleared"
    """The condition is gone; with it a one-shot shelve ends."""
    SUPPRESSED = "suppressed"
    UNSUPPRESSED = "unsuppressed"
    CHATTERING = "chattering"
    CALMED = "calmed"
    SHELVE_ENDED = "shelve_ended"
    """The time of a timed shelve was over."""
    REDEFINED = "redefined"
    """Severity or latching of the rule was changed in the settings."""
    RETIRED = "retired"
    """Nobody declares the item any more: the case is closed as it stands."""
    ACKED = "acked"
    RESET = "reset"
    SHELVED = "shelved"
    UNSHELVED = "unshelved"
    TAKEN_OUT = "taken_out"
    PUT_BACK = "put_back"
    COMMENTED = "commented"


class Action(StrEnum):
    """Action of an operator on a case, or on a rule (item and condition) that has none."""

    ACK = "ack"
    ACK_ALL = "ack_all"
    RESET = "reset"
    """Ends the latch of a case that is inactive and acknowledged."""
    SHELVE = "shelve"
    """Shelves for `duration_ms`."""
    SHELVE_ONCE = "shelve_once"
    """Shelves until the case next clears, and no longer than the longest shelve."""
    UNSHELVE = "unshelve"
    OUT_OF_SERVICE = "out_of_service"
    IN_SERVICE = "in_service"
    COMMENT = "comment"


class ItemCase(Case, frozen=True, kw_only=True, gc=False):
    """A case, with the full name of its item."""

    item: str = ""

    @property
    def node(self) -> str:
        """Node that has the case; empty: its item is not known."""
        return name_parts(self.item)[0]
