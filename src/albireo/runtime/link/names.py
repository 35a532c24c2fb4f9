"""Names of hosts: what each stands for on this machine, looked up aside.

A name server that does not answer holds whoever asks it for half a minute. Each name is therefore looked up in a thread
of its own, and nobody waits for it longer than he says. libzmq, asyncio and pymodbus are given numbers only.

The addresses that a name had stay until an answer brings others: no answer, a refusal and "no such name" change
nothing. An address at which keys have proven who is there stays besides whatever answers say.

Decision: ADR-0266.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from concurrent.futures import Future
from typing import Final

import msgspec

from albireo.model.instant import SECOND, Instant
from albireo.model.name_status import NameStatus
from albireo.runtime.clock import boot_ns

FRESH_S: Final = 2.0
"""Time for which an answer is not asked for again, whatever it was."""
LOOKUPS_MAX: Final = 64
"""Names that are looked up at a time; a further one is not known until one of them has ended."""
ADDRESSES_MAX: Final = 8
"""Addresses of a name that are tried, the first ones."""
LOCALHOST: Final = ("127.0.0.1", "::1")
"""Addresses of `localhost`, which no name server is asked for (RFC 6761)."""
_NOT_YET: Final = NameStatus(trouble="the name server has not answered yet")


class _Known(msgspec.Struct):
    """One name."""

    lookup: Future[None]
    """The last lookup, under way or done."""
    meaning: NameStatus = _NOT_YET
    answered_at: Instant | None = None


def is_number(host: str) -> bool:
    """True if a host is an address and no name."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


class HostNames:
    """Names that this process has been asked for. For any thread."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._proven: dict[str, str] = {}
        """Address by endpoint at which keys have last proven who is there."""
        self._under_way = 0
        self._lock = threading.Lock()

    def addresses(self, host: str, wait_s: float = 0.0) -> tuple[str, ...]:
        """Addresses of a host as far as they are known; looked up anew if the last answer is not fresh.

        Args:
            host: name or address.
            wait_s: longest wait for a name's first answer.
        """
        if is_number(host):
            return (host,)
        if host == "localhost":
            return LOCALHOST
        known = self._looked_up(host)
        if known is not None and wait_s and not known.meaning.addresses:
            with contextlib.suppress(TimeoutError):
                known.lookup.result(wait_s)
        return self._meaning(host).addresses

    async def found(self, host: str, wait_s: float) -> tuple[str, ...]:
        """The same for a loop."""
        if addresses := self.addresses(host):
            return addresses
        if (known := self._known.get(host)) is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await asyncio.wrap_future(known.lookup)
        return self.addresses(host)

    def ways(self, endpoint: str, host: str) -> tuple[str, ...]:
        """Addresses at which an endpoint may be found, the proven one first."""
        proven = self._proven.get(endpoint)
        return tuple(dict.fromkeys(([proven] if proven else []) + list(self.addresses(host))))

    def prove(self, endpoint: str, address: str) -> None:
        """Note that keys have proven who is at an endpoint's address."""
        self._proven[endpoint] = address

    def proven(self, endpoint: str) -> str | None:
        return self._proven.get(endpoint)

    def told(self, host: str) -> str:
        """The addresses that a name stands for here, in words."""
        return self._meaning(host).text(host)

    def asked(self) -> dict[str, NameStatus]:
        """Every name that this process was asked for; looked up anew for whoever asks next."""
        for host in list(self._known):
            self.addresses(host)
        return {host: self._meaning(host) for host in sorted(self._known)}

    def look_again(self) -> None:
        """Look up what could not be found the last time."""
        for host, known in list(self._known.items()):
            if known.meaning.trouble:
                self.addresses(host)

    def _meaning(self, host: str) -> NameStatus:
        known = self._known.get(host)
        return _NOT_YET if known is None else known.meaning

    def _looked_up(self, host: str) -> _Known | None:
        """The name, with a lookup begun if one is due; None: there is no room for one."""
        with self._lock:
            known = self._known.get(host)
            is_due = known is None or (known.lookup.done() and boot_ns() - (known.answered_at or 0) > FRESH_S * SECOND)
            if not is_due or self._under_way >= LOOKUPS_MAX:
                return known
            lookup: Future[None] = Future()
            lookup.set_running_or_notify_cancel()  # Whoever waits for it can't end it for others.
            if known is None:
                known = self._known[host] = _Known(lookup)
            known.lookup = lookup
            self._under_way += 1
        # No pool: the end of a program waits for the threads of one.
        thread = threading.Thread(target=self._look_up, args=(host, known, lookup), name=f"name {host}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # No thread can be had just now.
            self._ended(known, lookup, str(error))
        return known

    def _look_up(self, host: str, known: _Known, lookup: Future[None]) -> None:
        trouble = ""
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
        else:
            numbers = tuple(dict.fromkeys(str(address[0]) for *_, address in found))
            known.meaning = NameStatus(addresses=numbers[:ADDRESSES_MAX])
        self._ended(known, lookup, trouble)

    def _ended(self, known: _Known, lookup: Future[None], trouble: str) -> None:
        if trouble:
            known.meaning = msgspec.structs.replace(known.meaning, trouble=trouble)
        with self._lock:
            known.answered_at = Instant(boot_ns())
            self._under_way -= 1
        lookup.set_result(None)


NAMES: Final = HostNames()
"""The names of this process."""
