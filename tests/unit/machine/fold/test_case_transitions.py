"""One case, every state x every event: by a literal table, and by what must hold of all of them."""

import itertools
from collections.abc import Iterator

import msgspec
import pytest

from albireo.codec.record import CaseChanged
from albireo.machine.fold.alarms import transitions as t
from albireo.model.case import Action, Case, Cause, LifecycleStatus, Shelving
from albireo.model.instant import LogTime, WallTime
from albireo.model.item import Condition
from albireo.model.refusal import Refusal

NOW = WallTime(9_000)
UNTIL = LogTime(5_000)
ACTIVATED = t.Activated(value=2.0, severity=700, is_latched=False, is_chattering=False)
NODE_EVENTS: dict[str, t.Event] = {
    "activated": ACTIVATED,
    "cleared": t.Cleared(),
    "suppression_began": t.SuppressionBegan(),
    "suppression_ended": t.SuppressionEnded(),
    "chatter_began": t.ChatterBegan(),
    "chatter_ended": t.ChatterEnded(),
    "shelve_ended": t.ShelveEnded(),
    "redefined": t.Redefined(severity=900, is_latched=True),
}
OPERATOR_EVENTS: dict[str, t.Event] = {
    action.value: t.OperatorAsked(
        action=action,
        user="ann",
        comment="why",
        unshelve_at=UNTIL if action in (Action.SHELVE, Action.SHELVE_ONCE) else None,
    )
    for action in Action
}
EVENTS = NODE_EVENTS | OPERATOR_EVENTS


def case_of(
    active: bool = False,
    acked: bool = False,
    latched: bool = False,
    shelving: Shelving = Shelving.UNSHELVED,
    suppressed: bool = False,
    out: bool = False,
    chattering: bool = False,
) -> Case:
    return Case(
        case_id=7,
        item_id=3,
        condition=Condition.HI,
        severity=500,
        lifecycle_status=LifecycleStatus.UPDATED,
        is_active=active,
        is_acked=acked,
        is_latched=latched,
        shelving=shelving,
        unshelve_at=None if shelving is Shelving.UNSHELVED else 1_000,
        is_suppressed=suppressed,
        is_out_of_service=out,
        is_chattering=chattering,
        raised_ns=100,
        changed_ns=200,
        value=1.0,
        actor="bob",
        comment="old",
    )


def every_case() -> Iterator[Case]:
    flag = (False, True)
    for active, acked, latched, shelving, *rest in itertools.product(flag, flag, flag, Shelving, flag, flag, flag):
        yield case_of(active, acked, latched, shelving, *rest)


# State: A active, i inactive; U unacknowledged, k acknowledged; L latched; then what silences or holds it:
# T timed shelve, 1 one-shot shelve, R suppressed by rule, O out of service, C chattering. x closed.
# Entry: the next state; - refused to the operator; ! can't happen.

COLUMNS = (
    "activated cleared suppression_began suppression_ended chatter_began chatter_ended shelve_ended "
    "ack reset shelve shelve_once unshelve out_of_service in_service"
)
TABLE = """
AU    | !     iU    AUR    !    AUC    !    !   Ak    -    AUT    AU1    -     AUO    -
Ak    | !     x     AkR    !    AkC    !    !   -     -    AkT    Ak1    -     AkO    -
iU    | AU    !     iUR    !    iUC    !    !   x     -    iUT    iU1    -     iUO    -
AUL   | !     iUL   AULR   !    AULC   !    !   AkL   -    AULT   AUL1   -     AULO   -
AkL   | !     ikL   AkLR   !    AkLC   !    !   -     -    AkLT   AkL1   -     AkLO   -
iUL   | AUL   !     iULR   !    iULC   !    !   ikL   -    iULT   iUL1   -     iULO   -
ikL   | AUL   !     ikLR   !    ikLC   !    !   -     x    ikLT   ikL1   -     ikLO   -
AUT   | !     iUT   AUTR   !    AUTC   !    AU  AkT   -    AUT    AU1    AU    AUTO   -
AkT   | !     ikT   AkTR   !    AkTC   !    AU  -     -    AkT    Ak1    AU    AkTO   -
iUT   | AUT   !     iUTR   !    iUTC   !    iU  ikT   -    iUT    iU1    iU    iUTO   -
ikT   | AkT   !     ikTR   !    ikTC   !    x   -     -    ikT    ik1    x     ikTO   -
AU1   | !     iU    AU1R   !    AU1C   !    AU  Ak1   -    AUT    AU1    AU    AU1O   -
Ak1   | !     x     Ak1R   !    Ak1C   !    AU  -     -    AkT    Ak1    AU    Ak1O   -
ik1   | Ak1   !     ik1R   !    ik1C   !    x   -     -    ikT    ik1    x     ik1O   -
AUR   | !     iUR   !      AU   AURC   !    !   AkR   -    AUTR   AU1R   -     AURO   -
AkR   | !     x     !      AU   AkRC   !    !   -     -    AkTR   Ak1R   -     AkRO   -
iUR   | AUR   !     !      iU   iURC   !    !   x     -    iUTR   iU1R   -     iURO   -
AUO   | !     iUO   AURO   !    AUOC   !    !   AkO   -    -      -      -     -      AU
AkO   | !     ikO   AkRO   !    AkOC   !    !   -     -    -      -      -     -      AU
iUO   | AUO   !     iURO   !    iUOC   !    !   ikO   -    -      -      -     -      iU
ikO   | AkO   !     ikRO   !    ikOC   !    !   -     -    -      -      -     -      x
AUC   | !     iUC   AURC   !    !      AU   !   AkC   -    AUTC   AU1C   -     AUOC   -
AkC   | !     ikC   AkRC   !    !      Ak   !   -     -    AkTC   Ak1C   -     AkOC   -
ikC   | AUC   !     ikRC   !    !      x    !   -     -    ikTC   ik1C   -     ikOC   -
AkTR  | !     ikTR  !      AkT  AkTRC  !    AkR -     -    AkTR   Ak1R   AkR   AkTRO  -
AkTO  | !     ikTO  AkTRO  !    AkTOC  !    AkO -     -    -      -      AkO   -      AkT
"""


