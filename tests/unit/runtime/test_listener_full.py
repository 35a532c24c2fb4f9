"""Connections that prove nothing: a listener takes so many and no more, and nobody who is in notices."""

import asyncio
import socket
from pathlib import Path

import pytest

from albireo.runtime import Reach
from albireo.runtime.link import curve, dialing, tcp
from albireo.runtime.link.connection import ConnectionEvent, ConnectionNews
from albireo.runtime.link.dialing import connections_max
from albireo.runtime.link.patience import PatienceBounds
from albireo.runtime.link.probe import reach
from tests.parts.transport import heard, key_pair, two_ends, until
from tests.parts.waiting import PATIENCE_S

MOST = 4


def knock(endpoint: str) -> socket.socket:
    """A connection of somebody who says nothing."""
    return socket.create_connection(curve.host_and_port(endpoint), PATIENCE_S)


@pytest.mark.slow
def test_above_a_number_of_connections_new_ones_get_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is no refusal, which would say that the process is gone."""
    monkeypatch.setattr(dialing, "CONNECTIONS_MAX", MOST)

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            server.actor.tcp.bounds = PatienceBounds(least_ms=2000, most_ms=3_600_000)  # This test ends them.
            bound = server.bind(server_keys)
            (listener,) = server.actor._tcp._listeners
            link = client.connect(bound.endpoint, client_keys)
            await until(lambda: client.connections == [True])
            knocks = [knock(bound.endpoint) for _ in range(MOST - 1)]
            await until(lambda: listener.is_full)
            assert await reach(bound.endpoint, 0.2) is Reach.SILENT
            await heard(client, link, "who is in stays")
            knocks.pop().close()
            await until(lambda: not listener.is_full)
            assert await reach(bound.endpoint, PATIENCE_S) is Reach.OPEN
            for one in knocks:
                one.close()
            assert client.connections == [True]

    asyncio.run(story())


def test_a_listener_that_missed_the_end_of_connections_counts_them_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "CONNECTIONS_MAX", MOST)
    monkeypatch.setattr(tcp, "RECOUNT_S", 0.01)

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            links = server.actor._tcp
            (listener,) = links._listeners
            for descriptor in range(1 << 20, (1 << 20) + MOST):  # Nothing is open there.
                links._heard_by_listener(listener, ConnectionNews(ConnectionEvent.ACCEPTED, descriptor))
            assert listener.is_full
            link = client.connect(bound.endpoint, client_keys)
            await heard(client, link, "let in")

    asyncio.run(story())


def test_a_listener_takes_a_quarter_of_the_descriptors_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((100, 25), (1 << 20, dialing.CONNECTIONS_MAX), (-1, dialing.CONNECTIONS_MAX)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, -1))
        assert connections_max() == most
