"""Shortcuts that the simulated pair must be caught taking, each with the workload that finds it.

A mutation is a part of the machines, or of the shell around them, with one rule left out. It exists to test the
simulator: a world that cannot tell it from the real thing proves nothing about the real thing.

Spec: design/pair.md, How it is proven; ADR-0094, ADR-0113.
"""

from collections.abc import Mapping
from typing import Any, Final

from albireo.machine.pair.member import Member
from albireo.sim.engine.stage import first_caught
from albireo.sim.machines import shortcuts as broken
from albireo.sim.machines.parts import Variant
from albireo.sim.machines.swarm import PairSwarm
from albireo.sim.machines.world import PairWorld


def _member(**parts: type) -> Variant:
    return Variant(member=type("MutantMember", (Member,), dict(parts)))


def _plays(scene: str, **values: Any) -> PairSwarm:
    """Return a workload that plays one scene again and again, each time from a pair that is well."""
    return PairSwarm(faults=(scene,), fault_every_ms=500.0, faults_for_ms=15_000, **values)


_KILLS: Final = PairSwarm(
    faults=("kill", "power", "power_both"), fault_every_ms=900.0, delay_ms=10.0, batch_every_ms=15.0, fast=True,
    faults_for_ms=10_000,
)  # fmt: skip
_CUTS: Final = PairSwarm(
    faults=("cut_link", "cut_member", "cut_oneway", "cut_voter"), fault_every_ms=250.0, batch_every_ms=15.0
)
_PAUSES: Final = PairSwarm(faults=("pause", "cut_oneway"), fault_every_ms=400.0, long_delay=0.03)
_RESTARTS: Final = PairSwarm(voters=1, faults=("restart_voter", "cut_link", "cut_member"), fault_every_ms=150.0)
_LOST_VOTER: Final = PairSwarm(
    faults=("cut_voter", "cut_voter", "cut_link", "cut_member", "kill", "lose_voter", "lose_voter"),
    fault_every_ms=200.0, batch_every_ms=15.0, faults_for_ms=20_000, fast=True,
)  # fmt: skip
_DISKS: Final = PairSwarm(
    faults=("hang_disk", "power_both", "kill_both"), fault_every_ms=300.0, batch_every_ms=10.0, faults_for_ms=10_000
)
_ADDS: Final = PairSwarm(
    voters=1, long_delay=0.4, faults=("cut_link", "power"), fault_every_ms=500.0, batch_every_ms=15.0, fast=True,
    faults_for_ms=12_000,
)  # fmt: skip
_BY_PROMISE: Final = PairSwarm(
    voters=1, faults=("cut_voter", "cut_link"), fault_every_ms=300.0, batch_every_ms=40.0, faults_for_ms=10_000
)
_CRASHES: Final = PairSwarm(voters=1, crash_voter=0.05, faults=("cut_link", "kill"), faults_for_ms=8_000)
_ZEROED: Final = PairSwarm(
    voters=1, plcs=1, faults=("zero_plc", "cut_link", "cut_member", "power"), fault_every_ms=250.0, faults_for_ms=12_000
)
_BROKEN: Final = PairSwarm(
    voters=1, plcs=1, faults=("break_plc", "cut_link"), fault_every_ms=120.0, delay_ms=10.0, faults_for_ms=12_000
)

_OLD_DISKS: Final = PairSwarm(
    faults=("old_disk",), fault_every_ms=300.0, batch_every_ms=15.0, faults_for_ms=15_000, loud_ms=300.0,
    quiet_ms=2_700.0,
)  # fmt: skip

