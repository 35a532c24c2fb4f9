"""Peers come and go, and choose their identities: each is answered where it spoke, and is taken for nobody else."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from albireo.codec.frame import body_crc
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Append,
    Appended,
    AppendEntry,
    AppendRefused,
    Ask,
    FeedAck,
    ProducerHello,
    ProducerWelcome,
    WriteOrder,
)
from albireo.codec.record import GapFound, Kind, Record, Stream, encode_records
from albireo.model.item import DataItem
from albireo.model.position import BEGINNING
from albireo.model.value import ValueType
from albireo.node.core.actor import create
from albireo.runtime import Letter, running
from albireo.runtime.directory import RunDirectory
from albireo.runtime.link.link import DEFAULT_LIMITS, Link
from albireo.runtime.link.sockets import Sockets
from tests.parts.core_actor import ARGUMENTS
from tests.parts.waiting import PATIENCE_S

ACK = FeedAck(received=BEGINNING, durable=BEGINNING, credit_bytes=1)
STRANGERS = 10_000
IDENTITY = b"plc-1#1"
SET_POINT = DataItem(name="set_point", value_type=ValueType.FLOAT64, is_writable=True)
HELLO = ProducerHello(producer="plc-1", items=(SET_POINT,), run=1, takes_orders=True)
WRITE = Ask(request_id=2, what="write", arguments={"item": "set_point", "value": 1.0, "command_id": "c1"})


class Peer:
    """A program that chooses the identity of its connection."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def say(self, message: AnyMessage, raw: bytes | None = None) -> None:
        assert self._link.send(message, () if raw is None else (raw,))

    def hear(self) -> AnyMessage:
        assert self._link.wait_for_input(PATIENCE_S)
        (letter,) = self._link.drain(1, 1).letters
        return letter.message

    def asked(self, question: Ask) -> AnyMessage:
        self.say(question)
        return self.hear()


@contextmanager
def peer(data: Path, name: str, identity: bytes) -> Iterator[Peer]:
    with ExitStack() as ends:
        sockets = Sockets(RunDirectory(data, create=False))
        ends.callback(lambda: sockets.close(lingers=False))
        yield Peer(sockets.connect(name, DEFAULT_LIMITS, identity))


def appended(producer_id: int, sequence: int) -> tuple[Append, bytes]:
    records: list[Record] = [GapFound(source=HELLO.producer, reason="adapter_down", from_ns=1, to_ns=2)]
    body = encode_records(producer_id, sequence, records)
    return Append(entries=(AppendEntry(Stream.SAMPLES, Kind.RECORDS, 1, body_crc(body)),)), body


def speaks_as_the_adapter(data: Path) -> None:
    """Once an adapter has said hello, a guest on another link has the very identity of the adapter."""
    with peer(data, "core", IDENTITY) as adapter, peer(data, "guests", IDENTITY) as guest:
        adapter.say(HELLO)
        welcome = adapter.hear()
        assert isinstance(welcome, ProducerWelcome)
        guest.say(*appended(welcome.producer_id, 1))
        refused = guest.hear()
        assert isinstance(refused, AppendRefused)
        assert refused.refusal.code == "unknown_producer", "the guest has opened no producer"
        adapter.say(*appended(welcome.producer_id, 1))
        assert isinstance(adapter.hear(), Appended), "the adapter is answered on its own link"
        guest.say(WRITE)
        order = adapter.hear()
        assert isinstance(order, WriteOrder), "orders go to the adapter"


def test_a_guest_with_the_identity_of_an_adapter_is_not_taken_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path) as context:
            context.bind("guests")
            await asyncio.to_thread(speaks_as_the_adapter, tmp_path)

    asyncio.run(story())


def test_ten_thousand_short_lived_clients_leave_nothing_behind(tmp_path: Path) -> None:
    """They say a word that is not answered, so no send ever fails; a client from before them is heard all the same."""

    async def story() -> None:
        core = create(ARGUMENTS)
        async with running(core, tmp_path) as context:
            guests = context.bind("guests")
            with peer(tmp_path, "guests", b"early") as early:
                question = Ask(request_id=1, what="status")
                assert isinstance(await asyncio.to_thread(early.asked, question), Answer)
                entries = len(core._peers)
                for number in range(STRANGERS):
                    core.drained([Letter(guests, b"stranger%d" % number, ACK, [])])
                assert len(core._peers) == entries + 1, "all of them have the same link and principal"
                assert isinstance(await asyncio.to_thread(early.asked, question), Answer)

    asyncio.run(story())


def test_refused_hellos_do_not_push_other_lines_out_of_the_journal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        core = create(ARGUMENTS)
        async with running(core, tmp_path) as context:
            guests = context.bind("guests")
            hello = ProducerHello(producer="core", run=1)
            core.drained([Letter(guests, b"stranger", hello, []) for _ in range(200)])

    asyncio.run(story())
    assert capfd.readouterr().err.count("hello_refused") == 1
