"""What a node holds back for the one above: a case long before records go, and afterwards its declarations anew."""

import math

from albireo.codec.message import FeedAnswer, FeedHello
from albireo.codec.record import ItemDeclared
from albireo.machine.carry.retelling import Retelling
from albireo.machine.kernel.events import Measured
from albireo.machine.kernel.named import HISTORY, NamedFollower
from albireo.machine.kernel.turn import Turn
from albireo.model.instant import SECOND, Instant
from albireo.model.position import BEGINNING, Position
from tests.parts.drafted import view_of
from tests.parts.root import LOG, World, hello

ABOVE = "above"


def cases_of(world: World) -> list[str]:
    found = world.ask("cases").result
    assert isinstance(found, list)
    return [one["item"] for one in found if one["is_active"]]


def measured(world: World, percent: float, seconds: int = 35) -> list[str]:
    """The active cases after this was measured for a while."""
    for _ in range(seconds):
        world.now = Instant(world.now + SECOND)
        world.step(
            Measured(
                turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, held_percent=dict.fromkeys((ABOVE, "archive"), percent)
            )
        )
        world.sync()
    return [one for one in cases_of(world) if one != "root:core/unreached"]  # No parent ever comes here.


def test_what_is_held_for_the_parent_is_a_case_above_70_percent_of_its_limits() -> None:
    world = World(parent=ABOVE)
    assert measured(world, 69.0) == []
    assert measured(world, 71.0, seconds=20) == [], "a parent that is there says within seconds what it has"
    assert measured(world, 71.0) == ["root:core/uplink_hold"]
    assert measured(world, math.nan) == ["root:core/uplink_hold"], "what is not known ends nothing"
    assert measured(world, 12.0) == []


def test_a_node_without_a_parent_holds_nothing() -> None:
    world = World()
    measured(world, 99.0, seconds=1)
    assert "core/uplink_hold" not in {one.item.name for one in world.root.folds.dim}


def pruned(world: World) -> None:
    """Retention takes all but the last record, a mark."""
    world.pass_time(SECOND)
    del world.frames[:-1]


def asks(world: World, follower: str = ABOVE, principal: str = ABOVE) -> str:
    """The verdict for a follower that has the first record of the log."""
    position = Position(1, 1)
    asked = FeedHello(follower=follower, log_id=LOG, position=position)
    world.letter(b"above", asked, principal=principal)
    (answer,) = world.take(FeedAnswer)
    assert isinstance(answer, FeedAnswer)
    world.sync()
    return answer.verdict


def declared(world: World) -> list[str]:
    return sorted(one.item.name for one in world.records(ItemDeclared) if isinstance(one, ItemDeclared))


def test_declarations_that_went_come_again_once_for_the_parent() -> None:
    world = World(parent=ABOVE, parent_places=frozenset({ABOVE}))
    hello(world)
    known = declared(world)
    assert asks(world) == "resume"
    assert declared(world) == known
    for _ in range(2):
        pruned(world)
        for _ in range(3):
            assert asks(world) == "snapshot"
            world.pass_time(SECOND)
        assert declared(world) == known, "each item once, and no more often"
    assert sorted(one.item.name for one in world.root.folds.dim) == known


def test_another_follower_that_lacks_records_has_nothing_declared_anew() -> None:
    world = World(parent=ABOVE, parent_places=frozenset({ABOVE}))
    hello(world)
    pruned(world)
    assert asks(world, "history", "local:0") == "snapshot"
    world.pass_time(SECOND)
    assert declared(world) == []


def test_declaration_that_is_told_again_never_undoes_a_newer_record() -> None:
    """An item is forgotten, and the record of that is not folded yet."""
    world = World(parent=ABOVE, parent_places=frozenset({ABOVE}))
    hello(world)
    root, turn = world.root, Turn(view_of([], world.history, BEGINNING), 3)
    gone = next(one for one in root.folds.dim if one.item.adapter != "core")
    root.registry.item_forgotten(gone)
    retelling = Retelling(root.folds, root.registry)
    retelling.begin(turn)
    retelling.go_on(turn)
    records = (one for draft in turn.drafts if isinstance(draft.content, tuple) for one in draft.content)
    told = {one.item_id for one in records if isinstance(one, ItemDeclared)}
    assert told == {one.item_id for one in root.folds.dim} - {gone.item_id}


def test_each_named_follower_with_bounds_has_its_case_and_its_loss_is_told() -> None:
    """One that never comes: the case comes long before its records go, and it is told what it lacks."""
    archive = NamedFollower(name="archive", figure="archive", days=1.0)
    world = World(named=(HISTORY, archive))
    assert measured(world, 71.0) == ["root:core/archive_hold"]
    pruned(world)
    assert asks(world, "somebody", "local:0") == "snapshot"
    assert "records_let_go" not in world.notes
    assert asks(world, "archive", "local:0") == "snapshot"
    assert world.notes.count("records_let_go") == 1
