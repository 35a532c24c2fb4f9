"""VOTER: votes for pairs above a node that list it, on the node's own disk.

It has one seat per pair (seats.py), as a witness has. Unlike a witness it listens nowhere: it dials both members of
each pair at their endpoints for clients, as CORE dials the parent, because sites are often behind firewalls that let
nobody in. It says hello on each link, each second, and is asked there. Those endpoints also tell it that a holder's
process is gone.

An actor of its own, which needs none of the others: a vote waits for no turn of CORE and for no sync of the log, goes
on while CORE starts or ends, and does not depend on whether this node leads a pair of its own. It starts anew like
every actor: its store is made durable once more before it answers, and for as long as a lease it grants nobody but the
recorded holder anything.

Spec: design/pair.md, The voter protocol, exactly; docs/topology.md, The tree; ADR-0198.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec

from albireo.codec.message import Ask
from albireo.codec.pair_message import Accept, Install, Prepare, Read, Release, VoterHello
from albireo.codec.principal import Audience, KeyedEnd
from albireo.log import FileSystem, OsFileSystem
from albireo.model.instant import SECOND, Instant, soonest
from albireo.node.vote.seats import FLOOR_SYNC_NS, LIMITS, AskingMember, AskingPair, VoterSeats
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, Link
from albireo.runtime.errors import EndpointRefused, KeysRefused
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys

HELLO_NS: Final = SECOND
"""Time between two hellos."""
SILENCE_MS: Final = 5_000
"""Silence of a member after which its link is dialled anew; a member asks every two seconds at the latest."""


class NodeVoterArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from boot."""

    voter: str
    """Name in the voter lists: `node:root/north`, `node:root/south[primary]`."""
    keys: str = ""
    """Directory of the node's CURVE keys; empty: none, so pairs are reached on loopback only."""
    floor_sync_ns: int = FLOOR_SYNC_NS
    pairs: Annotated[tuple[AskingPair, ...], msgspec.Meta(min_length=1)]


class NodeVoter:
    """The behaviour of the actor `voter`."""

    name = "voter"

    def __init__(self, arguments: NodeVoterArguments, files: FileSystem | None = None) -> None:
        """`files`: the real file system, unless a test has another."""
        self._arguments = arguments
        self._files = files or OsFileSystem()
        self.seats: VoterSeats
        self._hellos: dict[Link, VoterHello] = {}
        self._say_at = Instant(0)

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        arguments = self._arguments
        self.seats = VoterSeats(actor, arguments.voter, arguments.floor_sync_ns, self._arm)
        self.seats.open(arguments.pairs, self._files)
        actor.bind("voter", LIMITS)
        try:
            keys = Keys.load(Path(arguments.keys)) if arguments.keys else None
            for pair in arguments.pairs:
                for member in pair.members:
                    self._dial(pair, member, keys)
            self.seats.watch(keys)
        except (EndpointRefused, KeysRefused) as error:
            raise ConfigurationRefused(str(error)) from error
        nodes = [pair.node for pair in arguments.pairs]
        actor.log.info("voter_started", voter=arguments.voter, pairs=", ".join(nodes))
        self._arm()

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case Read() | Prepare() | Accept() | Release() | Install() as question:
                    self.seats.asked(question, letter)
                case Ask() as ask:
                    unheard = sum(link.unheard for link in self._hellos)
                    letter.link.send(self.seats.answer(ask, unheard), to=letter.sender)
                case _:
                    self.seats.misheard(letter)

    def ticked(self, now: Instant) -> None:
        if now >= self._say_at:
            self._say_at = Instant(now + HELLO_NS)
            for link in self._hellos:
                self._say(link)
        self.seats.pass_time(now)
        self._arm()

    async def stop(self) -> None:
        self.seats.close()
        for link in self._hellos:
            link.close(TCP_LIMITS.linger_ms)
        self._actor.log.info("voter_stopped")

    def _dial(self, pair: AskingPair, member: AskingMember, keys: Keys | None) -> None:
        limits = msgspec.structs.replace(LIMITS, holds_for_peer=False, silence_ms=SILENCE_MS)
        hears = Audience(KeyedEnd.TO_PAIR, frozenset({member.place})).hears
        for endpoint in member.endpoints:
            link = self._actor.connect_tcp(f"vote {member.place}", endpoint, keys, limits, member.place, hears)
            self._hellos[link] = VoterHello(voter=self._arguments.voter, cluster=pair.cluster)
            link.on_connection = partial(self._connected, link)

    def _connected(self, link: Link, is_up: bool) -> None:  # A callback of the link.
        if is_up:
            self._say(link)

    def _say(self, link: Link) -> None:
        link.send(self._hellos[link])

    def _arm(self) -> None:
        self._actor.arm(soonest(self._say_at, self.seats.deadline()))


def create(arguments: Mapping[str, object]) -> NodeVoter:
    """Factory for the runtime."""
    return NodeVoter(msgspec.convert(arguments, NodeVoterArguments))
