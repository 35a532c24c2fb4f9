"""The list of questions: whole, without doubles, printed in docs/node-protocol.md, with one handler at each place."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.codec.questions.declared import QUESTIONS, SUBJECTS, AnyKind, asked_of, questions_table
from albireo.codec.questions.kind import Answerer, Handled, arguments_of, by_name
from albireo.codec.questions.messages import MessageAsked
from albireo.codec.questions.node import STATUS
from albireo.codec.questions.orders import CommandsAsked
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.offered import KnownKinds
from albireo.model.access import AccessRole
from albireo.model.topology import find_place
from albireo.node.apply import TopologyInUse
from albireo.node.boot import specs_of
from albireo.node.member.admin_actions import AdminActions
from albireo.runtime.actor.supervisor import Supervisor
from albireo.runtime.text_reader import TextReader
from tests.parts.lone import LoneNode
from tests.parts.pair import Table
from tests.parts.root import World

PAGE = Path(__file__).parents[4] / "docs" / "node-protocol.md"
TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"

[[node]]
id = "root"
"""


def test_the_page_has_the_list_as_it_is() -> None:
    assert questions_table() in PAGE.read_text()


def test_every_question_stands_in_the_list_once() -> None:
    names = [one.name for subject in SUBJECTS for one in subject.KINDS]
    assert sorted(names) == sorted(QUESTIONS)
    for subject in SUBJECTS:
        declared = [one for one in vars(subject).values() if isinstance(one, type(subject.KINDS[0]))]
        assert declared == list(subject.KINDS), subject.__name__


def kinds(handlers: Mapping[str, Handled[Any]]) -> set[AnyKind]:
    """The questions of one place, as objects: another one of the same name is none of the list."""
    assert all(name == one.kind.name for name, one in handlers.items())
    return {one.kind for one in handlers.values()}


def declared(*places: Answerer) -> set[AnyKind]:
    return {QUESTIONS[name] for place in places for name in asked_of(place)}


def test_core_answers_its_questions() -> None:
    assert kinds(World().root.answers.handlers) == declared(Answerer.CORE, Answerer.ACTING)


def test_a_member_answers_its_questions(tmp_path: Path) -> None:
    actions = Table(tmp_path).sides[0].actions
    assert isinstance(actions, AdminActions)
    assert kinds(actions.handlers) == declared(Answerer.MEMBER)


def test_a_history_answers_its_questions(tmp_path: Path) -> None:
    async def story() -> None:
        async with LoneNode(tmp_path).history_up() as historian:
            assert kinds(historian.handlers) == declared(Answerer.HISTORY, Answerer.HANDED_ON)

    asyncio.run(story())


def test_boot_answers_its_questions(tmp_path: Path) -> None:
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    loaded = load_topology("topology.toml", TextReader(tmp_path), KnownKinds())
    assert isinstance(loaded, LoadedTopology)
    in_use = TopologyInUse(loaded, find_place(loaded.topology, "root"), lambda _: loaded, specs_of, tmp_path)
    boot = Supervisor(tmp_path, [], "thread", answers=in_use.handlers)
    assert kinds(boot.handlers) == declared(Answerer.BOOT)


def test_two_handlers_of_one_question_at_one_place_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="status"):
        by_name([Handled(STATUS, None), Handled(STATUS, None)])


def test_arguments_go_out_without_their_defaults() -> None:
    """So a node that lacks an argument takes the question of whoever does not use it."""
    assert arguments_of(CommandsAsked()) == {}
    sent = MessageAsked(node="root/north", body=b"\0\xff", command_id="c", wait=False)
    assert arguments_of(sent) == {"node": "root/north", "body": b"\0\xff", "command_id": "c", "wait": False}
    assert msgspec.convert(arguments_of(sent), MessageAsked) == sent


def test_a_word_of_the_subject_never_lowers_the_role() -> None:
    for one in QUESTIONS.values():
        for word in (*one.roles, "nonsense", 7, None):
            assert one.role_of({one.subject: word}) >= one.role
    assert QUESTIONS["case_action"].role_of({"action": "out_of_service"}) is AccessRole.ENGINEER
