"""Supervision by table and by story. No process, no clock: time is an argument."""

from random import Random

import pytest

from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.runtime.actor.supervision import (
    ActorAnswered,
    ActorExited,
    ActorStarted,
    ActorTransitioned,
    AllStarted,
    AllStopped,
    AskAlive,
    Effect,
    Ended,
    Ending,
    Escalated,
    Event,
    KillActor,
    NodePhase,
    NodeStopAsked,
    RequestStop,
    RestartAsked,
    Running,
    Spawn,
    StartAsked,
    Starting,
    Supervision,
    SupervisionConfig,
    Waiting,
    WatchedActor,
)

CONFIG = SupervisionConfig(
    intensity=2,
    period_ns=60 * SECOND,
    first_backoff_ns=100 * MS,
    longest_backoff_ns=1 * SECOND,
    steady_ns=30 * SECOND,
    ask_every_ns=1 * SECOND,
    silent_after_ns=5 * SECOND,
    start_within_ns=20 * SECOND,
    stop_within_ns=4 * SECOND,
)


class Story:
    """A supervision with a clock that the test turns. Effects without transitions, which `changes` keeps."""

    def __init__(self, *actors: WatchedActor, config: SupervisionConfig = CONFIG) -> None:
        self.machine = Supervision(actors, config, Random(1))
        self.now = 0
        self.changes: list[ActorTransitioned] = []

    def take(self, event: Event) -> list[Effect]:
        effects = self.machine.step(event, Instant(self.now))
        self.changes += [effect for effect in effects if isinstance(effect, ActorTransitioned)]
        return [effect for effect in effects if not isinstance(effect, ActorTransitioned)]

    def pass_to(self, now: int) -> list[Effect]:
        """Turn the clock to `now`, calling at every deadline on the way."""
        effects: list[Effect] = []
        while (due := self.machine.deadline()) is not None and due <= now:
            assert due >= self.now, "a deadline in the past would spin"
            self.now = due
            effects += self.take(TimePassed())
        self.now = now
        return effects

    def up(self) -> "Story":
        """Start everything."""
        pending = self.take(StartAsked())
        while pending:
            effect = pending.pop(0)
            if isinstance(effect, Spawn):
                pending += self.take(ActorStarted(effect.name, effect.run))
        assert self.machine.phase is NodePhase.UP
        return self

    def die(self, name: str, run: int, exit_code: int = 1, reason: str = "crashed") -> list[Effect]:
        return self.take(ActorExited(name, run, exit_code, reason))


def test_a_stage_starts_when_every_essential_actor_before_it_runs() -> None:
    story = Story(
        WatchedActor("logger", 0, is_essential=False),
        WatchedActor("core", 1),
        WatchedActor("a", 2),
        WatchedActor("b", 2),
    )
    assert story.take(StartAsked()) == [Spawn("logger", 1), Spawn("core", 1)], "who is not essential holds up nobody"
    assert story.take(ActorStarted("core", 1)) == [Spawn("a", 1), Spawn("b", 1)]
    assert story.take(ActorStarted("a", 1)) == []
    assert story.take(ActorStarted("b", 1)) == []
    assert story.take(ActorStarted("logger", 1)) == [AllStarted()]


def test_stages_stop_in_reverse_and_the_last_end_is_told() -> None:
    story = Story(WatchedActor("core"), WatchedActor("a", 1), WatchedActor("b", 1)).up()
    assert story.take(NodeStopAsked()) == [RequestStop("a", 1), RequestStop("b", 1)]
    assert story.die("b", 1, 0, "stopped") == []
    assert story.die("a", 1, 0, "stopped") == [RequestStop("core", 1)]
    assert story.take(NodeStopAsked()) == [], "asking twice changes nothing"
    assert story.die("core", 1, 0, "stopped") == [AllStopped(())]
    assert story.machine.deadline() is None


def test_an_unanswered_question_ends_in_a_kill_and_a_restart() -> None:
    story = Story(WatchedActor("a")).up()
    asked = story.pass_to(6 * SECOND - 1)
    assert asked == [AskAlive("a", 1)] * 5
    assert story.pass_to(6 * SECOND) == [KillActor("a", 1)]
    assert story.die("a", 1, -9, "ended by SIGKILL") == []
    assert story.pass_to(story.now + 100 * MS) == [Spawn("a", 2)]
    assert [change.cause for change in story.changes if change.new == "waiting"] == ["silent for 5 s"]


def test_an_answer_makes_it_alive_again() -> None:
    story = Story(WatchedActor("a")).up()
    for second in range(1, 100):
        assert AskAlive("a", 1) in story.pass_to(second * SECOND)
        if second % 3 == 0:
            story.take(ActorAnswered("a", 1))
    assert isinstance(story.machine.life_of("a"), Running)


