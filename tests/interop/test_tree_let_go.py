"""A parent that is away for longer than its child may hold records back: what went is a gap above, told as one, until
it comes from the stored history of the child."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.codec.history import GAPS, FileKind, Manifest
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.node.history.files import parquet
from albireo.node.history.files.gaps import GapIndex
from albireo.node.history.files.store import HistoryStore, read_manifest
from albireo.runtime import running
from tests.parts.core_pair import aside, begun, until
from tests.parts.history import iso, stored_rows
from tests.parts.history_copy import all_rows, partial_sums
from tests.parts.letting_go import BEGIN, ROWS, holds_little, let_go, recorded, sealed
from tests.parts.lone import asked_until
from tests.parts.paired_tree import PairTree
from tests.parts.tree import TreeNode, only, tree_of
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"
SPAN = {"from_ns": 0, "to_ns": BEGIN + 3_600_000_000_000}
RANGE = ["--from", iso(BEGIN), "--every", "1d"]
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
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site:
            async with north.history_up() as historian:
                await aside(partial(recorded, north))
                await let_go(north, site, historian)
            async with root.core_up():
                async with root.history_up() as above:
                    await aside(partial(answered, root, has_hole, "stats"))
                    await sealed(above)
                assert manifest_of(root, NORTH).holes
                async with root.history_up(), north.history_up():
                    await aside(partial(answered, root, is_filled, "stats"))
        is_whole(north, root.data)
        asks = ["history", f"{NORTH}:held", "--aggregate", "count", *RANGE, "--data", str(root.data), "--json"]
        told = CliRunner().invoke(cli, asks)
        assert told.exit_code == 0, told.output
        answer = json.loads(told.stdout.splitlines()[-1])
        assert sum(one["value"] or 0 for one in answer["rows"]) == ROWS, answer
        assert "let_go" not in {one["reason"] for one in answer["gaps"]}

    asyncio.run(story())


def test_two_levels_up_it_comes_from_the_node_between(tmp_path: Path) -> None:
    """Which has it from the site by then, or not yet: the root asks until it is there."""
    nodes = tree_of(tmp_path, ROOT, NORTH, PUMP)
    root, north, pump = nodes.values()
    holds_little(pump)

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), pump.core_up() as site, pump.history_up() as historian:
            await aside(partial(recorded, pump))
            await let_go(pump, site, historian)
            async with north.core_up(), north.history_up() as between, root.core_up(), root.history_up() as above:
                for node, one in ((north, between), (root, above)):
                    await aside(partial(answered, node, has_hole, "stats"))
                    await sealed(one)
                for node in (north, root):
                    await aside(partial(answered, node, is_filled, "stats"))
        for node in (north, root):
            is_whole(pump, node.data)

    asyncio.run(story())


def test_both_members_of_a_pair_above_have_it(tmp_path: Path) -> None:
    """Each asks the site for itself, also the one that does not act."""
    tree = PairTree(tmp_path, {ROOT: True, NORTH: False})
    north, made = tree.lone[NORTH], tree.pairs[ROOT]
    holds_little(north)

    @contextlib.asynccontextmanager
    async def history_of(member: int) -> AsyncIterator[Historian]:
        historian = Historian(HistoryArguments(node=ROOT, is_paired=True))
        async with running(historian, made.data(member)):
            yield historian

    def is_whole_at(member: int) -> bool:
        folders = [*(made.data(member) / "history-below").glob("*")]
        manifest = read_manifest(folders[0]) if folders else Manifest(node="")
        return manifest.filled > 0 and manifest.holes == ()

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), north.core_up() as site, north.history_up() as historian:
            await aside(partial(recorded, north))
            await let_go(north, site, historian)
            async with begun(made), history_of(0) as first:
                await made.start(1)
                async with history_of(1) as second:
                    await made.wait_for("active", "ready")
                    for one in (first, second):
                        await until(partial(lacks, one), "hole")
                        await sealed(one)
                    for member in range(2):
                        await until(partial(is_whole_at, member), "filled")
        for member in range(2):
            is_whole(north, made.data(member))

    asyncio.run(story())


def lacks(above: Historian) -> bool:
    return any(origin.hot.holes for origin in above._below)


def is_whole(site: TreeNode, data: Path) -> None:
    """The history of the site in the data directory of a node above has what the site's own has."""
    (folder,) = (data / "history-below").glob(f"{site.node.replace('/', '~')}-*")
    here, _ = HistoryStore.open(data, site.node, None, str(folder.relative_to(data)))
    there, _ = HistoryStore.open(site.data, site.node)
    upto = min(one.manifest.position.sequence for one in (here, there))  # Either may have followed for longer.
    assert here.manifest.holes == ()
    own, theirs = all_rows(here, upto), all_rows(there, upto)
    own.pop(FileKind.GAPS), theirs.pop(FileKind.GAPS)
    assert own == theirs
    assert gaps_of_held(here, upto) == gaps_of_held(there, upto) != []
    assert partial_sums(here)[0] == len(all_rows(here)[FileKind.SAMPLES])
    assert held(here.root) == [float(one) for one in range(ROWS)]


def gaps_of_held(store: HistoryStore, upto: int) -> list[int]:
    """Sequences of the gaps that are about the item `held`, by the rows and the items of a history."""
    (item_id,) = (item_id for item_id, row in store.declared.items.items() if row["name"] == "held")
    rows = parquet.read(store.root, store.manifest.of_kind(FileKind.GAPS), GAPS.names)
    found = [row["sequence"] for row in GapIndex(rows, [], store.declared).rows(0, 2**62, item_id)]
    return sorted(one for one in found if isinstance(one, int) and one <= upto)


def has_hole(stats: Any) -> bool:
    return any(one["holes"] for one in stats["below"])


def is_filled(stats: Any) -> bool:
    below = stats["below"]
    return any(one["filled"] for one in below) and all(one["holes"] == 0 for one in below)


def held(folder: Path) -> list[float]:
    """Values of the item `held`, which alone has the times of this test, as they are stored."""
    return sorted(float(row[3]) for row in stored_rows(folder) if BEGIN <= row[2] < BEGIN + ROWS * 1_000)