MUTATIONS: Final[Mapping[str, tuple[Variant, PairSwarm]]] = {
    # Mutations that design/pair.md lists, in its order.
    "acknowledge before the passive member has it": (_member(holder_type=broken.LeadsAlone), _KILLS),
    "acknowledge before the sync": (Variant(told_before_sync=True), _DISKS),
    "go solo without the voters": (_member(holder_type=broken.AsksNobody), _CUTS),
    "no dedup rebuild after promotion": (Variant(no_dedup_rebuild=True), _KILLS),
    "acknowledge a duplicate whose original is not committed": (
        Variant(acks_pending_duplicate=True),
        _plays("split_tail", batch_every_ms=15.0),
    ),
    "unversioned set changes": (
        Variant(voter=broken.ForgetsVersions),
        _plays("late_shrink", voters=1, long_delay=0.4, batch_every_ms=15.0),
    ),
    "no write-back of the highest record at promotion": (_member(candidate_type=broken.ActsOnPromises), _KILLS),
    "a record read at a minority is relied on": (
        _member(candidate_type=broken.StandsWithOne),
        _plays("stale_minority", batch_every_ms=15.0),
    ),
    "an add in flight not required for acknowledgements": (_member(holder_type=broken.LeadsWithFreeAdd), _ADDS),
    "epoch continued after a restart": (_member(party_type=broken.ReusesEpoch), _KILLS),
    "ACK of own length instead of what was verified": (_member(following_type=broken.KeepsTail), _KILLS),
    "a voter that starts fresh after loss": (Variant(fresh_voter=True), _LOST_VOTER),
    "a voter restart without the wait": (Variant(voter=broken.NeverWaits), _RESTARTS),
    "lease counted from the answer": (
        _member(holder_type=broken.LeadsFromTheAnswer),
        _plays("late_answers", voters=1, long_delay=0.4),
    ),
    "zero block = initial": (Variant(register=broken.ZeroIsInitial), _ZEROED),
    "no read-back": (Variant(register=broken.NoReadBack), _plays("contend", voters=1, plcs=1, plc_lag=0.9)),
    "a late old write after reconnect": (Variant(register=broken.NoDeadTime), _BROKEN),
    "snapshot above the commit position": (
        Variant(snapshots_uncommitted=True),
        _plays("split_tail", batch_every_ms=4.0, delay_ms=10.0),
    ),
    "recovered = durable without a new sync": (
        Variant(recovered_is_durable=True),
        _plays("hung_restart", batch_every_ms=10.0),
    ),
    "dedup that accepts a gap": (Variant(accepts_gap=True), PairSwarm(loss=0.15)),
    "told of a local stream before the sync": (
        Variant(early_before_sync=True),
        PairSwarm(local=True, faults=("kill", "power"), fault_every_ms=900.0, faults_for_ms=8_000),
    ),
    "a producer lets go of what a takeover may cut": (
        Variant(forgets_early=True),
        _plays("split_tail", local=True, batch_every_ms=10.0),
    ),
    "epoch ignored at the output": (Variant(plc_ignores_epoch=True), _PAUSES),
    # Mutations beyond that list.
    "voter ignores the lease": (
        Variant(voter=broken.IgnoresLease),
        _plays("deaf_passive", batch_every_ms=4_000.0),
    ),
    "promise not kept by the voter": (
        Variant(voter=broken.BreaksItsPromise),
        _plays("contend", voters=1, delay_ms=40.0, batch_every_ms=15.0),
    ),
    "promise to the holder broken": (_member(candidate_type=broken.BreaksPromise), _BY_PROMISE),
    "hello taken for an acknowledgement": (
        _member(holder_type=broken.BelievesHello),
        _plays("long_tail", batch_every_ms=10.0),
    ),
    "what the other member had counted after it came back with less": (
        _member(holder_type=broken.KeepsMatch),
        _OLD_DISKS,
    ),
    "voter answers before its store is synced": (Variant(answers_before_persist=True), _CRASHES),
    "floor ignored by a candidate": (
        _member(candidate_type=broken.IgnoresFloor),
        _plays("old_disk_alone", batch_every_ms=15.0),
    ),
    "outputs written at once after a fast takeover": (
        _member(candidate_type=broken.WritesAtOnce),
        PairSwarm(faults=("forge_refusal",), fault_every_ms=800.0, fast=True),
    ),
    "own promise forgotten by outputs after a fast takeover": (
        _member(candidate_type=broken.ForgetsOwnPromise),
        _plays("forged_by_promise", fast=True),
    ),
    "output write begun at the end of the lease": (
        Variant(writes_to_the_end=True),
        PairSwarm(faults=("cut_member", "cut_oneway"), faults_for_ms=10_000),
    ),
    "lead handed over with output writes under way": (
        _member(handover_type=broken.YieldsOverWrites),
        PairSwarm(faults=("switchover",), delay_ms=0.2),
    ),
    "an adapter's last word taken for the outcome of its last write": (
        _member(handover_type=broken.TakesTheWordForTheEnd),
        PairSwarm(faults=("switchover",), delay_ms=0.2),
    ),
    "an adapter that says nothing taken for one that writes no more": (
        _member(handover_type=broken.TakesSilenceForTheEnd),
        PairSwarm(faults=("switchover",), delay_ms=0.2, stalls=0.02),
    ),
    "stamp of an output never polled": (
        Variant(stamp_not_polled=True),
        PairSwarm(faults=("kill",), fault_every_ms=400.0, fast=True),
    ),
}


def catch(name: str, seeds: range) -> tuple[int, str] | None:
    """Return the first seed that catches the mutation, and what was seen; None if none of them does."""
    variant, swarm = MUTATIONS[name]
    return first_caught(lambda seed: PairWorld(seed, swarm, variant).play(), seeds)
