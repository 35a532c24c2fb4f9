"""What boot tells a member of its pair."""

import hashlib

import msgspec

from albireo.codec.record import Stream
from albireo.machine.pair.config import PairConfig
from albireo.node.member.status import Seats
from albireo.node.vote.plc_voters import PlcWaits


class PairArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What boot tells a member of its pair."""

    member: int
    """0 primary, 1 backup."""
    place: str
    """Such as root[primary]."""
    config: PairConfig
    witnesses: dict[str, str] = {}
    """Endpoint by voter name."""
    client: str
    """Own endpoint for clients."""
    peer: tuple[str, ...]
    """Own endpoints for the other member, one per path."""
    other: tuple[str, ...]
    """The other member's, in the same order."""
    other_place: str
    """Name of its key."""
    other_client: str = ""
    """Where clients of the other member connect."""
    waits: dict[str, PlcWaits] = {}
    """By voter name, of the PLCs that vote."""
    guards: dict[str, str] = {}
    """By adapter: what refuses a late order to its outputs. For the status."""
    local_streams: tuple[str, ...] = ()
    """Names of the streams whose durability is `local`."""
    private_streams: tuple[str, ...] = ()
    """Names of the streams whose replication is `configuration`."""
    keys: str = ""
    """Directory of the CURVE keys; empty: none, loopback only."""

    @property
    def log_id(self) -> bytes:
        """The same on both members without a word between them."""
        return hashlib.blake2b(self.config.cluster.encode(), digest_size=16).digest()

    @property
    def stream_numbers(self) -> tuple[frozenset[int], frozenset[int]]:
        """Local and private ones, as frames have them."""
        return _numbers(self.local_streams), _numbers(self.private_streams)

    @property
    def seats(self) -> Seats:
        """Names and addresses, for the status."""
        own_first = self.member == 0
        return Seats(
            node=self.place.rpartition("[")[0],
            member=self.member,
            clients=(self.client, self.other_client) if own_first else (self.other_client, self.client),
            peers=(self.peer, self.other) if own_first else (self.other, self.peer),
            guards=self.guards,
        )


def _numbers(streams: tuple[str, ...]) -> frozenset[int]:
    return frozenset(int(Stream[name.upper()]) for name in streams)
