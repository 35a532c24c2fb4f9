"""Values of Hexabus endpoints as an adapter tells them: a FLOAT is of single precision, and stands for a decimal."""

import pytest

from albireo.codec.hexabus.values import HexType, decode_value, encode_value
from albireo.field.hexabus.adapter import _as_hex, _as_value


@pytest.mark.parametrize("value", [40.1, 21.3, -0.1, 0.0, 16_777_216.0])
def test_a_float_comes_back_as_the_decimal_that_was_written(value: float) -> None:
    wanted = _as_hex(HexType.FLOAT, value)
    assert _as_value(wanted) == value
    assert decode_value(HexType.FLOAT, encode_value(wanted), 0) == wanted


def test_a_float_is_what_the_endpoint_will_hold() -> None:
    assert _as_value(_as_hex(HexType.FLOAT, 0.123456789)) == 0.12345679
