"""A process of the simulated cluster: the loop of one actor, on simulated time.

It is shaped as `runtime.ActorContext`, and in its order: a turn makes the calls, hands over the letters that fit into
it, and ticks. An error that the behaviour raises ends the process, as it ends the real one.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from albireo.codec.message import AnyMessage, Logged
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.runtime import ActorContext, Journal, Letter, Link, LinkLimits, Reach, TurnLimits
from albireo.runtime.actor.actor import CALLS_PER_TURN_MAX, Behaviour
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.link import DEFAULT_LIMITS
from albireo.runtime.loop import TurnMeter
from albireo.sim.engine.agenda import Timer
from albireo.sim.nodes.loop import StagedLoop
from albireo.sim.nodes.network import Host, Parts, StagedLink
from albireo.sim.nodes.stage import NodeStage

TURN_NS: Final = 50_000
"""Time from what wakes an actor up to its turn."""
WALL_NS: Final = 1_800_000_000 * SECOND
SPINS_MAX: Final = 200
"""Turns in a row that an actor may take because its deadline has come, each right behind the one before (10 ms)."""


class Keeper(Protocol):
    """Keeper of a process, who started it and sees what becomes of it."""

    def ended(self, actor: "StagedActor", reason: str) -> None:
        """Note that the actor ended itself; without a reason: a clean stop."""

    def crashed(self, actor: "StagedActor", error: Exception) -> None:
        """Note that the actor raised this error."""

    def turned(self) -> None:
        """Note that a turn is over."""

    def said(self, message: AnyMessage) -> None:
        """Note that one of the actor's links took this message."""


