"""The client at real nodes, alone and in pairs, over real links."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from albireo.client import (
    AnswerNotUnderstood,
    Changes,
    Client,
    ClientBusy,
    ClientClosed,
    ClientError,
    Delivered,
    KeyNotTrusted,
    NodeRefused,
    NodeUnreachable,
    NotDelivered,
    QuestionUnknown,
    TargetRefused,
    aconnect,
    connect,
)
from albireo.client.conversation import understood
from albireo.client.engine import CALLS_MAX
from albireo.client.questions import LOCKED_OUT_S, OPEN_MAX, Request
from albireo.codec import samples
from albireo.codec.message import ProducerHello, WriteOrder
from albireo.codec.record import Kind
from albireo.model.command import Outcome
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem, KnownItem
from albireo.model.value import ValueType
from albireo.runtime import SyncLink
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.keys import Keys
from tests.parts.client import lone, produce
from tests.parts.core_pair import PLACES, Plant, aside, keyed_plant, plant, until
from tests.parts.early_receipts import ITEM, batch, stored
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.slow]


def changed(client: Client, pattern: str, is_wanted: Callable[[Changes], bool]) -> Changes:
    """The first changes of this kind."""
    ends = boot_ns() + PATIENCE_S * SECOND
    for changes in client.watch(pattern, timeout_s=1.0):
        if is_wanted(changes):
            return changes
        assert boot_ns() < ends
    raise AssertionError


def tells_of_a_case(one: Changes, *, is_active: bool) -> bool:
    return any(now.is_active == is_active for now in one.cases)


def test_items_values_and_changes_of_a_lone_node(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            assert client.status().node == "root"
            produce(client, 1, 3)
            (found,) = client.items("number")
            assert (found.name, found.item.value_type, found.reading.value) == ("root:number", ValueType.INT64, 3)
            assert client.read("number").value == 3
            assert [one.value for one in client.read(["number", "root:number"])] == [3, 3]
            assert [one.value for one in changed(client, "numb*", lambda one: bool(one.readings)).readings] == [3]
            assert client.cases() == []
            with pytest.raises(NodeRefused, match="no item nothing") as refused:
                client.read("nothing")
            assert refused.value.what == "read"

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_ten_threads_get_their_own_answers_through_a_takeover(tmp_path: Path) -> None:
    def reads(client: Client, number: int, is_over: threading.Event) -> None:
        while not is_over.is_set():
            assert client.read(f"number_{number}").value == number
        assert client.read(f"number_{number}").value == number

    async def story() -> None:
        items = [DataItem(name=f"number_{number}", value_type=ValueType.INT64) for number in range(10)]
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
            producer = client.producer("meter", items)
            rows = [msgspec.structs.replace(batch(one), item_id=np.full(1, one, np.uint32)) for one in range(10)]
            producer.offer(rows)
            assert await aside(lambda: producer.flush(PATIENCE_S))
            is_over = threading.Event()
            with ThreadPoolExecutor(10) as threads:
                reading = [threads.submit(reads, client, number, is_over) for number in range(10)]
                await made.kill(0)
                await made.wait_for("", "solo")
                is_over.set()
                await aside(lambda: [one.result(PATIENCE_S) for one in reading])
            assert client.acting == 1
            await aside(client.close)

    asyncio.run(story())


def test_what_a_producer_took_is_recorded_once_through_a_takeover_that_nobody_waits_for(tmp_path: Path) -> None:
    """The program offers and does nothing else: the client's own thread has it all recorded."""

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
            producer = client.producer("p", [ITEM])
            for value in range(1, 101):
                producer.offer([batch(value)])
            await made.kill(0)
            for value in range(101, 201):
                producer.offer([batch(value)])
            await until(lambda: stored(made.cores[1], "p") == list(range(1, 201)), "all of it, once")
            await aside(client.close)

    asyncio.run(story())


def test_a_watch_goes_on_with_the_other_member_and_says_that_it_begins_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            async with await aconnect(made.lines, timeout_s=PATIENCE_S) as client:
                producer = client.producer("p", [ITEM])
                producer.offer([batch(1)])
                assert await producer.flush(PATIENCE_S)
                seen: list[tuple[object, bool]] = []
                async for changes in client.watch("number"):
                    seen += [(one.value, changes.is_whole) for one in changes.readings]
                    if seen == [(1, True)]:
                        await made.kill(0)
                        producer.offer([batch(2)])
                    if seen and seen[-1][0] == 2:
                        break
                assert any(is_whole for _, is_whole in seen[1:]), "the state of the other member, whole"
                assert client.acting == 1

    asyncio.run(story())


