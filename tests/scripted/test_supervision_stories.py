"""Conversations between boot and its actors as transcripts: what comes in, and after `->` what goes out for it.

    <seconds> <event>        start | stop | time | ready A | alive A | exit A CODE
      -> <effects>           spawn A | ask A | request-stop A | kill A | up | down [HUNG] | give-up CODE

Every effect is listed; transitions are not (tests/unit/runtime/test_supervision.py has them). Back-off is the undiluted
half: the generator of these stories always draws 0.
"""

from random import Random

import pytest

from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.runtime.actor.supervision import (
    ActorAnswered,
    ActorExited,
    ActorStarted,
    ActorTransitioned,
    AllStarted,
    AllStopped,
    AskAlive,
    Effect,
    Escalated,
    Event,
    KillActor,
    NodeStopAsked,
    RequestStop,
    Spawn,
    StartAsked,
    Supervision,
    SupervisionConfig,
    WatchedActor,
)

NODE = (
    WatchedActor("logger", 0, is_essential=False),
    WatchedActor("core", 1),
    WatchedActor("history", 2),
    WatchedActor("p1", 3, False),
)

STORIES = {
    "a clean life": """
        0 start
          -> spawn logger, spawn core
        0.1 ready core
          -> spawn history
        0.2 ready logger
        0.3 ready history
          -> spawn p1
        0.4 ready p1
          -> up
        0.5 stop
          -> request-stop p1
        0.6 exit p1 0
          -> request-stop history
        0.7 exit history 0
          -> request-stop core
        0.8 exit core 0
          -> request-stop logger
        0.9 exit logger 0
          -> down
    """,
    "core is killed: the others stay, and say hello to the new one": """
        0 start
          -> spawn logger, spawn core
        0 ready logger
        0 ready core
          -> spawn history
        0 ready history
          -> spawn p1
        0 ready p1
          -> up
        1 time
          -> ask logger, ask core, ask history, ask p1
        1 alive logger
        1 alive core
        1 alive history
        1 alive p1
        1.5 exit core -9
        1.7 time
          -> spawn core
        1.8 ready core
    """,
    "an adapter that needs core waits for it": """
        0 start
          -> spawn logger, spawn core
        0 ready logger
        0 ready core
          -> spawn history
        0 ready history
          -> spawn p1
        0 ready p1
          -> up
        0.5 exit core 1
        0.5 exit p1 1
        0.7 time
          -> spawn core
        0.9 ready core
          -> spawn p1
    """,
    "history hangs and is replaced": """
        0 start
          -> spawn logger, spawn core
        0 ready logger
        0 ready core
          -> spawn history
        0 ready history
          -> spawn p1
        0 ready p1
          -> up
        1 time
          -> ask logger, ask core, ask history, ask p1
        1 alive logger
        1 alive core
        1 alive p1
        2 time
          -> ask logger, ask core, ask history, ask p1
        2 alive logger
        2 alive core
        2 alive p1
        3 time
          -> ask logger, ask core, kill history, ask p1
        3 alive logger
        3 alive core
        3 alive p1
        3.1 exit history -9
        3.3 time
          -> spawn history
    """,
    "core cannot live here": """
        0 start
          -> spawn logger, spawn core
        0 ready logger
        0.1 exit core 1
        0.3 time
          -> spawn core
        0.3 exit core 1
        0.7 time
          -> spawn core
        0.7 exit core 1
          -> give-up 1, request-stop logger
        0.8 exit logger 0
          -> down
    """,
}

CONFIG = SupervisionConfig(
    intensity=2,
    first_backoff_ns=SECOND * 4 // 10,
    longest_backoff_ns=SECOND * 8 // 10,
    ask_every_ns=SECOND,
    silent_after_ns=2 * SECOND,
)


class Lowest(Random):
    """Draws 0 always, so that a story's instants can be read."""

    def getrandbits(self, k: int, /) -> int:
        return 0


class Tellable:
    """Runs a supervision by the words of a story."""

    def __init__(self) -> None:
        self.machine = Supervision(NODE, CONFIG, Lowest())
        self.runs: dict[str, int] = {}

    def take(self, words: list[str], now: Instant) -> list[str]:
        effects = self.machine.step(self.read(words), now)
        return [self.tell(effect) for effect in effects if not isinstance(effect, ActorTransitioned)]

    def read(self, words: list[str]) -> Event:
        match words:
            case ["start"]:
                return StartAsked()
            case ["stop"]:
                return NodeStopAsked()
            case ["time"]:
                return TimePassed()
            case ["ready", name]:
                return ActorStarted(name, self.runs[name])
            case ["alive", name]:
                return ActorAnswered(name, self.runs[name])
            case ["exit", name, code]:
                return ActorExited(name, self.runs[name], int(code), f"exit code {code}")
        raise AssertionError(f"no event: {words}")

    def tell(self, effect: Effect) -> str:
        match effect:
            case Spawn(name=name, run=run):
                self.runs[name] = run
                return f"spawn {name}"
            case AskAlive(name=name):
                return f"ask {name}"
            case RequestStop(name=name):
                return f"request-stop {name}"
            case KillActor(name=name):
                return f"kill {name}"
            case AllStarted():
                return "up"
            case AllStopped(hung=hung):
                return " ".join(["down", *hung])
            case Escalated(exit_code=code):
                return f"give-up {code}"
        raise AssertionError(effect)


@pytest.mark.parametrize("title", STORIES)
def test_story(title: str) -> None:
    told, expected = Tellable(), STORIES[title].split("\n")
    lines: list[str] = []
    for line in expected:
        words = line.split()
        if words and words[0] != "->":
            lines.append(line)
            if effects := told.take(words[1:], Instant(round(float(words[0]) * SECOND))):
                lines.append("          -> " + ", ".join(effects))
    assert lines == [line for line in expected if line.strip()]
