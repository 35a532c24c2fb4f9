"""Messages that are heard from each principal at each end of a link with keys.

    name of the key --kind_of--> member, witness, program --MAY_SAY at this end--> messages that are heard; no others

Members and witnesses are heard only where their very name is expected: the holder of a trusted key may not speak as
somebody else. A link without keys has no names: on it, on loopback only, everything is heard.

Not done here: proving the key, dropping and counting (runtime/link). Decision: ADR-0144.
"""

from enum import StrEnum
from typing import Final, get_args

import msgspec

from albireo.codec.message import (
    Append,
    Ask,
    FeedAck,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedHello,
    FeedState,
    ProducerHello,
    RoleAsked,
    RoleTold,
)
from albireo.codec.pair_message import Carried, PeerMessage, Question, Voted, VoterHello
from albireo.codec.tree.hello import ChildHello, ParentHello
from albireo.codec.tree.letters import TreeMessage
from albireo.codec.tree.stored import StoredAsked, StoredGiven
from albireo.model.principal import PrincipalKind, kind_of


class KeyedEnd(StrEnum):
    """End of a link at which somebody is heard."""

    PEER = "peer endpoint of a member"
    CLIENT = "client endpoint of a member"
    WITNESS = "endpoint of a witness"
    TO_PEER = "connection to a peer endpoint"
    """A member hears by its own endpoint; connections to it say nothing back, and a watch's say nothing at all."""
    TO_WITNESS = "connection to a witness"
    TO_PARENT = "connection to the client endpoint of the node above"
    TO_PAIR = "connection of a voter below to the client endpoint of a member"


Messages = frozenset[type]

NOTHING: Final[Messages] = frozenset()
PEER_WORDS: Final[Messages] = frozenset({*get_args(PeerMessage), Carried})
QUESTIONS: Final[Messages] = frozenset({Ask})
PROGRAM_WORDS: Final[Messages] = frozenset({Ask, RoleAsked, ProducerHello, Append, FeedHello, FeedAck})
TREE_LETTERS: Final[Messages] = frozenset(get_args(TreeMessage))
FOLLOWER_WORDS: Final[Messages] = frozenset({RoleAsked, FeedHello, FeedAck})
FOLLOWED_WORDS: Final[Messages] = frozenset({RoleTold, FeedAnswer, FeedData, FeedState, FeedAlive})
CHILD_WORDS: Final[Messages] = TREE_LETTERS | FOLLOWER_WORDS | FOLLOWED_WORDS | {ChildHello, StoredGiven}
"""Said beside the words of its kind by a node below, which is followed, and follows, on the link that it dialled."""
PARENT_WORDS: Final[Messages] = TREE_LETTERS | FOLLOWER_WORDS | FOLLOWED_WORDS - {FeedData} | {ParentHello, StoredAsked}
"""Said by the node above, whose log nobody below follows."""
NEIGHBOUR_WORDS: Final[Messages] = TREE_LETTERS | FOLLOWED_WORDS | {ChildHello, ParentHello, StoredAsked, StoredGiven}
"""Said to a node by neighbours in the tree only."""
VOTER_WORDS: Final[Messages] = frozenset({VoterHello, Voted})
"""Said beside the words of its kind by a node below that votes for the pair, on the link that it dialled."""
VOTER_QUESTIONS: Final[Messages] = frozenset(get_args(Question))

_MEMBER, _WITNESS, _PROGRAM = PrincipalKind.MEMBER, PrincipalKind.WITNESS, PrincipalKind.PROGRAM

MAY_SAY: Final[dict[KeyedEnd, dict[PrincipalKind, Messages]]] = {
    KeyedEnd.PEER: {_MEMBER: PEER_WORDS, _WITNESS: NOTHING, _PROGRAM: NOTHING},
    KeyedEnd.CLIENT: {_MEMBER: QUESTIONS | FOLLOWER_WORDS, _WITNESS: NOTHING, _PROGRAM: PROGRAM_WORDS},
    KeyedEnd.WITNESS: {_MEMBER: VOTER_QUESTIONS | QUESTIONS, _WITNESS: NOTHING, _PROGRAM: NOTHING},
    KeyedEnd.TO_PEER: {_MEMBER: NOTHING, _WITNESS: NOTHING, _PROGRAM: NOTHING},
    KeyedEnd.TO_WITNESS: {_MEMBER: NOTHING, _WITNESS: frozenset({Voted}), _PROGRAM: NOTHING},
    KeyedEnd.TO_PARENT: {_MEMBER: NOTHING, _WITNESS: NOTHING, _PROGRAM: NOTHING},
    KeyedEnd.TO_PAIR: {_MEMBER: VOTER_QUESTIONS, _WITNESS: NOTHING, _PROGRAM: NOTHING},
}
"""Messages that are heard at each end, by the kind of who says them; complete over ends x kinds of keys. Neighbours in
the tree and voters below are known by their very names, and heard with more (`Audience`).

At the other's client endpoint a member asks for the commands, and follows for the faces, that run beside it with its
keys.
"""


class Audience(msgspec.Struct, frozen=True):
    """Judge of who is heard at one end of a link."""

    at: KeyedEnd
    expected: frozenset[str] = frozenset()
    """Names of the members and witnesses that are heard here; any program is, where programs are."""
    children: frozenset[str] = frozenset()
    """Names of the places of the nodes below this one."""
    parents: frozenset[str] = frozenset()
    """Names of the places of the node above; a node that stands alone has a key like a program's."""
    voters: frozenset[str] = frozenset()
    """Names of the places of the nodes below that vote for this pair; not all of them stand directly below it."""

    def hears(self, name: str) -> Messages:
        """Messages that are heard from the holder of the key trusted as `name`; empty: it is not heard at all."""
        kind = kind_of(name)
        is_meant = kind is PrincipalKind.PROGRAM or name in self.expected
        words = MAY_SAY[self.at][kind] if is_meant else NOTHING
        if name in self.children:
            words |= CHILD_WORDS
        if name in self.voters:
            words |= VOTER_WORDS
        return words | PARENT_WORDS if name in self.parents else words
