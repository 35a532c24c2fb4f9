"""What a mirror keeps of the cases of its node, and what it tells viewers of them."""

from typing import Final

import msgspec

from albireo.codec.message import FeedState
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.state_piece import PIECE_BYTES, StatePiece
from albireo.machine.table.shape import GONE_MAX
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.case import Case, LifecycleStatus
from albireo.model.item import Condition
from tests.parts.pieces import pieces_since
from tests.parts.tables import changes_of, told_rows

NODE: Final = "root/north"
CASE: Final = Case(case_id=1, item_id=1, condition=Condition.HI, severity=500)


def told(mirror: NodeMirror, *cases: Case, is_snapshot: bool = False) -> None:
    at = mirror.position
    tables = {"cases": told_rows(*cases)}
    mirror.take(FeedState(epoch=1, position=at, previous=at, tables=tables, is_snapshot=is_snapshot), [])


def case_of(number: int, *, is_open: bool) -> Case:
    status = LifecycleStatus.NEW if is_open else LifecycleStatus.CLOSED
    return msgspec.structs.replace(CASE, case_id=number, lifecycle_status=status)


def since(mirror: NodeMirror, change: int) -> list[StatePiece]:
    return pieces_since(mirror, change, mirror.position)


def numbers(pieces: list[StatePiece]) -> list[int]:
    return [one.case_id for piece in pieces for one in changes_of(piece).of(CASES).rows]


def test_closed_cases_are_forgotten_the_oldest_first_and_viewers_behind_them_take_the_whole_state() -> None:
    mirror = NodeMirror(NODE)
    told(mirror, case_of(7, is_open=True))
    changes = []
    for number in range(100, 100 + GONE_MAX + 3):
        told(mirror, case_of(number, is_open=True))
        told(mirror, case_of(number, is_open=False))
        changes.append(mirror.position.sequence)
    behind, level = since(mirror, changes[1]), since(mirror, changes[2])
    assert all(piece.message.is_snapshot for piece in behind)
    assert numbers(behind) == [7]
    assert not any(piece.message.is_snapshot for piece in level)
    assert numbers(level) == list(range(103, 100 + GONE_MAX + 3))


def test_a_mirror_does_not_grow_with_the_cases_that_were_closed() -> None:
    mirror = NodeMirror(NODE)
    for number in range(1, 3 * GONE_MAX, 10):
        told(mirror, *(case_of(number + one, is_open=True) for one in range(10)))
        told(mirror, *(case_of(number + one, is_open=False) for one in range(10)))
    table = mirror.table(CASES)
    assert len(list(table.last_words())) == len(table._changed) == GONE_MAX
    assert not len(table)


def test_a_case_that_is_told_closed_twice_is_kept_once_as_told_last() -> None:
    mirror = NodeMirror(NODE)
    told(mirror, case_of(5, is_open=False), case_of(6, is_open=False))
    begin = mirror.position.sequence
    told(mirror, case_of(5, is_open=False))
    assert numbers(since(mirror, begin)) == [5]
    assert [one.case_id for one in mirror.table(CASES).last_words()] == [6, 5]


def test_more_cases_closed_at_once_than_are_kept_are_told_by_the_whole_state() -> None:
    mirror = NodeMirror(NODE)
    told(mirror, *(case_of(number, is_open=True) for number in range(1, GONE_MAX + 10)))
    begin = mirror.position.sequence
    told(mirror, *(case_of(number, is_open=False) for number in range(1, GONE_MAX + 10)))
    (piece,) = since(mirror, begin)
    assert piece.message.is_snapshot
    assert numbers([piece]) == []
    assert since(mirror, mirror.position.sequence)[0].message.is_snapshot is False


def test_many_cases_go_in_pieces_each_once_by_their_numbers() -> None:
    mirror = NodeMirror(NODE)
    long = "x" * 300
    cases = [msgspec.structs.replace(case_of(number, is_open=True), comment=long) for number in range(1, 1_000)]
    told(mirror, *reversed(cases), is_snapshot=True)
    pieces = since(mirror, -1)
    assert len(pieces) > 3
    assert numbers(pieces) == list(range(1, 1_000))
    assert all(len(msgspec.msgpack.encode(piece.message)) < PIECE_BYTES + 1_000 for piece in pieces)
