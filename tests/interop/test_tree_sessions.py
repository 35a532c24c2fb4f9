"""Sessions of a site are listed at every node above it, and ended from there."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from albireo.client import Client, NodeRefused, SessionOver, SessionRow, connect
from tests.parts.core_pair import aside
from tests.parts.tree import tree_of
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow
ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"


def seen(client: Client, pattern: str, count: int) -> list[SessionRow]:
    """The sessions, once there are so many."""
    return awaited(lambda: client.sessions(pattern), lambda rows: len(rows) == count)


def test_a_session_two_levels_down_is_listed_and_ended_at_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story_of() -> list[Any]:
        with (
            connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as chief,
            connect(nodes[PUMP].endpoint, timeout_s=PATIENCE_S) as program,
        ):
            (row,) = seen(chief, "pump", 1)
            assert (row.node, row.address, row.role, row.stale_since_ns) == (PUMP, "127.0.0.1", "admin", None)
            with connect(nodes[NORTH].endpoint, timeout_s=PATIENCE_S) as middle:
                assert [one.session_id for one in seen(middle, "*/pump", 1)] == [row.session_id]
            assert {one.node for one in seen(chief, "*", 3)} == {ROOT, NORTH, PUMP}
            with pytest.raises(NodeRefused, match="no session 4711 goes on at root/north/pump"):
                chief.end_session(4711, node="pump")
            chief.end_session(row, "shift is over")
            with pytest.raises(SessionOver, match="shift is over"):
                program.status()
            assert seen(chief, "pump", 0) == []
            (course,) = [one for one in chief.commands() if one.state == "executed"]
            return [course.kind, course.way[-1], course.subject.split()[1] == f"{PUMP}:{row.session_id}"]

    async def story() -> None:
        async with nodes[ROOT].core_up(), nodes[NORTH].core_up(), nodes[PUMP].core_up():
            assert await aside(story_of) == ["session_end", PUMP, True]

    asyncio.run(story())


def test_sessions_of_a_site_that_is_away_are_listed_as_last_heard(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def known() -> None:
        with connect(nodes[ROOT].endpoint) as chief, connect(nodes[NORTH].endpoint, timeout_s=PATIENCE_S):
            seen(chief, "north", 1)

    def stale() -> int | None:
        with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as chief:
            (row,) = awaited(lambda: chief.sessions("north"), lambda rows: rows[0].stale_since_ns)
            return row.stale_since_ns

    async def story() -> None:
        async with nodes[ROOT].core_up():
            async with nodes[NORTH].core_up():
                await aside(known)
            assert await aside(stale)

    asyncio.run(story())
