"""Filling: what is lacking is asked for piece by piece; a hole ends only as far as the other member has told."""

import pytest

from albireo.codec.served import MessageColumns
from albireo.codec.topic_files import MessageHole, MessagesSent
from albireo.machine.topics import filling as module
from albireo.machine.topics.filling import AGAIN_NS, AskOther, HoleFilling, KeepPieces
from albireo.model.instant import Instant
from tests.parts.message_columns import Row, columns, rows_of

HOLE = MessageHole(11, 40, {1: 30})
NOW = Instant(0)


def sent(number: int, scanned_to: int, lacks_to: int = 0) -> MessagesSent:
    return MessagesSent(number=number, scanned_to=scanned_to, lacks_to=lacks_to)


def begun() -> HoleFilling:
    filling = HoleFilling()
    filling.holes((HOLE,), NOW)
    assert filling.ticked(NOW) == [AskOther(1, 10, 40)]
    assert filling.ticked(NOW) == [], "one question at a time"
    return filling


def kept(filling: HoleFilling, answer: MessagesSent, messages: MessageColumns | None) -> KeepPieces:
    (found,) = filling.heard(answer, messages, NOW)
    return found


def test_pieces_become_one_file_and_the_hole_ends_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    filling = begun()
    first, second = [(1, 1, 11, b"a"), (1, 2, 15, b"b")], [(1, 3, 30, b"c")]
    assert filling.heard(sent(1, 20), columns(first), NOW) == []
    assert filling.ticked(NOW) == [AskOther(2, 20, 40)]
    done = kept(filling, sent(2, 50), columns(second))
    assert (done.hole, done.up_to, done.is_given_up) == (HOLE, 40, False)
    assert [row for one in done.pieces for row in rows_of(one)] == first + second
    filling.holes((), NOW)
    filling.kept(NOW)
    assert filling.deadline() is None

    monkeypatch.setattr(module, "KEEP_BYTES", 1)
    filling = begun()
    assert kept(filling, sent(1, 20), columns(first)).up_to == 20, "enough for a file"


def test_what_the_other_member_lacks_too_is_given_up() -> None:
    filling = begun()
    assert filling.heard(sent(1, 20), columns([(1, 1, 11, b"a")]), NOW) == []
    filling.ticked(NOW)
    done = kept(filling, sent(2, 20, lacks_to=35), None)
    assert (done.up_to, done.is_given_up, len(done.pieces)) == (35, True, 1)


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        (sent(7, 20), [(1, 1, 11, b"")]),
        (sent(1, 10), []),
        (sent(1, 20), [(1, 1, 5, b"")]),
        (sent(1, 20), [(1, 1, 25, b"")]),
    ],
    ids=["another question's", "it is not that far", "before the hole", "behind what it says"],
)
def test_an_answer_that_makes_no_sense_is_as_none(answer: MessagesSent, rows: list[Row]) -> None:
    filling = begun()
    assert filling.heard(answer, columns(rows) if rows else None, NOW) == []
    assert filling.ticked(Instant(AGAIN_NS)) == [AskOther(2, 10, 40)]


def test_files_that_could_not_be_written_are_asked_for_anew() -> None:
    filling = begun()
    kept(filling, sent(1, 40), columns([(1, 1, 11, b"")]))
    assert filling.deadline() is None, "while files are written nothing is asked"
    filling.kept(NOW)
    assert filling.ticked(Instant(AGAIN_NS)) == [AskOther(2, 10, 40)]


def test_another_hole_begins_anew() -> None:
    filling = begun()
    filling.heard(sent(1, 20), columns([(1, 1, 11, b"")]), NOW)
    other = MessageHole(5, 9, {1: 3})
    filling.holes((other, HOLE), NOW)
    assert filling.ticked(NOW) == [AskOther(2, 4, 9)]
    assert filling.heard(sent(1, 30), None, NOW) == [], "what was asked of the one before"
