"""Adapters that do not run: each is a case "device lost" within 12 s, which says why and ends by itself."""

from collections.abc import Sequence
from typing import Any

import pytest

from albireo.codec.message import ProducerHello
from albireo.codec.record import CaseChanged
from albireo.machine.diagnostics.adapters import LOOP_NS, LOOP_STARTS, SILENT_NS
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import ActorsTold, ActorTold, Measured
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.model.item import Condition
from albireo.model.value import ItemId
from tests.parts.root import ITEMS, World

ADAPTERS = frozenset({"p1", "p2"})
STEPS = SILENT_NS // SECOND


def world(folds: Folds | None = None, frames: Any = None, epoch: int = 1, **more: Any) -> World:
    one = World(folds, frames, epoch, adapters=ADAPTERS, **more)
    one.letter(b"p2", ProducerHello(producer="p2", run=1, takes_orders=True))
    one.sync()
    return one


def run_of(one: World) -> int:
    """Number of a start at this moment."""
    return one.now // 1_000_000 << 20


def began(one: World, name: str = "p1") -> None:
    one.letter(b"plc", ProducerHello(producer=name, items=ITEMS, run=run_of(one), takes_orders=True))
    one.sync()


def goes_on(one: World, seconds: int, alive: Sequence[str] = ("p2",)) -> None:
    """Time passes; these adapters are heard meanwhile, and the others are not."""
    for _ in range(seconds):
        for name in alive:
            one.root.registry.heard(name.encode(), one.now)
        one.pass_time(SECOND)


def cases(one: World) -> list[Any]:
    found = one.ask("cases").result
    assert isinstance(found, list)
    return found


def lost(one: World) -> list[tuple[str, str, bool]]:
    """Item, message and activity of the cases "device lost"."""
    return [
        (case["item"], case.get("message", ""), case["is_active"])
        for case in cases(one)
        if case["condition"] == Condition.DEVICE_LOST
    ]


def read(one: World, name: str) -> dict[str, Any]:
    result: Any = one.ask("read", names=[name]).result
    reading: dict[str, Any] = result[0]
    return reading


def running(one: World) -> tuple[object, object]:
    reading = read(one, "p1/running")
    return reading["value"], reading["quality"]


def actor(state: str, **facts: Any) -> ActorsTold:
    return ActorsTold([ActorTold(name="comm.p1", state=state, **facts)])


def test_an_adapter_that_never_comes_is_a_case_in_time() -> None:
    one = world()
    goes_on(one, STEPS - 1)
    assert lost(one) == []
    one.step(actor("waiting", last_end="UnicodeError: label too long", ends_lately=9))
    goes_on(one, 1)
    assert lost(one) == [("root:p1/running", "never started since this node leads: UnicodeError: label too long", True)]
    assert running(one) == (False, quality.GOOD)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (actor("waiting", last_end="killed by SIGKILL", ends_lately=1), "died: killed by SIGKILL"),
        (actor("starting", last_end="exit code 3", ends_lately=2), "died: exit code 3"),
        (
            actor("starting", last_end="exit code 3", ends_lately=4),
            "restarts in a loop, at least 4 times a minute: exit",
        ),
        (actor("running"), "hangs: its process says nothing"),
        (
            actor("starting", last_end="silent for 10 s", ends_lately=1, was_killed=True),
            "hangs: its process says nothing",
        ),
        (None, "died or hangs: boot does not say which"),
    ],
)
def test_an_adapter_that_was_heard_and_is_no_more_is_a_case_that_says_why(
    told: ActorsTold | None, message: str
) -> None:
    one = world()
    began(one)
    goes_on(one, STEPS - 1)
    assert (lost(one), running(one)) == ([], (True, quality.GOOD))
    assert one.root.actors.asks_boot
    if told is not None:
        one.step(told)
    goes_on(one, 1)
    ((item, said, is_active),) = lost(one)
    assert (item, is_active) == ("root:p1/running", True)
    assert said.startswith(message)
    (row,) = (row for row in status(one) if row["name"] == "p1")
    assert row["trouble"] == said
    assert not row["connected"]
    began(one)
    goes_on(one, 1, ["p2", "plc"])
    ((_, _, is_active),) = lost(one)
    assert not is_active
    assert running(one) == (True, quality.GOOD)
    assert not one.root.actors.asks_boot


