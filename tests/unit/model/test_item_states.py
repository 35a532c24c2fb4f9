"""States of an item: what a text of them means, and what is refused."""

import msgspec
import pytest

from albireo.model.item import DataItem
from albireo.model.item_states import STATES_MAX, WORD_CHARS_MAX, ItemState, objection_to, states_of, value_named
from albireo.model.value import ValueType

BOOL, INT = ValueType.BOOL, ValueType.INT64
DOOR = (ItemState(0, "open"), ItemState(1, "closed"))


@pytest.mark.parametrize(
    ("text", "value_type", "states"),
    [
        ("", BOOL, ()),
        ("0=open;1=closed", BOOL, DOOR),
        ("false=open;true=closed", BOOL, DOOR),
        (" off = open ; on = closed ; ", BOOL, DOOR),
        ("1=closed", BOOL, DOOR[1:]),
        ("0=open;1=closed", INT, DOOR),
        ("0x10=Übergang läuft;-1=gestört", INT, (ItemState(16, "Übergang läuft"), ItemState(-1, "gestört"))),
        ("3=a b, c: d/e (f)", INT, (ItemState(3, "a b, c: d/e (f)"),)),
        (
            ";".join(f"{one}=w{one}" for one in range(STATES_MAX)),
            INT,
            tuple(ItemState(n, f"w{n}") for n in range(STATES_MAX)),
        ),
        ("1=" + WORD_CHARS_MAX * "w", INT, (ItemState(1, WORD_CHARS_MAX * "w"),)),
    ],
)
def test_a_text_means_these_states(text: str, value_type: ValueType, states: tuple[ItemState, ...]) -> None:
    assert states_of(text, value_type) == states


@pytest.mark.parametrize(
    ("text", "value_type", "cause"),
    [
        ("open", BOOL, "'open' is no value with its word"),
        ("0=open;;1=closed", BOOL, "'' is no value with its word"),
        ("0=open,1=closed", BOOL, "the word 'open,1=closed' of 0 holds '='"),
        ("2=half", BOOL, "'2' is neither true nor false"),
        ("1.5=half", INT, "'1.5' is no whole number"),
        ("9007199254740993=far", INT, "'9007199254740993' is beyond 2**53, and can have no word"),
        ("1=", INT, "the word '' of 1 is empty"),
        ("=closed", INT, "'' is no whole number"),
        ("1=" + (WORD_CHARS_MAX + 1) * "w", INT, "has 25 characters, at most 24 are allowed"),
        (";".join(f"{one}=w{one}" for one in range(STATES_MAX + 1)), INT, "33 words, at most 32 are allowed"),
        ("0=open;0=closed", BOOL, "0 has two words"),
        ("0=open;false=closed", BOOL, "0 has two words"),
        ("0=open;1=Open", BOOL, "the word 'open' stands for two values"),
        ("0=<b>open</b>", BOOL, "holds '<'"),
        ("0=op\x1b[31men", BOOL, "holds '\\x1b'"),
        ("0=op\nen", BOOL, "holds '\\n'"),
        ("0=op\u202een", BOOL, "holds '\\u202e'"),
        ("0=1", INT, "the word '1' of 0 is a number"),
        ("0=1.5", INT, "the word '1.5' of 0 is a number"),
        ("0=True", BOOL, "the word 'True' of 0 is what the bare value is shown as"),
        ("0=open", ValueType.FLOAT64, "words at an item that is neither a bool nor a whole number"),
        ("1.5=open", ValueType.FLOAT64, "words at an item that is neither a bool nor a whole number"),
        ("a=open", ValueType.STRING, "words at an item that is neither a bool nor a whole number"),
    ],
)
def test_a_text_that_means_none_is_refused_with_the_cause(text: str, value_type: ValueType, cause: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]{1,160}$") as refused:
        states_of(text, value_type)
    assert cause in str(refused.value)


@pytest.mark.parametrize(
    "states",
    [
        [{"value": 0, "word": ""}],
        [{"value": 0, "word": "w" * 41}],
        [{"value": 0, "word": "<script>"}],
        [{"value": 0.5, "word": "half"}],
        [{"value": 2**54, "word": "far"}],
        [{"value": 0, "word": "\x1b[2J"}],
        [{"value": one, "word": f"w{one}"} for one in range(STATES_MAX + 1)],
    ],
)
def test_what_a_peer_says_beyond_the_bounds_is_malformed(states: list[object]) -> None:
    said = msgspec.msgpack.encode({"name": "door", "value_type": 2, "states": states})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(said, type=DataItem)


@pytest.mark.parametrize(
    "states", [(ItemState(0, "off"), ItemState(2, "on")), (*DOOR, *DOOR), (ItemState(0, "a"), ItemState(1, "A"))]
)
def test_states_that_do_not_fit_a_bool_are_objected_to(states: tuple[ItemState, ...]) -> None:
    assert objection_to(states, BOOL) and not objection_to(DOOR, BOOL)


@pytest.mark.parametrize(
    ("text", "value"), [("closed", True), (" OPEN ", False), ("true", True), ("0", False), ("on", True)]
)
def test_a_person_names_a_value_by_its_word_or_as_it_is(text: str, value: bool) -> None:
    assert value_named(DOOR, text, BOOL) is value


def test_a_value_is_shown_with_its_word_and_without_one_as_it_is() -> None:
    door = DataItem(name="door", value_type=BOOL, states=DOOR)
    stage = DataItem(name="stage", value_type=INT, unit="steps", states=(ItemState(0, "off"),))
    assert [door.shown(one) for one in (True, False, None)] == ["closed (true)", "open (false)", "-"]
    assert [stage.shown(one) for one in (0, 3)] == ["off (0 steps)", "3 steps"]
