"""Courses: the life cycle of a command at its origin and at its owner, as the records of both tell it."""

import pytest

from albireo.machine.message.courses import Courses
from albireo.model.command import Outcome
from albireo.model.instant import MS
from tests.parts.courses import course, stages
from tests.parts.message_core import exchange
from tests.parts.post import SITE, TOP, link, tree, write


def test_each_stage_has_its_time_and_its_node_at_both_ends() -> None:
    cores = tree()
    cores[TOP].ask(write(subject="pump:fan = 40.0"))
    one = course(cores[TOP])
    assert (one.state, stages(one)) == ("told", ["requested", "authorised", "told"])
    assert one.left_ms is not None and 0 < one.left_ms <= 5_000
    for core in cores.values():
        core.now += 7 * MS
    exchange(cores)
    assert [course(cores[key]).state for key in (TOP, SITE)] == ["executing", "executing"]
    for core in cores.values():
        core.now += 2 * MS
    cores[SITE].carried_out()
    exchange(cores)
    above, below = course(cores[TOP]), course(cores[SITE])
    assert above.way == below.way == ("root", "root/north", "root/north/pump")
    assert [(step.stage, step.node, step.at_ns // MS) for step in above.steps] == [
        ("requested", "root", 1_000),
        ("authorised", "root", 1_000),
        ("told", "root", 1_000),
        ("accepted", "root/north/pump", 1_007),
        ("executing", "root/north/pump", 1_007),
        ("verified", "root/north/pump", 1_009),
    ]
    assert stages(below) == ["requested", "authorised", "accepted", "executing", "verified"]
    assert above.guid == below.guid != ""
    for one in (above, below):
        assert (one.command_id, one.subject) == ("c1", "pump:fan = 40.0")
        assert (one.user, one.principal, one.reason) == ("ann", "operator", "smoke")
        assert (one.state, one.cause, one.read_back, one.left_ms) == ("verified", "none", 40.0, None)


def test_the_order_that_a_message_became_is_told_as_that_message() -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    (order,) = cores[SITE].orders_sent
    assert course(cores[SITE], order.command_id) == course(cores[SITE])
    told = Courses(cores[SITE].post.messages, cores[SITE].folds.commands, cores[SITE].folds.dim)
    assert len(told.latest(10, cores[SITE].log_time, cores[SITE].moment.wall)) == 1


def test_what_the_origin_says_itself_is_its_own_word() -> None:
    cores = tree()
    cores[TOP].ask(write())
    cores[TOP].letters.clear()
    assert cores[TOP].cancel("c1") is None
    one = course(cores[TOP])
    assert (one.state, one.cause, one.steps[-1].node) == ("cancelled", "abortion-by-cancel", "root")


def test_a_takeover_leaves_out_times_that_nobody_knows_any_more() -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    cores[TOP].begin(continues=True)
    link(cores)
    cores[SITE].carried_out()
    exchange(cores)
    assert stages(course(cores[TOP])) == ["requested", "authorised", "accepted", "executing", "verified"]


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Outcome.VERIFIED, "none"),
        (Outcome.MISMATCHED, "abortion-due-to-deviation"),
        (Outcome.REJECTED, "blocked-by-process"),
        (Outcome.UNKNOWN, "unknown"),
    ],
)
def test_an_outcome_has_a_cause(outcome: Outcome, cause: str) -> None:
    cores = tree()
    cores[TOP].ask(write())
    exchange(cores)
    cores[SITE].carried_out(outcome)
    exchange(cores)
    assert [(course(cores[key]).state, course(cores[key]).cause) for key in (TOP, SITE)] == [(outcome, cause)] * 2


def test_a_snapshot_tells_the_same_courses() -> None:
    cores = tree()
    for number in range(3):
        cores[TOP].ask(write(command_id=f"c{number}"))
    exchange(cores)
    cores[SITE].carried_out()
    exchange(cores)
    for core in (cores[TOP], cores[SITE]):
        again = type(core.folds).restore(core.folds.snapshot(), core.folds.log_time_ms)
        assert list(again.messages.outbox.receipts) == list(core.folds.messages.outbox.receipts)
        assert list(again.messages.inbox.receipts) == list(core.folds.messages.inbox.receipts)
        assert again.messages.inbox.unfinished() == core.folds.messages.inbox.unfinished()


def test_nothing_is_told_of_a_command_that_nobody_knows() -> None:
    core = tree()[TOP]
    told = Courses(core.post.messages, core.folds.commands, core.folds.dim)
    assert told.find("c9", core.log_time, core.moment.wall) is None
