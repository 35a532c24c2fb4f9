"""States of an item: words for some values of a bool or a whole number, such as `0=open;1=closed`.

    states = state {";" state} [";"]
    state  = value "=" word

Values are read as those of the item's type (typed_number.py). Blanks around a value or a word are cut.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.model.typed_number import number_of, shortened, value_of
from albireo.model.value import EXACT, Value, ValueType

STATES_MAX: Final = 32
WORD_CHARS_MAX: Final = 24
STATED: Final = (ValueType.BOOL, ValueType.INT64)
"""Types of items that may have words."""


class ItemState(msgspec.Struct, frozen=True, gc=False):
    """One value of an item, and the word that people read in its place."""

    value: Annotated[int, Meta(ge=-int(EXACT), le=int(EXACT))]
    """As far as a browser tells numbers from each other; of a bool 0 or 1."""
    word: Annotated[str, Meta(min_length=1, max_length=WORD_CHARS_MAX)]

    def __post_init__(self) -> None:
        if abs(self.value) > EXACT:
            raise ValueError(f"{shortened(str(self.value))} is beyond 2**53, and can have no word")
        if cause := _no_word(self.word):
            raise ValueError(f"the word {shortened(self.word)} of {self.value} {cause}")


States = Annotated[tuple[ItemState, ...], Meta(max_length=STATES_MAX)]


def states_of(text: str, value_type: ValueType) -> tuple[ItemState, ...]:
    """The states that a text means for an item of this type.

    Raises:
        ValueError: it means none; the words say why, in one line.
    """
    found: list[ItemState] = []
    for part in text.rstrip("; ").split(";") if text.strip() else ():
        value, sign, word = part.partition("=")
        if not sign:
            raise ValueError(f"{shortened(part)} is no value with its word")
        found.append(ItemState(int(value_of(value, value_type)) if value_type in STATED else 0, word.strip()))
    if objection := objection_to(found, value_type):
        raise ValueError(objection)
    return tuple(found)


def states_text(states: Sequence[ItemState]) -> str:
    """The text that `states_of` reads."""
    return ";".join(f"{one.value}={one.word}" for one in states)


def objection_to(states: Sequence[ItemState], value_type: ValueType) -> str:
    """Why an item of this type can't have these states; empty: it can."""
    if states and value_type not in STATED:
        return "words at an item that is neither a bool nor a whole number"
    if len(states) > STATES_MAX:
        return f"{len(states)} words, at most {STATES_MAX} are allowed"
    values, words = [one.value for one in states], [one.word.casefold() for one in states]
    for value, word in zip(values, words, strict=True):
        if value_type is ValueType.BOOL and value not in (0, 1):
            return f"{value} has a word, and a bool is 0 or 1"
        if values.count(value) > 1:
            return f"{value} has two words"
        if words.count(word) > 1:
            return f"the word {word!r} stands for two values"
    return ""


def word_of(states: Sequence[ItemState], value: Value | None) -> str:
    """The word of a value; empty: it has none."""
    return next((one.word for one in states if one.value == value), "")


def word_in(text: str, value: str) -> str:
    """As `word_of`, out of a text of `states_text`; whatever the text is."""
    return next((word for one, _, word in (part.partition("=") for part in text.split(";")) if one == value), "")


def value_named(states: Sequence[ItemState], text: str, value_type: ValueType) -> Value:
    """The value that a person means by a word, or by the value itself. Raises: as `value_of`."""
    found = [one.value for one in states if one.word.casefold() == text.strip().casefold()]
    return value_of(str(found[0]) if found else text, value_type)


def _no_word(word: str) -> str:
    """Why a text is no word; empty: it is one."""
    if word != word.strip() or not word:
        return "has blanks around it" if word.strip() else "is empty"
    if len(word) > WORD_CHARS_MAX:
        return f"has {len(word)} characters, at most {WORD_CHARS_MAX} are allowed"
    if bad := next((one for one in word if not one.isprintable() or one in "=;<>"), ""):
        return f"holds {bad!r}"
    try:
        number_of(word)
    except ValueError:
        return "is what the bare value is shown as" if word.casefold() in ("true", "false") else ""
    return "is a number"
