"""Alarm load of a time: how many alarms were new, counted from the journal.

New is an alarm that was raised, or became active again, and that somebody was shown: neither shelved, suppressed nor
out of service. Aims, as commonly quoted from ISA-18.2: docs/alarms.md, Alarm load.
"""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from albireo.client.conversation import Conversation
from albireo.client.conversed import AnyClient, conversed
from albireo.client.history import items_of, pieces, wall_ns
from albireo.codec.questions.history import EVENTS_PIECE, EventsQuestion
from albireo.model.case import Cause
from albireo.model.instant import SECOND

if TYPE_CHECKING:
    import pyarrow as pa

TEN_MINUTES_NS: Final = 600 * SECOND
DAY_NS: Final = 86_400 * SECOND
DAY_ROWS_MAX: Final = 50_000
"""Rows of the journal that are counted of one day; if it has more, the answer says so."""
OFTEN_SHOWN: Final = 10


class RuleLoad(msgspec.Struct, frozen=True, kw_only=True):
    """New alarms of one rule."""

    item: str
    condition: str
    count: int


class NewAlarms(msgspec.Struct, frozen=True, kw_only=True):
    """New alarms of one node."""

    from_ns: int
    """Wall time of the first interval, a multiple of ten minutes."""
    per_10min: list[int]
    by_severity: dict[int, int]
    often: list[RuleLoad]
    """The rules with most, at most ten."""
    is_cut: bool = False
    """True: a day has more rows than are counted, so there were more."""


class LoadClient(AnyClient):
    """A client, as far as it asks for the load."""

    @conversed
    def alarm_load(
        self, start: datetime | int, end: datetime | int | None = None, *, node: str = ""
    ) -> Conversation[NewAlarms]:
        """New alarms per ten minutes. Args and raises: as `events`. Cost: a question for each day at the least."""
        first, last = wall_ns(start) // TEN_MINUTES_NS, -(-wall_ns(end) // TEN_MINUTES_NS)
        slots, severities, rules = Counter[int](), Counter[int](), Counter[tuple[int, str]]()
        names: dict[int, str] = {}
        is_cut = False
        for from_ns in range(first * TEN_MINUTES_NS, last * TEN_MINUTES_NS, DAY_NS):
            to_ns = min(from_ns + DAY_NS, last * TEN_MINUTES_NS)
            asked = EventsQuestion(from_ns=from_ns, to_ns=to_ns, kind="case", node=node)
            table = yield from pieces(EVENTS_PIECE, asked, DAY_ROWS_MAX)
            names |= {one.item_id: one.name for one in items_of(table)}
            is_cut |= len(table) >= DAY_ROWS_MAX
            for at_ns, severity, item_id, condition in _new(table):
                slots[at_ns // TEN_MINUTES_NS] += 1
                severities[severity] += 1
                rules[item_id, condition] += 1
        return NewAlarms(
            from_ns=first * TEN_MINUTES_NS,
            per_10min=[slots[one] for one in range(first, last)],
            by_severity=dict(severities),
            often=[
                RuleLoad(item=names.get(item_id, str(item_id)), condition=condition, count=count)
                for (item_id, condition), count in rules.most_common(OFTEN_SHOWN)
            ],
            is_cut=is_cut,
        )


def _new(table: "pa.Table") -> list[tuple[int, int, int, str]]:
    """Time, severity, item and condition of the rows that are new alarms."""
    import pyarrow.compute as pc

    is_new = pc.field("action").isin([Cause.RAISED, Cause.ACTIVATED]) & pc.field("is_active")
    is_silent = pc.field("is_suppressed") | pc.field("is_out_of_service") | (pc.field("shelving") != "unshelved")
    found = table.filter(is_new & ~is_silent)
    columns = (found[name].to_pylist() for name in ("at_ns", "severity", "item_id", "condition"))
    return list(zip(*columns, strict=True))


__all__ = ["LoadClient", "NewAlarms", "RuleLoad"]
