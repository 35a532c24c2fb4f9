"""Ticket door: a listening TCP link of an actor other than CORE, at which only those are heard who show a ticket.

    self._door = TicketDoor(actor, "desk", "tcp://10.0.0.5:7800", place.node, keys)      in `start`
    for letter in self._door.take(letters): ...                                          in `drained`
    self._door.ticked(now); actor.arm(self._door.deadline())                             in `ticked`

The keys are those of the node, so whoever connects has a trusted key, or without keys is on this machine. The machine
is machine/access/door_keeper.py.
"""

from collections.abc import Sequence

from albireo.codec.message import Answer
from albireo.codec.principal import Audience, KeyedEnd
from albireo.machine.access.door_keeper import DoorKeeper, Effects, Entrance
from albireo.model.access import AccessRole
from albireo.model.instant import Instant
from albireo.model.principal import members_named
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.link import LinkLimits
from albireo.runtime.link.sockets import Letter


class TicketDoor:
    """The door of one run of an actor; its links are closed with the actor."""

    def __init__(
        self,
        actor: ActorContext,
        name: str,
        endpoint: str,
        node: str,
        keys: Keys | None,
        needs: AccessRole = AccessRole.VIEW,
        limits: LinkLimits = TCP_LIMITS,
    ) -> None:
        """Open it.

        Args:
            name: name of the door, unique in the node; tickets are for it.
            endpoint: address at which it listens; port `*` takes a free one, see `link.endpoint`.
            node: id of the node.
            keys: those of the node; None: none, on a loopback address only.
            needs: role that somebody needs to be let in.
        Raises:
            EndpointRefused, AddressTaken: it can't listen there.
        """
        hears = Audience(KeyedEnd.CLIENT, expected=members_named(node)).hears
        self.link = actor.bind_tcp(f"door {name}", endpoint, keys, limits, hears=hears)
        self._core = actor.connect("core")
        self._now = actor.now
        self._keeper = DoorKeeper(node, name, self.link.endpoint, needs, actor.now())
        self.ticked(actor.now())

    def take(self, letters: Sequence[Letter]) -> list[Letter]:
        """Letters that are for the actor: from inside, or from links of its own. The others are dealt with."""
        return [one for one in letters if self._lets_through(one)]

    def inside(self, letter: Letter) -> Entrance | None:
        """Who said it: session and role, as CORE told last; None: it is from outside, or did not come through here."""
        return self._keeper.inside(letter.sender, letter.principal) if letter.link is self.link else None

    def deadline(self) -> Instant:
        return self._keeper.deadline()

    def ticked(self, now: Instant) -> None:
        """Do what is due; to be called at `deadline` at the latest."""
        self._perform(self._keeper.time_passed(now))

    def _lets_through(self, letter: Letter) -> bool:
        if letter.link is self._core:
            if isinstance(letter.message, Answer):
                self._perform(self._keeper.answered(letter.message, self._now()))
            return False
        if letter.link is not self.link:
            return True
        is_let_through, effects = self._keeper.hears(letter.sender, letter.principal, letter.message, self._now())
        self._perform(effects)
        return is_let_through

    def _perform(self, effects: Effects) -> None:
        for one in effects:
            (self.link if one.to else self._core).send(one.message, to=one.to)
