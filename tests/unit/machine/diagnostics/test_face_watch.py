"""Faces that do not run: a case that says why and ends by itself, by boot's word alone."""

from typing import Any

import msgspec

from albireo.machine.diagnostics.faces import LOST_NS, STEADY_NS
from albireo.machine.kernel.events import ActorsTold, ActorTold
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.item import Condition
from albireo.model.status import FaceAddress
from tests.parts.root import World


def world() -> World:
    return World(faces=frozenset({"desk"}))


def told(one: World, seconds: int, state: str, **facts: Any) -> None:
    """Time passes; boot says the same of the face meanwhile."""
    for _ in range(seconds):
        one.step(ActorsTold([ActorTold(name="face.desk", state=state, **facts)]))
        one.pass_time(SECOND)


def running(one: World) -> object:
    found: Any = one.ask("read", names=["desk/running"]).result
    return found[0]["value"] if found and quality.is_good(found[0]["quality"]) else None


def cases(one: World) -> list[tuple[str, str, bool]]:
    found: Any = one.ask("cases").result
    return [(case["condition"], case.get("message", ""), case["is_active"]) for case in found]


def trouble(one: World) -> str:
    status: Any = one.ask("status").result
    (row,) = status["faces"]
    assert row["name"] == "desk"
    return str(row["trouble"])


def test_a_face_that_boot_says_nothing_of_is_neither_well_nor_a_case() -> None:
    one = world()
    assert one.root.actors.asks_boot and not World().root.actors.asks_boot
    one.pass_time(2 * LOST_NS)
    assert (running(one), cases(one)) == (None, [])
    told(one, 1, "running")
    assert (running(one), trouble(one)) == (True, "")


def test_a_face_of_a_node_that_stops_is_no_case() -> None:
    one = world()
    told(one, 2, "running")
    told(one, 2 * LOST_NS // SECOND, "ended", is_stopping=True)
    assert (running(one), cases(one)) == (True, [])


def test_a_face_that_dies_once_and_comes_again_is_no_case() -> None:
    one = world()
    told(one, 2, "running")
    told(one, LOST_NS // SECOND - 2, "starting", last_end="exit code 3", ends_lately=1)
    told(one, 4, "running", last_end="exit code 3", ends_lately=1, since_ns=one.now - STEADY_NS)
    assert (running(one), cases(one)) == (True, [])


def test_a_face_that_does_not_come_is_a_case_until_it_was_up_for_a_while() -> None:
    one = world()
    told(one, 2, "running")
    told(one, LOST_NS // SECOND + 1, "waiting", last_end="ValueError: no", ends_lately=3)
    said = "does not run: ValueError: no"
    assert (running(one), cases(one), trouble(one)) == (False, [(Condition.OFF_NORMAL, said, True)], said)
    told(one, 3, "running", last_end="ValueError: no", ends_lately=1, since_ns=one.now)
    assert running(one) is False, "it was up for moments only"
    told(one, STEADY_NS // SECOND, "running", last_end="ValueError: no", since_ns=one.now - STEADY_NS)
    assert (running(one), trouble(one)) == (True, "")
    assert [is_active for _, _, is_active in cases(one)] == [False]


def test_a_face_that_dies_at_each_start_is_a_case_at_once() -> None:
    one = world()
    told(one, 1, "starting", last_end="ValueError: no", ends_lately=4)
    assert trouble(one) == "restarts in a loop, at least 4 times a minute: ValueError: no"


def test_status_tells_where_a_face_is_found() -> None:
    one = world()
    address = FaceAddress("https://scada.plant:8443", "AB:CD")
    told(one, 1, "running", address=address)
    status: Any = one.ask("status").result
    assert [*status["faces"]] == [{"name": "desk", "trouble": "", "address": msgspec.to_builtins(address)}]
