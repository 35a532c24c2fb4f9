"""Selection stories: who may operate an item that asks to be selected; a real root machine.

NAME selects ID | NAME writes with ID | NAME gives ID back | NAME forces
after SECONDS s | wall clock +SECONDS s
restart                                  the node starts anew with its log
takeover after SECONDS s                 nobody leads so long, then this process, which has followed all, leads anew
-> ok | CAUSE | sent to the device       what the last line came to; of a selection that is taken: who has it, how long
-> record: ACTION USER, ...              audit entries
"""

import re
from pathlib import Path

import pytest

from albireo.codec.message import Answer, Ask, WriteOrder
from albireo.codec.record import Audited
from albireo.machine.kernel.events import Deposed, Granted, Served
from albireo.model.instant import SECOND, Instant
from albireo.model.position import EpochEntry
from tests.parts.refusals import code, refused_with
from tests.parts.retired_items import again
from tests.parts.selecting import hello, up

STORIES = sorted((Path(__file__).parent / "selections").rglob("*.txt"))
WHO_HAS_IT = re.compile(r"(\w+)@desk \(.*\) has selected barrier, for (\d+) s still")


class SelectionStory:
    """Plays one transcript."""

    def __init__(self) -> None:
        self.world = up()
        self.run = 1
        self.came_to = ""

    def play(self, line: str) -> None:
        match line.split():
            case [who, "selects", selection_id]:
                self.ask(who, "select", item="barrier", selection_id=selection_id)
            case [who, "writes", "with", selection_id]:
                number = self.world.end.sequence
                self.ask(who, "write", item="barrier", value=True, command_id=f"c{number}", selection=selection_id)
            case [who, "gives", selection_id, "back"]:
                self.ask(who, "deselect", item="barrier", selection_id=selection_id)
            case [who, "forces"]:
                self.ask(who, "force", item="barrier", value=True, for_ms=1_000, reason="test")
            case ["after", seconds, "s"]:
                self.world.pass_time(int(seconds) * SECOND)
            case ["wall", "clock", seconds, "s"]:
                self.world.wall_began += int(seconds) * SECOND
            case ["restart"]:
                self.world = again(self.world)
                self.connect()
            case ["takeover", "after", seconds, "s"]:
                self.take_over(int(seconds))
            case _:
                raise AssertionError(f"unknown line: {line}")

    def connect(self) -> None:
        self.run += 1
        hello(self.world, run=self.run)

    def take_over(self, seconds: int) -> None:
        one = self.world
        one.step(Deposed("another one leads"))
        one.now = Instant(one.now + seconds * SECOND)
        epoch = one.history.epoch + 1
        one.history = one.history.granted(EpochEntry(epoch, one.end.sequence + 1, epoch))
        one.step(Granted("votes"))
        one.sync()
        one.step(Served())
        one.sync()
        self.connect()

    def ask(self, who: str, what: str, **arguments: object) -> None:
        one = self.world
        one.take(Answer)
        ask = Ask(request_id=1, what=what, arguments={"user": f"{who}@desk", **arguments})
        one.letter(b"desk", ask, principal=f"{who}@desk")
        one.sync()
        answers = [found for found in one.take(Answer) if isinstance(found, Answer)]
        self.came_to = "sent to the device" if one.take(WriteOrder) else ""
        for answer in answers:
            who_has_it = WHO_HAS_IT.search(refused_with(answer)) if code(answer) == "already_selected" else None
            left = f": {who_has_it[1]} has it for {who_has_it[2]} s" if who_has_it else ""
            self.came_to = f"{code(answer)}{left}" or "ok"

    def look(self, wanted: str) -> None:
        if not wanted.startswith("record: "):
            assert self.came_to == wanted
            return
        kinds = ("selected", "selection_", "write", "forced")
        entries = [entry for entry in self.world.records(Audited) if isinstance(entry, Audited)]
        told = [
            f"{entry.action} {entry.user.removesuffix('@desk')}" for entry in entries if entry.action.startswith(kinds)
        ]
        assert wanted == "record: " + ", ".join(told)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    story = SelectionStory()
    for line in path.read_text().splitlines():
        if line.startswith("-> "):
            story.look(line.removeprefix("-> "))
        elif line and not line.startswith("#"):
            story.play(line)
