"""What the status of a node names as bad: every watched item without a usable value, and what long has none."""

import msgspec
import pytest

from albireo.codec.record import ItemDeclared, Record, Stream
from albireo.machine.answers.bad_items import LONG_NS, TOLD_MAX, bad_items
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.model import quality as q
from albireo.model.instant import MS, LogTime
from albireo.model.item import AlarmSettings, DataItem, KnownItem
from albireo.model.status import BadItems
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.alarm import batch_of
from tests.parts.root import World
from tests.parts.sample_log import Log

FLOAT = ValueType.FLOAT64
WATCHED = AlarmSettings(hi=100.0)


def declared(item_id: int, name: str, adapter: str, alarm: AlarmSettings | None = None) -> Record:
    item = DataItem(name=name, value_type=FLOAT, adapter=adapter, alarm=alarm)
    return ItemDeclared(item_id=ItemId(item_id), node="root", item=item)


def folds_of(*samples: tuple[int, Value, int]) -> tuple[Log, Folds]:
    log = Log()
    log.records(
        Stream.STATE,
        declared(1, "boiler", "plc", WATCHED),
        declared(2, "pump", "plc"),
        declared(3, "flow", "plc", AlarmSettings()),
        declared(4, "wind", "met", AlarmSettings(stale_s=5.0)),
    )
    for item_id in (1, 2, 3, 4):
        log.rows([(item_id, 1.0, 0, None)], FLOAT, 0)
    for item_id, value, quality in samples:
        log.rows([(item_id, value, quality, None)], FLOAT, 0)
    folds = Folds()
    folds.replay_all(log.frames)
    return log, folds


def row(adapter: str, reason: str, names: list[str], watched: int, node: str = "root") -> BadItems:
    return BadItems(
        node=node, adapter=adapter, reason=reason, items=len(names), watched=watched, names=tuple(sorted(names))
    )


@pytest.mark.parametrize(
    ("value", "quality", "reason"),
    [
        (0.0, q.BAD_CONFIGURATION_ERROR, "BadConfigurationError"),
        (0.0, q.BAD_NO_COMMUNICATION, "BadNoCommunication"),
        (0.0, q.BAD_WAITING_FOR_INITIAL_DATA, "BadWaitingForInitialData"),
        (float("nan"), q.GOOD, "NaN"),
    ],
)
def test_a_watched_item_without_a_usable_value_is_named_at_once(value: Value, quality: int, reason: str) -> None:
    _, folds = folds_of((1, value, quality), (2, value, quality), (4, value, quality))
    assert bad_items(folds, ()) == (row("plc", reason, ["boiler"], 1), row("met", reason, ["wind"], 1))


def test_an_item_that_nobody_watches_is_named_when_it_is_bad_for_long() -> None:
    log, folds = folds_of((2, 0.0, q.BAD_SENSOR_FAILURE))
    assert bad_items(folds, ()) == ()
    log.log_time_ms += LONG_NS // MS
    log.rows([(2, 0.0, q.BAD_SENSOR_FAILURE, None)], FLOAT, 0)
    log.rows([(3, 1.0, 0, None)], FLOAT, 0)
    for frame in log.frames[-2:]:
        folds.replay(frame)
    assert bad_items(folds, ()) == (row("plc", "BadSensorFailure", ["pump"], 0),)


def test_watched_items_of_nodes_below_are_named_too() -> None:
    _, folds = folds_of()
    below = Dim()
    for item_id, alarm in ((1, WATCHED), (2, None)):
        item = DataItem(name=f"i{item_id}", value_type=FLOAT, adapter="plc", alarm=alarm)
        below.fold_item(KnownItem(item_id=ItemId(item_id), node="root/north", item=item), 1)
    bad = [(item_id, 0.0, int(q.BAD_SENSOR_FAILURE), None) for item_id in (1, 2)]
    below.fold_samples(batch_of(FLOAT, bad), 3, LogTime(1))
    assert bad_items(folds, (below,)) == (row("plc", "BadSensorFailure", ["i1"], 1, "root/north"),)


def test_rows_are_bounded_and_begin_with_what_is_watched() -> None:
    log, folds = folds_of()
    log.records(
        Stream.STATE, *(declared(10 + at, f"x{at}", f"a{at}", WATCHED) for at in range(TOLD_MAX + 5)),
        *(declared(100 + at, f"y{at}", "z", WATCHED) for at in range(5)),
    )  # fmt: skip
    folds.replay(log.frames[-1])
    found = bad_items(folds, ())
    assert len(found) == TOLD_MAX
    assert (found[0].adapter, found[0].watched, len(found[0].names)) == ("z", 5, 3)


def test_status_tells_them() -> None:
    world = World()
    world.root.folds = folds_of((1, 0.0, q.BAD_SENSOR_FAILURE))[1]
    status = msgspec.to_builtins(world.ask("status").result)
    assert [(one["adapter"], one["names"]) for one in status["bad"]] == [("plc", ("boiler",))]
