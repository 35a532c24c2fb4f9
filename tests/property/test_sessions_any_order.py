"""Sessions in any order of questions, silence, ends, restarts and takeovers: one of a kind, bounded, and true."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.message import Ask
from albireo.codec.record import SessionBegan
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.orders.session.sessions import SILENCE_NS
from albireo.model.instant import SECOND
from tests.parts.present import causes, present, said
from tests.parts.retired_items import again
from tests.parts.root import World

PLACES = [("anna@desk", "10.0.0.4"), ("anna@desk", "10.0.0.5"), ("local:1000", "localhost"), ("", "127.0.0.1")]
steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "silence", "long", "end", "restart"]),
        st.integers(0, 3),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=30,
)


def sender_of(place: int, link: int, run: int) -> bytes:
    return f"{place}.{link}.{run}".encode()


@given(steps, st.booleans())
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_one_of_a_kind_goes_on_and_replay_tells_the_same(
    story: list[tuple[str, int, int, bool]], is_paired: bool
) -> None:
    one: World = World(is_paired=is_paired)
    asked_ns: dict[int, int] = {}
    turned_away: set[bytes] = set()
    run = 0
    for what, place, link, is_synced in story:
        match what:
            case "ask":
                said(one, Ask(request_id=9, what="status"), sender_of(place, link, run), *PLACES[place])
                if sender_of(place, link, run) not in turned_away:
                    asked_ns[place] = one.now
            case "silence" | "long":
                for _ in range(7 if what == "silence" else 40):
                    one.pass_time(SECOND)
            case "end":
                one.sync()
                for number in [number for number, *who in present(one) if tuple(who) == PLACES[place]]:
                    turned_away |= {
                        sender for sender, it in one.root.sessions._links.items() if it.session_id == number
                    }
                    one.letter(b"cli", Ask(request_id=7, what="session_end", arguments={"session_id": number}))
                    one.sync()
                    asked_ns.pop(place, None)
            case "restart":
                one.sync()
                one = again(one, is_paired=is_paired)
                turned_away.clear()
                run += 1
        if is_synced:
            one.sync()
        one.sent.clear()
    one.sync()
    found = present(one)
    kinds = Counter((who, where) for _, who, where in found)
    assert max(kinds.values(), default=0) <= 1
    assert {it.session_id: it.place for it in one.root.sessions._present.values()} == {
        number: (who, where) for number, who, where in found
    }
    for place, at in asked_ns.items():
        if one.now - at < SILENCE_NS and (is_paired or not run):
            assert kinds[PLACES[place]] == 1, "who asked a moment ago is present"
    assert all(one.root.sessions.refusal_of(sender) for sender in turned_away)
    assert len(one.records(SessionBegan)) == len(found) + len(causes(one))
    folds = Folds()
    folds.replay_all(one.frames)
    assert folds.of(SessionFold).table.snapshot() == one.root.folds.of(SessionFold).table.snapshot()
    for _ in range(SILENCE_NS // SECOND + 1):
        one.pass_time(SECOND)
    assert present(one) == []
    assert not one.root.sessions._links and not one.root.sessions._ending
