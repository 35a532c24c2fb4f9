"""Answers about forced values: of items of this node, and of those of the nodes below."""

from typing import Protocol

from albireo.codec.questions.orders import FORCES, ForcesAsked
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.orders.force.elsewhere import rows_below
from albireo.machine.orders.force.forcing import Forcing
from albireo.machine.orders.places import Places


class ForcingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    forcing: Forcing


class ForceAnswers:
    """The part of the answers that is about forced values."""

    def __init__(self, root: ForcingRoot, places: Places) -> None:
        self._root = root
        self._places = places
        self.handlers = (handled(FORCES, self._forces),)

    def _forces(self, question: Question, asked: ForcesAsked, turn: Turn) -> None:
        mirror = self._places.mirror(asked.node)
        if mirror is None:
            rows = self._root.forcing.rows(asked.after)
        else:
            rows = rows_below(mirror, asked.after, question.moment)
        turn.answer(question, asked.told(rows))
