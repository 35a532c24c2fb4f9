"""A few nodes of a tree that send messages, step by step: nothing moves unless the test moves it."""

import random
from collections.abc import Callable

import msgspec

from albireo.codec.message_records import MessageEnd, MessageRecord
from albireo.codec.tree.letters import TreeMessage
from albireo.machine.fold.letters.letters import MessageFold
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.message.events import (
    ExecuteBody,
    MessageDoubt,
    MessageEffect,
    MessageLimits,
    MessageProven,
    MessageTimes,
    RecordMessage,
    RecoverBody,
    SendAsked,
    SendLetter,
)
from albireo.machine.message.messages import NodeMessages
from albireo.model.instant import MS, Instant, LogTime, WallTime
from albireo.model.refusal import Refusal
from albireo.model.tree.message import Life, MessageName, MessageOutcome

VERIFIED = MessageEnd(outcome=MessageOutcome.VERIFIED, read_back=1.5)


class Desk:
    """One node: its log, its machine, and what it wants of the world."""

    def __init__(self, tree: "MessageTree", node: str) -> None:
        self.tree = tree
        self.id = node
        self.log: list[tuple[MessageRecord, int]] = []
        self.committed = 0
        self.commits = True
        """False: records wait for `commit`."""
        self.epoch = 0
        self.answers: list[MessageReceipt] = []
        self.orders: list[ExecuteBody] = []
        self.recovered: list[RecoverBody] = []
        self.doubts: list[MessageDoubt] = []
        self.wall_ns = 0
        """By how much the wall clock is wrong."""
        self.machine = NodeMessages(node, MessageFold(), random.Random(node))
        self.start()

    @property
    def fold(self) -> MessageFold:
        return self.machine.fold

    def times(self) -> MessageTimes:
        at = self.tree.now
        return MessageTimes(Instant(at), LogTime(at), WallTime(at + self.wall_ns))

    def start(self, *, continues: bool = False, limits: MessageLimits | None = None) -> None:
        """Begin a tenure on what is in the log; what was not committed is gone."""
        del self.log[self.committed :]
        fold = MessageFold()
        for record, log_time in self.log:
            fold.fold(record, LogTime(log_time))
        before = self.epoch if continues else 0
        self.epoch += 1
        self.machine = NodeMessages(self.id, fold, random.Random(f"{self.id} {self.epoch}"), limits)
        life = Life(self.epoch, self.tree.chance.getrandbits(64))
        self.do(self.machine.begin(life, continues=before))

    def restore(self, count: int) -> None:
        """Put an old copy of the store in the place of it."""
        del self.log[count:]
        self.committed = count
        self.start()

    def wipe(self) -> None:
        self.log, self.committed, self.epoch = [], 0, 0
        self.start()

    def do(self, effects: list[MessageEffect]) -> None:
        for one in effects:
            match one:
                case RecordMessage(record):
                    self.log.append((record, self.tree.now))
                    if self.commits:
                        self.commit()
                case SendLetter(to, letter):
                    self.tree.letters.append((self.id, to, letter))
                case ExecuteBody():
                    self.orders.append(one)
                case RecoverBody():
                    self.recovered.append(one)
                case MessageProven(receipt):
                    self.answers.append(receipt)
                case MessageDoubt():
                    self.doubts.append(one)

    def commit(self) -> None:
        """Commit what is appended, one record after another."""
        while self.committed < len(self.log):
            record, log_time = self.log[self.committed]
            self.committed += 1
            self.fold.fold(record, LogTime(log_time))
            self.do(self.machine.committed(record, self.times()))

    def ask(self, owner: str, body: bytes = b"1.5", expires_ms: int = 10_000, command_id: str = "c1") -> None:
        asked = SendAsked(command_id=command_id, owner=owner, kind="write", body=body, expires_ms=expires_ms)
        effects = self.machine.ask(asked, self.times())
        assert not isinstance(effects, Refusal), effects
        self.do(effects)

    def refusal(self, owner: str, body: bytes = b"1.5", command_id: str = "c1", expires_ms: int = 1_000) -> str:
        asked = SendAsked(command_id=command_id, owner=owner, kind="write", body=body, expires_ms=expires_ms)
        effects = self.machine.ask(asked, self.times())
        return effects.cause if isinstance(effects, Refusal) else ""

    def finish(self, end: MessageEnd = VERIFIED) -> None:
        """Carry out the oldest order."""
        self.do(self.machine.executed(self.orders.pop(0).name, end, self.times()))

    def cancel(self, name: MessageName) -> None:
        self.do(self.machine.cancel(name, self.times()))

    def tick(self) -> None:
        self.do(self.machine.time_passed(self.times()))

    @property
    def outcomes(self) -> list[str]:
        return [str(one.end.outcome) for one in self.answers]

    @property
    def name(self) -> MessageName:
        """The only open message."""
        (name,) = self.fold.outbox.open
        return name


class MessageTree:
    """Nodes by id, and the letters between them."""

    def __init__(self, *nodes: str) -> None:
        self.now = 1_000_000 * MS
        self.chance = random.Random(0)
        self.letters: list[tuple[str, str, TreeMessage]] = []
        self.nodes: dict[str, Desk] = {}
        for node in nodes:
            self.nodes[node] = Desk(self, node)

    def __getitem__(self, node: str) -> Desk:
        return self.nodes[node]

    def words(self) -> list[str]:
        """Kinds of the letters on their way, as their tags."""
        return [str(msgspec.to_builtins(letter)["type"]).removeprefix("message_") for _, _, letter in self.letters]

    def deliver(self, is_lost: Callable[[TreeMessage], bool] = lambda _letter: False, most: int = 200) -> None:
        """Deliver letters, and those that follow from them, until none is on its way.

        Args:
            is_lost: letters that the network loses.
        """
        while self.letters and most:
            most -= 1
            _, to, letter = self.letters.pop(0)
            if not is_lost(letter) and to in self.nodes:
                desk = self.nodes[to]
                desk.do(desk.machine.heard(letter, desk.times()))
        assert not self.letters, "letters without an end"

    def take(self, kind: type[TreeMessage]) -> list[TreeMessage]:
        """Take the letters of a kind out of the network."""
        found = [letter for _, _, letter in self.letters if isinstance(letter, kind)]
        self.letters = [one for one in self.letters if not isinstance(one[2], kind)]
        return found

    def hear(self, to: str, letter: TreeMessage) -> None:
        desk = self.nodes[to]
        desk.do(desk.machine.heard(letter, desk.times()))

    def pass_ms(self, wait_ms: float, step_ms: float = 50) -> None:
        """Let time pass for everybody, without letters."""
        end = self.now + int(wait_ms * MS)
        while self.now < end:
            self.now = min(end, self.now + int(step_ms * MS))
            for desk in self.nodes.values():
                desk.tick()
