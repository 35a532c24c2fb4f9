"""The mix of faults of one seed. Each world draws its own (swarm): some lose messages, some only cut cables."""

import msgspec


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """What may go wrong in a world of any kind, and how often. Drawn from the seed, or given by a directed workload."""

    voters: int = 3
    paths: int = 1
    delay_ms: float = 1.0
    drift: float = 0.0
    faults: tuple[str, ...] = ()
    """Names of methods of the world's `Faults`, each as often as it is to be drawn."""
    fault_every_ms: float = 500.0
    faults_for_ms: int = 4_000
    batch_every_ms: float = 50.0
