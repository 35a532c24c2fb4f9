"""A day in the simulated tree: a site and the node below it are cut off from everything above, and live on.

Most of a day is waiting. So all that the product says or looks at again and again, though nothing happens, comes
`pace` times as seldom here, and every patience with it lasts `pace` times as long; limits of hours and days are as
they are, and so is the day. Once an hour people at the site look at it and order something; at noon the pair hands
over, in the afternoon the member that serves is killed, and in the evening the node below. Checked

    each hour   what was measured is recorded, shown at the site and raised or ended its alarm there and at the node
                below; orders within the subtree are verified within seconds; above, nothing of it looks live
    retention   records that the parent lacks are held as the site's limits of age and size say, with a case long
                before; the node below, whose parent is there, lets go of what is old
    at the end  followers and histories of the site have everything; all of the world's own checks (world.py)

Spec: docs/simulation.md, Trees.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Final, Self

from albireo.codec.frame import Frame
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.items.forces import Forces
from albireo.machine.producer.seeking import SeekConfig
from albireo.machine.root.root import Root
from albireo.model.instant import MS, SECOND
from albireo.model.position import BEGINNING
from albireo.model.tree.message import MessageOutcome
from albireo.sim.nodes.clients import HistoryReader, RoamingReader
from albireo.sim.nodes.swarm import bounded
from albireo.sim.tree.node import LoneLedger, LoneMachine, TreeMember
from albireo.sim.tree.orders import Order, outcome_of
from albireo.sim.tree.site import Site, door_of
from albireo.sim.tree.swarm import TreeSwarm
from albireo.sim.tree.world import TreeWorld, is_shown

NORTH: Final = "root/north"
PUMP: Final = "root/north/pump"
HOURS: Final = 24
HOUR_NS: Final = 3_600 * SECOND
KEEP_H: Final = 1.0
ALARM_ABOVE: Final = 500.0
FORCED_AT: Final = 6
FORCED_H: Final = 2
HANDOVER_AT: Final = 12
TAKEOVER_AT: Final = 16
RESTART_AT: Final = 19
EXPIRES_MS: Final = 20_000
SOON_NS: Final = 30 * SECOND
HOLD_BYTES: Final = 8 << 30
HELD_TOLD_FROM: Final = 0.7
HELD_NEAR: Final = 0.06
"""Used share of the hold from which the site has a case, and how near to it nothing is asked of that."""
LIFE_SIGN_NS: Final = 5 * SECOND
"""Time after which an adapter says something though nothing changes."""
PACED: Final = (
    "machine.feed.beat:ALIVE_NS",
    "machine.feed.follower:SILENCE_NS",
    "machine.feed.leader:GONE_NS",
    "machine.feed.state:GONE_NS",
    "machine.diagnostics.actors:SILENT_NS",
    "machine.diagnostics.adapters:LATE_NS",
    "machine.diagnostics.adapters:LOOK_NS",
    "machine.diagnostics.adapters:SILENT_NS",
    "machine.root.root:TICK_NS",
    "machine.tree.beyond:UNHEARD_NS",
    "machine.tree.child:UNHEARD_NS",
    "machine.tree.followed_states:UNHEARD_NS",
    "machine.carry.node_tree:UNHEARD_NS",
    "node.core.housekeeping:EVERY_NS",
    "node.core.uplinks:HELLO_NS",
    "node.core.uplinks:SILENCE_MS",
    "node.member.voter_admission:PROBE_NS",
    "sim.nodes.network:CONNECT_NS",
    "sim.nodes.network:RETRY_NS_MAX",
    "sim.tree.device:ROLE_EVERY_NS",
    "sim.tree.world:HEAL_NS",
    "sim.tree.world:LOOK_MS",
    "sim.tree.world:NOTICE_NS",
)
"""Waits of the product, and of the world, that only say how often something is said or looked at, and by when."""
SEEKERS: Final = ("machine.tree.followed_states", "sim.nodes.clients")
"""Modules whose clients ask members for their role again and again."""


@contextmanager
def slowed(pace: int) -> Iterator[None]:
    """Let everything that is said at a fixed pace be said so many times as seldom inside."""
    patience = SeekConfig()
    waits = {name: pace * getattr(patience, name) for name in patience.__struct_fields__}
    bounds: dict[str, object] = {f"{module}:SeekConfig": partial(SeekConfig, **waits) for module in SEEKERS}
    for name in PACED:
        module, _, constant = name.partition(":")
        bounds[name] = pace * getattr(import_module(f"albireo.{module}"), constant)
    with bounded(bounds):
        yield


class TreeDay:
    """One day."""

    def __init__(self, seed: int, *, pace: int, is_pair: bool, hold_days: float, hold_bytes: int = HOLD_BYTES) -> None:
        """
        Args:
            is_pair: the site that is cut off is a pair.
            hold_days: age up to which it holds records for its parent.
            hold_bytes: size up to which it does.
        """
        self.pace = pace
        self.hold_days = hold_days
        self.hold_bytes = hold_bytes
        self._swarm = TreeSwarm(
            pace=pace,
            pairs=(NORTH,) if is_pair else (),
            keep_h={NORTH: KEEP_H, PUMP: KEEP_H, "root": 2.0 * HOURS},
            hold_days=hold_days,
            hold_bytes={NORTH: hold_bytes},
            snapshot_every_s=1_800,
            reaches_on_standby=False,
            voters=1,
            batch_every_ms=3_000.0 * pace,
            segment_bytes=16_384,
            bytes_per_s=300_000,
        )
        self._seed = seed
        self.world: TreeWorld
        self.histories: list[HistoryReader] = []
        self.given: dict[str, list[Frame]] = {}
        """Frames that the history of each lone node was given, by node."""
        self.ends_at: list[tuple[int, int]] = []
        """Ends of the logs of the site and the node below it, hour by hour."""
        self.recorded_at: list[int] = []
        """Bytes that the site has recorded, hour by hour."""

    def play(self) -> Self:
        with slowed(self.pace):
            self.world = world = TreeWorld(self._seed, self._swarm)
            self.site, self.below, self.above = (world.sites[node] for node in (NORTH, PUMP, "root"))
            with world.living():
                world.begin()
                origins = self._root(self.above).folds.origins
                self._soon(lambda: origins.of_node(PUMP) is not None, f"{PUMP} is not known above by name")
                self._begin_followers()
                for name in self.site.names:
                    world.stage.network.cut_both(name, "root", 2 * HOURS * HOUR_NS / MS)
                self._began_at = world.agenda.at
                self._began_ms = [self._log_time_ms(site) for site in (self.site, self.below)]
                for hour in range(1, HOURS + 1):
                    self._live_until(hour)
                    self._look(hour)
                    self._act(hour)
                self._check_day()
                world.stage.end_faults()
                world.settle()
                self._check_reunion()
        return self

    def _begin_followers(self) -> None:
        """Begin what follows: histories, and a client of the site that goes on at either member."""
        stage, ledger = self.world.stage, LoneLedger(self.world.copies)
        for site in (self.site, self.below, self.above):
            for machine in site.machines:
                if isinstance(machine, TreeMember):
                    self.histories.append(machine.history)
                else:
                    core = f"{machine.data}/core"
                    self.histories.append(HistoryReader(stage, machine.host, core, ledger, BEGINNING, b""))
                    self.histories[-1].reading.takes = self.given.setdefault(site.node, []).append
        doors = [door_of(host.name) for host in self.site.hosts]
        self.reader = RoamingReader(stage, self.site.program.host, doors, ledger)

    def _root(self, site: Site) -> Root:
        return self._serving(site).core.root

    def _serving(self, site: Site) -> TreeMember | LoneMachine:
        serving = site.serving
        assert serving is not None, f"nobody serves {site.node}"
        return serving

    def _log_time_ms(self, site: Site) -> int:
        return self._root(site).folds.log_time_ms

    def _soon(self, is_so: Callable[[], bool], what: str) -> None:
        self.world.within(SOON_NS * self.pace, is_so, lambda: f"{what}: {self.world.ends()}")

    def _live_until(self, hour: int) -> None:
        """Let the subtree live for an hour, with its devices, until all that was offered is recorded."""
        world, until = self.world, self._began_at + hour * HOUR_NS
        while world.agenda.at < until:
            world.agenda.play_until(min(until, world.agenda.at + self.pace * LIFE_SIGN_NS))
            for site in (self.site, self.below):
                for machine in site.machines:
                    if machine.adapter.is_acting:
                        machine.adapter.measure(float(hour))
        for site in (self.site, self.below):
            site.program.is_quiet = True
        self._soon(lambda: self.site.program.is_drained and self.below.program.is_drained, f"hour {hour}: not recorded")

    def _look(self, hour: int) -> None:
        """Look at the subtree as its people do, and from above."""
        self._soon(self._is_shown, f"hour {hour}: {PUMP} is not shown at {NORTH} as it is")
        for site in (self.site, self.below):
            self._soon(partial(self._has_right_alarm, site), f"hour {hour}: the level is {site.program.level}")
        above = self._root(self.above).tree.mirrors
        if above[NORTH].stale_since_ns is None or above[PUMP].stale_since_ns is None:
            self.world.stage.fail(f"hour {hour}: what is cut off looks live above")
        if self._is_forced() != (FORCED_AT < hour <= FORCED_AT + FORCED_H):
            self.world.stage.fail(f"hour {hour}: forced {self._is_forced()}")
        self.ends_at.append((self._serving(self.site).log.committed.sequence, self.below_end()))
        self.recorded_at.append(self.world.copies.recorded_bytes(self.site.log_id))
        self._look_at_hold(hour)
        for history in self.histories:
            history.keep()
        if hour == 1:  # Later the records are gone that declare whose copies these are.
            self.world.copies.judge(NORTH, self._serving(self.site).log.frames())

    def _look_at_hold(self, hour: int) -> None:
        """Look whether the site tells of what it holds in time, and lets go of nothing before it has to."""
        fail, begins = self.world.stage.fail, {one.log.begin_sequence for one in self.site.machines}
        share = max(hour / (24 * self.hold_days), self.recorded_at[-1] / self.hold_bytes)
        if (share > HELD_TOLD_FROM) != self._is_hold_told() and abs(share - HELD_TOLD_FROM) > HELD_NEAR:
            fail(f"hour {hour}: {share:.0%} of the hold are used, told {self._is_hold_told()}")
        copy = self._root(self.above).folds.origins.of_node(NORTH)
        assert copy is not None
        lacked = self.world.copies.first_behind(self.site.log_id, copy.last.sequence)
        if share < 1 and max(begins) > lacked:  # It is a while behind the hour by now.
            fail(f"hour {hour}: {share:.0%} of the hold are used, {NORTH} begins at {begins}; {lacked} is lacked above")

    def _held_hours(self) -> int:
        """Number of the last hours of the day of which the site holds everything."""
        since = [self.recorded_at[-1] - recorded for recorded in (0, *self.recorded_at)]
        return min(round(24 * self.hold_days), sum(size <= self.hold_bytes for size in since) - 1)

    def below_end(self) -> int:
        return self._serving(self.below).log.committed.sequence

    def _is_shown(self) -> bool:
        """The site shows values, alarms and forces of the node below as they are there."""
        owner, mirror = self._root(self.below), self._root(self.site).tree.mirrors[PUMP]
        return is_shown(owner, mirror) and set(mirror.table(CASES)) == set(owner.folds.cases)

    def _is_forced(self) -> bool:
        return any(True for _ in self._root(self.below).folds.of(Forces))

    def _has_right_alarm(self, site: Site) -> bool:
        """The case of the level is active if it is too high; before the first level there is none."""
        folds, program = self._root(site).folds, site.program
        item = folds.dim.by_name(f"{site.node}:{program.name}/level")
        active = [one for one in folds.cases if item is not None and one.item_id == item.item_id and one.is_active]
        return bool(active) == (program.level is not None and program.level > ALARM_ABOVE)

    def _act(self, hour: int) -> None:
        """Order something everywhere, and let the day have its events."""
        serving, site, below = self._serving(self.site), self.site, self.below
        orders = [self._order(giver, owner) for giver, owner in ((site, below), (below, below), (site, site))]
        self._order(self.above, below)  # It expires: the judge of orders says so if it does not.
        self._soon(lambda: all(self._is_verified(one) for one in orders), f"hour {hour}: not carried out: {orders}")
        if hour == FORCED_AT:
            self.world.force(serving, below, round(FORCED_H * HOUR_NS // MS + HOUR_NS // 2 // MS))
        if isinstance(serving, TreeMember) and hour == HANDOVER_AT:
            serving.operator.order("switchover", lambda _: None)
        elif isinstance(serving, TreeMember) and hour == TAKEOVER_AT:
            serving.dies("killed while it serves", is_power=False)
        elif hour == RESTART_AT:
            below.machines[0].dies("killed", is_power=False)
        for one in (site, below):
            one.program.is_quiet = False

    def _order(self, giver: Site, owner: Site) -> Order:
        return self.world.give(self._serving(giver), giver, owner, EXPIRES_MS)

    def _is_verified(self, order: Order) -> bool:
        return outcome_of(self._root(self.world.sites[order.giver]), order.command_id) == MessageOutcome.VERIFIED

    # What the day leaves.

    def _check_day(self) -> None:
        """Check that log time passed, and that each node let go of what it may and of nothing else."""
        fail, (site_ends, below_ends) = self.world.stage.fail, zip(*self.ends_at, strict=True)
        for site, began_ms in zip((self.site, self.below), self._began_ms, strict=True):
            if self._log_time_ms(site) - began_ms < HOURS * HOUR_NS // MS:
                fail(f"{site.node}: {self._log_time_ms(site) - began_ms} ms of log time in a day")
        if self._serving(self.below).log.begin_sequence <= below_ends[HOURS - 6]:
            fail(f"{PUMP} keeps records from {self._serving(self.below).log.begin_sequence}, which its parent has")
        held_h = self._held_hours()
        begins = {one.log.begin_sequence for one in self.site.machines}
        if held_h < HOURS and not all(
            site_ends[HOURS - held_h - 4] < one <= site_ends[HOURS - held_h] for one in begins
        ):
            fail(f"{NORTH} begins at {begins}, of {site_ends}")

    def _is_hold_told(self) -> bool:
        """Whether the site has a case about what it holds."""
        folds = self._root(self.site).folds
        item = folds.dim.by_name(f"{NORTH}:core/uplink_hold")
        return any(one.is_active for one in folds.cases if item is not None and one.item_id == item.item_id)

    def _check_reunion(self) -> None:
        """Check that who followed has everything, and that above only that is missing which was let go."""
        fail = self.world.stage.fail
        machines = self._serving(self.site), *self.site.machines, *self.below.machines, *self.above.machines
        readings = self.reader.reading, *(one.reading for one in self.histories)
        upto = [one.log.committed for one in machines]
        self._soon(lambda: all(one.position >= end for one, end in zip(readings, upto, strict=True)), "not followed")
        for one in readings:
            if one.started_over:
                fail(f"{one.name} began anew {one.started_over} times")
        self._soon(lambda: not self._is_hold_told(), "the site still tells that it holds records")
        gaps = self.world.copies.gaps["root"]
        held_h = self._held_hours()
        if held_h >= HOURS and gaps:
            fail(f"gaps above: {gaps}")
        for site, ends in zip((self.site, self.below), zip(*self.ends_at, strict=True), strict=True):
            behind = [behind for _, behind in gaps.get(site.log_id, ())]
            if held_h < HOURS and not (behind and ends[HOURS - held_h - 4] < max(behind) <= ends[HOURS - held_h] + 1):
                fail(f"{site.node}: gaps above go to {behind}, of {ends}")
