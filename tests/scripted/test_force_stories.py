"""Force stories: what a forced item shows, and what its measured series does; a real root machine.

[at once] measures NUMBER                at once: before anything of it is committed
[at once] force NUMBER for SECONDS s | [at once] release
after SECONDS s                          the device lives on, another item of it is measured
restart
-> VALUE QUALITY, measured VALUE QUALITY | left SECONDS s | [no] alarm
-> own VALUE, ... | measured series VALUE, ...     all samples in the log; -: a bad one
-> record: ACTION USER, ...              audit entries
"""

from pathlib import Path

import pytest

from albireo.codec.message import Answer
from albireo.codec.record import Audited
from albireo.model.instant import SECOND
from albireo.model.value import Value
from tests.parts.forcing import cases, forces, hello, order, series, shown
from tests.parts.retired_items import again
from tests.parts.root import World, append

STORIES = sorted((Path(__file__).parent / "forces").rglob("*.txt"))
FAN = 1


class ForceStory:
    """Plays one transcript."""

    def __init__(self) -> None:
        self.world = World()
        self.run = 0
        self.connect()

    def connect(self) -> None:
        self.run += 1
        self.welcome = hello(self.world, run=self.run)
        self.number = 0

    def play(self, line: str) -> None:
        words = line.removeprefix("at once ").split()
        match words:
            case ["measures", number]:
                self.measure(float(number))
            case ["force", number, "for", seconds, "s"]:
                for_ms = int(seconds) * 1000
                order(self.world, "force", item="co", value=float(number), for_ms=for_ms, reason="test", user="anna")
            case ["release"]:
                order(self.world, "force_release", item="co", user="anna")
            case ["after", seconds, "s"]:
                self.wait(int(seconds))
            case ["restart"]:
                self.world = again(self.world)
                self.connect()
            case _:
                raise AssertionError(f"unknown line: {line}")
        if not line.startswith("at once "):
            self.world.sync()

    def measure(self, value: float, item: int = 0) -> None:
        self.number += 1
        append(self.world, self.welcome, self.number, [value], item)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.measure(1.0, FAN)
            self.world.pass_time(SECOND)
        self.world.pass_time(0)

    def look(self, wanted: str) -> None:
        self.world.sync()
        self.world.take(Answer)
        kind = wanted.split()[0]
        if kind == "left":
            (row,) = forces(self.world)
            assert wanted == f"left {row['left_ms'] / 1000:.0f} s"
        elif kind == "own":
            assert wanted == f"own {self.values('co')}"
        elif wanted.startswith("measured series"):
            assert wanted == f"measured series {self.values('co/measured')}"
        elif kind == "record:":
            entries = [one for one in self.world.records(Audited) if isinstance(one, Audited)]
            assert wanted == "record: " + ", ".join(f"{one.action} {one.user}" for one in entries)
        elif wanted.endswith("alarm"):
            assert wanted == ("alarm" if cases(self.world) else "no alarm")
        else:
            (own, measured) = shown(self.world, "co", "co/measured")
            assert wanted == f"{words_of(*own)}, measured {words_of(*measured)}"

    def values(self, name: str) -> str:
        return ", ".join("-" if code.startswith("Bad") else f"{value:g}" for value, code in series(self.world, name))


def words_of(value: Value | None, quality: str) -> str:
    return f"{value:g} {quality}" if isinstance(value, float) else f"{value} {quality}"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    story = ForceStory()
    for line in path.read_text().splitlines():
        if line.startswith("-> "):
            story.look(line.removeprefix("-> "))
        elif line and not line.startswith("#"):
            story.play(line)
