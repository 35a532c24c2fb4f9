"""Ctrl-C, SIGTERM and a terminal that closes, in a demo: what is under way ends, and the rest goes on in order."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from albireo.runtime.actor.exits import STOP_SIGNALS


class Interrupted(Exception):
    """Ctrl-C or a signal: stop in order, and leave out what comes after."""


class Signals:
    """The signals that stop: raise `Interrupted` once while `raising`, else are only remembered."""

    def __init__(self) -> None:
        self.have_come = False
        self.are_urgent = False
        """All but a first Ctrl-C: whoever waits does not wait for a report."""
        self._is_raising = False

    def __enter__(self) -> "Signals":
        heard = [one for one in STOP_SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]  # nohup
        self._before = {number: signal.signal(number, self._come) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.are_urgent = self.have_come or number != signal.SIGINT
        self.have_come = True
        if self._is_raising:
            self._is_raising = False
            raise Interrupted

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Within, a signal ends what is under way; the rest goes on after it."""
        self._is_raising = True
        try:
            yield
        except Interrupted:
            pass
        finally:
            self._is_raising = False
