"""Boot: the shell around supervision. It holds the data directory, binds `boot`, and starts and stops the actors.

    supervisor = Supervisor(data, specs, placement="process", config=SupervisionConfig(), on_change=None)
    await supervisor.start()          # all run, or StartFailed / DataLocked
    ...
    await supervisor.stop()           # all stopped, sockets gone, lock released

Boot is an actor like the others, in the caller's loop. It answers `Ask("actors")` with what `states()` says, takes
`Ask("stop")` as the wish to stop the node, and hands each other question to whoever answers it.
"""

import asyncio
import os
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec

from albireo.codec.message import AliveAnswered, AliveAsked, Answer, Ask, Started, StopAsked, Stopped
from albireo.codec.questions.boot import ACTORS, STOP
from albireo.codec.questions.kind import Handled, Nothing, QuestionKind, ShapeT, by_name, taken
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.refusal import Refusal
from albireo.model.status import FaceAddress
from albireo.runtime.actor.actor import ActorContext, run_actor
from albireo.runtime.actor.placement import ActorEnd, ActorPlacement, ActorSpec, ProcessPlacement, ThreadPlacement
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
    NodePhase,
    NodeStopAsked,
    RequestStop,
    RestartAsked,
    Spawn,
    StartAsked,
    Supervision,
    SupervisionConfig,
    WatchedActor,
)
from albireo.runtime.clock import boot_ns
from albireo.runtime.directory import RunDirectory, lock_of
from albireo.runtime.errors import ActorHung, AnswerRefused, StartFailed
from albireo.runtime.link.sockets import Letter, new_identity

SIGNALS_APART_S: Final = 0.1
"""Time in which a signal that goes to all processes of a node has reached boot too."""
ENDS_KEPT: Final = 16
LATELY_NS: Final = 60 * SECOND
DEFAULT_CONFIG: Final = SupervisionConfig()

PlacementName = Literal["process", "thread"]


class ActorState(msgspec.Struct, frozen=True, kw_only=True):
    """One actor, for `albireo status` and for cases."""

    name: str
    stage: int
    state: str
    """waiting, starting, running, ending, ended"""
    pid: int
    """Process id; 0 while there is no process."""
    run: int
    """Runs begun since the start of the node."""
    restarts: int
    """Deaths since the start of the node."""
    cause: str
    """Cause of the last change of state."""
    since_ns: int
    """Instant (boot clock) of the last change of state."""
    cpu_ns: int
    """CPU time of the process or the thread, as of the last answer."""
    longest_turn_ns: int
    """Longest turn of the last 10..20 s."""
    longest_turn_cpu_ns: int
    """Most CPU time that a turn used in the last 10..20 s; a longer turn waited for a core, a disk or the host."""
    malformed: int
    log_dropped: int
    last_end: str
    """Cause of the last death since the start of the node; empty: there was none."""
    ends_lately: int
    """Deaths within the last minute, at most ENDS_KEPT."""
    was_killed: bool
    """True: the last death was that of a run which answered no more, or never became ready."""
    is_stopping: bool
    """True: the node stops, and this actor in its turn."""
    address: FaceAddress


class ActorChanged(msgspec.Struct, frozen=True):
    """An actor's state has changed."""

    name: str
    old: str
    new: str
    cause: str
    restarts: int


class _ActorFacts:
    """Facts of an actor beside its state of supervision."""

    def __init__(self, spec: ActorSpec) -> None:
        self.spec = spec
        self.identity = b""
        self.run = 0
        self.pid = 0
        self.state = "waiting"
        self.cause = ""
        self.since = Instant(0)
        self.answer = AliveAnswered(nonce=0, actor=spec.name)
        self.address = FaceAddress()
        self.is_killed = self.was_killed = False
        """Whether the present run was killed, and whether the last one that died was."""
        self.last_end = ""
        self.ends: deque[Instant] = deque(maxlen=ENDS_KEPT)


