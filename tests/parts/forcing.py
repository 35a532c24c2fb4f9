"""Parts that tests share: forced values at the root machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from albireo.codec import samples
from albireo.codec.message import Answer, Ask, ProducerHello, ProducerWelcome
from albireo.codec.record import Kind, Stream
from albireo.model import quality as q
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.refusals import refused_with
from tests.parts.root import World, append

CO = DataItem(name="co", value_type=ValueType.FLOAT64, unit="ppm", alarm=AlarmSettings(hi=50.0))


FAN = DataItem(name="fan", value_type=ValueType.FLOAT64)


DOOR = DataItem(name="door", value_type=ValueType.BOOL)


MODE = DataItem(name="mode", value_type=ValueType.STRING)


COUNT = DataItem(name="count", value_type=ValueType.INT64)


ITEMS = (CO, FAN, DOOR, MODE, COUNT)


LONG_MS = 600_000


def hello(one: World, items: Sequence[DataItem] = ITEMS, run: int = 1) -> ProducerWelcome:
    one.letter(b"plc", ProducerHello(producer="p1", items=tuple(items), run=run))
    one.sync()
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    return welcome


def up(**more: Any) -> tuple[World, ProducerWelcome]:
    """A node whose item `co` was measured once."""
    one = World(**more)
    welcome = hello(one)
    append(one, welcome, 1, [10.0])
    one.sync()
    return one, welcome


def force(one: World, item: str = "co", value: Any = 20.0, for_ms: int = LONG_MS, reason: str = "sensor broken") -> Any:
    answer = one.ask("force", item=item, value=value, for_ms=for_ms, reason=reason, user="anna")
    assert refused_with(answer) == "", refused_with(answer)
    return answer.result


def release(one: World, item: str = "co") -> None:
    answer = one.ask("force_release", item=item, user="anna", reason="repaired")
    assert refused_with(answer) == "", refused_with(answer)


def order(one: World, what: str, sender: bytes = b"desk", **arguments: object) -> None:
    """Order without waiting for the commit."""
    one.letter(sender, Ask(request_id=8, what=what, arguments=arguments))


def shown(one: World, *names: str) -> list[tuple[Any, str]]:
    one.take(Answer)
    found: Any = one.ask("read", names=list(names)).result
    return [(row["value"], q.name(row["quality"])) for row in found]


def series(one: World, name: str) -> list[tuple[Any, str]]:
    """Every sample of an item in the log, in its order."""
    known = one.root.registry.find(name)
    assert known is not None
    item_id = known.item_id
    found: list[tuple[Any, str]] = []
    for frame in one.frames:
        header = frame.header
        if header.stream == Stream.SAMPLES and header.kind != Kind.RECORDS:
            batch = samples.decode_body(frame.body, header.kind, header.record_count)
            rows = np.flatnonzero(batch.item_id == item_id)
            some = batch.take(rows)
            found += [(v, q.name(int(c))) for v, c in zip(some.values(), some.quality, strict=True)]
    return found


def forces(one: World) -> list[dict[str, Any]]:
    found: Any = one.ask("forces").result
    return [dict(row) for row in found]


def cases(one: World) -> list[dict[str, Any]]:
    found: Any = one.ask("cases").result
    return [dict(row) for row in found if row["is_active"]]
