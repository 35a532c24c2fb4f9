"""The loop of one actor: asyncio's, with a meter of its turns and a short way for the signals of its links.

A turn is what runs between two questions to the kernel: all callbacks of one iteration, tasks and timers included.
While a turn runs nothing else of this actor does; CORE's rule is 20 ms.
"""

import asyncio
import contextlib
import gc
import os
import selectors
import threading
from collections.abc import Callable
from typing import Final

from albireo.model.instant import SECOND, Duration, Instant
from albireo.runtime.clock import boot_ns, thread_cpu_ns

SLOT_NS: Final = Duration(10 * SECOND)
"""Length of a slot; `recent_ns` looks back one to two of them."""


class TurnMeter:
    """Longest and total turn. Any number of readers; nothing is reset by reading."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.longest_ns = 0
        """Longest turn since `reset`, which the actor calls when it has started."""
        self._slot = 0
        self._in_slot = self._in_slot_before = (0, 0)

    def took(self, began: Instant, ended: Instant, cpu_ns: int = 0) -> None:
        """One turn ran from `began` to `ended` and used `cpu_ns` of CPU time."""
        elapsed_ns = ended - began
        self.count += 1
        self.total_ns += elapsed_ns
        self.longest_ns = max(self.longest_ns, elapsed_ns)
        self._enter(ended // SLOT_NS)
        longest_ns, most_cpu_ns = self._in_slot
        if elapsed_ns > longest_ns or cpu_ns > most_cpu_ns:
            self._in_slot = (max(longest_ns, elapsed_ns), max(most_cpu_ns, cpu_ns))

    def recent_ns(self, now: Instant) -> Duration:
        """Longest turn of the last 10..20 s."""
        self._enter(now // SLOT_NS)
        return Duration(max(self._in_slot[0], self._in_slot_before[0]))

    def recent_cpu_ns(self, now: Instant) -> Duration:
        """Most CPU time that a turn used in the last 10..20 s; a longer turn waited for the machine."""
        self._enter(now // SLOT_NS)
        return Duration(max(self._in_slot[1], self._in_slot_before[1]))

    def reset(self) -> None:
        """Forget everything, because the start is no turn of the running actor."""
        self.__init__()  # type: ignore[misc]  # All state is set there.

    def _enter(self, slot: int) -> None:
        if slot != self._slot:
            self._in_slot_before = self._in_slot if slot == self._slot + 1 else (0, 0)
            self._in_slot = (0, 0)
            self._slot = slot


class _Selector(selectors.EpollSelector):
    """Measures the time between two questions to the kernel, and tells links of their signals by itself.

    A turn that a signal schedules so runs in the same iteration. Told by a callback of asyncio's it would run in the
    next one, and each wake-up would be two.
    """

    def __init__(self, turns: TurnMeter) -> None:
        super().__init__()
        self._turns = turns
        self._began: Instant | None = None
        self._cpu_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began is not None:
            cpu_ns = thread_cpu_ns()  # A system call, so once per turn: a question counts with the turn behind it.
            self._turns.took(self._began, boot_ns(), cpu_ns - self._cpu_ns)
            self._cpu_ns = cpu_ns
        found = super().select(timeout)
        self._began = boot_ns()
        theirs = []
        for one in found:
            data = one[0].data
            if isinstance(data, _Watcher):
                data.on_readable()
            else:
                theirs.append(one)
        return theirs


class _Watcher:
    """Marks a descriptor that is not asyncio's."""

    __slots__ = ("on_readable",)

    def __init__(self, on_readable: Callable[[], object]) -> None:
        self.on_readable = on_readable


class ActorLoop(asyncio.SelectorEventLoop):
    """An event loop that measures its turns: `asyncio.Runner(loop_factory=ActorLoop)`."""

    def __init__(self) -> None:
        self.turns = TurnMeter()
        self._watched = _Selector(self.turns)
        super().__init__(self._watched)

    def watch(self, descriptor: int, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` while the descriptor is readable, before the callbacks of that iteration.

        It must not raise, and do no more than schedule a callback.
        """
        self._watched.register(descriptor, selectors.EVENT_READ, _Watcher(on_readable))

    def unwatch(self, descriptor: int) -> None:
        """Watch the descriptor no more. Nothing happens if it is not watched."""
        with contextlib.suppress(KeyError):
            self._watched.unregister(descriptor)


class Bell:
    """Wakes a loop from any thread. An eventfd costs a third of what asyncio's own pair of sockets does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_rung: Callable[[], object]) -> None:
        """`on_rung`: called in the loop, once for all rings before; on an `ActorLoop` see `watch`."""
        self._loop = loop
        self._on_rung = on_rung
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        """Held by who uses the descriptor: once closed it may be somebody else's."""
        if isinstance(loop, ActorLoop):
            loop.watch(self._descriptor, self._rung)
        else:
            loop.add_reader(self._descriptor, self._rung)

    def ring(self) -> bool:
        """Wake the loop; False: it is over."""
        with self._lock:
            if self._descriptor >= 0:
                os.eventfd_write(self._descriptor, 1)
            return self._descriptor >= 0

    def close(self) -> None:
        """Wake nobody any more. For the loop's thread."""
        if isinstance(self._loop, ActorLoop):
            self._loop.unwatch(self._descriptor)
        else:
            self._loop.remove_reader(self._descriptor)
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def _rung(self) -> None:
        os.eventfd_read(self._descriptor)
        self._on_rung()


class NextTurn:
    """Schedules the next turn of an actor; one is due at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Callable[[], object]) -> None:
        self._loop = loop
        self._turn = turn
        self._is_due = False
        self.bell = Bell(loop, self.soon)
        """Has the turn run soon, for any thread."""

    def soon(self) -> None:
        """Run the turn in the next iteration of the loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def now(self) -> None:
        """Run the turn at once, unless one is due, which sees to everything."""
        if not self._is_due:
            self._turn()

    def began(self) -> None:
        self._is_due = False


class IdleCollection:
    """Collects garbage when nothing happens, not in the middle of a turn. One per process.

    Objects that exist after the start never become garbage (`gc.freeze`). The automatic collector stays on with a high
    threshold: it is the bound for a process that is never idle.
    """

    EVERY_S: Final = 5.0
    BUSY_THRESHOLD: Final = 100_000
    """Container objects made since the last collection, before one is forced in a turn (about 5 ms)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn_count: Callable[[], int]) -> None:
        """`turn_count` goes up with each turn; few turns since the last look means idle."""
        self._loop = loop
        self._turn_count = turn_count
        self._last_count = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Freeze all objects and take over."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(self.BUSY_THRESHOLD, 20, 50)
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self.EVERY_S, self._look)

    def _look(self) -> None:
        count = self._turn_count()
        is_idle = count - self._last_count < 100 * self.EVERY_S
        self._last_count = count
        if is_idle:
            gc.collect(1)
        self._arm()
