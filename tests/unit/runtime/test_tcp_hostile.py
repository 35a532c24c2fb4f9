"""Peers that must not get in do not: wrong, unknown and revoked keys, other mechanisms, garbage, a foreign server.

Each story ends with an honest client that is served on the same listener, so that silence is no proof by accident.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from albireo.codec.message import Ask, encode
from albireo.runtime import Keys, LinkLimits
from albireo.runtime.link.connection import ConnectionEvent
from albireo.runtime.link.curve import call_as, prepare, serve_as
from albireo.runtime.link.dialing import Dialer, Listener
from albireo.runtime.link.key_files import new_pair
from albireo.runtime.link.link import Link
from albireo.runtime.link.sockets import Sockets
from albireo.runtime.link.zap import HandshakeRefusal, judge
from tests.parts.transport import ANY_PORT, CLIENT, SERVER, Foreign, heard, key_pair, two_ends, until
from tests.parts.waiting import PATIENCE_S

WORDS = [bytes(part) for part in encode(Ask(request_id=1, what="let me in"), [])]
FAILED = (ConnectionEvent.REFUSED, ConnectionEvent.BROKEN_OFF)


def unknown_key(foreign: Foreign, server: Keys, _client: Keys) -> None:
    pair = new_pair()
    foreign.as_client(pair.public, pair.secret, server.public)


def revoked_key(foreign: Foreign, server: Keys, client: Keys) -> None:
    pair = new_pair()
    server.trust("gone", pair.public)
    server.revoke("gone")
    foreign.as_client(pair.public, pair.secret, server.public)


def servers_own_public_key_as_client(foreign: Foreign, server: Keys, _client: Keys) -> None:
    """Public keys are public: knowing them must not be enough."""
    foreign.as_client(server.public, new_pair().secret, server.public)


def trusted_public_key_without_its_secret(foreign: Foreign, server: Keys, client: Keys) -> None:
    foreign.as_client(client.public, new_pair().secret, server.public)


def trusted_key_for_another_server(foreign: Foreign, _server: Keys, client: Keys) -> None:
    foreign.as_client(client.public, client.pair.secret, new_pair().public)


def no_mechanism(_foreign: Foreign, _server: Keys, _client: Keys) -> None:
    """NULL is what a socket speaks that was told nothing."""


def user_and_password(foreign: Foreign, _server: Keys, _client: Keys) -> None:
    foreign.socket.setsockopt_string(zmq.PLAIN_USERNAME, CLIENT)
    foreign.socket.setsockopt_string(zmq.PLAIN_PASSWORD, "secret")


INTRUDERS = [
    unknown_key,
    revoked_key,
    servers_own_public_key_as_client,
    trusted_public_key_without_its_secret,
    trusted_key_for_another_server,
    no_mechanism,
    user_and_password,
]


@pytest.mark.parametrize("arm", INTRUDERS)
def test_an_intruder_gets_nothing_and_gives_nothing(tmp_path: Path, arm: Callable[[Foreign, Keys, Keys], None]) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            with Foreign() as foreign:
                arm(foreign, server_keys, client_keys)
                foreign.socket.connect(bound.endpoint)
                foreign.socket.send_multipart(WORDS)
                await until(lambda: any(foreign.has_heard(told) for told in FAILED))
                await heard(client, client.connect(bound.endpoint, client_keys), "honest")
                assert not foreign.has_heard(ConnectionEvent.PROVEN)
                assert foreign.received() == []
            assert set(server.said()) == {"honest"}

    asyncio.run(story())


@pytest.mark.parametrize("answer", [None, b"300", b"500"])
@pytest.mark.slow
def test_no_session_without_a_handler_that_says_yes(tmp_path: Path, answer: bytes | None) -> None:
    """The listener's own options are what makes it fail closed: here nobody handles handshakes, or not with 200."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        with Foreign(zmq.ROUTER) as server, Foreign() as client:
            gate = server.gate() if answer is not None else None
            prepare(server.socket, ANY_PORT, server_keys)
            serve_as(server.socket, server_keys.pair, "domain")
            server.socket.bind(ANY_PORT)
            call_as(client.socket, client_keys.pair, server_keys.public)
            client.socket.connect(server.socket.getsockopt_string(zmq.LAST_ENDPOINT))
            client.socket.send_multipart(WORDS)

            def ended() -> bool:
                if gate is not None and gate.poll(0):
                    asker, _, version, request_id, *_ = gate.recv_multipart()
                    gate.send_multipart([asker, b"", version, request_id, answer or b"", b"", b"", b""])
                return any(server.has_heard(told) for told in FAILED)

            await until(ended)
            assert not server.has_heard(ConnectionEvent.PROVEN)
            assert server.received() == []

    asyncio.run(story())


