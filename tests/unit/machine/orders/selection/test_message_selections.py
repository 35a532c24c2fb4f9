"""Selections that messages order at the node that owns the item, and orders of messages that use them."""

from typing import Any

import msgspec
import pytest

from albireo.codec.record import CommandRequested, ItemDeclared, ItemSelected, SelectionEnded, Stream, decode_records
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.selection.kinds import Deselect, Select
from albireo.machine.orders.selection.selecting import DeselectBody, SelectBody
from albireo.machine.orders.write.kinds import WriteBody
from albireo.model.command import SELECT_MS
from albireo.model.instant import MS
from albireo.model.item import Control
from albireo.model.tree.message import AddCause
from tests.parts.courses import course, stages
from tests.parts.message_core import FAN, MessageCore, exchange
from tests.parts.post import SITE, TOP, link, tree, write

Cores = dict[bytes, MessageCore]


def asking() -> Cores:
    """The fan at the site asks to be selected."""
    cores = tree()
    turn = cores[SITE].turn()
    item = msgspec.structs.replace(FAN.item, control=Control.SELECT)
    turn.record(Stream.STATE, [ItemDeclared(item_id=FAN.item_id, node="root/north/pump", item=item)])
    cores[SITE].settle(turn)
    cores[SITE].begin(continues=True)
    link(cores)
    return cores


def message(body: SelectBody | DeselectBody, command_id: str, **values: Any) -> SendAsked:
    kind = Select.question.name if isinstance(body, SelectBody) else Deselect.question.name
    return write(kind=kind, body=msgspec.msgpack.encode(body), command_id=command_id, **values)


def select(selection_id: str = "s1", **values: Any) -> SendAsked:
    return message(SelectBody("fan", selection_id, SELECT_MS), selection_id, **values)


def order(selection: str = "s1", command_id: str = "c1", **values: Any) -> SendAsked:
    return write(body=msgspec.msgpack.encode(WriteBody("fan", 40.0, selection)), command_id=command_id, **values)


def ended(cores: Cores, asked: SendAsked) -> tuple[str, str, str]:
    """Outcome, cause and detail of a message, as its origin is told."""
    cores[TOP].answers.clear()
    cores[TOP].ask(asked)
    exchange(cores)
    if cores[SITE].orders_sent:
        cores[SITE].carried_out()
        exchange(cores)
    (answer,) = cores[TOP].answers
    result: Any = answer.result
    end = result.get("end", result)
    return end["outcome"], end["cause"], end["detail"]


def records(core: MessageCore, kind: type) -> list[Any]:
    found = [one for frame in core.frames for one in decode_records(frame.body, frame.header.record_count)]
    return [one for one in found if isinstance(one, kind)]


def test_it_is_selected_and_written_from_two_levels_above_and_both_ends_tell_it() -> None:
    cores = asking()
    assert ended(cores, select()) == ("executed", "none", "selected")
    (selected,) = records(cores[SITE], ItemSelected)
    assert (selected.selection_id, selected.user, selected.principal, selected.reason) == (
        "s1", "ann", "operator", "smoke",
    )  # fmt: skip
    for core in cores.values():
        core.now += 5 * MS
    assert ended(cores, order())[0] == "verified"
    assert [one.cause for one in records(cores[SITE], SelectionEnded)] == ["operated"]
    for key in (TOP, SITE):
        one = course(cores[key])
        assert stages(one)[:3] == ["selected", "requested", "authorised"]
        assert (one.steps[0].at_ns, one.steps[0].node) == (selected.since_ns, "root/north/pump")
    assert ended(cores, order(command_id="c2"))[:2] == ("rejected", AddCause.OBJECT_NOT_SELECTED.value)


@pytest.mark.parametrize(
    "asked", [order(""), order("s2"), order(principal="bob")], ids=["without one", "another one", "another principal"]
)
def test_an_order_without_the_live_selection_of_its_principal_is_rejected_by_the_owner(asked: SendAsked) -> None:
    cores = asking()
    ended(cores, select())
    assert ended(cores, asked)[:2] == ("rejected", "object-not-selected")
    assert records(cores[SITE], CommandRequested) == []
    assert ended(cores, order(command_id="c2"))[0] == "verified", "the selection is as it was"


def test_a_second_selector_hears_who_has_it() -> None:
    cores = asking()
    ended(cores, select())
    outcome, cause, detail = ended(cores, select("s2", user="bob", principal="bob"))
    assert (outcome, cause) == ("rejected", "object-already-selected")
    assert "ann (operator) has selected fan" in detail


def test_it_is_given_back_from_above() -> None:
    cores = asking()
    ended(cores, select())
    assert ended(cores, message(DeselectBody("fan", "s2"), "d1"))[1] == "object-not-selected"
    assert ended(cores, message(DeselectBody("fan", "s1"), "d2")) == ("executed", "none", "deselected")
    assert ended(cores, select("s2", principal="bob"))[0] == "executed"


@pytest.mark.parametrize("kind", ["select", "deselect"])
def test_a_body_that_is_none_is_rejected(kind: str) -> None:
    outcome, cause, detail = ended(asking(), write(kind=kind, body=b"\xc1"))
    assert (outcome, cause) == ("rejected", "inconsistent-parameters")
    assert f"no {kind}" in detail


def test_an_owner_that_stopped_in_between_says_that_it_does_not_know() -> None:
    """It has the message on record, and nothing behind that."""
    cores = asking()
    cores[TOP].ask(select())
    deliver_until(cores, ItemSelected)
    site = cores[SITE]
    behind = next(at for at, one in enumerate(site.frames) if b"select_ended" in one.body or b"since_ns" in one.body)
    site.begin(continues=True, frames=behind)
    link(cores)
    site.letters.clear()
    cores[TOP].pass_ms(1_000)
    exchange(cores)
    one = course(cores[TOP], "s1")
    assert (one.state, one.cause) == ("unknown", "abortion-by-communication-loss")
    assert "select the item again" in one.detail


def deliver_until(cores: Cores, kind: type) -> None:
    """Deliver letters until the site has a record of this kind; what it says then is lost."""
    names = {core.node: key for key, core in cores.items()}
    while not records(cores[SITE], kind):
        for core in cores.values():
            while core.letters and not records(cores[SITE], kind):
                to, letter = core.letters.popleft()
                cores[to].hear(names[core.node], letter)
    for core in cores.values():
        core.letters.clear()
