"""A CHP client of plain sockets, written from RFC 12, at the face of a real node; and peers that mean no good."""

import asyncio
import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import zmq

from albireo.client import Client, connect
from albireo.codec import samples
from albireo.codec.frame import body_crc
from albireo.codec.message import Append, AppendEntry, ProducerHello, ProducerWelcome, WriteDone, WriteOrder
from albireo.codec.record import Kind, Stream
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.runtime import SyncLink
from tests.parts.core_pair import aside, plant, until
from tests.parts.early_receipts import batch
from tests.parts.foreign import ForeignSockets
from tests.parts.interop_chp import RfcClient, face_at, node
from tests.parts.port import free_row
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

KEY = "/".join(["", "root", "number"]).encode()
"""Key of METER at the pair, whose node is `root`."""
OUT = DataItem(name="p1/out", value_type=ValueType.INT64, is_writable=True)
METER = DataItem(name="number", value_type=ValueType.INT64, unit="ppm")


class Device:
    """An adapter with one output, which becomes what it is ordered to be."""

    def __init__(self, data: Path) -> None:
        self.orders: list[WriteOrder] = []
        self._data = data
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Device":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with SyncLink(self._data, "core") as link:
            link.send(ProducerHello(producer="p1", items=(OUT,), run=1, takes_orders=True))
            welcome: ProducerWelcome | None = None
            number = 0
            while not self._is_over.is_set():
                received = link.receive(0.05)
                message = None if received is None else received[0]
                if isinstance(message, ProducerWelcome):
                    welcome = message
                    value = 1
                elif isinstance(message, WriteOrder):
                    assert isinstance(message.value, int)
                    self.orders.append(message)
                    value = message.value
                    link.send(WriteDone(receipt=Receipt(command_id=message.command_id, outcome=Outcome.VERIFIED)))
                else:
                    continue
                assert welcome is not None
                number += 1
                ids = np.array(welcome.item_ids, np.uint32)
                body = samples.encode_body(welcome.producer_id, number, batch(value), ids=ids)
                entry = AppendEntry(Stream.SAMPLES, Kind.INT64, 1, body_crc(body))
                link.send(Append(entries=(entry,)), [body])


def record(client: Client, *values: int) -> None:
    with client.producer("meter", [METER]) as producer:
        for value in values:
            producer.offer([batch(value)])
        assert producer.flush(PATIENCE_S)


def test_a_client_mirrors_a_subtree_and_sets_a_key(tmp_path: Path) -> None:
    def story() -> None:
        with contextlib.ExitStack() as stack:
            device = stack.enter_context(Device(tmp_path))
            client = stack.enter_context(connect(tmp_path, timeout_s=PATIENCE_S))
            record(client, 7)
            _, port, notes = stack.enter_context(face_at(tmp_path, is_set_allowed=True))
            foreign = stack.enter_context(ForeignSockets())
            whole, part = RfcClient(foreign, port), RfcClient(foreign, port, b"/site/p1/")
            whole.synchronise()
            whole.wait_for(lambda: whole.value(b"/site/number") == 7 and whole.value(b"/site/p1/out") == 1)
            number = whole.map[b"/site/number"]
            assert (number["quality"], number["unit"]) == ("Good", "ppm")
            assert number["source_ns"] == 1_800_000_000 * SECOND + 7
            part.synchronise()
            assert list(part.map) == [b"/site/p1/out"]

            record(client, 8)
            whole.wait_for(lambda: whole.value(b"/site/number") == 8)

            # Twice the same KVSET, as to two servers: one order. One without a UUID is another.
            uuid = bytes(range(16))
            for _ in range(2):
                part.set(b"/site/p1/out", b"42", b"ttl=60\n", uuid)
            part.wait_for(lambda: part.value(b"/site/p1/out") == 42)
            part.set(b"/site/p1/out", b"43")
            part.wait_for(lambda: part.value(b"/site/p1/out") == 43)
            whole.wait_for(lambda: whole.value(b"/site/p1/out") == 43)
            assert [one.value for one in device.orders] == [42, 43]
            assert device.orders[0].command_id == uuid.hex()

            # The node says no; the client hears nothing, and goes on.
            part.set(b"/site/number", b"1")
            part.set(b"/site/p1/out", b'"text"')
            part.set(b"/site/p1/out", b"44")
            part.wait_for(lambda: part.value(b"/site/p1/out") == 44)
            for words in ("not writable", "takes int64"):
                awaited(lambda words=words: any(one.what == "order" and words in one.detail for one in notes))  # type: ignore[misc]

    async def world() -> None:
        async with node(tmp_path):
            await aside(story)

    asyncio.run(world())


