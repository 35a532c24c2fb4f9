"""TCP links of one actor: encrypted, both ends proven, and ended when a key is revoked.

A listener (ROUTER) is a CURVE server that lets in whoever has a trusted key; a dialer (DEALER) is a CURVE client that
expects one named server (dialing.py). The handshakes are judged (zap.py) and the connections watched (connection.py)
in the actor's loop.

A session is asked for its key only when it begins. When a key is revoked, or our own pair changes, the listener is
bound anew, which ends all of its sessions; honest peers are back within a fraction of a second. Until then letters of
the revoked key are dropped one by one.

Decisions: ADR-0100 (keys), ADR-0101 (who is let in), ADR-0102 (times, probes).
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from albireo.runtime.clock import wall_ns
from albireo.runtime.errors import AddressTaken, EndpointRefused
from albireo.runtime.journal import Journal
from albireo.runtime.link.connection import ConnectionEvent, ConnectionNews, Monitor
from albireo.runtime.link.dialing import STANDSTILL_S, Dialer, Listener
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import Hears, Link, LinkLimits, SyncSocket
from albireo.runtime.link.names import NAMES
from albireo.runtime.link.patience import BOUNDS, Patience
from albireo.runtime.link.sockets import Sockets, new_identity
from albireo.runtime.link.zap import NOT_TRUSTED, HandshakeRefusal, ZapHandler

LOOK_S: Final = 0.25
"""Time between two looks, at the key directory and at links on which something is to be heard; a revocation has to take
effect within a second."""
RECOUNT_S: Final = 5.0
"""Time between two counts of the connections of a listener that has too many."""

Call = Callable[..., object]


def nobody(name: str) -> frozenset[type]:
    """The messages that are heard where nothing else is said: none, from nobody."""
    return frozenset()


class TcpLinks:
    """Makes TCP links and looks after them in the actor's loop."""

    def __init__(self, sockets: Sockets, actor: str, call: Call, log: Journal) -> None:
        """`call`: runs a function in the actor's next turn."""
        self.bounds = BOUNDS
        """Patience of the links that are made from now on."""
        self._sockets = sockets
        self._actor = actor
        self._call = call
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._zap: ZapHandler | None = None
        self._domains = 0
        self._knocked: dict[str, Callable[[str, str, int], None]] = {}
        """By domain, who is told of a key that is refused."""
        self._all_keys: list[Keys] = []
        self._listeners: list[Listener] = []
        self._dialers: list[Dialer] = []
        self._timers: dict[object, asyncio.TimerHandle] = {}

    def bind(self, name: str, endpoint: str, keys: Keys | None, limits: LinkLimits, hears: Hears = nobody) -> Link:
        """Listen at `endpoint`; port `*` takes a free one, see `link.endpoint`.

        Args:
            name: name of the link, in logs.
            endpoint: tcp://HOST:PORT.
            keys: own and trusted keys; None lets everybody in, on a loopback address only.
            limits: bounds of the link.
            hears: with keys, says which messages are heard from whom; others are counted and dropped.
        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
            AddressTaken: somebody else listens there.
        """
        socket = self._sockets.router(limits)
        link = self._sockets.keep(Link(name, b"", socket, limits.linger_ms))
        link.hear(hears)
        link.on_unheard = self._report_unheard
        self._domains += 1
        domain = f"{name}#{self._domains}"
        try:
            listener = Listener(link, socket, endpoint, keys, domain, self.bounds)
            if keys is not None:
                self._admit(domain, keys, link)
            self._monitor(link, socket, lambda told: self._heard_by_listener(listener, told))
            listener.bind()
        except (AddressTaken, EndpointRefused):
            link.close()
            raise
        self._listeners.append(listener)
        return link

    def connect(
        self, name: str, endpoint: str, keys: Keys | None, limits: LinkLimits, peer: str, hears: Hears = nobody
    ) -> Link:
        """Connect to `endpoint`, now or when it is there; again after each outage, which loses what was on its way.

        Args:
            name: name of the link, in logs.
            endpoint: tcp://HOST:PORT.
            keys: own and trusted keys; None trusts everybody, on a loopback address only.
            limits: bounds of the link.
            peer: name of the peer whose key is expected; it is dialled as soon as it is trusted.
            hears: with keys, says which messages are heard from it; at any other the connection is ended.
        Raises:
            EndpointRefused: it is no endpoint, or may not be used without keys.
        """
        identity = new_identity(self._actor)
        socket = self._sockets.dealer(limits, identity)
        link = self._sockets.keep(Link(name, identity, socket, limits.linger_ms))
        try:
            looks = math.ceil(limits.silence_ms / LOOK_S / 1000)
            patience = Patience(self.bounds, is_near=limits.is_near)
            dialer = Dialer(link, socket, endpoint, keys, peer, looks, patience)
        except EndpointRefused:
            link.close()
            raise
        link.hear(hears)
        link.on_unheard = lambda _, what: self._cut_off(dialer, what)
        if keys is not None:
            self._look_after(keys)
        monitor = self._monitor(link, socket, lambda news: self._heard_by_dialer(dialer, news))
        dialer.waiting = monitor.take
        if limits.silence_ms:
            self._listen_soon()
        dialer.dial()
        self._dialers.append(dialer)
        return link

    def look_at_keys(self) -> None:
        """Take what has changed in the key directories, and end the sessions of keys that are trusted no more."""
        for keys in self._all_keys:
            self._refresh(keys)
        NAMES.look_again()
        self._listeners = [one for one in self._listeners if not one.link.is_closed]
        self._dialers = [one for one in self._dialers if not one.link.is_closed]
        for listener in filter(Listener.is_outdated, self._listeners):
            self._log.info("listener_bound_anew", link=listener.link.name, endpoint=listener.link.endpoint)
            listener.release()
            listener.bind()
        for dialer in filter(Dialer.is_outdated, self._dialers):
            self._log.info("dialled_anew", link=dialer.link.name, endpoint=dialer.link.endpoint)
            self._went_down(dialer, "keys have changed, or what its name stands for")
            self._redial(dialer)

    def key_trouble(self) -> str:
        """Why a key directory can't be read, and what to do; empty: all can."""
        return "; ".join(dict.fromkeys(str(one.trouble) for one in self._all_keys if one.trouble is not None))

    def close(self) -> None:
        """End the timers and the ZAP handler, before the sockets are closed."""
        for timer in self._timers.values():
            timer.cancel()
        if self._zap is not None:
            self._loop.remove_reader(self._zap.descriptor())
            self._zap.close()

    def _admit(self, domain: str, keys: Keys, link: Link) -> None:
        if self._zap is None:
            self._zap = zap = ZapHandler(self._sockets.router(LinkLimits()), self._report_refusal)
            self._loop.add_reader(zap.descriptor(), self._call, zap.answer)
            self._call(zap.answer)
        self._zap.domains[domain] = keys.name_of
        self._knocked[domain] = link.knocked
        self._look_after(keys)

    def _look_after(self, keys: Keys) -> None:
        if keys not in self._all_keys:
            self._all_keys.append(keys)
        self._look_soon()

    def _refresh(self, keys: Keys) -> None:
        """Read the keys again if they have changed; that they can't be read, and can again, is logged once."""
        before = keys.trouble
        keys.look()
        if (error := keys.trouble) is not None and before is None:
            self._log.error("keys_unreadable", path=str(error.path), reason=error.reason, remedy=error.remedy)
        elif error is None and before is not None:
            self._log.info("keys_readable", path=str(keys.directory))

    def _look_soon(self) -> None:
        def look() -> None:
            self.look_at_keys()
            self._look_soon()

        self._after("keys", LOOK_S, look)

    def _listen_soon(self) -> None:
        def listen() -> None:
            for dialer in [one for one in self._dialers if not one.link.is_closed and one.is_silent()]:
                self._went_down(dialer, "nothing is heard")
                self._redial(dialer)
            self._listen_soon()

        self._after("silence", LOOK_S, listen)

    def _report_refusal(self, refusal: HandshakeRefusal) -> None:
        if refusal.reason == NOT_TRUSTED:
            self._knocked[refusal.domain](refusal.public, refusal.address, wall_ns())
        self._log.limited(
            "peer_refused", refusal.address, address=refusal.address, public=refusal.public, reason=refusal.reason
        )

    def _report_unheard(self, link: Link, what: str) -> None:
        """Report a message that is not heard from its sender; libzmq can't end one connection of a ROUTER."""
        told = {"link": link.name, "peer": link.peer, "message": what or "any", "count": link.unheard}
        self._log.limited("message_not_heard", f"{link.name} {link.peer}", **told)

    def _cut_off(self, dialer: Dialer, what: str) -> None:
        """End the connection to a peer that said what is not heard from it; it is dialled again after a while."""
        self._report_unheard(dialer.link, what)
        if dialer.is_up:
            self._call(self._hang_up, dialer)

    def _hang_up(self, dialer: Dialer) -> None:
        if dialer.is_up and not dialer.link.is_closed:
            dialer.hang_up()
            self._went_down(dialer, "it said what is not heard from it")
            self._after(dialer, STANDSTILL_S, lambda: self._redial(dialer))

    def _monitor(self, link: Link, socket: SyncSocket, hear: Callable[[ConnectionNews], object]) -> Monitor:
        monitor = Monitor(socket, self._sockets.pair())
        descriptor = monitor.descriptor()

        def take() -> None:
            for news in monitor.take():
                hear(news)

        def release() -> None:
            self._loop.remove_reader(descriptor)
            monitor.close()

        self._loop.add_reader(descriptor, self._call, take)
        self._call(take)  # The descriptor signals only after the socket was once found empty.
        link.at_close.append(release)
        return monitor

    def _heard_by_listener(self, listener: Listener, news: ConnectionNews) -> None:
        if listener.counts(news):
            told = {"link": listener.link.name, "endpoint": listener.link.endpoint, "remedy": "close it to strangers"}
            self._log.limited("listener_full", listener.link.name, **told)
            self._recount_later(listener)
        if news.event in (ConnectionEvent.PROVEN, ConnectionEvent.ENDED):
            listener.link.on_connection(news.event is ConnectionEvent.PROVEN)

    def _recount_later(self, listener: Listener) -> None:
        def recount() -> None:
            if not listener.link.is_closed and listener.recount():
                self._recount_later(listener)

        self._after(listener, RECOUNT_S, recount)

    def _heard_by_dialer(self, dialer: Dialer, news: ConnectionNews) -> None:
        match event := dialer.takes(news):
            case ConnectionEvent.PROVEN:
                self._drop_timer(dialer)
                dialer.succeeded()
                dialer.is_told_down = False
                self._log.info("peer_connected", link=dialer.link.name, endpoint=dialer.link.endpoint)
                dialer.link.on_connection(True)
            case ConnectionEvent.REFUSED | ConnectionEvent.BROKEN_OFF | ConnectionEvent.NOT_IN_TIME:
                dialer.hang_up()
                self._went_down(dialer, event.value)
                self._after(dialer, dialer.pause_s(), lambda: self._redial(dialer))
            case ConnectionEvent.ENDED:
                self._went_down(dialer, event.value)
                if dialer not in self._timers:
                    self._after(dialer, STANDSTILL_S, lambda: self._redial(dialer))
            case ConnectionEvent.RETRIED if dialer not in self._timers and dialer.has_other_way():
                self._after(dialer, dialer.pause_s(), lambda: self._redial(dialer))
            case _:
                pass  # Nothing to do, or news of a connection that was hung up.

    def _went_down(self, dialer: Dialer, reason: str) -> None:
        was_up, dialer.is_up = dialer.is_up, False
        if was_up or not dialer.is_told_down:
            dialer.is_told_down = True
            self._log.warning("peer_lost", link=dialer.link.name, endpoint=dialer.link.endpoint, reason=reason)
        if was_up:
            dialer.link.on_connection(False)

    def _redial(self, dialer: Dialer) -> None:
        self._drop_timer(dialer)
        if not dialer.link.is_closed:
            dialer.dial()

    def _after(self, what: object, delay_s: float, work: Callable[[], object]) -> None:
        """Do `work` in a turn of its own after a delay; replaces earlier work for `what`."""
        self._drop_timer(what)
        self._timers[what] = self._loop.call_later(delay_s, self._call, self._due, what, work)

    def _due(self, what: object, work: Callable[[], object]) -> None:
        self._timers.pop(what, None)
        work()

    def _drop_timer(self, what: object) -> None:
        if (timer := self._timers.pop(what, None)) is not None:
            timer.cancel()
