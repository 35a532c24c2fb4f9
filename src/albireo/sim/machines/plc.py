"""A PLC that votes with its registers, and the register voters of both members that share it.

A connection sees its own write once it has landed, the other connection within `settle` of that. A write of a broken
connection lands within `dead_time` or never. The PLC may restart with its registers or without them, and tear a write.

Spec: design/pair.md, The PLC register block.
"""

from functools import partial
from typing import Final

from albireo.codec.pair_message import Accept
from albireo.codec.register_block import BLOCK_REGISTERS, Ballot, cluster_tag, encode_ballot
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import FromVoter
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
from albireo.machine.vote.voter import SendVote
from albireo.model.instant import MS, TimePassed
from albireo.sim.engine.agenda import Timer
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.stage import MemberNode, PairStage

SETTLE_MS: Final = 5
DEAD_MS: Final = 200
REQUEST_TIMEOUT_MS: Final = 150
"""Longest wait of the adapter for an answer; then it closes the connection by RST."""


class Side:
    """One member's half: its machine, its synced copy and its connection."""

    def __init__(self, copy: OwnCopy) -> None:
        self.copy = copy
        self.machine: RegisterVoter
        self.timer: Timer
        self.connection = 0
        self.is_connected = False
        self.requests = 0
        self.answered = 0


