"""Inbox: what the engine's thread has for one reader, who may be a thread or a coroutine.

engine --put--> inbox --take--> reader       the reader waits for `arrival`, a future that ends when something is there
"""

import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Generic, TypeVar

from albireo.client.errors import ClientError

_Taken = TypeVar("_Taken")


class Inbox(ABC, Generic[_Taken]):
    """Base of the inboxes: subclasses say what is kept, and what is left out when the reader is slow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrivals: list[Future[None]] = []
        self._error: ClientError | None = None

    @abstractmethod
    def _is_empty(self) -> bool:
        """Nothing is there to be taken."""

    @abstractmethod
    def _taken(self) -> _Taken:
        """Hand everything over, and keep nothing of it."""

    def take(self) -> _Taken:
        """Everything that is there, perhaps nothing.

        Raises:
            ClientError: why nothing comes any more, once the rest was taken.
        """
        with self._lock:
            if self._error is not None and self._is_empty():
                raise self._error
            return self._taken()

    def arrival(self) -> "Future[None]":
        """Ends when something is there, or nothing comes any more."""
        future: Future[None] = Future()
        with self._lock:
            if self._error is None and self._is_empty():
                self._arrivals = [one for one in self._arrivals if not one.done()]
                self._arrivals.append(future)
                return future
        future.set_result(None)
        return future

    def wait(self, timeout_s: float | None) -> _Taken:
        """As `take`, once something is there or the time is over."""
        future = self.arrival()
        try:
            future.result(timeout_s)
        except TimeoutError:
            future.cancel()
        return self.take()

    def fail(self, error: ClientError) -> None:
        """Say why nothing comes any more."""
        with self._lock:
            self._error = self._error or error
        self.tell()

    @property
    def over(self) -> ClientError | None:
        """Why nothing comes any more; None: more may come."""
        return self._error

    def tell(self) -> None:
        """Wake the reader."""
        with self._lock:
            arrivals, self._arrivals = self._arrivals, []
        for one in arrivals:
            if one.set_running_or_notify_cancel():
                one.set_result(None)
