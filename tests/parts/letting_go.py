"""A site that lets go of records before its parent has them: it holds back little, and its parent is away for long."""

from functools import partial
from typing import Any

import msgspec

from albireo.machine.kernel.named import HISTORY, above
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.core.housekeeping import Retention
from albireo.node.history.actor import Historian
from albireo.runtime.clock import wall_ns
from tests.parts.core_pair import aside
from tests.parts.history import Sample
from tests.parts.tree import TreeNode

BEGIN = wall_ns() // 1_000_000_000 * 1_000_000_000 - 60_000_000_000
ROWS = 100_000
"""Rows that a site records meanwhile; some megabytes."""
BATCH = 10_000
HELD = DataItem(name="held", value_type=ValueType.FLOAT64)


def rows(count: int, first: int) -> list[Sample]:
    return [(0, BEGIN + (first + n) * 1_000, float(first + n), 0) for n in range(count)]


def holds_little(site: TreeNode) -> None:
    """Have a site hold back 1 MiB, and let go of what is beyond as soon as it may."""
    parent = site.node.rpartition("/")[0]
    retention = Retention(keep_h=0.0, snapshot_every_s=1, named=(HISTORY, above(parent, 1 << 20)))
    site.arguments = msgspec.structs.replace(site.arguments, retention=retention)


def recorded(site: TreeNode, count: int = ROWS) -> None:
    for at in range(0, count, BATCH):
        site.produce(rows(BATCH, at), items=[HELD])


async def let_go(site: TreeNode, core: Core, historian: Historian) -> int:
    """Have the site's first segments go, once they are in its stored history; returns the first record that is left.

    It holds back all the rest: nobody could say else how much has gone by the time at which its parent is there.
    """
    while core.log.begin_sequence == 1:
        await aside(partial(asked, site, "status"))
        await sealed(historian)
        await core._house._save_snapshot()
        core._house._prune(core.log.stats().size_bytes)
    parent = core._house._retention.named[1]
    named = HISTORY, msgspec.structs.replace(parent, bytes_max=1 << 30)
    core._house._retention = msgspec.structs.replace(core._house._retention, named=named)
    return core.log.begin_sequence


async def sealed(historian: Historian) -> None:
    if not historian._pace.is_sealing:
        historian._seal()
    await historian._until_idle()


def asked(node: TreeNode, what: str, to: str = "", **arguments: Any) -> Any:
    with node.program() as program:
        return program.result(what, to, **arguments)
