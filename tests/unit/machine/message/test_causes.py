"""Causes of outcomes: the list of IEC 61850, and the page that says which of them are said of what."""

import re
from pathlib import Path

import pytest

import albireo
from albireo.machine.message.ends import end_of
from albireo.model.command import Outcome, Receipt
from albireo.model.tree.message import AddCause, MessageOutcome
from tests.parts.courses import course
from tests.parts.message_core import exchange
from tests.parts.post import SITE, TOP, tree, write

PAGE = Path(__file__).parents[4] / "docs" / "messages.md"
SOURCE = Path(albireo.__file__).parent
NUMBERS = {
    AddCause.UNKNOWN: 0,
    AddCause.NOT_SUPPORTED: 1,
    AddCause.SELECT_FAILED: 3,
    AddCause.BLOCKED_BY_PROCESS: 9,
    AddCause.COMMAND_ALREADY_IN_EXECUTION: 12,
    AddCause.ABORTION_BY_CANCEL: 15,
    AddCause.TIME_LIMIT_OVER: 16,
    AddCause.OBJECT_NOT_SELECTED: 18,
    AddCause.OBJECT_ALREADY_SELECTED: 19,
    AddCause.NO_ACCESS_AUTHORITY: 20,
    AddCause.ABORTION_DUE_TO_DEVIATION: 22,
    AddCause.ABORTION_BY_COMMUNICATION_LOSS: 23,
    AddCause.NONE: 25,
    AddCause.INCONSISTENT_PARAMETERS: 26,
    AddCause.LOCKED_BY_OTHER_CLIENT: 27,
}
"""Numbers of IEC 61850-7-2 (the first column of its AddCause), written down by themselves."""

USUAL = {
    Outcome.VERIFIED: AddCause.NONE,
    Outcome.EXECUTED: AddCause.NONE,
    Outcome.MISMATCHED: AddCause.ABORTION_DUE_TO_DEVIATION,
    Outcome.REJECTED: AddCause.BLOCKED_BY_PROCESS,
    Outcome.EXPIRED: AddCause.TIME_LIMIT_OVER,
    Outcome.UNKNOWN: AddCause.UNKNOWN,
}
"""Cause of each outcome whose receipt names none, as docs/messages.md has it."""


@pytest.mark.parametrize("outcome", [one for one in Outcome if one.is_final])
def test_both_ends_show_the_usual_cause_of_an_outcome_and_the_page_tells_it(outcome: Outcome) -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    cores[SITE].carried_out(outcome)
    exchange(cores)
    for key in (TOP, SITE):
        one = course(cores[key])
        assert (one.state, one.cause) == (outcome.value, USUAL[outcome].value)
    (told,) = re.findall(rf"^\| `{USUAL[outcome].value}` \| \d+ \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert outcome.value in told


@pytest.mark.parametrize("cause", AddCause)
def test_a_cause_that_a_receipt_names_stands_before_the_usual_one(cause: AddCause) -> None:
    is_cancel = cause is AddCause.ABORTION_BY_CANCEL
    wanted = MessageOutcome.CANCELLED if is_cancel else MessageOutcome.REJECTED
    receipt = Receipt(command_id="c1", outcome=Outcome.REJECTED, cause=cause.value)
    assert end_of(receipt) == (wanted, cause)


def test_a_cause_that_nobody_knows_is_the_usual_one() -> None:
    receipt = Receipt(command_id="c1", outcome=Outcome.EXPIRED, cause="too-late")
    assert end_of(receipt) == (MessageOutcome.EXPIRED, AddCause.TIME_LIMIT_OVER)


def test_the_words_stand_in_the_order_of_the_standard() -> None:
    listed = list(AddCause)
    assert len(listed) == 28
    assert {one: listed.index(one) for one in NUMBERS} == NUMBERS


def test_the_page_tells_each_cause_that_is_said_with_its_number() -> None:
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \|", PAGE.read_text(), re.MULTILINE))
    used = set()
    for room in ("machine", "codec", "model"):
        for path in (SOURCE / room).rglob("*.py"):
            used |= set(re.findall(r"AddCause\.([A-Z_0-9]+)\b", path.read_text()))
    listed = list(AddCause)
    assert rows == {AddCause[one].value: str(listed.index(AddCause[one])) for one in used}
