"""Session stories: who is present at a node or pair, what ends that, and what the links hear; a real root machine.

PRINCIPAL asks from ADDRESS [on LINK]      a question; LINK is 1 if it is not said
PRINCIPAL ends that of PRINCIPAL [: REASON]
PRINCIPAL has the role ROLE
after SECONDS s | takeover | restart
-> present: PRINCIPAL from ADDRESS as ROLE, ... | nobody is present
-> ended: CAUSE, ...                       of all sessions that ended so far
-> PRINCIPAL on LINK is refused: WORDS | is answered
-> record: ACTION PRINCIPAL SUBJECT        the last audit entry
"""

import re
from pathlib import Path

import pytest

from albireo.codec.message import Answer
from albireo.codec.record import Audited
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import RoleGrant, role_from
from albireo.model.instant import SECOND
from tests.parts.present import asked, causes, present, rows
from tests.parts.refusals import refused_with
from tests.parts.retired_items import again
from tests.parts.root import World

STORIES = sorted((Path(__file__).parent / "sessions").rglob("*.txt"))


class SessionStory:
    """Plays one transcript."""

    def __init__(self) -> None:
        self.world = World(is_paired=True)
        self.roles: dict[str, RoleGrant] = {}
        self.place: dict[str, str] = {}
        self.answer = Answer(request_id=0)

    def play(self, line: str) -> None:
        order, _, reason = line.partition(": ")
        match order.split():
            case [who, "asks", "from", address, *more]:
                self.place[who] = address
                self.answer = asked(self.world, "cases", f"{who}/{more[-1] if more else 1}".encode(), who, address)
            case [who, "ends", "that", "of", other]:
                number = next(number for number, name, _ in present(self.world) if name == other)
                sender, arguments = f"{who}/1".encode(), {"session_id": number, "reason": reason}
                self.answer = asked(
                    self.world, "session_end", sender, who, self.place.get(who, "10.0.0.1"), **arguments
                )
            case [who, "has", "the", "role", word]:
                role = role_from(word)
                assert role is not None, line
                self.roles[who] = RoleGrant(role)
                self.world.step(KeysListed(dict(self.roles)))
            case ["after", seconds, "s"]:
                for _ in range(int(seconds)):
                    self.world.pass_time(SECOND)
            case ["takeover"]:
                self.begin_again(is_paired=True)
            case ["restart"]:
                self.begin_again(is_paired=False)
            case _:
                raise AssertionError(f"unknown line: {line}")

    def begin_again(self, *, is_paired: bool) -> None:
        self.world = again(self.world, is_paired=is_paired)
        self.world.step(KeysListed(dict(self.roles)))
        self.world.sync()

    def look(self, wanted: str) -> None:
        if wanted.startswith("ended: "):
            assert wanted == f"ended: {', '.join(causes(self.world))}"
        elif wanted.startswith("record: "):
            entry = [one for one in self.world.records(Audited) if isinstance(one, Audited)][-1]
            subject = re.sub(r"\d+", "N", entry.subject, count=1)
            assert wanted == f"record: {entry.action} {entry.principal} {subject}"
        elif " is refused: " in wanted or wanted.endswith("is answered"):
            _, _, words = wanted.partition(" is refused: ")
            told = refused_with(self.answer)
            assert (words in told) if words else told == "", told
        else:
            found = ", ".join(f"{row['principal']} from {row['address']} as {row['role']}" for row in rows(self.world))
            assert wanted == (f"present: {found}" if found else "nobody is present")


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    story = SessionStory()
    for line in path.read_text().splitlines():
        if line.startswith("-> "):
            story.look(line.removeprefix("-> "))
        elif line and not line.startswith("#"):
            story.play(line)
