"""Load: new alarms of a node and of all below it, as the client counts them of each."""

from collections import Counter
from typing import Annotated, Final

from msgspec import Meta

from albireo.client import AsyncClient
from albireo.client.errors import NodeRefused
from albireo.client.load import DAY_NS, OFTEN_SHOWN, NewAlarms, RuleLoad
from albireo.face.web.method import method
from albireo.runtime.clock import wall_ns

DAYS_MAX: Final = 31


class TreeLoad(NewAlarms, frozen=True, kw_only=True):
    """New alarms of several nodes together."""

    lacks: list[str]
    """Nodes of which no journal is known here."""


@method(is_reading=True, is_for_lookers=True)
async def load(client: AsyncClient, *, days: Annotated[int, Meta(ge=1, le=DAYS_MAX)] = 1) -> TreeLoad:
    """New alarms of the last days, per ten minutes, by severity and by rule."""
    end = wall_ns()
    own = (await client.status()).node
    below = [one.node for one in await client.tree() if one.node.startswith(f"{own}/")]
    found, lacks = [], []
    for node in ("", *below):
        try:
            found.append(await client.alarm_load(end - days * DAY_NS, end, node=node))
        except NodeRefused:
            lacks.append(node or own)
    severities: Counter[int] = Counter()
    often: list[RuleLoad] = []
    for one in found:
        severities.update(one.by_severity)
        often += one.often
    return TreeLoad(
        from_ns=found[0].from_ns if found else end,
        per_10min=[sum(counts) for counts in zip(*(one.per_10min for one in found), strict=True)],
        by_severity=dict(severities),
        often=sorted(often, key=lambda one: -one.count)[:OFTEN_SHOWN],
        is_cut=any(one.is_cut for one in found),
        lacks=lacks,
    )
