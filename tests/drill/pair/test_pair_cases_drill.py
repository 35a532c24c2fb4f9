"""Cases of a pair of real processes: what was lost for a moment stands until somebody acknowledges it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.model.case import case_label
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until

pytestmark = [pytest.mark.drill, pytest.mark.slow]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        made.start(*VOTERS, *MEMBERS)
        made.wait_for("joining", "joining")
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "the voters answer")
        made.acting()  # Whichever it is: a busy machine may have had a takeover already.
        yield made
    finally:
        made.end()


def standing(pair: Pair) -> dict[str, tuple[str, bool, bool]]:
    """(label, is active, is acknowledged) of the open cases of the pair, as the member says that leads; by item."""
    code, answer = pair.run("cases", "list", member=pair.acting())
    rows = [] if code else answer["cases"]
    return {
        one["item"].rpartition("/")[2]: (
            case_label(one["case_id"], one["activations"]),
            one["is_active"],
            one["is_acked"],
        )
        for one in rows
        if "pair/" in one["item"]
    }


def stands_over(pair: Pair, *cases: str) -> dict[str, tuple[str, bool, bool]]:
    """Wait until these have been raised and are over; they stand there all the same."""
    wanted = dict.fromkeys(cases, (False, False))

    def is_so() -> bool:
        return {one: row[1:] for one, row in standing(pair).items() if one in cases} == wanted

    until(is_so, lambda: f"{standing(pair)}, wanted {wanted}")
    return standing(pair)


def test_a_member_that_is_lost_and_back_at_once_leaves_cases_until_somebody_acknowledges(begun: Pair) -> None:
    def is_taken_over() -> bool:
        before = begun.acting()
        begun.kill(before)
        begun.start(before)
        return begun.acting() != before

    until(is_taken_over, lambda: f"{begun.states()}: no takeover")
    stood = stands_over(begun, "taken_over", "other_lost")
    for label, *_ in stood.values():
        assert begun.run("cases", "ack", label, member=begun.acting())[0] == 0
    until(lambda: not standing(begun), lambda: f"{standing(begun)}, wanted none")


def test_a_passive_member_that_is_killed_and_back_at_once_was_lost(begun: Pair) -> None:
    active = begun.acting()
    (passive,) = set(MEMBERS) - {active}
    begun.kill(passive)
    begun.start(passive)
    stood = stands_over(begun, "other_lost")
    assert "taken_over" not in stood


def test_a_voter_that_was_silent_for_a_moment_stands_as_a_case(begun: Pair) -> None:
    begun.kill("w1")
    until(lambda: "voters_silent" in standing(begun), lambda: f"{standing(begun)}")
    begun.start("w1")
    stands_over(begun, "voters_silent")


def test_orderly_changes_leave_no_cases(begun: Pair) -> None:
    begun.done("switchover", member=begun.acting())
    active = begun.acting()
    (passive,) = set(MEMBERS) - {active}
    for stopped in (passive, active):
        begun.done("stop", member=stopped)
        begun.wait_for_end(stopped)
        begun.start(stopped)
        begun.acting()
    assert not standing(begun)
