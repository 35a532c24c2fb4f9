"""A member that took over fast, also one that has to prepare again, waits until the holder before can't write."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from albireo.machine.pair.events import ACTING, PeerGone, State
from albireo.machine.vote.voter import HolderGone
from albireo.model.instant import MS
from tests.parts.admin_actions import done
from tests.parts.pair import STEP_NS, Side, Table


@pytest.fixture
def overtaken(tmp_path: Path) -> Table:
    """A network device says that the port of the holder is closed. It lives, out of reach, and may still write."""
    table = Table(tmp_path)
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    table.sides[0].is_up = False
    run = table.sides[0].member.own.run
    for voter in table.voters.values():
        voter.step(HolderGone(run), table.now)
    table.sides[1].step(PeerGone(run))
    return table


def wait_until(table: Table, done: Callable[[], bool]) -> None:
    until = table.now + 2 * table.config.lease_ns
    while not done():
        assert table.now < until, "it did not come to that"
        table.pass_time(STEP_NS)


def wait_until_acting(table: Table, side: Side) -> None:
    wait_until(table, lambda: side.member.state in ACTING)


def wait_for_outputs(table: Table, side: Side) -> None:
    """An output order may leave."""
    wait_until(table, lambda: side.member.permit(table.now) is not None)


def test_the_outputs_wait_for_the_lease_of_the_holder_before(overtaken: Table) -> None:
    side = overtaken.sides[1]
    ends = overtaken.now + overtaken.config.lease_ns
    wait_until_acting(overtaken, side)
    assert overtaken.now < ends - 100 * MS, "it was fast"
    wait_for_outputs(overtaken, side)
    assert overtaken.now >= ends - STEP_NS


def test_they_wait_as_long_although_it_prepares_again_meanwhile(overtaken: Table) -> None:
    """Found among 7,000 worlds (seed 206662): the second grant, which is no takeover, let them go at once."""
    side = overtaken.sides[1]
    ends = overtaken.now + overtaken.config.lease_ns
    wait_until_acting(overtaken, side)
    epoch = side.log.history.epoch
    for voter in list(overtaken.voters.values())[:2]:
        assert voter.store is not None
        voter.store = replace(voter.store, promised=epoch + 1, promised_run=overtaken.sides[0].member.own.run)
    wait_until(overtaken, lambda: side.log.history.epoch > epoch)
    wait_until_acting(overtaken, side)
    assert overtaken.now < ends, "the story is about what happens before that"
    wait_for_outputs(overtaken, side)
    assert overtaken.now >= ends - STEP_NS


def test_they_wait_for_the_own_promise_although_no_voter_counts_a_lease_any_more(tmp_path: Path) -> None:
    """The holder went on by the word of this member alone (4b): its permit is known to nobody else."""
    table = Table(tmp_path)
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    table.silent = set(table.voters)
    table.pass_time(2 * table.config.lease_and_drift)
    assert table.states() == (State.ACTIVE, State.READY)
    before = table.sides[0].member.permit(table.now)
    assert before is not None and before.not_after > table.now + 300 * MS
    table.sides[0].is_up = False
    table.silent = set()
    run = table.sides[0].member.own.run
    for voter in table.voters.values():
        voter.step(HolderGone(run), table.now)
    table.sides[1].step(PeerGone(run))
    side = table.sides[1]
    wait_until_acting(table, side)
    assert table.now < before.not_after - 100 * MS, "it was fast"
    wait_for_outputs(table, side)
    assert table.now >= before.not_after - STEP_NS
    permit = side.member.permit(table.now)
    assert permit is not None and permit.not_before >= before.not_after
