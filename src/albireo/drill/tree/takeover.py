"""The drills of pairs in the tree: whoever acts, above or below, stands still or is killed, and its mate goes on.

Two producers send to the site, the root orders a write of the site's output again and again. Held, in each round:

- every message that the site acknowledged lies once and in order in the log of each member of each node of the tree;
- each order has an outcome, and the PLC carried it out as often as the outcome says, never behind a later order;
- a member that stood still while its mate took over acknowledges and carries out nothing that it is told then;
- no member of the root refused what its site sent, and the site itself goes on while the fault is above it.

Spec: docs/drill.md.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import ClientError
from albireo.drill.account import gap_s, judge
from albireo.drill.ground import DrillError
from albireo.drill.load import PRODUCERS, ConsumedMessages, ProducerWorker, read_log
from albireo.drill.plcs import Plcs
from albireo.drill.tree.nodes import HEALTHY_S, TreeNodes
from albireo.drill.tree.orders import OrderAccount, OrdersFromAbove, judge_orders
from albireo.drill.tree.shapes import ADAPTER, ROOT, SHAPES
from albireo.drill.tree.words import LateWords
from albireo.model.position import Position
from albireo.model.quality import GOOD
from albireo.runtime.errors import RuntimeFault

WATCHED: Final = "number_1"
"""Item of the first producer."""
PAUSE_S: Final = 4.0
"""Time for which a member stands still at least; longer than its lease."""
ALONE_S: Final = 1.0
"""Longest pause of a site's acknowledgements while the fault is above it."""
BACK_S: Final = 60.0
LOAD_S: Final = 1.0
AGAIN_MAX: Final = 3
"""Times in a round that a fault may be done again."""


