"""Adapter for a device that tells lines of JSON over TCP, and is told which of them are on record.

    device -> {"line": 7, "columns": [{"type": 1, "rows": [0], "values": [1.5], "ns": [10], "quality": [0]}]}
    device <- {"committed": 7}, {"let_go": 7}

Rows of the item table with `polled` are the number of lines that came, asked for as any poll.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.field.contract import Arrivals, ConfigurationError, DeviceLost, Give, PolledColumns, SendGuard, Written
from albireo.field.kinds import Rows, Surroundings
from albireo.model.command import Outcome
from albireo.model.item import DataItem
from albireo.model.quality import GOOD
from albireo.model.samples import Strings
from albireo.model.value import Value, ValueType
from tests.own.adapter.kind import ToldConfig, judge


class TellingAdapter:
    """A polled and a told adapter in one."""

    def __init__(
        self, settings: ToldConfig, items: Sequence[DataItem], widths: Sequence[float], polled: list[int]
    ) -> None:
        self._settings = settings
        self._items = tuple(items)
        self._widths = np.array(widths, np.float64)
        self._polled = np.array(polled, np.intp)
        self._lines = self._errors = 0
        self._token_lines: dict[int, int] = {}
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def items(self) -> Sequence[DataItem]:
        return self._items

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        return self._widths

    def counters(self) -> Mapping[str, int]:
        return {"errors": self._errors}

    def listen(self, give: Give) -> None:
        self._give = give

    def committed(self, token: int) -> None:
        self._answer("committed", token)

    def let_go(self, token: int) -> None:
        self._answer("let_go", token)

    def _answer(self, word: str, token: int) -> None:
        line = self._token_lines.pop(token)
        if self._writer is not None:
            self._writer.write(json.dumps({word: line}).encode() + b"\n")

    async def connect(self) -> None:
        place = urlsplit(self._settings.url)
        try:
            reader, self._writer = await asyncio.open_connection(
                place.hostname, place.port, limit=self._settings.line_bytes_max
            )
        except OSError as error:
            raise DeviceLost("it can't be reached") from error
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, ValueError):  # A connection that breaks, a line that is too long.
            while line := await reader.readline():
                told = json.loads(line)
                self._lines += 1
                self._token_lines[self._give([_arrivals(one) for one in told["columns"]])] = told["line"]
        self._errors += 1

    async def poll(self) -> Sequence[PolledColumns]:
        if self._reading is None or self._reading.done():
            raise DeviceLost("it has hung up")
        count = len(self._polled)
        value = np.full(count, self._lines, np.int64)
        quality = np.full(count, GOOD, np.uint32)
        return [PolledColumns(value_type=ValueType.INT64, rows=self._polled, value=value, quality=quality)]

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        return Written(outcome=Outcome.REJECTED, detail="never sent: it only tells")

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        self._reading = self._writer = None


def _arrivals(said: dict[str, Any]) -> Arrivals:
    value_type = ValueType(said["type"])
    dtype = {ValueType.FLOAT64: np.float64, ValueType.INT64: np.int64, ValueType.BOOL: np.uint8}
    values = said["values"]
    return Arrivals(
        value_type=value_type,
        rows=np.array(said["rows"], np.intp),
        value=Strings.of(values) if value_type is ValueType.STRING else np.array(values, dtype[value_type]),
        quality=np.array(said["quality"], np.uint32),
        source_ns=np.array(said["ns"], np.int64),
    )


def create(settings: ToldConfig, rows: Rows, surroundings: Surroundings) -> TellingAdapter:
    if not settings.url.startswith("tcp://"):
        raise ConfigurationError(f"url = {settings.url!r} is no address; write tcp://HOST:PORT")
    items, widths = [], []
    for row in rows:
        judged = judge(row)
        if isinstance(judged, list):
            raise ConfigurationError("; ".join(f"{one.text}; {one.remedy}" for one in judged))
        items.append(msgspec.structs.replace(judged.item, adapter=settings.name))
        widths.append(judged.dead_band)
    if not items:
        raise ConfigurationError("no items; name a table with at least one row")
    return TellingAdapter(settings, items, widths, [at for at, row in enumerate(rows) if row.get("polled")])
