"""Parts of the root machine: what hooks there are, empty by default. The root goes through a tuple of parts.

A part says nothing about a hook that it does not need: the root calls only those that some part has (`RootParts`).

Spec: ADR-0239.
"""

from collections.abc import Callable, Sequence

import msgspec

from albireo.codec.record import Record
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import Instant
from albireo.model.position import Position


class Footing(msgspec.Struct, frozen=True):
    """Where this node stands as a hook is called."""

    moment: Moment
    folded_to: Position
    is_serving: bool
    is_open: bool
    """True: the log takes records."""


Ear = Callable[[OneLetter, LettersDrained, Footing, Turn], bool]
"""Takes a letter; True: nobody behind it hears that letter."""


class RootPart:
    """A part of the root machine."""

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """A link is gone."""

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        """Records of this node's own were just folded, and nothing behind them."""

    def followed(self, now: Footing, turn: Turn) -> None:
        """All that is committed, drafted here or not, was just folded."""

    def serve(self, now: Footing, turn: Turn) -> None:
        """This node serves; called in every turn that drafts what follows from the committed state, before that."""

    def consequences(self, now: Footing, turn: Turn) -> None:
        """Draft what the committed state asks for next, while this node serves."""

    def tick(self, now: Footing, turn: Turn) -> None:
        """About a second has passed."""

    def time_passed(self, now: Footing, turn: Turn) -> None:
        """Time has passed."""

    def stand_by(self, turn: Turn) -> None:
        """This node has just stopped serving."""

    def deadline(self, folded_to: Position) -> Instant | None:
        """When `time_passed` is due."""
        return None


class RootParts:
    """The hooks of some parts, in the order of the parts; those that do nothing are left out."""

    def __init__(self, parts: Sequence[RootPart]) -> None:
        def has(part: RootPart, hook: str) -> bool:
            return getattr(type(part), hook) is not getattr(RootPart, hook)

        self.lost = [one.lost for one in parts if has(one, "lost")]
        self.folded = [one.folded for one in parts if has(one, "folded")]
        self.followed = [one.followed for one in parts if has(one, "followed")]
        self.serve = [one.serve for one in parts if has(one, "serve")]
        self.consequences = [one.consequences for one in parts if has(one, "consequences")]
        self.tick = [one.tick for one in parts if has(one, "tick")]
        self.time_passed = [one.time_passed for one in parts if has(one, "time_passed")]
        self.stand_by = [one.stand_by for one in parts if has(one, "stand_by")]
        self.deadline = [one.deadline for one in parts if has(one, "deadline")]
