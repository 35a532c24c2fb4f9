"""Mix of faults of one seed. Each world draws its own (swarm): some lose messages, some only cut cables."""

import msgspec


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Mix of what may go wrong in any world, and how often; drawn from the seed, or given by a directed workload."""

    voters: int = 3
    paths: int = 1
    delay_ms: float = 1.0
    drift: float = 0.0
    faults: tuple[str, ...] = ()
    """Names of methods of the world's `Faults`; a name that stands twice is drawn twice as often."""
    fault_every_ms: float = 500.0
    faults_for_ms: int = 4_000
    batch_every_ms: float = 50.0
    quiet_ms: float = 0.0
    """Length of the phases, one after each `loud_ms`, in which no producer offers anything; 0: there are none."""
    loud_ms: float = 400.0
