"""The PLCs that vote: one register voter each, between the member machine and the adapter that owns the connection.

    member's question --> RegisterVoter.step --> read, write, hang up --> adapter --> PLC
    adapter's answer  --> RegisterVoter.step --> vote                 --> member

Invariants
    synced:      the copy of the own block is in the store header before a write of it leaves.
    connection:  a connection that is older than this run of CORE is closed first: a request of an earlier run may be
                 under way on it.

Spec: design/pair.md, The PLC register block; ADR-0095 to 0097.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage
from albireo.codec.pair_message import Question, Voted
from albireo.codec.register_block import (
    VoterHangUp,
    VoterLost,
    VoterOffered,
    VoterRead,
    VoterReadAsked,
    VoterWriteAsked,
    VoterWritten,
)
from albireo.machine.pair.config import PairConfig
from albireo.machine.vote.events import (
    Connected,
    ConnectionLost,
    Event,
    OwnCopy,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegistersRead,
    RegistersWritten,
    ResetConnection,
    WriteBlock,
)
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import HolderGone, SendVote, VoteAsked
from albireo.model.instant import MS, Instant, TimePassed, soonest
from albireo.model.status import PlcVoterStatus
from albireo.model.topology import PlcWaits

PREFIX: Final = "plc:"
"""Prefix of the adapter's name in a voter list."""
WRITE_WITHIN_NS: Final = 500 * MS
"""Time within which an adapter must send a write, or not at all: the member will have asked again."""

_FromAdapter = VoterOffered | VoterLost | VoterRead | VoterWritten


class Outside(msgspec.Struct, frozen=True):
    """Calls of the membership that the voters need."""

    send: Callable[[bytes, AnyMessage], object]
    """Send a message to an adapter."""
    keep: Callable[[bytes], None]
    """Write this into the store header; it is synced when the call returns."""
    voted: Callable[[Voted], None]


class _Line(msgspec.Struct):
    """One voter and the adapter it speaks through."""

    machine: RegisterVoter
    adapter: str
    sender: bytes = b""
    connection: int = 0
    """Connection that may be used; 0: none."""
    hung_up: int = 0
    """Connection found at the start, which is being closed; 0: none yet, -1: none was there."""


class PlcVoters:
    """All PLCs in the voter list of one member."""

    def __init__(
        self,
        config: PairConfig,
        member: int,
        run: int,
        kept: bytes,
        outside: Outside,
        now: Instant,
        waits: Mapping[str, PlcWaits] | None = None,
    ) -> None:
        """`waits`: of each PLC, by voter name; a PLC without any has the defaults."""
        self._member = member
        self._outside = outside
        self._copies = copies_of(kept)
        self._lines: dict[str, _Line] = {}
        for name in config.voters:
            if name.startswith(PREFIX):
                wait = (waits or {}).get(name, PlcWaits())
                registers = RegisterConfig(
                    name=name,
                    cluster=config.cluster,
                    voters=config.voters,
                    generation=config.generation,
                    member=member,
                    run=run,
                    lease_ns=config.lease_ns,
                    drift=config.drift,
                    settle_ns=wait.settle_ms * MS,
                    dead_time_ns=wait.dead_time_ms * MS,
                )
                machine = RegisterVoter(registers, self._copies.get(name), now)
                self._lines[name] = _Line(machine, name.removeprefix(PREFIX))

    def __contains__(self, voter: str) -> bool:
        return voter in self._lines

    def ask(self, voter: str, question: Question, now: Instant) -> None:
        self._step(voter, VoteAsked(question), now)

    def holder_gone(self, run: int, now: Instant) -> None:
        """Tell every voter that the process of that run is known to be gone."""
        for voter in self._lines:
            self._step(voter, HolderGone(run), now)

    def hears(self, sender: bytes, message: object, now: Instant) -> bool:
        """Take an adapter's word on a voter's connection; False: the message is about something else."""
        if not isinstance(message, _FromAdapter):
            return False
        voter = PREFIX + message.adapter
        line = self._lines.get(voter)
        if line is None:
            return True
        match message:
            case VoterOffered(connection=connection):
                self._offered(voter, line, sender, connection, now)
            case VoterLost(connection=connection):
                line.hung_up = line.hung_up or -1  # No connection of an earlier run is open any more.
                if connection == line.connection:
                    line.connection = 0
                    self._step(voter, ConnectionLost(connection), now)
            case VoterRead(connection=connection, words=words):
                self._step(voter, RegistersRead(connection, words), now)
            case VoterWritten(connection=connection):
                self._step(voter, RegistersWritten(connection), now)
        return True

    def _offered(self, voter: str, line: _Line, sender: bytes, connection: int, now: Instant) -> None:
        if connection == line.connection:
            return
        line.sender = sender
        if line.hung_up == 0 or connection == line.hung_up:
            line.hung_up = connection
            self._outside.send(sender, VoterHangUp(adapter=line.adapter, connection=connection))
            return
        if line.connection:
            self._step(voter, ConnectionLost(line.connection), now)  # The adapter has begun a new run.
        line.connection = connection
        self._step(voter, Connected(connection), now)

    def deadline(self) -> Instant | None:
        return soonest(*(line.machine.deadline() for line in self._lines.values())) if self._lines else None

    def ticked(self, now: Instant) -> None:
        for voter, line in self._lines.items():
            due = line.machine.deadline()
            if due is not None and now >= due:
                self._step(voter, TimePassed(), now)

    def _step(self, voter: str, event: Event, now: Instant) -> None:
        line = self._lines[voter]
        for effect in line.machine.step(event, now):
            match effect:
                case PersistCopy(copy):
                    self._copies[voter] = copy
                    self._outside.keep(msgspec.json.encode(self._copies))
                case ReadBlocks(connection):
                    self._outside.send(line.sender, VoterReadAsked(adapter=line.adapter, connection=connection))
                case WriteBlock(connection, register, words):
                    asked = VoterWriteAsked(
                        adapter=line.adapter,
                        connection=connection,
                        member=self._member,
                        register=register,
                        words=words,
                        not_after=now + WRITE_WITHIN_NS,
                    )
                    self._outside.send(line.sender, asked)
                case ResetConnection(connection):
                    self._outside.send(line.sender, VoterHangUp(adapter=line.adapter, connection=connection))
                case SendVote(message):
                    self._outside.voted(message)

    def describe(self) -> dict[str, PlcVoterStatus]:
        """State of each PLC's voter, for `status`."""
        return {
            voter: PlcVoterStatus(
                connected=line.connection != 0,
                phase=line.machine.state.phase.value,
                trouble=line.machine.state.trouble,
                refused=dict(line.machine.refusals),
            )
            for voter, line in self._lines.items()
        }


def copies_of(kept: bytes) -> dict[str, OwnCopy]:
    """The copies of the own blocks as the store header has them.

    Raises:
        msgspec.DecodeError: the header is whole (it has a CRC) and yet no program of ours wrote this.
    """
    return msgspec.json.decode(kept, type=dict[str, OwnCopy]) if kept else {}
