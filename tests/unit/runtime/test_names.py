"""Names of hosts are looked up aside, the last good addresses stay, and each is tried.

The resolver of the system is what a test makes silent, refuse, lie and change.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from albireo.runtime import Keys, PeerUnreachable, Reach, SyncLink
from albireo.runtime.link import names as names_module
from albireo.runtime.link.lines import Lines, LineTo
from albireo.runtime.link.names import LOOKUPS_MAX, HostNames
from albireo.runtime.link.port import opened
from albireo.runtime.link.probe import reach
from tests.parts.name_server import REFUSED, SILENT, NamesOfSystem
from tests.parts.transport import SERVER, End, Wire, heard, key_pair, two_ends, until
from tests.parts.waiting import PATIENCE_S

NOBODY = "127.0.0.77"
"""An address of this machine at which nobody listens."""


def is_lost(client: End, number: int) -> bool:
    """The link has ended more than `number` times."""
    return client.connections.count(False) > number


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[NamesOfSystem]:
    monkeypatch.setattr(names_module, "FRESH_S", 0.0)
    made = NamesOfSystem(monkeypatch)
    yield made
    made.goes_on.set()


def looked_up(names: HostNames, host: str) -> tuple[str, ...]:
    """Addresses after one more lookup."""
    names.addresses(host)
    names._known[host].lookup.result(PATIENCE_S)
    return names._known[host].meaning.addresses


def test_a_name_server_that_is_silent_holds_nobody(system: NamesOfSystem) -> None:
    system.answers["silent.plant"] = SILENT
    names = HostNames()
    assert [names.addresses("silent.plant") for _ in range(100)] == [()] * 100
    assert "silent.plant stands for nothing here (the name server has not answered yet)" == names.told("silent.plant")
    assert system.asked == ["silent.plant"], "one lookup at a time"
    system.answers["quick.plant"] = ("10.0.0.5",)
    assert names.addresses("quick.plant", PATIENCE_S) == ("10.0.0.5",), "one name does not wait for another"


def test_the_last_good_addresses_stay_until_others_are_told(system: NamesOfSystem) -> None:
    names, host = HostNames(), "b.plant"
    system.answers[host] = ("10.0.0.5", "fd00::5")
    assert looked_up(names, host) == ("10.0.0.5", "fd00::5")
    system.answers[host] = REFUSED
    assert looked_up(names, host) == ("10.0.0.5", "fd00::5")
    assert names.told(host) == "b.plant stands for 10.0.0.5, fd00::5 here (Temporary failure in name resolution)"
    system.answers[host] = ("10.0.0.6",)
    assert looked_up(names, host) == ("10.0.0.6",)
    names.prove("tcp://b.plant:7001", "10.0.0.5")
    assert names.ways("tcp://b.plant:7001", host) == ("10.0.0.5", "10.0.0.6")
    assert names.ways("tcp://b.plant:7002", host) == ("10.0.0.6",)


def test_lookups_are_bounded(system: NamesOfSystem) -> None:
    names = HostNames()
    for number in range(2 * LOOKUPS_MAX):
        system.answers[f"{number}.many"] = SILENT
        names.addresses(f"{number}.many")
    assert len(names.asked()) == LOOKUPS_MAX


def test_numbers_and_localhost_ask_nobody(system: NamesOfSystem) -> None:
    system.answers |= dict.fromkeys(("localhost", "10.0.0.5", "::1"), SILENT)
    names = HostNames()
    assert [names.addresses(one) for one in ("10.0.0.5", "::1")] == [("10.0.0.5",), ("::1",)]
    assert names.addresses("localhost") == ("127.0.0.1", "::1")
    assert not system.asked


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.0.1.1"])
def test_a_listener_with_a_name_is_found_at_every_address_of_its_machine(system: NamesOfSystem, address: str) -> None:
    system.answers["own.plant"] = SILENT
    port = opened("door", "tcp://own.plant:0")
    try:
        socket.create_connection((address, port.getsockname()[1]), PATIENCE_S).close()
    finally:
        port.close()
    assert not system.asked


def test_localhost_is_listened_to_on_this_machine_only() -> None:
    port = opened("door", "tcp://localhost:0")
    assert port.getsockname()[0] == "127.0.0.1"
    port.close()


def test_each_address_of_a_name_is_tried(tmp_path: Path, system: NamesOfSystem) -> None:
    async def story() -> None:
        keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            port = server.bind(keys[0]).endpoint.rpartition(":")[2]
            system.answers["two.plant"] = ("::1", NOBODY, "127.0.0.1")
            await heard(client, client.connect(f"tcp://two.plant:{port}", keys[1]), "one of them")

    asyncio.run(story())


def test_a_link_lives_through_a_lying_a_silent_and_a_changing_name_server(
    tmp_path: Path, system: NamesOfSystem
) -> None:
    """A lie from the beginning ends with the truth; a later one, or silence, is outlived at the proven address."""

    async def story() -> None:
        keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            wire = Wire(server.bind(keys[0]).endpoint)
            async with wire.laid() as endpoint:
                named = endpoint.replace("127.0.0.1", "liar.plant")
                system.answers["liar.plant"] = (NOBODY,)
                link = client.connect(named, keys[1])
                await until(lambda: len(system.asked) > 1)
                assert client.connections == []
                system.answers["liar.plant"] = ("127.0.0.1",)
                await heard(client, link, "the truth")
                for number, answer in enumerate(((NOBODY,), REFUSED, SILENT)):
                    system.answers["liar.plant"] = answer
                    wire.cut()
                    await until(partial(is_lost, client, number))
                    await heard(client, link, f"again {number}")

    asyncio.run(story())


def test_a_refusal_proves_something_only_where_the_peer_was(tmp_path: Path, system: NamesOfSystem) -> None:
    """A wrong answer of a name server must not make a peer look gone."""

    async def story() -> None:
        keys = key_pair(tmp_path)
        async with two_ends(tmp_path) as (server, client):
            bound = server.bind(keys[0])
            named = bound.endpoint.replace("127.0.0.1", "probed.plant")
            system.answers["probed.plant"] = (NOBODY,)
            assert await reach(named, PATIENCE_S) is Reach.SILENT
            system.answers["probed.plant"] = ("127.0.0.1",)
            await heard(client, client.connect(named, keys[1]), "here")
            system.answers["probed.plant"] = (NOBODY,)
            assert await reach(named, PATIENCE_S) is Reach.OPEN
            bound.close()
            async with asyncio.timeout(PATIENCE_S):  # libzmq closes its copy of the port a moment later.
                while await reach(named, PATIENCE_S) is not Reach.REFUSED:
                    pass

    asyncio.run(story())


def test_a_program_hears_that_nobody_knows_the_name(tmp_path: Path, system: NamesOfSystem) -> None:
    _, keys = key_pair(tmp_path)
    system.answers["mute.plant"] = SILENT
    with pytest.raises(PeerUnreachable, match=r"mute\.plant stands for nothing here \(the name server has not"):
        SyncLink.tcp("tcp://mute.plant:7001", keys, peer=SERVER, timeout_s=0.1)


def test_lines_wait_for_no_name_and_come_up_when_it_is_known(tmp_path: Path, system: NamesOfSystem) -> None:
    async def story() -> None:
        keys = key_pair(tmp_path)
        system.answers["later.plant"] = SILENT
        async with two_ends(tmp_path) as (server, _):
            port = server.bind(keys[0]).endpoint.rpartition(":")[2]
            lines = Lines([LineTo(f"tcp://later.plant:{port}", SERVER)], Keys.load(keys[1].directory))
            assert "later.plant stands for nothing" in lines.fate(0)
            system.answers["later.plant"] = ("127.0.0.1",)
            system.goes_on.set()
            await until(lambda: any(one.is_up for one in lines.take(set(lines.descriptors()))))
            lines.close()

    asyncio.run(story())


def test_a_machine_without_a_thread_left_ends_nobody_and_the_name_is_looked_up_later(
    system: NamesOfSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of tasks or of memory: whoever dialled ended by it, and never asked for the name again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    system.answers["b.plant"] = ("10.0.0.5",)
    names = HostNames()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        for _ in range(2 * LOOKUPS_MAX):
            assert names.addresses("b.plant", PATIENCE_S) == ()
        assert "can't start new thread" in names.told("b.plant")
    assert names.addresses("b.plant", PATIENCE_S) == ("10.0.0.5",)
