"""An inbox over a takeover, on real processes: a lone root sends, a pair below has the inbox, one program takes."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from albireo.client import Client
from albireo.drill.plcs import Plcs
from albireo.drill.tree.nodes import TreeNodes
from albireo.drill.tree.shapes import ADAPTER, ROOT, SHAPES
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]

BODIES = [f"note {number}".encode() for number in range(24)]
SENDERS = 4
HELD_AT = 8
"""Number of notes that are taken before the active member is killed; the next one is held meanwhile."""
KILLS_MAX = 4


def is_known(nodes: TreeNodes) -> bool:
    """The root hears the site, so a message to that has a way."""
    with nodes.connect(ROOT, PATIENCE_S) as client:
        tree: Any = client.ask("tree")
        rows = [one for one in tree if one["node"] == nodes.site]
        return bool(rows) and rows[0]["stale_since_ns"] is None


def take_over(nodes: TreeNodes) -> None:
    """Kill who acts at the site, until its mate takes over: one that a busy machine has put out of the set may not."""
    for _ in range(KILLS_MAX):
        killed = awaited(lambda: nodes.acting(nodes.site))
        nodes.groups[killed].kill()
        mate = nodes.mate(killed)
        if awaited(partial(nodes.takes_over, mate), lambda seen: seen is not None):
            return
        nodes.groups[killed].start()
        nodes.wait_healthy()
    raise AssertionError(f"nobody takes over\n{nodes.tails()}")


class Taker:
    """Takes all notes, one after the other; with one of them in its hands it waits until `goes_on`."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        """Bodies of which the node has said that they are taken."""
        self.holds = threading.Event()
        self.goes_on = threading.Event()

    def take_all(self, client: Client) -> None:
        for note in client.inbox(timeout_s=PATIENCE_S):
            if len(self.taken) == HELD_AT:
                self.holds.set()
                assert self.goes_on.wait(PATIENCE_S)
            client.take(note, reply=b"had " + note.body)
            self.taken.append(note.body)
            if len(self.taken) == len(BODIES):
                return


def test_each_message_is_taken_once_and_proven_though_the_active_member_is_killed(tmp_path: Path) -> None:
    taker, plcs = Taker(), Plcs("127.0.0.1")
    with ExitStack() as ends:
        ends.callback(plcs.end)
        plcs.begin()
        nodes = TreeNodes(tmp_path / "tree", SHAPES["stale-child"], plcs.ports[ADAPTER])
        ends.callback(nodes.end)
        nodes.start()
        nodes.until("the root knows the site", lambda: is_known(nodes), PATIENCE_S)
        above = ends.enter_context(nodes.connect(ROOT, PATIENCE_S))
        here = ends.enter_context(nodes.connect(nodes.site, PATIENCE_S))
        pool = ends.enter_context(ThreadPoolExecutor(SENDERS + 1))
        ends.callback(nodes.end)  # Whoever still waits for an answer hears that none comes.
        taking = pool.submit(taker.take_all, here)
        sent = [pool.submit(above.send, nodes.site, one, expires_s=PATIENCE_S) for one in BODIES]
        try:
            assert taker.holds.wait(PATIENCE_S), nodes.tails()
            take_over(nodes)
        finally:
            taker.goes_on.set()
        taking.result(PATIENCE_S)
        proofs = [one.result(PATIENCE_S) for one in sent]
    assert Counter(taker.taken) == Counter(BODIES)
    assert [(one.outcome, one.reply) for one in proofs] == [("executed", b"had " + body) for body in BODIES]
    assert len({one.guid for one in proofs}) == len({one.name for one in proofs}) == len(BODIES)