def test_what_the_supervisor_slept_through_is_nobodys_silence() -> None:
    """The machine was suspended for an hour: nobody could have answered."""
    story = Story(WatchedActor("a"), WatchedActor("b")).up()
    story.pass_to(1 * SECOND)
    story.now = 3600 * SECOND
    assert [type(effect) for effect in story.take(TimePassed())] == [AskAlive, AskAlive]
    story.take(ActorAnswered("a", 1))
    assert story.pass_to(3610 * SECOND) != []
    assert isinstance(story.machine.life_of("b"), Ending), "but after that it is asked as strictly as ever"


def test_back_off_doubles_with_short_lives_up_to_the_longest_and_a_long_life_forgets_it() -> None:
    story = Story(WatchedActor("a", is_essential=False)).up()
    waits = []
    for run in range(1, 9):
        story.die("a", run)
        before = story.now
        waiting = story.machine.life_of("a")
        assert isinstance(waiting, Waiting)
        waits.append((waiting.until - before) / MS)
        assert story.pass_to(waiting.until) == [Spawn("a", run + 1)]
        story.take(ActorStarted("a", run + 1))
    undiluted = [100, 200, 400, 800, 1000, 1000, 1000, 1000]
    assert all(wait_ns / 2 <= wait <= wait_ns for wait, wait_ns in zip(waits, undiluted, strict=True)), waits
    for _ in range(40):
        story.pass_to(story.now + 1 * SECOND)
        story.take(ActorAnswered("a", 9))
    story.die("a", 9)
    waiting = story.machine.life_of("a")
    assert isinstance(waiting, Waiting)
    assert waiting.until - story.now <= 100 * MS


def test_more_deaths_than_the_intensity_stop_the_node() -> None:
    story = Story(WatchedActor("a"), WatchedActor("b", 1)).up()
    for run in (1, 2):
        story.die("a", run)
        story.pass_to(story.now + 1 * SECOND)
        story.take(ActorStarted("a", run + 1))
    effects = story.die("a", 3)
    assert effects == [
        Escalated("3 actors died within 60 s, the last was a: crashed", 1),
        RequestStop("b", 1),
    ]
    assert story.die("b", 1, 0, "stopped") == [AllStopped(())]


def test_deaths_further_apart_than_the_period_are_normal() -> None:
    story = Story(WatchedActor("a")).up()
    for run in range(1, 20):
        story.die("a", run)
        for _ in range(31):
            story.pass_to(story.now + 1 * SECOND)
            story.take(ActorStarted("a", run + 1))
            story.take(ActorAnswered("a", run + 1))
    assert story.machine.phase is NodePhase.UP


def test_an_actor_that_is_not_essential_is_tried_for_ever() -> None:
    story = Story(WatchedActor("a", is_essential=False), WatchedActor("core")).up()
    for run in range(1, 50):
        story.die("a", run)
        story.pass_to(story.now + 1 * SECOND)
        story.take(ActorAnswered("core", 1))
    assert story.machine.phase is NodePhase.UP
    assert story.machine.restarts_of("a") == 49


def test_a_start_with_an_optional_actor_that_keeps_dying_is_still_a_start() -> None:
    story = Story(WatchedActor("a", is_essential=False), WatchedActor("core"))
    story.take(StartAsked())
    assert story.take(ActorStarted("core", 1)) == []
    assert story.die("a", 1) == [AllStarted()]


def test_rest_for_one_ends_the_later_stages_and_starts_them_in_order() -> None:
    config = SupervisionConfig(strategy="rest_for_one", first_backoff_ns=100 * MS)
    story = Story(
        WatchedActor("a"), WatchedActor("b", 1), WatchedActor("c", 2), WatchedActor("d", 2), config=config
    ).up()
    assert story.die("b", 1) == [RequestStop("d", 1), RequestStop("c", 1)]
    assert story.die("c", 1, 0, "stopped") == []
    assert story.pass_to(story.now + 100 * MS) == [Spawn("b", 2)]
    assert story.take(ActorStarted("b", 2)) == [Spawn("c", 2)]
    assert story.die("d", 1, 0, "stopped") == [Spawn("d", 2)]
    assert story.machine.restarts_of("c") == 0, "to be ended for another's sake is no death"


def test_a_start_that_takes_too_long_is_killed() -> None:
    story = Story(WatchedActor("a"))
    story.take(StartAsked())
    assert story.pass_to(20 * SECOND) == [KillActor("a", 1)]


def test_a_stop_that_takes_too_long_is_killed_again_and_again() -> None:
    story = Story(WatchedActor("a")).up()
    story.take(NodeStopAsked())
    assert story.pass_to(8 * SECOND) == [KillActor("a", 1), KillActor("a", 1)]
    assert story.die("a", 1, -9, "ended by SIGKILL") == [AllStopped(())]


def test_a_thread_that_hangs_ends_the_node_but_the_others_stop_cleanly() -> None:
    story = Story(WatchedActor("a", can_kill=False), WatchedActor("b", can_kill=False)).up()
    for second in range(1, 6):
        story.pass_to(second * SECOND)
        story.take(ActorAnswered("b", 1))
    effects = story.pass_to(6 * SECOND)
    assert [effect for effect in effects if not isinstance(effect, AskAlive)] == [
        Escalated("a hangs in its thread (silent for 5 s); its process has to end", 75),
        RequestStop("b", 1),
    ]
    assert story.die("b", 1, 0, "stopped") == [AllStopped(("a",))]
    assert story.die("a", 1, 0, "stopped") == [], "it ended after all, too late"


