"""States of an item through the text of a table, and through any text."""

from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.topology.item_table import read_rows
from albireo.codec.topology.mistakes import Findings
from albireo.codec.topology.text import table_text
from albireo.model.item_states import STATES_MAX, WORD_CHARS_MAX, ItemState, objection_to, states_of, states_text
from albireo.model.value import ValueType


def is_word(text: str) -> bool:
    try:
        ItemState(0, text)
    except ValueError:
        return False
    return True


VALUES = st.integers(-(2**53), 2**53)
SIGNS = st.characters(categories=("L", "N", "P", "S"), exclude_characters="=;<>") | st.just(" ")
WORDS = st.text(SIGNS, min_size=1, max_size=WORD_CHARS_MAX).map(str.strip).filter(is_word)
STATES = st.lists(
    st.builds(ItemState, VALUES, WORDS),
    max_size=STATES_MAX,
    unique_by=(lambda one: one.value, lambda one: one.word.casefold()),
).map(tuple)


@given(states=STATES)
def test_any_list_of_words_goes_through_the_text_of_a_table_and_back(states: tuple[ItemState, ...]) -> None:
    table = table_text([{"name": "door", "states": states_text(states)}])
    found = Findings("items.csv")
    row = read_rows(table, found)[0]
    assert not found.mistakes()
    assert states_of(row.cells.get("states", ""), ValueType.INT64) == states


@given(text=st.text(alphabet=st.sampled_from("01=;-ab <\x1b\u00a0 x."), max_size=60), kind=st.sampled_from(ValueType))
def test_any_text_is_states_that_can_be_or_refused_in_a_line(text: str, kind: ValueType) -> None:
    try:
        states = states_of(text, kind)
    except ValueError as refused:
        assert 0 < len(str(refused)) < 200 and "\n" not in str(refused)
    else:
        assert not objection_to(states, kind)
        assert states_of(states_text(states), kind) == states
