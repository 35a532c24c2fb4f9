"""Every field that arrives from somebody else has a bound, or a reason stands here why it has none (ADR-0151).

A new message, record, table or field without a bound fails.
"""

from typing import Any

import msgspec
import pytest

from albireo.codec import history_copy
from albireo.codec.bounds import OPEN_BYTES_MAX
from albireo.codec.errors import DecodeError
from albireo.codec.message import OPEN, Answer, AnyMessage, Ask, FeedAck, decode, encode
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.record import Record, decode_records, encode_body
from albireo.machine.fold.declared import shapes
from albireo.model.bounded import INT64_MAX
from tests.parts.bounds import changed, encoded, structs, unbounded
from tests.parts.root import World

REASONS = {
    "Ask.arguments": "bounded by the size of a part; taken in the shape of its question only, which has bounds",
    "Answer.result": "bounded by the size of a part; only whoever asked reads it, once",
    "Logged.fields": "64 fields; the link of the logger takes 1 MiB (node/logger.py)",
    "Frames.payload": "the raw part takes its place (PairMembership._from_peer)",
    "FoldsSent.payload": "the raw part takes its place",
    "RangeSent.payload": "the raw part takes its place",
    "TablePart.rows": "bounded by the rows of its table, which stand in this list too",
}
SHAPES = {one.shape for one in QUESTIONS.values()}
KINDS = World().root.tree.kinds
MESSAGES = structs(AnyMessage)
ARRIVING = {
    "messages": MESSAGES,
    "words between histories": structs(history_copy.Word),
    "records": structs(Record),
    "rows of tables": [one for shape in shapes().values() for one in structs(shape.row)],
    "bodies of messages": [one for kind in KINDS if kind.is_executed_here for one in structs(kind.body)],
    "arguments of questions": [one for shape in SHAPES for one in structs(shape)],
}
"""All that a peer, a child, a parent, a client or an adapter sends, by the union that decodes it."""


def test_every_field_that_arrives_has_a_bound_or_a_reason() -> None:
    """At any depth; a number has both ends, within what is stored of it."""
    found = {where for some in ARRIVING.values() for one in some for where in unbounded(one, "")}
    assert found == REASONS.keys()


@pytest.mark.parametrize("record", structs(Record), ids=lambda one: one.cls.__name__)
def test_a_record_with_a_field_out_of_bounds_is_malformed(record: Any) -> None:
    for value, is_within in changed(record):
        body = encode_body(1, 1, encoded([value]))
        try:
            decode_records(body, 1)
            is_taken = True
        except DecodeError:
            is_taken = False
        assert is_taken == is_within, repr(value)[:200]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.cls.__name__)
def test_a_message_with_a_field_out_of_bounds_is_malformed(message: Any) -> None:
    """Each field at any depth, at its bound and one beyond."""
    for value, is_within in changed(message):
        try:
            decode([encoded(value)])
            is_taken = True
        except DecodeError:
            is_taken = False
        assert is_taken == is_within, repr(value)[:200]


def test_a_number_that_a_machine_brings_into_bounds_itself_is_taken() -> None:
    assert decode([encoded({"type": "feed_ack", "received": [1, 1], "durable": [1, 1], "credit_bytes": -1})])[0] == (
        msgspec.convert({"type": "feed_ack", "received": [1, 1], "durable": [1, 1], "credit_bytes": -1}, FeedAck)
    )
    message, _ = decode([encoded({"type": "ask", "request_id": INT64_MAX, "what": "x" * 10_000})])
    assert isinstance(message, Ask)


def test_messages_of_any_content_are_known() -> None:
    fields = [where.partition(".") for where in REASONS]
    anything = {name for name, _, field in fields if field in ("arguments", "result", "fields", "payload")}
    assert {one.__name__ for one in OPEN} == anything


def test_a_large_map_of_any_content_is_refused_save_an_answer_that_was_asked_for() -> None:
    """Empty lists take 70 times their size when they are decoded."""
    content: list[object] = [[]] * OPEN_BYTES_MAX
    answer = encode(Answer(request_id=1, result=content))
    assert decode(answer, takes_answers=True)[0] == Answer(request_id=1, result=content)
    for parts in (answer, encode(Ask(request_id=1, what="x", arguments={"a": content}))):
        with pytest.raises(DecodeError):
            decode(parts, takes_answers=False)
    with pytest.raises(DecodeError):
        decode(parts, takes_answers=True)
