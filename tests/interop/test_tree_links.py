"""A site under its parent: what it records is seen above, at once as state and for good in envelopes."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.client import connect
from albireo.machine.kernel.named import HISTORY, above
from albireo.model import quality as q
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.housekeeping import Retention
from albireo.node.history.actor import Historian
from tests.parts.core_pair import aside
from tests.parts.lone import Program, asked_until
from tests.parts.port import free_ports
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.tree_links import copied, has_all, own_frames, read
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"
ROWS = [(0, 1_000 * n, float(n), q.GOOD) for n in range(1, 301)]


def item_of(number: int) -> DataItem:
    return DataItem(name=f"co_{number}", value_type=ValueType.FLOAT64)


def sequence_of(row: Any) -> int:
    return int(row["position"].partition(":")[2] or 0)


def test_a_site_is_seen_above_at_once_and_copied_for_good(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of(root: TreeNode, north: TreeNode) -> tuple[Any, Any, Any]:
        north.produce(ROWS)
        with root.program() as program:
            reading = read(program, NORTH, 300.0)
            seen = has_all(program, north)
            items = program.result("items", node=NORTH)
        return reading, seen, items

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up() as north:
            reading, seen, items = await aside(partial(story_of, nodes[ROOT], nodes[NORTH]))
            assert (reading["name"], reading["quality"]) == ("root/north:co", q.GOOD)
            assert seen["stale_since_ns"] is None
            assert seen["complete_to_ns"] > 0
            assert "root/north:co" in {f"{one['node']}:{one['item']['name']}" for one in items}
            assert len(root.root.folds.dim) == len([one for one in root.root.folds.dim if one.node == ROOT])
            own = north.log.read_appended(0, 1 << 24)
            there = copied(root.log, north.log.log_id)
            assert len(there) > 10_000
            assert own[: len(there)] == there, "the copy is not a prefix of the site's log, byte for byte"

    asyncio.run(story())


def test_a_site_that_starts_before_its_parent_is_seen_over_ipv6_literals(tmp_path: Path) -> None:
    ports = dict(zip((ROOT, NORTH), free_ports(2), strict=True))
    root, north = (TreeNode(tmp_path, (ROOT, NORTH), one, ports, host="[::1]") for one in (ROOT, NORTH))

    def story_of() -> Any:
        with root.program() as program:
            return read(program, NORTH, 300.0)

    async def story() -> None:
        async with north.core_up():
            await aside(partial(north.produce, ROWS))
            async with root.core_up():
                assert (await aside(story_of))["quality"] == q.GOOD

    asyncio.run(story())


def test_a_site_two_levels_down_is_seen_and_copied_under_its_own_name(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story_of() -> Any:
        nodes[PUMP].produce(ROWS)
        nodes[NORTH].produce([(0, 7, 0.5, q.GOOD)])
        with nodes[ROOT].program() as program:
            assert read(program, PUMP, 300.0)["name"] == "root/north/pump:co"
            assert read(program, NORTH, 0.5)["name"] == "root/north:co"
            return asked_until(program, lambda rows: sequence_of(only(rows, PUMP)) > 300, "tree")

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up() as north, nodes[PUMP].core_up() as pump:
            rows = await aside(story_of)
            assert [one["node"] for one in rows] == [NORTH, PUMP]
            for one in (north, pump):
                there, own = copied(root.log, one.log.log_id), own_frames(one.log)
                assert len(there) > 3_000
                assert own[: len(there)] == there, f"the copy of {one.root.config.node} is no prefix of its own frames"

    asyncio.run(story())


def test_whoever_restarts_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    def recorded(at: int) -> None:
        north.produce([(0, at + row[1], row[2], q.GOOD) for row in ROWS], producer=f"boiler{at}", items=[item_of(at)])

    def caught_up() -> Any:
        with root.program() as program:
            return has_all(program, north)

    async def story() -> None:
        async with north.core_up() as site:
            for at in range(3):
                async with root.core_up() as above:
                    await aside(partial(recorded, at))
                    seen = await aside(caught_up)
                await aside(partial(recorded, 10 + at))
                assert seen["refused"] == 0
            async with root.core_up() as above:
                await aside(caught_up)
                there, own = copied(above.log, site.log.log_id), own_frames(site.log)
                assert own[: len(there)] == there
                assert len(there) > 6 * 300 * 28
        async with north.core_up() as site, root.core_up() as above:
            await aside(partial(recorded, 20))
            await aside(caught_up)
            there, own = copied(above.log, site.log.log_id), own_frames(site.log)
            assert own[: len(there)] == there

    asyncio.run(story())


def test_items_of_a_site_that_is_gone_stay_and_do_not_look_live(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    def recorded() -> None:
        north.produce(ROWS)
        with root.program() as program:
            read(program, NORTH, 300.0)
            has_all(program, north)

    def stale(quality: int, value: float | None) -> Any:
        with root.program() as program:
            wanted: dict[str, Any] = {"node": NORTH, "names": ("co",)}
            asked_until(program, lambda found: [one["quality"] for one in found] == [quality], "read", **wanted)
            assert program.result("read", **wanted)[0]["value"] == value
            return only(program.result("tree"), NORTH)

    async def story() -> None:
        async with root.core_up():
            async with north.core_up():
                await aside(recorded)
            seen = await aside(partial(stale, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, 300.0))
            assert seen["stale_since_ns"] > 0
        async with root.core_up():
            again = await aside(partial(stale, q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE, 300.0))
            assert again["stale_since_ns"] == seen["stale_since_ns"]
            async with north.core_up():
                await aside(partial(stale, q.GOOD, 300.0))

    asyncio.run(story())


def test_a_client_reads_and_watches_nodes_below_by_their_names(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)

    def story_of() -> None:
        for number, node in enumerate(nodes.values()):
            node.produce([(0, 5, float(number), q.GOOD)])
        with nodes[ROOT].program() as program:
            read(program, NORTH, 1.0)
            read(program, PUMP, 2.0)
        with connect(nodes[ROOT].endpoint) as client:
            names = ["root/north/pump:co", "root:co", "north:co"]
            assert [one.value for one in client.read(names)] == [2.0, 0.0, 1.0]
            assert {one.name for one in client.items("*:co")} == {"root:co", "root/north:co", "root/north/pump:co"}
            assert "root/north/pump:core/turn_ms" in {one.name for one in client.items("pump:*")}
            changes = client.watch(["north:co", "pump:co"], timeout_s=PATIENCE_S)
            first = next(changes)
            assert first.is_whole
            assert {one.name: one.value for one in first.readings} == {"root/north:co": 1.0, "root/north/pump:co": 2.0}
            nodes[PUMP].produce([(0, 6, 2.5, q.GOOD)], producer="boiler")
            seen = next(change for change in changes if change.readings)
            assert [(one.name, one.value) for one in seen.readings] == [("root/north/pump:co", 2.5)]

    async def story() -> None:
        async with nodes[ROOT].core_up(), nodes[NORTH].core_up(), nodes[PUMP].core_up():
            await aside(story_of)

    asyncio.run(story())


def test_a_bad_reading_has_its_last_value_or_none_at_every_level_and_after_a_restart(tmp_path: Path) -> None:
    """The lowest node has a value and then a bad quality of one item, and of another one a bad quality only."""
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)
    bad, items = q.BAD_SENSOR_FAILURE, (item_of(1), item_of(2))

    def readings(program: Program) -> Any:
        found = asked_until(
            program,
            lambda rows: [one["quality"] for one in rows] == [bad, bad],
            "read",
            node=PUMP,
            names=("co_1", "co_2"),
        )
        return [one["value"] for one in found]

    def seen(*names: str) -> None:
        for node in names:
            with nodes[node].program() as program:
                assert readings(program) == [4.5, None], node
        with connect(nodes[names[0]].endpoint) as client:
            first = next(client.watch("pump:co_*", timeout_s=PATIENCE_S))
            assert {one.name: (one.value, one.quality) for one in first.readings} == {
                "root/north/pump:co_1": (4.5, bad),
                "root/north/pump:co_2": (None, bad),
            }

    async def story() -> None:
        async with nodes[ROOT].core_up():
            async with nodes[NORTH].core_up(), nodes[PUMP].core_up():
                await aside(partial(nodes[PUMP].produce, [(0, 5, 4.5, q.GOOD)], items=items))
                await aside(partial(nodes[PUMP].produce, [(0, 6, 0.0, bad), (1, 6, 0.0, bad)], items=items))
                await aside(partial(seen, ROOT, NORTH, PUMP))
        async with nodes[ROOT].core_up():
            await aside(partial(seen, ROOT))

    asyncio.run(story())


@pytest.mark.parametrize("limit", [None, {"bytes_max": 1 << 20}, {"days": 0.0}], ids=["within", "size", "age"])
def test_records_stay_for_the_parent_up_to_the_limits(tmp_path: Path, limit: dict[str, Any] | None) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    retention = Retention(keep_h=0.0, snapshot_every_s=1, named=(HISTORY, above(ROOT, **(limit or {}))))
    north.arguments = msgspec.structs.replace(north.arguments, retention=retention)

    def recorded() -> None:
        for at in range(10):
            rows = [(0, 100_000 * at + n, float(n), q.GOOD) for n in range(10_000)]
            north.produce(rows, producer=f"boiler{at}", items=[item_of(at)])

    async def acknowledged(site: Core, historian: Historian, *followers: str) -> None:
        """Have the followers acknowledge all that is there now."""
        end = site.log.committed.sequence
        while historian._store.manifest.position.sequence < end:
            await asyncio.to_thread(lambda: only_status(north))
            if not historian._pace.is_sealing:
                historian._seal()
            await historian._until_idle()
        while any(site.root.feeds.leader.wanted_from(one) < end for one in followers):
            await asyncio.to_thread(lambda: only_status(north))

    async def let_go(site: Core) -> None:
        """Have segments go; a snapshot has to be on the disk before, which a thread sees to."""
        while site.log.begin_sequence == 1:
            await site._house._save_snapshot()
            site._house._prune(site.log.stats().size_bytes)
            await asyncio.to_thread(lambda: only_status(north))

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site, north.history_up() as historian:
            await aside(recorded)
            await acknowledged(site, historian, "history")
            if limit is not None:
                await let_go(site)
                return
            for _ in range(10):
                await site._house._save_snapshot()
                site._house._prune(site.log.stats().size_bytes)
                await asyncio.to_thread(lambda: only_status(north))
            assert site.log.begin_sequence == 1, "the parent has nothing yet, and records went"
            async with root.core_up():
                await aside(partial(caught_up, root))
                await acknowledged(site, historian, "history", ROOT)
                await let_go(site)

    def caught_up(above: TreeNode) -> None:
        with above.program() as program:
            has_all(program, north)

    def only_status(node: TreeNode) -> None:
        with node.program() as program:
            program.result("status")

    asyncio.run(story())


def test_each_of_two_neighbours_sees_that_the_other_one_runs_another_topology(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    for node, hashed in zip(nodes.values(), "ab", strict=True):
        node.arguments = msgspec.structs.replace(node.arguments, topology_hash=hashed * 64)

    def story_of(node: TreeNode) -> None:
        with node.program() as program:
            names = ("core/topology_differs",)
            asked_until(program, lambda found: [one["value"] for one in found] == [1.0], "read", names=names)

    async def story() -> None:
        async with nodes[ROOT].core_up(), nodes[NORTH].core_up():
            for node in nodes.values():
                await aside(partial(story_of, node))

    asyncio.run(story())
