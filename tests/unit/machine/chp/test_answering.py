"""Snapshots in pieces: their bounds, their turns, and numbers at the edges."""

from collections.abc import Sequence

import pytest

from albireo.codec.chp import KTHXBAI, KeyValue
from albireo.machine.chp.answering import ANSWERED_MAX, PATIENCE_NS, PAUSE_NS, PIECE_MAX, WAITING_MAX, Answering
from albireo.machine.chp.mirror import SEQUENCE_MAX, SEQUENCES_PER_RECORD, Mirror
from albireo.machine.chp.server import PUBLISHED_MAX, ChpServer, MirrorChanged, Publish
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.position import Position
from tests.parts.answering import known, reading


def filled(count: int, sequence: int = 1) -> Mirror:
    mirror = Mirror()
    numbers = range(1, count + 1)
    items, readings = [known(one, f"i{one}") for one in numbers], [reading(one) for one in numbers]
    mirror.change(items, readings, Position(1, sequence), is_whole=True)
    return mirror


@pytest.mark.parametrize("count", [0, 1, PIECE_MAX - 1, PIECE_MAX, PIECE_MAX + 1, 3 * PIECE_MAX])
def test_a_snapshot_of_any_size_has_each_key_once_and_one_end(count: int) -> None:
    answering, now = Answering(filled(count)), Instant(0)
    assert answering.ask(b"c", b"", now)
    told: list[KeyValue] = []
    while (due := answering.deadline(is_giving=True)) is not None:
        now = max(now, due)
        for piece in answering.give(now):
            assert len(piece.commands) <= PIECE_MAX
            told += piece.commands
            answering.taken(b"c", len(piece.commands), is_gone=False, now=now)
    assert [one.key for one in told].count(KTHXBAI) == 1
    assert told[-1].key == KTHXBAI
    assert len({one.key for one in told}) == len(told) == count + 1
    assert {one.sequence for one in told} == {SEQUENCES_PER_RECORD}, "the end's number is the highest of the KVSYNCs"
    assert answering.done == 1


def test_a_crowd_is_answered_in_turn_and_the_one_too_many_is_not_heard() -> None:
    answering = Answering(filled(3))
    heard = [answering.ask(str(one).encode(), b"", Instant(0)) for one in range(WAITING_MAX + 1)]
    assert heard == [True] * WAITING_MAX + [False]
    answered = set()
    now = Instant(0)
    for _ in range(2 * ANSWERED_MAX):  # Nobody of them takes anything.
        for piece in answering.give(now):
            answered.add(piece.client)
            answering.taken(piece.client, 0, is_gone=False, now=now)
    assert len(answered) == ANSWERED_MAX
    assert answering.deadline(is_giving=True) == PAUSE_NS, "nothing is due at once while there is no room"
    answering.give(Instant(PATIENCE_NS))
    assert answering.given_up == WAITING_MAX, "those who took nothing, and those whose turn did not come"
    assert answering.deadline(is_giving=True) is None


def test_a_whole_new_state_is_published_in_pieces_and_joined_meanwhile() -> None:
    server, count = ChpServer(), 3 * PUBLISHED_MAX
    items = [known(one, f"i{one}") for one in range(1, count + 1)]

    def change(value: float, sequence: int) -> list[int]:
        readings = [reading(one, value) for one in range(1, count + 1)]
        told = MirrorChanged(items=items, readings=readings, position=Position(1, sequence), is_whole=sequence == 1)
        return published(server.step(told, Instant(0)))

    def published(effects: Sequence[object]) -> list[int]:
        return [len(one.commands) for one in effects if isinstance(one, Publish) and one.commands[0].key != b"HUGZ"]

    assert change(1.0, 1) == []
    assert change(2.0, 2) == [PUBLISHED_MAX]
    assert change(3.0, 3) == [], "it is not due yet"
    sent: list[int] = []
    while len(sent) < 10 and (due := server.deadline()) is not None and due < SECOND:
        sent += published(server.step(TimePassed(), due))
    assert sent == [PUBLISHED_MAX] * 3


def test_numbers_stay_below_63_bit_and_rise_whatever_the_log_says() -> None:
    mirror = filled(2, sequence=2**63 - 1)
    assert mirror.sequence == SEQUENCE_MAX
    mirror.change([], [reading(1, 2.0), reading(2, 2.0)], Position(1, 5), is_whole=False)
    assert [one.sequence for one in mirror.publish(9)] == [SEQUENCE_MAX + 1, SEQUENCE_MAX + 2]


def test_items_without_a_key_of_their_own_are_left_out_and_counted() -> None:
    """`site:north/co` and `site/north:co` have one key; the first has it until it is gone."""
    mirror = filled(0)
    clash = [known(1, "north/co"), known(2, "co", "site/north")]
    mirror.change([*clash, known(3, "x", "n" * 300)], [reading(1, 1.0), reading(2, 2.0)], Position(), is_whole=False)
    assert ([one.key for one in mirror.publish(9)], mirror.left_out) == ([b"/site/north/co"], {2, 3})
    assert mirror.name_of(b"/site/north/co") == "site:north/co"


def test_a_renamed_item_takes_its_value_along_and_its_old_name_may_be_anothers_at_once() -> None:
    mirror = filled(0)
    mirror.change([known(1, "a")], [reading(1, 1.0)], Position(1, 1), is_whole=False)
    mirror.publish(9)
    mirror.change([known(2, "a"), known(1, "b")], [reading(2, 2.0)], Position(1, 2), is_whole=False)
    told = {one.key: one.value for one in mirror.publish(9)}
    assert (b'"value":2.0' in told[b"/site/a"], b'"value":1.0' in told[b"/site/b"]) == (True, True)
    assert mirror.left_out == set()
