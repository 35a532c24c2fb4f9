"""The door of a lone node over real sockets: who gets in with which key, what is said without, and what is asked."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.principal import Audience, KeyedEnd
from albireo.model import quality as q
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND
from albireo.model.status import HandedOn
from albireo.runtime import Keys, running
from albireo.runtime.errors import AddressTaken, PeerUnreachable
from albireo.runtime.link.link import Link
from tests.parts.core_pair import aside
from tests.parts.history import DAY_ZERO
from tests.parts.keyed_ports import said
from tests.parts.lone import NODE, LoneNode, Program, asked_until
from tests.parts.message import MESSAGES, plain
from tests.parts.refusals import refused_with
from tests.parts.transport import End, until

OPERATOR = "operator@desk"
KINDS = (OPERATOR, "root[backup]", "north[primary]", "witness:w1")
ROWS = [(0, DAY_ZERO + at * SECOND, float(at), int(q.GOOD)) for at in range(2_000)]


@contextlib.asynccontextmanager
async def speaker(lone: LoneNode, name: str) -> AsyncIterator[Link]:
    end = End("speaker")
    async with running(end, lone.home / "speaker"):
        link = end.connect(lone.endpoint, lone.keys[name], NODE)
        await until(lambda: end.connections == [True])
        yield link


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_key_is_heard_as_the_table_says(tmp_path: Path, name: str) -> None:
    """A lone node expects no member: only programs are heard."""

    async def story() -> None:
        lone = LoneNode(tmp_path, *KINDS)
        async with lone.core_up(), speaker(lone, name) as link:
            door = lone.core._membership.door.link
            assert door is not None
            allowed = Audience(KeyedEnd.CLIENT).hears(name)
            assert bool(allowed) == (name == OPERATOR)
            heard, _ = await said(link, door, name, [plain(one) for one in MESSAGES])
            assert heard == len(allowed)
            assert lone.core._membership.door.describe(HandedOn(), "").not_heard == len(MESSAGES) - heard

    asyncio.run(story())


@pytest.mark.slow
def test_a_key_that_is_not_trusted_does_not_get_in(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR)
        stranger = Keys.new(tmp_path / "keys" / "stranger", "stranger")
        stranger.trust(NODE, lone.keys[NODE].public)
        async with lone.core_up():
            with pytest.raises(PeerUnreachable):
                await aside(lambda: Program(lone.endpoint, stranger, 1.0))

    asyncio.run(story())


def asked(lone: LoneNode) -> tuple[Any, list[Any]]:
    """Status, and the values recorded, both through the door."""
    lone.produce(OPERATOR, ROWS)
    span = {"from_ns": DAY_ZERO, "to_ns": DAY_ZERO + 10_000 * SECOND}
    with lone.program(OPERATOR) as program:
        (item,) = program.result("items", names=["co"])
        wanted = {**span, "item_ids": [item["item_id"]], "rows_max": 300}
        asked_until(program, lambda found: found["rows"] == 300, "history_piece", "history", **wanted)
        found = program.pieces("history_piece", **wanted)
        return program.result("status"), found.column("value_f64").to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("programs", [(OPERATOR,), ()], ids=["keys", "no keys, by option"])
def test_values_are_recorded_and_history_is_asked_through_the_door(tmp_path: Path, programs: tuple[str, ...]) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, *programs, is_open_without_keys=True)
        async with lone.core_up(), lone.history_up():
            status, values = await aside(partial(asked, lone))
        assert values == [row[2] for row in ROWS]
        door = status["door"]
        assert (door["endpoint"], door["closed_because"]) == (lone.endpoint, "")
        assert door["with_keys"] == bool(programs)
        assert door["history"]["handed_on"] >= 7

    asyncio.run(story())


@pytest.mark.slow
def test_a_program_at_the_door_has_the_role_that_the_keys_of_the_node_give(tmp_path: Path) -> None:
    """A viewer may ask the history, and write nothing."""

    def looks(lone: LoneNode) -> str:
        with lone.program(OPERATOR) as program:
            asked_until(program, lambda found: "files" in found, "stats", "history")
            return refused_with(program.ask("write", item="co", value=1.0, command_id="c", user="u")[0])

    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR, role=AccessRole.VIEW)
        async with lone.core_up(), lone.history_up():
            assert "needs the role operate" in await aside(partial(looks, lone))

    asyncio.run(story())


def test_without_keys_and_without_the_option_the_door_stays_closed_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path)
        async with lone.core_up():
            assert lone.core._membership.door.link is None
            told = lone.core._membership.door.describe(HandedOn(), "")
            assert f"albireo keys new root --data {lone.data}" in told.closed_because
            with pytest.raises(PeerUnreachable):
                await aside(lambda: Program(lone.endpoint, None, 1.0))

    asyncio.run(story())


@pytest.mark.slow
def test_a_door_whose_address_is_taken_ends_core_before_it_grants_itself_an_epoch(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR)
        host, _, port = lone.endpoint.removeprefix("tcp://").rpartition(":")
        with socket.create_server((host, int(port))):
            with pytest.RaisesGroup(pytest.RaisesExc(AddressTaken, match="clients.*in use")):
                async with lone.core_up():
                    pass
        assert lone.core.log.history.epoch == 0

    asyncio.run(story())
