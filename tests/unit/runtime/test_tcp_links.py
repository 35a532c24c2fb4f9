"""TCP links between two actors: nothing readable on the wire, names on letters, outages, changed and revoked keys."""

import asyncio
import select
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import psutil
import pytest

from albireo.codec.message import Ask
from albireo.runtime import (
    AddressTaken,
    EndpointRefused,
    Keys,
    Link,
    LinkLimits,
    PeerUnreachable,
    Reach,
    SyncLink,
    running,
)
from albireo.runtime.link import tcp
from albireo.runtime.link.connection import ConnectionEvent
from albireo.runtime.link.curve import is_loopback
from albireo.runtime.link.dialing import NO_KEY, Dialer, Listener
from albireo.runtime.link.key_files import TRUSTED_FILE, new_pair
from albireo.runtime.link.keys import introduce
from albireo.runtime.link.lines import Lines, LineTo
from albireo.runtime.link.probe import reach
from albireo.runtime.link.sockets import Sockets
from albireo.runtime.link.tcp import LOOK_S
from tests.parts.transport import ANY_PORT, CLIENT, SERVER, End, Wire, heard, key_pair, two_ends, until
from tests.parts.waiting import PATIENCE_S

MARKER = "marker-7f3a"


@pytest.mark.parametrize("has_keys", [True, False])
def test_what_is_said_can_be_read_on_the_wire_only_without_keys(tmp_path: Path, has_keys: bool) -> None:
    """A marker is sent both ways, as a map and as a raw part, through a cable that remembers every byte."""

    async def story() -> bytearray:
        keys = key_pair(tmp_path) if has_keys else (None, None)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(keys[0])
            wire = Wire(bound.endpoint)
            async with wire.laid() as endpoint:
                link = client.connect(endpoint, keys[1])
                await until(lambda: client.connections == [True])
                assert link.send(Ask(request_id=1, what=MARKER), [b"raw-" + MARKER.encode()])
                await until(lambda: client.letters)
            assert [client.said(), server.said()] == [[MARKER], [MARKER]]
            assert bytes(client.letters[0].raw[0]) == b"raw-" + MARKER.encode()
            return wire.bytes_seen

    seen = asyncio.run(story())
    assert len(seen) > 300, "the wire was not used"
    assert seen.count(MARKER.encode()) == (0 if has_keys else 4)
    assert (b"CURVE" in seen) == has_keys


