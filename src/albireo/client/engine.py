"""Engine: the one thread of a client. It owns every socket, steps every machine, and does what other threads ask for.

    caller's thread --call--> deque, bounded --> the thread: parts --> lines --> members of the node
                    <-----------Future---------

A part is a pure machine and its lines (`EnginePart`). The engine waits for the descriptors of all lines and for calls,
gives each part its news and the time, and knows nothing of what they mean. Work that a caller hands in runs in the
thread and must not block.

Fork: a child has no such thread. Calls from it are refused.
"""

import atexit
import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from albireo.client.errors import ClientBusy, ClientClosed
from albireo.model.instant import SECOND, Instant
from albireo.runtime.actor.first_use import settle_types
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.dialing import MIND_S
from albireo.runtime.link.lines import LineNews, Lines

log: Final = logging.getLogger("albireo.client")
log.addHandler(logging.NullHandler())  # A program that has set up no logging is not written over.

CALLS_MAX: Final = 1_000
"""Calls that wait for the thread, which takes all of them in each turn."""
END_S: Final = 5.0
"""Longest wait for the thread's end; it never blocks for so long but on a machine that stands still."""

_Result = TypeVar("_Result")


class EnginePart(Protocol):
    """A machine with its lines. All methods run in the engine's thread."""

    @property
    def lines(self) -> Lines:
        """Lines of this part, and of no other."""

    def heard(self, news: LineNews, now: Instant) -> None:
        """Take one piece of news."""

    def ticked(self, now: Instant) -> None:
        """Do what is due: `deadline` has come."""

    def deadline(self) -> Instant | None:
        """Instant of the next `ticked`; None: no time is awaited."""

    def ended(self, error: ClientClosed) -> None:
        """Tell everybody who waits that nothing comes any more."""


