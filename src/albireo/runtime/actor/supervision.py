"""Supervision: when an actor is started, asked, restarted, killed, and when the node gives up. Pure.

After OTP's supervisor: a strategy, an intensity within a period, a time to stop. New here: a back-off with jitter, and
DEAD?, because an actor that hangs does not exit.

Not done here: processes, threads, sockets (supervisor.py, placement.py).

                stage's turn, wait over                Started
    Waiting ------------------------------> Starting ----------> Running --+
       ^                                       |                    |      | DEAD? every ask_every_ns,
       |            died                       |                    |<-----+ ALIVE! before silent_after_ns
       +---------------------------------------+--------------------+
       |                                       | silent, too slow, stop or restart asked, rest_for_one
       |   exited, node goes on                v
       +----------------------------------- Ending ------------------> Ended
                                               exited, node stops

- Stages: an actor is started once every essential actor of the stages before it runs. They stop in reverse order.
- one_for_one: an actor that died is started anew. rest_for_one: the later stages too, because they build on it.
- An essential actor's deaths are counted over the whole node; more than `intensity` within `period_ns` escalate: the
  node stops and says why. Others are tried for ever, so one adapter's bug does not take the node down.
- An actor that cannot be killed (a thread) and does not end is hung: the node escalates and its process has to end.
- Time in which the supervisor itself did not run (stopped, suspended, starved) is nobody's silence: it is forgiven.

Invariants
    Waiting:   no run exists. `until` says when the next may start.
    Starting, Running, Ending: exactly one run exists, `run` is its number; events of other runs change nothing.
    Ended:     no run exists (or a hung one that is given up); only while the node stops.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Literal, assert_never

import msgspec

from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.runtime.actor.exits import EXIT_ESCALATED, EXIT_HUNG, FINAL


class SupervisionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times and limits. Each default stands with its reason."""

    strategy: Literal["one_for_one", "rest_for_one"] = "one_for_one"
    """Strategy; the protocols between actors recover by themselves (hello again), so restarting one actor is enough."""
    intensity: int = 5
    """Restarts of essential actors within `period_ns` that are still normal."""
    period_ns: int = 60 * SECOND
    first_backoff_ns: int = 100 * MS
    """Wait after the first death; it doubles with each death that follows a short life."""
    longest_backoff_ns: int = 30 * SECOND
    """Longest wait, so that a repaired cause is noticed within half a minute."""
    steady_ns: int = 60 * SECOND
    """Length of a run after which the next death counts as a first one."""
    ask_every_ns: int = SECOND
    """Time between two questions DEAD? to an actor."""
    silent_after_ns: int = 10 * SECOND
    """Silence after which an actor is dead. Far above the longest turn (20 ms) and a machine under full load."""
    start_within_ns: int = 300 * SECOND
    """Longest start, which may read a long log."""
    stop_within_ns: int = 20 * SECOND
    """Longest clean stop, which writes files; after it an actor is killed."""

    def __post_init__(self) -> None:
        if self.intensity < 0 or self.period_ns <= 0:
            raise ValueError(f"supervision: intensity >= 0 and period_ns > 0, got {self.intensity}, {self.period_ns}")
        if not 0 < self.first_backoff_ns <= self.longest_backoff_ns:
            got = f"{self.first_backoff_ns}, {self.longest_backoff_ns}"
            raise ValueError(f"supervision: 0 < first_backoff_ns <= longest_backoff_ns, got {got}")
        if not 0 < self.ask_every_ns * 2 <= self.silent_after_ns:
            got = f"{self.ask_every_ns}, {self.silent_after_ns}"
            raise ValueError(f"supervision: 2 * ask_every_ns <= silent_after_ns, got {got}")
        if min(self.start_within_ns, self.stop_within_ns, self.steady_ns) <= 0:
            raise ValueError("supervision: start_within_ns, stop_within_ns and steady_ns are positive")


class WatchedActor(msgspec.Struct, frozen=True):
    """An actor as supervision is told of it."""

    name: str
    stage: int = 0
    is_essential: bool = True
    can_kill: bool = True
    """True: a run can be ended against its will; a process can, a thread can't."""


class StartAsked(msgspec.Struct, frozen=True):
    """The node is to start. Comes once, first of all."""


class ActorStarted(msgspec.Struct, frozen=True):
    """The actor has said that it is ready."""

    name: str
    run: int


class ActorAnswered(msgspec.Struct, frozen=True):
    """The actor has answered ALIVE!"""

    name: str
    run: int


class ActorExited(msgspec.Struct, frozen=True):
    """The actor's process or thread has ended. Comes exactly once for each run, unless it hangs for ever."""

    name: str
    run: int
    exit_code: int
    reason: str


