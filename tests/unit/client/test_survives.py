"""A client survives its callers: any arguments, a cancellation at any await, an interrupt in any wait."""

import asyncio
import inspect
import logging
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import pytest

from albireo.client import ArgumentRefused, AsyncClient, Changes, Client, ClientClosed, ClientError, aconnect, connect
from albireo.client.engine import END_S, log
from albireo.client.questions import Request
from albireo.client.topic_consumer import AsyncTopicConsumer, MessageReading, TopicConsumer
from albireo.client.topic_line import MessageInbox
from albireo.client.topic_message import TopicMessage
from albireo.machine.message.receiving.desk import WAITING_MAX
from albireo.model.item import DataItem
from albireo.model.topic import Topic
from albireo.model.value import ValueType
from tests.long_form import IS_LONG
from tests.parts.client import lone, produce
from tests.parts.core_pair import aside
from tests.parts.early_receipts import ITEM, batch
from tests.parts.served_piece import piece
from tests.parts.waiting import PATIENCE_S, awaited

CALLS: Final = 10_000 if IS_LONG else 200
LATE_S: Final = 1.0 if IS_LONG else PATIENCE_S
"""Longest time that an answer may take beside the calls; only the long form judges the machine's speed, too."""
AS_ODD: Final = 3
"""One of so many arguments is what it should be."""


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


PLAIN: Final = ("number", "root", 1, 1.0, b"x", "*", ["number"])
VALUES: Final[tuple[Callable[[], Any], ...]] = (
    lambda: None,
    lambda: "\ud800",
    lambda: {"\udcff": 1},
    lambda: 2**64,
    lambda: -(2**70),
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: np.int64(5),
    lambda: np.zeros(3),
    lambda: nested(300),
    lambda: nested(100_000),
    endless,
    object,
    Odd,
    lambda: {1: {2: {3}}},
    lambda: print,
    lambda: 1j,
    lambda: bytes(2 << 20),
    lambda: "x" * 70_000,
    list,
    lambda: True,
    lambda: -1,
    lambda: ["number", 5],
)
LEFT_OUT: Final = {
    *("close", "converse", "transaction", "topics", "store", "ask_kind", "user", "acting"),
    *("send_file", "receive_file", "follow_state"),
}


def methods(kind: type) -> list[str]:
    return [one for one in dir(kind) if not one.startswith("_") and one not in LEFT_OUT]