class Plc:
    """PLC with two blocks in memory, each as its own member sees it and as the other member does."""

    def __init__(self, stage: PairStage, ledger: PairLedger, name: str) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = stage.chance
        self.ledger = ledger
        self.name = name
        self.sides = [Side(OwnCopy(ballot=first_ballot(stage.config, index), landed=1)) for index in (0, 1)]
        self._own = [_padded(encode_ballot(side.copy.ballot)) for side in self.sides]
        self._cross = [list(block) for block in self._own]
        self._shown_at = [0, 0]
        self._landed_at = [0, 0]
        self._forgets = 0
        """Number of restarts with memory lost: a write that was on its way before one has no effect after it."""

    def start_side(self, node: MemberNode) -> None:
        """Build a member's machine anew from its copy, as each new run of CORE does."""
        side, config = self.sides[node.index], self.stage.config
        whole = RegisterConfig(
            name=self.name,
            cluster=config.cluster,
            voters=config.voters,
            generation=config.generation,
            member=node.index,
            run=node.machine.own.run,
            lease_ns=config.lease_ns,
            settle_ns=SETTLE_MS * MS,
            poll_ns=2 * MS,
            dead_time_ns=DEAD_MS * MS,
            watch_ns=40 * MS,
        )
        side.machine = self.stage.variant.register(whole, side.copy, node.now)
        side.is_connected = False
        ring = partial(self.step, node, TimePassed())
        side.timer = Timer(self.agenda, node, partial(node.awake, ring, node.life))
        self._connect(node)

    def step(self, node: MemberNode, event: Event) -> None:
        """Step a member's machine and carry out its effects; own questions come here too: same process, no network."""
        side, stage = self.sides[node.index], self.stage
        stage.steps += 1
        stage.timers += isinstance(event, TimePassed)
        for effect in side.machine.step(event, node.now):
            match effect:
                case PersistCopy(copy):
                    side.copy = copy
                case ReadBlocks(connection):
                    self._request(node, connection, partial(self._read, node, connection))
                case WriteBlock(connection, register, words):
                    self._request(node, connection, partial(self._write, node, connection, register, words))
                case ResetConnection(connection):
                    self._lost(node, connection)
                case SendVote(voted):
                    if voted.is_granted and voted.question == Accept.__struct_config__.tag and voted.record:
                        self.ledger.accepts(self.name, voted.record)
                    node.deliver(FromVoter(voted))
            if not node.is_up:
                return
        side.timer.arm(side.machine.deadline())

    def _connect(self, node: MemberNode) -> None:
        """Connect a member, and try until the PLC can be reached."""
        side = self.sides[node.index]
        if side.is_connected:
            return
        if self._is_cut(node):
            self.agenda.after_ms(40, partial(node.awake, partial(self._connect, node), node.life))
            return
        side.connection += 1
        side.is_connected = True
        self.step(node, Connected(side.connection))

    def _is_cut(self, node: MemberNode) -> bool:
        return self.stage.network.is_cut_off(node.name, self.name)

    def _request(self, node: MemberNode, connection: int, serve: "partial[None]") -> None:
        """Send a request, one at a time, in order; no answer in time breaks the connection."""
        side = self.sides[node.index]
        side.requests += 1
        number = side.requests
        if not self._is_cut(node):
            self.agenda.after_ms(self.stage.network.delay_ms(), serve)

        def expire() -> None:
            if side.answered < number:
                self._lost(node, connection)

        self.agenda.after_ms(REQUEST_TIMEOUT_MS, partial(node.awake, expire, node.life))

    def _answer(self, node: MemberNode, connection: int, event: Event) -> None:
        side = self.sides[node.index]

        def heard() -> None:
            if side.connection == connection and side.is_connected:
                side.answered = side.requests
                self.step(node, event)

        if not self._is_cut(node):
            self.agenda.after_ms(self.stage.network.delay_ms(), partial(node.awake, heard, node.life))

    def _lost(self, node: MemberNode, connection: int) -> None:
        side = self.sides[node.index]
        if side.connection != connection or not side.is_connected:
            return
        side.is_connected = False
        side.answered = side.requests
        self.step(node, ConnectionLost(connection))
        self.agenda.after_ms(5, partial(node.awake, partial(self._connect, node), node.life))

    def _read(self, node: MemberNode, connection: int) -> None:
        blocks = [self._own[index] if index == node.index else self._cross[index] for index in (0, 1)]
        self._answer(node, connection, RegistersRead(connection, tuple(blocks[0] + blocks[1])))

    def _write(self, node: MemberNode, connection: int, register: int, words: tuple[int, ...]) -> None:
        side, agenda, chance = self.sides[node.index], self.agenda, self.chance
        if side.connection != connection or not side.is_connected or not node.is_up:
            # The connection broke meanwhile: the write lands late, or never.
            if chance.random() < 0.5:
                late_ms = chance.random() * DEAD_MS * 0.8
                agenda.after_ms(late_ms, partial(self._lands, node.index, register, words, self._forgets))
            return
        lag_ms = 30 * chance.random() if chance.random() < self.stage.swarm.plc_lag else 0.0
        self._landed_at[node.index] = max(self._landed_at[node.index], agenda.at + int(lag_ms * MS))
        if self._landed_at[node.index] == agenda.at:
            self._lands(node.index, register, words, self._forgets)
        else:
            agenda.call_at(
                self._landed_at[node.index], partial(self._lands, node.index, register, words, self._forgets)
            )
        self._answer(node, connection, RegistersWritten(connection))

    def _lands(self, index: int, register: int, words: tuple[int, ...], forgets: int) -> None:
        if forgets != self._forgets:
            return
        self._own[index][register : register + len(words)] = words
        image = list(self._own[index])
        lag_ns = int(self.chance.choice((0.0, 0.0, 0.9)) * SETTLE_MS * MS)
        at = max(self._shown_at[index], self.agenda.at + lag_ns)
        self._shown_at[index] = at

        def show() -> None:
            if forgets == self._forgets:
                self._cross[index] = image

        if at == self.agenda.at:
            show()
        else:
            self.agenda.call_at(at, show)

    def break_connections(self) -> None:
        for node in self.stage.members:
            side = self.sides[node.index]
            if node.is_up and side.is_connected:
                node.awake(partial(self._lost, node, side.connection))

    def forget(self) -> None:
        """Restart the PLC without its registers."""
        self._forgets += 1
        for block in (*self._own, *self._cross):
            block[:] = [0] * BLOCK_REGISTERS
        self.break_connections()

    def tear(self) -> None:
        """Stop a write of one member half way, and break all connections."""
        index = self.chance.randrange(2)
        self._own[index][1] ^= 1
        self._cross[index] = list(self._own[index])
        self.break_connections()


def _padded(words: tuple[int, ...]) -> list[int]:
    return [*words, *([0] * (BLOCK_REGISTERS - len(words)))]


def first_ballot(config: PairConfig | RegisterConfig, index: int) -> Ballot:
    """Return a member's ballot after `pair init`: the primary's epoch is promised; in the primary's it is accepted too,
    of nobody's run, with the primary alone in the set."""
    return Ballot(
        count=1,
        cluster_tag=cluster_tag(config.cluster),
        member=index,
        generation=config.generation,
        lease_ms=config.lease_ns // MS,
        promised=2,
        epoch=2 if index == 0 else 0,
        version=1 if index == 0 else 0,
        members=(0,) if index == 0 else (),
    )