def status(one: World) -> list[dict[str, Any]]:
    answer: Any = one.ask("status").result
    rows: list[dict[str, Any]] = answer["adapters"]
    return rows


def test_an_adapter_whose_turn_has_not_come_is_no_case() -> None:
    one = world()
    goes_on(one, STEPS - 1)
    one.step(actor("waiting"))
    goes_on(one, STEPS)
    assert lost(one) == []
    one.step(actor("starting"))
    goes_on(one, 1)
    assert lost(one) == [], "a start on a busy machine is no loss"
    goes_on(one, STEPS)
    assert [said for _, said, _ in lost(one)] == ["never started since this node leads"]


@pytest.mark.parametrize("state", ["ending", "ended"])
@pytest.mark.parametrize("was_there", [True, False])
def test_an_adapter_of_a_node_that_stops_is_no_case(state: str, was_there: bool) -> None:
    """A node that was stopped while it started on a busy machine said "never started" as its last word."""
    one = world()
    if was_there:
        began(one)
    goes_on(one, STEPS - 1)
    one.step(actor(state, is_stopping=True))
    goes_on(one, STEPS)
    assert lost(one) == []


def test_silence_does_not_count_while_core_itself_did_not_run() -> None:
    one = world()
    began(one)
    goes_on(one, 1, ["p2", "plc"])
    one.pass_time(3_600 * SECOND)
    goes_on(one, STEPS - 1)
    assert lost(one) == []
    goes_on(one, 1)
    assert len(lost(one)) == 1


def test_an_adapter_that_says_hello_and_dies_again_and_again_is_a_case_until_it_stays() -> None:
    one = world()
    for _ in range(LOOP_STARTS - 1):
        began(one)
        goes_on(one, 1, ["p2", "plc"])
        assert lost(one) == []
    assert one.root.actors.asks_boot
    began(one)
    goes_on(one, 1, ["p2", "plc"])
    assert [(item, is_active) for item, _, is_active in lost(one)] == [("root:p1/running", True)]
    assert "restarts in a loop" in lost(one)[0][1]
    goes_on(one, LOOP_NS // SECOND - LOOP_STARTS, ["p2", "plc"])
    assert lost(one)[0][2]
    goes_on(one, LOOP_STARTS, ["p2", "plc"])
    assert not lost(one)[0][2]


def test_a_new_lead_takes_the_case_over_and_ends_it_with_its_own_adapter() -> None:
    one = world()
    began(one)
    goes_on(one, STEPS)
    assert [is_active for _, _, is_active in lost(one)] == [True]
    folds = Folds()
    for frame in one.frames:
        folds.replay(frame)
    other = world(folds, one.frames, epoch=2, now=one.now)
    goes_on(other, STEPS // 2)
    assert [is_active for _, _, is_active in lost(other)] == [True], "nobody knows yet"
    goes_on(other, STEPS)
    assert [is_active for _, _, is_active in lost(other)] == [True]
    began(other)
    goes_on(other, 1, ["p2", "plc"])
    assert [is_active for _, _, is_active in lost(other)] == [False]
    raised = [
        found for found in other.records(CaseChanged) if isinstance(found, CaseChanged) and found.cause == "raised"
    ]
    assert len(raised) == 1


def test_a_program_may_not_have_the_item() -> None:
    one = world()
    item = one.root.registry.item("p1/running")
    assert item is not None
    one.letter(b"eve", ProducerHello(producer="p1", items=(item.item,), run=run_of(one)))
    one.sync()
    known = one.root.folds.dim.by_id(ItemId(item.item_id))
    assert known is not None
    assert known.item.adapter == "core"


def test_core_measures_on_beside_the_items_of_adapters() -> None:
    one = world()
    one.step(Measured(turn_ms=1.0, log_bytes=77))
    one.sync()
    assert read(one, "core/log_bytes")["value"] == 77.0
