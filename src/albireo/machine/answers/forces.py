"""Answers about forced values: of items of this node, and of those of the nodes below."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from albireo.codec.pieces import InPieces
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.force.elsewhere import rows_below
from albireo.machine.orders.force.forcing import Forcing
from albireo.machine.orders.places import Places
from albireo.model.bounded import Name


class ForcesAsked(InPieces, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `forces`, besides those of a piece."""

    node: Name = ""
    """Node below whose forced items are meant; empty: this node."""


class ForcingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    forcing: Forcing


class ForceAnswers:
    """The part of the answers that is about forced values."""

    def __init__(self, root: ForcingRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.known: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
            "forces": (ForcesAsked, self._forces),
        }
        """Shape and handler of each question."""

    def _forces(self, question: Question, asked: ForcesAsked, turn: Turn) -> None:
        mirror = self._places.mirror(asked.node)
        if mirror is None:
            rows = self._root.forcing.rows(asked.after)
        else:
            rows = rows_below(mirror, asked.after, question.moment)
        turn.answer(question, asked.told(rows))
