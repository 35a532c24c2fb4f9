"""An actor: one loop, bounded mailboxes, one behaviour.

    class Echo:
        name = "echo"

        async def start(self, actor: ActorContext) -> None:
            self.link = actor.bind("echo")

        def drained(self, letters: Sequence[Letter]) -> None:
            for letter in letters:
                letter.link.send(letter.message, letter.raw, to=letter.sender)

        def ticked(self, now: Instant) -> None: ...
        async def stop(self) -> None: ...

    await run_actor(Echo(), data)

A wake-up drains all links of the actor, at most `TurnLimits` in count and bytes, and hands the letters over in one
call; the rest comes in the next turn, so that timers and other callbacks get theirs. DEAD? is answered and stop is
taken by the context, in the actor's own loop: an actor that hangs does not answer.

What an actor raises ends it. Nothing is caught here; the one place that catches is `placement.live`, where an actor's
life ends and its supervisor is told.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.message import AliveAnswered, AliveAsked, Logged, Started, StopAsked, Stopped
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.status import FaceAddress
from albireo.runtime.actor.keep import Keep
from albireo.runtime.clock import boot_ns, process_cpu_ns, thread_cpu_ns, wall_ns
from albireo.runtime.directory import DataLock, RunDirectory
from albireo.runtime.errors import ActorFailed, MailboxFull
from albireo.runtime.journal import Journal
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import DEFAULT_LIMITS, Hears, Letter, Link, LinkLimits
from albireo.runtime.link.links import ActorLinks, TurnLimits
from albireo.runtime.link.probe import Probes, Reach
from albireo.runtime.link.sockets import Sockets, new_identity
from albireo.runtime.link.tcp import TcpLinks, nobody
from albireo.runtime.loop import ActorLoop, NextTurn, TurnMeter
from albireo.runtime.mailbox import Mailbox, Overflow

Call = tuple[Callable[..., object], tuple[object, ...]]
"""Function and arguments of a call from another thread."""

CALLS_MAX: Final = 10_000
"""Calls from other threads that may wait for the loop. Overflow rule: fail; a loop that far behind hangs."""
CALLS_PER_TURN_MAX: Final = 1000
JOURNAL_FLUSH_S: Final = 0.1
_BOOT_LIMITS: Final = LinkLimits(send_messages_max=100, receive_messages_max=100)
_LOGGER_LIMITS: Final = LinkLimits(holds_for_peer=False, send_messages_max=1000, receive_messages_max=10)


class Behaviour(Protocol):
    """The part of an actor that its author writes. Everything is called in the actor's loop."""

    name: str

    async def start(self, actor: "ActorContext") -> None:
        """Bind, connect, load. Returns when ready; letters come only afterwards, so no answer is received in here.

        Raises:
            ConfigurationRefused: it cannot start with its arguments; the node ends with exit code 78.
        """

    def drained(self, letters: Sequence[Letter]) -> None:
        """Take all letters that one wake-up drained, never none. It may not last longer than a turn."""

    def ticked(self, now: Instant) -> None:
        """Act on the armed deadline, which has come and is disarmed: `arm` sets the next one."""

    async def stop(self) -> None:
        """Finish and release everything. Letters, ticks and calls go on until this returns.

        It is not called after a crash; `ActorContext.at_end` takes what must be released even then.
        """


class Supervised(msgspec.Struct, frozen=True):
    """Ties of an actor to its supervisor; an actor that runs alone (tests) has none."""

    identity: bytes
    """Identity of the boot link, by which boot knows the actor and its run."""
    lock: DataLock | None = None
    """Lock of the data directory: the right to replace a stale socket file."""
    is_process: bool = True
    """True: CPU time is the process', not the thread's."""
    log_level: str = "info"
    """Lowest level of lines that are sent to logger."""
    keep: Keep | None = None
    """Sockets that outlive the process."""


