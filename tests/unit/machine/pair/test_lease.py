"""Lease: what extends it, and that one that was given up comes back by nothing that was under way."""

from pathlib import Path

import pytest

from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import OutputsEnded, State, SwitchoverAsked
from albireo.machine.pair.lease import Lease
from albireo.model.instant import MS, SECOND, Instant
from tests.parts.admin_actions import done
from tests.parts.pair import Table

CONFIG = PairConfig(cluster="c", voters=("v0", "v1", "v2"))
SENT, DROPPED, LATER = Instant(SECOND), Instant(SECOND + 50 * MS), Instant(SECOND + 80 * MS)


def dropped() -> Lease:
    """A lease with a round and a heartbeat under way when it was given up."""
    lease = Lease(CONFIG, Instant(SENT + CONFIG.lease_ns))
    lease.promised(Instant(SENT - 10 * MS), SENT)
    lease.sent(1, SENT)
    lease.confirmed(1, "v0", SENT)
    lease.drop(DROPPED)
    return lease


def test_a_lease_that_was_dropped_is_over_whoever_gave_it() -> None:
    lease = dropped()
    assert (lease.from_voters, lease.from_peer, lease.until) == (0, 0, 0)


def test_an_answer_to_a_heartbeat_that_was_never_sent_extends_nothing() -> None:
    lease = Lease(CONFIG, SENT)
    lease.promised(Instant(LATER + 1), LATER)
    assert lease.until == SENT


def test_answers_to_what_was_sent_before_the_drop_bring_nothing_back() -> None:
    lease = dropped()
    for voter in CONFIG.voters:
        lease.confirmed(1, voter, LATER)
    for sent in (SENT, DROPPED):
        lease.promised(sent, LATER)
    assert lease.until == 0


@pytest.mark.parametrize("by_voters", [True, False])
def test_what_is_sent_after_the_drop_counts_from_its_send(by_voters: bool) -> None:
    lease, sent = dropped(), Instant(DROPPED + 1)
    if by_voters:
        lease.sent(2, sent)
        lease.confirmed(2, "v0", LATER)
        assert lease.until == 0, "one is no majority, and the voter of the round before does not count"
        lease.confirmed(2, "v2", LATER)
    else:
        lease.promised(sent, LATER)
    assert lease.until == sent + CONFIG.lease_ns


def test_a_holder_that_gave_the_lead_away_has_no_lease_left_whatever_still_comes(tmp_path: Path) -> None:
    table = Table(tmp_path)
    done(table.sides[0], "pair_init")
    table.wait_for(State.ACTIVE, State.READY)
    active = table.sides[0]
    active.step(SwitchoverAsked("test"))
    active.step(OutputsEnded(Instant(0)))
    holder = active.member.holder
    assert holder is not None and holder.has_yielded
    assert holder.lease.until == 0
    table.deliver()  # Answers to heartbeats and rounds that left before.
    assert holder.lease.until == 0
    assert active.member.permit(table.now) is None
