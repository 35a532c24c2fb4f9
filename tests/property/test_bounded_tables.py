"""What hostile texts leave behind in CORE's root machine: tables within their bounds, however long it goes on.

Thousands of messages, each with names, ids and texts of its own, from senders that never come back; the table of
producers, which is the largest, is an eighth of its size in the short form. The log and what is folded from it is left
out: that is what was recorded, and has limits of its own.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from albireo.codec.message import (
    Append,
    AppendEntry,
    Ask,
    FeedAck,
    FeedHello,
    ProducerHello,
    RoleAsked,
    WriteDone,
    WritesEnded,
)
from albireo.machine.desk.hellos import DECLARING_MAX
from albireo.machine.desk.receipts import ANSWERS_MAX
from albireo.machine.desk.role import STANDING_BY_MAX
from albireo.machine.feed.leader import FOLLOWERS_MAX
from albireo.machine.fold.producers import EARLIER_MAX
from albireo.machine.kernel.events import LettersDrained
from albireo.machine.orders.session.sessions import LINKS_MAX, TURNED_AWAY_MAX
from albireo.machine.orders.write.outputs import SENDERS_MAX
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND
from albireo.model.position import Position
from albireo.model.settings import LimitSettings
from albireo.model.tree.session import SESSIONS_MAX
from tests.long_form import IS_LONG
from tests.parts.root import World, append, hello

pytestmark = pytest.mark.slow

ROUNDS = 4_500 if IS_LONG else 600
FOLLOWERS = {f"root.feeds.{name}" for name in ("_state._viewers", "leader.followers")}
"""Tables of more than a short form fills; `test_feed_bounds.py` does."""
AT = Position(1, 1)
LIMITS = LimitSettings(producers_max=4_096 if IS_LONG else 512)
PRODUCERS_MAX = LIMITS.producers_max
NAMES_MAX = PRODUCERS_MAX * (EARLIER_MAX + 2)
"""Lives that the registry knows senders of: the largest table there is."""


def tables(root: object, name: str) -> Iterator[tuple[str, Any]]:
    """Every container that can be reached, by its shortest way, save what belongs to the folds."""
    seen: set[int] = set()
    waiting = deque([(name, root)])
    while waiting:
        where, value = waiting.popleft()
        is_plain = isinstance(value, np.ndarray | str | bytes | int | float | type | None)
        if id(value) in seen or is_plain or type(value).__module__.startswith("albireo.machine.fold."):
            continue
        seen.add(id(value))
        if isinstance(value, dict | list | set | tuple) or hasattr(value, "popleft"):
            yield where, value
            inner = list(value.values()) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
            waiting += [(f"{where}[]", one) for one in inner[:100]]
        elif type(value).__module__.startswith("albireo."):
            names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())]
            if isinstance(value, msgspec.Struct):
                names += value.__struct_fields__
            waiting += [(f"{where}.{one}", getattr(value, one)) for one in names if hasattr(value, one)]


def sizes(world: World) -> dict[str, int]:
    return {where: len(one) for where, one in tables(world.root, "root")}


def hostile(world: World, number: int) -> None:
    """One round: each message that a program may say, with texts that nobody has said before."""
    text = f"{number}-" + "x" * 150
    sender = text.encode()
    ask = {"item": text, "value": 1.0, "command_id": text, "user": text, "reason": text}
    for message in (
        Ask(request_id=number, what=text),
        Ask(request_id=number, what="write", arguments=ask),
        Ask(request_id=number, what="write", arguments=ask | {"item": "fan_set"}),
        Ask(request_id=number, what="case_action", arguments={"action": "ack", "case_id": number, "user": text[:99]}),
        Ask(request_id=number, what="read", arguments={"names": [text]}),
        RoleAsked(adapter=text),
        WritesEnded(stand_down=0, lands_until=2**62),
        WritesEnded(stand_down=0, is_stopped=True),
        WriteDone(receipt=Receipt(command_id=text, outcome=Outcome.UNKNOWN)),
        FeedHello(follower=text),
        FeedHello(follower=text, mode="state", credit_bytes=number - 1000),
        FeedAck(received=AT, durable=AT, credit_bytes=-number),
        Append(entries=(AppendEntry(number % 7, 1, 1, 0),)),
        ProducerHello(producer=text, run=number, takes_orders=True),
    ):
        letter = (sender, message, [b"x"] if isinstance(message, Append) else [], "local:0")
        world.step(LettersDrained([letter], addresses={sender: text}))
    world.pass_time(SECOND // 20)
    world.sent.clear()
    world.notes.clear()


def test_thousands_of_hostile_texts_leave_bounded_tables() -> None:
    world = World(limits=LIMITS)
    welcome = hello(world)
    for number in range(ROUNDS):
        hostile(world, number)
    before = sizes(world)
    assert max(before.values()) <= NAMES_MAX, {where: size for where, size in before.items() if size > NAMES_MAX}
    for name, most in (
        ("outputs._stopped", SENDERS_MAX),
        ("outputs._lands_until", SENDERS_MAX),
        ("role.reaches", STANDING_BY_MAX),
        ("_hellos._declaring", DECLARING_MAX),
        ("_receipts._answers", ANSWERS_MAX),
        ("registry._adapters", PRODUCERS_MAX + 1),
        ("sessions._present", SESSIONS_MAX),
        ("sessions._links", LINKS_MAX),
        ("sessions._turned_away", TURNED_AWAY_MAX),
    ):
        assert before[f"root.{name}"] <= most, name
    for number in range(ROUNDS, ROUNDS + 300):
        hostile(world, number)
    after = sizes(world)
    assert max(after[where] for where in FOLLOWERS) <= FOLLOWERS_MAX
    if not IS_LONG:
        before |= dict.fromkeys(FOLLOWERS, FOLLOWERS_MAX)
    grown = {where: size for where, size in after.items() if size > before.get(where, 0) + 64}
    assert grown == {}, "it grows on"
    append(world, welcome, 1, [1.0])
    world.sync()
    assert world.root.samples_committed == 1, "a good batch is taken as before"
