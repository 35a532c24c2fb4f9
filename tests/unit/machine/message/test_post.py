"""The post: messages as CORE has them, with real folds, orders and turns; three nodes in a row."""

import pytest

from albireo.codec.tree.letters import MessageTold
from albireo.machine.message.events import SendAsked
from albireo.model.command import Outcome
from albireo.model.instant import MS
from albireo.model.tree.message import AddCause, Life, MessageName, MessageOutcome
from tests.parts.message_core import exchange
from tests.parts.post import MIDDLE, SITE, TOP, end_told, link, tree, write
from tests.parts.refusals import refused_with


def test_a_write_goes_down_two_levels_and_its_read_back_comes_up() -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    (order,) = cores[SITE].orders_sent
    assert order.value == 40.0
    command = cores[SITE].folds.commands.find(order.command_id)
    assert command is not None
    assert (command.command.user, command.command.principal, command.command.reason) == ("ann", "operator", "smoke")
    assert command.command.expires_ms <= 5_000
    cores[SITE].carried_out()
    exchange(cores)
    assert (end_told(cores[TOP])["outcome"], end_told(cores[TOP])["read_back"]) == ("verified", 40.0)
    assert not cores[TOP].folds.messages.outbox.open and not cores[SITE].folds.messages.inbox.rows
    assert not cores[MIDDLE].folds.messages.inbox.origins, "a node on the way keeps nothing"


@pytest.mark.parametrize(
    ("asked", "cause", "words"),
    [
        (write(item="pump"), AddCause.NOT_SUPPORTED, "no item"),
        (write(value=400.0), AddCause.INCONSISTENT_PARAMETERS, "above the maximum"),
        (write(body=b"\xc1"), AddCause.INCONSISTENT_PARAMETERS, "no write"),
    ],
)
def test_the_owner_rejects_what_it_will_not_do(asked: SendAsked, cause: AddCause, words: str) -> None:
    cores = tree()
    cores[TOP].ask(asked)
    exchange(cores)
    assert cores[SITE].orders_sent == []
    end = end_told(cores[TOP])
    assert (end["outcome"], end["cause"]) == ("rejected", cause.value)
    assert words in end["detail"]


@pytest.mark.parametrize("outcome", [Outcome.MISMATCHED, Outcome.EXECUTED, Outcome.UNKNOWN, Outcome.EXPIRED])
def test_the_outcome_of_the_order_is_that_of_the_message(outcome: Outcome) -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    cores[SITE].carried_out(outcome)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == outcome.value


def test_the_same_command_id_is_the_same_message() -> None:
    cores = tree()
    cores[TOP].ask(write(), request_id=1)
    cores[TOP].ask(write(), request_id=2)
    exchange(cores)
    cores[SITE].carried_out()
    exchange(cores)
    cores[TOP].ask(write(), request_id=3)
    assert [one.request_id for one in cores[TOP].answers] == [1, 2, 3]
    assert cores[SITE].orders_sent == []


def test_a_message_is_taken_back() -> None:
    cores = tree()
    cores[TOP].ask(write())
    cores[TOP].letters.clear()
    assert cores[TOP].cancel("c1") is None
    assert (end_told(cores[TOP])["outcome"], end_told(cores[TOP])["cause"]) == ("rejected", "abortion-by-cancel")
    assert cores[TOP].cancel("c1") is not None
    assert cores[TOP].cancel("c2") is not None


def test_a_successor_gives_the_outcome_that_the_log_has() -> None:
    """The order ended, and the node died before the message's own record: it is not given again."""
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    cores[SITE].carried_out()
    site = cores[SITE]
    done = next(i for i, one in enumerate(site.frames) if b"message_done" in bytes(one.body))
    site.begin(continues=True, frames=done)
    link(cores)
    site.letters.clear()
    cores[TOP].letters.clear()
    cores[TOP].pass_ms(1_000)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == "verified"
    assert site.orders_sent == []


@pytest.mark.parametrize(("continues", "outcome"), [(True, "expired"), (False, "unknown")])
def test_an_order_that_the_log_lacks_was_never_given_only_if_the_store_is_proven(continues: bool, outcome: str) -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    site = cores[SITE]
    ordered = next(i for i, one in enumerate(site.frames) if b"expires_ms" in bytes(one.body))
    site.begin(continues=continues, frames=ordered)
    link(cores)
    site.letters.clear()
    cores[TOP].pass_ms(1_000)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == outcome


def test_a_letter_over_a_link_beyond_which_its_sender_is_not_is_refused() -> None:
    cores = tree()
    name = MessageName("root/south", "root/north/pump", Life(1, 1), 1)
    cores[SITE].hear(b"stranger", MessageTold(name=name, low=1, since=1, size=1))
    cores[MIDDLE].hear(SITE, MessageTold(name=name, low=1, since=1, size=1))
    assert (cores[SITE].post.not_theirs, cores[MIDDLE].post.not_theirs) == (1, 1)
    assert not cores[SITE].letters and not cores[MIDDLE].letters


def test_whoever_waits_is_sent_to_the_member_that_acts_when_the_lead_changes() -> None:
    cores = tree()
    cores[TOP].ask(write())
    turn = cores[TOP].turn()
    cores[TOP].post.suspend(turn)
    cores[TOP].settle(turn)
    (answer,) = cores[TOP].answers
    assert "ask again" in refused_with(answer)
    cores[TOP].ask(write(command_id="c2"))
    assert cores[TOP].refused is not None


def test_a_snapshot_of_the_folds_has_the_messages() -> None:
    cores = tree()
    for number in range(3):
        cores[TOP].ask(write(command_id=f"c{number}"))
    exchange(cores)
    cores[SITE].carried_out()
    exchange(cores)
    for core in cores.values():
        sections = core.folds.snapshot()
        again = type(core.folds).restore(sections, core.folds.log_time_ms)
        assert again.snapshot() == sections
        assert list(again.messages.outbox.open) == list(core.folds.messages.outbox.open)
        assert list(again.messages.inbox.rows) == list(core.folds.messages.inbox.rows)
    assert MessageOutcome.VERIFIED in {one.end.outcome for one in cores[TOP].folds.messages.outbox.receipts}


def test_nothing_is_due_of_a_message_whose_stop_is_on_its_way_into_the_log() -> None:
    """Found by the simulated tree: turn after turn was due until the disk had the record."""
    cores = tree()
    core = cores[TOP]
    core.ask(write())
    exchange(cores)
    core.now += 5_100 * MS
    core.post.time_passed(core.moment, core.log_time, core.turn())
    core.now += 100 * MS
    due = core.post.deadline(core.moment, core.log_time)
    assert due is None or due > core.now