def test_a_slow_reader_gets_the_latest_values_and_is_told_what_was_joined(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, client.producer("p", [ITEM]) as producer:
            producer.offer([batch(0)])
            assert producer.flush(PATIENCE_S)
            slow = client.watch("number")
            assert next(slow).is_whole
            quick = client.watch("number")
            for value in range(1, 6):
                producer.offer([batch(value)])
                assert producer.flush(PATIENCE_S)
                while [one.value for one in next(quick).readings] != [value]:
                    pass
            changes = next(slow)
            assert [one.value for one in changes.readings] == [5]
            assert changes.joined >= 4
            assert not changes.is_whole

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_cases_are_acknowledged_and_shelved_by_name(tmp_path: Path) -> None:
    item = DataItem(name="level", value_type=ValueType.INT64, alarm=AlarmSettings(hi=10.0, severity=700))

    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S, name="anna") as client, client.producer("p", [item]) as producer:
            producer.offer([batch(11)])
            assert producer.flush(PATIENCE_S)
            watched = changed(client, "level", lambda one: bool(one.cases))
            (case,) = client.cases()
            assert (case.item, case.condition, case.severity, case.is_acked) == ("root:level", "hi", 700, False)
            assert watched.cases[0].case_id == case.case_id
            for later, value in ((20, 1), (30, 11)):
                producer.offer([msgspec.structs.replace(batch(value), source_ns=batch(later).source_ns)])
                assert producer.flush(PATIENCE_S)
                changed(client, "level", partial(tells_of_a_case, is_active=value > 10))
            for shown in (case, case.case_id):
                with pytest.raises(NodeRefused, match=f"acknowledge {case.case_id}.2"):
                    client.ack(shown)
            (now,) = client.cases()
            (acked,) = client.ack(now, "seen")
            assert (acked.is_acked, acked.actor, acked.comment) == (True, "anna", "seen")
            (shelved,) = client.shelve(case.case_id, duration_s=600)
            assert shelved.shelving == "timed"
            (back,) = client.unshelve(case.case_id)
            assert back.shelving == "unshelved"
            with pytest.raises(NodeRefused):
                client.ack(case.case_id + 1)

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_a_closed_client_says_so_to_who_waits_and_to_who_asks(tmp_path: Path) -> None:
    def story() -> None:
        client = connect(tmp_path, timeout_s=PATIENCE_S)
        watch = client.watch("nothing", timeout_s=None)
        assert next(watch).is_whole
        waiting = ThreadPoolExecutor(1).submit(next, watch)
        client.close()
        client.close()
        with pytest.raises(ClientClosed):
            waiting.result(PATIENCE_S)
        for ask in (client.status, client.items, lambda: next(client.watch()), lambda: client.producer("p", [ITEM])):
            with pytest.raises(ClientClosed) as closed:
                ask()
            assert "connect anew" in closed.value.remedy

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_a_forked_child_is_told_to_connect_anew(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            client._core.engine._process += 1  # As in a child, which has no such thread.
            with pytest.raises(ClientClosed, match="forked"):
                client.status()
            client._core.engine._process -= 1

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_a_producer_that_nobody_answers_says_what_is_not_delivered() -> None:
    (port,) = free_ports(1)
    client = connect(f"tcp://127.0.0.1:{port}", waits=False)
    producer = client.producer("p", [ITEM])
    producer.offer([batch(1), batch(2)])
    assert not producer.flush(0.01)
    with pytest.raises(NotDelivered, match="2 batches") as left:
        client.close(0.01)
    assert left.value.batches == 2


def test_a_program_that_waits_faster_than_its_client_works_is_not_too_busy() -> None:
    (port,) = free_ports(1)
    client, gate = connect(f"tcp://127.0.0.1:{port}", waits=False), threading.Event()
    producer = client.producer("p", [ITEM])
    client._core.engine.call(lambda: gate.wait(PATIENCE_S))
    producer.offer([batch(1)])
    for _ in range(2 * CALLS_MAX):
        assert not producer.wait(0)
    gate.set()
    with pytest.raises(NotDelivered):
        client.close(0.01)


def test_a_producer_whose_client_was_too_busy_asks_again() -> None:
    (port,) = free_ports(1)
    client, gate = connect(f"tcp://127.0.0.1:{port}", waits=False), threading.Event()
    producer, engine = client.producer("p", [ITEM]), client._core.engine
    begun = threading.Event()

    def stand_still() -> None:
        begun.set()
        gate.wait(PATIENCE_S)

    engine.post(stand_still, client._core._questions)
    assert begun.wait(PATIENCE_S)
    with pytest.raises(ClientBusy):
        while True:
            last = engine.call(int)
    with pytest.raises(ClientBusy):
        producer.offer([batch(1)])
    with pytest.raises(ClientBusy):
        producer.wait(0)
    gate.set()
    last.result(PATIENCE_S)
    producer.wait(0)
    engine.call(int).result(PATIENCE_S)
    assert not producer._desk.part.offers.is_waiting, "what was offered has left"
    with pytest.raises(NotDelivered):
        client.close(0.01)


def test_an_error_in_work_that_nobody_waits_for_ends_its_part_alone() -> None:
    (port,) = free_ports(1)
    client = connect(f"tcp://127.0.0.1:{port}", waits=False, timeout_s=0.1)
    producer, other = client.producer("p", [ITEM]), client.producer("q", [ITEM])
    client._core.engine.post(lambda: 1 // 0, producer._desk.part)
    with pytest.raises(ClientClosed, match="an error of ours: ZeroDivisionError"):
        producer.wait(PATIENCE_S)
    assert other.wait(0) == []
    with pytest.raises(NodeUnreachable):
        client.status()
    client.close()


def test_a_consumer_reads_each_record_once_from_either_member(tmp_path: Path) -> None:
    def numbers(client: Client, count: int) -> list[object]:
        found: list[object] = []
        with client.consumer() as consumer:
            ends = boot_ns() + PATIENCE_S * SECOND
            while len(found) < count:
                assert boot_ns() < ends
                for one in consumer.take(1.0):
                    if isinstance(one, Delivered):
                        found += [
                            value
                            for frame in one.frames
                            if frame.header.kind == Kind.INT64
                            for value in samples.decode_body(frame.body, Kind.INT64, frame.header.record_count).values()
                        ]
        return found

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            with connect(made.lines, waits=False, timeout_s=PATIENCE_S) as client:
                await aside(lambda: produce(client, 1, 50))
                assert await aside(lambda: numbers(client, 50)) == list(range(1, 51))

    asyncio.run(story())


def test_one_member_tells_where_the_other_one_is_and_both_directories_do_as_well(tmp_path: Path) -> None:
    def reads(client: Client) -> object:
        return client.read("number").value

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            by_door = await aside(lambda: connect(made.lines[1].endpoint, timeout_s=PATIENCE_S))
            by_directory = await aside(lambda: connect(tmp_path, timeout_s=PATIENCE_S))
            await aside(lambda: produce(by_door, 1, 5))
            assert [await aside(partial(reads, one)) for one in (by_door, by_directory)] == [5, 5]
            await made.kill(0)
            assert [await aside(partial(reads, one)) for one in (by_door, by_directory)] == [5, 5]
            for one in (by_door, by_directory):
                await aside(one.close)

    asyncio.run(story())


def test_keys_that_are_not_trusted_are_named_with_the_command_that_changes_it(tmp_path: Path) -> None:
    stranger = Keys.new(tmp_path / "stranger", "stranger@desk")

    def refused(made: Plant, keys: Keys | None, timeout_s: float = PATIENCE_S) -> ClientError:
        """Told at once where only keys are in the way, and nobody else may come."""
        with pytest.raises(ClientError) as raised:
            connect([one.endpoint for one in made.lines], keys=keys, timeout_s=timeout_s)
        assert f"within {min(timeout_s, LOCKED_OUT_S):g} s" in raised.value.cause
        return raised.value

    async def story() -> None:
        async with keyed_plant(tmp_path, "mes-1") as made:
            await made.start(1)
            here = await aside(lambda: refused(made, stranger))
            assert isinstance(here, KeyNotTrusted)
            assert "albireo keys trust" in here.remedy and str(stranger.directory) in here.remedy
            for name in PLACES:
                stranger.trust(name, made.keys[name].public)
            there = await aside(lambda: refused(made, stranger))
            assert isinstance(there, KeyNotTrusted)
            assert f"albireo keys trust stranger@desk {stranger.public}" in there.remedy
            without = await aside(lambda: refused(made, None, 2.0))
            assert isinstance(without, KeyNotTrusted) and "keys=" in without.remedy
            with await aside(lambda: connect(made.lines[0].endpoint, keys=made.keys["mes-1"])) as client:
                assert (await aside(client.status)).node == "root"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("tcp://127.0.0.1", TargetRefused),
        ("tcp://10.0.0.5:7700", TargetRefused),
        ("no/such/directory", TargetRefused),
        ([], TargetRefused),
    ],
)
def test_what_is_no_node_is_refused_at_once_with_a_remedy(target: str, error: type[ClientError]) -> None:
    with pytest.raises(error) as raised:
        connect(target)
    assert raised.value.remedy


