"""Voters below a pair: which of them has said hello to this member, and where it is asked.

A voter below dials the members of the pair, as every node dials what stands above it, and says hello each second. So a
question waits for nothing but a hello: a member that begins anew knows no voter below until then, and asks in vain, as
on a link that has broken. With keys a voter is known by the key of its place, and a vote counts only from the link that
said hello.

A name for which two links say hello has two disks, with other promises on each: a site was copied, keys and all. It is
asked nothing until one of them has been silent for a while, and so is a voter that has just started anew.

Not done here: what is asked and granted (the member, the voter), links (node/member/pair_links.py).
Spec: docs/topology.md, The tree; ADR-0198.
"""

from collections.abc import Sequence
from typing import Final

from albireo.codec.pair_message import Voted, VoterHello
from albireo.model.instant import SECOND, Instant
from albireo.model.principal import UNKEYED, kind_of
from albireo.model.topology import NODE_VOTER

TWICE_NS: Final = 3 * SECOND
"""Two links under one name whose last hellos are no further apart are of two processes: three hellos each."""


class VotersBelow:
    """The voters below one pair, as one run of a member knows them."""

    def __init__(self, cluster: str, voters: Sequence[str]) -> None:
        """`voters`: the pair's list; witnesses and PLCs in it are left out."""
        self._cluster = cluster
        self._heard: dict[str, dict[bytes, Instant]] = {one: {} for one in voters if one.startswith(NODE_VOTER)}
        """Last hello of each voter, by identity of the link; none: it has not said hello yet."""

    def __contains__(self, voter: str) -> bool:
        return voter in self._heard

    @property
    def places(self) -> frozenset[str]:
        """Names of the places that vote, and of their keys."""
        return frozenset(one.removeprefix(NODE_VOTER) for one in self._heard)

    def at(self, voter: str) -> bytes:
        """Identity of the link on which the voter is asked; empty: there is none, or not one alone."""
        links = self._heard[voter]
        return next(iter(links)) if len(links) == 1 else b""

    def is_twice(self, voter: str) -> bool:
        """True: two links say that they are this voter."""
        return len(self._heard[voter]) > 1

    def objection(self, message: VoterHello | Voted, sender: bytes, principal: str) -> str:
        """Reason why a message is not taken; empty: it is.

        Args:
            sender: identity of the link on which it came.
            principal: name of the key behind that link; of a kind without a key where the pair has no keys.
        """
        voter = message.voter
        if voter not in self._heard:
            return "voter_unlisted"
        if kind_of(principal) not in UNKEYED and principal != voter.removeprefix(NODE_VOTER):
            return "voter_with_foreign_key"
        if isinstance(message, VoterHello):
            return "" if message.cluster == self._cluster else "voter_of_foreign_pair"
        if self.is_twice(voter):
            return "voter_twice"
        return "" if sender == self.at(voter) else "vote_without_hello"

    def hears(self, hello: VoterHello, sender: bytes, now: Instant) -> None:
        """Take a hello against which there is no objection; a voter that starts anew has another link."""
        links = self._heard[hello.voter]
        links[sender] = now
        self._heard[hello.voter] = {link: at for link, at in links.items() if now - at <= TWICE_NS}
