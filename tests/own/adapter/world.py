"""The device of the kind `told`, for the conformance suite."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from albireo.model.quality import GOOD
from albireo.model.value import Value, ValueType
from tests.parts.port import free_port


class TellingDevice:
    """Tells what a test says, and keeps the words that it hears of it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.words: list[tuple[str, int]] = []
        self._line = 0
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    @property
    def is_heard(self) -> bool:
        return self._writer is not None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._serving = writer, asyncio.current_task()
        try:
            while line := await reader.readline():
                ((word, number),) = json.loads(line).items()
                self.words.append((word, number))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            if self._writer is writer:
                self._writer = None

    def tell(self, *columns: dict[str, object]) -> int:
        """Tell one line; returns its number."""
        assert self._writer is not None
        self._line += 1
        self._writer.write(json.dumps({"line": self._line, "columns": columns}).encode() + b"\n")
        return self._line


class ToldWorld:
    kind = "told"
    quality = Path(__file__).parent / "quality.yaml"
    offered_in: Path | None = Path(__file__).parent
    writes: Mapping[str, Value] = {}
    wrong_arguments: tuple[dict[str, object], ...] = (
        {"url": "udp://127.0.0.1:1"},
        {"items": []},
        {"items": [{"name": "x", "type": "colour"}]},
        {"line_bytes_max": 1},
        {"device_id": 1},
    )
    told: Mapping[str, ValueType] = {
        "level": ValueType.FLOAT64,
        "count": ValueType.INT64,
        "door": ValueType.BOOL,
        "text": ValueType.STRING,
        "banded": ValueType.FLOAT64,
    }
    ranged = "level"
    banded = "banded"
    not_asked: Mapping[str, str] = {}
    rows = (
        {"name": "level", "type": "float", "minimum": "0", "maximum": "100"},
        {"name": "count", "type": "int"},
        {"name": "door", "type": "bool"},
        {"name": "text", "type": "string"},
        {"name": "banded", "type": "float", "dead_band": "1"},
        {"name": "lines", "type": "int", "polled": "true"},
    )

    def __init__(self) -> None:
        self.device = TellingDevice()

    def arguments(self) -> dict[str, object]:
        return {
            "name": "a1", "kind": self.kind, "url": f"tcp://127.0.0.1:{self.device.port}", "items": list(self.rows),
            "poll_ms": 20,
        }  # fmt: skip

    async def begin(self) -> None:
        await self.device.start()

    async def lose(self) -> None:
        await self.device.stop()

    async def end(self) -> None:
        await self.device.stop()

    @property
    def is_heard(self) -> bool:
        return self.device.is_heard

    @property
    def words(self) -> Sequence[tuple[str, int]]:
        return self.device.words

    def tell(self, name: str, values: Sequence[Value], times: Sequence[int], quality: int = GOOD) -> int:
        row = [one["name"] for one in self.rows].index(name)
        return self.tell_row(row, self.told[name], values, times, quality)

    def tell_row(
        self, row: int, value_type: ValueType, values: Sequence[Value], times: Sequence[int], quality: int = GOOD
    ) -> int:
        count = len(values)
        said: dict[str, object] = {"type": int(value_type), "rows": [row] * count, "values": list(values)}
        return self.device.tell(said | {"ns": list(times), "quality": [quality] * count})


WORLD = ToldWorld
