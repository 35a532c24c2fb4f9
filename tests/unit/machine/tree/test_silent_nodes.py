"""What a node says of its tree by items of its own: nodes below that are not heard, and outcomes with a wrong guid."""

import pytest

from albireo.codec.message import Ask
from albireo.codec.record import OriginDeclared
from albireo.codec.tree.hello import ParentHello
from albireo.codec.tree.letters import BodyAsked, BodySent, MessageTold, OutcomeSaid
from albireo.machine.carry.node_tree import SET_BACK_NS
from albireo.machine.message.post import DOUBT_NS
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.tree.message import MessageOutcome
from tests.parts.topology_taken_up import MEASURED, NORTH, SOUTH, Above, child, link

FAR = "far"


def pass_time(above: Above, seconds: int, *, heard: tuple[str, ...] = ()) -> None:
    """So many seconds, in which these children tell their state each second."""
    for second in range(seconds):
        above.now = Instant(above.now + SECOND)
        for node in heard:
            above.hear(node)
            above.give(node, float(second))
        above.step(TimePassed())
        above.step(MEASURED)
        above.commit()


def cases(above: Above) -> set[str]:
    return {one["item"] for one in above.asked("cases") if one["is_active"]}


def test_a_node_that_is_not_heard_is_a_case_and_named_in_status_until_it_is_heard_again() -> None:
    above = Above(child(NORTH), child(SOUTH))
    for node in (NORTH, SOUTH):
        above.hear(node)
        above.give(node, 1.0)
    pass_time(above, 30, heard=(NORTH, SOUTH))
    assert cases(above) == set() and above.asked("status")["nodes"]["silent"] == ()
    pass_time(above, 10, heard=(NORTH,))
    assert cases(above) == set(), "a restart is no case"
    pass_time(above, 10, heard=(NORTH,))
    assert cases(above) == {"root:core/nodes_silent"}
    assert above.asked("status")["nodes"]["silent"] == (SOUTH,)
    pass_time(above, 2, heard=(NORTH, SOUTH))
    assert cases(above) == set()


def test_a_node_without_any_below_says_nothing_of_silent_ones() -> None:
    above = Above()
    pass_time(above, 30)
    assert cases(above) == set() and above.root.registry.item("core/nodes_silent") is None


def parent_says(above: Above, member: int = 0) -> None:
    above.letter(ParentHello(node=FAR, member=member), sender=PARENT_LINES[member])


def test_a_node_says_itself_that_nobody_above_is_reached_and_since_when() -> None:
    side = Above(parent=FAR)
    began = side.moment().wall
    pass_time(side, 3)
    assert side.asked("status")["nodes"]["unreached_since_ns"] == began
    assert cases(side) == set(), "a restart is no case"
    pass_time(side, 12)
    assert cases(side) == {"root:core/unreached"}
    parent_says(side, member=1)
    heard = side.moment().wall
    nodes = side.asked("status")["nodes"]
    assert (nodes["above"], nodes["unreached_since_ns"]) == (FAR, None), "one member is enough"
    pass_time(side, 2)
    assert cases(side) == set()
    pass_time(side, 20)
    assert side.asked("status")["nodes"]["unreached_since_ns"] == heard
    assert cases(side) == {"root:core/unreached"}


def test_a_node_without_a_parent_says_nothing_of_being_reached() -> None:
    above = Above(child(NORTH))
    pass_time(above, 30)
    assert above.asked("status")["nodes"]["unreached_since_ns"] is None
    assert above.root.registry.item("core/unreached") is None


def test_a_store_that_comes_with_less_than_is_known_is_a_case_for_an_hour() -> None:
    above = Above(child(NORTH))
    above.hear(NORTH)
    for index, log_id in ((1, b"S" * 16), (2, b"T" * 16)):
        above.root.folds.origins.fold_record(
            OriginDeclared(index=index, node=NORTH, origin_log=log_id), index, above.moment().wall
        )
    pass_time(above, 3, heard=(NORTH,))
    assert cases(above) == {"root:core/stores_set_back"}
    assert above.asked("status")["nodes"]["set_back"] == (NORTH,)
    (row,) = above.asked("tree")
    assert (row["stores"], row["set_back_ns"] > 0) == (2, True)
    above.now = Instant(above.now + SET_BACK_NS)
    pass_time(above, 2, heard=(NORTH,))
    assert "root:core/stores_set_back" not in cases(above)


@pytest.mark.parametrize("is_right", [True, False])
def test_an_outcome_with_a_wrong_guid_is_a_case_for_an_hour(is_right: bool) -> None:
    above = Above(child(NORTH))
    above.hear(NORTH)
    above.give(NORTH, 1.0)
    ask = {"node": NORTH, "body": b"x", "command_id": "c", "expires_ms": 5_000}
    above.letter(Ask(request_id=1, what="send", arguments=ask), sender=b"cli")
    above.commit()
    (told,) = above.take(MessageTold)
    assert isinstance(told, MessageTold)
    life = told.name.life
    above.letter(BodyAsked(name=told.name, life=life, offset=0, size=1, nonce=1), sender=link(NORTH))
    above.commit()  # The life of the owner goes on record first.
    (body,) = above.take(BodySent)
    assert isinstance(body, BodySent)
    guid = body.guid if is_right else "f" * 32
    said = OutcomeSaid(name=told.name, life=life, guid=guid, outcome=MessageOutcome.EXECUTED)
    above.letter(said, sender=link(NORTH))
    pass_time(above, 3, heard=(NORTH,))
    assert cases(above) == (set() if is_right else {"root:core/wrong_guids"})
    above.now = Instant(above.now + DOUBT_NS)
    pass_time(above, 2, heard=(NORTH,))
    assert cases(above) == set()
