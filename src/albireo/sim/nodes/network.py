"""The network of a simulated cluster: links of bytes between its machines, and everything that becomes of them.

A connection behaves as TCP: what is sent on it arrives in order, late, or the connection ends; nothing is lost or
doubled while it stands. Messages cross as the bytes that the real codec makes of them. As with real links (ADR-0102)

    a cut cable delays everything until it is whole; what is not acknowledged for 2 s ends the connection
    a killed process closes its connections behind what had left; a machine without power says nothing
    a send is refused while nobody is connected, or while too much is under way
    a new connection to an endpoint where nobody listens is refused at once if that machine is on

Not here: keys (tests/unit/runtime/test_tcp_links.py).
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from albireo.codec.message import AnyMessage, decode, encode
from albireo.model.instant import MS, SECOND
from albireo.model.principal import ANYBODY, LOCAL_PREFIX
from albireo.model.status import Knock
from albireo.runtime import LinkLimits, Reach
from albireo.runtime.link.link import Hears
from albireo.sim.engine.agenda import MachineClock
from albireo.sim.engine.network import ALL_PATHS, Cables
from albireo.sim.engine.stage import Stage
from albireo.sim.nodes.swarm import NodeSwarm

STALL_NS: Final = 2 * SECOND
KEEPALIVE_NS: Final = 6 * SECOND
RESEND_NS: Final = 50 * MS
RETRY_NS: Final = 20 * MS
RETRY_NS_MAX: Final = 500 * MS
CONNECT_NS: Final = 1 * SECOND

Parts = list[bytes | memoryview]


class Host(MachineClock):
    """Machine as the network sees it: its clock, and whether it is on."""

    def __init__(self, name: str, chance: random.Random, drift: float) -> None:
        super().__init__(chance, drift)
        self.name = name
        self.is_on = True
        self.boots = 0
        """Number of times that the machine was switched on: connections from before the last time are gone."""
        self.wall_shift_ns = 0


class Owner(Protocol):
    """The process that has a link."""

    host: Host
    is_alive: bool
    paused_until: int
    """Instant before which the process does nothing."""
    leaves_at: int
    """Earliest instant at which what the process sends leaves: a sync inside of a turn holds up what follows."""

    def call(self, function: Callable[..., object], *args: object) -> bool:
        """Run a function in a turn of its own."""

    def post(self, link: "StagedLink", sender: bytes, message: AnyMessage, raw: Parts) -> None:
        """Take a message that has arrived."""

    def sent(self, message: AnyMessage) -> None:
        """Note that a link took a message."""


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "Network", source: "StagedLink", target: "StagedLink", sender: bytes) -> None:
        """`sender`: name of the source at the target."""
        self.source = source
        self.target = target
        self.connection: Connection
        self.under_way: deque[tuple[int, int, Parts | None]] = deque()
        """Messages under way, oldest first: (when it left, when it arrives, parts); without parts: the end."""
        self._unheard_since: int | None = None
        self._network = network
        self._sender = sender
        self._free_at = 0
        self._is_due = False

    def put(self, parts: Parts | None) -> None:
        network = self._network
        leaves_at = max(network.agenda.at, self.source.owner.leaves_at)
        size = 0 if parts is None else sum(map(len, parts))
        arrives_at = max(self._free_at, leaves_at + network.delay_ns(self.source, self.target))
        self._free_at = arrives_at + size * SECOND // network.bytes_per_s(self.source, self.target)
        self.under_way.append((leaves_at, self._free_at, parts))
        self._look_at(self._free_at)

    def cut_short(self, chance: random.Random) -> None:
        """Drop some of what a sender that died had handed to its link: it had not left."""
        for _ in range(chance.randint(0, len(self.under_way))):
            self.under_way.pop()

    def _look_at(self, at: int) -> None:
        if not self._is_due:
            self._is_due = True
            self._network.agenda.call_at(at, self._arrive)

    def _arrive(self) -> None:
        """Deliver everything that has had its time, unless the network holds it up."""
        network, connection, at = self._network, self.connection, self._network.agenda.at
        self._is_due = False
        if not self.under_way or connection.is_over:
            return
        if not network.carries(self.source, self.target):
            if at - self.under_way[0][0] < STALL_NS:
                self._look_at(at + RESEND_NS)
            else:
                connection.given_up(self.source)
        elif connection.is_unknown_to(self.target):
            connection.given_up(self.source)  # An RST comes back.
        else:
            while self.under_way and self.under_way[0][1] <= at:
                self._deliver(self.under_way.popleft()[2])
            self._watch_acknowledgements(at)
            if self.under_way:
                self._look_at(self.under_way[0][1])

    def _deliver(self, parts: Parts | None) -> None:
        if parts is None:
            self.connection.ended(self.target)
        elif not self.target.is_closed:
            message, raw = decode(parts)
            if self._network.swarm.gives_views:
                raw = [memoryview(one) for one in raw]
            self.target.received += 1
            self.target.owner.post(self.target, self._sender, message, raw)

    def _watch_acknowledgements(self, at: int) -> None:
        """Watch the way back after a delivery: while it is cut, the sender hears nothing of the delivery."""
        if self._network.carries(self.target, self.source):
            self._unheard_since = None
        elif self._unheard_since is None:
            self._unheard_since = at
            self._network.agenda.call_at(at + STALL_NS, partial(self._look_for_acknowledgement, at))

    def _look_for_acknowledgement(self, since: int) -> None:
        if self._unheard_since == since and not self._network.carries(self.target, self.source):
            self.connection.given_up(self.source)


class Connection:
    """Connection between a link that dialled and one that listens. Each of them learns by itself that it is over."""

    def __init__(self, network: "Network", dialer: "StagedLink", listener: "StagedLink") -> None:
        self.forth = Pipe(network, dialer, listener, dialer.identity)
        self.back = Pipe(network, listener, dialer, b"")
        self.forth.connection = self.back.connection = self
        self._network = network
        self._boots = {link: link.owner.host.boots for link in (dialer, listener)}
        self._gone: set[StagedLink] = set()
        """Links for which the connection is over."""

    @property
    def ends(self) -> tuple["StagedLink", "StagedLink"]:
        return self.forth.source, self.forth.target

    @property
    def is_over(self) -> bool:
        return len(self._gone) == len(self.ends)

    def pipe_from(self, link: "StagedLink") -> Pipe:
        return self.forth if link is self.forth.source else self.back

    def is_unknown_to(self, link: "StagedLink") -> bool:
        """True: the link's machine was switched off and on meanwhile, or the connection is over there."""
        return link.owner.host.boots != self._boots[link] or link in self._gone

    def ended(self, link: "StagedLink") -> None:
        """Let a link learn that the connection is over."""
        if link not in self._gone:
            self._gone.add(link)
            link.disconnected(self)

    def given_up(self, link: "StagedLink") -> None:
        """Let a link give the connection up: what it sent may not have arrived. An idle other end notices late."""
        other = self.pipe_from(link).target
        self.ended(link)
        if not self.is_over:
            self._network.agenda.call_at(self._network.agenda.at + KEEPALIVE_NS, partial(self.ended, other))

    def closed(self, link: "StagedLink") -> None:
        """End the connection as its link is closed, or its process was killed: the end comes behind what had left."""
        self._gone.add(link)
        self.pipe_from(link).put(None)

    def reset(self) -> None:
        """Break the connection for both ends, as something in between does."""
        for link in self.ends:
            self.ended(link)