class TakeoverRound(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one round."""

    acked: int
    lost: int
    doubled: int
    reordered: int
    gap_s: float
    """Longest pause of the site's acknowledgements."""
    alone_s: float | None
    """Most that it may be; null: the fault was at the site too, and there is no limit."""
    root_gap_s: float
    """Longest time from a fault until the root had, and showed, what the site acknowledged after it."""
    orders: int
    verified: int
    unknown: int
    untold: int
    untrue: int
    stale: int
    """Words that a member took which stood still when they were said."""
    refused: int
    """Deliveries of the site that the root did not take."""
    again: int
    """Times that the fault was done again, because the mate had left the set before it."""

    @property
    def held(self) -> bool:
        flaws = (self.lost, self.doubled, self.reordered, self.untold, self.untrue, self.stale, self.refused)
        return not any(flaws) and (self.alone_s is None or self.gap_s <= self.alone_s)

    def told(self) -> str:
        """The round in words."""
        return (
            f"longest pause of the site {self.gap_s:.3f} s, of the root {self.root_gap_s:.3f} s; {self.acked} "
            f"acknowledged, {self.lost} lost, {self.doubled} doubled, {self.reordered} reordered; "
            f"{self.orders} orders, {self.verified} verified, {self.unknown} unknown, {self.untold} untold, "
            f"{self.untrue} untrue; {self.stale} stale words, {self.refused} refused; done again {self.again} times"
            + ("" if self.held else "; DID NOT HOLD")
        )


class TakeoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a drill; the JSON line."""

    fault: str
    rounds: tuple[TakeoverRound, ...]
    held: bool


class TakeoverDrill:
    """The tree of one drill: made, started, hurt and judged here."""

    def __init__(self, fault: str, directory: Path, tell: Callable[[str], object]) -> None:
        """`tell` takes lines for people."""
        self._fault = fault
        self._shape = SHAPES[fault]
        self._directory = directory
        self._tell = tell
        self._plcs = Plcs("127.0.0.1")
        self._nodes: TreeNodes
        self._sources: list[ProducerWorker]
        self._orders: OrdersFromAbove
        self._gaps: list[float] = []
        """Times of this round in which the root lacked what the site had acknowledged."""
        self._began_at = 0.0
        """When the fault of this round began (monotonic clock)."""
        self._words = 0
        """Number of programs that have said words to a member that stood still."""
        self._again = 0
        """Times in this round that the fault was done again."""

    def run(self, rounds: int) -> TakeoverReport:
        """All rounds, or those up to the first that did not end."""
        done: list[TakeoverRound] = []
        is_held = True
        with contextlib.ExitStack() as afterwards:
            try:
                self._begin(afterwards)
                for number in range(1, rounds + 1):
                    done.append(self._round(number))
                    self._tell(f"round {number}: {done[-1].told()}")
            except (DrillError, ClientError, RuntimeFault, TimeoutError) as error:
                is_held = False
                self._tell(f"round {len(done) + 1} did not end: {error}")
        return TakeoverReport(fault=self._fault, rounds=tuple(done), held=is_held and all(one.held for one in done))

    def _begin(self, afterwards: contextlib.ExitStack) -> None:
        """`afterwards` undoes it in the reverse order, each whatever became of the others."""
        afterwards.callback(self._plcs.end)
        self._plcs.begin()
        self._nodes = nodes = TreeNodes(self._directory, self._shape, self._plcs.ports[ADAPTER])
        afterwards.callback(nodes.end)
        self._sources = [ProducerWorker(one, nodes.lines(nodes.site), nodes.keys) for one in range(len(PRODUCERS))]
        self._orders = OrdersFromAbove(nodes)
        for worker in (*self._sources, self._orders):
            afterwards.callback(worker.stop)
        nodes.start()
        for source in self._sources:
            source.start()
            source.offer(is_on=True)
        self._until("a value of the site is good at the root", lambda: self._shown()[0] == GOOD)
        self._orders.start()

    def _round(self, number: int) -> TakeoverRound:
        self._nodes.wait_healthy()
        firsts = {one.name: one.acks.offered + 1 for one in self._sources}
        given, carried = len(self._orders.given), len(self._carried())
        self._gaps.clear()
        self._again = 0
        for source in self._sources:
            source.offer(is_on=True)
        self._orders.order(is_on=True)
        self._until("an order is verified", lambda: len(self._orders.given) > given + 1)
        time.sleep(LOAD_S)
        self._began_at = time.monotonic()
        kills = self._shape.kills
        hurt = kills[(number - 1) % len(kills)] if kills else tuple(self._shape.voters)
        stale, words = 0, None
        if kills:
            self._kill(hurt)
        else:
            stale, words = self._make_stale(*hurt)
        ended_at = time.monotonic()
        time.sleep(LOAD_S)
        self._settle()
        gap = max(gap_s([at for at, _ in one.acks.times], self._began_at, ended_at) for one in self._sources)
        orders = judge_orders(self._orders.given[given:], self._carried()[carried:])
        alone_s = None if self._shape.site in hurt else ALONE_S
        return self._judged(firsts, orders, (gap, alone_s), stale, words)

    def _kill(self, nodes: Sequence[str]) -> None:
        """Kill who acts at these levels in one moment; the others go on, and the killed come back."""
        while True:
            killed = [self._leading(node) for node in nodes]
            self._began_at = time.monotonic()
            for name in killed:
                self._nodes.groups[name].kill()
            replaced = [self._is_replaced(name) for name in killed]
            if all(replaced):
                self._goes_on(self._began_at)
            for name in killed:
                self._nodes.groups[name].start()
            self._nodes.wait_healthy()
            if all(replaced):
                return

    def _is_replaced(self, name: str) -> bool:
        """Wait until the mate of this member leads. False: a busy machine had put it out of the set before the fault,
        so that it may not, and the fault is done again.

        Raises:
            DrillError: that was so too often in this round.
        """
        mate = self._nodes.mate(name)
        seen: list[bool | None] = []

        def is_settled() -> bool:
            seen.append(self._nodes.takes_over(mate))
            return seen[-1] is not None

        self._until(f"{mate} takes over", is_settled)
        if seen[-1]:
            return True
        self._again += 1
        if self._again > AGAIN_MAX:
            raise DrillError(f"{mate} was out of the set again and again\n{self._nodes.tails()}")
        self._tell(f"{mate} was out of the set: the fault is done again")
        return False

    def _leading(self, node: str) -> str:
        """The member that leads; one that is just busy is asked again."""
        found: list[str] = []

        def leads() -> bool:
            found.append(self._nodes.acting(node))
            return bool(found[-1])

        self._until("somebody says that it leads", leads)
        return found[-1]

    def _make_stale(self, node: str) -> tuple[int, LateWords]:
        """Have the active member stand still and wake; what it took of the words said to it meanwhile."""
        while True:
            name = self._leading(node)
            self._words += 1
            words = LateWords(self._nodes, name, self._words)
            try:
                self._began_at = paused_at = time.monotonic()
                self._nodes.groups[name].pause()
                try:
                    is_replaced = self._is_replaced(name)
                    if is_replaced:
                        words.say()
                        self._goes_on(paused_at)
                        time.sleep(max(0.0, paused_at + PAUSE_S - time.monotonic()))
                finally:
                    self._nodes.groups[name].resume()
                if is_replaced:
                    woken_at = time.monotonic()
                    stale = words.answers()
                    self._goes_on(woken_at)
                self._nodes.wait_healthy()
            finally:
                words.close()
            if is_replaced:
                return stale, words

    def _goes_on(self, since: float) -> None:
        """Wait until the root has, and shows, what the site acknowledged from now on. `since`: when it was hurt."""
        before = [one.acks.offered for one in self._sources]
        self._until(
            "the site acknowledges",
            lambda: all(one.acks.acked > old for one, old in zip(self._sources, before, strict=True)),
        )
        wanted = self._acked()
        self._until("the root has all", lambda: self._has(wanted))
        self._until("the root shows it", lambda: self._is_shown(before[0]))
        self._gaps.append(time.monotonic() - since)

    def _acked(self) -> Position:
        return max(one.acks.position for one in self._sources)

    def _has(self, wanted: Position) -> bool:
        """The member of the root that acts has committed the site's log up to this position, and hears the site."""
        with self._nodes.connect(ROOT, LOAD_S) as root:
            row = next(one for one in root.tree() if one.node == self._shape.site)
        epoch, _, sequence = row.position.partition(":")
        return Position(int(epoch or 0), int(sequence or 0)) >= wanted and row.stale_since_ns is None

    def _shown(self) -> tuple[int | None, int]:
        """Quality and number of the watched item at the root; (None, 0): the root does not answer, or has no value."""
        with contextlib.suppress(ClientError), self._nodes.connect(ROOT, LOAD_S) as root:
            reading = root.read(f"{self._shape.site}:{WATCHED}")
            if reading.value is not None:
                return reading.quality, int(reading.value) % (1 << 40)
        return None, 0

    def _is_shown(self, past: int) -> bool:
        quality, number = self._shown()
        return quality == GOOD and number > past

    def _settle(self) -> None:
        """Everything offered is acknowledged and at the root, every order has its outcome, all members are there."""
        self._orders.order(is_on=False)
        for source in self._sources:
            source.offer(is_on=False)
        self._until("all is acknowledged", lambda: all(one.acks.acked >= one.acks.offered for one in self._sources))
        self._until("the last order has its outcome", lambda: self._orders.is_idle)
        wanted = self._acked()
        self._until("the root has all", lambda: self._has(wanted))
        self._nodes.wait_healthy(HEALTHY_S)

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait as `TreeNodes.until` does, and end early when the load has died."""

        def looked() -> bool:
            failures = [one.failure for one in (*self._sources, self._orders) if one.failure]
            if failures:
                raise DrillError("; ".join(failures))
            return is_so()

        try:
            self._nodes.until(what, looked, BACK_S)
        except DrillError as error:
            raise DrillError("\n  ".join([str(error), *(one.brief() for one in self._sources)])) from error

    def _carried(self) -> list[int]:
        """Values that the PLC carried out."""
        return [round(one.value) for one in list(self._plcs.carried[ADAPTER]) if one.way == "mailbox"]

    def _judged(
        self,
        firsts: Mapping[str, int],
        orders: OrderAccount,
        gaps_s: tuple[float, float | None],
        stale: int,
        words: LateWords | None,
    ) -> TakeoverRound:
        """The round's figures.

        Args:
            firsts: first message of each producer in this round.
            gaps_s: the site's longest pause, and the most that it may be.
        """
        records = self._records()
        account = judge(
            {one.name: range(firsts[one.name], one.acks.acked + 1) for one in self._sources},
            {name: record.numbers for name, record in records.items()},
        )
        if words is not None:
            stale += self._late(records, words)
        with self._nodes.connect(ROOT, BACK_S) as root:
            refused = sum(row.refused for row in root.tree())
        for line in (*account.details, *orders.details):
            self._tell(line)
        return TakeoverRound(
            acked=account.acked,
            lost=account.lost,
            doubled=account.doubled,
            reordered=account.reordered,
            gap_s=round(gaps_s[0], 3),
            alone_s=gaps_s[1],
            root_gap_s=round(max(self._gaps), 3),
            orders=orders.orders,
            verified=orders.verified,
            unknown=orders.unknown,
            untold=orders.untold,
            untrue=orders.untrue,
            stale=stale,
            refused=refused,
            again=self._again,
        )

    def _late(self, records: Mapping[str, ConsumedMessages], words: LateWords) -> int:
        """Number of records that lack what the member acknowledged before it stood still, or have what it did not."""
        hurt = min(map(self._shape.levels.index, self._shape.voters))
        names = [name for node in self._shape.levels[: hurt + 1] for name in self._nodes.members[node]]
        wrong = [name for name in names if records[name].others.get(words.owner, []) != [1]]
        for name in wrong:
            self._tell(f"{name}: has {records[name].others.get(words.owner, [])} of the member that stood still")
        return len(wrong)

    def _records(self) -> Mapping[str, ConsumedMessages]:
        """Messages in log order, as each member has them."""
        *above, site = self._shape.levels
        ends = {site: self._acked()} | {node: self._end_of(node) for node in above}
        return {
            name: read_log(self._nodes.line(name), self._nodes.keys, f"reader of {name}", ends[node])
            for name, node in self._nodes.node_of.items()
        }

    def _end_of(self, node: str) -> Position:
        with self._nodes.connect(node, BACK_S) as client:
            end = client.status().log
        return Position(end.epoch, end.sequence)
