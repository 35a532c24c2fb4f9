"""Alarm stories: text transcripts of samples, time and operators, and what was noted of them.

    declare NAME TYPE key=value...   an item and its alarm settings (and its adapter)
    NAME = VALUE [QUALITY]           one committed sample
    +2s +1m +1h                      log time passes; a mark frame at each deadline
    rename NAME NAME                 the item is declared under another name, as `was` asks for
    retire NAME                      nobody declares the item any more
    USER: ACTION NAME CONDITION [xN] [DURATION] [COMMENT]     xN: the activation that the user saw, else the present one
    cut                              from here on proposals are handed out and never committed
    restart                          the node dies: replay, by way of a snapshot halfway, then it goes on
    -> TIME CAUSE NAME CONDITION: STATE       what was noted since the line before, all of it, in order
    -> refused: REASON                        the operator was refused

A state names what is set; `active unacked x2` was activated twice. After each story the folds equal a replay.
"""

import re
from pathlib import Path

import msgspec
import pytest

from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import CaseChanged
from albireo.machine.fold.alarms.transitions import asks
from albireo.model import quality as q
from albireo.model.case import Action, Case, LifecycleStatus, Shelving
from albireo.model.item import AlarmSettings, Condition
from albireo.model.refusal import Refusal
from albireo.model.value import Value, ValueType
from tests.parts.alarm import AlarmNode

STORIES = sorted((Path(__file__).parent / "alarms").glob("*.txt"))
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_QUALITIES = (
    q.GOOD,
    q.UNCERTAIN,
    q.UNCERTAIN_LAST_USABLE_VALUE,
    q.BAD,
    q.BAD_NO_COMMUNICATION,
    q.BAD_WAITING_FOR_INITIAL_DATA,
)
QUALITIES = {q.name(int(one)): int(one) for one in _QUALITIES}


def ms_of(text: str) -> int:
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    assert found is not None, f"{text!r} is no duration"
    return int(found[1]) * UNIT_MS[found[2]]


def state_of(case: Case) -> str:
    words = [
        "closed" if case.lifecycle_status is LifecycleStatus.CLOSED else "",
        "active" if case.is_active else "",
        "" if case.is_acked else "unacked" if asks(case) else "unasked",
        "latched" if case.is_latched else "",
        "" if case.shelving is Shelving.UNSHELVED else case.shelving.value,
        "suppressed" if case.is_suppressed else "",
        "out" if case.is_out_of_service else "",
        "chattering" if case.is_chattering else "",
        "" if case.activations == 1 else f"x{case.activations}",
    ]
    return " ".join(word for word in words if word)


class Story:
    """Plays one transcript."""

    def __init__(self) -> None:
        self.node = AlarmNode()
        self.types: dict[str, ValueType] = {}
        self.ids: dict[str, int] = {}
        self.said: list[str] = []
        self.is_cut = False
        self.uncommitted: list[CaseChanged] = []

    def play(self, line: str) -> None:
        words = line.split()
        if words[0] == "declare":
            self.declare(words[1], words[2], dict(word.split("=") for word in words[3:]))
        elif words[0].startswith("+"):
            self.node.pass_time(ms_of(words[0][1:]))
        elif words[0].endswith(":"):
            self.act(words[0][:-1], words[1:])
        elif words[0] == "rename":
            self.ids[words[2]] = self.ids.pop(words[1])
            self.types[words[2]] = self.types.pop(words[1])
            self.node.rename(words[1], words[2])
        elif words[0] == "retire":
            self.node.retire(words[1])
        elif words[0] == "cut":
            self.is_cut = True
        elif words[0] == "restart":
            self.restart()
        else:
            self.sample(words[0], words[2], words[3] if len(words) > 3 else "Good")

    def declare(self, name: str, type_name: str, settings: dict[str, str]) -> None:
        adapter = settings.pop("adapter", "")
        self.types[name] = ValueType[type_name.upper()]
        alarm = msgspec.convert(settings, AlarmSettings, strict=False)
        self.ids[name] = self.node.declare(name, alarm, self.types[name], adapter)

    def sample(self, name: str, text: str, quality: str) -> None:
        value: Value = float(text) if self.types[name] is ValueType.FLOAT64 else text in ("true", "1")
        if self.is_cut:
            self.node.commit_proposals = lambda limit=500: None  # type: ignore[method-assign]  # The cut itself.
        self.node.sample(name, value, QUALITIES[quality])
        if self.is_cut:
            self.uncommitted += self.node.folds.cases.propose(self.node.log_time, self.node.wall_ns)

    def act(self, user: str, words: list[str]) -> None:
        action, name, condition, *rest = words
        shown = self.node.folds.cases.find_rule(self.ids[name], Condition(condition))
        activation = None if shown is None else shown.activations
        if rest and re.fullmatch(r"x\d+", rest[0]):
            activation = int(rest.pop(0)[1:])
        duration_ms = ms_of(rest.pop(0)) if rest and re.fullmatch(r"\d+(ms|s|m|h)", rest[0]) else None
        found = self.node.act(
            ActionAsked(
                action=Action(action),
                user=user,
                comment=" ".join(rest),
                item_id=self.ids[name],
                condition=Condition(condition),
                duration_ms=duration_ms,
                activation=activation,
            )
        )
        if isinstance(found, Refusal):
            self.said.append(f"refused: {found.cause}")
        elif rest:
            assert (found.actor, found.comment) == (user, " ".join(rest))

    def restart(self) -> None:
        if self.is_cut:
            assert self.uncommitted, "nothing was under way: the story does not show what it says"
            del self.node.commit_proposals
            self.is_cut = False
        self.node.folds = self.node.replayed(len(self.node.frames) // 2)
        self.node.commit_proposals()

    def drain(self) -> list[str]:
        """What was said since the last call."""
        names = {item_id: name for name, item_id in self.ids.items()}
        noted = [
            f"{at_ms / 1000:.3f} {one.cause} {names[one.case.item_id]} {one.case.condition}: {state_of(one.case)}"
            for at_ms, one in self.node.transitions
        ]
        self.node.transitions.clear()
        said, self.said = noted + self.said, []
        return said


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    story, expected, played = Story(), [], "the beginning"
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for line in [*lines, "end"]:
        if line.startswith("->"):
            expected.append(line[2:].strip())
            continue
        assert story.drain() == expected, f"after {played!r}"
        expected, played = [], line
        if line != "end":
            story.play(line)
    for split in (0, len(story.node.frames) // 2, len(story.node.frames)):
        assert story.node.replayed(split).snapshot() == story.node.folds.snapshot()
