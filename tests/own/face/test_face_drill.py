"""Faces on real processes: one of the tests' own and CHP, beside a lone node and beside both members of a pair."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import Client, ClientError, TicketGiven, connect
from albireo.codec.message import Answer, Ask
from albireo.model.access import AccessRole
from albireo.runtime import Keys, SyncLink
from albireo.runtime.link.keys import introduce
from tests.parts.port import free_ports, free_row
from tests.parts.process_pair import ENVIRONMENT, MEMBERS, VOTERS, Pair
from tests.parts.refusals import refused_with
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

OFFERED = Path(__file__).parent / "offered"
ALBIREO = [sys.executable, "-c", "from albireo.cli import main; main()"]
NODE = "root"
TOPOLOGY = """cluster = "11111111-2222-3333-4444-555555555555"
[[node]]
id = "root"
"""
DESK = """[[node.face]]
name = "desk"
kind = "desk"
port = {port}
"""


@pytest.fixture(autouse=True)
def _offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the processes, and commands in this one, find the tests' own face as they find one that is installed."""
    monkeypatch.syspath_prepend(OFFERED)
    path = f"{OFFERED}:{ENVIRONMENT.get('PYTHONPATH', '')}"
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", path)


@contextlib.contextmanager
def node(home: Path, topology: str) -> Iterator[Path]:
    file, data = home / "topology.toml", home / "data"
    file.write_text(topology)
    with (home / "node.log").open("wb") as said:
        command = [*ALBIREO, "node", "run", "--topology", str(file), "--data", str(data)]
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        until(lambda: is_up(data))
        yield data
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def is_up(data: Path) -> bool:
    with connect(data, timeout_s=PATIENCE_S):
        return True


def asked(port: int) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as desk, desk.makefile() as lines:
        told: dict[str, Any] = json.loads(lines.readline())
        return told


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError, ClientError, ValueError):
            if is_so():
                return
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.05)  # Real processes: nothing else tells.


def actors(client: Client) -> dict[str, dict[str, Any]]:
    found: Any = client.ask("actors", of="boot")
    return {one["name"]: one for one in found}


def face_rows(client: Client) -> dict[str, str]:
    return {one.name: one.trouble for one in client.status().faces}


def cases_of_desk(client: Client) -> list[tuple[bool, str]]:
    """Those of the face alone: on a busy machine there is one of slow turns, too."""
    return [(one.is_active, str(one.message)) for one in client.cases() if one.item == "root:desk/running"]


@pytest.mark.parametrize("placement", ["process", "thread"])
def test_a_face_is_a_process_of_its_own_that_starts_anew_with_its_settings(tmp_path: Path, placement: str) -> None:
    (port,) = free_ports(1)
    topology = f'{TOPOLOGY}[node.runtime]\nplacement = "{placement}"\n{DESK.format(port=port)}'
    with node(tmp_path, topology) as data:
        until(lambda: "root:desk/running" in asked(port)["items"])
        with connect(data, timeout_s=PATIENCE_S, is_pinned=True) as client:
            until(lambda: client.read("desk/running").value is True)
            pids = {one["pid"] for one in actors(client).values()}
            desk = asked(port)
            assert (desk["word"], desk["node"], desk["acting"]) == ("welcome", "root", 0)
            assert desk["pid"] == actors(client)["face.desk"]["pid"]
            assert len(pids) == (2 if placement == "thread" else len(actors(client))), "boot's own is none of them"
            before = actors(client)
            (tmp_path / "topology.toml").write_text(topology + 'word = "come in"\n')
            applied = CliRunner().invoke(
                cli, ["topology", "apply", str(tmp_path / "topology.toml"), "--data", str(data), "--json"]
            )
            told = json.loads(applied.stdout.splitlines()[-1])
            assert (told["applied"], told["started_anew"]) == (True, ["desk"]), told
            until(lambda: asked(port)["word"] == "come in")
            after = actors(client)
            assert {name for name in after if after[name]["run"] != before[name]["run"]} == {"face.desk"}


