"""The drills of lone nodes: a site below a root, each a node of its own processes, and a fault between or to them.

    producers --> site --cable--> root         everything with keys; the cable is a relay in the drill's own program

A round: load on the site, the fault for a while, the fault undone, until the root has all. Held:

- every message that the site acknowledged lies once and in order in the log of the site and in its copy at the root;
- the site goes on by itself: with the fault elsewhere, no pause of its acknowledgements is longer than `ALONE_S`;
- while the root does not hear the site no value of it looks live there, and afterwards the last one is shown as good.

Spec: docs/drill.md; design/tree.md, The simulator must show.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import Client, ClientError, connect
from albireo.drill import name_server
from albireo.drill.account import gap_s, judge
from albireo.drill.ground import DrillError
from albireo.drill.load import PRODUCERS, RATE, ProducerWorker, read_log
from albireo.drill.name_server import NOWHERE, NameServer
from albireo.drill.ports import KeptPorts
from albireo.drill.process import Group
from albireo.drill.relay import CableSpec, Relay
from albireo.drill.tree.slow_link import BACKLOG, FAST, ORDER_S, SLOW, VALUE_S, WAY, SeenOverSlowLink, SlowLink
from albireo.model.access import AccessRole
from albireo.model.position import Position
from albireo.model.quality import GOOD
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo

ROOT: Final = "root"
SITE: Final = "root/north"
OPERATOR: Final = "operator@drill"
WATCHED: Final = f"{SITE}:number_1"
"""Item of the first producer, as the root shows it."""
FAULT_S: Final = 6.0
"""Time for which a fault lasts; twice as long as it takes the root to notice."""
ALONE_S: Final = 1.0
START_S: Final = 90.0
HEAL_S: Final = 60.0
LOOK_S: Final = 0.05
LOAD_S: Final = 1.0

DNS: Final = "dns"
SLOW_LINK: Final = "slow-link"
NAMED_S: Final = 12.0
"""Time within which a site whose connection has broken has brought its root all, whatever the name server does."""
PLACES: Final = ("127.0.0.1", "127.0.0.2")
"""Addresses between which the root moves."""

FAULTS: Final = {
    "cut-site": "nothing passes between a site and the root for six seconds; neither end is told",
    "kill-site": "`kill -9` of every process of a site; started again after six seconds",
    "kill-root": "`kill -9` of every process of the root; started again after six seconds",
    DNS: "the name server that a site asks for its root is silent, refuses, lies, and says where the root has moved to",
    SLOW_LINK: "a backlog, a file of 1 MB, live values and orders over 20 kB/s and a round trip of 600 ms",
    "restart-tree": "root and site are stopped in order, the root first, and started again, the site first",
}


def objection(fault: str) -> str:
    """Why this fault can't be rehearsed here; empty: it can."""
    return name_server.objection() if fault == DNS else ""


