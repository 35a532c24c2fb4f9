"""Texts for people."""

import pytest

from albireo.cli.view.screen import range_text
from albireo.model.item import DataItem, KnownItem
from albireo.model.value import ItemId, Value, ValueType, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (True, "true"), (0.1, "0.1"), (30.0, "30"), (-0.5, "-0.5"), (1234567.8, "1234567.8"),
        (1234567.9, "1234567.9"), (16777217.0, "16777217"), (1.0000001, "1.0000001"),
        (2**60 + 1, "1152921504606846977"), (1e300, "1e+300"), (float("nan"), "nan"), ("a.0", "a.0"),
    ],
)  # fmt: skip
def test_a_value_is_shown_with_all_digits_that_tell_it_from_another(value: Value | None, text: str) -> None:
    assert value_text(value) == text
    assert value_text(value, "kW") == (text if value is None or value is True else f"{text} kW")


def test_a_range_is_shown_with_all_its_digits() -> None:
    item = DataItem(name="a", value_type=ValueType.FLOAT64, unit="m3", minimum=-0.1, maximum=1234567.8)
    assert range_text(KnownItem(item_id=ItemId(1), node="root", item=item)) == "-0.1..1234567.8 m3"