def test_a_directory_without_a_node_and_a_port_without_one_are_unreachable(tmp_path: Path) -> None:
    with pytest.raises(NodeUnreachable, match="albireo node run"):
        connect(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(NodeUnreachable) as raised:
            connect(f"tcp://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.5)
    assert raised.value.remedy


def test_an_order_whose_member_dies_is_asked_for_at_the_other_and_never_given_twice(tmp_path: Path) -> None:
    """The adapter takes the order and says nothing; its member dies with it."""
    item = DataItem(name="out", value_type=ValueType.INT64, is_writable=True)

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            orders: list[WriteOrder] = []
            is_over = threading.Event()
            adapter = asyncio.create_task(asyncio.to_thread(hang, made, item, orders, is_over))
            await until(lambda: made.cores[0].root.registry.find("out"), "the item is known")
            client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
            order = asyncio.create_task(asyncio.to_thread(client.write, "out", 5, expires_s=5.0))
            await until(lambda: orders, "the adapter has it")
            await made.kill(0)
            receipt = await order
            assert receipt.outcome is Outcome.UNKNOWN
            assert len(orders) == 1
            is_over.set()
            await adapter
            await aside(client.close)

    asyncio.run(story())


def test_the_time_of_an_order_that_waits_for_a_member_begins_when_it_is_given(tmp_path: Path) -> None:
    """Nobody acts for a second and more; whoever does then has what is left of its time."""
    item = DataItem(name="out", value_type=ValueType.INT64, is_writable=True)

    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            orders: list[WriteOrder] = []
            is_over = threading.Event()
            adapter = asyncio.create_task(asyncio.to_thread(hang, made, item, orders, is_over))
            await until(lambda: made.cores[0].root.registry.find("out"), "the item is known")
            is_over.set()
            await adapter
            await made.kill(0)
            with connect(made.lines, waits=False) as client:
                began = boot_ns()
                order = asyncio.create_task(asyncio.to_thread(client.write, "out", 5, expires_s=PATIENCE_S))
                order.add_done_callback(lambda done: done.exception())
                await asyncio.to_thread(awaited, boot_ns, lambda now: now - began > SECOND)
                await made.start(0)
                is_over.clear()
                await made.wait_for("solo", "")
                adapter = asyncio.create_task(asyncio.to_thread(hang, made, item, orders, is_over, 2))
                try:
                    await until(lambda: orders, "the adapter has it")
                finally:
                    is_over.set()
                    await adapter
                given = made.cores[0].root.folds.commands.find(orders[0].command_id)
                assert given is not None and given.command.expires_ms <= (PATIENCE_S - 1) * 1000

    asyncio.run(story())


def hang(made: Plant, item: DataItem, orders: list[WriteOrder], is_over: threading.Event, run: int = 1) -> None:
    """An adapter of the primary that takes orders and never says what became of them."""
    with SyncLink(made.data(0), "core") as link:
        link.send(ProducerHello(producer="hanging", items=(item,), run=run, takes_orders=True))
        while not is_over.is_set():
            received = link.receive(0.1)
            if received is not None and isinstance(received[0], WriteOrder):
                orders.append(received[0])


def test_a_program_that_ends_without_closing_ends_at_once_and_says_nothing() -> None:
    program = (
        "from albireo import connect; from tests.unit.node.core.test_early_receipts import ITEM, batch\n"
        "client = connect('tcp://127.0.0.1:9', waits=False)\n"
        "client.producer('p', [ITEM]).offer([batch(1)])\n"
        "import logging; logging.getLogger('albireo.client').error('for who has set up logging')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_more_questions_than_a_client_keeps_open_are_refused() -> None:
    (port,) = free_ports(1)
    with connect(f"tcp://127.0.0.1:{port}", waits=False) as client:
        asked = []
        for _ in range(OPEN_MAX):
            asked.append(client._core.begin(Request(what="status")))
            client._core.engine.call(int).result()  # It has taken the question.
        with pytest.raises(ClientBusy):
            client.status()
    for one in asked:
        with pytest.raises(ClientClosed):
            one.result(PATIENCE_S)


def test_a_node_of_another_version_is_told_by_what_it_does_not_know_or_says_differently(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, pytest.raises(QuestionUnknown) as unknown:
            client.ask("invented_later")
        assert "version" in unknown.value.remedy

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())
    declared = {"item_id": 1, "node": "root", "item": {"name": "a", "value_type": 1, "invented_later": True}}
    with pytest.raises(AnswerNotUnderstood, match="invented_later"):
        understood("items", [declared], list[KnownItem])


def test_no_names_are_no_readings_and_patterns_choose_items(tmp_path: Path) -> None:
    items = [DataItem(name=f"number_{number}", value_type=ValueType.INT64) for number in range(12)]

    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, client.producer("meter", items) as producer:
            producer.offer([batch(1)])
            assert producer.flush(PATIENCE_S)
            assert client.read([]) == []
            assert [one.item.name for one in client.items("number_1?")] == ["number_10", "number_11"]
            assert [one.reading.value for one in client.items(["root:number_0", "number_5"])] == [1, None]
            assert client.items("nothing*") == []

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())