class StagedLink:
    """Link shaped as `runtime.Link`: one that listens, or one that dials and dials again."""

    def __init__(self, network: "Network", owner: Owner, name: str, identity: bytes, limits: LinkLimits) -> None:
        """`identity`: empty for a link that listens."""
        self.name = name
        self.identity = identity
        self.owner = owner
        self.limits = limits
        self.endpoint = ""
        self.path = ALL_PATHS
        self.peer = ""
        self.linger_ms = limits.linger_ms
        self.sent = self.received = self.refused = self.malformed = self.unheard = self.answered = 0
        self.on_connection: Callable[[bool], object] = lambda _: None
        self.knocks: dict[str, Knock] = {}
        self.at_close: list[Callable[[], object]] = []
        self.is_closed = False
        self.pause_ns = RETRY_NS
        self._network = network
        self._connections: dict[bytes, Connection] = {}
        """Connections by identity of the peer; a dialer has one, under no name."""
        self._held: deque[Parts] = deque()

    def hear(self, hears: Hears) -> None:
        """Go on: as no keys are used, everybody is heard."""

    @property
    def principal(self) -> str:
        """Principal of the peers: processes of this machine, or anybody, as no keys are used."""
        return ANYBODY if self.endpoint in self._network.hosts else LOCAL_PREFIX + "0"

    @property
    def is_up(self) -> bool:
        return bool(self._connections)

    @property
    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    def send(self, message: AnyMessage, raw: Sequence[bytes | memoryview] = (), to: bytes = b"") -> bool:
        assert to or self.identity, f"a message to nobody on {self.name}"
        connection = self._connections.get(b"" if self.identity else to)
        parts: Parts = [bytes(one) for one in encode(message, raw)]
        if connection is None and self._may_hold():
            self._held.append(parts)
        elif connection is None or self._network.is_full(connection.pipe_from(self)):
            self.refused += 1
            return False
        else:
            connection.pipe_from(self).put(parts)
        self.sent += 1
        self.owner.sent(message)
        return True

    def _may_hold(self) -> bool:
        is_room = len(self._held) < self.limits.send_messages_max
        return bool(self.identity) and self.limits.holds_for_peer and is_room

    def connected(self, connection: Connection) -> None:
        """Take a connection that both ends have proven. A peer that comes again takes its own place."""
        dialer, _ = connection.ends
        key = b"" if self.identity else dialer.identity
        self._connections[key] = connection
        self.pause_ns = RETRY_NS
        while self._held:
            connection.pipe_from(self).put(self._held.popleft())
        self.owner.call(self._told, True)

    def disconnected(self, connection: Connection) -> None:
        if self.is_closed or not self.owner.is_alive:
            return
        for key, known in list(self._connections.items()):
            if known is connection:
                del self._connections[key]
        self.owner.call(self._told, False)
        if self.identity and not self.is_up:
            self._network.dial(self)

    def _told(self, is_up: bool) -> None:
        if not self.is_closed:
            self.on_connection(is_up)

    def close(self, linger_ms: int = 0) -> None:
        """Close the link; what was sent still leaves."""
        del linger_ms
        if not self.is_closed:
            self.is_closed = True
            self._network.released(self)
            for connection in self._connections.values():
                connection.closed(self)
            self._connections.clear()

    def died(self, chance: random.Random, *, is_power: bool) -> None:
        """End the link as its process is gone; some of what it had sent had not left."""
        for connection in self._connections.values():
            connection.pipe_from(self).cut_short(chance)
            if is_power:
                connection.given_up(self)  # Nobody is told.
        if is_power:
            self._connections.clear()
        self.close()


