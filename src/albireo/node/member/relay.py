"""The way between actors of the two members: through both COREs, which do not read what they carry.

    history --Carry--> CORE --Carried, on the path on which the other was heard last--> CORE --Carry--> history
    topics                                                                                              topics

One piece at most is under way in each direction, and nothing is kept: a letter that has no way now is asked for again.

Spec: ADR-0124.
"""

from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.message import Carry, HistoryTold
from albireo.codec.pair_message import Carried
from albireo.machine.pair.party import Party, Peer
from albireo.node.member.status import MemberStatus
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Letter, Link

PARTS_MAX: Final = 2
"""Most raw parts of a letter: a word, and a piece of a file."""


class MemberRelay:
    """The relay of one member; one per run of CORE."""

    def __init__(
        self,
        actor: ActorContext,
        core: LogAndFolds,
        own: Party,
        peer: Peer,
        links: Sequence[Link],
        status: MemberStatus,
        refuse: Callable[[str], None],
    ) -> None:
        self._actor = actor
        self._core = core
        self._own = own
        self._peer = peer
        self._links = links
        self._status = status
        self._refuse = refuse
        self._senders: dict[str, bytes] = {}
        """Senders of the letters of own actors, by name; one that has not said a word to this run of CORE has none."""

    def from_actor(self, letter: Letter) -> None:
        """Take a letter of an own actor: figures for the status, or a word for the same actor of the other member."""
        message = letter.message
        if isinstance(message, HistoryTold):
            self._senders["history"] = letter.sender
            self._status.history_told(message, self._actor.wall_ns())
        elif isinstance(message, Carry):
            self._senders[message.actor] = letter.sender
            if 0 < len(letter.raw) <= PARTS_MAX:
                own = self._own
                head = Carried(
                    cluster=own.config.cluster, member=own.index, run=own.run, store=own.store, actor=message.actor
                )
                self._links[own.path].send(head, letter.raw)

    def from_peer(self, message: Carried, raw: Sequence[bytes | memoryview]) -> None:
        """Take a letter of the other member, and pass it on to the actor that is meant."""
        why = self._peer.why_refused(message, self._own)
        if why is not None:
            self._refuse(why)
        elif not 0 < len(raw) <= PARTS_MAX:
            self._refuse("carried_parts")
        elif (to := self._senders.get(message.actor)) is not None:
            self._core.say(to, Carry(actor=message.actor), raw)
