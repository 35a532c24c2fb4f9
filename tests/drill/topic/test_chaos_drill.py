"""The drill `chaos`, for a short time: everything is killed, paused and cut off under topics, and nothing is lost."""

from pathlib import Path

import pytest

from albireo.drill.chaos.chaos import ChaosDrill
from tests.long_form import IS_LONG

pytestmark = [pytest.mark.drill, pytest.mark.slow]


def test_nothing_is_lost_doubled_or_out_of_order_whatever_is_done(tmp_path: Path) -> None:
    told: list[str] = []
    report = ChaosDrill(tmp_path / "pair", told.append, seed=1).run(300 if IS_LONG else 20)
    assert report.held, (report, told)
    assert sum(report.actions.values()) >= 3 and report.acked > 500 and report.operator > 3
