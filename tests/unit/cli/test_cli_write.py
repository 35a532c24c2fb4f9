"""What a value on the command line means, by the type of the item."""

import pytest

from albireo.cli.node.write import parsed
from albireo.model.value import Value, ValueType


@pytest.mark.parametrize(
    ("text", "value_type", "value"),
    [
        ("12", ValueType.STRING, "12"),
        ("true", ValueType.STRING, "true"),
        ("12", ValueType.INT64, 12),
        ("12.5", ValueType.INT64, 12.5),
        ("12", ValueType.FLOAT64, 12),
        ("1e3", ValueType.FLOAT64, 1000.0),
        ("on", ValueType.BOOL, True),
        ("False", ValueType.BOOL, False),
        ("0", ValueType.BOOL, False),
        ("2", ValueType.BOOL, "2"),
        ("fast", ValueType.FLOAT64, "fast"),
    ],
)
def test_a_value_means_what_the_item_takes(text: str, value_type: ValueType, value: Value) -> None:
    found = parsed(text, value_type)
    assert (found, type(found)) == (value, type(value))