class Supervisor:
    """Runs a node's actors. One per data directory: a second one is refused. For one loop only."""

    def __init__(
        self,
        data: Path,
        specs: Sequence[ActorSpec],
        placement: PlacementName = "process",
        *,
        config: SupervisionConfig = DEFAULT_CONFIG,
        on_change: Callable[[ActorChanged], object] | None = None,
        seed: int | None = None,
        log_level: str = "info",
        answers: "Sequence[Handled[BootAnswer]]" = (),
    ) -> None:
        """Nothing is touched before `start`.

        Args:
            data: the node's data directory.
            specs: its actors; names are unique and none is `boot`.
            placement: where they live.
            config: times and limits.
            on_change: told of each change of an actor's state, in boot's loop.
            seed: seed of the jitter; None draws one.
            log_level: lowest level of log lines that the actors make.
            answers: further questions to boot, and who answers them.
        Raises:
            ValueError: a name is used twice.
        """
        names = ["boot", *(spec.name for spec in specs)]
        if len(set(names)) != len(names):
            raise ValueError(f"actor names are unique and not boot: {sorted(names)}")
        self.name = "boot"
        self._data = data.absolute()
        self._placement_name = placement
        self._config = config
        self._log_level = log_level
        self._on_change = on_change
        self._seen = {spec.name: _ActorFacts(spec) for spec in specs}
        watched = [
            WatchedActor(one.name, one.stage, one.is_essential, can_kill=one.is_apart or placement == "process")
            for one in specs
        ]
        self._machine = Supervision(watched, config, Random(secrets.randbits(64) if seed is None else seed))
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._nonce = 0
        self._escalated: Escalated | None = None
        self._hung: tuple[str, ...] = ()
        self._is_stop_asked = False
        self._is_bound = False
        own = (handled(ACTORS, lambda boot, _: boot.states()), handled(STOP, Supervisor._stop_asked))
        self.handlers = by_name([*own, *answers])

    async def start(self) -> bool:
        """Take the data directory and start everything; returns when all run.

        Returns:
            False: a stop was asked for meanwhile, and all is stopped.
        Raises:
            DataLocked: another node holds it.
            DirectoryUnsafe: it is not ours alone.
            StartFailed: gave up; everything is stopped again.
        """
        self._lock = await lock_of(self._data)
        apart = ProcessPlacement(self._data, self._lock, self._log_level)
        usual: ActorPlacement = (
            apart if self._placement_name == "process" else ThreadPlacement(self._data, self._lock, self._log_level)
        )
        self._placements = {name: apart if one.spec.is_apart else usual for name, one in self._seen.items()}
        self._all_started = asyncio.Event()
        self._all_stopped = asyncio.Event()
        self._boot = asyncio.create_task(run_actor(_Boot(self), self._data))
        try:
            await self._until(self._all_started)
        except BaseException:  # Ctrl-C too: whatever it was goes on, actors and the lock do not stay.
            self._boot.cancel()
            self._release()
            raise
        if self._escalated is not None:
            await self.wait()
            raise StartFailed(self._escalated.reason, self._escalated.exit_code)
        return not self._all_stopped.is_set()

    def request_stop(self) -> None:
        """Ask for the stop of the node; `wait` returns when it is done."""
        self._is_stop_asked = True
        if self._is_bound:
            self._actor.call(self._take, NodeStopAsked())

    async def stop(self) -> None:
        """Stop everything, in reverse order of the stages; returns when all is released.

        Raises:
            ActorHung: a thread did not end; the process must.
        """
        self.request_stop()
        await self.wait()
        if self._hung:
            raise ActorHung(self._hung)

    async def wait(self) -> Escalated | None:
        """Wait until the node has stopped; returns the reason if it gave up."""
        try:
            await self._until(self._all_stopped)
            self._actor.stop()
            await self._boot
        finally:
            self._release()
        return self._escalated

    def _release(self) -> None:
        for one in self._placements.values():
            one.close()
        self._lock.release()

    def restart(self, name: str, arguments: dict[str, object]) -> None:
        """Give an actor other arguments, and let it begin anew with them; for boot's loop."""
        seen = self._seen[name]
        seen.spec = msgspec.structs.replace(seen.spec, arguments=arguments)
        self._actor.log.info("restart_asked", actor=name)
        self._take(RestartAsked(name))

    def states(self) -> tuple[ActorState, ...]:
        """Every actor, in the order of the specs."""
        return tuple(self._state(seen) for seen in self._seen.values())

    @property
    def hung(self) -> tuple[str, ...]:
        """Actors whose thread did not end."""
        return self._hung

    def bind(self, actor: ActorContext) -> None:
        self._actor = actor
        self._is_bound = True
        run = RunDirectory(self._data)
        stale = run.remove_stale()
        run.close()
        if stale:
            actor.log.info("stale_sockets_removed", names=stale)
        self._link = actor.bind("boot")
        actor.log.info("node_starting", pid=os.getpid(), placement=self._placement_name, actors=list(self._seen))

    def begin(self) -> None:
        self._take(StartAsked())
        if self._is_stop_asked:
            self._take(NodeStopAsked())

    def take_letters(self, letters: Sequence[Letter]) -> None:
        by_identity = {seen.identity: seen for seen in self._seen.values() if seen.identity}
        for letter in letters:
            seen = by_identity.get(letter.sender)
            match letter.message:
                case Ask() as ask:
                    letter.link.send(self._answer(ask), to=letter.sender)
                case Started(address=address) if seen is not None:
                    seen.address = address
                    self._take(ActorStarted(seen.spec.name, seen.run))
                case AliveAnswered() as answer if seen is not None:
                    seen.answer = answer
                    self._take(ActorAnswered(seen.spec.name, seen.run))
                case StopAsked() if seen is not None:
                    self._actor.loop.call_later(SIGNALS_APART_S, self._let_stop, seen, letter.sender)
                case Stopped() if seen is not None:
                    pass  # The end of its process or thread says so with certainty.
                case other:
                    self._actor.log.limited("message_unexpected", type(other).__name__, sender=letter.sender)

    def _let_stop(self, seen: _ActorFacts, identity: bytes) -> None:
        """Stop an actor that was signalled, unless boot was as well: then all stop in their order."""
        if seen.state == "ending" or (seen.state in ("starting", "running") and not self._is_stop_asked):
            self._link.send(StopAsked(), to=identity)

    def pass_time(self) -> None:
        self._take(TimePassed())

    def _answer(self, ask: Ask) -> Answer:
        found = taken(self.handlers, ask)
        try:
            outcome = found if isinstance(found, Refusal) else found[0].handler(self, found[1])
        except AnswerRefused as refused:
            outcome = refused.refusal
        refusal = outcome if isinstance(outcome, Refusal) else None
        result = None if refusal else msgspec.to_builtins(outcome)
        return Answer(request_id=ask.request_id, result=result, refusal=refusal)

    def _stop_asked(self, _: Nothing) -> bool:
        self.request_stop()
        return True

    def _take(self, event: Event) -> None:
        """Step and perform. An event that an effect causes waits until the earlier effects are done."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._events:
            for effect in self._machine.step(self._events.popleft(), boot_ns()):
                self._perform(effect)
        self._is_stepping = False
        self._actor.arm(self._machine.deadline())

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Spawn(name=name, run=run):
                self._spawn(self._seen[name], run)
            case AskAlive(name=name):
                self._nonce += 1
                self._link.send(AliveAsked(nonce=self._nonce), to=self._seen[name].identity)
            case RequestStop(name=name):
                if not self._link.send(StopAsked(), to=self._seen[name].identity):
                    self._placements[name].request_stop(name)
            case KillActor(name=name):
                self._seen[name].is_killed = True
                self._placements[name].kill(name)
            case ActorTransitioned():
                self._note(effect)
            case Escalated(reason=reason, exit_code=exit_code):
                self._escalated = effect
                self._actor.log.error("node_gives_up", reason=reason, exit_code=exit_code)
                self._all_started.set()
            case AllStarted():
                self._actor.log.info("node_started")
                self._all_started.set()
            case AllStopped(hung=hung):
                self._hung = hung
                self._actor.log.info("node_stopped", hung=list(hung))
                self._all_started.set()
                self._all_stopped.set()

    def _spawn(self, seen: _ActorFacts, run: int) -> None:
        seen.run = run
        seen.identity = new_identity(seen.spec.name)
        seen.answer = AliveAnswered(nonce=0, actor=seen.spec.name)

        def ended(ending: ActorEnd) -> None:
            # By `call`: what on_change raises in there ends boot, instead of being printed by asyncio.
            self._actor.call(self._take, ActorExited(seen.spec.name, run, ending.exit_code, ending.reason))

        try:
            seen.pid = self._placements[seen.spec.name].spawn(seen.spec, seen.identity, ended)
        except OSError as error:  # No memory, no process slots: it has died before it lived.
            ended(ActorEnd(1, f"could not be started: {error}"))

    def _note(self, change: ActorTransitioned) -> None:
        seen = self._seen[change.name]
        seen.state, seen.cause, seen.since = change.new, change.cause, boot_ns()
        if change.new in ("waiting", "ended"):
            seen.pid = 0
        if change.new == "waiting":
            seen.last_end, seen.was_killed, seen.is_killed = change.cause, seen.is_killed, False
            seen.ends.append(seen.since)
        restarts = self._machine.restarts_of(change.name)
        is_death = change.new == "waiting" or (change.new == "ending" and change.cause != "stop asked")
        tell = self._actor.log.warning if is_death else self._actor.log.info
        tell("actor_changed", name=change.name, old=change.old, new=change.new, cause=change.cause, restarts=restarts)
        if self._on_change is not None:
            self._on_change(ActorChanged(change.name, change.old, change.new, change.cause, restarts))

    def _state(self, seen: _ActorFacts) -> ActorState:
        return ActorState(
            name=seen.spec.name,
            stage=seen.spec.stage,
            state=seen.state,
            pid=seen.pid,
            run=seen.run,
            restarts=self._machine.restarts_of(seen.spec.name),
            is_stopping=self._machine.phase is NodePhase.STOPPING,
            cause=seen.cause,
            since_ns=seen.since,
            cpu_ns=seen.answer.cpu_ns,
            longest_turn_ns=seen.answer.longest_turn_ns,
            longest_turn_cpu_ns=seen.answer.longest_turn_cpu_ns,
            malformed=seen.answer.malformed,
            log_dropped=seen.answer.log_dropped,
            last_end=seen.last_end,
            ends_lately=sum(boot_ns() - one < LATELY_NS for one in seen.ends),
            was_killed=seen.was_killed,
            address=seen.address,
        )

    async def _until(self, event: asyncio.Event) -> None:
        """Wait for `event`; raises boot's error if boot fails first."""
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting, self._boot}, return_when=asyncio.FIRST_COMPLETED)
            if self._boot.done():
                self._boot.result()
        finally:
            waiting.cancel()


class _Boot:
    """The supervisor as a behaviour, apart from it because its `start` and `stop` mean something else to its owner."""

    name = "boot"

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def start(self, actor: ActorContext) -> None:
        self._supervisor.bind(actor)
        actor.at_ready(self._supervisor.begin)

    def drained(self, letters: Sequence[Letter]) -> None:
        self._supervisor.take_letters(letters)

    def ticked(self, now: Instant) -> None:
        self._supervisor.pass_time()

    async def stop(self) -> None:
        pass


BootAnswer: TypeAlias = Callable[[Supervisor, Any], object]
"""Answers a question in boot's loop. Raises AnswerRefused."""


def handled(kind: QuestionKind[ShapeT, Any], answer: Callable[[Supervisor, ShapeT], object]) -> Handled[BootAnswer]:
    """Bind a handler to a question to boot."""
    return Handled(kind, answer)
