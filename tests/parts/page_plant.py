"""A plant of one node with its page, in a thread of its own, so that a browser can be driven beside it."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from albireo.client import Client, NodeRefused, connect
from albireo.client.conversation import asks
from albireo.client.credentials import password_words
from albireo.codec.questions.people import ACCESS_GRANT, GrantAsked
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch, column_of
from albireo.model.value import Value, ValueType
from albireo.runtime import running
from albireo.runtime.clock import wall_ns
from tests.parts.field import LONG_MS, comm, plc
from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import PASSWORD, Served, served

CO: Final = DataItem(
    name="co_8",
    value_type=ValueType.FLOAT64,
    unit="ppm",
    description="Carbon monoxide in section 8",
    alarm=AlarmSettings(hi=40.0, severity=700),
)
ROWS: Final = (
    {
        "name": "fan_speed",
        "kind": "holding",
        "address": "20",
        "type": "int16",
        "writable": "true",
        "minimum": "0",
        "maximum": "1500",
        "unit": "rpm",
        "description": "Speed of fan 1",
    },
    {
        "name": "barrier",
        "kind": "coil",
        "address": "3",
        "writable": "true",
        "control": "select",
        "states": "0=open;1=closed",
        "description": "Barrier at the portal",
    },
)
"""Items of the PLC: one is written directly, one has to be selected first."""


class PagePlant:
    """A node, its page and its PLC. For the thread of the test."""

    def __init__(self, data: Path, at: Served, loop: asyncio.AbstractEventLoop) -> None:
        self.data = data
        self.at = at
        self.url = at.url
        self.loop = loop
        self.keys = at.keys
        self.endpoint = at.endpoint

    def client(self) -> Client:
        return connect(self.data, timeout_s=PATIENCE_S)

    def say(self, values: Mapping[DataItem, Value], program: str = "sensor", at_ns: int = 0) -> None:
        """Have a program declare these items, and say a value of each."""
        with self.client() as client:
            say(client, values, program, at_ns)

    def add_person(self, name: str, role: str = "", node: str = "") -> None:
        """A person with the password of all tests; no role: may look."""
        with self.client() as client:
            add_person(client, name, role, node)


def add_person(client: Client, name: str, role: str = "", node: str = "") -> None:
    """A person with the password of all tests; no role: may look."""
    client.add_person(name, password_words(PASSWORD))
    if role:
        client.converse(asks(ACCESS_GRANT, GrantAsked(principal=f"person:{name}", role=role, node=node)))


def say(client: Client, values: Mapping[DataItem, Value], program: str = "sensor", at_ns: int = 0) -> None:
    """Have a program declare these items, and say a value of each."""
    items = list(values)
    producer = client.producer(program, items)
    now = at_ns or wall_ns()
    for kind in {one.value_type for one in items}:
        ids = [index for index, one in enumerate(items) if one.value_type is kind]
        producer.offer([said(ids, [values[items[one]] for one in ids], kind, now)])
    assert producer.flush(PATIENCE_S)


def said(ids: Sequence[int], values: Sequence[Value], kind: ValueType, now: int) -> SampleBatch:
    """A value of each of these items of a producer, by their places there, as of `now` in wall ns; all are good."""
    at = np.full(len(ids), now)
    return SampleBatch(
        value_type=kind,
        item_id=np.array(ids, np.uint32),
        source_ns=at,
        node_ns=at,
        value=column_of(values, kind),
        quality=np.zeros(len(ids), np.uint32),
    )


def is_read(client: Client, name: str) -> bool:
    with contextlib.suppress(NodeRefused):
        return client.read(name).value is not None
    return False


@contextlib.contextmanager
def page_plant(
    directory: Path, *, has_plc: bool = False, rows: Sequence[Mapping[str, str]] = (), **settings: Any
) -> Iterator[PagePlant]:
    """The plant, which ends with the block; its PLC has `rows` beside its own items."""
    begun: Future[tuple[PagePlant, asyncio.Event]] = Future()

    async def story() -> None:
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            at = await stack.enter_async_context(served(directory, **settings))
            if has_plc:
                device = await stack.enter_async_context(plc())
                adapter = {
                    "name": "p1",
                    "kind": "modbus",
                    "url": f"tcp://127.0.0.1:{device.port}",
                    "items": [*ROWS, *rows],
                    "poll_ms": 50,
                    "timeout_ms": LONG_MS,
                }
                await stack.enter_async_context(running(comm(adapter), directory))
            begun.set_result((PagePlant(directory, at, loop), is_over))
            await is_over.wait()

    with ThreadPoolExecutor(1, "page plant") as threads:
        running_plant = threads.submit(asyncio.run, story())
        awaited(lambda: begun.done() or running_plant.done())
        if not begun.done():
            running_plant.result()
        plant, is_over = begun.result()
        try:
            if has_plc:
                with plant.client() as client:
                    awaited(lambda: is_read(client, "root:barrier"))
            yield plant
        finally:
            plant.loop.call_soon_threadsafe(is_over.set)
            running_plant.result(PATIENCE_S)
