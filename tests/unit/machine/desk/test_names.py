"""Names: who may be which producer and which follower (ADR-0149)."""

import msgspec
import pytest

from albireo.codec.message import (
    AppendRefused,
    FeedAnswer,
    FeedHello,
    ProducerHello,
    ProducerWelcome,
    RoleAsked,
    WriteDone,
    WritesEnded,
)
from albireo.machine.feed.leader import Leader
from albireo.machine.fold.producers import Producers
from albireo.machine.kernel.events import KeysListed
from albireo.machine.kernel.named import HISTORY, NamedFollower
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.command import Outcome, Receipt
from albireo.model.item import DataItem
from albireo.model.item_states import ItemState
from albireo.model.principal import ANYBODY
from albireo.model.value import ValueType
from tests.parts.root_roles import ALONE, Side, pair

LOCAL, MES, DESK, MEMBER = "local:1000", "mes-1", "anna@desk", "root[backup]"
MAY_SEND = KeysListed({MES: RoleGrant(AccessRole.OPERATE), DESK: RoleGrant(AccessRole.OPERATE)})
EVERYBODY = (LOCAL, MES, ANYBODY)
NOBODY = ()

MAY_PRODUCE = {
    "core": NOBODY,
    "boot": NOBODY,
    "logger": NOBODY,
    "history": NOBODY,
    "root[primary]": NOBODY,
    "far/away[backup]": NOBODY,
    "witness:w1": NOBODY,
    "local:0": NOBODY,
    "plc-1": (LOCAL,),
    "host": (LOCAL,),
    "mes-1": EVERYBODY,
    "histories": EVERYBODY,
    "root": EVERYBODY,
}
"""Principals that may be a producer of that name, of those in EVERYBODY; `plc-1` and `host` are adapters."""
MAY_FOLLOW = {
    "core": (LOCAL,),
    "history": (LOCAL,),
    "root[primary]": (LOCAL,),
    "witness:w1": (LOCAL,),
    "plc-1": EVERYBODY,
    "reader": EVERYBODY,
}
"""Principals that may follow under that name."""


def alone(*named: NamedFollower) -> Side:
    side = Side(msgspec.structs.replace(ALONE, adapters=frozenset({"plc-1", "host"}), named=(HISTORY, *named)))
    side.lead()
    side.step(MAY_SEND)
    return side


def hello(side: Side, name: str, principal: str, run: int = 1) -> ProducerWelcome | AppendRefused:
    side.letter(ProducerHello(producer=name, run=run), sender=f"{principal} {name}".encode(), principal=principal)
    side.commit()
    answer = (side.take(ProducerWelcome) + side.take(AppendRefused))[0]
    assert isinstance(answer, ProducerWelcome | AppendRefused)
    return answer


def may(side: Side, name: str, principal: str, run: int = 1) -> bool:
    return isinstance(hello(side, name, principal, run), ProducerWelcome)


def owner(side: Side, name: str) -> str:
    known = side.root.folds.producers.find(name)
    assert known is not None
    return known.principal


@pytest.mark.parametrize("name", MAY_PRODUCE)
@pytest.mark.parametrize("principal", EVERYBODY)
def test_a_reserved_name_is_nobodys_to_produce_under(name: str, principal: str) -> None:
    side = alone()
    end = side.end
    answer = hello(side, name, principal)
    if principal in MAY_PRODUCE[name]:
        assert isinstance(answer, ProducerWelcome)
        assert owner(side, name) == principal
    else:
        assert isinstance(answer, AppendRefused)
        assert answer.refusal.code == "not_owner", "for good"
        assert repr(name) in str(answer.refusal)
        assert "what to do" in str(answer.refusal)
        assert side.end == end, "nothing is recorded of it"


def test_words_that_an_item_can_not_have_are_refused_and_not_recorded() -> None:
    side = alone()
    end = side.end
    item = DataItem(name="door", value_type=ValueType.BOOL, states=(ItemState(0, "open"), ItemState(2, "closed")))
    side.letter(ProducerHello(producer="doors", run=1, items=(item,)), sender=b"doors", principal=MES)
    side.commit()
    assert "door: 2 has a word, and a bool is 0 or 1" in str(
        [one.refusal for one in side.take(AppendRefused) if isinstance(one, AppendRefused)]
    )
    assert side.end == end


