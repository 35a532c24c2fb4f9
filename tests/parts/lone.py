"""A lone node's CORE and history in one loop, over real links, on a real log and real files."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from albireo.codec.message import Answer, Ask
from albireo.log import LogConfig
from albireo.model.access import AccessRole
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.arguments import CoreArguments
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.membership.door import DoorArguments
from albireo.runtime import Keys, SyncLink, running
from albireo.runtime.link.keys import introduce
from albireo.runtime.link.lines import LineTo
from tests.parts.history import Sample, batch_of
from tests.parts.port import free_ports
from tests.parts.producing import producing
from tests.parts.refusals import refused_with
from tests.parts.waiting import PATIENCE_S, awaited

NODE = "root"
ITEM = DataItem(name="co", value_type=ValueType.FLOAT64)


class LoneNode:
    """Actors of a lone node, each started by itself; every program's key is trusted there."""

    def __init__(
        self,
        home: Path,
        *programs: str,
        topology_hash: str = "",
        zone: str = "UTC",
        role: AccessRole = AccessRole.OPERATE,
        **door: Any,
    ) -> None:
        """
        Args:
            programs: holders of keys; none: the node has no keys either.
            role: of the programs, by the node's key directory.
            door: arguments of its door beside the endpoint and the keys.
        """
        self.home = home
        self.endpoint = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        self.keys = {name: Keys.new(home / "keys" / name, name) for name in (NODE, *programs)} if programs else {}
        introduce(*self.keys.values(), role=role)
        directory = str(self.keys[NODE].directory) if programs else ""
        arguments = DoorArguments(endpoint=self.endpoint, keys=directory, **door)
        log = LogConfig(segment_bytes=1 << 20, free_bytes_min=0)
        self.core = Core(
            CoreArguments(node=NODE, cluster="c", topology_hash=topology_hash, zone=zone, log=log, door=arguments)
        )
        self.data = home / "data"
        self.data.mkdir()

    @contextlib.asynccontextmanager
    async def core_up(self) -> AsyncIterator[None]:
        async with running(self.core, self.data):
            yield

    @contextlib.asynccontextmanager
    async def history_up(self) -> AsyncIterator[Historian]:
        historian = Historian(HistoryArguments(node=NODE))
        async with running(historian, self.data):
            yield historian

    def produce(self, program: str, rows: Sequence[Sample]) -> None:
        """Record rows of one item, through the door; for a thread of its own."""
        lines = [LineTo(self.endpoint, NODE)]
        with producing("boiler", [ITEM], lines, self.keys.get(program)) as producer:
            producer.offer([self._batch(rows)])
            assert producer.wait(PATIENCE_S)

    def _batch(self, rows: Sequence[Sample]) -> SampleBatch:
        return batch_of(rows, ValueType.FLOAT64, rows[-1][1])

    def program(self, name: str) -> "Program":
        return Program(self.endpoint, self.keys.get(name))


class Program:
    """A program that asks at a door, one question after the other; for a thread of its own."""

    def __init__(self, endpoint: str, keys: Keys | None, timeout_s: float = PATIENCE_S) -> None:
        self.link = SyncLink.tcp(endpoint, keys, peer=NODE, timeout_s=timeout_s)
        self._number = 0

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()

    def ask(self, what: str, of: str = "", **arguments: object) -> tuple[Answer, list[bytes | memoryview]]:
        self._number += 1
        assert self.link.send(Ask(request_id=self._number, what=what, arguments=arguments, of=of))
        while (received := self.link.receive(PATIENCE_S)) is not None:
            message, raw = received
            if isinstance(message, Answer) and message.request_id == self._number:
                return message, raw
        raise TimeoutError(what)

    def result(self, what: str, of: str = "", **arguments: object) -> Any:
        answer, _ = self.ask(what, of, **arguments)
        assert refused_with(answer) == "", refused_with(answer)
        return answer.result

    def pieces(self, what: str, **arguments: object) -> pa.Table:
        """All pieces of an answer of the history."""
        tables, cursor = [], ""
        while True:
            answer, raw = self.ask(what, "history", cursor=cursor, **arguments)
            assert refused_with(answer) == "", refused_with(answer)
            result: Any = answer.result
            tables.append(pa.ipc.open_stream(pa.py_buffer(raw[0])).read_all())
            assert result["rows"] == len(tables[-1])
            cursor = result["next"]
            if not cursor:
                return pa.concat_tables(tables)


def asked_until(program: Program, is_so: Callable[[Any], bool], what: str, of: str = "", **arguments: object) -> Any:
    """Ask again and again; the condition must come."""
    answer = awaited(
        lambda: program.ask(what, of, **arguments)[0], lambda one: not refused_with(one) and is_so(one.result)
    )
    return answer.result
