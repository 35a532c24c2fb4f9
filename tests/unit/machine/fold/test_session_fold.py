"""The fold of sessions: a table of states and records, snapshots, and any history against a dumb oracle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.record import SessionBegan, SessionEnded, SessionRoleChanged
from albireo.codec.slices import sliced
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.table.shape import GONE_MAX
from albireo.model.tree.session import Session
from tests.parts.tables import header_at

BEGAN = SessionBegan(principal="anna@desk", address="10.0.0.4", role="view", since_ns=5)
SESSION = Session(session_id=7, principal="anna@desk", address="10.0.0.4", role="view", since_ns=5)

Fact = SessionBegan | SessionRoleChanged | SessionEnded


def ended(session_id: int) -> SessionEnded:
    return SessionEnded(session_id=session_id, cause="link")


def role(session_id: int, word: str = "admin") -> SessionRoleChanged:
    return SessionRoleChanged(session_id=session_id, role=word)


def told_since(one: SessionFold, since: int) -> dict[int, str | None]:
    """Roles that a viewer is told, by session."""
    words = {number: one.table.word(number) for number in one.table.changed_since(since)}
    return {number: None if known is None else known.role for number, known in words.items()}


def restored(one: SessionFold) -> SessionFold:
    again = SessionFold()
    again.restore(one.table.snapshot())
    assert again.table.snapshot() == one.table.snapshot()
    return again


def in_state(state: str) -> SessionFold:
    one = SessionFold()
    if state != "absent":
        one.fold(BEGAN, 7, header_at())
    if state == "ended":
        one.fold(ended(7), 8, header_at())
    return one


@pytest.mark.parametrize(
    ("state", "record", "roles", "told"),
    [
        ("absent", BEGAN, ["view"], {9: "view"}),
        ("absent", role(7), [], {}),
        ("absent", ended(7), [], {}),
        ("present", BEGAN, ["view", "view"], {9: "view"}),
        ("present", role(7), ["admin"], {7: "admin"}),
        ("present", ended(7), [], {7: None}),
        ("ended", BEGAN, ["view"], {9: "view"}),
        ("ended", role(7), [], {}),
        ("ended", ended(7), [], {}),
    ],
)
def test_each_record_in_each_state(state: str, record: Fact, roles: list[str], told: dict[int, str | None]) -> None:
    one = in_state(state)
    one.fold(record, 9, header_at())
    assert [each.role for each in one] == roles
    assert told_since(one, 8) == told


def test_a_session_is_named_by_its_record_and_found_by_it() -> None:
    one = in_state("present")
    assert (one.find(7), one.find(8), len(one)) == (SESSION, None, 1)


def test_a_viewer_is_told_of_what_it_lacks_and_of_no_more() -> None:
    one = in_state("ended")
    one.fold(BEGAN, 9, header_at())
    assert told_since(one, -1) == {9: "view"}
    assert told_since(one, 6) == {7: None, 9: "view"}
    assert told_since(one, 8) == {9: "view"}
    assert told_since(one, 9) == {}


def test_ended_sessions_are_forgotten_the_oldest_first() -> None:
    one = SessionFold()
    for number in range(1, 2 * GONE_MAX + 6, 2):
        one.fold(BEGAN, number, header_at())
        one.fold(ended(number), number + 1, header_at())
    assert one.table.forgotten_at == 6
    assert len(told_since(one, 0)) == GONE_MAX


@pytest.mark.parametrize(
    "section",
    [
        b"\0",
        sliced(None),
        sliced([[1], [], [], 0]),
        sliced([[], [1], [], 0]),
        sliced([[1], [], [], 0]) + sliced([None]),
        sliced([[], [], [], 0]) + sliced([SESSION]),
    ],
)
def test_a_section_that_is_none_is_told(section: bytes) -> None:
    with pytest.raises(DecodeError):
        SessionFold().restore(section)


steps = st.lists(st.tuples(st.sampled_from(["began", "role", "ended"]), st.integers(1, 12), st.booleans()), max_size=40)


@given(steps, st.integers(-1, 40))
@settings(max_examples=200, deadline=None)
def test_any_history_leaves_what_a_plain_table_has_however_often_it_is_restored(
    story: list[tuple[str, int, bool]], since: int
) -> None:
    one = SessionFold()
    plain: dict[int, str] = {}
    at: dict[int, int] = {}
    for sequence, (what, number, is_restored) in enumerate(story, 1):
        if what == "began":
            one.fold(BEGAN, sequence, header_at())
            plain[sequence], at[sequence] = "view", sequence
        elif what == "role":
            one.fold(role(number, f"r{sequence}"), sequence, header_at())
            if number in plain:
                plain[number], at[number] = f"r{sequence}", sequence
        else:
            one.fold(ended(number), sequence, header_at())
            if plain.pop(number, None) is not None:
                at[number] = sequence
        if is_restored:
            one = restored(one)
    assert {each.session_id: each.role for each in one} == plain
    wanted = {number: plain.get(number) for number, place in at.items() if place > since}
    assert told_since(one, since) == (
        {number: word for number, word in wanted.items() if word} if since < 0 else wanted
    )
