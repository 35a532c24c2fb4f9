"""The tree: values up, orders down, a backlog, many items, and what each site costs.

All nodes are real, with keys, in processes of their own (those at the bottom in one process each), and share the
machine's cores with the programs that load and watch them. At the bottom a program stands for the PLC and stamps each
value at the moment of its change: no poll of a device is in the figures. Orders go to a simulated Modbus device.
Beside a wall time stands a CPU time, for other work on the machine is in the one and not in the other.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import psutil

from albireo.client import Client, connect
from albireo.drill.ports import KeptPorts
from albireo.drill.serving import ServingThread
from albireo.model.command import Outcome
from albireo.plant.unruly.device import UnrulyDevice
from albireo.plant.unruly.manners import honest
from bench import Case, Progress, Result, case, result
from bench._bare_hops import HOPS, ages_ms
from bench._followers import many_followers
from bench._node import longest_turn_ms
from bench._tree import NodeTree, TreeNode, batch, fill, items_named, load

MIDDLES: Final = ("root/a", "root/b")
CHANGE_S: Final = 0.02
"""Time between two polls of a site, as it were; every one of them brings some changes."""
POLLED: Final = 400
"""Items of a site whose backlog is copied, and samples of each of its batches."""
WEEK_SAMPLES: Final = POLLED * 7 * 86_400
SETTLE_S: Final = 2.0
TURN_WINDOW_S: Final = 21.0
"""The meter of turns looks back up to 20 s."""
LIVE_S: Final = 0.1
PACE_MIB: Final = 8
"""Pace of a site's old records; some 330,000 samples a second."""
LIVE_ROWS: Final = 10
SITE_ROWS: Final = 100
"""Changes of each site per second where the cost of a site is measured: ten at a time."""
LIMIT_S: Final = 180.0


class TreeSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one pass."""

    sites: int = 8
    changes_per_s: int = 2_000
    change_s: float = 12.0
    orders: int = 40
    backlog: int = 24_000_000
    paced_backlog: int = 8_000_000
    items: int = 100_000
    followers: int = 1_000
    added: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    added_s: float = 6.0


FULL: Final = TreeSizes()
SHORT: Final = TreeSizes(
    sites=2,
    changes_per_s=200,
    change_s=1.0,
    orders=2,
    backlog=40_000,
    paced_backlog=800_000,
    items=1_000,
    followers=40,
    added=(1, 2),
    added_s=1.0,
)
"""Sizes with which a test looks whether it runs at all."""


def run(progress: Progress, sizes: TreeSizes = FULL) -> Result:
    parts = (changes_and_orders, lone_backlog, backlog, paced_backlog, many_items, followed, added_sites)
    cases: list[Case] = []
    for part in parts:
        with tempfile.TemporaryDirectory() as scratch:
            cases += part(Path(scratch), sizes, progress)
    return result("tree", cases)


class Watch:
    """Ages of the values that a client of the root is shown, taken by a thread of its own."""

    def __init__(self, client: Client, names: Sequence[str]) -> None:
        self._client = client
        self._names = list(names)
        self._ages: list[float] = []
        self._is_counting = self._is_ending = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        for changes in self._client.watch(self._names, timeout_s=0.2):
            now = time.time_ns()
            if self._is_counting and not changes.is_whole:
                self._ages += [(now - one.source_ns) / 1e6 for one in changes.readings]
            if self._is_ending:
                return

    def ages_ms(self, until: Callable[[], bool]) -> list[float]:
        """Ages of the values that come until it is so."""
        self._ages, self._is_counting = [], True
        while not until():
            time.sleep(0.05)
        self._is_counting = False
        return list(self._ages)

    def end(self) -> None:
        self._is_ending = True
        self._thread.join()


class OneDevice(ServingThread):
    """An honest Modbus device."""

    def __init__(self) -> None:
        super().__init__("device")
        self.device = UnrulyDevice({1: honest}, keeps_requests=False)

    async def open(self) -> None:
        await self.device.start()

    async def shut(self) -> None:
        await self.device.stop()


def changes_and_orders(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """Sites below two nodes below the root: changes go up, orders go down."""
    sites = [f"{MIDDLES[number % 2]}/s{number}" for number in range(sizes.sites)]
    (directory / "device.csv").write_text("name,kind,address,device_id,writable\nlevel,holding,45,1,true\n")
    device = OneDevice()
    device.begin()
    adapter = f"""[[node.adapter]]