class Engine:
    """The thread. `close` waits until nothing of it is left; `end` only has it end."""

    def __init__(self, name: str) -> None:
        """`name`: name of the thread."""
        self._calls: deque[tuple[Callable[[], object], Future[Any] | None]] = deque()
        self._lock = threading.Lock()
        self._parts: list[EnginePart] = []
        self._of: dict[int, EnginePart] = {}
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._is_ending = self._is_over = False
        self._process = os.getpid()
        settle_types()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        atexit.register(self.close)
        self._thread.start()

    # For any thread.

    def call(self, work: Callable[[], _Result]) -> "Future[_Result]":
        """Have the thread run `work`; its result, or what it raised, is the future's. Raises: as `hand_over`."""
        future: Future[_Result] = Future()
        self.hand_over(lambda: future.set_result(work()), future)
        return future

    def hand_over(self, work: Callable[[], object], future: "Future[Any]") -> None:
        """Have the thread run `work`, which sees to it that `future` ends; what `work` raises is the future's.

        Raises:
            ClientClosed: the engine has ended.
            ClientBusy: too many calls wait.
        """
        self.check()
        future.set_running_or_notify_cancel()  # Nobody takes back what was handed over.
        self._put(work, future)

    def post(self, work: Callable[[], object], part: EnginePart) -> None:
        """Have the thread run `work` of a part, for which nobody waits: an error ends that. Raises: as `hand_over`."""
        self.check()
        self._put(partial(self._guarded, part, work), None)

    def _put(self, work: Callable[[], object], future: "Future[Any] | None") -> None:
        with self._lock:
            if self._is_over:
                raise ClientClosed()
            if len(self._calls) >= CALLS_MAX:
                raise ClientBusy(CALLS_MAX)
            self._calls.append((work, future))
            os.eventfd_write(self._wake, 1)

    def check(self) -> None:
        """Raises ClientClosed if nothing can be asked for any more."""
        if self._process != os.getpid():
            raise ClientClosed("the client was made before this process forked, and its thread is not here")
        if self._is_over or self._is_ending:
            raise ClientClosed()

    def end(self) -> None:
        """Have the thread end and close all lines by itself. Does not wait, so a loop that calls it goes on."""
        if self._process != os.getpid():
            return
        self._is_ending = True
        with self._lock:
            if not self._is_over:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the thread and close all lines. Closing twice is fine."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(END_S)

    # For the thread.

    def add(self, part: EnginePart) -> None:
        """Serve this part from now on."""
        self._parts.append(part)
        self.watch(part)

    def watch(self, part: EnginePart) -> None:
        """Wait for all lines that this part has now."""
        for descriptor in part.lines.descriptors():
            if descriptor not in self._of:
                self._of[descriptor] = part
                self._poll.register(descriptor, select.POLLIN)

    def remove(self, part: EnginePart) -> None:
        """Close this part's lines and forget it; nothing happens if that is done."""
        if not self.serves(part):
            return
        for descriptor in [one for one, owner in self._of.items() if owner is part]:
            del self._of[descriptor]
            self._poll.unregister(descriptor)
        self._parts.remove(part)
        part.lines.close()

    def _run(self) -> None:
        signalled: set[int] = set()
        minded_at = boot_ns()
        try:
            while not self._is_ending:
                self._take_calls()
                if boot_ns() - minded_at >= MIND_S * SECOND:  # Lines that are down are dialled again by the time.
                    minded_at = boot_ns()
                    signalled.update(self._of)
                owners = {id(self._of[one]) for one in signalled if one in self._of}
                stirred = [one for one in self._parts if one.lines.is_stirred or id(one) in owners]
                for part in stirred:
                    self._guarded(part, partial(self._serve, part, signalled))
                is_calm = (
                    not self._ticked() and not self._calls and not any(one.lines.is_stirred for one in self._parts)
                )
                signalled = self._signalled(self._patience_ms() if is_calm else 0)
        finally:
            self._end()

    def _signalled(self, patience_ms: float) -> set[int]:
        """Wait; descriptors of lines that have news."""
        found = {one for one, _ in self._poll.poll(patience_ms)}
        if self._wake in found:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return found

    def _take_calls(self) -> None:
        for _ in range(len(self._calls)):
            work, future = self._calls.popleft()
            try:
                work()
            except BaseException as error:  # It is the caller's, and is raised there.
                if future is None:
                    raise
                if not future.done():
                    future.set_exception(error)

    def _guarded(self, part: EnginePart, work: Callable[[], object]) -> None:
        """Have a part do something. An error of ours is the end of that part, and of no other one."""
        try:
            work()
        except Exception as error:
            log.exception("a part of the client ends by an error of ours")
            self.remove(part)
            part.ended(ClientClosed(f"this part of the client has ended by an error of ours: {error!r:.200}"))

    def serves(self, part: EnginePart) -> bool:
        """False: the part has ended."""
        return part in self._parts

    def _serve(self, part: EnginePart, signalled: set[int]) -> None:
        for news in part.lines.take(signalled):
            part.heard(news, boot_ns())

    def _ticked(self) -> bool:
        """Do what is due; True if anything was."""
        due = [one for one in list(self._parts) if (at := one.deadline()) is not None and at <= boot_ns()]
        for part in due:
            self._guarded(part, partial(part.ticked, boot_ns()))
        return bool(due)

    def _patience_ms(self) -> float:
        due = [at for one in self._parts if (at := one.deadline()) is not None]
        left_s = (min(due) - boot_ns()) / SECOND if due else MIND_S
        return 1000 * max(0.0, min(left_s, MIND_S))

    def _end(self) -> None:
        """Let everybody go who waits, whatever ended the thread."""
        with self._lock:
            self._is_over = True
            waiting = list(self._calls)
            self._calls.clear()
            os.close(self._wake)
        error = ClientClosed() if self._is_ending else ClientClosed("the client's thread has ended by an error of ours")
        for _, future in waiting:
            if future is not None:
                future.set_exception(error)
        for part in list(self._parts):
            part.ended(error)
            self.remove(part)
        atexit.unregister(self.close)