def test_a_face_that_dies_is_a_case_that_ends_and_the_node_goes_on(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    dying = DESK.format(port=port) + "dies = true\n"
    with node(tmp_path, TOPOLOGY + dying) as data, connect(data, timeout_s=PATIENCE_S) as client:
        until(lambda: "the desk is closed" in face_rows(client)["desk"])
        until(lambda: bool(cases_of_desk(client)))
        ((is_active, message),) = cases_of_desk(client)
        assert is_active and "RuntimeError: the desk is closed" in message
        until(lambda: actors(client)["face.desk"]["restarts"] > 6)  # More than ends a node, of an essential actor.
        shown = CliRunner().invoke(cli, ["status", "--data", str(data)])
        assert "the face desk " in shown.output, shown.output
        file = tmp_path / "topology.toml"
        file.write_text(file.read_text().replace("dies = true", ""))
        assert CliRunner().invoke(cli, ["topology", "apply", str(file), "--data", str(data)]).exit_code == 0
        until(lambda: face_rows(client)["desk"] == "")
        until(lambda: not any(is_active for is_active, _ in cases_of_desk(client)))


def test_faces_of_both_members_follow_the_lead(tmp_path: Path) -> None:
    """Each asks its own member by the data directory, and the other one with the keys of its own."""
    ports = dict(zip(MEMBERS, free_ports(2), strict=True))
    faces = "".join(
        f'[[node.face]]\nname = "desk_{name}"\nkind = "desk"\nmember = "{name}"\nport = {port}\n'
        for name, port in ports.items()
    )
    pair = Pair(tmp_path, has_keys=True, adapters=faces)
    try:
        pair.start(*VOTERS, *MEMBERS)
        until(lambda: pair.run("pair", "init", member="primary")[0] == 0)
        lost = MEMBERS.index(pair.acting())
        until(lambda: all(asked(one)["acting"] == lost and asked(one)["items"] for one in ports.values()))
        pair.lose(MEMBERS[lost])
        survivor = MEMBERS[1 - lost]
        until(lambda: asked(ports[survivor])["acting"] == 1 - lost)
        with connect(pair.data(survivor), timeout_s=PATIENCE_S) as client:
            assert sorted(one for one in actors(client) if one.startswith("face.")) == [f"face.desk_{survivor}"]
    finally:
        pair.end()


def test_chp_is_a_face_of_the_topology(tmp_path: Path) -> None:
    port = free_row(3)
    chp = f'[[node.face]]\nname = "map"\nkind = "chp"\nbind = "tcp://127.0.0.1:{port}"\nsubtrees = ["/{NODE}/map/"]\n'
    with node(tmp_path, TOPOLOGY + chp), zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(f"tcp://127.0.0.1:{port}")

        def shows_itself() -> bool:
            dealer.send_multipart([b"ICANHAZ?", f"/{NODE}/map/".encode()])
            found: dict[bytes, dict[str, Any]] = {}
            while dealer.poll(1000):
                key, _, _, _, body = dealer.recv_multipart()
                if key == b"KTHXBAI":
                    return found.get(f"/{NODE}/map/running".encode(), {}).get("value") is True
                found[key] = json.loads(body)
            return False

        until(shows_itself)


class Visitor:
    """A program at the door of the desk."""

    def __init__(self, door: str, keys: Keys) -> None:
        self._link = SyncLink.tcp(door, keys, peer=NODE)
        self._number = 0

    def ask(self, what: str, **arguments: object) -> tuple[Any, str]:
        """Result and refusal of a question."""
        self._number += 1
        assert self._link.send(Ask(request_id=self._number, what=what, arguments=arguments))
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            received = self._link.receive(timeout_s=PATIENCE_S)
            assert received is not None
            if isinstance(received[0], Answer) and received[0].request_id == self._number:
                return received[0].result, refused_with(received[0])
        raise AssertionError("no answer")

    def close(self) -> None:
        self._link.close()


def test_a_door_of_a_face_lets_in_who_shows_a_ticket_until_its_session_ends(tmp_path: Path) -> None:
    (desk, hall), (end, inner, outer) = free_ports(2), free_ports(3)
    keys = [Keys.new(tmp_path / "data" / "keys", NODE)] + [
        Keys.new(tmp_path / name, name) for name in ("anna@desk", "mes-1")
    ]
    introduce(*keys, role=AccessRole.OPERATE)
    _, anna, mes = keys
    doors = (
        f'{DESK.format(port=desk)}door = "tcp://127.0.0.1:{inner}"\n'
        f'{DESK.format(port=hall).replace("desk", "hall", 1)}door = "tcp://127.0.0.1:{outer}"\n'
    )
    topology = f'{TOPOLOGY}endpoint = "tcp://127.0.0.1:{end}"\n{doors}'
    with node(tmp_path, topology) as data, contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(f"tcp://127.0.0.1:{end}", keys=anna, timeout_s=PATIENCE_S))
        told: list[TicketGiven] = []

        def has_tickets() -> bool:
            told[:] = [client.ticket(door) for door in ("hall", "desk")]
            return True

        until(has_tickets)  # A door opens a moment after its face runs.
        places = ((inner, anna), (inner, mes), (outer, anna))
        own, stranger, other = (Visitor(f"tcp://127.0.0.1:{port}", who) for port, who in places)
        for one in (own, stranger, other):
            stack.callback(one.close)
        ticket = told[-1].ticket
        assert told[-1].endpoint == f"tcp://127.0.0.1:{inner}"
        assert "shows a ticket" in own.ask("who")[1]
        assert "of 'anna@desk', and 'mes-1' shows it" in stranger.ask("ticket_show", ticket=ticket)[1]
        assert "is a ticket for the door desk, and here is hall" in other.ask("ticket_show", ticket=ticket)[1]
        renamed = ticket.replace(":desk:", ":hall:")
        assert "no such ticket" in other.ask("ticket_show", ticket=renamed)[1]
        elsewhere = f"root/north{ticket.removeprefix(NODE)}"
        assert "a ticket of the node root/north" in own.ask("ticket_show", ticket=elsewhere)[1]
        shown, refusal = own.ask("ticket_show", ticket=ticket)
        assert not refusal, refusal
        who, _ = own.ask("who")
        (session,) = [one for one in client.sessions() if one.principal == "anna@desk"]
        assert who == {"principal": "anna@desk", "session_id": session.session_id, "role": "operate"}
        assert shown["session_id"] == session.session_id
        with connect(data, timeout_s=PATIENCE_S) as admin:
            assert {one.principal for one in admin.sessions()} >= {"anna@desk"}
            admin.end_session(session.session_id, "went home")
        until(lambda: bool(own.ask("who")[1]))
        assert "is over" in own.ask("ticket_show", ticket=ticket)[1]
        with pytest.raises(ClientError):
            client.ticket("desk")


