"""Mix of faults of one world of messages, drawn from its seed; hostile values of the limits stand here as well."""

import random
from typing import Final

from albireo.machine.message.events import MessageLimits
from albireo.model.instant import MS
from albireo.sim.engine.swarm import Mix

FAULTS: Final = (
    "restart go_on take_over take_over_twice wipe restore cut_off cut_link jump_wall forge cancel slow_disk"
).split()
"""Names of methods of `MessageFaults`."""

LIMITS: Final = MessageLimits(
    window=6,
    room=3,
    first_ns=50 * MS,
    longest_ns=400 * MS,
    patient_ns=1_500 * MS,
    grace_ns=1_000 * MS,
)


class MessageSwarm(Mix, frozen=True, kw_only=True):
    """Mix of what may go wrong among nodes that send messages."""

    loss: float = 0.0
    duplicate: float = 0.0
    long_delay: float = 0.0
    """Share of letters that take up to a second."""
    ask_every_ms: float = 60.0
    expires_ms: tuple[int, ...] = (80, 300, 1_500)
    commit_ms: float = 5.0
    """Longest time of a commit."""
    device_ms: float = 40.0
    """Longest time in which a device carries out an order, its wait before it included."""
    bodies: tuple[int, ...] = (10,)
    """Sizes of bodies; one above a piece takes several questions."""
    notes: float = 0.0
    """Share of messages that are for programs, not for devices."""
    receivers: int = 2
    """Programs at each end, if there are notes."""
    receive_every_ms: float = 40.0
    leaves: float = 0.2
    """Share of notes whose program goes away with them."""
    gives_back: float = 0.0
    """Share of notes that their program gives back."""
    lease_ms: int = 300
    is_two_way: bool = True
    """True: the lowest node sends to the topmost one as well."""
    limits: MessageLimits = LIMITS


def swarm_of(seed: int) -> MessageSwarm:
    """Draw the mix of one seed."""
    chance = random.Random(f"messages {seed}")
    return MessageSwarm(
        loss=chance.choice([0.0, 0.1, 0.3]),
        duplicate=chance.choice([0.0, 0.15]),
        long_delay=chance.choice([0.0, 0.05, 0.2]),
        delay_ms=chance.choice([1.0, 10.0, 40.0]),
        drift=chance.choice([0.0, 0.01]),
        ask_every_ms=chance.choice([20.0, 60.0, 200.0]),
        commit_ms=chance.choice([1.0, 10.0, 60.0]),
        device_ms=chance.choice([5.0, 80.0]),
        bodies=chance.choice([(10,), (10,), (10, 150_000)]),
        is_two_way=chance.random() < 0.5,
        notes=chance.choice([0.0, 0.3, 0.8]),
        faults=tuple(one for one in FAULTS if chance.random() < 0.4) or ("restart",),
        fault_every_ms=chance.choice([150.0, 400.0, 1_200.0]),
        faults_for_ms=4_000,
        gives_back=chance.choice([0.0, 0.3]),
    )
