"""Bad input and bad days of a tree: for each a defined end, on real links and logs."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from albireo.log.files import OsFileSystem
from albireo.model import quality as q
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from albireo.node.core.actor import Core
from albireo.runtime import running
from albireo.runtime.link.lines import LineTo
from tests.parts.core_pair import aside, until
from tests.parts.history import batch_of
from tests.parts.lone import asked_until
from tests.parts.producing import producing
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.tree_links import copied, has_all, own_frames, read
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT, NORTH, SOUTH = "root", "root/north", "root/south"


def recorded(node: TreeNode, value: float) -> None:
    node.produce([(0, int(value), value, q.GOOD)])


def shown(node: TreeNode, below: str, value: float) -> Any:
    with node.program() as program:
        return read(program, below, value)


def row_until(node: TreeNode, below: str, is_so: Callable[[Any], bool]) -> Any:
    with node.program() as program:
        return only(asked_until(program, lambda rows: is_so(only(rows, below)), "tree"), below)


def copy_is_whole(node: TreeNode, site: TreeNode) -> Any:
    with node.program() as program:
        return has_all(program, site)


def assert_copied(above: Core, site: Core) -> None:
    """All of the site lies above, each frame once, byte for byte."""
    there, own = copied(above.log, site.log.log_id), own_frames(site.log)
    assert there and own[: len(there)] == there


class Full(OsFileSystem):
    """A disk without room, until somebody makes some."""

    is_full = False

    def free_bytes(self, directory: Path) -> int:
        return 0 if self.is_full else super().free_bytes(directory)


def tells_of_two(row: dict[str, Any]) -> bool:
    """What the first of two nodes records takes the words away, until the next hello of the other one."""
    return row["refused"] > 3 and "two nodes" in row["trouble"]


def test_of_two_nodes_with_one_id_the_first_is_heard_and_the_other_one_refused(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    (tmp_path / "more").mkdir()
    second = tree_of(tmp_path / "more", ROOT, NORTH)[NORTH]
    second.arguments = msgspec.structs.replace(second.arguments, uplink=north.arguments.uplink)

    async def story() -> None:
        async with root.core_up() as above:
            async with north.core_up() as site:
                await aside(partial(recorded, north, 1.0))
                await aside(partial(shown, root, NORTH, 1.0))
                async with second.core_up() as other:
                    await aside(partial(recorded, second, 7.0))
                    await aside(partial(row_until, root, NORTH, tells_of_two))
                    await aside(partial(recorded, north, 2.0))
                    await aside(partial(shown, root, NORTH, 2.0))
                    await aside(partial(copy_is_whole, root, north))
                    assert copied(above.log, other.log.log_id) == b""
                    assert_copied(above, site)
            async with second.core_up() as other:  # The first one is gone: whoever stays is the node.
                await aside(partial(shown, root, NORTH, 7.0))
                await aside(partial(copy_is_whole, root, second))
                assert_copied(above, other)

    asyncio.run(story())


def test_of_two_copies_of_one_store_the_one_that_was_there_first_is_heard(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    (tmp_path / "more").mkdir()
    second = tree_of(tmp_path / "more", ROOT, NORTH)[NORTH]
    second.arguments = msgspec.structs.replace(second.arguments, uplink=north.arguments.uplink)

    async def story() -> None:
        async with north.core_up():
            await aside(partial(recorded, north, 1.0))
        shutil.copytree(north.data / "log", second.data / "log")
        async with root.core_up():
            async with north.core_up():
                await aside(partial(shown, root, NORTH, 1.0))
                async with second.core_up():
                    await aside(partial(recorded, second, 7.0))
                    await aside(partial(row_until, root, NORTH, tells_of_two))
                    await aside(partial(recorded, north, 2.0))
                    await aside(partial(shown, root, NORTH, 2.0))
                await aside(partial(copy_is_whole, root, north))

    asyncio.run(story())


def test_a_parent_that_is_restored_from_an_old_backup_asks_again(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    async def story() -> None:
        async with north.core_up() as site:
            for value in (1.0, 2.0):
                async with root.core_up():
                    await aside(partial(recorded, north, value))
                    await aside(partial(copy_is_whole, root, north))
                if value == 1.0:
                    shutil.copytree(root.data, tmp_path / "backup")
            shutil.rmtree(root.data)
            shutil.copytree(tmp_path / "backup", root.data)
            async with root.core_up() as above:
                await aside(partial(recorded, north, 3.0))
                row = await aside(partial(copy_is_whole, root, north))
                assert (row["refused"], row["missing"]) == (0, 0)
                assert_copied(above, site)

    asyncio.run(story())


def test_a_child_that_is_restored_from_an_old_backup_is_a_new_branch(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    async def story() -> None:
        async with root.core_up() as above:
            for value in (1.0, 2.0, 2.5):  # The epoch of the restored store is lower than the last one.
                async with north.core_up():
                    await aside(partial(recorded, north, value))
                    await aside(partial(copy_is_whole, root, north))
                if value == 1.0:
                    shutil.copytree(north.data, tmp_path / "backup")
            shutil.rmtree(north.data)
            shutil.copytree(tmp_path / "backup", north.data)
            async with north.core_up() as site:
                await aside(partial(recorded, north, 3.0))
                await aside(partial(shown, root, NORTH, 3.0))
                await aside(partial(copy_is_whole, root, north))
                assert copied(above.log, site.log.log_id)[-500:] in own_frames(site.log), "the end is of the new branch"
                origin = above.root.folds.origins.of_node(NORTH)
                assert origin is not None
                assert [one.epoch for one in origin.epochs] == [
                    one.epoch for one in site.log.history.entries if one.first_sequence <= origin.last.sequence
                ], "the branch that was left counts no more"

    asyncio.run(story())


def test_a_parent_that_starts_anew_shows_what_it_knew_of_a_site_that_is_away(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]

    async def story() -> None:
        async with root.core_up():
            async with north.core_up():
                await aside(partial(recorded, north, 5.0))
                await aside(partial(shown, root, NORTH, 5.0))
                await aside(partial(copy_is_whole, root, north))
            gone = await aside(partial(row_until, root, NORTH, lambda row: bool(row["stale_since_ns"])))
        async with root.core_up():
            reading = await aside(partial(shown, root, NORTH, 5.0))
            assert reading["quality"] == q.UNCERTAIN_NO_COMMUNICATION_LAST_USABLE
            row = await aside(partial(row_until, root, NORTH, lambda _: True))
            assert row["stale_since_ns"] == gone["stale_since_ns"]
            async with north.core_up():
                await aside(partial(row_until, root, NORTH, lambda row: row["stale_since_ns"] is None))
                await aside(partial(recorded, north, 6.0))
                await aside(partial(shown, root, NORTH, 6.0))

    asyncio.run(story())


def test_a_parent_whose_disk_is_full_shows_what_is_live_and_its_children_keep_the_rest(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    disk = Full()
    log = msgspec.structs.replace(root.arguments.log, segment_bytes=1 << 17)
    root.arguments = msgspec.structs.replace(root.arguments, log=log)

    async def story() -> None:
        above = Core(root.arguments, disk)
        async with running(above, root.data), north.core_up() as site:
            await aside(partial(recorded, north, 1.0))
            await aside(partial(copy_is_whole, root, north))
            disk.is_full, value = True, 1.0
            while not above.root.admission.closed_because:  # The segments that are there already are filled first.
                value += 1.0
                await aside(partial(north.produce, [(0, n, value, q.GOOD) for n in range(1, 1_001)]))
            while above.root.tree.below._is_following:  # It ends at the next fold.
                await aside(partial(recorded, north, 1.0))
            closed_at = site.log.end.sequence
            await aside(partial(north.produce, [(0, n, -1.0, q.GOOD) for n in range(1, 1_001)]))
            await aside(partial(shown, root, NORTH, -1.0))
            origin = above.root.folds.origins.of_node(NORTH)
            assert origin is not None and origin.last.sequence <= closed_at, "it was taken, and finds no room"
            assert site.log.begin_sequence == 1
            disk.is_full = False
            row = await aside(partial(copy_is_whole, root, north))
            assert (row["missing"], row["refused"]) == (0, 0)
            assert_copied(above, site)

    asyncio.run(story())


def test_ten_thousand_items_that_flap_end_as_they_are_and_the_parent_lives(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes[ROOT], nodes[NORTH]
    items = [DataItem(name=f"flap_{n}", value_type=ValueType.FLOAT64) for n in range(10_000)]
    rounds = 20

    def flapped() -> None:
        with producing("boiler", items, [LineTo(north.endpoint, NORTH)], None) as one:
            for at in range(rounds):
                code = q.GOOD if at % 2 else q.BAD
                one.offer([batch_of([(n, 1 + at, float(at), code) for n in range(10_000)], ValueType.FLOAT64, 1 + at)])
                assert one.wait(PATIENCE_S)

    def ends() -> Any:
        names = tuple(f"{NORTH}:flap_{n}" for n in (0, 5_000, 9_999))
        with root.program() as program:
            asked_until(
                program,
                lambda found: [one["value"] for one in found] == [rounds - 1.0] * 3,
                "read",
                node=NORTH,
                names=names,
            )
            return has_all(program, north)

    async def story() -> None:
        async with root.core_up() as above, north.core_up() as site:
            await aside(flapped)
            row = await aside(ends)
            assert (row["refused"], row["missing"]) == (0, 0)
            mirror = above.root.tree.mirrors[NORTH]

            def have_ended() -> bool:  # A state comes in pieces, and three of its values may come before the rest.
                index = [mirror.dim.index_of(ItemId(n)) for n in range(1, len(mirror.dim) + 1)]
                values = [mirror.dim.reading_at(at).value for at in index if at is not None]
                return values.count(rounds - 1.0) >= len(items)

            await until(have_ended, "all values are the last ones")
            assert_copied(above, site)

    asyncio.run(story())


def test_a_child_at_a_hundred_times_its_rate_delays_no_other_and_loses_nothing(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH, SOUTH)
    root, north, south = nodes.values()

    def rushed(came_through: Event) -> None:
        """Until the other one was heard meanwhile, more than once."""
        for at in count():
            north.produce(
                [(0, 1 + at * 10_000 + n, float(n), q.GOOD) for n in range(10_000)],
                producer=f"rush{at}",
                items=[DataItem(name=f"rush_{at}", value_type=ValueType.FLOAT64)],
            )
            if at >= 9 and came_through.is_set():
                return

    async def story() -> None:
        async with root.core_up() as above, north.core_up() as site, south.core_up() as other:
            came_through, value = Event(), 0.0
            rush = asyncio.create_task(aside(partial(rushed, came_through)))
            while not rush.done():
                value += 1.0
                await aside(partial(recorded, south, value))
                await aside(partial(shown, root, SOUTH, value))
                if value > 1.0:
                    came_through.set()
            await rush
            for one, core in ((north, site), (south, other)):
                row = await aside(partial(copy_is_whole, root, one))
                assert (row["refused"], row["missing"]) == (0, 0)
                assert_copied(above, core)

    asyncio.run(story())