def test_what_can_not_be_is_a_mistake_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(f"""{TOPOLOGY}
[[node.face]]
name = "desk"
kind = "dekk"
[[node.face]]
name = "desk"
kind = "broken"
[[node.face]]
name = "host"
kind = "chp"
bnd = "tcp://127.0.0.1:5556"
[[node.face]]
name = "map"
kind = "chp"
member = "primary"
bind = "tcp://10.0.0.5:5556"
[[node.face]]
name = "door"
kind = "desk"
port = "many"
""")
    ran = CliRunner().invoke(cli, ["topology", "check", str(file), "--json"])
    mistakes = json.loads(ran.stdout.splitlines()[-1])["mistakes"]
    told = {(one["line"], one["key_path"].rpartition(".")[2]): one["text"] + one["remedy"] for one in mistakes}
    assert "no face of kind 'dekk'" in told[7, "kind"] and "'desk'" in told[7, "kind"]
    assert "something else of the name desk" in told[9, "name"]
    assert "No module named 'no_such_module'" in told[10, "kind"]
    assert "something else of the name host" in told[12, "name"]
    assert "'bnd' is not known" in told[14, "bnd"] and "'bind'" in told[14, "bnd"]
    assert "no pair" in told[18, "member"]
    assert "list the addresses of peers" in told[15, "face[3]"]
    assert "'many' is wrong" in told[23, "port"]
    assert len(mistakes) == 8, mistakes
