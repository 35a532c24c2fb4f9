"""Notification whose face is killed anywhere: every case that asks is told, and twice only where nobody can know."""

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.face.notify.notice import SendOutcome
from albireo.model.instant import SECOND
from tests.parts.notify import MINUTE, Faces, case_of, duty, rules_of

PEOPLE = (duty("anna", 1), duty("bob", 2, "webhook"), duty("cem", 3, "script"))
STEPS = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 5)),
    st.just(("kill", 0)),
    st.just(("leave and die", 0)),
    st.tuples(st.just("case"), st.integers(1, 8)),
    st.tuples(st.just("acked"), st.integers(1, 8)),
    st.tuples(st.just("gone"), st.integers(1, 8)),
    st.tuples(st.just("back"), st.integers(1, 8)),
    st.tuples(st.just("wait"), st.sampled_from([1, 31, 90, 700])),
    st.tuples(st.just("clock"), st.sampled_from([-(10**6), -60, 60, 10**6])),
    st.tuples(
        st.just("answers"),
        st.sampled_from([SendOutcome.SENT, SendOutcome.LATER, SendOutcome.REFUSED, SendOutcome.UNKNOWN]),
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60), st.integers(1, 3))
def test_nothing_is_lost_and_twice_only_where_nobody_knows(steps: list[tuple[str, object]], most: int) -> None:
    world = Faces(rules_of(*PEOPLE, most=most, within_s=5, escalate_min=10))
    for what, which in steps:
        match what:
            case "kill":
                world.begin()
            case "leave and die":
                world.leave()
                world.begin()
            case "step":
                for _ in range(int(str(which))):
                    effect = world.leave()
                    if effect is None:
                        world.step()
                    else:
                        world.answer(effect)
            case "case":
                world.hear(case_of(int(str(which))))
            case "acked":
                world.hear(msgspec.structs.replace(case_of(int(str(which))), is_acked=True))
            case "gone" | "back":
                known = world.cases.get(int(str(which)))
                if known is not None and not known.is_acked and known.is_active is (what == "gone"):
                    count = known.activations + (what == "back")
                    world.hear(msgspec.structs.replace(known, is_active=what == "back", activations=count))
            case "wait":
                world.now, world.wall_ns = (one + int(str(which)) * SECOND for one in (world.now, world.wall_ns))  # type: ignore[assignment]
            case "clock":
                world.wall_ns += int(str(which)) * SECOND
            case "answers":
                world.answers = lambda _, outcome=which: outcome  # type: ignore[misc]
    world.answers = lambda _: SendOutcome.SENT
    world.run()
    world.passes(30 * MINUTE, 5 * SECOND)
    asking = {number for number, one in world.cases.items() if not one.is_acked and one.is_active}
    sent_of = {notice.number: {key[1] for key in notice.cases} for notice, _ in world.store.values()}
    told = {case for number, _, _ in world.sends for case in sent_of.get(number, ())}
    assert asking <= told, "every case that asks"
    assert all(cases & asking for cases in sent_of.values()), "and no notice on record of which none does"
    assert world.unreached.count == 0
    by_address: dict[tuple[str, str], list[bool]] = {}
    for number, address, may_be_second in world.sends:
        by_address.setdefault((number, address), []).append(may_be_second)
    for one, words in by_address.items():
        assert len(words) <= 1 + world.doubts[one], "again only after a doubt"
        assert all(words[1:]), "and with the words"


def test_a_face_that_is_killed_at_each_step_in_turn_loses_nothing() -> None:
    """Each number of effects after which it may die, before and after the message left."""
    for dies_at in range(40):
        for has_left in (False, True):
            world = Faces(rules_of(*PEOPLE, most=2, within_s=5))
            world.hear(*[case_of(number) for number in (1, 2)])
            for _ in range(dies_at):
                effect = world.leave()
                if effect is None:
                    world.step()
                else:
                    world.answer(effect)
            if has_left:
                world.leave()
            before = Counter((number, to) for number, to, _ in world.sends)
            world.begin()
            world.run()
            world.passes(MINUTE)
            sent = Counter((number, to) for number, to, _ in world.sends)
            assert len(sent) == 2
            assert {one for one, count in sent.items() if count > 1} == before.keys() & (+world.doubts).keys()
