"""Times that a program gives: refused at once in a line, and the client goes on."""

import math
from typing import Any

import pytest

from albireo.client import connect
from albireo.client.questions import checked_s, milliseconds

WRONG: list[Any] = [math.nan, math.inf, -math.inf, 1e300, 10**400, "5", "1_5", None]


@pytest.mark.parametrize("seconds", WRONG)
def test_what_is_no_time_is_refused_in_a_line(seconds: Any) -> None:
    for read in (milliseconds, checked_s):
        with pytest.raises(ValueError, match="is no time in seconds") as refused:
            read(seconds)
        assert len(str(refused.value)) < 100


@pytest.mark.parametrize("seconds", WRONG[:-1])
def test_a_client_is_not_made_with_it(tmp_path: Any, seconds: Any) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(ValueError, match="is no time in seconds"):
        connect(tmp_path, timeout_s=seconds)