def test_a_letter_says_under_which_name_its_senders_key_is_trusted(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        other_keys = Keys.new(tmp_path / "other-keys", "witness:w1")
        introduce(server_keys, other_keys)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            links = [client.connect(bound.endpoint, keys) for keys in (client_keys, other_keys)]
            for number, link in enumerate(links):
                await heard(client, link, f"from {number}")
        assert {letter.principal for letter in server.letters if letter.message == Ask(1, "from 0")} == {CLIENT}
        assert {letter.principal for letter in server.letters if letter.message == Ask(1, "from 1")} == {"witness:w1"}
        assert {letter.principal for letter in client.letters} == {SERVER}

    asyncio.run(story())


def test_without_keys_no_letter_has_a_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_ends(tmp_path) as (server, client):
            await heard(client, client.connect(server.bind(None).endpoint, None), "anybody")
        assert {letter.principal for letter in (*server.letters, *client.letters)} == {""}

    asyncio.run(story())


OPEN_TO_OTHERS = [
    "tcp://*:*",
    "tcp://0.0.0.0:7001",
    "tcp://[::]:7001",
    "tcp://10.0.0.5:7001",
    "tcp://eth0:7001",
    "tcp://localhost:7001",
    "tcp://127.0.0.1.example:7001",
    "tcp://[::ffff:127.0.0.1]:7001",
    "tcp://2130706433:7001",
]


@pytest.mark.parametrize("endpoint", OPEN_TO_OTHERS)
def test_without_keys_only_a_numeric_loopback_address_is_taken(tmp_path: Path, endpoint: str) -> None:
    async def story() -> None:
        async with two_ends(tmp_path) as (server, client):
            with pytest.raises(EndpointRefused, match="loopback"):
                server.bind(None, endpoint)
            with pytest.raises(EndpointRefused, match="loopback"):
                client.connect(endpoint, None)

    assert not is_loopback(endpoint)
    asyncio.run(story())


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:1", "tcp://127.9.9.9:*", "tcp://[::1]:7001"])
def test_these_are_loopback_addresses(endpoint: str) -> None:
    assert is_loopback(endpoint)


@pytest.mark.parametrize(
    "endpoint", ["", "tcp://", "tcp://h", "tcp://h:", "tcp://h:65536", "ipc://x", "tcp://a b:1", "tcp://::1:5", "h:1"]
)
def test_what_is_no_endpoint_is_refused_with_keys_as_well(tmp_path: Path, endpoint: str) -> None:
    async def story() -> None:
        keys, _ = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            with pytest.raises(EndpointRefused):
                server.bind(keys, endpoint)
            with pytest.raises(EndpointRefused):
                client.connect(endpoint, keys)

    asyncio.run(story())


def test_a_port_that_is_taken_is_said_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        keys, _ = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(keys)
            with pytest.raises(AddressTaken, match=bound.endpoint):
                client.bind(keys, bound.endpoint)

    asyncio.run(story())


def test_connections_that_come_and_go_are_told_to_both_ends(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            wire = Wire(server.bind(server_keys).endpoint)
            async with wire.laid() as endpoint:
                link = client.connect(endpoint, client_keys)
                assert not link.send(Ask(request_id=1, what="too early")), (
                    "nothing is held for a peer that is not there"
                )
                await until(lambda: client.connections == [True] and server.connections[-1:] == [True])
                before = len(server.connections)
                wire.cut()
                await until(lambda: client.connections == [True, False, True])
                await until(lambda: server.connections[-1])
                assert not server.connections[before]
                await heard(client, link, "after the cut")

    asyncio.run(story())


def test_the_end_of_the_peers_process_is_told_at_once(tmp_path: Path) -> None:
    """The kernel ends the connections of a process that is gone, with which a fast takeover begins."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        client = End("client")
        async with running(client, tmp_path / "client"):
            server = End("server")
            async with running(server, tmp_path / "server"):
                bound = server.bind(server_keys)
                client.connect(bound.endpoint, client_keys)
                await until(lambda: client.connections == [True])
                assert sessions_of(bound) == 1
            assert sessions_of(bound) == 0, "nothing lingers"
            await until(lambda: client.connections == [True, False])  # There is no timer that could tell it.

    asyncio.run(story())


def test_a_client_that_is_trusted_later_gets_in_without_a_restart(tmp_path: Path) -> None:
    """libzmq alone would never try again after the refusal."""

    async def story() -> None:
        server_keys = Keys.new(tmp_path / "server-keys", SERVER)
        client_keys = Keys.new(tmp_path / "client-keys", CLIENT)
        client_keys.trust(SERVER, server_keys.public)
        async with two_ends(tmp_path) as (server, client):
            link = client.connect(server.bind(server_keys).endpoint, client_keys)
            await until(lambda: False in server.connections)  # A refused one has ended.
            server_keys.trust(CLIENT, client_keys.public)
            await heard(client, link, "let in")

    asyncio.run(story())


@pytest.mark.slow
def test_a_server_that_is_trusted_later_is_dialled_then(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys = Keys.new(tmp_path / "server-keys", SERVER)
        client_keys = Keys.new(tmp_path / "client-keys", CLIENT)
        server_keys.trust(CLIENT, client_keys.public)
        async with two_ends(tmp_path) as (server, client):
            link = client.connect(server.bind(server_keys).endpoint, client_keys)
            assert not link.send(Ask(request_id=1, what="nobody is expected yet"))
            Keys.load(client_keys.directory).trust(SERVER, server_keys.public)  # As the command does, on disk.
            await heard(client, link, "dialled")

    asyncio.run(story())


def test_keys_are_looked_at_again_well_within_a_second_for_ever(tmp_path: Path) -> None:
    """A revocation takes effect within a second, together with the next test, on a machine that has time for it."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            client.connect(server.bind(server_keys).endpoint, client_keys)
            for end in (server, client):
                timers = end.actor._tcp._timers
                for _ in range(3):
                    timer = timers["keys"]
                    assert timer.when() - end.actor.loop.time() <= LOOK_S < 0.5
                    await until(partial(is_another, timers, timer))

    asyncio.run(story())


def is_another(timers: Mapping[object, asyncio.TimerHandle], timer: asyncio.TimerHandle) -> bool:
    return timers.get("keys", timer) is not timer


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_the_next_look_after_a_revocation_ends_the_live_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Another client's session of the same listener is back after that look as well."""
    monkeypatch.setattr(tcp, "LOOK_S", 3600.0)  # Only one look, and that one is ours.

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        other_keys = Keys.new(tmp_path / "other-keys", "witness:w1")
        introduce(server_keys, other_keys)
        other = End("other")
        async with two_ends(tmp_path) as (server, client), running(other, tmp_path / "other"):
            bound = server.bind(server_keys)
            link, other_link = client.connect(bound.endpoint, client_keys), other.connect(bound.endpoint, other_keys)
            await heard(client, link, "before")
            await heard(other, other_link, "before")
            (server_keys if where == "memory" else Keys.load(server_keys.directory)).revoke(CLIENT)
            server.actor._tcp.look_at_keys()
            await until(lambda: client.connections == [True, False])
            await until(lambda: other.connections == [True, False, True])
            await heard(other, other_link, "after")
            refused, ends = len(server.letters), server.connections.count(False)
            await until(lambda: server.connections.count(False) >= ends + 2)  # It has knocked again, more than once.
            assert not link.send(Ask(request_id=1, what="still there?"))
            assert {letter.principal for letter in server.letters[refused:]} <= {"witness:w1"}
            assert client.connections == [True, False]

    asyncio.run(story())


@pytest.mark.slow
def test_a_client_hangs_up_on_a_server_that_it_trusts_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            link = client.connect(bound.endpoint, client_keys)
            await heard(client, link, "before")
            client_keys.revoke(SERVER)
            await until(lambda: client.connections == [True, False] and sessions_of(bound) == 0)
            assert not link.send(Ask(request_id=1, what="after"))

    asyncio.run(story())


def test_whoever_hears_that_the_peer_is_there_can_speak_to_it_at_once(tmp_path: Path) -> None:
    """libzmq tells of the connection before the socket itself has taken it in."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        taken: list[bool] = []
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            for _ in range(10):
                link = client.connect(bound.endpoint, client_keys)
                link.on_connection = partial(greet, link, taken)
            await until(lambda: len(taken) == 10)
        assert taken == [True] * 10

    asyncio.run(story())


def greet(link: Link, taken: list[bool], is_up: bool) -> None:
    if is_up:
        taken.append(link.send(Ask(request_id=1, what="hello")))


@pytest.mark.slow
def test_a_listener_that_is_bound_anew_is_never_refused(tmp_path: Path) -> None:
    """A refusal says that the process is gone: a changed key must not look like that, not for a millisecond."""

    async def story() -> None:
        server_keys, _ = key_pair(tmp_path)
        seen: list[Reach] = []
        async with two_ends(tmp_path) as (server, _):
            bound = server.bind(server_keys)

            async def knock() -> None:
                while not is_over.is_set():
                    seen.append(await reach(bound.endpoint, PATIENCE_S))

            is_over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(knock())
                for _ in range(10):
                    server_keys.trust("guest", new_pair().public)
                    server.actor._tcp.look_at_keys()
                    server_keys.revoke("guest")
                    server.actor._tcp.look_at_keys()
                    knocks = len(seen)
                    await until(partial(exceeds, seen, knocks + 10))
                is_over.set()
            assert set(seen) == {Reach.OPEN} and len(seen) > 100
        assert await reach(bound.endpoint, PATIENCE_S) is Reach.REFUSED

    asyncio.run(story())


def exceeds(seen: list[Reach], count: int) -> bool:
    return len(seen) > count


def sessions_of(bound: Link) -> int:
    """Established connections of a listener, as the kernel sees them."""
    port = int(bound.endpoint.rpartition(":")[2])
    mine = psutil.Process().net_connections("tcp")
    return sum(one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED for one in mine)


def test_what_a_revoked_key_says_before_its_session_ends_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "LOOK_S", 3600.0)  # A look in between would end the session before anything is said.

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            link = client.connect(bound.endpoint, client_keys)
            await heard(client, link, "before")
            count = len(server.letters)
            server_keys.revoke(CLIENT)
            assert link.send(Ask(request_id=2, what="after"))
            await until(lambda: bound.untrusted)
            assert len(server.letters) == count

    asyncio.run(story())


@pytest.mark.slow
def test_a_revoked_peer_that_does_not_read_is_cut_off_as_well(tmp_path: Path) -> None:
    """Unsent data must not keep its session alive: every queue on the way is full before the revocation."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys, limits=LinkLimits(send_messages_max=20, stall_ms=3_600_000))
            link = client.connect(bound.endpoint, client_keys, limits=LinkLimits(receive_messages_max=5))
            await heard(client, link, "before")
            sender = server.letters[0].sender
            client.actor.loop.remove_reader(link.descriptor())  # It reads no more.
            for _ in range(3):  # Full, and still full when everything has moved on by one queue.
                await until(lambda: not bound.send(Ask(request_id=1, what="flood"), [bytes(200_000)], to=sender))
            assert sessions_of(bound) == 1
            server_keys.revoke(CLIENT)
            await until(lambda: sessions_of(bound) == 0)

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("rotating", [SERVER, CLIENT])
def test_a_key_changes_on_the_same_port_without_loss_of_service(tmp_path: Path, rotating: str) -> None:
    """Every step is taken on disk beside the running ends, and a question is answered after each of them."""

    async def story() -> None:
        keys = dict(zip((SERVER, CLIENT), key_pair(tmp_path), strict=True))
        other = CLIENT if rotating == SERVER else SERVER
        own, peer = (Keys.load(keys[name].directory) for name in (rotating, other))
        old = own.public
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(keys[SERVER])
            link = client.connect(bound.endpoint, keys[CLIENT])
            await heard(client, link, "before")
            following = own.begin_rotation()
            peer.trust(rotating, following)
            await until(lambda: len(keys[other].keys_of(rotating)) == 2)
            await heard(client, link, "both are trusted")
            assert client.connections == [True], "trusting one more key disturbs nobody"
            assert own.finish_rotation() == old
            await until(lambda: client.connections == [True, False, True])
            await heard(client, link, "the new one is in use")
            peer.revoke(rotating, old)
            await heard(client, link, "the old one is gone")
        assert keys[rotating].public == following
        assert {letter.principal for letter in server.letters} == {CLIENT}

    asyncio.run(story())


@pytest.mark.slow
def test_a_client_that_knows_both_keys_connects_before_and_after_the_change(tmp_path: Path) -> None:
    """A client that starts in the middle of a rotation finds the key that is in use."""

    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        client_keys.trust(SERVER, server_keys.begin_rotation())
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            await heard(client, client.connect(bound.endpoint, client_keys), "with the old key")
            server_keys.finish_rotation()
            await until(lambda: len(client.connections) >= 3)
            await heard(client, client.connect(bound.endpoint, client_keys), "with the new key")

    asyncio.run(story())


def test_a_key_directory_that_cannot_be_read_any_more_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            link = client.connect(server.bind(server_keys).endpoint, client_keys)
            await heard(client, link, "before")
            (server_keys.directory / TRUSTED_FILE).chmod(0o644)
            server.actor._tcp.look_at_keys()
            server.actor._tcp.look_at_keys()
            await heard(client, link, "after")
            assert client.connections == [True]
            assert "others may reach it (mode 0644); chmod 600" in server.actor.key_trouble()
            (server_keys.directory / TRUSTED_FILE).chmod(0o600)
            server.actor._tcp.look_at_keys()
            assert server.actor.key_trouble() == ""

    asyncio.run(story())


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    made = Sockets()
    yield made
    made.close(lingers=False)


def dialer_of(sockets: Sockets, keys: Keys) -> Dialer:
    socket = sockets.dealer(LinkLimits(), b"me")
    return Dialer(sockets.keep(Link("peer", b"me", socket, 0)), socket, "tcp://127.0.0.1:9", keys, SERVER)


def test_pauses_between_refused_handshakes_grow_to_half_a_second(tmp_path: Path, sockets: Sockets) -> None:
    _, keys = key_pair(tmp_path)
    dialer = dialer_of(sockets, keys)
    assert [dialer.pause_s() for _ in range(6)] == [0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    dialer.succeeded()
    assert dialer.pause_s() == 0.04


def test_the_peers_other_key_is_tried_soon_and_every_second_pause_grows(tmp_path: Path, sockets: Sockets) -> None:
    server, keys = key_pair(tmp_path)
    keys.trust(SERVER, server.begin_rotation())
    dialer = dialer_of(sockets, keys)
    assert [dialer.pause_s() for _ in range(6)] == [0.02, 0.04, 0.02, 0.08, 0.02, 0.16]


def test_a_listener_is_outdated_when_a_key_is_lost_and_not_when_one_is_won(tmp_path: Path, sockets: Sockets) -> None:
    server, _ = key_pair(tmp_path)
    third = Keys.new(tmp_path / "third-keys", "witness:w1")
    socket = sockets.router(LinkLimits())
    listener = Listener(sockets.keep(Link("peer", b"", socket, 0)), socket, ANY_PORT, server, "d")
    assert not listener.is_outdated()
    server.trust(third.name, third.public)
    assert not listener.is_outdated()
    server.revoke(third.name)
    assert listener.is_outdated()  # Won and lost again since it was bound.
    server.begin_rotation()
    listener.bind()
    assert not listener.is_outdated()
    server.finish_rotation()
    assert listener.is_outdated()


def test_a_program_without_a_loop_talks_to_a_node(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, _):
            endpoint = server.bind(server_keys).endpoint

            def program() -> object:
                with SyncLink.tcp(endpoint, client_keys, peer=SERVER, timeout_s=PATIENCE_S) as link:
                    assert link.receive(timeout_s=0.01) is None
                    assert link.send(Ask(request_id=7, what="status"), [b"raw"])
                    return link.receive(timeout_s=PATIENCE_S)

            answer = await asyncio.to_thread(program)
            assert answer == (Ask(request_id=7, what="status"), [b"raw"])
            assert [letter.principal for letter in server.letters] == [CLIENT]

    asyncio.run(story())


@pytest.mark.slow
def test_a_program_without_a_loop_survives_a_changed_server_key(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        client_keys.trust(SERVER, server_keys.begin_rotation())
        async with two_ends(tmp_path) as (server, _):
            endpoint = server.bind(server_keys).endpoint

            def program() -> object:
                with SyncLink.tcp(endpoint, client_keys, peer=SERVER, timeout_s=PATIENCE_S) as link:
                    server_keys.finish_rotation()
                    deadline = time.monotonic() + PATIENCE_S
                    while time.monotonic() < deadline:
                        was_bound_anew = False in server.connections
                        link.send(Ask(request_id=7, what="status"))
                        answer = link.receive(timeout_s=0.05)
                        if answer is not None and was_bound_anew:
                            return answer
                    return None

            assert await asyncio.to_thread(program) is not None

    asyncio.run(story())


class Program:
    """A program without a loop that goes on with the keys that it read as it began."""

    def __init__(self, endpoint: str, directory: Path) -> None:
        self.lines = Lines([LineTo(endpoint, SERVER)], Keys.load(directory))
        self.is_up = False
        self.answers = 0

    def until(self, is_so: Callable[["Program"], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so(self):
            assert time.monotonic() < deadline, self.lines.fate(0)
            select.select(self.lines.descriptors(), (), (), 0.05)
            for news in self.lines.take(set(self.lines.descriptors())):
                self.is_up = self.is_up if news.is_up is None else news.is_up
                self.answers += news.message is not None

    def is_answered(self) -> None:
        self.answers = 0
        self.until(lambda one: one.is_up and one.lines.send(0, Ask(request_id=7, what="status")))
        self.until(lambda one: one.answers > 0)


@pytest.mark.slow
def test_a_running_program_goes_on_through_changed_keys_and_trusts_a_revoked_one_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        server, client = Keys.load(server_keys.directory), Keys.load(client_keys.directory)
        async with two_ends(tmp_path) as (end, _):
            program = Program(end.bind(server_keys).endpoint, client_keys.directory)
            first, own = server.public, client.public
            await asyncio.to_thread(program.is_answered)
            client.trust(SERVER, server.begin_rotation())
            server.finish_rotation()
            await asyncio.to_thread(program.until, lambda one: not one.is_up)
            await asyncio.to_thread(program.is_answered)
            client.revoke(SERVER, first)
            server.trust(CLIENT, client.begin_rotation())
            client.finish_rotation()
            server.revoke(CLIENT, own)
            await asyncio.to_thread(program.until, lambda one: not one.is_up)
            await asyncio.to_thread(program.is_answered)
            client.revoke(SERVER)
            await asyncio.to_thread(program.until, lambda one: not one.is_up)
            assert program.lines.fate(0) == NO_KEY
            assert not program.lines.send(0, Ask(request_id=7, what="status"))
            program.lines.close()

    asyncio.run(story())


@pytest.mark.slow
def test_a_program_without_a_loop_is_told_why_nobody_answers(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        stranger = Keys.new(tmp_path / "stranger-keys", "desk")
        async with two_ends(tmp_path) as (server, _):
            endpoint = server.bind(server_keys).endpoint

            def why(keys: Keys, patience_s: float = PATIENCE_S) -> str:
                """The first word on it: a busy machine may need longer for one handshake than a link waits for it."""
                timeout_s = 0.2
                while True:
                    with pytest.raises(PeerUnreachable) as failed:
                        SyncLink.tcp(endpoint, keys, peer=SERVER, timeout_s=timeout_s)
                    timeout_s *= 2
                    if failed.value.reason != "nobody answers" or timeout_s > patience_s:
                        return failed.value.reason

            assert "no key of 'root[primary]' is trusted here" in await asyncio.to_thread(why, stranger)
            stranger.trust(SERVER, server_keys.public)
            assert await asyncio.to_thread(why, stranger) == ConnectionEvent.REFUSED.value
            stranger.revoke(SERVER)
            stranger.trust(SERVER, client_keys.public)
            assert await asyncio.to_thread(why, stranger) == ConnectionEvent.BROKEN_OFF.value
        assert await asyncio.to_thread(why, client_keys, 0.2) == "nobody answers"

    asyncio.run(story())


def test_no_descriptor_is_left_when_links_and_actors_have_ended(tmp_path: Path) -> None:
    async def story() -> None:
        server_keys, client_keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(server_keys)
            link = client.connect(bound.endpoint, client_keys)
            await heard(client, link, "before")
            link.close()
            await until(lambda: server.connections[-1] is False)
            bound.close()
            again = server.bind(server_keys)  # Its domain is a new one.
            await heard(client, client.connect(again.endpoint, client_keys), "again")

    asyncio.run(story())
    before = open_files()
    asyncio.run(_empty(tmp_path))
    assert open_files() <= before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def _empty(directory: Path) -> None:
    keys = Keys.load(directory / "server-keys")
    async with two_ends(directory) as (server, client):
        client.connect(server.bind(keys).endpoint, keys)
