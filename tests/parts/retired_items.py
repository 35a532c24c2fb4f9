"""Parts that tests share: items that nobody declares any more, and items that are declared under another name."""

from collections.abc import Sequence
from typing import Any

from albireo.codec.message import ProducerHello, ProducerWelcome
from albireo.machine.desk.registry import DECLARED_MAX
from albireo.machine.fold.folds import Folds
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.root import World, append

CO = DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=50.0, stale_s=60.0))


FAN = DataItem(name="fan", value_type=ValueType.FLOAT64)


def again(one: World, **more: Any) -> World:
    """The node after a restart, by way of a snapshot."""
    folds = Folds()
    for frame in one.frames:
        folds.replay(frame)
    folds = Folds.restore(folds.snapshot(), folds.log_time_ms)
    return World(folds, list(one.frames), epoch=one.history.epoch + 1, now=one.now, **more)


def hello(one: World, items: Sequence[DataItem], run: int, name: str = "p1", sender: bytes = b"plc") -> ProducerWelcome:
    one.letter(sender, ProducerHello(producer=name, items=tuple(items), run=run))
    for _ in range(1 + len(items) // DECLARED_MAX):
        one.pass_time(0)
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    return welcome


def in_alarm(**more: Any) -> World:
    one = World(**more)
    append(one, hello(one, [CO, FAN], 1), 1, [60.0])
    one.sync()
    assert [(case["item"], case["is_active"]) for case in cases(one)] == [("root:co", True)]
    return one


def cases(one: World) -> list[dict[str, Any]]:
    found: Any = one.ask("cases").result
    rows: list[dict[str, Any]] = found
    return rows
