"""Names and patterns of topics, and cursors."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.model.topic import Cursor, TopicName, TopicPattern, matcher, prefix_of


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("plant.events", "plant.events", True),
        ("plant.events", "plant.event", False),
        ("plant.*", "plant.events", True),
        ("plant.*", "plant", False),
        ("plant.*", "plant.a.b", False),
        ("*.a", "plant.a", True),
        ("plant.>", "plant.a.b", True),
        ("plant.>", "plant", False),
        ("*.>", "a.b", True),
        (">", "a", True),
        (">", "a.b.c", True),
        ("*", "a.b", False),
    ],
)
def test_a_pattern_means_names_level_by_level(pattern: str, name: str, meant: bool) -> None:
    matches = matcher(["nothing", msgspec.convert(pattern, TopicPattern)])
    assert bool(matches.fullmatch(msgspec.convert(name, TopicName))) is meant
    assert not meant or name.startswith(prefix_of(pattern))


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a.*", ">", "a\n", "\x00", "a\x85b", "x" * 201, "a>b"])
def test_what_can_not_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, TopicName)


@pytest.mark.parametrize("pattern", ["", "a.>.b", ">.a", "a*", "*a", "a.**", ">>"])
def test_what_can_not_be_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(pattern, TopicPattern)


def test_names_have_any_characters() -> None:
    assert msgspec.convert("Türen.門 1", TopicName) == "Türen.門 1"


numbers = st.integers(0, 40)
ranges = st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple)


@given(st.lists(st.tuples(numbers, ranges), max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_a_cursor_is_the_set_of_what_is_done(
    moves: list[tuple[int, tuple[tuple[int, int], ...]]], low: int, count: int
) -> None:
    """It never takes anything back, and nothing above the last message is done."""
    low = min(low, count)
    cursor, done = Cursor(subscription_id=1, topic_id=2, low=low), set(range(1, low + 1))
    for to, more in moves:
        cursor = cursor.moved(to, more, count)
        done |= set(range(1, min(to, count) + 1)) | {one for first, last in more for one in range(first, last + 1)}
        done = {one for one in done if 0 < one <= count}
        assert (
            set(range(1, cursor.low + 1)) | {one for first, last in cursor.done for one in range(first, last + 1)}
            == done
        )
        assert cursor.low + 1 not in done and cursor.low + cursor.done_count == len(done)
        assert all(before[1] + 1 < after[0] for before, after in zip(cursor.done, cursor.done[1:], strict=False))
