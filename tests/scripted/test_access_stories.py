"""Access stories: roles that change while orders are under way; a real root machine.

keys NAME ROLE, ...              the key directory says so now
NAME orders ID                   writes the item of the device
[at once] NAME asks WHAT [a=b]   at once: before anything of it is committed
device goes away | comes back | carries out ID | restart
-> NAME done | NAME refused: WORDS | NAME told ID OUTCOME       the answers since the line before, in order
-> device gets ID | nothing
-> record: ACTION NAME, ...      audit entries of writes and access, with the principal of each
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from albireo.codec.message import Answer, AnyMessage, Ask, ProducerHello, WriteDone, WriteOrder
from albireo.codec.record import Audited
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import KeysListed, PeerLost
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.command import Outcome, Receipt
from tests.parts.refusals import refused_with
from tests.parts.root import ITEMS, World

STORIES = sorted((Path(__file__).parent / "access").rglob("*.txt"))


class Story:
    """Plays one transcript."""

    def __init__(self) -> None:
        self.world = World()
        self.run = 0
        self.connect()

    def connect(self) -> None:
        self.run += 1
        self.world.letter(b"plc", ProducerHello(producer="p1", items=ITEMS, run=self.run, takes_orders=True))
        self.world.sync()

    def restart(self) -> None:
        before = self.world
        folds = Folds()
        for frame in before.frames:
            folds.replay(frame)
        self.world = World(Folds.restore(folds.snapshot(), folds.log_time_ms), before.frames, epoch=2)

    def play(self, line: str) -> None:
        match line.split():
            case ["keys", *_]:
                pairs = [one.split() for one in line.removeprefix("keys ").split(",")]
                self.world.step(KeysListed({name: RoleGrant(AccessRole[word.upper()]) for name, word in pairs}))
            case [name, "orders", command_id]:
                self.ask(name, "write", {"item": "fan_set", "value": 5.0, "command_id": command_id, "user": "x"})
            case ["at", "once", name, "asks", what, *rest]:
                self.ask(name, what, dict(one.split("=") for one in rest), at_once=True)
            case [name, "asks", what, *rest]:
                self.ask(name, what, dict(one.split("=") for one in rest))
            case ["device", "goes", "away"]:
                self.world.step(PeerLost(b"plc"))
            case ["device", "comes", "back"]:
                self.connect()
            case ["device", "carries", "out", command_id]:
                self.world.letter(b"plc", WriteDone(receipt=Receipt(command_id=command_id, outcome=Outcome.VERIFIED)))
                self.world.sync()
            case ["restart"]:
                self.restart()
            case _:
                raise AssertionError(f"unknown line: {line}")

    def ask(self, name: str, what: str, arguments: Mapping[str, object], *, at_once: bool = False) -> None:
        self.world.letter(name.encode(), Ask(request_id=1, what=what, arguments=dict(arguments)), principal=name)
        if not at_once:
            self.world.sync()

    def look(self, wanted: str) -> None:
        self.world.sync()
        if wanted.startswith("device gets "):
            orders = [one.command_id for one in self.world.take(WriteOrder) if isinstance(one, WriteOrder)]
            assert wanted == f"device gets {' '.join(orders) or 'nothing'}"
        elif wanted.startswith("record: "):
            assert wanted == f"record: {self.record()}"
        else:
            assert wanted in self.answers(wanted.split()[0]), self.world.sent

    def record(self) -> str:
        entries = [one for one in self.world.records(Audited) if isinstance(one, Audited)]
        return ", ".join(f"{one.action} {one.principal}" for one in entries)

    def answers(self, name: str) -> list[str]:
        """Answers to `name` in words; they are gone then."""
        mine = [one for to, one in self.world.sent if to == name.encode()]
        self.world.sent = [(to, one) for to, one in self.world.sent if to != name.encode()]
        return [f"{name} {words_of(one)}" for one in mine]


def words_of(message: AnyMessage) -> str:
    assert isinstance(message, Answer)
    if refused_with(message):
        return f"refused: {refused_with(message)}"
    result = message.result
    if isinstance(result, dict) and "outcome" in result:
        return f"told {result['command_id']} {result['outcome']}"
    return "done"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    story = Story()
    for line in path.read_text().splitlines():
        if line.startswith("-> "):
            story.look(line.removeprefix("-> "))
        elif line and not line.startswith("#"):
            story.play(line)