def given(method: Any, chance: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a method: some as they may be, others not."""
    few: list[Any] = []
    named: dict[str, Any] = {}
    for one in inspect.signature(method).parameters.values():
        value = chance.choice(PLAIN) if chance.randrange(AS_ODD) == 0 else chance.choice(VALUES)()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            few.append(value)
        elif one.kind is one.KEYWORD_ONLY and chance.random() < 0.5:
            named[one.name] = value
        elif one.kind is one.VAR_KEYWORD:
            named["item"] = value
    return few, named


async def called(client: AsyncClient, chance: random.Random) -> None:
    """Call a method with some arguments, and wait for it as long as it pleases."""
    of: Any = chance.choice((client, client, client.topics))
    method = getattr(of, chance.choice(methods(type(of))))
    few, named = given(method, chance)

    async def waits() -> None:
        found = method(*few, **named)
        if inspect.isasyncgen(found):
            await anext(found)
        elif inspect.isawaitable(found):
            await found
        else:  # A producer, or a consumer.
            await found.close()

    try:
        await asyncio.wait_for(waits(), chance.choice((0, 0.0005, 0.002, 0.01)))
    except Exception as error:  # noqa: BLE001  # Whatever it is, it is told to its caller, and nobody else suffers.
        assert not isinstance(error, ClientClosed | asyncio.InvalidStateError), error


def called_in_a_thread(client: Client, chance: random.Random) -> None:
    """The same without an end of the wait: nothing but what it should not be is given."""
    method = getattr(client, chance.choice([one for one in methods(Client) if one not in ENDLESS]))
    few = [chance.choice(VALUES)() for _ in inspect.signature(method).parameters]
    try:
        method(*few[: chance.randrange(1, 4)])
    except Exception as error:  # noqa: BLE001  # As above.
        assert not isinstance(error, ClientClosed | asyncio.InvalidStateError), error


ENDLESS: Final = {"watch", "inbox", "producer", "consumer"}
"""Methods whose result is to be waited for by itself."""


def test_whatever_is_asked_and_whenever_it_is_cancelled_the_client_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        chance = random.Random(1)
        async with lone(tmp_path):
            await aside(lambda: seed(tmp_path))
            blocking = await aside(lambda: connect(tmp_path, timeout_s=0.5))
            async with await aconnect(tmp_path, timeout_s=PATIENCE_S) as client:
                watching = client.watch("number")
                await anext(watching)
                latest = 0.0
                for number in range(CALLS):
                    await called(client, chance)
                    if number % 20 == 0:
                        await aside(lambda: called_in_a_thread(blocking, chance))
                        began = time.monotonic()
                        assert (await client.read("number")).value is not None
                        latest = max(latest, time.monotonic() - began)
                await aside(lambda: seed(tmp_path))
                assert isinstance(await anext(watching), Changes), "who watched beside all this hears what is new"
                assert latest < LATE_S
                assert not client._core._questions._waiting, "nothing is asked for nobody"
            assert (await aside(blocking.status)).node == "root"
            await aside(blocking.close)

    asyncio.run(story())
    assert [one for one in caplog.records if one.name == log.name and one.levelname == "ERROR"] == []


def seed(data: Path) -> None:
    with connect(data, timeout_s=PATIENCE_S) as client:
        produce(client, 1, 1)


class Interrupting:
    """Whoever looks at it has Ctrl-C pressed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt


def test_what_can_not_be_said_is_refused_by_name_and_nothing_is_asked(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            hears: list[object] = []
            values: tuple[Any, ...] = (np.int64(5), 2**64, "\ud800", nested(100_000), endless(), bytes(2 << 20))
            for value in values:
                with pytest.raises(ArgumentRefused, match="what to do: give plain values"):
                    client.write("number", value)
                with pytest.raises(ArgumentRefused):
                    client.ask("read", names=value)
            kinds: tuple[dict[str, Any], ...] = ({"timeout_s": float("nan")}, {"member": 5}, {"member": []}, {"of": []})
            for odd in kinds:
                with pytest.raises(ArgumentRefused):
                    client.ask("status", **odd)
            with pytest.raises(KeyboardInterrupt):
                client.ask("status", member=Interrupting())  # type: ignore[arg-type]
            for name in (["status"], b"status", "\ud800", "x" * 100_000):
                with pytest.raises(ArgumentRefused):
                    client.ask(name)  # type: ignore[arg-type]
            with pytest.raises(ArgumentRefused):
                client.producer("p", [DataItem(name="\ud800", value_type=ValueType.INT64)])
            with pytest.raises(ArgumentRefused):
                next(client.watch(["number", 5]))  # type: ignore[list-item]
            awaited = client._core.begin(Request(what="status"))
            awaited.add_done_callback(lambda _: 1 // 0)
            awaited.add_done_callback(hears.append)
            awaited.result(PATIENCE_S)
            assert client.status().node == "root"
            assert not client._core._questions._waiting

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_what_an_asker_does_with_his_arguments_later_changes_no_question(tmp_path: Path) -> None:
    """It waits for somebody who acts, and is said then."""
    data = tmp_path / "data"
    data.mkdir()
    made: list[Client] = []

    async def world() -> None:
        async with lone(data):
            made.append(await aside(lambda: connect(data, timeout_s=PATIENCE_S)))
        names: list[Any] = ["core/turn_ms"]
        awaited = made[0]._core.begin(Request(what="read", arguments={"names": names}))
        names[:] = [object()]
        async with lone(data):
            reply = await asyncio.wrap_future(awaited)
            assert reply.result[0]["name"] == "root:core/turn_ms"
            await aside(made[0].close)

    asyncio.run(world())


def test_a_connecting_that_is_cancelled_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # A test of an actor that failed leaves some.

    async def story() -> None:
        async with lone(tmp_path):
            for wait_ms in range(10):
                try:
                    client = await asyncio.wait_for(aconnect(tmp_path, timeout_s=PATIENCE_S), wait_ms / 1000)
                except TimeoutError:
                    continue
                await client.close()

    def left() -> list[str]:
        names = [one.name for one in set(threading.enumerate()) - before]
        return [one for one in names if one.startswith("albireo-client")]

    asyncio.run(story())
    assert awaited(left, lambda names: not names) == []


class HandsOver(logging.Handler):
    """Gives what the client tells to a loop and waits for it there, as a program's own handler may."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop, self.has_told, self.is_taken = loop, asyncio.Event(), asyncio.Event()

    def emit(self, _: logging.LogRecord) -> None:
        async def taken() -> None:
            self.has_told.set()
            await self.is_taken.wait()

        if not self.has_told.is_set():
            asyncio.run_coroutine_threadsafe(taken(), self.loop).result(PATIENCE_S)


def test_a_loop_does_not_stand_still_until_a_cancelled_client_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, log.name)

    async def story() -> float:
        handler = HandsOver(asyncio.get_running_loop())
        monkeypatch.setattr(log, "handlers", [handler])
        async with lone(tmp_path):
            connecting = asyncio.create_task(aconnect(tmp_path, timeout_s=PATIENCE_S))
            await handler.has_told.wait()
            began = time.monotonic()
            connecting.cancel()
            await asyncio.wait([connecting])
            stood_s = time.monotonic() - began
            handler.is_taken.set()
            return stood_s

    assert asyncio.run(story()) < END_S


WAITS: Final = 2 * WAITING_MAX
"""Waits of one client that a node would refuse, if they all went on there."""


def test_waits_that_are_cancelled_do_not_go_on_at_the_node(tmp_path: Path) -> None:
    async def story() -> None:
        async with lone(tmp_path), await aconnect(tmp_path, timeout_s=PATIENCE_S) as client:
            for _ in range(WAITS):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(client.inbox("jobs")), 0.005)
            assert await client.ask("receive", inbox="jobs", wait_ms=0) is None

    asyncio.run(story())


def test_a_wait_that_is_interrupted_does_not_go_on_at_the_node(tmp_path: Path) -> None:
    """The signal comes as the thread waits for the answer, as that of Ctrl-C does."""
    begun, is_over = threading.Event(), threading.Event()

    async def world() -> None:
        async with lone(tmp_path):
            begun.set()
            await aside(is_over.wait)

    def interrupts(*_: object) -> None:
        raise KeyboardInterrupt

    node = threading.Thread(target=lambda: asyncio.run(world()))
    node.start()
    before = signal.signal(signal.SIGALRM, interrupts)
    try:
        assert begun.wait(PATIENCE_S)
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            for _ in range(WAITS):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with pytest.raises(KeyboardInterrupt):
                    client.ask("receive", inbox="jobs", wait_ms=20_000, timeout_s=PATIENCE_S)
            assert client.ask("receive", inbox="jobs", wait_ms=0) is None
    finally:
        signal.signal(signal.SIGALRM, before)
        is_over.set()
        node.join()


def test_messages_that_were_taken_and_not_given_to_the_program_come_with_the_next_call() -> None:
    """As of a coroutine that makes `messages` anew for each one, and stops waiting for it after a while."""

    class Reading:
        def __init__(self) -> None:
            self.inbox, self.is_closed = MessageInbox(1), False
            for number in (1, 3):
                self.inbox.put(piece(number, None))

        def took(self, messages: list[TopicMessage]) -> list[TopicMessage]:
            return [msgspec.structs.replace(one, number=n) for one in messages for n in (one.number, one.number + 1)]

        def acknowledge(self, message: TopicMessage) -> None:
            pass

    async def story() -> list[int]:
        consumer = AsyncTopicConsumer(cast(MessageReading, Reading()))
        return [(await anext(consumer.messages(0.0))).number for _ in range(4)]

    consumer = TopicConsumer(cast(MessageReading, Reading()))
    assert [next(consumer.messages(0.0)).number for _ in range(3)] == [1, 2, 3]
    assert [one.number for one in consumer.take(0.0)] == [4]
    assert asyncio.run(story()) == [1, 2, 3, 4]


def test_a_producer_that_is_given_what_is_no_batch_ends_alone(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, client.producer("meter", [ITEM]) as other:
            odd = client.producer("odd", [DataItem(name="odd", value_type=ValueType.INT64)])
            with pytest.raises(ValueError, match="an array of numbers"):
                odd.offer([msgspec.structs.replace(batch(1), value=np.array([object()]))])
            with pytest.raises(ClientError, match="an error of ours"):
                odd.offer([msgspec.structs.replace(batch(1), value_type=5)])
                while True:
                    odd.wait(0.1)
            other.offer([batch(2)])
            assert other.flush(PATIENCE_S)
            for put in ({"headers": {"a": "\ud800"}}, {"key": "text"}):
                client._core.topics["t"] = Topic(topic_id=1, name="t", since_ns=0)
                with pytest.raises(ArgumentRefused):
                    client.topics.put("t", b"", **put)
            with pytest.raises(ValueError, match="a message is bytes"):
                client.topics.put("t", "text")  # type: ignore[arg-type]
            assert client.read("number").value == 2

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())