def parsed(code: str) -> Case:
    return case_of(
        active="A" in code,
        acked="k" in code,
        latched="L" in code,
        shelving=Shelving.TIMED if "T" in code else Shelving.ONE_SHOT if "1" in code else Shelving.UNSHELVED,
        suppressed="R" in code,
        out="O" in code,
        chattering="C" in code,
    )


def code_of(case: Case) -> str:
    if case.lifecycle_status is LifecycleStatus.CLOSED:
        return "x"
    return (
        ("A" if case.is_active else "i")
        + ("k" if case.is_acked else "U")
        + ("L" if case.is_latched else "")
        + {Shelving.UNSHELVED: "", Shelving.TIMED: "T", Shelving.ONE_SHOT: "1"}[case.shelving]
        + ("R" if case.is_suppressed else "")
        + ("O" if case.is_out_of_service else "")
        + ("C" if case.is_chattering else "")
    )


def cells() -> Iterator[tuple[str, str, str]]:
    for line in TABLE.strip().splitlines():
        state, _, entries = line.partition("|")
        for event, entry in zip(COLUMNS.split(), entries.split(), strict=True):
            yield state.strip(), event, entry


@pytest.mark.parametrize(("state", "event", "expected"), list(cells()))
def test_table(state: str, event: str, expected: str) -> None:
    if expected == "!":
        with pytest.raises(t.InvalidTransition):
            t.step(parsed(state), EVENTS[event], NOW)
        return
    after = t.step(parsed(state), EVENTS[event], NOW)
    if expected == "-":
        assert isinstance(after, Refusal)
        assert after.cause
        assert after.remedy
    else:
        assert isinstance(after, CaseChanged)
        assert code_of(after.case) == expected


@pytest.mark.parametrize("name", EVENTS)
def test_every_state_keeps_the_invariants(name: str) -> None:
    """192 states: what an event leaves behind is a case that the module's docstring allows."""
    event = EVENTS[name]
    for case in every_case():
        try:
            changed = t.step(case, event, NOW)
        except t.InvalidTransition:
            assert name in NODE_EVENTS, "an operator is refused, never our bug"
            continue
        if isinstance(changed, Refusal):
            assert name in OPERATOR_EVENTS, "what the node itself saw is never refused"
            continue
        after = changed.case
        for kept in ("case_id", "item_id", "condition", "raised_ns"):
            assert getattr(after, kept) == getattr(case, kept)
        assert after.changed_ns == NOW
        assert (after.lifecycle_status is LifecycleStatus.CLOSED) == t.is_closable(after)
        assert (after.shelving is Shelving.UNSHELVED) == (after.unshelve_at is None)
        assert changed.cause in list(Cause)
        if name in OPERATOR_EVENTS:
            assert (after.actor, after.comment) == ("ann", "why")
            assert after.is_active == case.is_active, "no operator ends a condition"
        else:
            assert (after.actor, after.comment) == ("bob", "old")
        if t.is_silent(case) and not t.is_silent(after) and after.is_active:
            assert not after.is_acked, "after a silence the case asks again"
        elif name not in ("ack", "ack_all"):
            assert after.is_acked <= case.is_acked, "only an operator acknowledges"
        if name != "reset":
            assert after.is_latched >= case.is_latched, "only a reset ends a latch"


