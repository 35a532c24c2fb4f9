"""A parent that is away for longer than its child may hold records back: what went is a gap above, told as one, until
it comes from the stored history of the child."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.codec.history import GAPS, FileKind, Manifest
from albireo.node.history.files import parquet
from albireo.node.history.files.gaps import GapIndex
from albireo.node.history.files.store import HistoryStore, read_manifest
from tests.parts.core_pair import aside
from tests.parts.history import stored_rows
from tests.parts.history_copy import all_rows, partial_sums
from tests.parts.letting_go import BEGIN, ROWS, holds_little, let_go, recorded, sealed
from tests.parts.lone import asked_until
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT, NORTH = "root", "root/north"
SPAN = {"from_ns": 0, "to_ns": BEGIN + 3_600_000_000_000}
RANGE = ["--from", "-10m", "--every", "10m"]
HOLD_ITEM = "root/north:core/uplink_hold"


def is_nearly_full(site: TreeNode) -> None:
    with site.program() as program:
        names = (HOLD_ITEM,)
        asked_until(program, lambda found: (found[0]["value"] or 0) > 70, "read", names=names)


def has_last(found: Any) -> bool:
    return [one["value"] for one in found] == [99_999.0]


def answered(at: TreeNode, is_so: Callable[[Any], bool], what: str, **wanted: Any) -> Any:
    with at.program() as program:
        return asked_until(program, is_so, what, "history", **wanted)


def folder_of(above: TreeNode, node: str) -> Path:
    (found,) = (above.data / "history-below").glob(f"{node.replace('/', '~')}-*")
    return found


def manifest_of(above: TreeNode, node: str) -> Manifest:
    return read_manifest(folder_of(above, node))


def test_what_a_site_let_go_is_a_gap_above_and_what_follows_has_its_names(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes.values()
    holds_little(north)

    def has_gap() -> Any:
        with root.program() as program:
            row = only(asked_until(program, lambda found: only(found, NORTH)["missing"] > 0, "tree"), NORTH)
            asked_until(program, has_last, "read", node=NORTH, names=("held",))
            wanted: dict[str, Any] = {"names": (f"{NORTH}:held",), "from_ns": BEGIN, "to_ns": BEGIN + 1_000_000_000}
            with_names = asked_until(program, lambda found: found["rows"] > 0, "history_piece", "history", **wanted)
            asked_until(program, lambda found: found["rows"] > 0, "gaps_piece", "history", node=NORTH, **SPAN)
            return row, with_names["rows"]

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site:
            async with north.history_up() as historian:
                await aside(partial(recorded, north))
                await aside(partial(is_nearly_full, north))
                gone = await let_go(north, site, historian)
            async with root.core_up() as above, root.history_up():
                row, count = await aside(has_gap)
                origin = above.root.folds.origins.of_node(NORTH)
                assert origin is not None
                assert (row["missing"], row["trouble"]) == (gone - 1, "")
                assert origin.missing == gone - 1
                assert "held" in {one.item.name for one in origin.items.values()}, "its declaration went with the rest"
                assert 0 < count < ROWS
        (hole,) = manifest_of(root, NORTH).holes
        assert (hole.first_sequence, hole.last_sequence, hole.reason) == (1, gone - 1, "let_go")

    asyncio.run(story())


def test_what_a_site_let_go_comes_from_its_stored_history(tmp_path: Path) -> None:
    """Each row once, with its name, and the gap goes; `albireo history` answers over the range."""
    nodes = tree_of(tmp_path, ROOT, NORTH)
    root, north = nodes.values()
    holds_little(north)

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site, north.history_up() as historian:
            await aside(partial(recorded, north))
            await let_go(north, site, historian)
            async with root.core_up(), root.history_up() as above:
                await aside(partial(answered, root, has_hole, "stats"))
                await sealed(above)
                await aside(partial(answered, root, is_filled, "stats"))
        assert manifest_of(root, NORTH).holes == ()
        here, there = stores(root, north)
        upto = here.manifest.position.sequence
        own, theirs = all_rows(here), all_rows(there, upto)
        own.pop(FileKind.GAPS), theirs.pop(FileKind.GAPS)
        assert own == theirs
        assert gaps_of_held(here, upto) == gaps_of_held(there, upto) != []
        assert partial_sums(here)[0] == len(all_rows(here)[FileKind.SAMPLES])
        assert held(here.root) == [float(one) for one in range(ROWS)]
        asks = ["history", f"{NORTH}:held", "--aggregate", "count", *RANGE, "--data", str(root.data), "--json"]
        told = CliRunner().invoke(cli, asks)
        assert told.exit_code == 0, told.output
        answer = json.loads(told.stdout.splitlines()[-1])
        assert sum(one["value"] or 0 for one in answer["rows"]) == ROWS
        assert "let_go" not in {one["reason"] for one in answer["gaps"]}

    asyncio.run(story())


def stores(above: TreeNode, site: TreeNode) -> tuple[HistoryStore, HistoryStore]:
    """The history of a site as it is above, and as it is at the site."""
    here, _ = HistoryStore.open(above.data, site.node, None, str(folder_of(above, site.node).relative_to(above.data)))
    there, _ = HistoryStore.open(site.data, site.node)
    return here, there


def gaps_of_held(store: HistoryStore, upto: int) -> list[int]:
    """Sequences of the gaps that are about the item `held`, by the rows and the items of a history."""
    (item_id,) = (item_id for item_id, row in store.declared.items.items() if row["name"] == "held")
    rows = parquet.read(store.root, store.manifest.of_kind(FileKind.GAPS), GAPS.names)
    found = [row["sequence"] for row in GapIndex(rows, [], store.declared).rows(0, 2**62, item_id)]
    return sorted(one for one in found if isinstance(one, int) and one <= upto)


def has_hole(stats: Any) -> bool:
    return any(one["holes"] for one in stats["below"])


def is_filled(stats: Any) -> bool:
    return all(one["filled"] and one["holes"] == 0 for one in stats["below"])


def held(folder: Path) -> list[float]:
    """Values of the item `held`, which alone has the times of this test, as they are stored."""
    return sorted(float(row[3]) for row in stored_rows(folder) if BEGIN <= row[2] < BEGIN + ROWS * 1_000)
