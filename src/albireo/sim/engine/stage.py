"""Stage on which every part of one world stands: time, chance, verdict, trace, and whether faults come."""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from albireo.model.instant import MS, SECOND
from albireo.sim.engine.agenda import Agenda
from albireo.sim.engine.swarm import Mix

MixT = TypeVar("MixT", bound=Mix)


class Violation(Exception):
    """Raised when a world sees what must never happen; the message ends with seed and time."""


ENDS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that end a world badly without a violation: a machine met a case that its author had not thought of."""


def seen_in(play: Callable[[], object]) -> str:
    """Return how a play ended: a violation in its own words, another bad end with its kind; empty if it ended well."""
    try:
        play()
    except Violation as end:
        return str(end)
    except ENDS as end:
        return f"{type(end).__name__}: {end}"
    return ""


def first_caught(play: Callable[[int], object], seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed whose world ends badly, and what was seen; None if none of them does."""
    for seed in seeds:
        if seen := seen_in(partial(play, seed)):
            return seed, seen
    return None


class Stage(Generic[MixT]):
    """Stage of one seed's world."""

    def __init__(
        self, seed: int, swarm: MixT, chance: random.Random, agenda: Agenda, *, is_verbose: bool = False
    ) -> None:
        self.seed = seed
        self.swarm = swarm
        self.chance = chance
        self.agenda = agenda
        self.trace: list[str] = []
        self.has_faults = True
        self._is_verbose = is_verbose
        self._quiet_until = 0

    def fail(self, what: str) -> None:
        raise Violation(f"{what} (seed {self.seed}, at {self.agenda.at / SECOND - 1:.3f} s)")

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{self.agenda.at / SECOND - 1:8.4f} {who:8} {what}")

    def tell(self, who: str, what: str) -> None:
        """Note what only a reader of one seed wants to see."""
        if self._is_verbose:
            self.note(who, what)

    @property
    def is_shielded(self) -> bool:
        """True: a fault is under way that is covered as the only one."""
        return self.agenda.at < self._quiet_until

    def shield(self, for_ms: float) -> None:
        self._quiet_until = self.agenda.at + int(for_ms * MS)

    @property
    def is_quiet(self) -> bool:
        """True: a phase in which no producer offers anything, while members come and go."""
        loud_ns, quiet_ns = self.swarm.loud_ms * MS, self.swarm.quiet_ms * MS
        return self.has_faults and quiet_ns > 0 and self.agenda.at % (loud_ns + quiet_ns) >= loud_ns

    def end_faults(self) -> None:
        """Let no fault begin any more, and play until one that is covered as the only one is over."""
        self.has_faults = False
        self.agenda.play_until(max(self.agenda.at, self._quiet_until))


StageT = TypeVar("StageT", bound=Stage[Any])


@contextlib.contextmanager
def taken(shortcut: tuple[Any, str, Any]) -> Iterator[None]:
    """Let the product take a shortcut inside: a class or module, the name of a function of it, and what stands in."""
    owner, name, instead = shortcut
    before = owner.__dict__.get(name, getattr(owner, name))
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, before)
