"""Identities of connections over real keyed links: a peer chooses its own, and gains nothing by another one's."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from albireo.codec.frame import body_crc
from albireo.codec.message import Append, Appended, AppendEntry, AppendRefused, ProducerHello, ProducerWelcome
from albireo.codec.record import GapFound, Kind, Record, Stream, encode_records
from albireo.runtime.link.connection import Monitor
from albireo.runtime.link.dialing import TCP_LIMITS, BlockingDialer, Dialer
from albireo.runtime.link.link import Link
from albireo.runtime.link.sockets import Sockets
from tests.parts.core_pair import PLACES, Plant, aside, keyed_plant
from tests.parts.waiting import PATIENCE_S

METER, THIEF = "meter@hall", "thief@desk"
IDENTITY = b"meter#1"
HELLO = ProducerHello(producer="meter", run=1)


@contextmanager
def connected(plant: Plant, name: str) -> Iterator[Link]:
    """A connection to the primary with the key of `name`, and always with the same identity."""
    end = plant.lines[0].endpoint
    with ExitStack() as ends:
        sockets = Sockets()
        ends.callback(lambda: sockets.close(lingers=False))
        socket = sockets.dealer(TCP_LIMITS, IDENTITY)
        link = sockets.keep(Link(end, IDENTITY, socket, TCP_LIMITS.linger_ms))
        dialer = Dialer(link, socket, end, plant.keys[name], PLACES[0])
        BlockingDialer(dialer, Monitor(socket, sockets.pair())).wait_until_up(PATIENCE_S)
        yield link


def heard(link: Link) -> object:
    assert link.wait_for_input(PATIENCE_S)
    (letter,) = link.drain(1, 1).letters
    return letter.message


def answer_to_a_batch(link: Link, producer_id: int) -> object:
    records: list[Record] = [GapFound(source=HELLO.producer, reason="adapter_down", from_ns=1, to_ns=2)]
    body = encode_records(producer_id, 1, records)
    entry = AppendEntry(Stream.SAMPLES, Kind.RECORDS, len(records), body_crc(body))
    assert link.send(Append(entries=(entry,)), [body])
    return heard(link)


def steal(plant: Plant) -> None:
    with connected(plant, METER) as meter:
        assert meter.send(HELLO)
        welcome = heard(meter)
        assert isinstance(welcome, ProducerWelcome)
        with connected(plant, THIEF) as thief:
            refused = answer_to_a_batch(thief, welcome.producer_id)
            assert isinstance(refused, AppendRefused)
            assert refused.refusal.code == "unknown_producer", "the thief has opened none"
    with connected(plant, METER) as meter:
        assert isinstance(answer_to_a_batch(meter, welcome.producer_id), Appended), "its own key goes on"


@pytest.mark.slow
def test_a_key_with_the_identity_of_another_keys_connection_is_not_taken_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path, METER, THIEF) as plant:
            await aside(lambda: steal(plant))

    asyncio.run(story())
