"""The PLCs that vote: one register voter each, between the member machine and the adapter that owns the connection.

    member's question --> RegisterVoter.step --> read, write, hang up --> adapter --> PLC
    adapter's answer  --> RegisterVoter.step --> vote                 --> member

Invariants
    synced:      the copy of the own block is in the store header before a write of it leaves.
    connection:  one that was there before this run of CORE is hung up first: a request of the run before may be on it.

Spec: design/pair.md, The PLC register block; ADR-0095 to 0097.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from albireo.codec.message import (
    AnyMessage,
    VoterHangUp,
    VoterLost,
    VoterOffered,
    VoterRead,
    VoterReadAsked,
    VoterWriteAsked,
    VoterWritten,
)
from albireo.codec.pair_message import Question, Voted
from albireo.machine.pair.config import PairConfig
from albireo.machine.vote.events import (
    Answer,
    Asked,
    Connected,
    ConnectionLost,
    Event,
    HangUp,
    HolderGone,
    OwnCopy,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegistersRead,
    RegistersWritten,
    TimePassed,
    WriteBlock,
)
from albireo.machine.vote.register import RegisterVoter
from albireo.model.instant import MS, Instant, soonest
from albireo.node.member.arguments import PlcWaits

PREFIX: Final = "plc:"
"""Before the adapter's name in a voter list."""
WRITE_WITHIN_NS: Final = 500 * MS
"""A write that its adapter could not send by then is not sent: the member will have asked again."""

_FromAdapter = VoterOffered | VoterLost | VoterRead | VoterWritten


class Outside(msgspec.Struct, frozen=True):
    """What the voters need of the tenure."""

    send: Callable[[bytes, AnyMessage], object]
    """To an adapter."""
    keep: Callable[[bytes], None]
    """Into the store header, synced when it returns."""
    voted: Callable[[Voted], None]


class _Line(msgspec.Struct):
    """One voter and the adapter it speaks through."""

    machine: RegisterVoter
    adapter: str
    sender: bytes = b""
    connection: int = 0
    """0: none that may be used."""
    hung_up: int = 0
    """Found at the start, and being closed."""


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
        """`waits`: of each PLC, by voter name; without, the defaults of the machine."""
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
        self._step(voter, Asked(question), now)

    def holder_gone(self, run: int, now: Instant) -> None:
        """The process of that run is known to be gone."""
        for voter in self._lines:
            self._step(voter, HolderGone(run), now)

    def hears(self, sender: bytes, message: object, now: Instant) -> bool:
        """Take an adapter's word on a voter's connection; False: it is about something else."""
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
                line.hung_up = line.hung_up or -1  # Whatever was there before this run is closed.
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
            self._step(voter, ConnectionLost(line.connection), now)  # The adapter is a new run of itself.
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
                case HangUp(connection):
                    self._outside.send(line.sender, VoterHangUp(adapter=line.adapter, connection=connection))
                case Answer(message):
                    self._outside.voted(message)

    def describe(self) -> dict[str, object]:
        """By voter, for `status`."""
        return {
            voter: {
                "connected": line.connection != 0,
                "phase": line.machine.state.phase.value,
                "trouble": line.machine.state.trouble,
                "refused": dict(line.machine.refusals),
            }
            for voter, line in self._lines.items()
        }


def copies_of(kept: bytes) -> dict[str, OwnCopy]:
    """The copies of the own blocks as the store header has them.

    Raises:
        msgspec.DecodeError: the header is whole (it has a CRC) and yet no program of ours wrote this.
    """
    return msgspec.json.decode(kept, type=dict[str, OwnCopy]) if kept else {}
