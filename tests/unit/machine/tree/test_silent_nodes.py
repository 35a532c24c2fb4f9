"""What a node says of its tree by items of its own: nodes below that are not heard, and outcomes with a wrong guid."""

import pytest

from albireo.codec.message import Ask
from albireo.codec.tree.letters import BodyAsked, BodySent, MessageTold, OutcomeSaid
from albireo.machine.message.post import DOUBT_NS
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.tree.message import MessageOutcome
from tests.parts.topology_taken_up import MEASURED, NORTH, SOUTH, Above, child, link


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
    assert cases(above) == set() and above.asked("status")["nodes"] == {"below": 2, "silent": ()}
    pass_time(above, 10, heard=(NORTH,))
    assert cases(above) == set(), "a restart is no case"
    pass_time(above, 10, heard=(NORTH,))
    assert cases(above) == {"root:core/nodes_silent"}
    assert above.asked("status")["nodes"] == {"below": 2, "silent": (SOUTH,)}
    pass_time(above, 2, heard=(NORTH, SOUTH))
    assert cases(above) == set()


def test_a_node_without_any_below_says_nothing_of_silent_ones() -> None:
    above = Above()
    pass_time(above, 30)
    assert cases(above) == set() and above.root.registry.item("core/nodes_silent") is None


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
