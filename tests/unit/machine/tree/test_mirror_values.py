"""What is shown of a value above is what its owner shows: a bad quality beside the last usable value, or none."""

from collections.abc import Sequence
from typing import Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from albireo.codec.message import decode, encode
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.state_piece import WHOLE, Changed, StateAsked, StatePiece, cut
from albireo.machine.tree.mirror import KeptState, NodeMirror
from albireo.model import quality as q
from albireo.model.instant import LogTime
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.position import Position
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.history import batch_of
from tests.parts.pieces import pieces_since

NODE: Final = "root/north"
ITEMS: Final = range(1, 9)
TYPES: Final = tuple(ValueType)
QUALITIES: Final = (q.GOOD, q.UNCERTAIN, q.BAD_NO_COMMUNICATION, q.BAD_SENSOR_FAILURE)
VALUES: Final[dict[ValueType, Sequence[Value]]] = {
    ValueType.FLOAT64: (0.0, 1.5),
    ValueType.INT64: (0, 2**62 + 1),
    ValueType.BOOL: (False, True),
    ValueType.STRING: ("", "auto"),
}


class Owner:
    """A node with its items, as a source of its state."""

    def __init__(self) -> None:
        self.dim = Dim()
        self.sequence = 0
        self.types: dict[int, ValueType] = {}
        for number in ITEMS:
            self.declare(number, TYPES[number % len(TYPES)])

    def declare(self, number: int, value_type: ValueType) -> None:
        self.sequence += 1
        self.types[number] = value_type
        item = DataItem(name=f"i{number}", value_type=value_type)
        self.dim.fold_item(KnownItem(item_id=ItemId(number), node=NODE, item=item), self.sequence)

    def measure(self, number: int, which: int, quality: int) -> None:
        """Fold one sample. The value of a bad one is never meant."""
        self.sequence += 1
        value_type = self.types[number]
        value = VALUES[value_type][which]
        batch = batch_of([(number, self.sequence, value, quality)], value_type, self.sequence)
        self.dim.fold_samples(batch, self.sequence, LogTime(self.sequence))

    @property
    def position(self) -> Position:
        return Position(1, self.sequence)

    def state_piece(self, asked: StateAsked) -> StatePiece | None:
        return cut(asked, Changed(asked.since, self.dim, ()))


def tell(source: Owner | NodeMirror, since: int, mirror: NodeMirror) -> int:
    """Tell all that changed, in small pieces and as bytes; returns the sequence that is shown then."""
    for piece in pieces_since(source, since, source.position, bytes_max=100):
        message, raw = decode(encode(piece.message, piece.raw))
        mirror.take(message, raw)  # type: ignore[arg-type]  # A piece of a state is one.
    return source.position.sequence


def readings(dim: Dim) -> list[Reading]:
    found = [dim.index_of(number) for number in ITEMS]
    return [dim.reading_at(one) for one in found if one is not None]


ITEM = st.sampled_from(ITEMS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("measure"), ITEM, st.integers(0, 1), st.sampled_from(QUALITIES)),
        st.tuples(st.just("declare"), ITEM, st.sampled_from(TYPES), st.just(0)),
        st.tuples(st.just("tell"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
@example([("measure", 1, 0, 0), ("tell", 0, 0, 0), ("declare", 1, ValueType.FLOAT64, 0), ("declare", 1, TYPES[1], 0)])
def test_every_level_shows_what_the_owner_shows(steps: list[tuple[str, int, int, int]]) -> None:
    """Changes are joined between two deltas, so a level may never have heard of a value that its owner shows."""
    owner, parent, root = Owner(), NodeMirror(NODE), NodeMirror(NODE)
    at_parent = at_root = WHOLE
    for what, number, which, quality in [*steps, ("tell", 0, 0, 0)]:
        match what:
            case "measure":
                owner.measure(number, which, quality)
            case "declare":
                owner.declare(number, ValueType(which))
            case _:
                at_parent = tell(owner, at_parent, parent)
                at_root = tell(parent, at_root, root)
                assert readings(parent.dim) == readings(root.dim) == readings(owner.dim)
    late = NodeMirror(NODE)
    tell(parent, WHOLE, late)
    assert readings(late.dim) == readings(owner.dim), "who comes later is told less"
    check_kept(owner, parent)


def check_kept(owner: Owner, mirror: NodeMirror) -> None:
    """A process that begins with what the mirror kept shows the same values."""
    after = NodeMirror(NODE, list(owner.dim))
    for one in mirror.kept(5):
        after.take_kept(msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=KeptState))
    assert [one.value for one in readings(after.dim)] == [one.value for one in readings(owner.dim)]


def test_a_last_value_and_none_look_different_under_one_quality() -> None:
    owner, mirror = Owner(), NodeMirror(NODE)
    for which, quality in ((1, q.GOOD), (0, q.BAD_NO_COMMUNICATION)):
        owner.measure(4, which, quality)
    owner.measure(8, 0, q.BAD_NO_COMMUNICATION)
    tell(owner, WHOLE, mirror)
    last, none = (mirror.dim.reading_at(mirror.dim.index_of(number)) for number in (4, 8))  # type: ignore[arg-type]
    assert (last.value, none.value) == (1.5, None)
    assert last.quality == none.quality == q.BAD_NO_COMMUNICATION
