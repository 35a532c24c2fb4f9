"""WITNESS: votes for every pair of a topology that lists it, and holds no data.

It has one seat per pair (seats.py) and listens at an endpoint to which the members connect. For the end of a holder's
process it connects to the members' endpoints for each other.

Spec: design/pair.md, The voter protocol, exactly; docs/witness.md; ADR-0103.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from albireo.codec.message import Ask
from albireo.codec.pair_message import Accept, Install, Prepare, Read, Release
from albireo.codec.principal import Audience, KeyedEnd
from albireo.log import FileSystem, OsFileSystem
from albireo.model.instant import Instant
from albireo.node.vote.seats import FLOOR_SYNC_NS, LIMITS, AskingPair, VoterSeats
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, Link
from albireo.runtime.errors import EndpointRefused, KeysRefused
from albireo.runtime.link.keys import Keys


class WitnessArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from the command."""

    voter: str
    """Name in the voter lists: `witness:w1`."""
    endpoint: str
    keys: str = ""
    """Directory of its keys; empty: none, on loopback only."""
    floor_sync_ns: int = FLOOR_SYNC_NS
    pairs: Annotated[tuple[AskingPair, ...], msgspec.Meta(min_length=1)]


class Witness:
    """The behaviour of the actor `witness`."""

    name = "witness"

    def __init__(self, arguments: WitnessArguments, files: FileSystem | None = None) -> None:
        """`files`: the real file system, unless a test has another."""
        self._arguments = arguments
        self._files = files or OsFileSystem()
        self.seats: VoterSeats
        self._link: Link
        self.endpoint = ""
        """Endpoint at which this witness listens, with the real port."""

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        arguments = self._arguments
        self.seats = VoterSeats(actor, arguments.voter, arguments.floor_sync_ns, self._arm)
        self.seats.open(arguments.pairs, self._files)
        actor.bind("witness", LIMITS)
        try:
            self._connect(arguments)
        except (EndpointRefused, KeysRefused) as error:
            raise ConfigurationRefused(str(error)) from error

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case Read() | Prepare() | Accept() | Release() | Install() as question:
                    self.seats.asked(question, letter)
                case Ask() as ask:
                    letter.link.send(self.seats.answer(ask, self._link.unheard), to=letter.sender)
                case _:
                    self.seats.misheard(letter)

    def ticked(self, now: Instant) -> None:
        self.seats.pass_time(now)
        self._arm()

    async def stop(self) -> None:
        self.seats.close()
        self._actor.log.info("witness_stopped")

    def _connect(self, arguments: WitnessArguments) -> None:
        actor = self._actor
        keys = Keys.load(Path(arguments.keys)) if arguments.keys else None
        places = frozenset(member.place for pair in arguments.pairs for member in pair.members)
        hears = Audience(KeyedEnd.WITNESS, places).hears
        self._link = actor.bind_tcp("witness", arguments.endpoint, keys, LIMITS, hears)
        self.endpoint = self._link.endpoint
        nodes = [pair.node for pair in arguments.pairs]
        actor.log.info("witness_started", voter=arguments.voter, endpoint=self.endpoint, pairs=", ".join(nodes))
        self.seats.watch(keys)

    def _arm(self) -> None:
        self._actor.arm(self.seats.deadline())


def create(arguments: Mapping[str, object]) -> Witness:
    """Factory for the runtime."""
    return Witness(msgspec.convert(arguments, WitnessArguments))
