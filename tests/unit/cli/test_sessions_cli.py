"""`albireo sessions` against a real node that stands alone, from its own machine and through its door with keys."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import AccessRefused, Client, NodeRefused, SessionOver, SessionRow, aconnect, connect
from albireo.machine.fold.people.sessions import SessionFold
from albireo.model.access import AccessRole
from tests.parts.access_cli import with_node
from tests.parts.core_pair import aside
from tests.parts.lone import LoneNode
from tests.parts.waiting import PATIENCE_S, awaited

LOCAL = f"local:{os.getuid()}"
pytestmark = [pytest.mark.slow]


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sessions", *arguments, "--data", str(data)])


def told(data: Path, *arguments: str) -> Any:
    result = run(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def listed(data: Path, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(data, "list", *arguments)["sessions"]
    return found


def session_of(client: Client, principal: str) -> SessionRow:
    """The session of a principal, once it is committed."""
    return awaited(lambda: [one for one in client.sessions() if one.principal == principal])[0]


def test_commands_of_one_user_are_one_session_that_is_listed_and_ended(tmp_path: Path) -> None:
    def story() -> None:
        rows = [row for _ in range(5) for row in listed(tmp_path)]
        while not rows:  # The first command may ask before its own session is committed.
            rows = listed(tmp_path)
        assert {(row["principal"], row["address"], row["role"]) for row in rows} == {(LOCAL, "localhost", "admin")}
        assert len({row["session_id"] for row in rows}) == 1
        table = run(tmp_path, "list").stdout
        assert f"{rows[0]['node']}:{rows[0]['session_id']}" in table and LOCAL in table
        nowhere = run(tmp_path, "list", "nowhere")
        assert nowhere.exit_code == 2 and "no node is called 'nowhere' here" in nowhere.stderr
        ended = told(tmp_path, "end", str(rows[0]["session_id"]), "--reason", "over", "--user", "anna")
        assert ended == {"session": str(rows[0]["session_id"]), "ended": True}
        for name, words in (
            ("x", "is no session"),
            ("4711", "no session 4711"),
            ("south:1", "a node 'south'"),
        ):
            result = run(tmp_path, "end", name)
            assert result.exit_code != 0 and words in result.output, result.output

    entries = [one for one in with_node(tmp_path, story) if one.action == "session_ended"]
    assert [(one.user, one.principal, one.detail) for one in entries] == [("anna", LOCAL, "over")]


def test_through_the_door_a_session_has_its_address_and_its_client_is_told_of_its_end(tmp_path: Path) -> None:
    node = LoneNode(tmp_path, "anna@desk", "mes-1", role=AccessRole.VIEW)

    def to(name: str) -> Any:
        return connect(node.endpoint, keys=node.keys[name].directory, timeout_s=PATIENCE_S)

    def both_present() -> list[tuple[str, str, str]]:
        with to("anna@desk") as anna, to("mes-1"):
            rows: list[SessionRow] = []
            while len(rows) < 2:
                rows = anna.sessions("root")
            return [(row.principal, row.address, row.role) for row in rows]

    def ended() -> None:
        with to("anna@desk") as anna, to("mes-1") as mes, connect(node.data, timeout_s=PATIENCE_S) as admin:
            watching = mes.watch(timeout_s=PATIENCE_S)
            next(watching)
            row = session_of(admin, "mes-1")
            with pytest.raises(AccessRefused, match="needs the role admin"):
                anna.end_session(row)
            admin.end_session(row, "shift is over")
            with pytest.raises(SessionOver, match="shift is over"):
                while True:
                    next(watching)
            for what, of in (("status", "core"), ("stats", "history")):
                with pytest.raises(SessionOver, match=f"ended by {LOCAL}: shift is over"):
                    mes.ask(what, of=of)
            with to("mes-1") as anew:
                assert anew.status().node == "root"
                own = session_of(admin, "mes-1")
                assert own.session_id > row.session_id
                anew.end_session(own, "my own")
                with pytest.raises(SessionOver):
                    anew.status()
            with pytest.raises(NodeRefused, match="no session"):
                admin.end_session(row)

    async def of_the_async_client() -> None:
        async with await aconnect(node.data, timeout_s=PATIENCE_S) as client:
            while not (found := [one for one in await client.sessions() if one.principal == LOCAL]):
                pass
            await client.end_session(found[0].session_id, "over")
            with pytest.raises(SessionOver):
                await client.status()

    async def story() -> None:
        async with node.core_up(), node.history_up():
            assert await aside(both_present) == [("anna@desk", "127.0.0.1", "view"), ("mes-1", "127.0.0.1", "view")]
            await aside(ended)
            await of_the_async_client()
            everybody = {one.principal for one in node.core.root.folds.of(SessionFold)}
            assert everybody <= {"anna@desk", "mes-1", LOCAL}, "no actor of the node is present"

    asyncio.run(story())
