"""What the system says of names, in the place of its resolver: silent, refusing, lying, changing."""

import socket
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

SILENT: Final = None
REFUSED: Final = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

Answer = tuple[str, ...] | Exception | None


class NamesOfSystem:
    """Answers by name; other names are asked of the system itself. Give each test names of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.goes_on = threading.Event()
        """Set: nobody is silent any more, so that no thread stays behind."""
        self._system: Callable[..., Any] = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: str, port: object, *more: int, **named: int) -> list[tuple[Any, ...]]:
        if host not in self.answers:
            return list(self._system(host, port, *more, **named))
        self.asked.append(host)
        if self.answers[host] is SILENT:
            self.goes_on.wait()
        answer = self.answers[host]
        if not isinstance(answer, tuple):
            raise answer or REFUSED
        family = {False: socket.AF_INET, True: socket.AF_INET6}
        return [(family[":" in one], socket.SOCK_STREAM, 6, "", (one, 0)) for one in answer]
