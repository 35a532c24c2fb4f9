"""Gone or silent: each row of the table in machine/vote/paths.py, and what must not be mistaken for it."""

import pytest

from albireo.machine.vote.paths import LATE_NS, PROBE_EVERY_NS, PROBES_MAX, Paths, Probed
from albireo.model.instant import Instant

T0 = Instant(1_000)
REFUSED, ANSWERED, SILENT = Probed.REFUSED, Probed.ANSWERED, Probed.SILENT


def closed(count: int = 1) -> Paths:
    """All connections were there and ended."""
    paths = Paths(count)
    for is_up in (True, False):
        for path in range(count):
            paths.changed(path, is_up, T0)
    return paths


def look(paths: Paths, *results: Probed) -> bool:
    """Probe as often as it takes to be sure, with the same results each time."""
    assert not once(paths, *results)
    return once(paths, *results)


def once(paths: Paths, *results: Probed) -> bool:
    now = paths.deadline()
    assert now is not None
    number = paths.begin(now)
    assert number is not None
    return paths.probed(number, results, now)


@pytest.mark.parametrize(
    ("results", "is_gone"),
    [
        ((REFUSED,), True),
        ((ANSWERED,), False),
        ((SILENT,), False),
        ((REFUSED, REFUSED), True),
        ((REFUSED, SILENT), True),
        ((REFUSED, ANSWERED), False),
        ((SILENT, SILENT), False),
    ],
)
def test_only_a_refusal_that_nobody_contradicts_is_a_process_gone(results: tuple[Probed, ...], is_gone: bool) -> None:
    paths = closed(len(results))
    assert look(paths, *results) is is_gone
    assert (paths.gone_at == T0 + PROBE_EVERY_NS) is is_gone
    assert (paths.deadline() is None) is is_gone, "found out, or tried again"


def test_one_closed_path_of_two_asks_for_nothing() -> None:
    paths = Paths(2)
    paths.changed(0, True, T0)
    paths.changed(1, True, T0)
    paths.changed(0, False, T0)
    assert (paths.deadline(), paths.begin(T0), paths.connected) == (None, None, 1)


def test_an_endpoint_that_was_never_reached_is_a_wrong_address_and_no_dead_process() -> None:
    paths = Paths(1)
    paths.changed(0, False, T0)
    assert (paths.are_closed, paths.deadline()) == (False, None)


def test_a_path_that_never_came_up_does_not_hide_that_the_other_closed() -> None:
    paths = Paths(2)
    paths.changed(1, True, T0)
    paths.changed(1, False, T0)
    assert look(paths, SILENT, REFUSED)


def test_a_probe_that_came_too_early_is_repeated_and_not_for_ever() -> None:
    paths = closed()
    for number in range(PROBES_MAX):
        assert paths.deadline() == T0 + number * PROBE_EVERY_NS
        assert not once(paths, ANSWERED)
        assert paths.begin(T0) is None
    assert paths.deadline() is None


def test_a_listening_socket_that_is_made_anew_is_no_dead_process() -> None:
    paths = closed()
    assert [once(paths, one) for one in (REFUSED, ANSWERED, REFUSED)] == [False, False, False]
    assert once(paths, REFUSED), "twice in a row"


def test_a_probe_from_before_a_new_connection_says_nothing() -> None:
    paths = closed()
    number = paths.begin(T0)
    assert number is not None
    paths.changed(0, True, T0)
    assert not paths.probed(number, [REFUSED], T0)
    paths.changed(0, False, T0)
    assert not paths.probed(number, [REFUSED], T0), "that was the process before"
    assert look(paths, REFUSED)


def test_a_new_connection_takes_the_verdict_back() -> None:
    paths = closed()
    assert look(paths, REFUSED)
    paths.changed(0, True, T0)
    assert paths.gone_at is None


def test_who_has_to_be_later_than_the_voters_waits_for_one_refusal_more() -> None:
    paths = Paths(1, refusals_needed=3)
    paths.changed(0, True, T0)
    paths.changed(0, False, T0)
    assert [once(paths, REFUSED) for _ in range(3)] == [False, False, True]


def test_a_late_message_of_a_dead_process_makes_it_look_again_and_tell_again() -> None:
    paths = closed()
    assert look(paths, REFUSED)
    gone_at = paths.gone_at
    assert gone_at is not None
    paths.heard(Instant(gone_at + LATE_NS))
    assert look(paths, REFUSED)
    assert paths.gone_at == gone_at


def test_who_speaks_long_after_its_end_lives_and_refusals_are_believed_no_more() -> None:
    paths = closed()
    assert look(paths, REFUSED)
    assert paths.gone_at is not None
    paths.heard(Instant(paths.gone_at + LATE_NS + 1))
    assert paths.is_contradicted
    assert paths.deadline() is None
    paths.changed(0, False, T0)
    assert paths.deadline() is None
    paths.changed(0, True, T0)
    paths.changed(0, False, T0)
    assert look(paths, REFUSED), "it was up again: now this is a new sign"


def test_messages_of_a_connected_or_silent_process_ask_for_no_probe() -> None:
    paths = Paths(1)
    paths.changed(0, True, T0)
    paths.heard(T0)
    assert paths.deadline() is None
    silent = closed()
    assert not look(silent, SILENT)
    due = silent.deadline()
    silent.heard(T0)
    assert silent.deadline() == due
