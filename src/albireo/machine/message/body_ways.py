"""Body ways: which bodies are asked for next at their owner, and how much of each at once.

Large bodies take turns, a piece of one at a time on each way, so that no more is on it than half a second of the link
(piece_pace.py). Small ones, as those of orders, wait for none.

Spec: docs/messages.md; ADR-0267.
"""

from collections.abc import Mapping

import msgspec

from albireo.machine.message.events import LetterPace
from albireo.model.instant import Instant
from albireo.model.piece_pace import PiecePace
from albireo.model.tree.message import PIECE_BYTES, SMALL_BYTES, MessageName

WAYS_MAX = 1_000
"""Most ways of which it is remembered what they have shown."""


class Fetch(msgspec.Struct):
    """One body on its way."""

    size: int
    pace: LetterPace
    got: bytearray = msgspec.field(default_factory=bytearray)
    asked: dict[int, Instant] = {}
    """Instant at which each question for the next piece was asked, by nonce; none: its turn is to come."""
    tries: int = 0


class BodyWays:
    """The ways to one owner; lives as long as a tenure."""

    def __init__(self, node: str, kept_bytes_max: int) -> None:
        self._node = node
        self._paces: dict[str, PiecePace] = {}
        self._kept: dict[MessageName, bytearray] = {}
        """Pieces that had come of bodies whose fetch was given up."""
        self._kept_bytes_max = kept_bytes_max

    def pace(self, name: MessageName) -> PiecePace:
        """The pace of the way by which a body comes."""
        way = self._way_to(name)
        if way not in self._paces and len(self._paces) >= WAYS_MAX:
            del self._paces[next(iter(self._paces))]
        return self._paces.setdefault(way, PiecePace(SMALL_BYTES, PIECE_BYTES))

    def _way_to(self, name: MessageName) -> str:
        """The way that the bodies of an origin share: the link to the parent, or whatever leads to a node below."""
        return name.origin if name.origin.startswith(f"{self._node}/") else ""

    def in_turn(self, fetches: Mapping[MessageName, Fetch]) -> list[MessageName]:
        """Bodies that are to be asked for now: each small one, and on each way the large one that waits first."""
        large = {name for name, one in fetches.items() if one.size > SMALL_BYTES}
        taken = {self._way_to(name) for name in large if fetches[name].asked}
        found = []
        for name in [name for name, one in fetches.items() if not one.asked]:
            if name not in large or self._way_to(name) not in taken:
                found.append(name)
                taken |= {self._way_to(name)} if name in large else set()
        return found

    def put_aside(self, name: MessageName, got: bytearray) -> None:
        """Keep what had come of a body; its fetch goes on there once its name is told again."""
        if got:
            self._kept[name] = got
        while sum(map(len, self._kept.values())) > self._kept_bytes_max:
            del self._kept[next(iter(self._kept))]

    def taken_up(self, name: MessageName) -> bytearray:
        """Pieces that were kept of a body; they are kept no more."""
        return self._kept.pop(name, bytearray())
