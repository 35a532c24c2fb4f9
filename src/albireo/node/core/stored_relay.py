"""The way between the stored history of a node and those of the nodes below it: through the COREs of both.

    history --StoredAsked--> CORE --the link of the child that leads to the node--> CORE below --> history below
    history <--StoredGiven-- CORE <------------------the same link----------------- CORE below <--

Nothing is kept, and no CORE looks into the raw parts: what has no way now is asked for again. A child answers for
itself and for the nodes below it, and is asked by the node above only.

Spec: ADR-0218.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.tree.stored import PIECE_BYTES, StoredAsked, StoredGiven
from albireo.machine.root.root import Root
from albireo.node.core.peer_links import PeerLinks
from albireo.node.core.uplinks import NoUplinks, Uplinks
from albireo.runtime import Letter, Link

PARTS_MAX: Final = 2
"""Most raw parts: a word, and a piece of a file."""


class StoredRelay:
    """The relay of one run of CORE."""

    def __init__(self, history: Link, peers: PeerLinks, uplinks: Uplinks | NoUplinks, root: Callable[[], Root]) -> None:
        """
        Args:
            history: to the history of this node.
            peers: ways to the children.
        """
        self._history = history
        self._peers = peers
        self._uplinks = uplinks
        self._root = root

    def hears(self, letter: Letter, *, is_local: bool) -> bool:
        """Pass a letter on; False: it is another one."""
        message = letter.message
        if isinstance(message, StoredAsked | StoredGiven):
            is_whole = 0 < len(letter.raw) <= PARTS_MAX and all(len(part) <= PIECE_BYTES for part in letter.raw[1:])
            if is_whole and isinstance(message, StoredAsked):
                self._asked(letter, message, is_local=is_local)
            elif is_whole and isinstance(message, StoredGiven):
                self._given(letter, message)
            return True
        return False

    def _asked(self, letter: Letter, ask: StoredAsked, *, is_local: bool) -> None:
        member = self._uplinks.member_of(letter.link)
        if member is not None:
            self._history.send(msgspec.structs.replace(ask, member=member), letter.raw)
        elif is_local:
            line = self._root().tree.below.log_line_of(ask.node)
            if line is not None:
                self._peers.send(line, ask, letter.raw)

    def _given(self, letter: Letter, given: StoredGiven) -> None:
        if letter.link is self._history:
            self._uplinks.give(given.member, msgspec.structs.replace(given, member=0), letter.raw)
        elif self._root().tree.below.speaks_for(self._peers.sender_of(letter), given.node):
            self._history.send(given, letter.raw)
