"""Generated rows with everything that makes a rollup hard, from a seed."""

import math
import random

from albireo.codec.history import NO_ITEM
from albireo.model import quality as q
from tests.unit.pipeline.history_files import DAY0, SECOND, Row, item, sample

MINUTE = 60 * SECOND
ITEMS = [
    item(index, f"i_{index}", value_type, adapter=adapter)
    for index, value_type, adapter in (
        (1, 1, "p1"),
        (2, 2, "p1"),
        (3, 3, "p1"),
        (4, 4, "p1"),
        (5, 1, "p2"),
        (6, 1, "p2"),
        (7, 2, "p2"),
        (8, 1, "p2"),
    )
]
BEGIN = DAY0 + 23 * 3600 * SECOND + 50 * MINUTE
"""Ten minutes before a midnight."""
_QUALITIES = (
    0,
    0,
    0,
    0,
    int(q.GOOD_LOCAL_OVERRIDE),
    int(q.UNCERTAIN),
    int(q.BAD_NO_COMMUNICATION),
    int(q.BAD_SENSOR_FAILURE),
)
_PACE_S = {1: 0.3, 2: 2.0, 3: 45.0, 4: 5.0, 5: 0.1, 6: 70.0, 7: 1.0, 8: 400.0}
"""Mean distance of samples: some many per second, some rarer than a minute."""


def samples_of(seed: int, *, seconds: int = 1500, late: bool = True) -> list[Row]:
    """Rows in the order of the log, `sequence` rising from 1."""
    chance = random.Random(seed)
    rows = []
    for one in ITEMS:
        ns, quality = BEGIN + chance.randrange(30 * SECOND), 0
        while ns < BEGIN + seconds * SECOND:
            if chance.random() < 0.15:
                quality = chance.choice(_QUALITIES)
            rows.append(sample(one["item_id"], ns, _value(one["value_type"], chance), 0, quality))
            # Some at the same instant, some exactly at a full second.
            step = int(chance.expovariate(1.0) * _PACE_S[one["item_id"]] * SECOND)
            ns += chance.choice((0, step, step, step, SECOND - ns % SECOND))
    rows.sort(key=lambda row: row["node_ns"])
    if late:
        for row in chance.sample(rows, len(rows) // 20):
            # It comes up to two minutes late: its place in the log is later than its time.
            row["node_ns"] += chance.randrange(120 * SECOND)
        rows.sort(key=lambda row: row["node_ns"])
    for sequence, row in enumerate(rows, 1):
        row["sequence"] = sequence
    return rows


def gaps_of(seed: int, first_sequence: int) -> list[Row]:
    chance = random.Random(seed)
    rows = []
    about: tuple[tuple[str, list[int]], ...]
    about = (("p1", []), ("core", []), ("history", [1, 5]), ("p2", [8, 6]), ("p2", []), ("p2", [NO_ITEM]))
    for index, (source, ids) in enumerate(about):
        begin = BEGIN + chance.randrange(1400 * SECOND)
        end = begin + chance.randrange(90 * SECOND)
        times = {"from_ns": begin, "to_ns": end, "node_ns": end + SECOND}
        more = {"item_ids": ids, "lost": None, "epoch": 1, "sequence": first_sequence + index}
        rows.append({"source": source, "reason": "device_lost", **times, **more})
    return rows


def _value(value_type: int, chance: random.Random) -> float | int | str:
    match value_type:
        case 1:
            return chance.choice((math.nan, math.inf, 0.0)) if chance.random() < 0.03 else chance.gauss(50.0, 20.0)
        case 2:
            return chance.randrange(-1000, 1000)
        case 3:
            return chance.randrange(2)
    return chance.choice(("auto", "hand", ""))