class TreeRound(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one round."""

    acked: int
    lost: int
    doubled: int
    reordered: int
    gap_s: float | None
    """Longest pause of the site's acknowledgements; null: the site itself was away."""
    caught_up_s: float
    """Time from the end of the fault until the root had all."""
    looked_live: int
    """Looks at the root that showed a good value of the site although it was not heard."""
    seen: SeenOverSlowLink | None = None
    """In `slow-link`: what people met meanwhile."""
    held: bool


class TreeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a drill; the JSON line."""

    fault: str
    rounds: tuple[TreeRound, ...]
    held: bool


class TreeDrill:
    """The tree of one drill: made, started, hurt and judged here."""

    def __init__(self, fault: str, directory: Path, tell: Callable[[str], object]) -> None:
        """`tell` takes lines for people."""
        self._fault = fault
        self._tell = tell
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._kept = KeptPorts(3)
        root, site, cable = self._kept.numbers
        self._lines = {
            ROOT: LineTo(f"tcp://127.0.0.1:{root}", ROOT),
            SITE: LineTo(f"tcp://127.0.0.1:{site}", SITE),
        }
        self._cable, self._at = (cable, root), PLACES[0]
        self._relay = Relay(*self._cable)
        self._seen: SeenOverSlowLink | None = None
        self._names = NameServer(self._at) if fault == DNS else None
        self._keys = self._make_keys()
        self._groups = {
            ROOT: self._group(ROOT, "root", root, site),
            SITE: self._group(SITE, "site", cable, site),
        }

    def _make_keys(self) -> Keys:
        directory = self._directory / "keys"
        made = [Keys.new(directory / name, key) for name, key in (("root", ROOT), ("site", SITE))]
        own = Keys.new(directory / "operator", OPERATOR)
        introduce(own, *made, role=AccessRole.ADMIN)
        return Keys.load(directory / "operator")

    def _group(self, node: str, name: str, root_port: int, site_port: int) -> Group:
        """The processes of a node. The site's file has the cable in the place of the root's endpoint."""
        topology = self._directory / f"{name}.toml"
        host = "127.0.0.1" if self._names is None else "root.drill"
        topology.write_text(
            f"""cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "{ROOT}"
endpoint = "tcp://{host}:{root_port}"
[[node]]
id = "{SITE}"
endpoint = "tcp://127.0.0.1:{site_port}"
""",
            encoding="utf-8",
        )
        places = ["--topology", str(topology), "--data", str(self._directory / name)]
        keys = ["--keys", str(self._directory / "keys" / name)]
        within = () if self._names is None else self._names.within(self._directory)
        return Group(name, ["node", "run", "--id", node, *places, *keys], self._directory / f"{name}.log", within)

    def run(self, rounds: int) -> TreeReport:
        """All rounds, or those up to the first that did not end."""
        done: list[TreeRound] = []
        is_held = True
        try:
            with self._running() as sources:
                for number in range(1, rounds + 1):
                    done.append(self._round(sources))
                    self._tell(f"round {number}: {_told(done[-1])}")
        except (DrillError, ClientError, RuntimeFault, TimeoutError) as error:
            is_held = False
            self._tell(f"round {len(done) + 1} did not end: {error}")
            self._tell("\n".join(one.tail() for one in self._groups.values()))
        return TreeReport(fault=self._fault, rounds=tuple(done), held=is_held and all(one.held for one in done))

    @contextlib.contextmanager
    def _running(self) -> Iterator[list[ProducerWorker]]:
        with contextlib.ExitStack() as afterwards:
            afterwards.callback(self._kept.close)
            if self._names is not None:
                self._names.begin()
                afterwards.callback(self._names.end)
            self._relay.begin()
            afterwards.callback(lambda: self._relay.end())
            for group in self._groups.values():
                group.start()
                afterwards.callback(group.kill)
            sources = [ProducerWorker(index, [self._lines[SITE]], self._keys) for index in range(len(PRODUCERS))]
            for source in sources:
                source.start()
                afterwards.callback(source.stop)
            self._await("the first value of the site at the root", START_S, lambda: self._is_good(sources))
            yield sources
            self._stop_in_order(*self._groups.values())

    def _root(self) -> Client:
        return connect([self._lines[ROOT]], keys=self._keys, timeout_s=HEAL_S)

    def _site(self) -> Client:
        return connect([self._lines[SITE]], keys=self._keys, timeout_s=HEAL_S)

    def _quality(self) -> int | None:
        """Quality of the watched item at the root; None: the root does not answer, or does not know it."""
        with contextlib.suppress(ClientError), connect([self._lines[ROOT]], keys=self._keys, timeout_s=LOAD_S) as root:
            return root.read(WATCHED).quality
        return None

    def _is_good(self, sources: list[ProducerWorker]) -> bool:
        for source in sources:
            source.offer(is_on=True)
        return self._quality() == GOOD

    def _await(self, what: str, within_s: float, is_so: Callable[[], bool]) -> float:
        """Look until it is so; the time that it took.

        Raises:
            DrillError: not in time.
        """
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > within_s:
                raise DrillError(f"no {what} within {within_s:.0f} s")
            time.sleep(LOOK_S)  # Other processes: nothing else tells.
        return time.monotonic() - began

    def _round(self, sources: list[ProducerWorker]) -> TreeRound:
        firsts = {one.name: one.acks.offered + 1 for one in sources}
        for source in sources:
            source.offer(is_on=True)
        time.sleep(LOAD_S)
        fault_at = time.monotonic()
        looked_live = self._hurt(sources)
        healed_at = time.monotonic()
        before = [one.acks.acked for one in sources]
        self._await(
            "acknowledgement of the site after the fault",
            HEAL_S,
            lambda: all(one.acks.acked > old for one, old in zip(sources, before, strict=True)),
        )
        time.sleep(LOAD_S)
        self._await("good value at the root", HEAL_S, lambda: self._quality() == GOOD)
        for source in sources:
            source.offer(is_on=False)
        self._await("end of the load", HEAL_S, lambda: all(one.acks.acked >= one.acks.offered for one in sources))
        self._await("copy of all at the root", HEAL_S, lambda: self._has_all(sources))
        caught_up_s = time.monotonic() - healed_at
        times = [[at for at, _ in one.acks.times] for one in sources]
        is_elsewhere = self._fault in ("cut-site", "kill-root", DNS)
        gap = max(gap_s(one, fault_at, healed_at) for one in times) if is_elsewhere else None
        return self._judged(sources, firsts, gap, caught_up_s, looked_live)

    def _judged(
        self,
        sources: list[ProducerWorker],
        firsts: Mapping[str, int],
        gap: float | None,
        caught_up_s: float,
        looked_live: int,
    ) -> TreeRound:
        """The round's figures. `firsts`: first message of each producer in this round."""
        account = judge(
            {one.name: range(firsts[one.name], one.acks.acked + 1) for one in sources}, self._records(sources)
        )
        for line in account.details:
            self._tell(line)
        is_clean = not (account.lost or account.doubled or account.reordered or looked_live)
        seen = self._seen
        is_clean = is_clean and (seen is None or (seen.value_s <= VALUE_S and seen.order_s <= ORDER_S))
        return TreeRound(
            acked=account.acked,
            lost=account.lost,
            doubled=account.doubled,
            reordered=account.reordered,
            gap_s=None if gap is None else round(gap, 3),
            caught_up_s=round(caught_up_s, 3),
            looked_live=looked_live,
            seen=seen,
            held=is_clean and (gap is None or gap <= ALONE_S),
        )

    def _hurt(self, sources: list[ProducerWorker]) -> int:
        """Do the fault, let it last, undo it; the number of looks that showed a dead value as live."""
        root, site = self._groups[ROOT], self._groups[SITE]
        match self._fault:
            case "cut-site":
                self._relay.carry_out(self._relay.cut())
                looked_live = self._look_for_dead_values()
                self._relay.carry_out(self._relay.mend())
                return looked_live
            case "kill-site":
                site.kill()
                looked_live = self._look_for_dead_values()
                site.start()
                return looked_live
            case _ if self._fault == DNS:
                self._mislead(sources)
            case _ if self._fault == SLOW_LINK:
                self._slow_down(sources)
            case "kill-root":
                root.kill()
                time.sleep(FAULT_S)
                root.start()
            case _:
                self._stop_in_order(root, site)
                for group in (site, root):
                    group.start()
        return 0

    def _mislead(self, sources: list[ProducerWorker]) -> None:
        """Break the connection of the site while its name server does one thing after the other.

        Raises:
            DrillError: the site did not find its root again in time.
        """
        names = self._names
        assert names is not None
        for what in ("is silent", "refuses", "lies", "says where the root has moved to"):
            names.is_silent, names.refuses = what == "is silent", what == "refuses"
            names.address = NOWHERE if what == "lies" else self._at
            if what == "says where the root has moved to":
                (names.address,) = {*PLACES} - {self._at}
                self._at = names.address
                self._relay.end()
                self._relay = Relay(*self._cable, self._at)
                self._relay.begin()
            self._relay.carry_out(self._relay.mend())  # Every connection ends.
            time.sleep(LOAD_S)  # Acknowledgements that the root can't have by the old ones.
            all_of_it = f"copy of all at the root while the name server {what}"
            took = self._await(all_of_it, NAMED_S, lambda: self._has_all(sources))
            self._tell(f"the name server {what}: the root has all after {took:.1f} s")

    def _slow_down(self, sources: list[ProducerWorker]) -> None:
        """Have a backlog, a file, live values and orders share a slow link; it is a fast one again at the end."""
        link = SlowLink(self._root, self._site, self._directory / "files")
        self._relay.carry_out(self._relay.cut())
        self._await("notice of the root that the site is not heard", FAULT_S, lambda: self._quality() != GOOD)
        before = sum(one.acks.acked for one in sources)
        self._load(sources, FAST)
        self._await("backlog", HEAL_S, lambda: sum(one.acks.acked for one in sources) - before >= BACKLOG)
        self._load(sources, 0)
        self._await("end of the backlog", HEAL_S, lambda: all(one.acks.acked >= one.acks.offered for one in sources))
        self._relay.way = WAY
        self._relay.carry_out(self._relay.mend())
        self._load(sources[:1], SLOW)
        self._await("good value at the root over the slow link", HEAL_S, lambda: self._quality() == GOOD)
        self._seen = link.look(WATCHED, SITE, sources[0])
        self._tell(f"over the slow link: {self._seen}")
        self._relay.way = CableSpec()
        self._relay.carry_out(self._relay.mend())
        link.end()
        self._load(sources, RATE)

    def _load(self, sources: list[ProducerWorker], rate: int) -> None:
        """Have so many messages a second of each; 0: none."""
        for source in sources:
            source.offer(is_on=False)
            source.rate = rate or source.rate
            source.offer(is_on=rate > 0)

    def _stop_in_order(self, *groups: Group) -> None:
        for group in groups:
            if group.stop() != 0:
                raise DrillError(f"{group.name} did not stop in order")

    def _look_for_dead_values(self) -> int:
        """Number of looks that found a good value of a site that is away, after the time to notice it."""
        ends = time.monotonic() + FAULT_S
        self._await("notice of the root that the site is not heard", FAULT_S, lambda: self._quality() != GOOD)
        found = 0
        while time.monotonic() < ends:
            found += self._quality() == GOOD
        return found

    def _has_all(self, sources: list[ProducerWorker]) -> bool:
        """The root has committed all that the site acknowledged, and has nothing more to fetch."""
        wanted = max(one.acks.position.sequence for one in sources)
        with contextlib.suppress(ClientError), self._root() as root:
            row = next(one for one in root.tree() if one.node == SITE)
            return int(row.position.partition(":")[2] or 0) >= wanted and row.stale_since_ns is None
        return False

    def _records(self, sources: list[ProducerWorker]) -> Mapping[str, Mapping[str, list[int]]]:
        """The numbers in log order, as the site has them and as the root does."""
        with self._root() as root:
            end = root.status().log
        ends = {
            SITE: max(one.acks.position for one in sources),
            ROOT: Position(end.epoch, end.sequence),
        }
        return {
            node: read_log(self._lines[node], self._keys, "drill-reader", up_to).numbers for node, up_to in ends.items()
        }


def _told(one: TreeRound) -> str:
    alone = "" if one.gap_s is None else f"longest pause of the site {one.gap_s:.3f} s, "
    return (
        f"{alone}root complete after {one.caught_up_s:.1f} s; {one.acked} acknowledged, {one.lost} lost, "
        f"{one.doubled} doubled, {one.reordered} reordered, {one.looked_live} dead values looked live"
        + ("" if one.held else "; DID NOT HOLD")
    )
