"""Log lines: held while logger is away, never in the way of the actor, never beyond their bounds."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.message import Logged, decode, encode
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.runtime.journal import (
    FIELD_CHARS_MAX,
    KEY_CHARS_MAX,
    KEYS_MAX,
    LINES_HELD_MAX,
    RATE_NS,
    Journal,
    plain,
    render_json,
    render_text,
)


class Desk:
    """A journal with a clock and a logger that the test turns on and off."""

    def __init__(self, level: str = "info") -> None:
        self.now = 0
        self.is_there = True
        self.lines: list[Logged] = []
        self.journal = Journal("core", self._take, lambda: WallTime(7), lambda: Instant(self.now), level)

    def _take(self, line: Logged) -> bool:
        if self.is_there:
            self.lines.append(line)
        return self.is_there

    def events(self) -> list[str]:
        return [line.event for line in self.lines]


def test_a_line_carries_event_and_fields() -> None:
    desk = Desk()
    desk.journal.info("lease_lost", peer="b", term=3)
    assert desk.lines == [
        Logged(at_ns=7, level="info", actor="core", event="lease_lost", fields={"peer": "b", "term": 3})
    ]


def test_levels_below_the_lowest_are_not_made() -> None:
    desk = Desk("warning")
    for write in (desk.journal.debug, desk.journal.info, desk.journal.warning, desk.journal.error):
        write(write.__name__)
    assert desk.events() == ["warning", "error"]


def test_lines_wait_for_logger_in_order() -> None:
    desk = Desk()
    desk.is_there = False
    desk.journal.info("first")
    desk.journal.info("second")
    assert desk.journal.is_holding
    desk.is_there = True
    desk.journal.info("third")
    desk.journal.flush()
    assert desk.events() == ["first", "second", "third"]
    assert not desk.journal.is_holding


def test_what_has_waited_too_long_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk()
    desk.is_there = False
    desk.journal.info("old")
    desk.now = 4900 * MS
    desk.journal.info("young")
    desk.journal.flush()
    assert capsys.readouterr().err == ""
    desk.now = 5 * SECOND
    desk.journal.flush()
    assert capsys.readouterr().err == "1970-01-01T00:00:00.000Z info    core old\n"
    desk.journal.flush(is_last=True)
    assert "young" in capsys.readouterr().err


def test_too_many_lines_cost_the_oldest_and_it_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk()
    desk.is_there = False
    for number in range(LINES_HELD_MAX + 500):
        desk.journal.info("line", number=number)
    assert desk.journal.dropped == 500
    assert capsys.readouterr().err.count("log_lines_dropped") == 1
    desk.is_there = True
    desk.journal.flush()
    assert desk.lines[0].fields == {"number": 500}


def test_a_limited_event_appears_once_per_key_and_counts_the_rest() -> None:
    desk = Desk()
    for _ in range(100):
        desk.journal.limited("message_malformed", "core", link="core")
    desk.journal.limited("message_malformed", "history", link="history")
    desk.now = 10 * SECOND
    desk.journal.limited("message_malformed", "core", link="core")
    assert [(line.fields["link"], line.fields["kept_back"]) for line in desk.lines] == [
        ("core", 0),
        ("history", 0),
        ("core", 99),
    ]


def test_keys_of_limited_events_do_not_pile_up() -> None:
    desk = Desk()
    for number in range(10_000):
        desk.journal.limited("message_malformed", f"{number} " + "x" * 10_000)
    known = desk.journal._kept_back
    assert len(known) <= KEYS_MAX + 1
    assert max(map(len, known)) < 2 * KEY_CHARS_MAX


def test_whoever_varies_the_key_is_limited_all_the_same() -> None:
    desk = Desk()
    for number in range(10_000):
        desk.journal.limited("message_malformed", str(number))
    assert len(desk.lines) == KEYS_MAX + 1
    desk.now += RATE_NS
    desk.journal.limited("message_malformed", "late")
    desk.journal.limited("peer_refused", "late")
    assert len(desk.lines) == KEYS_MAX + 3


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=5,
)


@given(ANYTHING)
def test_any_field_can_be_sent_and_written(value: object) -> None:
    line = Logged(at_ns=0, level="info", actor="a", event="e", fields={"value": plain(value)})
    message, _ = decode(encode(line))
    assert isinstance(message, Logged)
    assert "\n" not in render_text(message)
    text = render_json(message)
    assert "\n" not in text
    got = json.loads(text)["value"]
    if isinstance(value, float):
        assert got == value or not math.isfinite(value)


def test_long_fields_are_cut() -> None:
    assert len(str(plain("x" * 1_000_000))) <= FIELD_CHARS_MAX + 3
    assert len(str(plain(list(range(100_000))))) <= FIELD_CHARS_MAX + 3


@given(st.integers())
def test_any_time_is_rendered(at_ns: int) -> None:
    assert render_text(Logged(at_ns=at_ns, level="info", actor="a", event="e"))


def test_a_field_cannot_pose_as_the_envelope() -> None:
    line = Logged(at_ns=0, level="info", actor="core", event="e", fields={"actor": "boot", "at": "never"})
    assert json.loads(render_json(line)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "actor": "core",
        "event": "e",
    }
