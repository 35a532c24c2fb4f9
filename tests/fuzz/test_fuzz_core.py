"""Whatever a peer says to CORE, CORE answers or drops it: no message kills it or appends what it should not.

Messages are real ones with fields changed to anything of any type, and raw parts of any bytes; what still decodes
is delivered. A node under this fire still takes a good batch.
"""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec import message as codec
from albireo.codec.errors import DecodeError
from albireo.codec.message import (
    AnyMessage,
    Append,
    AppendEntry,
    Ask,
    FeedAck,
    FeedHello,
    ProducerHello,
    ProducerWelcome,
    StopAsked,
    WriteDone,
)
from albireo.codec.questions.declared import QUESTIONS
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS
from albireo.model.position import EpochEntry, Position
from tests.long_form import examples
from tests.parts.bounds import changed, encoded, structs
from tests.parts.root import ITEMS, World, append, hello

ENTRY = (Position(1, 5), Position(1, 4))
TEMPLATES = [
    ProducerHello(producer="p1", items=ITEMS, run=1, takes_orders=True),
    ProducerHello(producer="p2", items=ITEMS[:1], run=2),
    Append(entries=(AppendEntry(1, 1, 1, 0), AppendEntry(1, 16, 1, 0))),
    WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)),
    FeedHello(follower="f", log_id=b"L" * 16, history=(EpochEntry(1, 1, 1),), position=ENTRY[0]),
    FeedHello(follower="v", mode="state"),
    FeedAck(received=ENTRY[0], durable=ENTRY[1], credit_bytes=1000),
    Ask(request_id=1, what="write", arguments={"item": "fan_set", "value": 1.0, "command_id": "c1", "user": "u"}),
    Ask(request_id=2, what="case_action", arguments={"action": "ack", "case_id": 3, "user": "u"}),
    Ask(request_id=3, what="case_action", arguments={"action": "shelve", "item_id": 1, "condition": "hi", "user": "u"}),
    Ask(request_id=4, what="read", arguments={"names": ["co_1"]}),
    Ask(request_id=5, what="cases", arguments={"include_closed": True}),
    Ask(request_id=5, what="cases", arguments={"cursor": "3", "rows_max": 2}),
    Ask(request_id=5, what="items", arguments={"cursor": "1", "rows_max": 1, "names": ["co_1", "door"]}),
    Ask(request_id=6, what="status"),
    Ask(request_id=7, what="flood"),
    StopAsked(),
]

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@st.composite
def hostile(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """The map of a message with some of its fields changed, and any raw parts."""
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(draw(st.sampled_from(TEMPLATES))))
    for _ in range(draw(st.integers(0, 3))):
        _change(draw, fields)
    return msgspec.msgpack.encode(fields), draw(st.lists(st.binary(max_size=200), max_size=3))


def _change(draw: st.DrawFn, value: Any) -> None:
    """Change one place, at any depth."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw(st.sampled_from(keys))
    inner = value[key]
    if isinstance(inner, dict | list) and inner and draw(st.booleans()):
        _change(draw, inner)
    elif key != "type":
        value[key] = draw(anything)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"plc", b"x", b"cli"]), hostile()), max_size=12))
def test_nothing_that_is_said_kills_core(letters: list[tuple[bytes, tuple[bytes, list[bytes]]]]) -> None:
    world = World()
    hello(world)
    for sender, (said, raw) in letters:
        try:
            message, _ = codec.decode([said])
        except DecodeError:
            continue
        world.letter(sender, message, raw)
        world.sync()
    world.pass_time(200 * MS)
    world.take(ProducerWelcome)

    welcome = hello(world, run=99)  # Somebody else may have said hello in its name.
    append(world, welcome, welcome.last_sequence + 1, [1.0])
    world.sync()
    known = world.root.admission.producers.find("p1")
    assert known is not None
    assert known.last_sequence == welcome.last_sequence + 1


def test_no_extreme_value_of_any_field_kills_core() -> None:
    """Every message that the decoder takes with one field at its bounds, from the adapter and from a stranger."""
    world = World()
    hello(world)
    for kind in structs(AnyMessage):
        for value, is_within in changed(kind):
            if not is_within or len(encoded(value)) > 1_000_000:
                continue
            message, _ = codec.decode([encoded(value)])
            for sender in (b"plc", b"x"):
                world.letter(sender, message, [b"x"])
        world.sync()
        world.pass_time(200 * MS)
    world.sent.clear()
    welcome = hello(world, run=99)
    append(world, welcome, welcome.last_sequence + 1, [1.0])
    world.sync()
    assert world.root.samples_committed == 1


FILLED: dict[str, object] = {
    "item": "fan_set", "value": 1.0, "command_id": "c9", "selection_id": "s9", "reason": "r", "user": "u",
    "for_ms": 1_000, "case_id": 3, "action": "ack", "session_id": 1, "names": ["co_1"], "items": ["co_1"],
    "principal": "mes-1", "role": "view", "door": "desk", "name": "plant.events", "subscriber": "billing",
    "patterns": ["plant.events"],
}  # fmt: skip
"""Arguments by which a question is about something that there is."""
SCALARS = (float("nan"), float("inf"), -1e308, 2**63 - 1, -(2**63), 2**64 - 1, True, "", "ü" * 10_000, None, b"x")


def test_no_extreme_value_of_any_argument_of_a_question_kills_core() -> None:
    """Each argument of each question at and beyond its bounds, alone and with all others as they should be."""
    world = World()
    hello(world)
    asked = 0
    for kind in QUESTIONS.values():
        (shape,) = structs(kind.shape)
        known = {name: FILLED[name] for name in kind.arguments if name in FILLED}
        extreme = [value for value, _ in changed(shape) if len(encoded(value)) <= 1_000_000]
        extreme += [{name: one} for name in kind.arguments for one in SCALARS]
        for value in extreme:
            for arguments in (value, known | value):
                asked += 1
                world.letter(b"x", Ask(request_id=asked, what=kind.name, arguments=arguments))
        world.sync()
        world.pass_time(200 * MS)
    assert asked > 1_000
    world.sent.clear()
    welcome = hello(world, run=99)
    append(world, welcome, welcome.last_sequence + 1, [1.0])
    world.sync()
    assert world.root.samples_committed == 1
