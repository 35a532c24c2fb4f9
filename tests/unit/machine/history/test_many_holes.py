"""Bounds of what a copying history takes from a source that tells of ever more holes."""

import msgspec

from albireo.codec.history import Hole
from albireo.codec.history_copy import GroupAsked, GroupSent
from albireo.machine.history.copy_events import AskPeer, EndHole, HolesKnown, PeerAnswered
from albireo.machine.history.copy_pace import FROM_BELOW
from albireo.machine.history.copying import HOLES_MAX, Copying
from albireo.model.instant import Instant
from albireo.model.position import Position

LACKS = 899
"""Parts that the source says it lacks, in each answer."""


def hole(first: int, last: int, gap: str = "") -> Hole:
    return Hole(first_sequence=first, last_sequence=last, from_ns=0, to_ns=10, behind=Position(1, last + 1), gap=gap)


def answered(holes: list[Hole]) -> list[Hole]:
    """Holes after one answer about the largest of them: of every second record the source says that it lacks it."""
    machine = Copying(1, msgspec.structs.replace(FROM_BELOW, node="root/north"))
    effects = machine.step(HolesKnown(tuple(holes), "ab"), Instant(0))
    (ask,) = [one.word for one in effects if isinstance(one, AskPeer) and isinstance(one.word, GroupAsked)]
    lacks = tuple(hole(ask.last_sequence - 2 * n, ask.last_sequence - 2 * n) for n in range(1, LACKS + 1))
    effects = machine.step(PeerAnswered(GroupSent(number=ask.number, holes=lacks), b""), Instant(0))
    ended = [one for one in effects if isinstance(one, EndHole)]
    left = [one for one in holes if not any(one.gap == each.hole.gap for each in ended)]
    left += [part for each in ended for part in each.left]
    return [msgspec.structs.replace(one, gap=str(number)) for number, one in enumerate(sorted(left, key=_size))]


def _size(one: Hole) -> int:
    return one.last_sequence - one.first_sequence


def test_a_source_can_not_cut_a_hole_into_parts_without_end() -> None:
    holes, counts = [hole(1, 10**9, "0")], []
    for _ in range(5):
        holes = answered(holes)
        counts.append(len(holes))
    assert LACKS < counts[0] <= counts[-1] <= HOLES_MAX, counts
