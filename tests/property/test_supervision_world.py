"""Supervision against a world of runs that start, answer, hang, die and end as Hypothesis likes."""

from random import Random

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.runtime.actor.supervision import (
    ActorAnswered,
    ActorExited,
    ActorStarted,
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
    Running,
    Spawn,
    StartAsked,
    Starting,
    Supervision,
    SupervisionConfig,
    Waiting,
    WatchedActor,
)
from tests.long_form import examples

pytestmark = pytest.mark.slow

CONFIGS = st.builds(
    SupervisionConfig,
    strategy=st.sampled_from(["one_for_one", "rest_for_one"]),
    intensity=st.integers(0, 8),
    period_ns=st.just(10 * SECOND),
    first_backoff_ns=st.sampled_from([1, 100 * MS]),
    longest_backoff_ns=st.sampled_from([100 * MS, 5 * SECOND]),
    ask_every_ns=st.just(1 * SECOND),
    silent_after_ns=st.sampled_from([2 * SECOND, 5 * SECOND]),
    start_within_ns=st.just(20 * SECOND),
    stop_within_ns=st.just(4 * SECOND),
)

ACTORS = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=4)


class World(RuleBasedStateMachine):
    """The runs that exist, as the placement would know them."""

    @initialize(actors=ACTORS, config=CONFIGS, seed=st.integers(0, 3))
    def begin(self, actors: list[tuple[int, bool, bool]], config: SupervisionConfig, seed: int) -> None:
        self.watched = [WatchedActor(f"a{index}", *one) for index, one in enumerate(actors)]
        self.config, self.seed = config, seed
        self.machine = self._new_machine()
        self.now = 1000
        self.recorded: list[tuple[Event, int, list[Effect]]] = []
        self.runs: dict[str, int] = {}
        self.done: list[AllStopped] = []
        self._take(StartAsked())

    def _new_machine(self) -> Supervision:
        return Supervision(self.watched, self.config, Random(self.seed))

    def _take(self, event: Event) -> None:
        effects = self.machine.step(event, Instant(self.now))
        self.recorded.append((event, self.now, effects))
        for effect in effects:
            match effect:
                case Spawn(name=name, run=run):
                    assert name not in self.runs, "two runs of one actor"
                    assert not self.done
                    self._check_stages(name)
                    self.runs[name] = run
                case AskAlive(name=name, run=run) | RequestStop(name=name, run=run):
                    assert self.runs.get(name) == run
                case KillActor(name=name, run=run):
                    assert self._can_kill(name)
                    assert self.runs.get(name) == run
                case AllStopped():
                    self.done.append(effect)
                    assert set(self.runs) == set(effect.hung)
        assert sum(isinstance(effect, Escalated | AllStarted) for *_, all_ in self.recorded for effect in all_) <= 2

    def _can_kill(self, name: str) -> bool:
        return next(one.can_kill for one in self.watched if one.name == name)

    def _check_stages(self, name: str) -> None:
        stage = next(one.stage for one in self.watched if one.name == name)
        for other in self.watched:
            if other.stage < stage and other.is_essential:
                assert isinstance(self.machine.life_of(other.name), Running), "a stage began too early"

    def _pick(self, draw: int) -> str:
        return sorted(self.runs)[draw % len(self.runs)]

    @precondition(lambda self: self.runs)
    @rule(draw=st.integers(0, 3))
    def starts(self, draw: int) -> None:
        name = self._pick(draw)
        self._take(ActorStarted(name, self.runs[name]))

    @precondition(lambda self: self.runs)
    @rule(draw=st.integers(0, 3))
    def answers(self, draw: int) -> None:
        name = self._pick(draw)
        self._take(ActorAnswered(name, self.runs[name]))

    @precondition(lambda self: self.runs)
    @rule(draw=st.integers(0, 3), code=st.sampled_from([0, 1, -9, 65, 78]))
    def exits(self, draw: int, code: int) -> None:
        name = self._pick(draw)
        self._take(ActorExited(name, self.runs.pop(name), code, f"code {code}"))

    @rule(name=st.sampled_from(["a0", "a3", "nobody"]), run=st.integers(-1, 0))
    def stale_news(self, name: str, run: int) -> None:
        self._take(ActorExited(name, run, 1, "stale"))

    @rule()
    def time_comes(self) -> None:
        self.now = max(self.now, self.machine.deadline() or self.now)
        self._take(TimePassed())

    @rule(late_ns=st.sampled_from([1, 500 * MS, 2 * SECOND, 3600 * SECOND]))
    def sleeps(self, late_ns: int) -> None:
        self.now += late_ns
        self._take(TimePassed())

    @rule()
    def stop(self) -> None:
        self._take(NodeStopAsked())

    @invariant()
    def a_deadline_is_never_behind_us(self) -> None:
        due = self.machine.deadline() if hasattr(self, "machine") else None
        assert due is None or due > self.now, "the shell would spin"

    @invariant()
    def lives_agree_with_runs(self) -> None:
        if not hasattr(self, "machine"):
            return
        for one in self.watched:
            life = self.machine.life_of(one.name)
            if one.name in self.runs:
                assert isinstance(life, Starting | Running | Ending | Ended)
                assert not isinstance(life, Ended) or not one.can_kill
            else:
                assert isinstance(life, Waiting | Ended)
            assert isinstance(life, Waiting) <= (self.machine.phase in (NodePhase.STARTING, NodePhase.UP))

    def teardown(self) -> None:
        """However it was, a stop ends; and the same events give the same effects."""
        if not hasattr(self, "machine"):
            return
        self._take(NodeStopAsked())
        for _ in range(20):
            for name in [name for name in sorted(self.runs) if isinstance(self.machine.life_of(name), Ending)]:
                self._take(ActorExited(name, self.runs.pop(name), 0, "stopped"))
            self.now = max(self.now, self.machine.deadline() or self.now)
            self._take(TimePassed())
        assert len(self.done) == 1
        again = self._new_machine()
        for event, now, effects in self.recorded:
            assert msgspec.msgpack.encode(again.step(event, Instant(now))) == msgspec.msgpack.encode(effects)


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
