"""A log in memory of small frames of samples, over items with all kinds of rules."""

import math

from albireo.codec import record, samples
from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.record import ItemDeclared, Kind, ProducerOpened, Record, Stream
from albireo.model.instant import MS, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ItemId, Value, ValueType
from tests.parts.alarm import WALL_0, batch_of

TYPES = {1: ValueType.FLOAT64, 2: ValueType.FLOAT64, 3: ValueType.FLOAT64, 4: ValueType.INT64, 5: ValueType.BOOL}
TYPES |= {6: ValueType.STRING, 7: ValueType.INT64, 8: ValueType.FLOAT64}
NAMES = {1: "plain", 2: "limits", 3: "rate", 4: "count", 5: "switch", 6: "text", 7: "p1/polls", 8: "free"}
ALARMS = {
    1: AlarmSettings(stale_s=2.0),
    2: AlarmSettings(hi=6.0, lo=2.0, hysteresis=1.0, on_delay_ms=300, stale_s=3.0, suppressed_by="switch"),
    3: AlarmSettings(rate_per_s=2.0),
    4: AlarmSettings(hi=100.0, off_delay_ms=500, stale_s=5.0),
    7: AlarmSettings(frozen_s=2.0),
}
NO_NUMBERS = (math.nan, math.inf, -math.inf)
TEXTS = ("", "a", "open", "closed", "\u00e4")


class Log:
    """Frames of a log in memory."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.sequence = 0
        self.log_time_ms = 0
        self.batches = 0

    def records(self, stream: Stream, *records: Record) -> None:
        self.add(stream, Kind.RECORDS, len(records), record.encode_records(0, 0, list(records)))

    def rows(self, rows: list[tuple[int, Value, int, int | None]], value_type: ValueType, producer_id: int) -> None:
        """Rows of (item id, value, quality, the device's time or None for the present); they arrive 1 ns later."""
        self.batches += 1
        timed = [(*row[:3], self.wall_ns if row[3] is None else row[3]) for row in rows]
        body = samples.encode_body(producer_id, self.batches, batch_of(value_type, timed, self.wall_ns + 1))
        self.add(Stream.SAMPLES, int(value_type), len(rows), body)

    def add(self, stream: int, kind: int, count: int, body: bytes) -> None:
        header = FrameHeader(
            bytes(16), 1, self.sequence + 1, count, stream, kind, len(body), body_crc(body),
            log_time_ms=self.log_time_ms, node_ns=self.wall_ns,
        )  # fmt: skip
        self.sequence += count
        self.frames.append(Frame(header, body))

    def declare(self, item_id: int, alarm: AlarmSettings | None) -> None:
        adapter = "p1" if item_id in (1, 7) else ""
        item = DataItem(name=NAMES[item_id], value_type=TYPES[item_id], adapter=adapter, alarm=alarm)
        self.records(Stream.STATE, ItemDeclared(item_id=ItemId(item_id), node="root", item=item))

    @property
    def wall_ns(self) -> WallTime:
        return WallTime(WALL_0 + self.log_time_ms * MS)


def begun() -> Log:
    log = Log()
    for name, producer_id in (("a", 1), ("b", 2)):
        log.records(Stream.CONTROL, ProducerOpened(producer_id=producer_id, name=name, run=producer_id))
    for item_id in TYPES:
        log.declare(item_id, ALARMS.get(item_id))
    return log


def value_of(item_id: int, number: int) -> Value:
    match TYPES[item_id]:
        case ValueType.FLOAT64:
            return number / 2 if number < 16 else NO_NUMBERS[number % 16]
        case ValueType.INT64:
            return number
        case ValueType.BOOL:
            return number % 2 == 0
        case ValueType.STRING:
            return TEXTS[number % len(TEXTS)]
