"""Mix of faults of one pair of machines, drawn from its seed.

Hostile values of the configuration stand here as well: short waits that a plant would not choose.
Spec: design/pair.md, How it is proven.
"""

import random
from typing import Final

from albireo.machine.pair.config import PairConfig
from albireo.model.instant import MS, SECOND
from albireo.sim.engine.swarm import Mix


class PairSwarm(Mix, frozen=True, kw_only=True):
    """Mix of what may go wrong in one pair of machines."""

    plcs: int = 0
    """Number of voters that are registers of a PLC."""
    paths: int = 2
    loss: float = 0.0
    duplicate: float = 0.0
    long_delay: float = 0.0
    """Share of messages that take up to a second."""
    crash_at_effect: float = 0.0
    fast: bool = False
    """True: a closed port is noticed (rule 12), in the share of cases that `noticed` says."""
    noticed: float = 0.8
    batch_every_ms: float = 5.0
    sync_stall_ms: int = 2_000
    steady_ms: int = 1_000
    dies_at: str = ""
    """State shortly after which a member that reached it is killed, or its power cut; empty: none."""
    dies_within_ms: float = 60.0
    crash_voter: float = 0.0
    """Share of a voter's effects before which it dies."""
    plc_lag: float = 0.0
    """Share of writes that a PLC answers before it carries them out."""
    local: bool = False
    """True: the stream of the second producer is `local`; that producer dies now and then."""
    stalls: float = 0.0
    """Share of output writes whose host pauses between the check and the send."""
    mute: float = 0.0
    """Share of last writes of a member that their device does not answer."""


ANYTIME: Final = (
    "kill kill_both power power_both pause cut_link cut_path cut_member cut_oneway cut_deaf cut_voter restart_voter "
    "lose_voter hang_disk switchover stop stop_both hold forge_refusal"
).split()
"""Faults that may come at any time, on top of each other."""
SINGLE: Final = "old_disk damaged_disk cloned_disk rewind_voter force_on_survivor force_refused".split()
"""Faults that are covered one at a time only (design/pair.md, What may be promised)."""
OF_PLCS: Final = "restart_plc zero_plc tear_plc break_plc".split()


def swarm_of(seed: int) -> PairSwarm:
    """Draw the mix of one seed."""
    chance = random.Random(f"swarm {seed}")
    voters = chance.choice([1, 3, 3])
    plcs = chance.choice([0, 0, 1, voters // 2 + 1])
    kinds = ANYTIME + (OF_PLCS if plcs else [])
    faults = [fault for fault in kinds if chance.random() < 0.35]
    if chance.random() < 0.3:
        faults.append(chance.choice(SINGLE if not plcs else SINGLE[-2:]))
    return PairSwarm(
        voters=voters,
        plcs=plcs,
        paths=chance.choice([1, 2]),
        loss=chance.choice([0.0, 0.0, 0.02, 0.15]),
        duplicate=chance.choice([0.0, 0.05]),
        delay_ms=chance.choice([0.2, 1.0, 10.0]),
        long_delay=chance.choice([0.0, 0.0, 0.01]),
        drift=chance.choice([0.0, 0.02]),
        crash_at_effect=chance.choice([0.0, 0.0, 0.0005]),
        fault_every_ms=chance.choice([150.0, 500.0, 1500.0]),
        faults=tuple(faults) or ("kill",),
        fast=chance.random() < 0.5,
        batch_every_ms=chance.choice([5.0, 20.0, 60.0]),
        sync_stall_ms=chance.choice([300, 2_000]),
        crash_voter=chance.choice([0.0, 0.0, 0.0005]),
        plc_lag=chance.choice([0.0, 0.2]),
        stalls=chance.choice([0.0, 0.0, 0.02]),
        local=random.Random(f"local {seed}").random() < 0.25,
        mute=chance.choice([0.0, 0.2]),
        quiet_ms=random.Random(f"quiet {seed}").choice([0.0, 0.0, 600.0, 1_500.0]),
    )


def config_of(swarm: PairSwarm) -> PairConfig:
    """Return the configuration with the waits of a plant, save those that would only make the worlds long."""
    names = tuple(f"p{i}" if i < swarm.plcs else f"v{i}" for i in range(swarm.voters))
    return PairConfig(
        cluster="c",
        voters=names,
        paths=swarm.paths,
        cold_wait_ns=2 * SECOND,
        hold_off_first_ns=100 * MS,
        hold_off_longest_ns=800 * MS,
        steady_ns=swarm.steady_ms * MS,
        sync_stall_ns=swarm.sync_stall_ms * MS,
    )