class NodeStopAsked(msgspec.Struct, frozen=True):
    """The node is to stop. Asking twice changes nothing."""


class RestartAsked(msgspec.Struct, frozen=True):
    """The actor is to begin anew, with arguments that changed; this is no death of it."""

    name: str


Event = StartAsked | ActorStarted | ActorAnswered | ActorExited | TimePassed | NodeStopAsked | RestartAsked


class Spawn(msgspec.Struct, frozen=True):
    name: str
    run: int


class AskAlive(msgspec.Struct, frozen=True):
    """Send DEAD? to the actor."""

    name: str
    run: int


class RequestStop(msgspec.Struct, frozen=True):
    name: str
    run: int


class KillActor(msgspec.Struct, frozen=True):
    name: str
    run: int


class ActorTransitioned(msgspec.Struct, frozen=True):
    """A change of state, for the log, the cases and the status; states by their lower-case names."""

    name: str
    run: int
    old: str
    new: str
    cause: str


class Escalated(msgspec.Struct, frozen=True):
    """This supervisor can't help any more. Everything is stopped now; the process then ends with `exit_code`."""

    reason: str
    exit_code: int


class AllStarted(msgspec.Struct, frozen=True):
    """Every essential actor runs, every other one runs or has failed at least once. Comes once."""


class AllStopped(msgspec.Struct, frozen=True):
    """All actors are stopped. Comes once, last of all. `hung` are threads that did not end: the process must."""

    hung: tuple[str, ...]


Effect = Spawn | AskAlive | RequestStop | KillActor | ActorTransitioned | Escalated | AllStarted | AllStopped


class Waiting(msgspec.Struct, frozen=True):
    until: Instant = Instant(0)


class Starting(msgspec.Struct, frozen=True):
    since: Instant


class Running(msgspec.Struct, frozen=True):
    since: Instant
    ask_at: Instant
    """Instant at which the next DEAD? is due."""
    asked_since: Instant | None = None
    """Instant of the oldest DEAD? that is unanswered; None: all are answered."""


class Ending(msgspec.Struct, frozen=True):
    since: Instant
    cause: str
    is_death: bool
    """True: this end counts against the intensity and backs off."""
    is_killed: bool = False


class Ended(msgspec.Struct, frozen=True):
    pass


Life = Waiting | Starting | Running | Ending | Ended


class NodePhase(Enum):
    NEW = "new"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"


class _Actor:
    """State of one actor."""

    def __init__(self, watched: WatchedActor) -> None:
        self.watched = watched
        self.life: Life = Waiting()
        self.run = 0
        self.restarts = 0
        self.backoff_ns = 0
        """Wait before the present run, without jitter; 0: there was none."""
        self.ready_at: Instant | None = None
        """Instant at which the present run said that it is ready; None: not yet."""
        self.was_ready = False


