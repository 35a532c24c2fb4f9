"""Real nodes of a tree: a site that gets a new disk, or a backup of its store, keeps its past in the history above."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from albireo.node.history.actor import Historian
from tests.parts.core_pair import aside
from tests.parts.tree import TreeNode, tree_of
from tests.parts.tree_history import NORTH, ROOT, has_all, home, places, rows_of, told, values

pytestmark = pytest.mark.slow
__all__ = ["home"]


def new_disk(site: TreeNode, backup: Path) -> None:
    shutil.rmtree(site.data)
    site.data.mkdir()


def old_backup(site: TreeNode, backup: Path) -> None:
    shutil.rmtree(site.data)
    shutil.copytree(backup, site.data)


async def sealed(historian: Historian) -> None:
    historian._seal()
    await historian._until_idle()


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("replaced", [new_disk, old_backup])
def test_nothing_that_was_copied_vanishes_with_a_store(
    tmp_path: Path, replaced: Callable[[TreeNode, Path], None], is_sealed: bool
) -> None:
    root, north = tree_of(tmp_path, ROOT, NORTH).values()
    backup = tmp_path / "backup"

    def asked() -> None:
        for place in places(root):
            assert sorted(values(f"{NORTH}:co", place)) == [float(one) for one in range(30)], place
            counts = told("history", f"{NORTH}:co", "--aggregate", "count", "--every", "60s", *place)["rows"]
            assert sum(row["value"] or 0 for row in counts) == 30
        (row,) = told("tree", *places(root)[1])["nodes"]
        assert row["set_back_ns"] > 0
        assert row["stores"] == (2 if replaced is new_disk else 1)
        assert told("status", *places(root)[1])["nodes"]["set_back"] == [NORTH]

    async def world() -> None:
        async with root.core_up(), root.history_up() as historian:
            async with north.core_up():
                await aside(partial(north.produce, rows_of(10)))
                await aside(partial(has_all, root, NORTH, 10))
            shutil.copytree(north.data, backup)
            async with north.core_up():
                await aside(partial(north.produce, rows_of(10, 10)))
                await aside(partial(has_all, root, NORTH, 20))
            if is_sealed:
                await sealed(historian)
            replaced(north, backup)
            async with north.core_up():
                await aside(partial(north.produce, rows_of(10, 20)))
                await aside(partial(has_all, root, NORTH, 30))
                await aside(asked)
                await sealed(historian)
                await aside(asked)

    asyncio.run(world())
