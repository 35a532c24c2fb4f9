"""Tail: chunks of a log become numbered messages, also of a log that begins after messages were put."""

import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.puts import CursorMoved
from albireo.codec.topic_records import TopicDropped
from albireo.machine.topics.tables import TopicTables
from albireo.machine.topics.tail import MessageTail, count_chunk, read_chunk
from albireo.model.position import BEGINNING, Position
from tests.parts.topics_log import TopicsLog


def test_messages_of_several_topics_in_one_frame_have_their_own_numbers() -> None:
    log = TopicsLog()
    first, other = log.topic("a"), log.topic("b")
    log.put((first, [b"1", b"22"]), (other, [b""]), (first, [b"333"]))
    block = read_chunk(log.take(), TopicTables())
    assert block is not None and block.is_changing
    columns = block.messages
    assert columns.topic_id.tolist() == [first, first, other, first]
    assert columns.number.tolist() == [1, 2, 1, 3] and columns.sequence.tolist() == [3, 4, 5, 6]
    assert columns.bodies() == b"122333" and columns.between(1, 3).bodies() == b"22"
    assert (block.firsts, block.lasts, block.last) == ({first: 1, other: 1}, {first: 3, other: 1}, Position(1, 6))


def test_messages_to_a_topic_that_is_gone_are_nobodys() -> None:
    log = TopicsLog()
    gone, other = log.topic("a"), log.topic("b")
    log.state(TopicDropped(topic_id=gone))
    log.put((gone, [b"1"]), (other, [b"2"]))
    block = read_chunk(log.take(), TopicTables())
    assert block is not None and block.messages.bodies() == b"2" and block.firsts == {other: 1}


def test_a_log_that_begins_late_gives_the_numbers_and_tables_of_the_whole_one() -> None:
    log, whole = TopicsLog(), TopicTables()
    topic, gone = log.topic("a"), log.topic("gone")
    subscription = log.subscribe("s", "*")
    log.put((topic, [b"1", b"2"]))
    read_chunk(log.take(), whole)
    log.put((topic, [b"3"]), (gone, [b"x"]), moves=[CursorMoved(subscription, topic, 1)])
    log.state(TopicDropped(topic_id=gone))
    late = log.topic("late")
    log.put((late, [b"4"]), (topic, [b"5"]))
    told = log.take()
    read_chunk(told, whole)
    known_to, sections = log.end, whole.snapshot()
    log.put((topic, [b"6"]), moves=[CursorMoved(subscription, topic, 3)])
    later = log.take()
    expected = read_chunk(later, whole)

    counts: dict[int, int] = {}
    count_chunk(told + later, known_to, counts)
    assert counts == {topic: 2, gone: 1, late: 1}
    tables = TopicTables()
    tables.restore(sections)
    tables.set_back(counts)
    block = read_chunk(told + later, tables, known_to)
    assert block is not None and expected is not None
    assert block.messages.number.tolist() == [3, 1, 4, 5] and block.messages.bodies() == b"3456"
    assert expected.messages.number.tolist() == [5]
    assert [(one.name, one.count) for one in tables.topics] == [(one.name, one.count) for one in whole.topics]
    assert list(tables.cursors) == list(whole.cursors)
    assert tables.kept().floors == whole.kept().floors == {topic: 3, late: 0}


def test_a_tail_lets_go_what_is_in_files() -> None:
    log, tables, tail = TopicsLog(), TopicTables(), MessageTail(BEGINNING)
    topic = log.topic("a")
    for number in range(3):
        log.put((topic, [b"%d" % number]))
        block = read_chunk(log.take(), tables)
        assert block is not None
        tail.add(block)
    size_bytes = tail.size_bytes
    tail.let_go(Position(1, 3))
    assert (len(tail), tail.begin, tail.end) == (1, Position(1, 3), Position(1, 4))
    assert 0 < tail.size_bytes < size_bytes
    assert [one.messages.bodies() for one in tail.behind(0)] == [b"2"] and not tail.behind(4)


def test_a_damaged_chunk_is_an_error_and_no_frame_is_none() -> None:
    log = TopicsLog()
    log.topic("a")
    chunk = log.take()
    with pytest.raises(DecodeError):
        read_chunk(chunk[:-1], TopicTables())
    assert read_chunk(b"", TopicTables()) is None
