"""The fold of sessions: a table of states and records, snapshots, and any history against a dumb oracle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.record import SessionBegan, SessionEnded, SessionRoleChanged
from albireo.machine.fold.people.sessions import ENDED_KEPT, SessionFact, SessionFold
from albireo.model.tree.session import Session

BEGAN = SessionBegan(principal="anna@desk", address="10.0.0.4", role="view", since_ns=5)
SESSION = Session(session_id=7, principal="anna@desk", address="10.0.0.4", role="view", since_ns=5)


def ended(session_id: int) -> SessionEnded:
    return SessionEnded(session_id=session_id, cause="link")


def role(session_id: int, word: str = "admin") -> SessionRoleChanged:
    return SessionRoleChanged(session_id=session_id, role=word)


def in_state(state: str) -> SessionFold:
    one = SessionFold()
    if state != "absent":
        one.fold(BEGAN, 7)
    if state == "ended":
        one.fold(ended(7), 8)
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
def test_each_record_in_each_state(
    state: str, record: SessionFact, roles: list[str], told: dict[int, str | None]
) -> None:
    one = in_state(state)
    one.fold(record, 9)
    assert [each.role for each in one] == roles
    assert {number: each and each.role for number, each in one.changed_since(8)} == told


def test_a_session_is_named_by_its_record_and_found_by_it() -> None:
    one = in_state("present")
    assert (one.find(7), one.find(8), len(one)) == (SESSION, None, 1)


def test_a_viewer_is_told_of_what_it_lacks_and_of_no_more() -> None:
    one = in_state("ended")
    one.fold(BEGAN, 9)
    assert one.changed_since(-1) == [(9, one.find(9))]
    assert [number for number, _ in one.changed_since(6)] == [7, 9]
    assert [number for number, _ in one.changed_since(8)] == [9]
    assert one.changed_since(9) == []


def test_ended_sessions_are_forgotten_the_oldest_first() -> None:
    one = SessionFold()
    for number in range(1, 2 * ENDED_KEPT + 6, 2):
        one.fold(BEGAN, number)
        one.fold(ended(number), number + 1)
    assert one.forgotten_at == 6
    assert len(one.changed_since(0)) == ENDED_KEPT


@pytest.mark.parametrize("section", [b"\x00", b"\xc1", b"\x93\x90\x90\xa1x", b"\x91\x90"])
def test_a_section_that_is_none_is_told(section: bytes) -> None:
    with pytest.raises(DecodeError, match="snapshot"):
        SessionFold.restore(section)


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
            one.fold(BEGAN, sequence)
            plain[sequence], at[sequence] = "view", sequence
        elif what == "role":
            one.fold(role(number, f"r{sequence}"), sequence)
            if number in plain:
                plain[number], at[number] = f"r{sequence}", sequence
        else:
            one.fold(ended(number), sequence)
            if plain.pop(number, None) is not None:
                at[number] = sequence
        if is_restored:
            again = SessionFold.restore(one.snapshot())
            assert again.snapshot() == one.snapshot()
            one = again
    assert {each.session_id: each.role for each in one} == plain
    told = {number: each and each.role for number, each in one.changed_since(since)}
    wanted = {number: plain.get(number) for number, place in at.items() if place > since}
    assert told == ({number: word for number, word in wanted.items() if word} if since < 0 else wanted)


def test_a_record_beyond_the_bounds_leaves_a_snapshot_that_can_be_read() -> None:
    """A log may hold texts of any length; a node that could not read its snapshot would lose its state."""
    one, long = SessionFold(), "x" * 1_000
    one.fold(SessionBegan(principal=long, address=long, role=long, since_ns=-(2**63)), 7)
    one.fold(role(7, long), 8)
    assert list(SessionFold.restore(one.snapshot())) == list(one)