class StagedActor:
    """One life of one process."""

    def __init__(self, stage: NodeStage, host: Host, behaviour: Behaviour, data: Path, keeper: Keeper) -> None:
        stage.lives += 1
        self.stage = stage
        self.agenda = stage.agenda
        self.host = host
        self.name = behaviour.name
        self.data = data
        self.is_alive = True
        self.is_ready = False
        self.is_stopping = False
        self.lock = None
        """No boot holds the disk from one process to the next."""
        self.paused_until = 0
        self.leaves_at = 0
        self.turns = TurnMeter()
        self.turn_limits = TurnLimits()
        self.malformed = 0
        self.behaviour = behaviour
        self.links: list[StagedLink] = []
        self._at_ready: list[Callable[[], object]] = []
        self.loop = StagedLoop(stage.agenda, self._run, partial(keeper.crashed, self))  # type: ignore[abstract]  # Descriptors, processes.
        self.log = Journal(self.name, self._told, self.wall_ns, self.now)
        self.tcp = SimpleNamespace()
        """Patience of links, which need none here."""
        self._id = stage.lives
        self._keeper = keeper
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._letters: deque[tuple[StagedLink, bytes, AnyMessage, Parts]] = deque()
        self._deadline: Instant | None = None
        self._timer = Timer(stage.agenda, host, self._deadline_came)
        self._is_turn_due = False
        self._is_failed = False
        self._spins = 0
        self._ticked_at = 0

    def now(self) -> Instant:
        return self.host.local(self.agenda.at)

    def wall_ns(self) -> WallTime:
        return WallTime(WALL_NS + self.agenda.at + self.host.wall_shift_ns)

    def key_trouble(self) -> str:
        return ""

    def bind(self, name: str, limits: LinkLimits = DEFAULT_LIMITS) -> Link:
        return self._listen(name, self._local(name), limits)

    def connect(self, name: str, limits: LinkLimits = DEFAULT_LIMITS) -> Link:
        return self._dial(name, self._local(name), limits)

    def bind_tcp(
        self, name: str, endpoint: str, keys: object, limits: LinkLimits = TCP_LIMITS, hears: object = None
    ) -> Link:
        return self._listen(name, endpoint, limits)

    def connect_tcp(
        self,
        name: str,
        endpoint: str,
        keys: object,
        limits: LinkLimits = TCP_LIMITS,
        peer: str = "",
        hears: object = None,
    ) -> Link:
        return self._dial(name, endpoint, limits)

    def probe(self, endpoint: str, timeout_s: float, on_answer: Callable[[Reach], object]) -> None:
        self.stage.network.probe(self, endpoint, timeout_s, on_answer)

    def arm(self, deadline: Instant | None) -> None:
        self._deadline = deadline
        self._timer.arm(deadline)

    def call(self, function: Callable[..., object], *args: object) -> bool:
        if self.is_alive:
            self._calls.append((function, args))
            self._turn_soon()
        return self.is_alive

    def fail(self, reason: str) -> None:
        """End the process for a reason; the present turn goes on to its end, and is the last one."""
        if not self._is_failed:
            self._is_failed = True
            self.agenda.call_at(self.agenda.at, partial(self._keeper.ended, self, reason))

    def at_ready(self, begin: Callable[[], object]) -> None:
        self._at_ready.append(begin)

    def at_end(self, release: Callable[[], object]) -> None:
        """Do nothing: the disk releases what a dead process held."""

    def start(self) -> None:
        """Run the start of the behaviour; letters come after it."""

        def started() -> None:
            self.is_ready = True
            for begin in self._at_ready:
                begin()
            self._turn_soon()

        self._work(self.behaviour.start(cast(ActorContext, self)), started)

    def stop(self) -> None:
        """Run a clean stop of the behaviour."""
        if self.is_alive and self.is_ready and not self.is_stopping:
            self.is_stopping = True
            self._work(self.behaviour.stop(), partial(self._keeper.ended, self, ""))

    def die(self, *, is_power: bool) -> None:
        """End the process at once: nothing of it happens any more."""
        if self.is_alive:
            self.is_alive = False
            for link in self.links:
                link.died(self.stage.chance, is_power=is_power)
            self.loop.end()

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if self.is_alive:
            self._letters.append((link, sender, message, raw))
            self._turn_soon()

    def sent(self, message: AnyMessage) -> None:
        self._keeper.said(message)

    def _turn_soon(self) -> None:
        if not self._is_turn_due and self.is_alive:
            self._is_turn_due = True
            at = max(self.agenda.at + TURN_NS, self.paused_until, self.leaves_at)
            self.agenda.call_at(at, self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self.is_alive and self.agenda.at < max(self.paused_until, self.leaves_at):
            self._turn_soon()
        elif self.is_alive:
            self._run(self._take)

    def _take(self) -> None:
        for _ in range(min(len(self._calls), CALLS_PER_TURN_MAX)):
            function, args = self._calls.popleft()
            function(*args)
        if not self.is_ready:
            return
        letters = self._drain()
        if letters:
            self.behaviour.drained(letters)
        if self._deadline is not None and self._deadline <= self.now():
            self._deadline = None
            self._count_spin(is_alone=not letters)
            self.behaviour.ticked(self.now())
        if self._calls or self._letters:
            self._turn_soon()

    def _count_spin(self, *, is_alone: bool) -> None:
        """A deadline that comes again and again, though nothing else happens, would take a whole core."""
        is_spin = is_alone and self.agenda.at - self._ticked_at <= 2 * TURN_NS
        self._spins = self._spins + 1 if is_spin else 0
        self._ticked_at = self.agenda.at
        assert self._spins < SPINS_MAX, f"{self.name} spins: its deadline comes again every {TURN_NS // 1000} us"

    def _drain(self) -> list[Letter]:
        count_left, bytes_left = self.turn_limits.letters_max, self.turn_limits.bytes_max
        drained: list[Letter] = []
        while self._letters and count_left > 0 and bytes_left > 0:
            link, sender, message, raw = self._letters.popleft()
            count_left -= 1
            bytes_left -= sum(map(len, raw))
            if not link.is_closed:
                drained.append(Letter(cast(Link, link), sender, message, raw, link.principal))
        return drained

    def _run(self, work: Callable[[], object]) -> None:
        """Do work in the process; an error that the work raises ends the process."""
        if not self.is_alive or self._is_failed:
            return
        if self.paused_until > self.agenda.at:
            self.agenda.call_at(self.paused_until, lambda: self._run(work))
            return
        try:
            with self.loop.running():
                work()
        except Exception as error:  # noqa: BLE001  # As the real supervisor does; the world raises what is a bug.
            if not self._is_failed:  # An error after a failure is no news.
                self._keeper.crashed(self, error)
        else:
            if self.is_alive:
                self._keeper.turned()

    def _work(self, work: Coroutine[Any, Any, object], then: Callable[[], object]) -> None:
        with self.loop.running():
            task = self.loop.create_task(work)

        def over(_: object) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                raise error
            then()

        task.add_done_callback(over)

    def _deadline_came(self) -> None:
        if self._deadline is None:
            return
        if self._deadline <= self.now():
            self._turn_soon()
        else:
            self.arm(self._deadline)

    def _local(self, name: str) -> str:
        return f"{self.data}/{name}"

    def _listen(self, name: str, endpoint: str, limits: LinkLimits) -> Link:
        link = StagedLink(self.stage.network, self, name, b"", limits)
        self.stage.network.listen(link, endpoint)
        return self._keep(link)

    def _dial(self, name: str, endpoint: str, limits: LinkLimits) -> Link:
        identity = f"{self.name}#{self._id}.{len(self.links)}".encode()
        link = StagedLink(self.stage.network, self, name, identity, limits)
        link.endpoint = endpoint
        self.stage.network.dial(link)
        return self._keep(link)

    def _keep(self, link: StagedLink) -> Link:
        self.links.append(link)
        return cast(Link, link)

    def _told(self, line: Logged) -> bool:
        fields = " ".join(f"{name}={value}" for name, value in line.fields.items())
        self.stage.note(self.host.name, f"{line.level[0].upper()} {line.event} {fields}")
        return True
