"""Items that nobody declares any more, and items that are declared under another name."""

from typing import Any

import msgspec
import pytest

from albireo.codec.message import AppendRefused, ProducerHello, ProducerWelcome
from albireo.codec.record import Audited, CaseChanged, ItemDeclared
from albireo.machine.desk.registry import DECLARED_MAX
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.refusals import refused_with
from tests.parts.retired_items import CO, FAN, again, cases, hello, in_alarm
from tests.parts.root import World, append

CONNECTED = DataItem(
    name="p1/connected", value_type=ValueType.BOOL, alarm=AlarmSettings(off_normal=False, is_device_state=True)
)


def causes(one: World) -> list[str]:
    return [found.cause for found in one.records(CaseChanged) if isinstance(found, CaseChanged)]


def known(one: World) -> dict[str, dict[str, Any]]:
    found: Any = one.ask("items").result
    return {row["item"]["name"]: row for row in found}


def test_the_case_of_an_item_that_left_the_table_ends_on_record_and_stays_ended() -> None:
    one = in_alarm()
    hello(one, [FAN], 2)
    assert cases(one) == []
    assert causes(one) == ["raised", "retired"]
    assert known(one)["co"]["is_retired"]
    assert "is_retired" not in known(one)["fan"]
    for _ in range(3):
        one.pass_time(100 * SECOND)
    other = again(one)
    hello(other, [FAN], 3)
    other.pass_time(100 * SECOND)
    assert (cases(other), causes(other)) == ([], ["raised", "retired"])


def test_an_item_that_comes_back_is_judged_again() -> None:
    one = in_alarm()
    hello(one, [FAN], 2)
    welcome = hello(one, [CO, FAN], 3)
    append(one, welcome, welcome.last_sequence + 1, [61.0])
    one.sync()
    assert [(case["item"], case["is_active"]) for case in cases(one)] == [("root:co", True)]
    assert "is_retired" not in known(one)["co"]


def test_many_items_leave_in_many_turns() -> None:
    many = [
        msgspec.structs.replace(FAN, name=f"fan_{n}", alarm=AlarmSettings(hi=1.0)) for n in range(2 * DECLARED_MAX + 1)
    ]
    one = World()
    hello(one, many, 1)
    before = len(one.records(ItemDeclared))
    one.letter(b"plc", ProducerHello(producer="p1", items=(), run=2))
    assert len(one.records(ItemDeclared)) == before + DECLARED_MAX
    for _ in range(3):
        one.pass_time(0)
    assert len(one.records(ItemDeclared)) == before + len(many)
    assert len(one.take(ProducerWelcome)) == 1


def test_a_renamed_item_keeps_its_id_its_history_and_its_case() -> None:
    one = in_alarm()
    item_id = known(one)["co"]["item_id"]
    renamed = msgspec.structs.replace(CO, name="tunnel_co", was="co")
    welcome = hello(one, [renamed, FAN], 2)
    assert known(one)["tunnel_co"]["item_id"] == item_id == welcome.item_ids[0]
    assert "co" not in known(one)
    assert [(case["item"], case["is_active"]) for case in cases(one)] == [("root:tunnel_co", True)]
    assert causes(one) == ["raised"]
    told = [found for found in one.records(Audited) if isinstance(found, Audited) and found.action == "item_renamed"]
    assert [(found.subject, found.detail) for found in told] == [("root:tunnel_co", f"was 'co', id {item_id}")]
    assert all(found.item.was == "" for found in one.records(ItemDeclared) if isinstance(found, ItemDeclared))
    records = len(one.records(ItemDeclared))
    other = again(one)
    hello(other, [renamed, FAN], 3)
    assert len(other.records(ItemDeclared)) == records, "it is said once"


def test_a_former_name_that_is_still_declared_gives_nothing_away() -> None:
    one = in_alarm()
    item_id = known(one)["co"]["item_id"]
    hello(one, [CO, FAN, msgspec.structs.replace(CO, name="co_2", was="co")], 2)
    assert known(one)["co"]["item_id"] == item_id
    assert known(one)["co_2"]["item_id"] not in (item_id, known(one)["fan"]["item_id"])


def test_the_name_of_another_programs_item_is_refused_as_a_former_one() -> None:
    one = in_alarm()
    thief = msgspec.structs.replace(CO, name="mine", was="co")
    one.letter(b"eve", ProducerHello(producer="eve", items=(thief,), run=1))
    (refused,) = one.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == "not_owner"
    assert "'co' belongs to 'p1'" in str(refused.refusal)


def test_an_adapter_of_the_topology_takes_an_item_over_from_another_one_under_a_new_name() -> None:
    one = in_alarm(adapters=frozenset({"p1", "p2"}))
    item_id = known(one)["co"]["item_id"]
    hello(one, [msgspec.structs.replace(CO, name="co_2", was="co")], 1, "p2", b"p2")
    assert known(one)["co_2"]["item_id"] == item_id
    assert known(one)["co_2"]["item"]["adapter"] == "p2"


@pytest.mark.parametrize("adapters", [frozenset({"p2"}), frozenset({"p1", "p2"})])
def test_the_items_of_an_adapter_that_left_the_topology_are_retired(adapters: frozenset[str]) -> None:
    one = World(adapters=frozenset({"p1", "p2"}))
    append(one, hello(one, [CO, FAN, CONNECTED], 1), 1, [60.0])
    one.sync()
    for _ in range(13):
        one.pass_time(SECOND)
    lost = {"root:p1/running", "root:p2/running"}
    assert {case["item"] for case in cases(one)} == {"root:co", *lost}
    other = again(one, adapters=adapters)
    other.pass_time(0)
    is_there = "p1" in adapters
    assert {case["item"] for case in cases(other)} == ({"root:co", *lost} if is_there else {"root:p2/running"})
    assert known(other)["co"].get("is_retired", False) is not is_there
    readings: Any = other.ask("read", names=["co"]).result
    assert (readings[0]["quality"] == quality.BAD_OUT_OF_SERVICE) is not is_there
    status: Any = other.ask("status").result
    assert ("p1" in {row["name"] for row in status["adapters"]}) is is_there


def test_a_retired_item_can_be_forgotten() -> None:
    one = in_alarm()
    hello(one, [FAN], 2)
    assert refused_with(one.ask("forget", items=["co"], user="ann")) == ""
    assert "co" not in known(one)