class ActorContext:
    """Services of the runtime for one actor. For its own thread only, except `call`."""

    address = FaceAddress()
    """Where it serves programs of others, if it does, as its start has found: boot is told of it."""

    def __init__(
        self, behaviour: Behaviour, data: Path, *, name: str = "", supervised: Supervised | None = None
    ) -> None:
        self.name = name or behaviour.name
        self.data = data.absolute()
        """The node's data directory, absolute."""
        self.loop = asyncio.get_running_loop()
        self.turns = self.loop.turns if isinstance(self.loop, ActorLoop) else TurnMeter()
        """Meter of the turns; stays empty on a foreign loop."""
        self.turn_limits = TurnLimits()
        self.is_stopping = False
        """True once a clean stop has begun."""
        self.ready = asyncio.Event()
        """Set when `start` has returned and letters are taken."""
        self._behaviour = behaviour
        self._supervised = supervised
        self.keep = None if supervised is None else supervised.keep
        """Sockets that outlive this process; None: nobody holds them."""
        self._next = NextTurn(self.loop, self._turn)
        self._links = ActorLinks(Sockets(RunDirectory(self.data)), self._next.soon, self._report_malformed)
        self._calls: Mailbox[Call] = Mailbox(f"{self.name}.calls", CALLS_MAX, Overflow.FAIL)
        self._failure: asyncio.Future[None] = self.loop.create_future()
        self._stop_asked = asyncio.Event()
        self._at_ready: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], object]] = []
        self._deadline: Instant | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Instant(0)
        self._flush_timer: asyncio.TimerHandle | None = None
        self._thread = threading.get_ident()
        self._is_over = self._is_released = False
        """Whether no turn begins any more, and whether nothing is sent any more."""
        self._logger = self._connected("logger", _LOGGER_LIMITS, new_identity(self.name), lambda _: None)
        self.log = Journal(self.name, self._deliver, wall_ns, boot_ns, supervised.log_level if supervised else "info")
        """`actor.log.info("event_name", field=value)`"""
        self._tcp = self.tcp = TcpLinks(self._links.sockets, self.name, self.call, self.log)
        self.key_trouble = self._tcp.key_trouble
        self._probes = Probes(self.call)
        self._boot: Link | None = None
        if supervised is not None:
            self._boot = self._connected("boot", _BOOT_LIMITS, supervised.identity, self._take_from_boot)

    def now(self) -> Instant:
        """The boot clock, ns."""
        return boot_ns()

    def wall_ns(self) -> WallTime:
        """Unix ns, UTC; data, never a deadline."""
        return wall_ns()

    def bind(self, name: str, limits: LinkLimits = DEFAULT_LIMITS) -> Link:
        """A link that many peers reach under `name` (ROUTER).

        Raises:
            AddressTaken: somebody answers there.
        """
        return self._links.watch(self._links.sockets.bind(name, limits, takes_over=self.lock is not None))

    @property
    def lock(self) -> DataLock | None:
        """The lock of the data directory that is there; None: no boot holds it for this actor."""
        lock = None if self._supervised is None else self._supervised.lock
        return lock if lock is not None and lock.covers(self.data) else None

    def connect(self, name: str, limits: LinkLimits = DEFAULT_LIMITS) -> Link:
        """A link to whoever has bound `name`, now or later (DEALER).

        It reconnects by itself, and loses the messages that are on their way then.
        """
        return self._connected(name, limits, new_identity(self.name))

    def bind_tcp(
        self, name: str, endpoint: str, keys: Keys | None, limits: LinkLimits = TCP_LIMITS, hears: Hears = nobody
    ) -> Link:
        """A link that every holder of a trusted key reaches at `endpoint` (ROUTER, CURVE); see `TcpLinks.bind`."""
        return self._links.watch(self._tcp.bind(name, endpoint, keys, limits, hears))

    def connect_tcp(
        self,
        name: str,
        endpoint: str,
        keys: Keys | None,
        limits: LinkLimits = TCP_LIMITS,
        peer: str = "",
        hears: Hears = nobody,
    ) -> Link:
        """A link to the holder of a key trusted as `peer`, else as `name` (DEALER, CURVE); see `TcpLinks.connect`."""
        return self._links.watch(self._tcp.connect(name, endpoint, keys, limits, peer or name, hears))

    def probe(self, endpoint: str, timeout_s: float, on_answer: Callable[[Reach], object]) -> None:
        """See whether a process listens at `endpoint`; `on_answer` is called in a turn of this actor."""
        self._probes.begin(endpoint, timeout_s, on_answer)

    def arm(self, deadline: Instant | None) -> None:
        """Call `ticked` once `deadline` has come; replaces the previous deadline; None disarms."""
        self._deadline = deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return  # A timer that rings early costs one turn; making it anew at each turn costs more.
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self.loop.call_later(max(0, deadline - boot_ns()) / SECOND, self._deadline_came)

    def call(self, function: Callable[..., object], *args: object) -> bool:
        """Run `function(*args)` in the actor's loop, in the sequence of the calls. For any thread.

        Returns:
            False: the actor has ended, the call is not made.
        """
        if self._is_over:
            return False
        try:
            was_empty = self._calls.put((function, args))
        except MailboxFull as full:
            with suppress(RuntimeError):  # The loop was closed between the question and the call.
                self.loop.call_soon_threadsafe(self.fail, str(full))
                return True
            return False
        if self._links.is_in_turn and threading.get_ident() == self._thread:
            return True  # The end of this turn looks; a wake-up as well would make two turns of every one.
        return self._next.bell.ring() if was_empty else True

    def fail(self, reason: str) -> None:
        """End this actor as crashed: its supervisor starts it anew."""
        self._end(ActorFailed(self.name, reason))

    def stop(self) -> None:
        """Ask for a clean stop of this actor."""
        self._stop_asked.set()

    def at_ready(self, begin: Callable[[], object]) -> None:
        """Call `begin` right after the start, before the first letter."""
        self._at_ready.append(begin)

    def at_end(self, release: Callable[[], object]) -> None:
        """Call `release` when the actor has stopped or crashed, last registered first. It must not raise."""
        self._at_end.append(release)

    @property
    def malformed(self) -> int:
        """Malformed messages on all links."""
        return self._links.malformed

    def _turn(self) -> None:
        """Make the calls, take letters from the links that are due, tick; then see what is due next."""
        self._next.began()
        if self._is_over or self._failure.done():
            return
        with _HandedOn(self):
            self._links.is_in_turn = True
            for function, args in self._calls.take(CALLS_PER_TURN_MAX):
                function(*args)
            if self.ready.is_set():
                self._take_letters_and_time()
            self._links.is_in_turn = False
            self._links.end_turn()
            if len(self._calls) > 0 or self._links.is_due:
                self._next.soon()
            if self._timer is None and self._deadline is not None:
                self.arm(self._deadline)
            if self.log.is_holding and self._flush_timer is None:
                self._flush_timer = self.loop.call_later(JOURNAL_FLUSH_S, self._flush)

    def _take_letters_and_time(self) -> None:
        letters = self._links.drain(self.turn_limits)
        if letters:
            self._behaviour.drained(letters)
        if self._deadline is not None and self._deadline <= boot_ns():
            self.arm(None)
            self._behaviour.ticked(boot_ns())

    def _deadline_came(self) -> None:
        self._timer = None  # The timer's clock stands still in suspend: when it rings too early the turn arms it again.
        self._next.now()

    def _connected(
        self, name: str, limits: LinkLimits, identity: bytes, taker: Callable[[Sequence[Letter]], object] | None = None
    ) -> Link:
        return self._links.watch(self._links.sockets.connect(name, limits, identity), taker)

    def _report_malformed(self, link: Link, sender: bytes, error: DecodeError) -> None:
        self.log.limited(
            "message_malformed", link.name, link=link.name, sender=sender, reason=error.reason, count=link.malformed
        )

    def _take_from_boot(self, letters: Sequence[Letter]) -> None:
        assert self._boot is not None
        for letter in letters:
            match letter.message:
                case AliveAsked(nonce=nonce):
                    self._boot.send(self._alive(nonce))
                case StopAsked():
                    self.stop()
                case other:
                    self.log.limited("message_unexpected", type(other).__name__, link="boot")

    def _alive(self, nonce: int) -> AliveAnswered:
        return AliveAnswered(
            nonce=nonce,
            actor=self.name,
            cpu_ns=process_cpu_ns() if self._supervised and self._supervised.is_process else thread_cpu_ns(),
            longest_turn_ns=self.turns.recent_ns(boot_ns()),
            longest_turn_cpu_ns=self.turns.recent_cpu_ns(boot_ns()),
            malformed=self.malformed,
            log_dropped=self.log.dropped,
        )

    def _deliver(self, line: Logged) -> bool:
        return not self._is_released and self._logger.send(line)

    def _flush(self) -> None:
        self._flush_timer = None
        with _HandedOn(self):
            self.log.flush()
            if self.log.is_holding:
                self._flush_timer = self.loop.call_later(JOURNAL_FLUSH_S, self._flush)

    def _end(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
            self._failure.exception()  # Seen: whether somebody still waits for it does not matter.

    async def _live(self) -> None:
        """Start, run until asked to stop, stop."""
        await self._unless_failed(self._behaviour.start(self))
        for begin in self._at_ready:
            begin()
        await asyncio.sleep(0)  # The meter has this turn when it ends: the start's is none of the running actor's.
        self.turns.reset()
        self.ready.set()
        self._links.listen()
        self.tell_boot(Started(actor=self.name, pid=os.getpid(), address=self.address))
        await self._unless_failed(self._stop_asked.wait())
        self.is_stopping = True
        await self._unless_failed(self._stop_behaviour())
        self.tell_boot(Stopped(actor=self.name))

    async def _stop_behaviour(self) -> None:
        """Have the behaviour stop. A turn that is due by then would find closed links: whoever waits for the end hears
        of it in a later iteration of the loop."""
        await self._behaviour.stop()
        self._is_over = True

    def tell_boot(self, message: Started | StopAsked | Stopped) -> None:
        """Tell boot, if there is one; StopAsked: this actor is to stop, at once or when its turn comes."""
        if self._boot is not None:
            self._boot.send(message)

    async def _unless_failed(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for `work`, but no longer than until the actor fails; raises the error of either."""
        task = self.loop.create_task(work)
        try:
            both: set[asyncio.Future[Any]] = {task, self._failure}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _release(self, *, is_clean: bool) -> None:
        for release in reversed(self._at_end):
            release()
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self.log.flush(is_last=True)
        self._is_over = self._is_released = True
        self._logger.close(self._logger.linger_ms)  # The last words of a crash are wanted most.
        self._probes.close()
        self._tcp.close()
        self._links.sockets.close(lingers=is_clean)
        self._next.bell.close()


class _HandedOn:
    """Context in which an exception of a callback ends the actor; asyncio alone would only print it."""

    __slots__ = ("_context",)

    def __init__(self, context: ActorContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self._context._end(error)
            return True
        return False


async def run_actor(
    behaviour: Behaviour,
    data: Path,
    *,
    name: str = "",
    supervised: Supervised | None = None,
    on_made: Callable[[ActorContext], object] | None = None,
) -> None:
    """Run an actor on the running loop until it is asked to stop; returns when everything is released.

    Args:
        behaviour: behaviour of the actor.
        data: the node's data directory.
        name: name of the actor, if it is not the behaviour's.
        supervised: its ties to boot; None runs it alone (no DEAD?, no right to replace stale sockets).
        on_made: gets the context before the start, to keep it (`context.stop()`, `context.ready`).
    Raises:
        Exception: the one that the behaviour raised, or ActorFailed. Cancelling is an end without a clean stop.
    """
    context = ActorContext(behaviour, data, name=name, supervised=supervised)
    is_clean = False
    try:
        if on_made is not None:
            on_made(context)
        await context._live()
        is_clean = True
    finally:
        context._release(is_clean=is_clean)


@asynccontextmanager
async def running(behaviour: Behaviour, data: Path, *, name: str = "") -> AsyncIterator[ActorContext]:
    """An actor beside the caller, on the caller's loop: ready inside, stopped cleanly afterwards.

    Raises:
        ExceptionGroup: the actor crashed, and the caller's block was cancelled.
    """
    made: asyncio.Future[ActorContext] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_actor(behaviour, data, name=name, on_made=made.set_result))
        context = await made
        await context.ready.wait()
        try:
            yield context
        finally:
            context.stop()
