"""Causes of outcomes: the list of IEC 61850, and the page that says which of them are said of what."""

import re
from pathlib import Path

import albireo
from albireo.model.tree.message import AddCause

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
