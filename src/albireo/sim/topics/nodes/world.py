"""Topics of a pair of whole nodes, from a seed: the real actors with their files, beside the real COREs.

    two members    CORE as in `sim/nodes/world.py`, and the actor `topics` with its threads, its store and its files
    programs       they put, with transactions among it, and read, alone or in a crew; some die and others begin
    an operator    declares and subscribes, and once the faults have stopped has all that is kept read at either member

Safety is checked at each commit and delivery (`sim/topics/ledger.py`), liveness once the faults have stopped: all is
read, each batch that was acknowledged stands in the log once, and what is kept can be read from its first message on at
both members, whatever became of their files.

`sim/topics/world.py` plays the serving machines alone, and many more of their turns.
Spec: ADR-0247; docs/simulation.md.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from albireo.codec.frame import Frame, encode
from albireo.codec.message import Answer
from albireo.codec.puts import CursorMoved, KeyPut
from albireo.codec.questions.topics import SUBSCRIBE, TOPIC_CREATE
from albireo.codec.record import Kind, Record, Stream, decode_records
from albireo.machine.fold.topics.subscriptions import Cursors
from albireo.machine.kernel.named import HISTORY, TOPICS
from albireo.machine.producer.flight import PutOffer
from albireo.model.instant import MS, SECOND
from albireo.model.topic import UNTIL_READ, TopicPolicy
from albireo.model.topic_lease import Sharing
from albireo.node.core.arguments import CoreArguments
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.swarm import NodeSwarm, swarm_of
from albireo.sim.nodes.world import RECOVERY_NS, NodeWorld
from albireo.sim.topics.ledger import TopicsLedger
from albireo.sim.topics.log import AppendedFrame
from albireo.sim.topics.nodes.clients import PutProgram, ReadProgram
from albireo.sim.topics.nodes.faults import TOPIC_FAULTS, TopicNodeFaults
from albireo.sim.topics.nodes.machine import TopicsMember
from albireo.sim.topics.programs import SimProgram

KEPT, PLAIN, RING, JOBS, DEAD, STORE, MADE = "kept", "plain", "ring", "jobs", "dead", "store", "made"
POLICIES: Final = {
    KEPT: TopicPolicy(keep_s=86_400),
    PLAIN: UNTIL_READ,
    RING: TopicPolicy(max_messages=6),
    JOBS: UNTIL_READ,
    DEAD: TopicPolicy(keep_s=86_400),
    STORE: TopicPolicy(last_value=True),
    MADE: TopicPolicy(keep_s=86_400),
}
LEASE_S: Final = 2
SUBSCRIPTIONS: Final = {
    "plain": ((KEPT, PLAIN), None),
    "ring": ((RING,), None),
    "crew": ((JOBS,), Sharing(lease_s=LEASE_S, deliveries_max=2, dead_letters=DEAD)),
}
CREW: Final = 2
PUTTERS: Final = ("p", "q", "tx-1", "tx-2")
UNDER_WAY_MAX: Final = 4
BEGIN_MS: Final = 700.0
AGAIN_MS: Final = 300.0
READ_NS: Final = 90 * SECOND
"""Bound on reading everything once the faults stopped: files may have to come from the other member first."""
TOPIC_BOUNDS: Final = {
    "node.topics.actor:SEAL_NS": SECOND,
    "node.topics.actor:SEAL_BLOCKS": 20,
    "node.topics.actor:LEVEL_NS": 500 * MS,
    "node.topics.store:MERGE_FILES": 3,
    "node.topics.filling:PIECE_BYTES": 600,
    "machine.topics.filling:KEEP_BYTES": 2_000,
}
"""Bounds that a plant reaches in minutes, or with megabytes."""
SLOW: Final = frozenset({"machine.feed.leader:PULL_BYTES"})
"""Bounds of the pair with which followers take minutes to catch up with what topics bring."""


def topic_swarm_of(seed: int) -> NodeSwarm:
    """Draw the mix of one seed."""
    chance = random.Random(f"topic nodes {seed}")
    drawn = swarm_of(seed)
    faults = (*drawn.faults, *(one for one in TOPIC_FAULTS if chance.random() < 0.5))
    bounds = {name: value for name, value in drawn.bounds.items() if name not in SLOW}
    return msgspec.structs.replace(drawn, faults=faults, bounds={**bounds, **TOPIC_BOUNDS})


class TopicsNodeLedger(NodeLedger):
    """Ledger of the pair, with that of its topics."""

    def __init__(self, majority: int, fail: Callable[[str], None]) -> None:
        super().__init__(majority, fail)
        self.topics = TopicsLedger()
        self.topics.lease_ms = 1_000 * LEASE_S

    def _first_commit(self, frame: Frame) -> None:
        super()._first_commit(frame)
        records: list[Record] = []
        if frame.header.stream == Stream.STATE and frame.header.kind == Kind.RECORDS:
            records = decode_records(frame.body, frame.header.record_count)
        self.topics.log(AppendedFrame(frame.header, encode(frame), None, records))


class TopicNodeWorld(NodeWorld):
    """The world of a seed."""

    member_type = TopicsMember
    ledger_type = TopicsNodeLedger
    members: list[TopicsMember]  # type: ignore[assignment]  # They are of this type.
    ledger: TopicsNodeLedger

    def __init__(self, seed: int, swarm: NodeSwarm | None = None) -> None:
        super().__init__(seed, swarm or topic_swarm_of(seed))
        self.topics: dict[str, int] = {}
        self.subscriptions: dict[str, int] = {}
        self.readers: list[ReadProgram] = []
        self.acked: list[PutOffer] = []
        self.refused: list[PutOffer] = []
        self._count = 0
        self._is_putting = True
        self._moving: dict[int, tuple[ReadProgram, int, int]] = {}
        """Transactions under way by identity of their batch: reader, topic and number of the message they are about."""
        clients = [f"tcp://{one.host.name}:clients" for one in self.members]
        outside = self.reader.host
        self._outside = outside
        self.putters = [PutProgram(self.stage, outside, name, clients, self._told) for name in PUTTERS]

    def _faults(self) -> TopicNodeFaults:
        return TopicNodeFaults(self.stage, self.members, self.voters, self.producers, self._begin_rival)

    def _core_arguments(self, *arguments: Any) -> CoreArguments:
        found = super()._core_arguments(*arguments)
        retention = msgspec.structs.replace(found.retention, named=(HISTORY, TOPICS))
        return msgspec.structs.replace(found, retention=retention)

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        try:
            with super().living():
                yield
        finally:
            for member in self.members:
                if member.topics.actor is not None:
                    member.topics.actor.loop.end()

    def begin(self) -> None:
        for member in self.members:
            member.topics.start_soon(self.chance.random() * 50)
        super().begin()
        for name, policy in POLICIES.items():
            told = partial(self._declared, name)
            self.order(TOPIC_CREATE.name, told, name=name, policy=msgspec.to_builtins(policy))
        self.within(RECOVERY_NS, lambda: len(self.topics) == len(POLICIES), lambda: f"declared: {self.topics}")
        for name in SUBSCRIPTIONS:
            self._subscribe(name)
        self.within(RECOVERY_NS, lambda: len(self.subscriptions) == len(SUBSCRIPTIONS), lambda: "nobody subscribes")
        for putter in self.putters:
            self._put(putter)
        self._change_readers()

    # The operator.

    def order(self, what: str, then: Callable[[Any], object], **arguments: object) -> None:
        """Ask whoever leads, again until it is done; asked twice, it is done once."""
        done: list[object] = []

        def answered(answer: Answer) -> None:
            if answer.refusal is None and not done:
                done.append(answer)
                then(answer.result)

        def again() -> None:
            active = next((one for one in self.members if one.is_serving), None)
            if active is not None and not done:
                active.operator.order(what, answered, **arguments)
            if not done:
                self.agenda.after_ms(AGAIN_MS, again)

        again()

    def _declared(self, name: str, result: Any) -> None:
        self.topics[name] = result["topic_id"]

    def _subscribe(self, name: str) -> None:
        patterns, sharing = SUBSCRIPTIONS[name]
        asked = {"subscriber": name, "patterns": list(patterns), "sharing": msgspec.to_builtins(sharing)}
        self.order(SUBSCRIBE.name, partial(self._subscribed, name), **asked)

    def _subscribed(self, name: str, result: Any) -> None:
        self.subscriptions[name] = result["subscription_id"]

    # Programs that put.

    def _put(self, putter: PutProgram) -> None:
        if not self._is_putting:
            return
        if not self.stage.is_quiet and len(putter.under_way) < UNDER_WAY_MAX:
            offer = self._transaction() if putter.name.startswith("tx") else self._messages()
            if offer is not None:
                putter.offer(offer)
        self.agenda.after_ms(self.swarm.batch_every_ms * self.chance.uniform(0.5, 2.0), partial(self._put, putter))

    def _messages(self) -> PutOffer:
        self._count += 1
        if self.chance.random() < 0.15:
            key = self.chance.choice([b"k", b"l"])
            return PutOffer(0, [(self.topics[STORE], [b"s/%d" % self._count])], keys=[KeyPut(0, key)])
        names = self.chance.choices([KEPT, PLAIN, RING, JOBS], k=self.chance.choice([1, 1, 2]))
        runs: list[tuple[int, list[bytes]]] = []
        for place, name in enumerate(names):
            count = self.chance.choice([1, 1, 3])
            runs.append((self.topics[name], [b"%d/%d/%d" % (self._count, place, index) for index in range(count)]))
        return PutOffer(0, runs)

    def _transaction(self) -> PutOffer | None:
        """Make a message of one that a program got, and acknowledge that and those before it of its topic."""
        subscription_id = self.subscriptions["plain"]
        readers = [one for one in self.readers if one.program.subscription_id == subscription_id and one.program.got]
        if not readers:
            return None
        reader = self.chance.choice(readers)
        program, message = reader.program, reader.program.got[0]
        if self.chance.random() < 0.5:  # Else another transaction may be about the same message.
            program.got = [
                one for one in program.got if (one.topic_id, one.number) != (message.topic_id, message.number)
            ]
        low = self.ledger.topics.low(subscription_id, message.topic_id)
        move = CursorMoved(subscription_id, message.topic_id, message.number, since=min(low, message.number - 1))
        self._count += 1
        made = b"%d of %d:%d" % (self._count, message.topic_id, message.number)
        offer = PutOffer(0, [(self.topics[MADE], [made])], moves=[move])
        self._moving[id(offer)] = reader, message.topic_id, message.number
        return offer

    def _told(self, _: str, offer: PutOffer, is_done: bool) -> None:
        (self.acked if is_done else self.refused).append(offer)
        moved = self._moving.pop(id(offer), None)
        if moved is not None and is_done and moved[0].is_alive:
            self.ledger.topics.done.add((self.subscriptions["plain"], moved[1], moved[2]))

    # Programs that read.

    def _leader(self) -> int | None:
        """The member that a program is told leads; sometimes it is wrong."""
        if self.stage.has_faults and self.chance.random() < 0.1:
            return self.chance.randrange(2)
        return next((one.index for one in self.members if one.is_serving), None)

    def _change_readers(self) -> None:
        """Some die, others begin."""
        if not self._is_putting:
            return
        name = self.chance.choice(list(SUBSCRIPTIONS))
        there = self._readers_of(name)
        if there and self.chance.random() < 0.5:
            self._die(self.chance.choice(there))
        elif len(there) < CREW:
            self._read(name)
        self.agenda.after_ms(BEGIN_MS * self.chance.uniform(0.3, 1.5), self._change_readers)

    def _readers_of(self, name: str) -> list[ReadProgram]:
        return [one for one in self.readers if one.program.subscription_id == self.subscriptions[name]]

    def _read(self, name: str, *, is_eager: bool = False) -> ReadProgram:
        """A program begins; of a subscription that is not shared, the one before has ended."""
        is_shared = name in SUBSCRIPTIONS and SUBSCRIPTIONS[name][1] is not None
        if not is_shared:
            for before in self._readers_of(name):
                self._die(before)
        self._count += 1
        consumer = self._count if is_shared else 0
        ledger = self.ledger
        program = SimProgram(
            f"{name}-{self._count}", self.subscriptions[name], consumer, ledger.end, ledger.topics, self._count
        )
        doors = [f"{member.data}/topics" for member in self.members]
        made = ReadProgram(self.stage, self._outside, program, doors, self._leader, is_eager=is_eager)
        self.readers.append(made)
        return made

    def _die(self, reader: ReadProgram) -> None:
        self.readers.remove(reader)
        reader.die()

    # The end.

    def settle(self) -> None:
        self._is_putting = False
        self.faults.heal()
        wait = f"not well {RECOVERY_NS // SECOND} s after the last fault"
        self.within(RECOVERY_NS, lambda: self.faults.is_over and self.is_well(), lambda: f"{wait}: {self._states()}")
        self.within(
            20 * SECOND, lambda: not any(one.under_way for one in self.putters), lambda: "batches are under way"
        )
        for one in list(self.readers):
            self._die(one)
        for name in SUBSCRIPTIONS:
            self._read(name, is_eager=True)
        self.within(READ_NS, lambda: not self._left(), lambda: f"not all is read: {self._left()}")
        self._judge()
        for number in range(2):
            self._audit(f"audit-{number}")
            self._hand_over()
        for one in list(self.readers):
            self._die(one)
        super().settle()

    def _hand_over(self) -> None:
        """Have the other member lead."""
        active = next(one for one in self.members if one.state == "active")
        self.order("switchover", lambda _: None)
        self.within(RECOVERY_NS, lambda: active.state == "ready" and self.is_well(), lambda: "no switchover")

    def _left(self) -> dict[str, int]:
        active = next((one for one in self.members if one.is_serving), None)
        if active is None:
            return {"nobody leads": 1}
        cursors = active.core.root.folds.of(Cursors)
        return {
            f"{name} {topic_id}": left
            for name, subscription_id in self.subscriptions.items()
            for topic_id in cursors.topics_of(subscription_id)
            if (left := cursors.unread(subscription_id, topic_id))
        }

    def _audit(self, name: str) -> None:
        """Have all that is kept read from its first message on, at the member that leads."""
        asked = {"subscriber": name, "patterns": [KEPT, MADE], "is_from_first": True}
        self.order(SUBSCRIBE.name, partial(self._subscribed, name), **asked)
        self.within(RECOVERY_NS, lambda: name in self.subscriptions, lambda: f"{name} does not subscribe")
        self._read(name, is_eager=True)
        self.within(READ_NS, lambda: not self._left(), lambda: f"{name} has not read all: {self._left()}")
        for topic in (KEPT, MADE):
            topic_id = self.topics[topic]
            for number in range(1, len(self.ledger.topics.bodies[topic_id]) + 1):
                if (self.subscriptions[name], topic_id, number) not in self.ledger.topics.seen:
                    self.stage.fail(f"{name} never got {topic}:{number}, which is kept")

    def _judge(self) -> None:
        """Each batch stands in the log as its program was told, each message was read, each job done or dead once."""
        ledger = self.ledger.topics
        there = {topic_id: Counter(found) for topic_id, found in ledger.bodies.items()}
        for offers, count in ((self.acked, 1), (self.refused, 0)):
            for offer in offers:
                for topic_id, said in offer.runs:
                    for body in said:
                        if there.get(topic_id, Counter())[body] != count:
                            self.stage.fail(f"{body!r} of {topic_id} does not stand {count} times")
        made = Counter(body.partition(b" of ")[2] for body in ledger.bodies[self.topics[MADE]])
        if made and max(made.values()) > 1:
            self.stage.fail(f"of one message several were made: {made.most_common(3)}")
        dead = Counter(ledger.bodies[self.topics[DEAD]])
        for (subscription_id, topic_id), begin in ledger.begins.items():
            bodies = ledger.bodies[topic_id]
            for number in range(begin + 1, len(bodies) + 1) if topic_id not in self._lossy else ():
                is_dead, key = dead[bodies[number - 1]], (subscription_id, topic_id, number)
                if is_dead > 1 or (is_dead and key in ledger.done):
                    self.stage.fail(f"{topic_id}:{number} is dead {is_dead} times, and done: {key in ledger.done}")
                if not is_dead and not ledger.seen[key]:
                    self.stage.fail(f"nobody of {subscription_id} ever got {topic_id}:{number}")

    @property
    def _lossy(self) -> set[int]:
        """Topics that let messages go that nobody has read."""
        return {self.topics[RING], self.topics[STORE]}
