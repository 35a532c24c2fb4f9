"""A site under its parent: what it records is seen above, at once as state and for good in envelopes."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.envelope import open_envelope
from albireo.codec.frame import Frame, encode, frames
from albireo.codec.record import Kind
from albireo.log.log import Log
from albireo.model import quality as q
from tests.parts.core_pair import aside
from tests.parts.lone import Program, asked_until
from tests.parts.tree import TreeNode, only, tree_of

pytestmark = pytest.mark.slow

ROOT, NORTH, PUMP = "root", "root/north", "root/north/pump"
ROWS = [(0, 1_000 * n, float(n), q.GOOD) for n in range(1, 301)]


def read(program: Program, node: str, value: float) -> Any:
    """The reading of the item of a node below, once it has this value."""
    return asked_until(
        program, lambda found: any(one["value"] == value for one in found), "read", node=node, names=(f"{node}:co",)
    )[0]


def has_all(program: Program, node: str) -> Any:
    """The row of the node once nothing of it is missing above."""
    return only(asked_until(program, lambda rows: only(rows, node)["behind"] == 0, "tree"), node)


def copied(log: Log, log_id: bytes) -> bytes:
    """The frames of another log that lie in this one, as they are inside."""
    found = [Frame(*one) for one in frames(log.read_appended(0, 1 << 24))]
    within = [one for frame in found if frame.header.kind == Kind.ENVELOPE for one in open_envelope(*frame_of(frame))]
    return b"".join(encode(Frame(header, bytes(body))) for header, body in within if header.log_id == log_id)


def frame_of(frame: Frame) -> tuple[Any, Any]:
    return frame.header, frame.body


def test_a_site_is_seen_above_at_once_and_copied_for_good(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of(root: TreeNode, north: TreeNode) -> tuple[Any, Any, Any]:
        north.produce(ROWS)
        with root.program() as program:
            reading = read(program, NORTH, 300.0)
            seen = has_all(program, NORTH)
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
