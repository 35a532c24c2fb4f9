"""Cuts the cable of one site once in a demo: the site goes on alone, and the root catches up."""

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from albireo.cli.demo.tree import DemoTree
from albireo.model.position import Position

CUT_AT_S: Final = 20.0
"""Time from the begin of the demo to the cut; in a short demo a third of its length."""
CUT_S: Final = 10.0
"""Length of the cut; in a short demo a third of its length."""
CAUGHT_UP_S: Final = 60.0
"""Longest time that the root gets to have all that the site recorded meanwhile."""
LOOK_S: Final = 0.1


class CutTold(msgspec.Struct, frozen=True, kw_only=True):
    """A cut, as `--json` tells it."""

    node: str
    seconds: float
    records: int
    """Number of records that the site wrote meanwhile."""
    caught_up_s: float | None
    """Time from the end of the cut until the root had them; null: it did not get them in time."""

    @property
    def complaint(self) -> str:
        return f"the root did not get what {self.node} recorded while it was cut off"


class Cut:
    """Cuts one site off, once. `end` mends the cable in any case."""

    def __init__(self, tree: DemoTree, node: str, length_s: float | None, tell: Callable[[str], object]) -> None:
        """
        Args:
            length_s: length of the demo; None: nobody knows.
            tell: takes lines for people.
        """
        self._tree, self._site, self._node, self._tell = tree, tree.nodes[node], node, tell
        part_s = CUT_AT_S if length_s is None else length_s / 3
        self._at_s, self._length_s = min(CUT_AT_S, part_s), min(CUT_S, part_s)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-cut", daemon=True)
        self.told: list[CutTold] = []

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Come to an end now: a cable that is cut is mended. Returns when the root has caught up."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if not self._ends.wait(self._at_s):
            self._tell(f"the cable between {self._node} and the root is cut for {self._length_s:.0f} s")
            self.told.append(self._cut())

    def _cut(self) -> CutTold:
        before, began = self._site.end(), time.monotonic()
        self._tree.cable.cut()
        try:
            self._ends.wait(self._length_s)
            after = self._site.end()
        finally:
            self._tree.cable.mend()
        mended = time.monotonic()
        has_all = self._caught_up(after)
        caught_up_s = round(time.monotonic() - mended, 3) if has_all else None
        records = max(0, after.sequence - before.sequence)
        self._tell(f"the cable is mended; the root has {records} records of {self._node} from that time")
        return CutTold(node=self._node, seconds=round(mended - began, 3), records=records, caught_up_s=caught_up_s)

    def _caught_up(self, end: Position) -> bool:
        """Look until the root has the site's log up to `end`."""
        ends = time.monotonic() + CAUGHT_UP_S
        while not self._tree.has_fetched(self._node, end):
            if time.monotonic() > ends:
                return False
            time.sleep(LOOK_S)
        return True
