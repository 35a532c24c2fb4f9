"""One seed's world of topics: steps drawn one by one, then everything is mended, and all has to be read.

Two members, a log that loses what is not committed when the other one takes over, producers that try again, programs
that read, acknowledge, die and come back, an operator, and time. The judge is the ledger, beside checks at the end.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from albireo.codec.message import AnyMessage
from albireo.codec.puts import CursorMoved, KeyPut
from albireo.codec.record import Marked
from albireo.codec.topic_records import Subscribed, TopicDeclared, TopicDropped, TopicPurged
from albireo.machine.producer.flight import PutOffer
from albireo.model.topic import UNTIL_READ, TopicPolicy
from albireo.model.topic_lease import Sharing
from albireo.sim.engine.stage import Violation
from albireo.sim.topics.ledger import TopicsLedger
from albireo.sim.topics.log import OWNER, TopicsCore
from albireo.sim.topics.member import SimMember
from albireo.sim.topics.programs import SimProgram

STEPS: Final = 1_500
LEASE_S: Final = 2
HEAL_STEPS: Final = 4_000
PLAIN: Final = ("a", "b")
RING, JOBS, DEAD, STORE, MADE = "ring", "jobs", "dead", "store", "made"
POLICIES: Final = {RING: TopicPolicy(max_messages=6), STORE: TopicPolicy(last_value=True)}
SHARING: Final = Sharing(lease_s=LEASE_S, deliveries_max=2, dead_letters=DEAD)
SUBSCRIPTIONS: Final = {
    "plain": (("a", "b"), None),
    "ring": ((RING,), None),
    "crew": ((JOBS,), SHARING),
    "late": (("a",), None),
}


class TopicsWorld:
    """The world of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.core = TopicsCore()
        self.ledger = TopicsLedger()
        self.ledger.lease_ms = 1_000 * LEASE_S
        self.members = [SimMember(self._out(index)) for index in range(2)]
        for one in self.members:
            one.frames = self.core.frames
        self.leader: int | None = None
        self.programs: dict[str, SimProgram] = {}
        self.count = 0
        self.puts: dict[str, tuple[int, PutOffer]] = {}
        """Batch under way of each producer, until it is committed or refused."""
        self.numbers: Counter[str] = Counter()
        self.acked: list[PutOffer] = []
        self.refused: list[PutOffer] = []
        self.moving: list[tuple[str, str, int, int]] = []
        """Transactions under way: producer, program, topic and number of the message that each acknowledges."""
        self.topics: dict[str, int] = {}
        self.subscriptions: dict[str, int] = {}

    @property
    def now_ms(self) -> int:
        return self.core.now_ms

    def play(self) -> "TopicsWorld":
        """Play it. Raises Violation."""
        try:
            self._begin()
            for _ in range(STEPS):
                self._step()
            self._heal()
        except Violation as end:
            raise Violation(f"{end}; seed {self.seed}, at {self.now_ms} ms") from end
        return self

    def _begin(self) -> None:
        for name in (*PLAIN, RING, JOBS, DEAD, STORE, MADE):
            policy = POLICIES.get(name, UNTIL_READ)
            self.topics[name] = self.core.record(TopicDeclared(name=name, since_ns=0, policy=policy))
        for name in ("plain", "ring", "crew"):
            self._subscribe(name)
        self._commit_all()
        self._take_over(0)

    def _subscribe(self, name: str) -> None:
        patterns, sharing = SUBSCRIPTIONS[name]
        record = Subscribed(subscriber=name, principal=OWNER, patterns=patterns, since_ns=0, sharing=sharing)
        self.subscriptions[name] = self.core.record(record)

    # Steps.

    def _step(self) -> None:
        deeds: list[tuple[float, Callable[[], object]]] = [
            (14, self._commit),
            (24, self._member_takes),
            (20, self._member_serves),
            (8, self._member_offers),
            (6, self._member_reads),
            (2, self._seal),
            (10, self._put),
            (60, self._carry),
            (14, self._program_goes_on),
            (5, self._begin_program),
            (1.5, self._end_program),
            (1.5, self._cut),
            (6, self._pass_time),
            (0.6, self._operate),
            (0.5, lambda: self._take_over(1 - (self.leader or 0))),
            (0.3, self._restart),
        ]
        (deed,) = self.chance.choices([each for _, each in deeds], [weight for weight, _ in deeds])
        deed()

    def _commit(self) -> None:
        one = self.core.commit()
        if one is None:
            return
        self.ledger.log(one)
        for member in self.members:
            if member.leads_from is not None and one.producer == member.producer:
                member.committed(one.number)
        known = self.puts.get(one.producer)
        if known is not None and known[0] == one.number:
            self.acked.append(self.puts.pop(one.producer)[1])
            self._moved(one.producer, is_done=True)

    def _moved(self, producer: str, *, is_done: bool) -> None:
        """A transaction has ended."""
        for one in [each for each in self.moving if each[0] == producer]:
            self.moving.remove(one)
            if is_done and one[1] in self.programs:  # Else nobody hears of it.
                self.ledger.done.add((self.subscriptions["plain"], one[2], one[3]))

    def _commit_all(self) -> None:
        while self.core.pending:
            self._commit()

    def _member_takes(self) -> None:
        self.chance.choice(self.members).take()

    def _member_serves(self) -> None:
        self.chance.choice(self.members).go_on(self.now_ms)

    def _member_offers(self) -> None:
        if self.leader is not None:
            self.members[self.leader].offer(self.core)

    def _member_reads(self) -> None:
        member = self.chance.choice(self.members)
        if member.reads:
            member.reads.popleft()()

    def _seal(self) -> None:
        self.chance.choice(self.members).seal(self.chance.randrange(1, 8))

    def _put(self) -> None:
        producer = self.chance.choice(["p", "q", "tx-1", "tx-2", "cas-1", "cas-2"])
        if producer not in self.puts:
            offer = self._offer(producer)
            if offer is None:
                return
            self.numbers[producer] += 1
            self.puts[producer] = self.numbers[producer], offer
        number, offer = self.puts[producer]
        if self.leader is not None and self.core.append(producer, number, offer) is not None:
            self.refused.append(self.puts.pop(producer)[1])
            self.numbers[producer] -= 1
            self._moved(producer, is_done=False)

    def _offer(self, producer: str) -> PutOffer | None:
        self.count += 1
        body = b"%s/%d" % (producer.encode(), self.count)
        if producer.startswith("tx"):
            return self._transaction(producer, body)
        if producer.startswith("cas"):
            topic_id, key = self.topics[STORE], self.chance.choice([b"k", b"l"])
            row = self.core.tables.keys.entry(topic_id, key)
            since = 0 if row is None else row.version
            said = b"%s from %d" % (key, since)
            return PutOffer(0, [(topic_id, [said])], keys=[KeyPut(0, key, since)])
        names = self.chance.choices([*PLAIN, RING, JOBS], [2, 2, 2, 3], k=self.chance.choice([1, 1, 2]))
        runs: list[tuple[int, list[bytes]]] = []
        for place, name in enumerate(names):
            count = self.chance.choice([1, 1, 3])
            runs.append((self.topics[name], [b"%s/%d/%d" % (body, place, index) for index in range(count)]))
        return PutOffer(0, runs)

    def _transaction(self, producer: str, body: bytes) -> PutOffer | None:
        """Make a message of one that a program got, and acknowledge that and those before it of its topic."""
        readers = [
            one for one in self.programs.values() if one.subscription_id == self.subscriptions["plain"] and one.got
        ]
        if not readers:
            return None
        one = self.chance.choice(readers)
        message = one.got[0]
        low = self.core.tables.cursors.of(one.subscription_id, message.topic_id)
        if self.chance.random() < 0.5:  # Else another transaction may be about the same message.
            one.got = [each for each in one.got if each.topic_id != message.topic_id or each.number > message.number]
        self.moving.append((producer, one.name, message.topic_id, message.number))
        since = message.number - 1 if low is None else min(low.low, message.number - 1)
        move = CursorMoved(one.subscription_id, message.topic_id, message.number, since=since)
        made = b"%s of %d:%d" % (body, message.topic_id, message.number)
        return PutOffer(0, [(self.topics[MADE], [made])], moves=[move])

    # Programs.

    def _out(self, index: int) -> Callable[[bytes, AnyMessage, tuple[bytes, ...]], None]:
        def out(sender: bytes, message: AnyMessage, raw: tuple[bytes, ...]) -> None:
            program = self.programs.get(sender.decode().partition("#")[0])
            if program is not None and program.line == index and self._sender(program) == sender:
                program.inbox.append((message, raw))

        return out

    def _sender(self, program: SimProgram) -> bytes:
        return f"{program.name}#{program.dials}".encode()

    def _carry(self) -> None:
        """Carry a message, or an answer of CORE."""
        if not self.programs:
            return
        one = self.chance.choice(list(self.programs.values()))
        if one.is_asking:
            one.told(self.leader if self.chance.random() < 0.8 else None, self.now_ms)
        elif one.line is not None and one.outbox and self.chance.random() < 0.5:
            self.members[one.line].hear(self._sender(one), one.outbox.popleft(), self.now_ms)
        elif one.inbox:
            one.hears(self.now_ms)

    def _program_goes_on(self) -> None:
        if not self.programs:
            return
        one = self.chance.choice(list(self.programs.values()))
        if one.is_over:
            return
        if one.consumer:
            if self.chance.random() < 0.5:
                one.take(self.chance.choice([1, 2, 5]), self.now_ms)
            else:
                one.settle(self.chance, self.now_ms)
        else:
            one.acknowledge(self.chance.randrange(0, 4), self.now_ms)

    def _begin_program(self) -> None:
        name = self.chance.choice(list(self.subscriptions))
        self.count += 1
        shared = SUBSCRIPTIONS[name][1] is not None
        if shared and sum(one.consumer > 0 and not one.is_over for one in self.programs.values()) > 2:
            return
        if self.subscriptions[name] not in self.core.tables.subscriptions:
            return
        self._begin_one(name)

    def _begin_one(self, name: str) -> None:
        """A program begins; of a subscription that is not shared, the one before has ended."""
        for before in [one.name for one in self.programs.values() if one.subscription_id == self.subscriptions[name]]:
            if SUBSCRIPTIONS[name][1] is None:
                self._forget(before)
        consumer = self.count if SUBSCRIPTIONS[name][1] is not None else 0
        what = (f"{name}-{self.count}", self.subscriptions[name], consumer, self.core.committed)
        one = SimProgram(*what, self.ledger, self.count)
        self.programs[one.name] = one
        one.begin(self.now_ms)

    def _end_program(self) -> None:
        """A program dies: its line goes with it, and what it had is not acknowledged."""
        if self.programs:
            self._forget(self.chance.choice(list(self.programs)))

    def _forget(self, name: str) -> None:
        one = self.programs.pop(name)
        if one.line is not None and self.chance.random() < 0.5:
            self.members[one.line].lost(self._sender(one))

    def _cut(self) -> None:
        if self.programs:
            one = self.chance.choice(list(self.programs.values()))
            if one.line is not None:
                if self.chance.random() < 0.7:
                    self.members[one.line].lost(self._sender(one))
                one.cut(self.now_ms)

    def _pass_time(self) -> None:
        self.core.now_ms += self.chance.choice([10, 100, 400])
        self.ledger.now_ms = self.now_ms
        if self.chance.random() < 0.5:
            self.core.record(Marked())
        for one in self.programs.values():
            if not one.is_over:
                one.passes_time(self.now_ms)

    # Who leads.

    def _take_over(self, leader: int) -> None:
        for member in self.members:
            member.stands_by()
        self.core.takes_over()
        self.leader = leader
        self.members[leader].leads_from = self.core.epoch

    def _restart(self) -> None:
        """The actor of a member starts anew, and reads the log from its begin."""
        index = self.chance.randrange(2)
        member = self.members[index]
        leads = member.leads_from
        member.stands_by()
        member.begin()
        for one in self.programs.values():
            if one.line == index:
                one.cut(self.now_ms)
        if leads is not None:  # Batches of the producer of before may still be taken; the new one has another name.
            self._take_over(index)

    def _operate(self) -> None:
        match self.chance.choice(["late", "purge", "renew"]):
            case "late" if "late" not in self.subscriptions:
                self._subscribe("late")
            case "purge":
                self.core.record(TopicPurged(topic_id=self.topics[RING]))
            case "renew" if self.chance.random() < 0.3 and "b" in self.topics:
                self.core.record(TopicDropped(topic_id=self.topics["b"]))
                self.topics["b"] = self.core.record(TopicDeclared(name="b", since_ns=0))
                self._commit_all()  # As both are answered before anybody goes on.

    # The end.

    def _heal(self) -> None:
        """Let everything be read by programs that live on."""
        for name in list(self.programs):
            self._forget(name)
        for name, subscription_id in self.subscriptions.items():
            if subscription_id in self.core.tables.subscriptions:
                self.count += 1
                self._begin_one(name)
        for step in range(HEAL_STEPS):
            self._heal_once()
            if step % 20 == 0 and self._is_read():
                self._judge()
                return
        raise Violation(f"not all is read: {self._left()}")

    def _heal_once(self) -> None:
        for producer in list(self.puts):
            number, offer = self.puts[producer]
            if self.core.append(producer, number, offer) is not None:
                self.refused.append(self.puts.pop(producer)[1])
                self._moved(producer, is_done=False)
        self.core.now_ms += 20
        self.ledger.now_ms = self.now_ms
        self.core.record(Marked())
        for _ in range(3):
            self._member_offers()
        self._commit_all()
        for member in self.members:
            while member.take():
                pass
            while member.reads:
                member.reads.popleft()()
            member.go_on(self.now_ms)
        for one in self.programs.values():
            if one.is_over:
                continue
            one.passes_time(self.now_ms)
            if one.is_asking:
                one.told(self.leader, self.now_ms)
            while one.line is not None and one.outbox:
                self.members[one.line].hear(self._sender(one), one.outbox.popleft(), self.now_ms)
            while one.inbox:
                one.hears(self.now_ms)
            if not one.consumer:
                one.acknowledge(len(one.got), self.now_ms)
                continue
            one.take(5, self.now_ms)
            one.settle(self.chance, self.now_ms)

    def _left(self) -> dict[str, int]:
        tables = self.core.tables
        return {
            f"{name} {topic_id}": left
            for name, subscription_id in self.subscriptions.items()
            for topic_id in tables.cursors.topics_of(subscription_id)
            if (left := tables.cursors.unread(subscription_id, topic_id))
        }

    def _is_read(self) -> bool:
        return not self.puts and not self._left()

    def _judge(self) -> None:
        bodies = self.ledger.bodies
        there = {topic_id: Counter(found) for topic_id, found in bodies.items()}
        for offers, count in ((self.acked, 1), (self.refused, 0)):
            for offer in offers:
                for topic_id, said in offer.runs:
                    for body in said:
                        found = there.get(topic_id, Counter())[body]
                        if not body.startswith((b"k from", b"l from")) and found != count:
                            raise Violation(f"{body!r} of {topic_id} stands {found} times, and not {count}")
        self._judge_store(bodies[self.topics[STORE]])
        made = Counter(body.partition(b" of ")[2] for body in bodies[self.topics[MADE]])
        if made and max(made.values()) > 1:
            raise Violation(f"of one message several were made: {made.most_common(3)}")
        self._judge_jobs()
        dead = set(bodies[self.topics[DEAD]])
        for (subscription_id, topic_id), begin in self.ledger.begins.items():
            is_kept = topic_id not in (self.topics[RING], self.topics[STORE]) and topic_id not in self.ledger.dropped
            for number in range(begin + 1, len(bodies[topic_id]) + 1) if is_kept else ():
                is_dead = bodies[topic_id][number - 1] in dead
                if not (is_dead or self.ledger.seen[subscription_id, topic_id, number]):
                    raise Violation(f"nobody of {subscription_id} ever got {topic_id}:{number}")

    def _judge_store(self, said: list[bytes]) -> None:
        """Each change of a key follows the one before."""
        froms = Counter(said)
        if froms and max(froms.values()) > 1:
            raise Violation(f"two changes of one version: {froms.most_common(2)}")

    def _judge_jobs(self) -> None:
        """Each job is done, or dead, once."""
        subscription_id, topic_id = self.subscriptions["crew"], self.topics[JOBS]
        dead = Counter(self.ledger.bodies[self.topics[DEAD]])
        for number, body in enumerate(self.ledger.bodies[topic_id], 1):
            is_done = (subscription_id, topic_id, number) in self.ledger.done
            if dead[body] > 1 or (dead[body] and is_done):
                raise Violation(f"{number} is dead {dead[body]} times, and done: {is_done}")
