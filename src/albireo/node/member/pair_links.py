"""Links of a member of a pair: to its voters, to and from the other member, and where its clients connect.

With keys each of them hears only those whose names are expected there, and only what they may say (ADR-0144).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.codec.pair_message import Question, Voted, VoterHello
from albireo.codec.principal import Audience, KeyedEnd
from albireo.machine.vote.below import VotersBelow
from albireo.model.instant import MS
from albireo.node.membership.door import ProgramDoor
from albireo.node.membership.pair_arguments import PairArguments
from albireo.runtime import ActorContext, Letter, Link
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import Hears

LINK_SILENCES: Final = 10
"""Silences of the pair in a row after which a connection is dialled anew, whatever is believed of it."""


class PairLinks:
    """The TCP links of one run of CORE; a path to the other member is the index of its two links."""

    def __init__(
        self,
        actor: ActorContext,
        arguments: PairArguments,
        keys: Keys | None,
        refuse: Callable[[str], object],
    ) -> None:
        """Bind and connect. Raises what `ActorContext.bind_tcp` does.

        Args:
            refuse: counts what is not believed of a voter, by reason.
        """
        self._actor = actor
        self._refuse = refuse
        other = arguments.other_place
        limits = msgspec.structs.replace(TCP_LIMITS, silence_ms=LINK_SILENCES * arguments.config.silence_ns // MS)
        near = msgspec.structs.replace(limits, is_near=True)
        self.voters = {
            name: actor.connect_tcp(name, at, keys, limits, hears=_only(name, KeyedEnd.TO_WITNESS))
            for name, at in arguments.witnesses.items()
        }
        self.others: list[Link] = [
            actor.connect_tcp(f"peer.{path}", endpoint, keys, near, peer=other)
            for path, endpoint in enumerate(arguments.other)
        ]
        self.own: list[Link] = [
            actor.bind_tcp(f"member.{path}", endpoint, keys, hears=_only(other, KeyedEnd.PEER))
            for path, endpoint in enumerate(arguments.peer)
        ]
        self.below = VotersBelow(arguments.config.cluster, arguments.config.voters)
        self.door = ProgramDoor(arguments.client)
        self.clients = self.door.open(actor, keys, frozenset({other}), self.below.places)
        self.voter_of = {link: voter for voter, link in self.voters.items()}
        self.path_of = {link: path for path, link in enumerate(self.own)}

    def ask(self, voter: str, question: Question) -> None:
        """Ask a witness, or a voter below that has said hello; a question that can't leave is lost like any other."""
        if voter in self.voters:
            self.voters[voter].send(question)
        elif voter in self.below and self.below.at(voter):
            self.clients.send(question, to=self.below.at(voter))

    def is_of_voter(self, letter: Letter) -> bool:
        """True: the letter is a voter's, of a witness on its link or of a voter below at the endpoint for clients."""
        return letter.link in self.voter_of or (
            letter.link is self.clients and isinstance(letter.message, VoterHello | Voted)
        )

    def vote_of(self, letter: Letter) -> Voted | None:
        """Vote in a letter of a voter; None: it is a hello, or is not believed and counted."""
        message, objection = letter.message, ""
        if letter.link in self.voter_of:
            voter = self.voter_of[letter.link]
            if isinstance(message, Voted) and message.voter == voter:
                return message
            objection = f"{type(message).__name__} from {voter}"
        elif isinstance(message, VoterHello | Voted):
            objection = self.below.objection(message, letter.sender, letter.principal)
            if not objection and isinstance(message, Voted):
                return message
        if objection:
            self._refuse(objection)
        elif isinstance(message, VoterHello):
            self.below.hears(message, letter.sender, self._actor.now())
            if self.below.is_twice(message.voter):
                self._refuse("voter_twice")
        return None

    def unheard(self) -> dict[str, int]:
        """Number of messages that were not heard from the holder of a trusted key, by what `status` calls them."""
        return {f"not heard on {link.name}": link.unheard for link in self._all() if link.unheard}

    def close(self) -> None:
        for link in self._all():
            link.close(link.linger_ms)

    def _all(self) -> tuple[Link, ...]:
        return (*self.voters.values(), *self.others, *self.own, self.clients)


def _only(name: str, at: KeyedEnd) -> Hears:
    """Judge of who is heard at that end: of members and witnesses, the holder of this name only."""
    return Audience(at, frozenset({name})).hears
