"""Contents of the stream of puts: read and folded by the head, and judged by what it names."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final

from albireo.codec import puts, reference
from albireo.codec.puts import PutHead, PutRun
from albireo.codec.record import Kind, Stream
from albireo.machine.fold.contents import Contents
from albireo.machine.fold.topics.keys import TopicKeys
from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import Tables
from albireo.model.principal import PrincipalKind, kind_of, may_be_one
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.topic import KEYS_MAX, WhenFull

MISSING_TOLD: Final = 10
COST: Final = 80


def judge(tables: Tables, content: Any, principal: str, *, stream: Stream = Stream.PUTS) -> Refusal | None:
    """Refuse messages to topics that there are not, or of another stream, and cursors of others' subscriptions.

    The node's own actors move any cursor: they say what those who read from them have acknowledged.
    """
    (head,) = content
    topics, subscriptions = tables.of(Topics), tables.of(Subscriptions)
    if missing := sorted({run.topic_id for run in head.runs if run.topic_id not in topics}):
        cause = f"there is no topic with the id {', '.join(map(str, missing[:MISSING_TOLD]))}, or it is gone"
        return Refusal(RefusalCode.UNKNOWN_TOPIC, cause, "look at `albireo topic list`, and open it anew by its name")
    is_node = kind_of(principal) is PrincipalKind.LOCAL
    named = [one.topic_id for one in (head.runs if is_node else (*head.runs, *head.moves))]
    for topic in filter(None, map(topics.find, named)):
        if topic.stays_here != (stream is Stream.OWN_PUTS):
            cause = f"messages of {topic.name!r} are {'' if topic.stays_here else 'not '}kept with one member only"
            return Refusal(
                RefusalCode.BAD_VALUE, cause, "put to such topics, and acknowledge theirs, apart from others"
            )
    if not is_node:
        if head.leases:
            return Refusal(
                RefusalCode.NOT_OWNER, "the node itself gives messages of a shared subscription to consumers"
            )
        owners = {one: subscriptions.find(one) for one in {move.subscription_id for move in head.moves}}
        if any(one is not None and not may_be_one(one.principal, principal) for one in owners.values()):
            return Refusal(RefusalCode.NOT_OWNER, f"a subscription whose cursor moves is not of {principal!r}")
    cursors = tables.of(Cursors)
    for run in head.runs:
        if (full := _full(tables, run, is_transaction=bool(head.moves))) is not None:
            return full
    keys = tables.of(TopicKeys)
    topic_ids = _topics_of_keys(head)
    if (objection := _keys_objection(tables, head, topic_ids)) is not None:
        return objection
    objections = (cursors.objection(move, is_node=is_node) for move in head.moves)
    if (objection := next((one for one in objections if one is not None), None)) is None:
        cursors.appended((*head.moves, *head.leases))
        keys.appended(topic_ids, head.keys)
    return objection


def _topics_of_keys(head: PutHead) -> list[int]:
    """Topic of each key."""
    ends = list(accumulate(run.count for run in head.runs))
    return [head.runs[bisect_right(ends, one.index)].topic_id for one in head.keys]


def _keys_objection(tables: Tables, head: PutHead, topic_ids: Sequence[int]) -> Refusal | None:
    """Why the keys of a batch can't be taken."""
    topics, keys = tables.of(Topics), tables.of(TopicKeys)
    counts = Counter(topic_ids)
    for topic_id, count in _counts(head).items():
        topic = topics.find(topic_id)
        if topic is not None and counts[topic_id] != count * topic.policy.last_value:
            cause = f"each message of the topic {topic.name!r} has a key in the head of its batch, or none has"
            return Refusal(RefusalCode.BAD_VALUE, cause, "put with a key, or look at the topic's policy")
    if head.keys and len(keys) + len(head.keys) > KEYS_MAX:
        return Refusal(RefusalCode.FULL, f"{KEYS_MAX} keys are kept", "delete some of them first")
    found = (keys.objection(topic_id, one) for topic_id, one in zip(topic_ids, head.keys, strict=True))
    return next((one for one in found if one is not None), None)


def _counts(head: PutHead) -> dict[int, int]:
    """Number of messages of each topic."""
    counts: dict[int, int] = {}
    for run in head.runs:
        counts[run.topic_id] = counts.get(run.topic_id, 0) + run.count
    return counts


def _full(tables: Tables, run: PutRun, *, is_transaction: bool) -> Refusal | None:
    """Why a topic has no room for more messages. Those under way are not counted: with them it may have some more."""
    topic, cursors = tables.of(Topics).find(run.topic_id), tables.of(Cursors)
    assert topic is not None
    policy = topic.policy
    if policy.drops_oldest or not (policy.max_messages or policy.max_bytes):
        return None
    slowest = cursors.slowest(topic)
    read = topic.count if slowest is None else max(slowest.low, topic.gone)
    held, held_bytes = topic.count - read, topic.held_bytes(read)
    has_room = not policy.max_messages or held + run.count <= policy.max_messages
    topics = tables.of(Topics)
    if has_room and (not policy.max_bytes or held_bytes + run.size_bytes <= policy.max_bytes):
        topics.full_since_ms.pop(topic.topic_id, None)
        return None
    known = None if slowest is None else tables.of(Subscriptions).find(slowest.subscription_id)
    cause = f"the topic {topic.name!r} is full: {held} messages are not acknowledged"
    if known is not None:
        cause += f" by {known.subscriber!r}"
    if policy.when_full is WhenFull.BLOCK and not is_transaction and known is not None:
        since_ms = topics.full_since_ms.setdefault(topic.topic_id, topics.now_ms)
        cause += f", for {(topics.now_ms - since_ms) // 1_000} s"
        return Refusal(RefusalCode.HELD_UP, cause, "let it read on, or end its subscription")
    return Refusal(RefusalCode.FULL, cause, "put less at once, let the subscriber read on, or change the policy")


def _contents(stream: Stream) -> Contents:
    return Contents(
        stream=stream,
        kind=Kind.PUTS,
        read=lambda header, body: (puts.decode_head(body),),
        cost=lambda header: COST,
        check=lambda body, record_count: (puts.check_puts(body, record_count),),
        judge=partial(judge, stream=stream),
        may_be_private=stream is Stream.OWN_PUTS,
    )


PUTS: Final = (
    _contents(Stream.PUTS),
    _contents(Stream.OWN_PUTS),
    Contents(
        stream=Stream.OWN_PUTS,
        kind=Kind.REFERENCE,
        read=lambda header, body: (reference.decode_head(body),),
        cost=lambda header: COST,
    ),
)
