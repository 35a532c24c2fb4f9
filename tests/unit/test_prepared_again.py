"""A member that took over fast, and then has to prepare again, still waits until the holder before can't write."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from albireo.core.pair.events import ACTING, PeerGone, State
from albireo.core.pair.voter import HolderGone
from albireo.model.instant import MS
from tests.pair_parts import STEP_NS, Side, Table
from tests.unit.test_pair_orders import done


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


def first_write(table: Table, side: Side, within_ns: int) -> int:
    """How long it takes until it acts and an output order may leave."""
    begun = table.now
    while side.member.permit(table.now) is None:
        assert table.now < begun + within_ns, "no order may leave"
        table.pass_time(STEP_NS)
    return table.now - begun


def wait_until_acting(table: Table, side: Side) -> None:
    while side.member.state not in ACTING:
        table.pass_time(STEP_NS)


def test_the_outputs_wait_for_the_lease_of_the_holder_before(overtaken: Table) -> None:
    side = overtaken.sides[1]
    ends = overtaken.now + overtaken.config.lease_ns
    wait_until_acting(overtaken, side)
    assert overtaken.now < ends - 100 * MS, "it was fast"
    first_write(overtaken, side, 2 * overtaken.config.lease_ns)
    assert overtaken.now >= ends - STEP_NS


def test_they_wait_as_long_although_it_prepares_again_meanwhile(overtaken: Table) -> None:
    """Found among 7,000 worlds (seed 206662): the second grant, which is no takeover, let them go at once."""
    side = overtaken.sides[1]
    ends = overtaken.now + overtaken.config.lease_ns
    wait_until_acting(overtaken, side)
    epoch = side.member.own.history.epoch
    for voter in list(overtaken.voters.values())[:2]:
        assert voter.store is not None
        voter.store = replace(voter.store, promised=epoch + 1, promised_run=overtaken.sides[0].member.own.run)
    while side.member.own.history.epoch == epoch:
        overtaken.pass_time(STEP_NS)
    wait_until_acting(overtaken, side)
    assert overtaken.now < ends, "the story is about what happens before that"
    first_write(overtaken, side, 2 * overtaken.config.lease_ns)
    assert overtaken.now >= ends - STEP_NS
