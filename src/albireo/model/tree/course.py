"""Course of a command: the stages that it went through, each with its time and the node that says so."""

from typing import Final

import msgspec

from albireo.model.value import Value

COURSES_MAX: Final = 1_000
"""Most courses in one answer."""


class CommandStep(msgspec.Struct, frozen=True, kw_only=True):
    """One stage that a command reached."""

    stage: str
    at_ns: int
    """Wall time at `node`."""
    node: str


class CommandCourse(msgspec.Struct, frozen=True, kw_only=True):
    """The life cycle of one command, as the log of one node tells it."""

    command_id: str
    kind: str
    """`write`, another order that nodes carry out, or the inbox of programs that it was sent to."""
    subject: str
    """Words for people: what it is about."""
    way: tuple[str, ...]
    """Nodes from the one that it was given at to its owner; one node: it was given at its owner."""
    state: str
    """Stage that it has reached, or its outcome."""
    user: str = ""
    principal: str = ""
    reason: str = ""
    steps: tuple[CommandStep, ...] = ()
    """Stages whose time this node knows, in their order."""
    cause: str = ""
    """Cause of the outcome, in the words of AddCause; empty: there is no outcome yet."""
    detail: str = ""
    read_back: Value | None = None
    guid: str = ""
    """The proof: known to the node that it was given at, and to its owner from when it has the body."""
    is_settled: bool = True
    """False: `unknown`, and its owner is still asked."""
    left_ms: int | None = None
    """Time in which it may still be begun; None: it has an outcome, or its owner has it."""