@pytest.mark.parametrize("code", [65, 78])
def test_what_no_second_try_can_help_is_not_tried_again(code: int) -> None:
    story = Story(WatchedActor("a"), WatchedActor("b"))
    story.take(StartAsked())
    assert story.die("a", 1, code, "no such file") == [Escalated("no such file", code), RequestStop("b", 1)]


def test_a_refusal_after_a_good_run_is_a_death_like_others() -> None:
    """Its last run left something behind (a lock, in a thread): time, or a new process, may help."""
    story = Story(WatchedActor("a")).up()
    assert story.die("a", 1) == []
    assert story.pass_to(story.now + 1 * SECOND) == [Spawn("a", 2)]
    assert story.die("a", 2, 78, "in use") == []
    assert isinstance(story.machine.life_of("a"), Waiting)


def test_who_dies_while_the_node_stops_is_not_started_again() -> None:
    story = Story(WatchedActor("core"), WatchedActor("a", 1)).up()
    story.take(NodeStopAsked())
    assert story.die("core", 1) == []
    assert story.die("a", 1, 0, "stopped") == [AllStopped(())]


def test_a_stop_in_the_middle_of_a_start() -> None:
    story = Story(WatchedActor("core"), WatchedActor("a", 1))
    story.take(StartAsked())
    assert story.take(NodeStopAsked()) == [RequestStop("core", 1)]
    assert story.take(ActorStarted("core", 1)) == [], "too late"
    assert story.die("core", 1, 0, "stopped") == [AllStopped(())]


def test_a_restart_that_was_asked_for_is_no_death_and_begins_at_once() -> None:
    story = Story(WatchedActor("core"), WatchedActor("comm.p1", 1, is_essential=False))
    story.up()
    assert story.take(RestartAsked("comm.p1")) == [RequestStop("comm.p1", 1)]
    assert story.take(RestartAsked("comm.p1")) == [], "it ends already"
    assert story.die("comm.p1", 1, 0, "stopped") == [Spawn("comm.p1", 2)]
    assert story.machine.restarts_of("comm.p1") == 0
    story.take(ActorStarted("comm.p1", 2))
    story.die("comm.p1", 2)
    assert isinstance(story.machine.life_of("comm.p1"), Waiting), "it backs off after a crash"
    assert story.take(RestartAsked("comm.p1")) == [Spawn("comm.p1", 3)], "new arguments may be what it lacked"


EVENTS: list[Event] = [
    StartAsked(),
    ActorStarted("a", 1),
    ActorAnswered("a", 1),
    ActorExited("a", 1, 1, "crashed"),
    TimePassed(),
    NodeStopAsked(),
    ActorStarted("a", 7),
    ActorAnswered("nobody", 1),
    ActorExited("a", 7, 1, "crashed"),
    RestartAsked("a"),
]
TABLE: dict[str, list[type]] = {
    "waiting": [Waiting, Waiting, Waiting, Waiting, Waiting, Ended, Waiting, Waiting, Waiting, Starting],
    "starting": [Starting, Running, Starting, Waiting, Starting, Ending, Starting, Starting, Starting, Ending],
    "running": [Running, Running, Running, Waiting, Running, Ending, Running, Running, Running, Ending],
    "ending": [Ending, Ending, Ending, Ended, Ending, Ending, Ending, Ending, Ending, Ending],
    "ended": [Ended, Ended, Ended, Ended, Ended, Ended, Ended, Ended, Ended, Ended],
}
"""State of actor `a` after each of EVENTS, one nanosecond later. `ending` and `ended` are those of a stopping node."""


def _in_state(name: str) -> Story:
    story = Story(WatchedActor("a"))
    story.take(StartAsked())
    match name:
        case "waiting":
            story.die("a", 1)
        case "running":
            story.take(ActorStarted("a", 1))
        case "ending" | "ended":
            story.take(NodeStopAsked())
    if name == "ended":
        story.die("a", 1, 0, "stopped")
    story.now += 1
    return story


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("index", range(len(EVENTS)))
def test_every_event_in_every_state(state: str, index: int) -> None:
    story = _in_state(state)
    story.take(EVENTS[index])
    assert isinstance(story.machine.life_of("a"), TABLE[state][index])


@pytest.mark.parametrize(
    "wrong",
    [
        {"intensity": -1},
        {"period_ns": 0},
        {"first_backoff_ns": 2, "longest_backoff_ns": 1},
        {"ask_every_ns": SECOND, "silent_after_ns": SECOND},
        {"stop_within_ns": 0},
    ],
)
def test_configuration_that_contradicts_itself_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="supervision"):
        SupervisionConfig(**wrong)  # type: ignore[arg-type]  # The strategy is not among them.