def test_every_event_is_possible_somewhere_and_every_refusal_too() -> None:
    outcomes: dict[str, set[str]] = {name: set() for name in EVENTS}
    for case in every_case():
        for name, event in EVENTS.items():
            try:
                outcomes[name].add(type(t.step(case, event, NOW)).__name__)
            except t.InvalidTransition:
                outcomes[name].add("impossible")
    always = {"comment", "redefined"}
    assert all(found == ({"CaseChanged"} if name in always else found) for name, found in outcomes.items())
    assert {name for name, found in outcomes.items() if "CaseChanged" in found} == set(EVENTS)
    assert {name for name, found in outcomes.items() if "Refusal" in found} == set(OPERATOR_EVENTS) - {"comment"}
    assert {name for name, found in outcomes.items() if "impossible" in found} == set(NODE_EVENTS) - {"redefined"}


def test_activation_of_an_open_case_counts_and_takes_value_and_severity() -> None:
    changed = t.step(case_of(), ACTIVATED, NOW)
    assert isinstance(changed, CaseChanged)
    after = changed.case
    assert (after.activations, after.value, after.severity, after.is_acked) == (2, 2.0, 700, False)


def test_activation_latches_when_the_settings_say_so() -> None:
    changed = t.step(case_of(), msgspec.structs.replace(ACTIVATED, is_latched=True), NOW)
    assert isinstance(changed, CaseChanged)
    assert changed.case.is_latched


def test_a_case_is_never_born_acknowledged_and_one_raised_while_suppressed_asks_nobody() -> None:
    for is_suppressed in (False, True):
        case = t.raised(3, Condition.LO, ACTIVATED, is_suppressed=is_suppressed, at_ns=NOW).case
        assert (case.is_acked, t.asks(case), case.is_suppressed) == (False, not is_suppressed, is_suppressed)
        assert case.lifecycle_status is LifecycleStatus.NEW


def unasked(active: bool) -> Case:
    case = t.raised(3, Condition.LO, ACTIVATED, is_suppressed=True, at_ns=NOW).case
    return msgspec.structs.replace(case, case_id=7, is_active=active, is_latched=not active)


def stepped(case: Case, event: t.Event) -> Case:
    changed = t.step(case, event, NOW)
    assert isinstance(changed, CaseChanged)
    return changed.case


def test_an_unasked_case_asks_when_its_suppression_ends_and_closes_when_its_condition_does() -> None:
    assert t.asks(stepped(unasked(active=True), t.SuppressionEnded()))
    assert stepped(unasked(active=True), t.Cleared()).lifecycle_status is LifecycleStatus.CLOSED
    acked = stepped(unasked(active=True), OPERATOR_EVENTS["ack"])
    assert (acked.is_acked, acked.is_unasked) == (True, False)
    assert stepped(unasked(active=False), OPERATOR_EVENTS["reset"]).lifecycle_status is LifecycleStatus.CLOSED


def test_an_activation_while_suppressed_is_acknowledged_by_nobody() -> None:
    again = stepped(case_of(acked=True, latched=True, suppressed=True), ACTIVATED)
    assert (again.is_acked, t.asks(again)) == (False, False)
    owed = stepped(case_of(latched=True, suppressed=True), ACTIVATED)
    assert t.asks(owed), "the acknowledgement that was asked for is owed"


def test_a_retired_item_closes_its_case_however_it_stands() -> None:
    for case in every_case():
        after = stepped(case, t.ItemRetired())
        assert (after.lifecycle_status, after.is_active, after.is_acked) == (
            LifecycleStatus.CLOSED,
            False,
            case.is_acked,
        )


def test_reset_says_what_to_do_first() -> None:
    asked = OPERATOR_EVENTS["reset"]
    remedies = [
        t.step(case_of(latched=True, active=a, acked=k), asked, NOW) for a, k in ((True, False), (False, False))
    ]
    assert [one.remedy for one in remedies if isinstance(one, Refusal)] == [
        "remove the cause, then reset",
        "acknowledge it, then reset",
    ]


def test_reserved_case_closes_when_nothing_holds_it() -> None:
    """An operator shelves a rule that has no case, and nothing happens until the shelve ends."""
    case = t.reserved(3, Condition.HI, 500, is_suppressed=False, at_ns=NOW)
    shelved = t.step(case, OPERATOR_EVENTS["shelve"], NOW)
    assert isinstance(shelved, CaseChanged)
    assert (code_of(shelved.case), shelved.case.activations) == ("ikT", 0)
    ended = t.step(shelved.case, t.ShelveEnded(), NOW)
    assert isinstance(ended, CaseChanged)
    assert code_of(ended.case) == "x"
