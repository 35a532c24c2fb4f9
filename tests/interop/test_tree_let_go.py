"""A parent that is away for longer than its child may hold records back: what went is a gap above, and told as one."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.model import quality as q
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.housekeeping import Retention
from albireo.node.history.actor import Historian
from albireo.node.history.files.store import read_manifest
from albireo.runtime.actor.clock import wall_ns
from tests.parts.core_pair import aside
from tests.parts.history import Sample
from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT, NORTH = "root", "root/north"
BEGIN = wall_ns() // 1_000_000_000 * 1_000_000_000 - 60_000_000_000
SPAN = {"from_ns": 0, "to_ns": BEGIN + 3_600_000_000_000}
HELD = DataItem(name="held", value_type=ValueType.FLOAT64)
HOLD_ITEM = "root/north:core/uplink_hold"


def rows(count: int, first: int) -> list[Sample]:
    return [(0, BEGIN + (first + n) * 1_000, float(first + n), q.GOOD) for n in range(count)]


def holds_little(site: TreeNode) -> None:
    """Have a site hold back 1 MiB, and let go of what is beyond as soon as it may."""
    retention = Retention(keep_h=0.0, snapshot_every_s=1, parent=ROOT, hold_bytes=1 << 20)
    site.arguments = msgspec.structs.replace(site.arguments, retention=retention)


async def let_go(north: TreeNode, site: Core, historian: Historian) -> None:
    """Have the site's first segments go."""
    while site.log.begin_sequence == 1:
        await aside(partial(asked, north, "status"))
        if not historian._pace.is_sealing:
            historian._seal()
        await historian._until_idle()
        await site._house._save_snapshot()
        site._house._prune(site.log.stats().size_bytes)


def has_last(found: Any) -> bool:
    return [one["value"] for one in found] == [99_999.0]


def asked(node: TreeNode, what: str, to: str = "", **arguments: Any) -> Any:
    with node.program() as program:
        return program.result(what, to, **arguments)


def test_what_a_site_let_go_is_a_gap_above_and_what_follows_has_its_names(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes.values()
    holds_little(north)

    def recorded(first: int) -> None:
        for at in range(10):
            north.produce(rows(10_000, first + 10_000 * at), items=[HELD])

    def is_nearly_full() -> None:
        with north.program() as program:
            names = (HOLD_ITEM,)
            asked_until(program, lambda found: (found[0]["value"] or 0) > 70, "read", names=names)

    def has_gap() -> Any:
        with root.program() as program:
            row = only(asked_until(program, lambda found: only(found, NORTH)["missing"] > 0, "tree"), NORTH)
            asked_until(program, has_last, "read", node=NORTH, names=("held",))
            wanted: dict[str, Any] = {"names": (f"{NORTH}:held",), "from_ns": BEGIN, "to_ns": BEGIN + 1_000_000_000}
            with_names = asked_until(program, lambda found: found["rows"] > 0, "history_piece", "history", **wanted)
            asked_until(program, lambda found: found["rows"] > 0, "gaps_piece", "history", node=NORTH, **SPAN)
            return row, with_names["rows"]

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site, north.history_up() as historian:
            await aside(partial(recorded, 0))
            await aside(is_nearly_full)
            await let_go(north, site, historian)
            gone = site.log.begin_sequence
            async with root.core_up() as above, root.history_up():
                row, count = await aside(has_gap)
                origin = above.root.folds.origins.of_node(NORTH)
                assert origin is not None
                assert (row["missing"], row["trouble"]) == (gone - 1, "")
                assert origin.missing == gone - 1
                assert "held" in {one.item.name for one in origin.items.values()}, "its declaration went with the rest"
                assert 0 < count < 100_000
            folder = next((root.data / "history-below").iterdir())
        (hole,) = read_manifest(folder).holes
        assert (hole.first_sequence, hole.last_sequence, hole.reason) == (1, gone - 1, "let_go")

    asyncio.run(story())
