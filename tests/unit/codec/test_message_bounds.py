"""Every field that a peer chooses has a bound, or a reason stands here why it has none (ADR-0151).

A new message, or a new field, without a bound fails.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import albireo
from albireo.codec.bounds import OPEN_BYTES_MAX
from albireo.codec.errors import DecodeError
from albireo.codec.message import OPEN, Answer, AnyMessage, Ask, FeedAck, decode, encode
from albireo.codec.record import Audited
from albireo.machine.answers.answers import ItemsAsked, Nothing
from albireo.machine.answers.cases import CaseActionAsked, CasesAsked
from albireo.machine.answers.forces import ForcesAsked
from albireo.machine.answers.orders import CancelAsked, CommandAsked, CommandsAsked
from albireo.machine.answers.posts import BecomeAsked, MessageAsked, ReceiveAsked, TakeAsked
from albireo.machine.answers.selections import DeselectAsked, SelectAsked, SelectionsAsked
from albireo.machine.answers.sessions import OwnSessionAsked, SessionEndAsked, SessionsAsked
from albireo.machine.fold import ActionAsked
from albireo.machine.fold.declared import shapes
from albireo.machine.orders.case.acting import CaseActBody
from albireo.machine.orders.force.forcing import ItemForceAsked, ReleaseAsked
from albireo.machine.orders.write.orders import WriteAsked
from albireo.machine.table.told import AnyShape
from albireo.model.bounded import INT64_MAX
from albireo.model.case import Case
from albireo.model.command import Receipt
from albireo.model.item import DataItem
from albireo.node.history.questions import PIECES, HotQuestion, ItemQuestion, NodeQuestion
from albireo.node.member.admin_actions import MaintenanceAsked, PlainAction
from albireo.node.member.joint_stop import StopNowAsked
from albireo.node.member.voter_admission import InitAsked, ResetAsked
from tests.parts.bounds import changed, encoded, structs, unbounded

REASONS = {
    "Ask.arguments": "bounded by the size of a part; taken in the shape of its question only, which has bounds",
    "Answer.result": "bounded by the size of a part; only whoever asked reads it, once",
    "Logged.fields": "64 fields; the link of the logger takes 1 MiB (node/logger.py)",
    "Frames.payload": "the raw part takes its place (PairMembership._from_peer)",
    "FoldsSent.payload": "the raw part takes its place",
    "RangeSent.payload": "the raw part takes its place",
    "TablePart.rows": "bounded by the rows of its table (test_every_field_of_every_row_has_a_bound)",
    "KnownItem.item_id": "a CORE's word to its followers, of what it has recorded",
    "KnownItem.node": "a CORE's word to its followers, of what it has recorded",
}
RECORDED: dict[type, str] = {
    DataItem: "Registry.objection: names and texts (test_root.py, test_a_hello_with_endless_texts_is_refused)",
    Receipt: "_recordable in orders.py: cut, or unknown (test_root.py, test_an_endless_receipt_is_cut)",
    Audited: "AuditTrail.heard: bounds.objection (test_audit_trail.py)",
    Case: "a CORE's word to its followers, of what it has recorded",
}
"""Types of the log in messages. They have no bounds of their own, because older logs may hold records beyond them."""
SHAPES: tuple[type, ...] = (
    *PIECES.values(),
    *(Nothing, ItemsAsked, CasesAsked, CaseActionAsked, CaseActBody, WriteAsked, ActionAsked),
    *(HotQuestion, ItemQuestion, NodeQuestion),
    *(BecomeAsked, CancelAsked, MessageAsked, ReceiveAsked, TakeAsked),
    *(SelectAsked, DeselectAsked, SelectionsAsked),
    *(CommandAsked, CommandsAsked, ItemForceAsked, ReleaseAsked, ForcesAsked),
    *(OwnSessionAsked, SessionsAsked, SessionEndAsked),
    *(MaintenanceAsked, PlainAction, StopNowAsked, InitAsked, ResetAsked),
)
"""Arguments of all questions."""
MESSAGES = structs(AnyMessage)


def test_every_field_of_every_message_has_a_bound_or_a_reason() -> None:
    found = {where for message in MESSAGES for where in unbounded(message, "", frozenset(RECORDED))}
    assert found == REASONS.keys()


@pytest.mark.parametrize("kind", shapes().values(), ids=shapes())
def test_every_field_of_every_row_has_a_bound(kind: AnyShape) -> None:
    (found,) = structs(kind.row)
    assert list(unbounded(found, "", frozenset())) == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.__name__)
def test_every_argument_of_every_question_has_a_bound(shape: type) -> None:
    (found,) = structs(shape)
    assert list(unbounded(found, "", frozenset())) == []


def test_the_list_of_questions_is_complete() -> None:
    """Arguments are read with `msgspec.convert(arguments, Shape)`; those of actors come from boot, their own node."""
    names = {shape.__name__ for shape in SHAPES}
    for path in Path(albireo.__file__).parent.rglob("*.py"):
        for name in re.findall(r"msgspec\.convert\((?:\w+\.)*arguments, ([A-Z]\w+)\)", path.read_text()):
            assert name in names or name.endswith(("Arguments", "Config")), f"{path.name}: {name}"


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
    message, _ = decode([encoded({"type": "ask", "request_id": 2 * INT64_MAX, "what": "x" * 10_000})])
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
