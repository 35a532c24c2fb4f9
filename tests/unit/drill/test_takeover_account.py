"""Judgement of a round of takeovers in a tree: each thing that must not be seen is enough not to hold."""

import msgspec
import pytest

from albireo.drill.tree.orders import GivenOrder, judge_orders
from albireo.drill.tree.takeover import TakeoverRound
from albireo.model.command import Outcome

WELL = TakeoverRound(
    acked=10,
    lost=0,
    doubled=0,
    reordered=0,
    gap_s=0.9,
    alone_s=1.0,
    root_gap_s=9.0,
    orders=2,
    verified=1,
    unknown=1,
    untold=0,
    untrue=0,
    stale=0,
    refused=0,
    again=0,
)
FLAWS = ("lost", "doubled", "reordered", "untold", "untrue", "stale", "refused")


def test_a_round_without_a_flaw_holds() -> None:
    assert WELL.held and "DID NOT HOLD" not in WELL.told()


@pytest.mark.parametrize("flaw", [*({one: 1} for one in FLAWS), {"gap_s": 1.1}])
def test_one_flaw_does_not_hold(flaw: dict[str, int | float]) -> None:
    flawed = msgspec.structs.replace(WELL, **flaw)
    assert not flawed.held and "DID NOT HOLD" in flawed.told()


def test_a_site_that_was_hurt_itself_may_pause_for_longer() -> None:
    assert msgspec.structs.replace(WELL, gap_s=9.0, alone_s=None).held


@pytest.mark.parametrize(
    ("outcomes", "carried", "untrue", "untold"),
    [
        ([Outcome.VERIFIED, Outcome.VERIFIED], [30, 31], 0, 0),
        ([Outcome.VERIFIED, Outcome.UNKNOWN], [30, 31], 0, 0),
        ([Outcome.VERIFIED, Outcome.UNKNOWN], [30], 0, 0),
        ([Outcome.EXPIRED, Outcome.VERIFIED], [31], 0, 0),
        ([Outcome.EXPIRED, Outcome.VERIFIED], [30, 31], 1, 0),
        ([Outcome.REJECTED, Outcome.VERIFIED], [30, 31], 1, 0),
        ([Outcome.VERIFIED, Outcome.VERIFIED], [31], 1, 0),
        ([Outcome.VERIFIED, Outcome.VERIFIED], [30, 30, 31], 1, 0),
        ([Outcome.UNKNOWN, Outcome.VERIFIED], [30, 30, 31], 1, 0),
        ([Outcome.UNKNOWN, Outcome.VERIFIED], [31, 30], 1, 0),
        ([Outcome.VERIFIED, Outcome.VERIFIED], [30, 31, 100], 1, 0),
        ([Outcome.VERIFIED, None], [30, 31], 0, 1),
        ([Outcome.VERIFIED, None], [30], 0, 1),
    ],
)
def test_orders_against_what_the_plc_carried_out(
    outcomes: list[Outcome | None], carried: list[int], untrue: int, untold: int
) -> None:
    given = [GivenOrder(30 + number, outcome) for number, outcome in enumerate(outcomes)]
    account = judge_orders(given, carried)
    assert (account.orders, account.untrue, account.untold) == (2, untrue, untold), account.details
    assert bool(account.details) == bool(untrue)
