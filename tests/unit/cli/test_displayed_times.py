"""Times as people read them: never later than they were, and never left out."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albireo.cli.display import clock_text, moment_text, time_text
from albireo.model.bounded import INT64_MAX
from albireo.model.instant import MS, SECOND
from albireo.runtime.journal import render_time

LAST_NS = 1_800_000_000 * SECOND - 1
"""A nanosecond before a full second: the nearest float is behind it."""


@given(st.integers(-INT64_MAX - 1, INT64_MAX))
@example(LAST_NS)
@example(0)
@example(-1)
def test_a_time_is_shown_to_the_millisecond_before_it(at_ns: int) -> None:
    shown = datetime.fromisoformat(f"{moment_text(at_ns)}+00:00")
    since = shown - datetime.fromtimestamp(0, UTC)
    shown_ms = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    assert shown_ms == at_ns // MS
    assert datetime.fromisoformat(render_time(at_ns)) == shown


@pytest.mark.parametrize("at_ns", [1, -1, LAST_NS])
def test_only_a_time_that_never_was_is_a_dash(at_ns: int) -> None:
    assert (time_text(0), clock_text(0)) == ("-", "-")
    assert time_text(at_ns) == moment_text(at_ns)
    assert clock_text(at_ns) == moment_text(at_ns)[11:19]