name = "device"
kind = "modbus"
url = "tcp://127.0.0.1:{device.device.port}"
items = "device.csv"
poll_ms = 250
timeout_ms = 300
"""
    nodes = [TreeNode(node="root"), *(TreeNode(node=one) for one in MIDDLES)]
    nodes += [TreeNode(node=one, is_threads=True, more="" if number else adapter) for number, one in enumerate(sites)]
    try:
        with NodeTree(directory, nodes) as tree:
            progress(f"a tree of {len(nodes)} nodes")
            tree.start(*(one.node for one in nodes))
            tree.wait_until_heard("root", *sites)
            return [*changes(tree, sites, sizes, directory, progress), *orders(tree, sites[0], sizes, progress)]
    finally:
        device.end()


def changes(tree: NodeTree, sites: Sequence[str], sizes: TreeSizes, directory: Path, progress: Progress) -> list[Case]:
    per_site = sizes.changes_per_s // len(sites)
    rows = max(1, round(per_site * CHANGE_S))
    period_s = rows / per_site
    with KeptPorts(HOPS + 1) as ports:
        count = round(sizes.change_s * len(sites) / period_s)
        floor = ages_ms(directory, ports.numbers, count, len(sites) / period_s)
    progress(f"{sizes.changes_per_s} changes/s of {len(sites)} sites for {sizes.change_s:g} s")
    with tree.client("root") as client, load(tree, sites, 10 * rows, rows, period_s):
        watch = Watch(client, [f"{site}:change_*" for site in sites])
        time.sleep(SETTLE_S)
        groups = {"root": ["root"], "a node in the middle": [*MIDDLES], "a site": list(sites)}
        before = {name: tree.cpu_s(*some) for name, some in groups.items()}
        used, began = time.process_time(), time.monotonic()
        ages = watch.ages_ms(lambda: time.monotonic() - began > sizes.change_s)
        seconds = time.monotonic() - began
        shares = {name: 100 * (tree.cpu_s(*some) - before[name]) / seconds / len(some) for name, some in groups.items()}
        client_share = 100 * (time.process_time() - used) / seconds
        watch.end()
    what = f"change at a site to a client of the root, two levels up, {sizes.changes_per_s} changes/s"
    floored = "the same against three bare hops with a sync each"
    return [
        case(f"{what}, p50", "ms", quantile(ages, 0.5), goal="<= 50"),
        case(f"{what}, p99", "ms", quantile(ages, 0.99), goal="<= 150"),
        case(f"{floored}, p50", "ms", quantile(ages, 0.5), quantile(floor, 0.5)),
        case(f"{floored}, p99", "ms", quantile(ages, 0.99), quantile(floor, 0.99)),
        case("changes seen by the client", "1/s", len(ages) / seconds),
        *(case(f"CPU of {name} meanwhile", "% of a core", share) for name, share in shares.items()),
        case("CPU of the client meanwhile", "% of a core", client_share),
    ]


def orders(tree: NodeTree, site: str, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """One order after the other, at the root and, for comparison, at the site itself."""
    progress(f"{sizes.orders} orders")
    times = {}
    for node, item in (("root", f"{site}:level"), (site, "level")):
        with tree.client(node) as client:
            tree.wait_until("value of the device", partial(_is_good, client, item))
            times[node] = [_order_ms(client, item, number) for number in range(sizes.orders)]
    there, here = quantile(times["root"], 0.5), quantile(times[site], 0.5)
    return [
        case("order at the root, verified by a device two levels down, p50", "ms", there, goal="<= 100"),
        case("order at the root, verified by a device two levels down, p99", "ms", quantile(times["root"], 0.99)),
        case("the same against an order at the site itself, p50", "ms", there, here),
    ]


def _is_good(client: Client, item: str) -> bool:
    found = client.items(item)
    return bool(found) and found[0].reading is not None and found[0].reading.quality == 0


def _order_ms(client: Client, item: str, value: int) -> float:
    began = time.perf_counter()
    receipt = client.write(item, value)
    took = 1e3 * (time.perf_counter() - began)
    if receipt.outcome is not Outcome.VERIFIED:
        raise RuntimeError(f"an order ended as {receipt.outcome}: {receipt.detail}")
    return took


def lone_backlog(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """A site that was alone for long comes back to a lone root, while values of it go on changing."""
    return came_back(directory, TreeNode(node="root"), 0, sizes.backlog, sizes, progress)


def backlog(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """The same to a pair: what is acknowledged lies at both members."""
    return came_back(directory, TreeNode(node="root", is_pair=True), 0, sizes.backlog, sizes, progress)


def paced_backlog(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """The same with a pace for old records, by which live values are to keep their latency."""
    return came_back(directory, TreeNode(node="root", is_pair=True), PACE_MIB, sizes.paced_backlog, sizes, progress)


def came_back(
    directory: Path, root: TreeNode, pace_mib: int, samples: int, sizes: TreeSizes, progress: Progress
) -> list[Case]:
    site = "root/north"
    uplink = f"[node.uplink]\nrate_mib_per_s = {pace_mib}"
    live = partial(load, items=10 * LIVE_ROWS, rows=LIVE_ROWS, period_s=LIVE_S)
    with NodeTree(directory, [root, TreeNode(node=site, more=uplink)]) as tree:
        tree.start(site)
        progress(f"a backlog of {samples:,} samples")
        with tree.client(site) as client, client.producer("backlog", items_named("old", POLLED)) as producer:
            fill(producer, POLLED, samples)
        with live(tree, [site]):
            pass  # So that the root learns of these items first.
        with tree.client(site) as client:
            wanted = client.status().log.sequence
        tree.stop(site)
        tree.start("root")
        tree.start(site)
        with live(tree, [site]), tree.client("root") as client:
            tree.wait_until_heard("root", site)
            found = caught_up(tree, client, site, wanted, sizes, progress)
        if not tree.is_whole("root"):
            raise RuntimeError("a member left the pair meanwhile")
    at = f"{'a root pair' if root.is_pair else 'a lone root'}, {pace_mib or 'any'} MiB/s"
    return [msgspec.structs.replace(one, case=f"{one.case}, {at}") for one in found]


def caught_up(
    tree: NodeTree, client: Client, site: str, wanted: int, sizes: TreeSizes, progress: Progress
) -> list[Case]:
    groups = [tree.cores_of("root"), tree.cores_of(site)]
    looks = [(time.monotonic(), 0)]
    watch = Watch(client, [f"{site}:change_*"])
    before = [_cpu_s(cores) for cores in groups]

    def is_level() -> bool:
        if looks[-1][1] < wanted:
            row = next(one for one in client.tree() if one.node == site)
            looks.append((time.monotonic(), _sequence(row.position)))
        if looks[-1][0] - looks[0][0] > LIMIT_S:
            raise RuntimeError(f"the root has {looks[-1][1]} of {wanted} records after {LIMIT_S:g} s")
        return looks[-1][1] >= wanted and time.monotonic() - looks[0][0] > SETTLE_S

    during = watch.ages_ms(is_level)
    (began, first), (ended, last) = looks[1], looks[-1]
    copied = last - first
    rate = copied / (ended - began) if copied else float("nan")  # Nothing was left to copy at the first look.
    costs = [
        1e6 * (_cpu_s(cores) - old) / len(cores) / max(1, copied) for cores, old in zip(groups, before, strict=True)
    ]
    level = time.monotonic()
    after = watch.ages_ms(lambda: time.monotonic() - level > max(SETTLE_S, sizes.added_s))
    watch.end()
    progress(f"{copied:,} records at {rate:,.0f} a second")
    return [
        case("backlog of a site, durable", "samples/s", rate, goal=">= 300,000"),
        case(f"a week of {POLLED} points at 1 Hz at this rate (extrapolated)", "min", WEEK_SAMPLES / rate / 60),
        case("CPU of CORE of each place of the root per sample", "us", costs[0]),
        case("CPU of CORE at the site per sample", "us", costs[1]),
        case("age of a live value meanwhile, p50", "ms", quantile(during, 0.5), quantile(after, 0.5)),
        case("age of a live value meanwhile, p99", "ms", quantile(during, 0.99), quantile(after, 0.99)),
    ]


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(sum(one.cpu_times()[:2]) for one in processes))


def many_items(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """A site with very many items: what a new follower waits for, and what a copy above costs."""
    site = "root/wide"
    with NodeTree(directory, [TreeNode(node="root"), TreeNode(node=site)]) as tree:
        tree.start("root", site)
        tree.wait_until_heard("root", site)
        empty = tree.core_of("root").memory_info().rss
        progress(f"{sizes.items:,} items")
        with tree.client(site) as client, client.producer("wide", items_named("item", sizes.items)) as producer:
            producer.offer([batch(rows) for rows in np.array_split(np.arange(sizes.items), 20)])
            producer.flush(LIMIT_S)
        tree.wait_until("all items at the root", lambda: tree.rows("root")[site].items >= sizes.items, LIMIT_S)
        full = tree.core_of("root").memory_info().rss
        if sizes.items > 10_000:
            time.sleep(TURN_WINDOW_S)  # The turns in which so many items were declared are others' figures.
        times = {
            "the site": _first_state(tree, site, ""),
            "the root, of the site": _first_state(tree, "root", site),
        }
        tree.stop("root")
        tree.start("root")
        began = time.monotonic()
        tree.wait_until("all items at a root that starts", lambda: _has_all(tree, site, sizes.items), LIMIT_S)
        progress(f"a root that starts shows all after {time.monotonic() - began:.1f} s")
        time.sleep(SETTLE_S)  # Boot looks at the meters now and then.
        turns = {}
        for node in (site, "root"):
            with tree.client(node) as client:
                turns[node] = _turn_ms(tree, node)
    first = f"first state of {sizes.items:,} items at a new follower of"
    per_item = "memory of the root's CORE for each item of a node below"
    return [
        *(case(f"{first} {at}", "s", took, goal="<= 2") for at, (took, _) in times.items()),
        *(case(f"CPU of CORE and client for the {first} {at}", "s", cpu) for at, (_, cpu) in times.items()),
        case(per_item, "B", (full - empty) / sizes.items, goal="<= 1024"),
        case("longest turn of the site's CORE meanwhile, by CPU", "ms", turns[site][0], goal="<= 20"),
        case("longest turn of the site's CORE meanwhile, by the wall", "ms", turns[site][1]),
        case("longest turn of the root's CORE from its start, by CPU", "ms", turns["root"][0], goal="<= 20"),
        case("longest turn of the root's CORE from its start, by the wall", "ms", turns["root"][1]),
    ]


def _first_state(tree: NodeTree, at: str, node: str) -> tuple[float, float]:
    """Time until a new follower has every item and its value, and CPU time of the CORE and the client meanwhile."""
    core = tree.core_of(at)
    with tree.client(at) as client:
        used, began = time.process_time() + sum(core.cpu_times()[:2]), time.perf_counter()
        for changes in client.watch(f"{node}:*" if node else "*"):
            if changes.is_whole:
                took = time.perf_counter() - began
                return took, time.process_time() + sum(core.cpu_times()[:2]) - used
    raise AssertionError("a watch ends with its client")


def _has_all(tree: NodeTree, site: str, count: int) -> bool:
    row = tree.rows("root").get(site)
    return row is not None and row.items >= count and row.stale_since_ns is None


def _turn_ms(tree: NodeTree, node: str) -> tuple[float, float]:
    with connect(tree.data(node), is_pinned=True) as client:
        return longest_turn_ms(client)


def followed(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """Very many followers of one node."""
    return many_followers(directory, sizes.followers, sizes.change_s, progress)


def added_sites(directory: Path, sizes: TreeSizes, progress: Progress) -> list[Case]:
    """More and more sites directly below the root, each with the same changes."""
    sites = [f"root/s{number}" for number in range(sizes.added[-1])]
    nodes = [TreeNode(node="root"), *(TreeNode(node=one, is_threads=True) for one in sites)]
    found = []
    with NodeTree(directory, nodes) as tree:
        tree.start("root")
        started = 0
        for count in sizes.added:
            tree.start(*sites[started:count])
            tree.wait_until_heard("root", *sites[started:count])
            started = count
            found.append(_cost(tree, sites[:count], sizes))
            progress(f"{count} sites: {found[-1]}")
    cases = []
    for count, cost in zip(sizes.added, found, strict=True):
        head = f"{count} sites with {SITE_ROWS} changes/s each"
        cases += [
            case(f"{head}: records of them at the root", "1/s", cost.records_per_s),
            case(f"{head}: CPU of the root's CORE per record", "us", cost.core_us),
            case(f"{head}: CPU of the root as a whole", "% of a core", cost.share),
            case(f"{head}: CPU of one site as a whole", "% of a core", cost.site_share),
            case(f"{head}: written by the root's CORE per record", "B", cost.written_bytes),
        ]
        if cost.sent_bytes is not None:
            cases.append(case(f"{head}: sent to the root on its links per record", "B", cost.sent_bytes))
    return cases


class SiteCost(msgspec.Struct, frozen=True):
    """Figures of so many sites. Nearly all records are samples: those of the program, and those that a node has of
    itself."""

    records_per_s: float
    core_us: float
    share: float
    site_share: float
    written_bytes: float
    sent_bytes: float | None
    """None: nothing on this machine tells."""


def _cost(tree: NodeTree, sites: Sequence[str], sizes: TreeSizes) -> SiteCost:
    rows = round(SITE_ROWS * LIVE_S)
    with load(tree, sites, 10 * rows, rows, LIVE_S), tree.client("root") as client:
        time.sleep(SETTLE_S)
        core = tree.core_of("root")
        root, below, used = tree.cpu_s("root"), tree.cpu_s(*sites), sum(core.cpu_times()[:2])
        written, sent = core.io_counters().write_chars, tree.received_bytes("root")
        before, began = _records(client), time.monotonic()
        time.sleep(sizes.added_s)
        seconds, records = time.monotonic() - began, _records(client) - before
        received = tree.received_bytes("root")
        return SiteCost(
            records_per_s=records / seconds,
            core_us=1e6 * (sum(core.cpu_times()[:2]) - used) / records,
            share=100 * (tree.cpu_s("root") - root) / seconds,
            site_share=100 * (tree.cpu_s(*sites) - below) / seconds / len(sites),
            written_bytes=(core.io_counters().write_chars - written) / records,
            sent_bytes=None if sent is None or received is None else (received - sent) / records,
        )


def _records(client: Client) -> int:
    """Number of records of all nodes below that a node has."""
    return sum(_sequence(one.position) for one in client.tree())


def _sequence(position: str) -> int:
    return int(position.partition(":")[2] or 0)


def quantile(values: Sequence[float], part: float) -> float:
    return float(np.quantile(values, part)) if len(values) else float("nan")