class Network(Cables):
    """All cables of one world, and the connections over them."""

    def __init__(self, stage: Stage[NodeSwarm]) -> None:
        super().__init__(stage)
        self.agenda = stage.agenda
        self.swarm = stage.swarm
        self.listeners: dict[str, StagedLink] = {}
        self.hosts: dict[str, tuple[Host, int]] = {}
        """Host and path of each endpoint."""
        self._slow: dict[frozenset[str], int] = {}

    def slow(self, one: str, other: str, bytes_per_s: int) -> None:
        """Let each connection between two machines carry this much, until `heal`."""
        self._slow[frozenset((one, other))] = bytes_per_s

    def heal(self) -> None:
        super().heal()
        self._slow.clear()

    def bytes_per_s(self, source: StagedLink, target: StagedLink) -> int:
        hosts = frozenset((source.owner.host.name, target.owner.host.name))
        return self._slow.get(hosts, self.swarm.bytes_per_s)

    def carries(self, source: StagedLink, target: StagedLink) -> bool:
        path = max(source.path, target.path)
        one, other = source.owner.host, target.owner.host
        return other.is_on and not self.is_cut(one.name, other.name, path)

    def delay_ns(self, source: StagedLink, target: StagedLink) -> int:
        if source.owner.host is target.owner.host:
            return 20_000
        return int(self.delay_ms() * MS)

    def is_full(self, pipe: Pipe) -> bool:
        return len(pipe.under_way) >= min(self.swarm.messages_max, pipe.source.limits.send_messages_max)

    def listen(self, link: StagedLink, endpoint: str) -> None:
        link.endpoint = endpoint
        if endpoint in self.hosts:
            link.path = self.hosts[endpoint][1]
        assert endpoint not in self.listeners, f"two listen at {endpoint}"
        self.listeners[endpoint] = link

    def released(self, link: StagedLink) -> None:
        if self.listeners.get(link.endpoint) is link:
            del self.listeners[link.endpoint]

    def dial(self, link: StagedLink) -> None:
        """Try after the link's pause, and again until there is a connection."""
        self.agenda.call_at(self.agenda.at + link.pause_ns, partial(self._attempt, link))
        link.pause_ns = min(2 * link.pause_ns, RETRY_NS_MAX)

    def _attempt(self, link: StagedLink) -> None:
        if link.is_closed or link.is_up:
            return
        listener, reach = self._reach(link.owner.host, link.endpoint)
        if reach is Reach.SILENT or (listener is not None and listener.owner.paused_until > self.agenda.at):
            self.agenda.call_at(self.agenda.at + CONNECT_NS, partial(self._attempt, link))
        elif listener is None or not link.owner.is_alive:
            self.dial(link)
        else:
            trip_ns = self.delay_ns(link, listener) + self.delay_ns(listener, link)
            self.agenda.call_at(self.agenda.at + trip_ns, partial(self._establish, link, listener))

    def _establish(self, link: StagedLink, listener: StagedLink) -> None:
        is_there = not listener.is_closed and self.carries(link, listener) and self.carries(listener, link)
        if not is_there or link.is_closed:
            self._attempt(link)
        elif not link.is_up:
            link.path = listener.path
            connection = Connection(self, link, listener)
            listener.connected(connection)
            link.connected(connection)

    def _reach(self, source: Host, endpoint: str) -> tuple[StagedLink | None, Reach]:
        host, path = self.hosts.get(endpoint, (source, ALL_PATHS))
        if self.is_cut_off(source.name, host.name, path) or not host.is_on:
            return None, Reach.SILENT
        listener = self.listeners.get(endpoint)
        return listener, Reach.REFUSED if listener is None else Reach.OPEN

    def probe(self, owner: Owner, endpoint: str, timeout_s: float, on_answer: Callable[[Reach], object]) -> None:
        """Probe an endpoint as `ActorContext.probe` does."""
        _, reach = self._reach(owner.host, endpoint)
        wait_ns = int(timeout_s * SECOND) if reach is Reach.SILENT else int(self._stage.chance.uniform(0.2, 2.0) * MS)
        self.agenda.call_at(self.agenda.at + wait_ns, partial(owner.call, on_answer, reach))

    def reset(self, choose: Callable[[Connection], bool]) -> None:
        """Break some of the connections that stand."""
        seen: list[Any] = [one for link in self.listeners.values() for one in link.connections]
        for connection in seen:
            if choose(connection):
                connection.reset()
