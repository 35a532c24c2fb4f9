"""Questions to the history that CORE hands on: bounded, and answered or refused in words, whatever becomes of it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.message import Answer, AnyMessage, Ask, StopAsked
from albireo.machine.access.judge import AccessJudge
from albireo.machine.fold.people.access import AccessFold
from albireo.machine.kernel.turn import Moment
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.status import HandedOn
from albireo.node.core.part_questions import (
    ANSWER_NS,
    UNDER_WAY_MAX,
    UNDER_WAY_OF_ONE_MAX,
    PartQuestions,
)
from albireo.node.core.peer_links import PeerLinks
from albireo.runtime import Letter
from tests.parts.core_pair import aside
from tests.parts.lone import LoneNode, Program, asked_until
from tests.parts.refusals import no, refused_with
from tests.parts.waiting import awaited

OPERATOR = "operator@desk"
BEGIN = Instant(10 * SECOND)


Told = tuple[bytes, AnyMessage, Sequence[bytes | memoryview]]


class Ends:
    """The ends of two links: to a history that does what a test wants, and to its askers."""

    def __init__(self) -> None:
        self.name = "history"
        self.is_there = True
        self.is_closed, self.identity = False, b""
        self.asked: list[Ask] = []
        self.told: list[Told] = []

    def send(self, message: AnyMessage, raw: Sequence[bytes | memoryview] = (), to: bytes = b"") -> bool:
        if to:
            self.told.append((to, message, raw))
        elif self.is_there:
            assert isinstance(message, Ask)
            self.asked.append(message)
        return self.is_there


class Desk:
    """The questions under way, and what each asker was told."""

    def __init__(self) -> None:
        self.end = Ends()
        self.told = self.end.told
        self.access = AccessJudge("root", AccessFold())
        link: Any = self.end
        self.questions = PartQuestions(link, PeerLinks())

    def ask(self, asker: bytes, number: int, what: str = "stats", of: str = "history", now: Instant = BEGIN) -> None:
        ask = Ask(request_id=number, what=what, of=of, arguments={"n": number})
        self.questions.asked(self.letter(ask, asker), ask, self.access, Moment(now, WallTime(0)))

    def letter(self, message: AnyMessage, sender: bytes = b"", raw: Sequence[bytes] = ()) -> Letter:
        link: Any = self.end
        return Letter(link=link, sender=sender, message=message, raw=[*raw])

    def errors(self) -> list[str]:
        return [refused_with(message) for _, message, _ in self.told if isinstance(message, Answer)]


def test_an_answer_goes_back_to_who_asked_with_its_number_and_its_parts() -> None:
    desk = Desk()
    desk.ask(b"a", 7)
    desk.ask(b"b", 7)
    first, second = desk.end.asked
    assert (first.arguments, first.of, second.arguments) == ({"n": 7}, "", {"n": 7})
    desk.questions.answered(desk.letter(Answer(request_id=second.request_id, result=2), raw=[b"rows"]))
    desk.questions.answered(desk.letter(Answer(request_id=first.request_id, refusal=no("busy"))))
    assert desk.told == [
        (b"b", Answer(request_id=7, result=2), [b"rows"]),
        (b"a", Answer(request_id=7, refusal=no("busy")), []),
    ]
    assert desk.questions.describe() == HandedOn(handed_on=2)


@pytest.mark.parametrize(
    ("what", "of", "said"),
    [
        ("seal", "history", "unknown question"),
        ("history", "history", "unknown question"),
        ("stats", "boot", "leave `of` out"),
    ],
)
def test_what_is_not_handed_on_is_refused_by_name(what: str, of: str, said: str) -> None:
    desk = Desk()
    desk.ask(b"a", 1, what, of)
    assert desk.end.asked == [] and said in desk.errors()[0]


def test_one_asker_leaves_room_for_the_others_and_all_have_a_bound() -> None:
    desk = Desk()
    for asker in range(UNDER_WAY_MAX):
        for number in range(UNDER_WAY_OF_ONE_MAX + 1):
            desk.ask(b"%d" % asker, number)
    assert len(desk.end.asked) == UNDER_WAY_MAX
    assert all("ask again soon" in error for error in desk.errors())
    assert len(desk.errors()) == UNDER_WAY_MAX * (UNDER_WAY_OF_ONE_MAX + 1) - UNDER_WAY_MAX
    taken = {one.arguments["n"] for one in desk.end.asked}
    assert taken == set(range(UNDER_WAY_OF_ONE_MAX)), "the fifth of each was refused"


def test_a_question_that_is_not_answered_ends_with_an_error_once() -> None:
    desk = Desk()
    desk.ask(b"a", 1)
    assert desk.questions.deadline() == BEGIN + ANSWER_NS
    desk.questions.ticked(Instant(BEGIN + ANSWER_NS - 1))
    assert desk.told == []
    desk.questions.ticked(Instant(BEGIN + ANSWER_NS))
    assert "within 4 s" in desk.errors()[0] and desk.questions.deadline() is None
    desk.questions.answered(desk.letter(Answer(request_id=1, result=1)))
    desk.questions.answered(desk.letter(StopAsked()))
    assert len(desk.told) == 1
    assert desk.questions.late == 1


def test_a_history_that_is_not_there_is_an_error_at_once() -> None:
    desk = Desk()
    desk.end.is_there = False
    desk.ask(b"a", 1)
    assert "is not there" in desk.errors()[0] and desk.questions.deadline() is None


@pytest.mark.slow
def test_a_history_that_starts_again_is_an_error_in_words_and_then_answers(tmp_path: Path) -> None:
    """Over CURVE, with real actors: before it runs, while it runs, after its end, and when it is back."""

    def refused(program: Program) -> str:
        return refused_with(program.ask("stats", "history")[0])

    def answers(program: Program) -> None:
        asked_until(program, lambda found: "files" in found, "stats", "history")

    def gone(program: Program) -> None:
        awaited(lambda: refused(program))

    async def story() -> None:
        lone = LoneNode(tmp_path, OPERATOR)
        async with lone.core_up():
            program = await aside(lambda: lone.program(OPERATOR))
            assert "is not there" in await aside(partial(refused, program))
            for _ in range(2):
                async with lone.history_up():
                    await aside(partial(answers, program))
                await aside(partial(gone, program))
            await aside(lambda: program.link.close())

    asyncio.run(story())