@pytest.mark.parametrize("name", MAY_FOLLOW)
@pytest.mark.parametrize("principal", EVERYBODY)
def test_a_reserved_name_is_nobodys_to_follow_under(name: str, principal: str) -> None:
    assert follow(alone(), name, principal).verdict == ("resume" if principal in MAY_FOLLOW[name] else "refused")


@pytest.mark.parametrize("mode", ["log", "state"])
def test_only_a_follower_of_this_machine_has_a_name_for_which_records_stay(mode: str) -> None:
    side = alone(NamedFollower(name="archive", figure="archive", days=1.0))
    assert follow(side, "archive", LOCAL, mode=mode).verdict != "refused"
    answer = follow(side, "archive", MES, mode=mode)
    assert (answer.verdict, "reserved" in str(answer.refusal)) == ("refused", True)


def follow(side: Side, name: str, principal: str, *, mode: str = "log") -> FeedAnswer:
    said = FeedHello(follower=name, mode=mode, credit_bytes=1)
    side.letter(said, sender=f"{principal} {name}".encode(), principal=principal)
    (answer,) = side.take(FeedAnswer)
    assert isinstance(answer, FeedAnswer)
    return answer


def test_followers_of_two_principals_do_not_take_each_others_place() -> None:
    side = alone()
    for mode in ("log", "state"):
        for principal in (MES, DESK, MES):
            follow(side, "reader", principal, mode=mode)
    leader: Leader = side.root.feeds.leader
    assert [(one.principal, one.hello.follower) for one in leader.followers.values()] == [
        (DESK, "reader"),
        (MES, "reader"),
    ]


def test_a_name_stays_with_the_key_that_opened_it() -> None:
    side = alone()
    assert may(side, "boiler", MES, run=1)
    answer = hello(side, "boiler", DESK, run=2)
    assert isinstance(answer, AppendRefused)
    assert f"belongs to the key '{MES}', not to '{DESK}'" in str(answer.refusal)
    assert may(side, "boiler", MES, run=3), "a restart of its program"
    assert may(side, "boiler", LOCAL, run=4), "who may reach the data directory takes it over"
    assert owner(side, "boiler") == LOCAL
    assert not may(side, "boiler", MES, run=5)
    assert "a program on the node's machine" in str(hello(side, "boiler", MES, run=5).refusal)  # type: ignore[union-attr]


def test_a_name_without_a_known_owner_is_whose_who_comes_first() -> None:
    side = alone()
    assert may(side, "boiler", ANYBODY, run=1)
    assert may(side, "boiler", MES, run=2)
    assert not may(side, "boiler", DESK, run=3)
    assert may(side, "boiler", ANYBODY, run=4), "a link without keys proves nothing, and asks for nothing"


def test_the_owner_of_a_name_survives_a_takeover_and_a_restart_from_a_snapshot() -> None:
    first, second = pair()
    for one in (first, second):
        one.step(MAY_SEND)
    assert may(first, "boiler", MES)
    second.follow(first)
    second.lead()
    assert not may(second, "boiler", DESK, run=2)
    producers = second.root.folds.producers
    again = Producers.restore(producers.snapshot())
    known = again.find("boiler")
    assert known is not None
    assert known.principal == MES


@pytest.mark.parametrize("principal", [MES, MEMBER, ANYBODY])
def test_the_words_of_adapters_are_heard_from_this_machine_only(principal: str) -> None:
    side = alone()
    receipt = Receipt(command_id="c", outcome=Outcome.VERIFIED)
    for message in (WriteDone(receipt=receipt), WritesEnded(stand_down=1)):
        side.letter(message, principal=principal)
    side.letter(RoleAsked(adapter="plc-1", reaches=True), principal=principal)
    assert side.root.role.reaches == {}
    side.letter(RoleAsked(adapter="plc-1", reaches=True))
    assert side.root.role.reaches == {"plc-1": True}
