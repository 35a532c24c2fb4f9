"""`albireo cases`: the activation that was shown is the one that is acknowledged."""

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.cli.display import state_text
from albireo.cli.node.cases import CaseLabel
from albireo.model.case import Shelving, case_label, label_parts

NUMBERS = st.integers(1, 2**63 - 1)


@given(NUMBERS, NUMBERS)
def test_what_the_list_shows_names_its_activation_when_it_is_typed(case_id: int, activation: int) -> None:
    assert label_parts(case_label(case_id, activation)) == (case_id, activation)


@pytest.mark.parametrize("typed", ["", "12.", ".2", "12,2", "-12", "12.2.1", "²"])
def test_what_is_no_case_is_refused_with_the_form(typed: str) -> None:
    with pytest.raises(click.BadParameter, match=r"12\.2 for its second activation"):
        CaseLabel().convert(typed, None, None)


def test_a_rule_is_named_by_its_item_and_condition() -> None:
    meant = CaseLabel().convert("north:pair/at_risk/hi", None, None)
    assert (meant.node, meant.item, meant.condition) == ("north", "pair/at_risk", "hi")
    assert meant.label == "north:pair/at_risk/hi"
    with pytest.raises(click.BadParameter, match="conditions: hi_hi, hi"):
        CaseLabel().convert("north:co_1/high", None, None)


def test_a_case_that_nobody_was_asked_about_is_neither_acknowledged_nor_unacknowledged() -> None:
    case: dict[str, Any] = {
        "is_active": True,
        "is_acked": False,
        "is_unasked": True,
        "is_latched": False,
        "shelving": Shelving.UNSHELVED,
        "is_suppressed": True,
        "is_out_of_service": False,
        "is_chattering": False,
        "is_forced": False,
    }
    assert state_text(case) == "active unasked suppressed"
    forced = case | {"is_forced": True, "is_item_forced": True}
    assert state_text(forced) == "active unasked suppressed by a forced value (item forced)"