def test_while_the_node_is_gone_the_server_is_silent_and_then_has_the_present_state(tmp_path: Path) -> None:
    async def world() -> None:
        with contextlib.ExitStack() as stack:
            async with node(tmp_path):
                client = stack.enter_context(await aside(lambda: connect(tmp_path, timeout_s=PATIENCE_S)))
                await aside(lambda: record(client, 1))
                face, port, _ = stack.enter_context(await aside(lambda: face_at(tmp_path)))
                foreign = stack.enter_context(ForeignSockets())
                mirror = await aside(lambda: RfcClient(foreign, port))
                await aside(mirror.synchronise)
                first = mirror.sequence
            await until(lambda: not face.machine.is_live, "the face knows that the node is gone")
            published = face.machine.sequence
            async with node(tmp_path):
                await aside(lambda: record(client, 2))
                await aside(lambda: mirror.wait_for(lambda: mirror.value(b"/site/number") == 2))
                assert mirror.sequence > published >= first
                late = await aside(lambda: RfcClient(foreign, port))
                await aside(late.synchronise)
                assert late.value(b"/site/number") == 2
                await aside(stack.close)

    asyncio.run(world())


def test_a_face_of_a_pair_goes_on_over_a_takeover_and_numbers_rise(tmp_path: Path) -> None:
    async def story() -> None:
        with contextlib.ExitStack() as stack:
            async with plant(tmp_path) as made:
                await made.start(1)
                await made.wait_for("active", "ready")
                client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
                await aside(lambda: record(client, 1))
                _, port, _ = stack.enter_context(await aside(lambda: face_at(made.lines)))
                foreign = stack.enter_context(ForeignSockets())
                mirror = await aside(lambda: RfcClient(foreign, port))
                await aside(mirror.synchronise)
                await aside(lambda: mirror.wait_for(lambda: mirror.value(KEY) == 1))
                before = mirror.sequence
                await made.kill(0)
                await made.wait_for("", "solo")
                await aside(lambda: record(client, 2))
                await aside(lambda: mirror.wait_for(lambda: mirror.value(KEY) == 2))
                assert mirror.sequence > before
                await aside(stack.close)
                await aside(client.close)

    asyncio.run(story())


def test_peers_that_send_anything_do_not_keep_others_from_their_map(tmp_path: Path) -> None:
    """Noise at each port in frames and without, parts that are too large or too many, and floods of each command."""
    chance = random.Random(12)

    def story() -> None:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(connect(tmp_path, timeout_s=PATIENCE_S))
            record(client, 1)
            face, port, notes = stack.enter_context(face_at(tmp_path, is_set_allowed=True))
            foreign = stack.enter_context(ForeignSockets())
            mirror = RfcClient(foreign, port)
            mirror.synchronise()
            for at in range(port, port + 3):
                for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", chance.randbytes(5_000), b"\xff" + bytes(8) + b"\x7f"):
                    raw = stack.enter_context(socket.create_connection(("127.0.0.1", at)))
                    with contextlib.suppress(OSError):
                        raw.sendall(noise)
            dealer = foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}")
            silent = foreign.open(zmq.DEALER, f"tcp://127.0.0.1:{port}", RCVHWM=1, RCVBUF=1)
            publisher = foreign.open(zmq.PUB, f"tcp://127.0.0.1:{port + 2}")
            deaf = foreign.open(zmq.SUB, f"tcp://127.0.0.1:{port + 1}", SUBSCRIBE=b"", RCVHWM=1, RCVBUF=1)
            for one in (publisher, deaf):
                foreign.wait_for(one, zmq.EVENT_HANDSHAKE_SUCCEEDED)
            for _ in range(2_000):
                dealer.send_multipart([chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(1, 8))])
                publisher.send_multipart([chance.randbytes(chance.randrange(40)) for _ in range(5)])
                publisher.send_multipart([b"/site/number", bytes(8), b"", b"", chance.randbytes(3)])
                silent.send_multipart([b"ICANHAZ?", b""])
            dealer.send_multipart([b"x"] * 50_000)
            dealer.send(bytes(100_000))
            publisher.send_multipart([b"/site/number", bytes(8), b"", b"", bytes(1_000_000)])
            for value in range(2, 30):
                record(client, value)
            mirror.wait_for(lambda: mirror.value(b"/site/number") == 29)
            other = RfcClient(foreign, port)
            other.synchronise()
            assert other.value(b"/site/number") == 29
            told = face.machine.describe()
            assert told["request_malformed"] > 1_000
            assert told["set_malformed"] > 1_000
            assert len(notes) < 100

    async def world() -> None:
        async with node(tmp_path):
            await aside(story)

    asyncio.run(world())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal_and_says_what_it_did(tmp_path: Path, number: signal.Signals) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client, ForeignSockets() as foreign:
            record(client, 5)
            port = free_row(3)
            command = [sys.executable, "-c", "from albireo.cli import main; main()", "chp", "--data", str(tmp_path)]
            command += ["--bind", f"tcp://127.0.0.1:{port}", "--subtree", "/site/", "--json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                mirror = RfcClient(foreign, port)
                mirror.synchronise()
                assert mirror.value(b"/site/number") == 5
                mirror.set(b"/site/number", b"6")
                mirror.wait_for(lambda: mirror.hugs >= 3)
                process.send_signal(number)
                out, told = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
                process.wait()
            done = json.loads(out)
            assert process.returncode == 0
            assert (done["snapshots"], done["set_not_allowed"]) == (1, 1)
            assert "set_not_allowed: clients may set nothing here" in told

    async def world() -> None:
        async with node(tmp_path):
            await aside(story)

    asyncio.run(world())
