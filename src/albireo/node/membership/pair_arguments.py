"""Arguments that boot gives CORE as a member of a pair."""

import hashlib
from typing import Final

import msgspec

from albireo.machine.pair.config import PairConfig
from albireo.model.settings import StreamReplication
from albireo.model.topology import PlcWaits

MEMBERS: Final = ("primary", "backup")


class Seats(msgspec.Struct, frozen=True, kw_only=True):
    """Names and addresses of the pair, as the topology has them."""

    node: str
    member: int
    """Index of this member."""
    clients: tuple[str, str]
    """Endpoint to which clients of each member connect, by its index."""
    peers: tuple[tuple[str, ...], tuple[str, ...]]
    """Endpoints, one per path, at which each member hears the other, by its index."""
    guards: dict[str, str] = {}
    """Guard level of the outputs of each adapter, by its name."""

    def place(self, index: int) -> str:
        return f"{self.node}[{MEMBERS[index]}]"

    def places(self, members: tuple[int, ...]) -> list[str]:
        return [self.place(one) for one in members]


class PairArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a member of a pair, from boot."""

    member: int
    """Index of this member: 0 primary, 1 backup."""
    place: str
    """Name of this member, such as root[primary]."""
    config: PairConfig
    witnesses: dict[str, str] = {}
    """Endpoints of the witnesses, by voter name."""
    client: str
    """Own endpoint for clients."""
    peer: tuple[str, ...]
    """Own endpoints for the other member, one per path."""
    other: tuple[str, ...]
    """The other member's endpoints for this member, in the same order."""
    other_place: str
    """Name of the other member, and of its key."""
    other_client: str = ""
    """The other member's endpoint for clients."""
    waits: dict[str, PlcWaits] = {}
    """Times of the PLCs that vote, by voter name."""
    guards: dict[str, str] = {}
    """Guard level of the outputs of each adapter, by its name; for the status."""
    local_streams: tuple[str, ...] = ()
    """Names of the streams whose durability is `local`."""
    private_streams: tuple[str, ...] = ()
    topics_replication: StreamReplication = StreamReplication.ALL
    """Names of the streams whose replication is `configuration`."""
    keys: str = ""
    """Directory of the CURVE keys; empty: none, loopback only."""

    @property
    def log_id(self) -> bytes:
        """Id of the pair's log, the same on both members without a word between them."""
        return hashlib.blake2b(self.config.cluster.encode(), digest_size=16).digest()

    @property
    def seats(self) -> Seats:
        """Names and addresses of the pair, for the status."""
        own_first = self.member == 0
        return Seats(
            node=self.place.rpartition("[")[0],
            member=self.member,
            clients=(self.client, self.other_client) if own_first else (self.other_client, self.client),
            peers=(self.peer, self.other) if own_first else (self.other, self.peer),
            guards=self.guards,
        )