class Supervision:
    """The supervisor's machine: `step(event, now) -> effects`, to be carried out in order."""

    def __init__(self, actors: Sequence[WatchedActor], config: SupervisionConfig, random: Random) -> None:
        self.phase = NodePhase.NEW
        self._config = config
        self._random = random
        self._actors = {watched.name: _Actor(watched) for watched in actors}
        self._stages = sorted({watched.stage for watched in actors})
        self._deaths: deque[Instant] = deque(maxlen=config.intensity + 1)
        self._escalated: Escalated | None = None
        self._hung: list[str] = []
        self._due: Instant | None = None
        self._effects: list[Effect] = []

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take one event."""
        self._effects = []
        self._forgive(now)
        match event:
            case StartAsked():
                if self.phase is NodePhase.NEW:
                    self.phase = NodePhase.STARTING
            case ActorStarted(name=name, run=run):
                self._started(self._actor(name, run), now)
            case ActorAnswered(name=name, run=run):
                self._answered(self._actor(name, run))
            case ActorExited(name=name, run=run):
                self._exited(self._actor(name, run), event, now)
            case NodeStopAsked():
                self._stop("stop asked")
            case RestartAsked(name=name):
                self._restart(self._actors[name], now)
            case TimePassed():
                pass
            case _:
                assert_never(event)
        if self.phase is not NodePhase.NEW:
            self._look_at_clock(now)
            self._advance(now)
        self._due = self.deadline()
        return self._effects

    def deadline(self) -> Instant | None:
        """Instant at which TimePassed is due; None while only another event can change anything."""
        if self.phase in (NodePhase.NEW, NodePhase.STOPPED):
            return None
        instants = [self._deadline_of(actor) for actor in self._actors.values()]
        return min((instant for instant in instants if instant is not None), default=None)

    def life_of(self, name: str) -> Life:
        return self._actors[name].life

    def restarts_of(self, name: str) -> int:
        return self._actors[name].restarts

    def _actor(self, name: str, run: int) -> _Actor | None:
        """The actor, if `run` is its present run; words of an earlier run are ignored."""
        actor = self._actors.get(name)
        return actor if actor is not None and actor.run == run else None

    def _started(self, actor: _Actor | None, now: Instant) -> None:
        if actor is not None and isinstance(actor.life, Starting):
            ask_at = Instant(now + self._config.ask_every_ns)
            actor.ready_at, actor.was_ready = now, True
            self._become(actor, Running(since=now, ask_at=ask_at), "ready")

    def _answered(self, actor: _Actor | None) -> None:
        if actor is not None and isinstance(actor.life, Running):
            actor.life = msgspec.structs.replace(actor.life, asked_since=None)

    def _exited(self, actor: _Actor | None, event: ActorExited, now: Instant) -> None:
        if actor is None:
            return
        if self.phase is NodePhase.STOPPING and not isinstance(actor.life, Ended):
            self._become(actor, Ended(), event.reason)
            return
        match actor.life:
            case Ending(cause=cause, is_death=is_death):
                if is_death:
                    self._died(actor, cause, now)
                else:
                    self._become(actor, Waiting(now), event.reason)
            case Starting() | Running():
                # Arguments that were accepted once are no matter of configuration: the last run left something behind.
                if event.exit_code in FINAL and actor.watched.is_essential and not actor.was_ready:
                    self._become(actor, Waiting(now), event.reason)
                    self._escalate(event.reason, event.exit_code)
                else:
                    self._died(actor, event.reason, now)
            case Waiting() | Ended():
                # A hung run that ended after all.
                self._hung = [name for name in self._hung if name != actor.watched.name]
            case _:
                assert_never(actor.life)

    def _restart(self, actor: _Actor, now: Instant) -> None:
        """Begin a run with the arguments of now; one that ends already is followed by such a run anyway."""
        match actor.life:
            case Starting() | Running() if self.phase is not NodePhase.STOPPING:
                self._request_stop(actor, "restart asked", now)
            case Waiting():
                actor.life = Waiting(now)

    def _died(self, actor: _Actor, cause: str, now: Instant) -> None:
        """Note the death of a run that was not asked to end."""
        config = self._config
        was_steady = actor.ready_at is not None and now - actor.ready_at >= config.steady_ns
        doubled = config.first_backoff_ns if was_steady or not actor.backoff_ns else 2 * actor.backoff_ns
        actor.backoff_ns = min(doubled, config.longest_backoff_ns)
        # Half is fixed, half is drawn: actors that died of one cause do not come back in one moment.
        wait_ns = actor.backoff_ns // 2 + self._random.randrange(actor.backoff_ns // 2 + 1)
        actor.restarts += 1
        self._become(actor, Waiting(Instant(now + wait_ns)), cause)
        if actor.watched.is_essential:
            self._count_death(actor, cause, now)
        if config.strategy == "rest_for_one":
            self._end_stages_after(actor.watched, now)

    def _count_death(self, actor: _Actor, cause: str, now: Instant) -> None:
        self._deaths.append(now)
        count = sum(now - death <= self._config.period_ns for death in self._deaths)
        if count > self._config.intensity:
            seconds = self._config.period_ns / SECOND
            self._escalate(f"{count} actors died within {seconds:g} s, the last was {actor.watched.name}: {cause}")

    def _end_stages_after(self, watched: WatchedActor, now: Instant) -> None:
        for actor in reversed(self._actors.values()):
            if actor.watched.stage > watched.stage and isinstance(actor.life, Starting | Running):
                self._request_stop(actor, f"{watched.name} died", now)

    def _forgive(self, now: Instant) -> None:
        """Prolong every wait if this step comes late, because nobody could have answered while we did not run."""
        if self._due is None or now - self._due <= self._config.ask_every_ns:
            return
        late_ns = now - self._due
        for actor in self._actors.values():
            match actor.life:
                case Starting(since=since) | Ending(since=since):
                    actor.life = msgspec.structs.replace(actor.life, since=Instant(since + late_ns))
                case Running(asked_since=int(asked_since)):
                    actor.life = msgspec.structs.replace(actor.life, asked_since=Instant(asked_since + late_ns))
                case _:
                    pass

    def _look_at_clock(self, now: Instant) -> None:
        config = self._config
        for actor in self._actors.values():
            match actor.life:
                case Starting(since=since) if now - since >= config.start_within_ns:
                    self._overdue(actor, f"not ready within {config.start_within_ns / SECOND:g} s", now)
                case Running(asked_since=int(asked_since)) if now - asked_since >= config.silent_after_ns:
                    self._overdue(actor, f"silent for {config.silent_after_ns / SECOND:g} s", now)
                case Running(ask_at=ask_at) as life if now >= ask_at:
                    self._ask(actor, life, now)
                case Ending(since=since, cause=cause) if now - since >= config.stop_within_ns:
                    self._overdue(actor, cause, now)
                case _:
                    pass

    def _ask(self, actor: _Actor, life: Running, now: Instant) -> None:
        actor.life = Running(
            since=life.since,
            ask_at=Instant(now + self._config.ask_every_ns),
            asked_since=now if life.asked_since is None else life.asked_since,
        )
        self._effects.append(AskAlive(actor.watched.name, actor.run))

    def _overdue(self, actor: _Actor, cause: str, now: Instant) -> None:
        """End a run that does not end by itself."""
        if actor.watched.can_kill:
            life = actor.life
            is_death = life.is_death if isinstance(life, Ending) else True
            self._become(actor, Ending(since=now, cause=cause, is_death=is_death, is_killed=True), cause)
            self._effects.append(KillActor(actor.watched.name, actor.run))
        else:
            self._hung.append(actor.watched.name)
            self._become(actor, Ended(), cause)
            self._escalate(f"{actor.watched.name} hangs in its thread ({cause}); its process has to end", EXIT_HUNG)

    def _deadline_of(self, actor: _Actor) -> Instant | None:
        config = self._config
        match actor.life:
            case Waiting(until=until):
                return until if self._may_start(actor) else None
            case Starting(since=since):
                return Instant(since + config.start_within_ns)
            case Running(ask_at=ask_at, asked_since=int(asked_since)):
                return min(ask_at, Instant(asked_since + config.silent_after_ns))
            case Running(ask_at=ask_at):
                return ask_at
            case Ending(since=since):
                return Instant(since + config.stop_within_ns)
            case Ended():
                return None
            case _:
                assert_never(actor.life)

    def _advance(self, now: Instant) -> None:
        """Start actors that may start, stop those that must stop, and notice the end of either."""
        if self.phase in (NodePhase.STARTING, NodePhase.UP):
            for actor in self._actors.values():
                if isinstance(actor.life, Waiting) and actor.life.until <= now and self._may_start(actor):
                    actor.run += 1
                    actor.ready_at = None
                    self._become(actor, Starting(now), "its turn" if actor.restarts == 0 else "again")
                    self._effects.append(Spawn(actor.watched.name, actor.run))
        if self.phase is NodePhase.STARTING and all(self._has_started(actor) for actor in self._actors.values()):
            self.phase = NodePhase.UP
            self._effects.append(AllStarted())
        if self.phase is NodePhase.STOPPING:
            self._stop_last_stage(now)

    def _may_start(self, actor: _Actor) -> bool:
        return self.phase in (NodePhase.STARTING, NodePhase.UP) and all(
            isinstance(other.life, Running)
            for other in self._actors.values()
            if other.watched.stage < actor.watched.stage and other.watched.is_essential
        )

    def _has_started(self, actor: _Actor) -> bool:
        return isinstance(actor.life, Running) or (not actor.watched.is_essential and actor.restarts > 0)

    def _stop_last_stage(self, now: Instant) -> None:
        for stage in reversed(self._stages):
            there = [a for a in self._actors.values() if a.watched.stage == stage and not isinstance(a.life, Ended)]
            for actor in there:
                if isinstance(actor.life, Starting | Running):
                    self._request_stop(actor, "stop asked", now)
            if there:
                return
        self.phase = NodePhase.STOPPED
        self._effects.append(AllStopped(tuple(self._hung)))

    def _request_stop(self, actor: _Actor, cause: str, now: Instant) -> None:
        self._become(actor, Ending(since=now, cause=cause, is_death=False), cause)
        self._effects.append(RequestStop(actor.watched.name, actor.run))

    def _escalate(self, reason: str, exit_code: int = EXIT_ESCALATED) -> None:
        if self._escalated is None:
            self._escalated = Escalated(reason, exit_code)
            self._effects.append(self._escalated)
        self._stop(reason)

    def _stop(self, cause: str) -> None:
        """Start nothing any more. The stages are stopped by `_advance`."""
        if self.phase in (NodePhase.STOPPING, NodePhase.STOPPED):
            return
        self.phase = NodePhase.STOPPING
        for actor in self._actors.values():
            if isinstance(actor.life, Waiting):
                self._become(actor, Ended(), cause)

    def _become(self, actor: _Actor, life: Life, cause: str) -> None:
        old, actor.life = actor.life, life
        self._effects.append(
            ActorTransitioned(
                actor.watched.name, actor.run, type(old).__name__.lower(), type(life).__name__.lower(), cause
            )
        )
