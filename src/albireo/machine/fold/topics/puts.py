"""Contents of the stream of puts: read and folded by the head, and judged by what it names."""

from typing import Any, Final

from albireo.codec import puts
from albireo.codec.record import Kind, Stream
from albireo.machine.fold.contents import Contents
from albireo.machine.fold.topics.subscriptions import Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import Tables
from albireo.model.principal import PrincipalKind, kind_of
from albireo.model.refusal import Refusal, RefusalCode

MISSING_TOLD: Final = 10
COST: Final = 80


def judge(tables: Tables, content: Any, principal: str) -> Refusal | None:
    """Refuse messages to topics that there are not, and cursors of somebody else's subscriptions.

    The node's own actors move any cursor: they say what those who read from them have acknowledged.
    """
    (head,) = content
    topics, subscriptions = tables.of(Topics), tables.of(Subscriptions)
    if missing := sorted({run.topic_id for run in head.runs if run.topic_id not in topics}):
        cause = f"there is no topic with the id {', '.join(map(str, missing[:MISSING_TOLD]))}, or it is gone"
        return Refusal(RefusalCode.UNKNOWN_TOPIC, cause, "look at `albireo topic list`, and open it anew by its name")
    if kind_of(principal) is not PrincipalKind.LOCAL:
        owners = {one: subscriptions.find(one) for one in {move.subscription_id for move in head.moves}}
        if any(one is not None and one.principal != principal for one in owners.values()):
            return Refusal(RefusalCode.NOT_OWNER, f"a subscription whose cursor moves is not of {principal!r}")
    return None


PUTS: Final = Contents(
    stream=Stream.PUTS,
    kind=Kind.PUTS,
    read=lambda header, body: (puts.decode_head(body),),
    cost=lambda header: COST,
    check=lambda body, record_count: (puts.check_puts(body, record_count),),
    judge=judge,
)
