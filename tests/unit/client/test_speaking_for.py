"""A client that speaks for a person: over the same connections, with that one's role, and for nobody else."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from albireo.client import AccessRefused, Client, NodeRefused, aconnect, connect
from albireo.client.conversation import asks
from albireo.codec.message import Ask
from albireo.codec.questions.boot import STOP
from albireo.codec.questions.kind import Handled, Nothing, taken
from albireo.codec.questions.node import STATUS
from albireo.codec.questions.people import ACCESS_GRANT, GrantAsked
from albireo.model.refusal import Refusal
from tests.parts.client import lone
from tests.parts.waiting import awaited

NOTHING: dict[str, Handled[object]] = {}
GIVEN = GrantAsked(principal="person:anna", role="operate", user="root")


def spoken(data: Path) -> None:
    threads = threading.active_count()
    with connect(data) as client:
        client.converse(asks(ACCESS_GRANT, GIVEN))
        with client.speaking_for("anna") as anna:
            assert anna.user == "anna" and anna.status() is not None
            awaited(lambda: "person:anna" in {one.principal for one in client.sessions()})
            with pytest.raises(AccessRefused, match="person:anna"):
                anna.converse(asks(ACCESS_GRANT, GIVEN))
            with pytest.raises(AccessRefused, match="only CORE"):
                anna.converse(asks(STOP, Nothing()))
            for begun in aside(anna):
                with pytest.raises(AccessRefused, match="only asks"):
                    begun()
        with pytest.raises(NodeRefused, match="no person has this name"):
            client.speaking_for("<b>").status()
        client.converse(asks(ACCESS_GRANT, GIVEN))
    assert threading.active_count() == threads


def aside(anna: Client) -> list[Callable[[], object]]:
    return [
        lambda: anna.producer("p", []),
        lambda: anna.consumer(),
        lambda: next(anna.follow_state()),
        lambda: next(anna.watch()),
    ]


def test_a_person_has_its_own_role_and_leaves_the_connection_open(tmp_path: Path) -> None:
    async def run() -> None:
        async with lone(tmp_path) as data:
            await asyncio.to_thread(spoken, data)

    asyncio.run(run())


def test_coroutines_speak_for_a_person_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with lone(tmp_path) as data, await aconnect(data) as client:
            await client.converse(asks(ACCESS_GRANT, GIVEN))
            for name, may in (("anna", False), ("bob", False)):
                async with client.speaking_for(name) as person:
                    await person.status()
                    with pytest.raises(AccessRefused):
                        await person.converse(asks(ACCESS_GRANT, GIVEN))
                    assert not may
            await client.status()

    asyncio.run(run())


def test_whoever_knows_no_persons_refuses_a_question_that_names_one() -> None:
    found: object = taken(NOTHING, Ask(request_id=1, what=STATUS.name, person="anna"))
    assert isinstance(found, Refusal) and found.code == "access"
