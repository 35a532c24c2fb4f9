"""Alarm settings of an item table that can't work, or hide what they should tell."""

import pytest

from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.offered import KnownKinds

TOPOLOGY = """
cluster = "7d0e5a4e-3a51-4a3f-9d3f-0d6a1d0b6a55"
[[node]]
id = "root"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://10.0.2.5:502"
  poll_ms = 500
  items = "p1.csv"
"""


def found(**cells: str) -> list[Mistake]:
    """Mistakes and warnings of a table with one row, a number unless `type` says otherwise."""
    row = {"name": "a", "kind": "holding", "address": "0", "type": "float32"} | cells
    table = f"{','.join(row)}\n{','.join(row.values())}\n"
    answer = load_topology("t.toml", {"t.toml": TOPOLOGY, "p1.csv": table}.__getitem__, KnownKinds())
    return list(answer.warnings) if isinstance(answer, LoadedTopology) else answer


@pytest.mark.parametrize("column", ["stale_s", "frozen_s"])
@pytest.mark.parametrize("seconds", ["0.001", "0.9"])
def test_time_that_polls_can_not_meet_is_a_mistake(column: str, seconds: str) -> None:
    (mistake,) = found(**{column: seconds})
    assert (mistake.key_path, mistake.line, mistake.is_warning) == (column, 2, False)
    assert "2 polls of 500 ms" in mistake.text and "1 or more" in mistake.remedy
    assert found(**{column: "1"}) == []


def test_item_that_suppresses_itself_is_a_mistake() -> None:
    (mistake,) = found(type="bool", off_normal="true", suppressed_by="a")
    assert (mistake.key_path, mistake.is_warning) == ("suppressed_by", False)
    assert "suppress itself" in mistake.text


@pytest.mark.parametrize("column", ["hysteresis", "dead_band"])
@pytest.mark.parametrize(
    "limits", [{"lo": "10", "hi": "20"}, {"lo_lo": "10", "hi_hi": "20"}, {"hi": "10", "hi_hi": "20"}]
)
def test_width_above_the_distance_of_the_limits_is_a_warning(column: str, limits: dict[str, str]) -> None:
    assert found(**limits, **{column: "10"}) == []
    (warning,) = found(**limits, **{column: "10.5"})
    assert (warning.key_path, warning.line, warning.is_warning) == (column, 2, True)
    assert "10.5 is wider than the 10 between its limits" in warning.text


def test_width_of_an_item_with_one_limit_is_no_warning() -> None:
    assert found(hi="10", hysteresis="50", dead_band="50") == []


def test_limit_that_no_float_holds_is_a_warning() -> None:
    (warning,) = found(type="int64", hi="9007199254740993")
    assert warning.is_warning and "2**53" in warning.text
    assert found(type="int64", hi="9007199254740991") == []
    assert found(type="float64", hi="1e300") == []


def test_unsigned_register_with_a_rate_may_be_a_counter_and_others_are_none() -> None:
    kinds = KnownKinds()
    judge = kinds["modbus"].judge
    assert judge is not None

    def range_of(**cells: str) -> float | None:
        judged = judge({"name": "a", "kind": "holding", "address": "0", **cells})
        assert not isinstance(judged, list)
        return judged.item.counter_range

    assert range_of(type="uint16", rate_per_s="5") == 65_536
    assert range_of(type="uint32", scale="0.1", rate_per_s="5") == pytest.approx(429_496_729.6)
    assert range_of(type="uint16", scale="-1", rate_per_s="5") == -65_536
    assert range_of(type="uint16", hi="5") is None
    assert range_of(type="int16", rate_per_s="5") is None
    assert range_of(type="float32", rate_per_s="5") is None


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("0=shut;0=open", "0 has two words"),
        ("0=<b>", "the word '<b>' of 0 holds '<'"),
        ("2=half", "'2' is neither true nor false"),
    ],
)
def test_words_that_can_not_be_are_named_by_line_and_column_with_a_remedy(cell: str, text: str) -> None:
    (mistake,) = found(type="bool", states=cell)
    assert (mistake.key_path, mistake.line, mistake.is_warning) == ("states", 2, False)
    assert text in mistake.text and "0=open;1=closed" in mistake.remedy
