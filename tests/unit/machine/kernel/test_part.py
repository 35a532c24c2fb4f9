"""Hooks of the parts of the root machine: each is called at the parts that have it, in their order."""

from albireo.machine.kernel.part import RootPart, RootParts
from albireo.machine.kernel.turn import Turn
from albireo.model.position import EpochEntry, EpochHistory
from tests.parts.drafted import view_of


class Silent(RootPart):
    """Needs no hook."""


class Noting(RootPart):
    def __init__(self, told: list[str], name: str) -> None:
        self._told, self._name = told, name

    def stand_by(self, turn: Turn) -> None:
        self._told.append(self._name)


def test_a_hook_is_called_at_those_that_have_it_in_the_order_of_the_parts() -> None:
    history = EpochHistory((EpochEntry(1, 1, 1),))
    turn = Turn(view_of([], history, history.position(0)))
    told: list[str] = []
    parts = RootParts((Noting(told, "first"), Silent(), Noting(told, "second")))
    for stand_by in parts.stand_by:
        stand_by(turn)
    assert told == ["first", "second"]
    assert [name for name, hooks in vars(parts).items() if hooks] == ["stand_by"]


def test_every_hook_of_a_part_is_one_that_the_root_goes_through() -> None:
    assert set(vars(RootParts(()))) == {name for name in vars(RootPart) if not name.startswith("_")}
