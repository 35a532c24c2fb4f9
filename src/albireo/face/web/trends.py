"""Trends: bands of the history for the pens of a page, in blocks of intervals that are kept for seconds once closed.

    intervals   of a length that people know (1 s, 2 s, 5 s, ... 1 d), counted from 1970 on
    block       BLOCK intervals of one item; what lies between two blocks of a range is asked for once

Whoever moves through the past, and all who look at the same, so ask the history once. Rows may come late within a
closed block, so none is kept for long. Marks of a trend are what the journal tells of its pens.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.client import AsyncClient
from albireo.client.history import items_of
from albireo.face.web.method import Count, method
from albireo.face.web.plain import shown
from albireo.model import quality
from albireo.model.bounded import Text
from albireo.model.instant import MS, SECOND
from albireo.model.item import name_parts
from albireo.runtime.clock import boot_ns

if TYPE_CHECKING:
    import pyarrow as pa

PENS_MAX: Final = 16
POINTS_MAX: Final = 2_000
BLOCK: Final = 128
"""Intervals of one block."""
BLOCKS_KEPT: Final = 4_000
KEPT_NS: Final = 10 * SECOND
LATE_MS: Final = 10_000
"""Time behind what is complete for which an interval is not kept: it may change still."""

LENGTHS_MS: Final = tuple(
    1000 * one
    for one in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
)
COLUMNS: Final = {
    "min": "min",
    "max": "max",
    "first": "first",
    "last": "last",
    "mean": "average",
}
"""Columns of an answer beside `quality`, and those of the band."""
MARKS_MAX: Final = 1_000
"""Most marks of a kind and node."""
TOLD: Final = ("at_ns", "kind", "action", "user", "detail", "condition", "severity", "raised_ns")
"""Columns of a mark beside `item`: that of the alarm or of what people did, else the node."""
NO_DATA: Final = "BadNoData"
CLASSES: Final = {"Good": quality.GOOD, "Uncertain": quality.UNCERTAIN}
Column = list[Any]
Pens = Annotated[tuple[Text, ...], Meta(min_length=1, max_length=PENS_MAX)]
"""Full names of items."""
Points = Annotated[int, Meta(ge=2, le=POINTS_MAX)]
"""Most intervals of an answer, but for those at its edges."""


class _Block(msgspec.Struct):
    until: int
    columns: dict[str, Column]


class Trends:
    """Blocks that are kept, for one thread."""

    def __init__(self, now: Callable[[], int] = boot_ns) -> None:
        """`now`: the boot clock."""
        self._now = now
        self._kept: dict[tuple[str, int, int], _Block] = {}
        self.method = method(is_reading=True, is_for_lookers=True)(self.trend)

    async def trend(
        self, client: AsyncClient, *, names: Pens, start_ms: Count, end_ms: Count, points: Points = 600
    ) -> dict[str, object]:
        """Bands of some items: minimum, maximum, first, last, mean of each interval.

        Raises:
            ClientError: as `band`; ValueError: the range has no length.
        """
        _check_range(start_ms, end_ms)
        every_ms = length_of(end_ms - start_ms, points)
        first, last = start_ms // every_ms, -(-end_ms // every_ms)
        wanted = range(first // BLOCK, (last - 1) // BLOCK + 1)
        pens: dict[str, dict[str, Column]] = {}
        complete_ms = end_ms
        for some, blocks, known_ms in await asyncio.gather(
            *(self._blocks(client, some, every_ms, wanted) for some in _by_node(names).values())
        ):
            complete_ms = min(complete_ms, known_ms)
            for name in some:
                pens[name] = _joined([blocks[name, block] for block in wanted], first - wanted[0] * BLOCK, last - first)
        times = [one * every_ms for one in range(first, last)]
        return {"times_ms": times, "every_ms": every_ms, "pens": pens, "complete_to_ms": complete_ms}

    async def _blocks(
        self, client: AsyncClient, names: Sequence[str], every_ms: int, wanted: range
    ) -> tuple[Sequence[str], Mapping[tuple[str, int], dict[str, Column]], int]:
        """All blocks of these items of one node, and up to which time it knows everything."""
        found: dict[tuple[str, int], dict[str, Column]] = {}
        missing, now = set[int](), self._now()
        for name in names:
            for block in wanted:
                kept = self._kept.get((name, every_ms, block))
                if kept is not None and now < kept.until:
                    found[name, block] = kept.columns
                else:
                    missing.add(block)
        if not missing:
            return names, found, (wanted[-1] + 1) * BLOCK * every_ms
        blocks = range(min(missing), max(missing) + 1)
        span_ms = BLOCK * every_ms
        begin_ns, end_ns = blocks[0] * span_ms * MS, (blocks[-1] + 1) * span_ms * MS
        table = await client.band(list(names), begin_ns, end_ns, every_ms / 1000, raw=False)
        complete_ms = int((table.schema.metadata or {}).get(b"complete_to_ns", b"0")) // MS
        for name, columns in _columns(table, names):
            for index, block in enumerate(blocks):
                part = {key: column[index * BLOCK : (index + 1) * BLOCK] for key, column in columns.items()}
                found[name, block] = part
                if (block + 1) * span_ms < complete_ms - LATE_MS:
                    self._keep((name, every_ms, block), _Block(now + KEPT_NS, part))
        return names, found, complete_ms

    def _keep(self, key: tuple[str, int, int], block: _Block) -> None:
        while len(self._kept) >= BLOCKS_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = block


@method(is_reading=True)
async def marks(client: AsyncClient, *, names: Pens, start_ms: Count, end_ms: Count) -> list[dict[str, Any]]:
    """Events of a range, oldest first: alarms of these items, what people did with them, and control of their nodes.

    Raises:
        ClientError: as `events`; ValueError: the range has no length.
    """
    _check_range(start_ms, end_ms)
    of = partial(_marks_of, client, start_ms * MS, end_ms * MS)
    found = await asyncio.gather(*(of(node, some) for node, some in _by_node(names).items()))
    return sorted((one for rows in found for one in rows), key=lambda one: one["at_ns"])


async def _marks_of(
    client: AsyncClient, begin_ns: int, end_ns: int, node: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    item_ids = {one.item_id: one.name for one in items_of(await client.history(names, begin_ns, begin_ns + 1))}
    events = partial(client.events, begin_ns, end_ns, node=node, newest_first=True, limit=MARKS_MAX)
    cases, people, control = await asyncio.gather(
        events(kind="case", item_ids=tuple(item_ids)), events(kind="audit"), events(kind="control")
    )
    return [
        *({**_told(one), "item": item_ids[one["item_id"]]} for one in cases.to_pylist()),
        *({**_told(one), "item": one["subject"]} for one in people.to_pylist() if one["subject"] in names),
        *({**_told(one), "item": node} for one in control.to_pylist()),
    ]


def _check_range(start_ms: int, end_ms: int) -> None:
    if end_ms <= start_ms:
        raise ValueError("end_ms has to come after start_ms")


def _told(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in TOLD}


def _by_node(names: Iterable[str]) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        found[name_parts(name)[0]].append(name)
    return found


def length_of(span_ms: int, points: int) -> int:
    """The shortest length of an interval, in ms, of which a range has no more than so many."""
    return next(
        (one for one in LENGTHS_MS if one * points >= span_ms), -(-span_ms // points // 86_400_000 or 1) * 86_400_000
    )


def _columns(table: "pa.Table", names: Sequence[str]) -> Iterable[tuple[str, dict[str, Column]]]:
    """Columns of each item, of as many intervals: null where nothing is known."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names:
        rows = table.filter(pc.equal(table["item"], pa.scalar(name)))
        columns: dict[str, Column] = {"quality": [_class(str(one)) for one in rows["quality"].to_pylist()]}
        yield name, columns | {key: [shown(one) for one in rows[column].to_pylist()] for key, column in COLUMNS.items()}


def _class(word: str) -> int | None:
    """The class of a quality, as a code; None: nothing is known."""
    if word.startswith(NO_DATA):
        return None
    return next((code for begin, code in CLASSES.items() if word.startswith(begin)), quality.BAD)


def _joined(blocks: Sequence[Mapping[str, Column]], skipped: int, count: int) -> dict[str, Column]:
    return {
        key: [one for block in blocks for one in block[key]][skipped : skipped + count] for key in (*COLUMNS, "quality")
    }
