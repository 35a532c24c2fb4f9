"""Cases that messages have acted upon at the node that has the case, and what a node above lets through."""

from typing import Any

import msgspec
import pytest

from albireo.codec.message import Answer, Ask
from albireo.codec.message_records import MessageEnd
from albireo.codec.record import Audited, CaseChanged
from albireo.machine.kernel.events import KeysListed
from albireo.machine.orders.case.kinds import ActOnCase, CaseActBody
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.case import Action
from albireo.model.instant import SECOND
from albireo.model.item import Condition
from albireo.model.tree.message import MessageOutcome
from tests.parts import brought
from tests.parts.present import MES
from tests.parts.refusals import refused_with
from tests.parts.retired_items import cases, in_alarm
from tests.parts.root import World


def executed(one: World, body: bytes, not_after: int = SECOND) -> tuple[MessageEnd, list[Any]]:
    return brought.executed(ActOnCase(one.root), body, not_after)


def body_of(case_id: int | None, activation: int | None = None) -> bytes:
    return msgspec.msgpack.encode(CaseActBody(Action.ACK, case_id, activation, None))


def test_a_message_acknowledges_a_case_with_its_principal_and_reason() -> None:
    one = in_alarm()
    number = cases(one)[0]["case_id"]
    end, records = executed(one, body_of(number, activation=1))
    assert (end.outcome, end.detail) == (MessageOutcome.EXECUTED, f"ack case {number}")
    changed, audited = records
    assert isinstance(changed, CaseChanged)
    assert (changed.case.is_acked, changed.cause) == (True, "acked")
    assert isinstance(audited, Audited)
    assert (audited.user, audited.principal, audited.detail) == ("ann", "chief", "seen")


def test_an_activation_that_is_past_is_refused_with_what_is_there() -> None:
    one = in_alarm()
    end, records = executed(one, body_of(cases(one)[0]["case_id"], activation=7))
    assert (end.outcome, records) == (MessageOutcome.REJECTED, [])


@pytest.mark.parametrize(
    "body",
    [
        body_of(4711),
        body_of(None),
        b"",
        b"\xc1",
        b"\x80",
        msgspec.msgpack.encode({"action": "ack", "case_id": -1, "activation": 1, "duration_ms": None}),
        msgspec.msgpack.encode({"action": "burn", "case_id": 1, "activation": 1, "duration_ms": None}),
    ],
)
def test_an_action_that_can_not_be_meant_is_rejected(body: bytes) -> None:
    end, records = executed(in_alarm(), body)
    assert (end.outcome, records) == (MessageOutcome.REJECTED, [])


def test_nothing_is_done_after_the_time_of_the_order() -> None:
    one = in_alarm()
    end, records = executed(one, body_of(cases(one)[0]["case_id"]), not_after=0)
    assert (end.outcome, records) == (MessageOutcome.EXPIRED, [])


def test_a_later_tenure_says_that_it_does_not_know() -> None:
    assert brought.recovered(ActOnCase(World().root)).outcome is MessageOutcome.UNKNOWN


@pytest.mark.parametrize(
    ("at", "refusal"),
    [
        (
            "root",
            f"case_action ack needs the role operate at top/south; {MES!r} has view; "
            f"what to do: an admin grants it: albireo access grant {MES} operate --node top/south",
        ),
        ("", "'top/south' is no node of this tree; a message goes to another node"),
    ],
)
def test_the_role_is_judged_for_the_node_that_has_the_case(at: str, refusal: str) -> None:
    one = World(parent="top", beyond=("top/south",))
    one.step(KeysListed({MES: RoleGrant(AccessRole.OPERATE, at)}))
    arguments = {"action": "ack", "case_id": 7, "user": "mes", "node": "top/south"}
    one.letter(b"mes", Ask(request_id=5, what="case_action", arguments=arguments), principal=MES)
    one.sync()
    errors = [refused_with(each) for each in one.take(Answer) if isinstance(each, Answer) and each.request_id == 5]
    assert errors == [refusal], "where the role suffices the order goes on to the messages"


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "ack_all"},
        {"action": "ack_all", "case_id": 1},
        {"action": "ack_all", "item_id": 1, "condition": "hi"},
        {"action": "ack", "item_id": 1, "condition": "hi"},
        {"action": "shelve", "item_id": 1},
        {"action": "shelve", "condition": "hi"},
    ],
)
def test_what_was_not_seen_is_not_acted_upon_from_afar(arguments: dict[str, Any]) -> None:
    one = World(parent="top", beyond=("top/south",))
    answer = one.ask("case_action", user="ann", node="top/south", **arguments)
    assert "is acted upon by its id" in refused_with(answer)
    body = CaseActBody(Action(arguments["action"]), arguments.get("case_id"), None, 1000, **_rule(arguments))
    end, records = executed(in_alarm(), msgspec.msgpack.encode(body))
    assert (end.outcome, records) == (MessageOutcome.REJECTED, [])


def _rule(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in ("item_id", "condition") if name in arguments}


@pytest.mark.parametrize(
    ("action", "condition"), [(Action.SHELVE, "stale"), (Action.SHELVE_ONCE, "hi"), (Action.OUT_OF_SERVICE, "stale")]
)
def test_a_message_silences_a_rule_whether_it_has_a_case_or_not(action: Action, condition: str) -> None:
    one = in_alarm()
    (case,) = cases(one)
    body = CaseActBody(action, None, None, 1000, case["item_id"], Condition(condition))
    end, records = executed(one, msgspec.msgpack.encode(body))
    assert (end.outcome, end.detail) == (MessageOutcome.EXECUTED, f"{action} item {case['item_id']} {condition}")
    changed, audited = records
    assert isinstance(changed, CaseChanged)
    assert (changed.case.item_id, changed.case.condition) == (case["item_id"], condition)
    assert changed.case.is_out_of_service or changed.case.shelving != "unshelved"
    assert isinstance(audited, Audited)
    assert (audited.principal, audited.subject) == ("chief", f"item {case['item_id']} {condition}")
