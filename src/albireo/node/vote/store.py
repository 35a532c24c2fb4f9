"""Memory of a voter on its disk: a mirrored state (log/store/mirrored_state.py) per pair, in <data>/voters/<node>.

An answer tells only of promises and records that `save` has brought to the disk. Without a store the voter is empty
and votes for nobody, until `albireo pair init` or a holder admits it.

Spec: design/pair.md, The voter protocol, exactly; ADR-0103.
"""

from pathlib import Path
from typing import Final

import msgspec

from albireo.log import FileSystem
from albireo.log.store.mirrored_file import MirrorFormat
from albireo.log.store.mirrored_state import MirroredState
from albireo.machine.vote import VoterStore
from albireo.model.position import BEGINNING, Position

FOLDER: Final = "voters"
KIND: Final = MirrorFormat(magic=b"ALBV", bytes_max=64 * 1024)
"""Format of the two copies; a store takes some 500 bytes: five voters, one record."""


class KeptVote(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a copy."""

    voter: str
    """Name of the voter whose promises these are: under another name they would count twice."""
    store: VoterStore


class VoterDisk:
    """The store of one voter for one pair. Opened once per start; for one thread."""

    def __init__(self, files: FileSystem, data: Path, node: str, voter: str, cluster: str) -> None:
        """Read the stored vote; raises the errors of `MirroredState`.

        Args:
            data: the witness's data directory.
            node: id of the pair's node.
            voter: its name in the topology, such as `witness:w1`.
            cluster: identity of the pair.
        """
        self._owner = (voter, cluster)
        folder = f"{FOLDER}/{node.replace('/', '~')}"
        self.mirrored = MirroredState(files, data, folder, KIND, KeptVote, self._foreign, "this witness votes no more")

    @property
    def store(self) -> VoterStore | None:
        """The store as it is on the disk."""
        kept = self.mirrored.body
        return None if kept is None else kept.store

    @property
    def floor(self) -> Position:
        """The highest commit position that a restart would still know."""
        return self.store.floor if self.store else BEGINNING

    def save(self, store: VoterStore) -> None:
        """Keep `store`, durable when this returns; raises the errors of `MirroredState.save`."""
        self.mirrored.save(KeptVote(voter=self._owner[0], store=store))

    def _foreign(self, kept: KeptVote) -> str:
        voter, cluster = self._owner
        if kept.voter != voter:
            return f"the promises of {kept.voter}, not of {voter}"
        return "" if kept.store.cluster == cluster else f"the vote of {kept.store.cluster}, not of {cluster}"
