"""Ledger of the world: what was told to whom, and whether that is so. It counts by itself, from the log alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albireo.codec import frame
from albireo.codec.puts import LeaseStep, PutHead, decode_puts
from albireo.codec.record import Stream
from albireo.codec.topic_records import Subscribed, TopicDeclared, TopicDropped
from albireo.model.topic_lease import DEAD_LETTERS
from albireo.sim.engine.stage import Violation
from albireo.sim.topics.log import AppendedFrame
from albireo.sim.topics.programs import ProgramListener, SimProgram, TakenMessage


class TopicsLedger(ProgramListener):
    """The ledger."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.lease_ms = 0
        self.bodies: dict[int, list[bytes]] = defaultdict(list)
        """Messages of each topic, as the log has them."""
        self.begins: dict[tuple[int, int], int] = {}
        """Number of a topic behind which a subscription gets messages."""
        self.dropped: set[int] = set()
        self._names: dict[int, str] = {}
        self._patterns: dict[int, Sequence[str]] = {}
        self.done: set[tuple[int, int, int]] = set()
        self.seen: dict[tuple[int, int, int], set[str]] = defaultdict(set)
        self._last: dict[tuple[str, int], int] = {}
        self._low: dict[tuple[int, int], int] = {}
        """Number up to which the log says that a subscription has a topic done."""
        self._leases: dict[tuple[int, int, int], tuple[int, int]] = {}
        """Consumer whose a message of a shared subscription is, as the log says, and log time until which it is."""
        self._leased: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        self._settled: set[tuple[int, int, int]] = set()
        self._dead: set[tuple[int, int, int]] = set()
        self.given = 0

    def log(self, one: AppendedFrame) -> None:
        """A frame is committed."""
        for record, sequence in zip(one.records, range(one.header.first_sequence, 2**40), strict=False):
            match record:
                case TopicDeclared(name=name):
                    self._names[sequence] = name
                    for subscription_id, patterns in self._patterns.items():
                        if name in patterns:
                            self.begins[subscription_id, sequence] = 0
                case TopicDropped(topic_id=topic_id):
                    self.dropped.add(topic_id)
                case Subscribed(patterns=patterns, is_from_first=is_from_first):
                    self._patterns[sequence] = patterns
                    for topic_id, name in self._names.items():
                        if name in patterns and topic_id not in self.dropped:
                            self.begins[sequence, topic_id] = 0 if is_from_first else len(self.bodies[topic_id])
        if one.header.stream == Stream.PUTS:
            for header, body in frame.frames(one.data):
                batch = decode_puts(body, header.record_count)
                self._lease(batch.head, header.log_time_ms)
                for move in batch.head.moves:
                    key = move.subscription_id, move.topic_id
                    self._low[key] = max(self._low.get(key, 0), move.low)
                place = 0
                for run in batch.head.runs:
                    self.bodies[run.topic_id] += [bytes(each) for each in batch.bodies[place : place + run.count]]
                    place += run.count

    def low(self, subscription_id: int, topic_id: int) -> int:
        """Number up to which the log says that a subscription has a topic done, or that came before it."""
        key = subscription_id, topic_id
        return max(self._low.get(key, 0), self.begins.get(key, 0))

    def got(self, program: SimProgram, message: TakenMessage) -> None:
        self.given += 1
        subscription_id, topic_id, number = program.subscription_id, message.topic_id, message.number
        key = subscription_id, topic_id, number
        what = f"{program.name} got {topic_id}:{number}"
        bodies = self.bodies[topic_id]
        if not 0 < number <= len(bodies) or bodies[number - 1] != message.body:
            raise Violation(f"{what}, and another message has that number")
        if number <= self.begins.get((subscription_id, topic_id), 2**62):
            raise Violation(f"{what}, which was put before it subscribed")
        if key in self.done:
            raise Violation(f"{what}, which is acknowledged")
        if self.seen[key] - {program.name} and not message.is_again:
            raise Violation(f"{what} unmarked, which {self.seen[key]} got before")
        self.seen[key].add(program.name)
        if program.consumer:
            self._is_leased(program, key, what)
            return
        before = max(
            self._last.get((program.name, topic_id), 0),
            self._low.get((subscription_id, topic_id), 0),
            self.begins[subscription_id, topic_id],
        )
        if number - before - 1 > message.lost:
            raise Violation(f"{what} behind {before}, and was told that {message.lost} are gone")
        if number <= self._last.get((program.name, topic_id), 0):
            raise Violation(f"{what} behind {before}")
        self._last[program.name, topic_id] = number

    def _lease(self, head: PutHead, now_ms: int) -> None:
        """Take note of leases, as the log has them."""
        for move in head.moves:
            for number in numbers_of(move.done):
                self._settled.add((move.subscription_id, move.topic_id, number))
        for lease in head.leases:
            for number in numbers_of(lease.ranges):
                key = lease.subscription_id, lease.topic_id, number
                holder, until_ms = self._leases.get(key, (0, 0))
                if key in self._settled:
                    continue
                if lease.step in (LeaseStep.GIVEN_BACK, LeaseStep.RELEASED):
                    if holder == lease.consumer:
                        del self._leases[key]
                    continue
                if holder not in (0, lease.consumer) and until_ms > now_ms:
                    raise Violation(
                        f"{key} is given to {lease.consumer} at {now_ms}, and is {holder}'s until {until_ms}"
                    )
                self._leases[key] = lease.consumer, now_ms + self.lease_ms
                if lease.consumer == DEAD_LETTERS:
                    self._dead.add(key)
                self._leased[key].add(lease.consumer)

    def _is_leased(self, program: SimProgram, key: tuple[int, int, int], what: str) -> None:
        if program.consumer not in self._leased[key]:
            raise Violation(f"{what}, which was never its own")
        if any((one.topic_id, one.number) == key[1:] for one in (*program.got, *program.said)):
            raise Violation(f"{what} again, and has it")

    def recorded(self, program: SimProgram, messages: Sequence[TakenMessage]) -> None:
        for one in messages:
            self.is_done(program, one)

    def is_done(self, program: SimProgram, one: TakenMessage) -> None:
        """A message of a subscription is done, and all before it if that has one consumer."""
        self.done.add((program.subscription_id, one.topic_id, one.number))

    def settled(self, program: SimProgram, fates: dict[str, Any], over: dict[int, Any]) -> None:
        one = fates["message"]
        if (program.subscription_id, one.topic_id, one.number) in self._dead:
            return  # Its lease was over. It hears that the message is done, which is so.
        is_over = any(first <= one.number <= last for first, last in over.get(one.topic_id, ()))
        if fates["fate"] == "done" and not is_over:
            self.is_done(program, one)


def numbers_of(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (number for first, last in ranges for number in range(first, last + 1))
