"""A question that only this folder knows is asked by both clients, judged by its role, and checked by its shape."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pytest

from albireo.client import NodeRefused, aconnect, connect
from albireo.codec.message import Answer, Ask
from albireo.codec.questions.declared import QUESTIONS
from albireo.machine.answers import answers
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import AccessRole, RoleGrant
from tests.own.question.yodel import YODEL, YodelAnswers, YodelAsked
from tests.parts.client import lone
from tests.parts.core_pair import aside
from tests.parts.refusals import code, refused_with
from tests.parts.root import World
from tests.parts.waiting import PATIENCE_S

HERE = Path(__file__).parent


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The question is one of those that there are."""
    monkeypatch.setattr(answers, "PARTS", (*answers.PARTS, YodelAnswers))
    monkeypatch.setitem(QUESTIONS, YODEL.name, YODEL)
    yield


@pytest.mark.slow
@pytest.mark.usefixtures("known")
def test_both_clients_ask_it(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            told = client.ask_kind(YODEL, YodelAsked(word="ho", times=2))
            assert assert_type(told, list[str]) == ["ho", "ho"]
            with pytest.raises(NodeRefused, match=r"yodel: .*times"):
                client.ask("yodel", word="ho", times="often")

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)
            async with await aconnect(tmp_path, timeout_s=PATIENCE_S) as client:
                told = await client.ask_kind(YODEL, YodelAsked(word="ho"))
                assert assert_type(told, list[str]) == ["ho"]

    asyncio.run(world())


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("role", [AccessRole.VIEW, AccessRole.OPERATE])
def test_it_is_refused_by_role(role: AccessRole) -> None:
    world = World()
    world.step(KeysListed({"mes-1": RoleGrant(role)}))
    world.letter(b"m", Ask(request_id=1, what="yodel", arguments={"word": "ho"}), principal="mes-1")
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    if role is AccessRole.VIEW:
        assert code(answer) == "access"
        assert refused_with(answer).startswith("yodel ho needs the role operate at root; 'mes-1' has view")
    else:
        assert answer.result == ["ho"]


def test_without_its_declaration_nobody_knows_it() -> None:
    world = World()
    world.letter(b"m", Ask(request_id=1, what="yodel", arguments={"word": "ho"}), principal="")
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer) and code(answer) == "unknown_question"


def test_nothing_outside_this_folder_names_it() -> None:
    root = HERE.parents[2]
    naming = [
        path
        for path in (*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py"))
        if HERE not in path.parents and "yodel" in path.read_text().lower()
    ]
    assert naming == []
