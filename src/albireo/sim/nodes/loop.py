"""An asyncio loop for the coroutines of one simulated process.

It is asyncio's own tasks and futures on the world's agenda: no descriptor, no thread, no clock. When its process
dies nothing of it happens any more.
"""

import asyncio
import contextlib
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import Context
from typing import Any

from albireo.model.instant import SECOND
from albireo.sim.engine.agenda import Agenda


class StagedLoop(asyncio.AbstractEventLoop):
    """Loop with what asyncio's tasks, futures and timeouts need of one."""

    def __init__(
        self, agenda: Agenda, run: Callable[[Callable[[], object]], None], crashed: Callable[[Exception], None]
    ) -> None:
        """
        Args:
            run: carry out one callback, in a turn of the process.
            crashed: told of an error that nobody caught.
        """
        self._agenda = agenda
        self._run = run
        self._crashed = crashed
        self._tasks: list[tuple[asyncio.Task[Any], Any]] = []
        self._is_over = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let asyncio's functions find this loop inside."""
        before = _get_running_loop()
        _set_running_loop(self)
        try:
            yield
        finally:
            _set_running_loop(before)

    def end(self) -> None:
        """End the loop: the process is gone, and with it what it was about to do."""
        self._is_over = True
        with self.running():
            for task, coroutine in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to say so.
                    with contextlib.suppress(ValueError, RuntimeError):  # The process died in this coroutine.
                        coroutine.close()
        self._tasks.clear()

    def create_task(  # type: ignore[override]  # No name, no context: nobody gives one.
        self, coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any]
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self)
        self._tasks = [one for one in self._tasks if not one[0].done()]
        self._tasks.append((task, coro))
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def call_soon(  # type: ignore[override]  # Their type variables say no more.
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_at(self.time(), callback, *args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # There are no threads.

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def ring() -> None:
            if not self._is_over and not handle.cancelled():
                self._run(handle._run)

        self._agenda.call_at(round(when * SECOND), ring)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # A cancelled handle is looked at when it is due.

    def time(self) -> float:
        return self._agenda.at / SECOND

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self._is_over and "task" not in context:  # A task that nobody will go on with: the world has ended.
            self._crashed(error if isinstance(error, Exception) else AssertionError(context.get("message")))