def test_a_server_with_another_key_is_told_nothing(tmp_path: Path) -> None:
    """Somebody took the address of our peer. He lets everybody in, and still he hears nothing from us."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        impostor_keys = Keys.new(tmp_path / "impostor-keys", SERVER)
        impostor_keys.trust(CLIENT, client_keys.public)
        async with two_ends(tmp_path) as (impostor, client):
            link = client.connect(impostor.bind(impostor_keys).endpoint, client_keys)
            await until(lambda: impostor.connections.count(False) >= 3)
            assert not link.send(Ask(request_id=1, what="anybody there?"))
            assert client.connections == []
            assert impostor.letters == []
        assert server_keys.public != impostor_keys.public

    asyncio.run(story())


def test_a_trusted_key_of_another_name_is_not_the_peer_that_is_expected(tmp_path: Path) -> None:
    """A witness's machine can't pose as the other member, though both are trusted."""

    async def story() -> None:
        _, client_keys = key_pair(tmp_path)
        witness_keys = Keys.new(tmp_path / "witness-keys", "witness:w1")
        witness_keys.trust(CLIENT, client_keys.public)
        client_keys.trust("witness:w1", witness_keys.public)
        async with two_ends(tmp_path) as (witness, client):
            endpoint = witness.bind(witness_keys).endpoint
            client.connect(endpoint, client_keys, peer=SERVER)
            await until(lambda: witness.connections.count(False) >= 2)
            assert client.connections == []
            await heard(client, client.connect(endpoint, client_keys, peer="witness:w1"), "by its own name")

    asyncio.run(story())


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, bytes(64)])
def test_garbage_on_the_port_disturbs_nobody(tmp_path: Path, garbage: bytes) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            host, _, port = bound.endpoint.removeprefix("tcp://").rpartition(":")
            for _ in range(20):
                with socket.create_connection((host, int(port))) as raw, contextlib.suppress(ConnectionError):
                    raw.sendall(garbage)  # It may be cut off in the middle.
            await heard(client, client.connect(bound.endpoint, client_keys), "honest")
            assert set(server.said()) == {"honest"}

    asyncio.run(story())


@pytest.mark.slow
def test_who_says_nothing_is_cut_off(tmp_path: Path) -> None:
    """An open connection is a descriptor of ours: who does not prove who he is must not keep it."""

    async def story() -> None:
        server_keys, _ = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, _):
            bound = server.bind(server_keys)
            host, _, port = bound.endpoint.removeprefix("tcp://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(4096):
                    pass
            writer.close()

    asyncio.run(story())


def test_the_options_that_hold_nothing_back_and_never_ping(tmp_path: Path) -> None:
    """Pings, and queues that outlive their connection, make libzmq 4.3.5 abort the process: see ADR 0102."""
    keys, _ = key_pair(tmp_path)
    sockets = Sockets()
    limits = LinkLimits(holds_for_peer=True, stall_ms=1234)
    router, dealer = sockets.router(limits), sockets.dealer(limits, b"me")
    Listener(sockets.keep(Link("a", b"", router, 0)), router, ANY_PORT, keys, "d")
    Dialer(sockets.keep(Link("b", b"me", dealer, 0)), dealer, "tcp://127.0.0.1:9", keys, SERVER)
    for made, handshake_ms in ((router, 15_000), (dealer, 2000)):
        assert made.getsockopt(zmq.HEARTBEAT_IVL) == 0
        assert made.getsockopt(zmq.TCP_MAXRT) == 1234
        assert made.getsockopt(zmq.HANDSHAKE_IVL) == handshake_ms
        assert made.getsockopt(zmq.CONNECT_TIMEOUT) == 1000
        assert made.getsockopt(zmq.TCP_KEEPALIVE) == 1
    assert dealer.getsockopt(zmq.IMMEDIATE) == 1
    assert (dealer.getsockopt(zmq.RECONNECT_IVL), dealer.getsockopt(zmq.RECONNECT_IVL_MAX)) == (20, 500)
    sockets.close(lingers=False)


KEY = bytes(range(32))
KNOWN = {"peer#1": lambda public: "witness:w1" if public == KEY.hex() else ""}


def asked(
    *credentials: bytes, version: bytes = b"1.0", domain: bytes = b"peer#1", mechanism: bytes = b"CURVE"
) -> list[bytes]:
    return [version, b"7", domain, b"10.0.0.9", b"", mechanism, *credentials]


def test_a_trusted_key_is_let_in_and_becomes_the_user_of_its_messages() -> None:
    verdict = judge(asked(KEY), KNOWN)
    assert verdict is not None
    assert verdict.reply == [b"1.0", b"7", b"200", b"", KEY.hex().encode(), b""]
    assert verdict.refusal is None


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (asked(bytes(32)), "key not trusted"),
        (asked(KEY, domain=b""), "no such domain"),
        (asked(KEY, domain=b"peer"), "no such domain"),
        (asked(KEY, domain=b"\xff"), "no such domain"),
        (asked(KEY, mechanism=b"NULL"), "no CURVE key"),
        (asked(KEY, mechanism=b"GSSAPI"), "no CURVE key"),
        (asked(b"user", b"password", mechanism=b"PLAIN"), "no CURVE key"),
        (asked(), "no CURVE key"),
        (asked(KEY, KEY), "no CURVE key"),
        (asked(KEY[:31]), "no CURVE key"),
        (asked(KEY + b"\0"), "no CURVE key"),
        (asked(b""), "no CURVE key"),
    ],
)
def test_everything_else_is_refused_with_a_reason(request_: list[bytes], reason: str) -> None:
    verdict = judge(request_, KNOWN)
    assert verdict is not None
    assert verdict.reply[1:3] == [b"7", b"400"]
    assert verdict.reply[4] == b"", "no user id for anybody who is refused"
    assert verdict.refusal is not None
    assert (verdict.refusal.reason, verdict.refusal.address) == (reason, "10.0.0.9")


@pytest.mark.parametrize("request_", [[], [b"1.0"], asked(KEY)[:5], asked(KEY, version=b"2.0"), [b""] * 9])
def test_what_is_no_request_is_not_answered(request_: list[bytes]) -> None:
    assert judge(request_, KNOWN) is None


def test_a_refusal_is_plain_data_for_the_log() -> None:
    verdict = judge(asked(bytes(32)), KNOWN)
    assert verdict is not None
    assert verdict.refusal == HandshakeRefusal(
        domain="peer#1", address="10.0.0.9", public="00" * 32, reason="key not trusted"
    )
