"""One id names one order or message: with another content it is refused, over takeovers, restarts and the receipt."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from albireo.codec.message import Answer, Ask, ProducerHello
from albireo.codec.message_records import MessageRequested
from albireo.codec.record import CommandRequested
from albireo.machine.fold.letters.outbox import MessageReceipt, digest_of
from albireo.machine.message.events import MessageTimes, SendAsked
from albireo.model.refusal import RefusalCode
from albireo.model.tree.message import MessageName
from albireo.model.tree.nodes import ChildConfig
from tests.parts.message_core import MessageCore, exchange
from tests.parts.post import SITE, TOP, link, tree, write
from tests.parts.refusals import code
from tests.parts.root import ITEMS, World

Cores = dict[bytes, MessageCore]


def asked() -> Cores:
    """Nothing of it has left."""
    cores = tree()
    cores[TOP].ask(write())
    cores[TOP].letters.clear()
    return cores


def under_way() -> Cores:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    return cores


def ended() -> Cores:
    """The body is deleted: its digest is left."""
    cores = under_way()
    cores[SITE].carried_out()
    exchange(cores)
    cores[TOP].answers.clear()
    return cores


def taken_over() -> Cores:
    cores = ended()
    cores[TOP].begin(continues=True)
    link(cores)
    return cores


def restarted() -> Cores:
    """By way of a snapshot, and in a new life."""
    cores = ended()
    folds = cores[TOP].folds
    sections = type(folds).restore(folds.snapshot(), folds.log_time_ms).snapshot()
    assert sections == folds.snapshot()
    cores[TOP].begin()
    link(cores)
    assert cores[TOP].folds.messages.outbox.receipts.get(name_of(cores)) == folds.messages.outbox.receipts.get(
        name_of(cores)
    )
    return cores


def name_of(cores: Cores) -> MessageName:
    (receipt,) = cores[TOP].folds.messages.outbox.receipts
    return receipt.name


@pytest.mark.parametrize("state", [asked, under_way, ended, taken_over, restarted])
@pytest.mark.parametrize(
    ("other", "word"),
    [
        (write(value=41.0), "content"),
        (write(item="pump"), "content"),
        (write(body=b""), "content"),
        (write(owner="root/north"), "owner"),
        (write(kind="force"), "kind"),
        (write(kind="recipe"), "kind"),
        (write(principal="somebody"), "principal"),
    ],
)
def test_another_content_under_a_known_id_is_refused_and_nothing_is_done(
    state: Callable[[], Cores], other: SendAsked, word: str
) -> None:
    cores = state()
    before = len(cores[TOP].frames)
    cores[TOP].ask(other)
    told = cores[TOP].refused
    assert told is not None and told.code == RefusalCode.ID_REUSED
    assert f"another {word}" in told.cause
    assert cores[TOP].answers == []
    assert len(cores[TOP].frames) == before


@pytest.mark.parametrize("state", [ended, taken_over, restarted])
@pytest.mark.parametrize("same", [{}, {"reason": "again"}, {"expires_ms": 9_000}, {"user": "bob"}])
def test_the_same_content_is_answered_with_what_became_of_it(state: Callable[[], Cores], same: dict[str, Any]) -> None:
    cores = state()
    cores[TOP].ask(write(**same))
    (answer,) = cores[TOP].answers
    assert isinstance(answer.result, dict)
    assert answer.result["outcome"] == "verified"


def test_a_message_on_its_way_into_the_log_has_its_id_already() -> None:
    cores = tree()
    top = cores[TOP]
    effects = top.post.messages.ask(write(), MessageTimes(top.moment.now, top.log_time, top.moment.wall))
    assert effects
    assert top.post.messages.reused(write()) is None
    refused = top.post.messages.reused(write(value=1.0))
    assert refused is not None and "content" in refused.cause


def test_a_receipt_of_which_no_digest_is_kept_is_taken_for_the_same() -> None:
    cores = ended()
    receipts = cores[TOP].folds.messages.outbox.receipts
    receipt = receipts.get(name_of(cores))
    assert isinstance(receipt, MessageReceipt) and len(receipt.digest) == len(digest_of(b"")) == 16
    receipts.replace(msgspec.structs.replace(receipt, digest=b""))
    cores[TOP].ask(write(value=41.0))
    assert len(cores[TOP].answers) == 1


# Orders here and orders elsewhere share their ids.


def both() -> World:
    """A root with an item of its own, above a node."""
    one = World(children=(ChildConfig(node="root/north", places=("root/north",), nodes=()),))
    one.letter(b"plc", ProducerHello(producer="p1", items=ITEMS, run=1, takes_orders=True))
    one.sync()
    one.take(Answer)
    return one


def say(one: World, what: str, **arguments: object) -> str:
    """The code of the refusal; empty: it was taken."""
    one.letter(b"desk", Ask(request_id=7, what=what, arguments=arguments))
    one.sync()
    return "".join(code(found) for found in one.take(Answer) if isinstance(found, Answer))


HERE = {"item": "fan_set", "value": 40.0, "command_id": "c1"}
THERE = {"node": "north", "body": b"recipe", "command_id": "c1"}


def test_an_id_of_an_order_here_is_refused_to_a_message() -> None:
    one = both()
    assert say(one, "write", **HERE) == ""
    assert say(one, "send", **THERE) == RefusalCode.ID_REUSED
    assert one.records(MessageRequested) == []


def test_an_id_of_a_message_is_refused_to_an_order_here() -> None:
    one = both()
    assert say(one, "send", **THERE) == ""
    assert say(one, "write", **HERE) == RefusalCode.ID_REUSED
    assert say(one, "send", **THERE | {"body": b"other"}) == RefusalCode.ID_REUSED
    assert say(one, "send", **THERE | {"kind": "other"}) == RefusalCode.ID_REUSED
    assert say(one, "send", **THERE) == ""
    assert one.records(CommandRequested) == []
    assert len(one.records(MessageRequested)) == 1
