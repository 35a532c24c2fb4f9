"""States of an item: words for some values of a bool or a whole number, such as `0=open;1=closed`.

    states = state {";" state} [";"]
    state  = value "=" word

Values are read as those of the item's type (typed_number.py). Blanks around a value or a word are cut. A value without
a word is shown as it is.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.typed_number import number_of, shortened, value_of
from albireo.model.value import EXACT, Value, ValueType

STATES_MAX: Final = 32
WORD_CHARS_MAX: Final = 40
STATED: Final = (ValueType.BOOL, ValueType.INT64)
"""Types of items that may have words."""
NO_WORDS: Final = frozenset(("true", "false"))
"""Texts that a value without a word has; so have all numbers."""


class State(msgspec.Struct, frozen=True, gc=False):
    """One value of an item, and the word that people read in its place."""

    value: Annotated[int, Meta(ge=-int(EXACT), le=int(EXACT))]
    """As far as a browser tells numbers from each other; of a bool 0 or 1."""
    word: Annotated[str, Meta(min_length=1, max_length=WORD_CHARS_MAX)]

    def __post_init__(self) -> None:
        if abs(self.value) > EXACT:
            raise ValueError(f"{shortened(str(self.value))} is beyond 2**53, and can have no word")
        if cause := _no_word(self.word):
            raise ValueError(f"the word {shortened(self.word)} of {self.value} {cause}")


States = Annotated[tuple[State, ...], Meta(max_length=STATES_MAX)]


def states_of(text: str, value_type: ValueType) -> tuple[State, ...]:
    """The states that a text means for an item of this type.

    Raises:
        ValueError: it means none; the words say why, in one line.
    """
    parts = text.rstrip("; ").split(";") if text.strip() else []
    if not all("=" in one for one in parts):
        raise ValueError(f"{shortened(next(one for one in parts if '=' not in one))} is no value with its word")
    pairs = [one.split("=", 1) for one in parts]
    found = tuple(State(_key(value, value_type), word.strip()) for value, word in pairs)
    if objection := objection_to(found, value_type):
        raise ValueError(objection)
    return found


def states_text(states: Sequence[State]) -> str:
    """The text that `states_of` reads."""
    return ";".join(f"{one.value}={one.word}" for one in states)


def objection_to(states: Sequence[State], value_type: ValueType) -> str:
    """Why an item of this type can't have these states; empty: it can."""
    if not states:
        return ""
    if value_type not in STATED:
        return "words at an item that is neither a bool nor a whole number"
    if len(states) > STATES_MAX:
        return f"{len(states)} words, at most {STATES_MAX} are allowed"
    values, words = [one.value for one in states], [one.word.casefold() for one in states]
    for one, word in zip(states, words, strict=True):
        if value_type is ValueType.BOOL and one.value not in (0, 1):
            return f"{one.value} has a word, and a bool is 0 or 1"
        if values.count(one.value) > 1:
            return f"{one.value} has two words"
        if words.count(word) > 1:
            return f"the word {one.word!r} stands for two values"
    return ""


def word_of(states: Sequence[State], value: Value | None) -> str:
    """The word of a value; empty: it has none."""
    if isinstance(value, str) or value is None:
        return ""
    return next((one.word for one in states if one.value == value), "")


def value_named(states: Sequence[State], text: str, value_type: ValueType) -> Value:
    """The value that a person means by a word, or by the value itself. Raises: as `value_of`."""
    wanted = text.strip().casefold()
    for one in states:
        if one.word.casefold() == wanted:
            return bool(one.value) if value_type is ValueType.BOOL else one.value
    return value_of(text, value_type)


def _key(text: str, value_type: ValueType) -> int:
    if value_type not in STATED:
        return 0  # Whatever it is: such an item has none.
    return int(value_of(text, value_type))


def _no_word(word: str) -> str:
    """Why a text is no word; empty: it is one."""
    if not word or word != word.strip():
        return "is empty" if not word.strip() else "has blanks around it"
    if len(word) > WORD_CHARS_MAX:
        return f"has {len(word)} characters, at most {WORD_CHARS_MAX} are allowed"
    if bad := next((one for one in word if not one.isprintable() or one in "=;<>"), ""):
        return f"holds {bad!r}"
    try:
        number_of(word)
    except ValueError:
        return "is what the bare value is shown as" if word.casefold() in NO_WORDS else ""
    return "is a number"
