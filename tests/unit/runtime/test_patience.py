"""The patience of links with peers that are far: what is waited for, and what a broken handshake is called."""

import asyncio
import socket
from pathlib import Path

import pytest

from albireo.client import NodeUnreachable, connect
from albireo.drill.relay import CableSpec, Relay
from albireo.model.instant import MS, Instant
from albireo.runtime.link.curve import host_and_port
from albireo.runtime.link.patience import CONNECT_FAR_MS, CONNECT_MS, Patience, PatienceBounds
from tests.parts.port import free_port
from tests.parts.transport import heard, key_pair, two_ends

BOUNDS = PatienceBounds(least_ms=2000, most_ms=15_000)


def at(ms: float) -> Instant:
    return Instant(int(ms * MS))


def test_a_handshake_that_was_not_done_in_time_has_more_the_next_time_up_to_most() -> None:
    patience, times = Patience(BOUNDS), []
    for _ in range(4):
        times.append(patience.handshake_ms)
        patience.begin(at(100))
        assert patience.broken_off(at(99 + patience.handshake_ms)), "news of the begin may come late"
    assert times == [2000, 6000, 15_000, 15_000]


def test_one_that_was_broken_off_before_has_not() -> None:
    patience = Patience(BOUNDS)
    patience.begin(at(100))
    assert not patience.broken_off(at(1600))
    assert patience.handshake_ms == 2000


@pytest.mark.parametrize(("took_ms", "then_ms"), [(1, 2000), (900, 3600), (9000, 15_000)])
def test_what_a_handshake_took_says_how_long_the_next_may_take(took_ms: int, then_ms: int) -> None:
    patience = Patience(BOUNDS)
    patience.begin(at(0))
    patience.proven(at(took_ms))
    assert patience.handshake_ms == then_ms


def test_each_second_attempt_that_nobody_answers_waits_longer_unless_the_peer_is_near() -> None:
    far, near = Patience(BOUNDS), Patience(BOUNDS, is_near=True)
    times = []
    for _ in range(4):
        times.append(far.connect_ms)
        for one in (far, near):
            one.begin(at(0))
        assert far.unanswered(at(far.connect_ms))
        assert not near.unanswered(at(near.connect_ms))
    assert times == [CONNECT_MS, CONNECT_FAR_MS] * 2
    assert near.connect_ms == CONNECT_MS


def test_an_attempt_that_was_refused_says_nothing_of_the_way() -> None:
    patience = Patience(BOUNDS)
    patience.begin(at(0))
    assert not patience.unanswered(at(3))
    assert patience.connect_ms == CONNECT_MS


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_peer_is_heard_over_a_round_trip_of_800_ms(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            port = free_port()
            relay = Relay(port, host_and_port(server.bind(server_keys).endpoint)[1], way=CableSpec(delay_s=0.4))
            relay.begin()
            link = client.connect(f"tcp://127.0.0.1:{port}", client_keys)
            await heard(client, link, "far")
            await asyncio.to_thread(relay.end)

    asyncio.run(story())


@pytest.mark.timeout(60)
def test_who_takes_connections_and_says_nothing_is_not_in_time_and_keys_are_not_blamed(tmp_path: Path) -> None:
    """A node behind a way that is too slow looks like that."""
    _, keys = key_pair(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        end = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(NodeUnreachable) as refused:
            connect(end, keys=keys, timeout_s=3.0)
    assert "not done in time" in refused.value.cause
    assert "trust" not in refused.value.remedy
