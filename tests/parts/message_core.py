"""A CORE that knows nothing but messages and orders: real folds, orders and post over a log that commits at once."""

import random
from collections import deque

from albireo.codec.frame import Frame, FrameHeader
from albireo.codec.message import Answer, AnyMessage, WriteDone, WriteOrder
from albireo.codec.record import CommandAccepted, CommandFinished, CommandRequested
from albireo.codec.tree.letters import FromOrigin, FromOwner, TreeMessage
from albireo.machine.desk.registry import Registry
from albireo.machine.fold import declared
from albireo.machine.fold.commands.selections import SelectionWatch
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.message.events import SendAsked
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.post import MessagePost
from albireo.machine.orders.kind import AnyKind
from albireo.machine.orders.selection.kinds import Deselect, Select
from albireo.machine.orders.write.command_waiters import CommandWaiters
from albireo.machine.orders.write.kinds import Write, write_told
from albireo.machine.orders.write.orders import Orders
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, Instant, LogTime, WallTime
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import EpochEntry, EpochHistory
from albireo.model.refusal import Refusal
from albireo.model.tree.message import WRITE, Life
from albireo.model.value import ItemId, ValueType
from tests.parts.drafted import frames_of, view_of

FAN = KnownItem(
    item_id=ItemId(1),
    node="root/north",
    item=DataItem(name="fan", value_type=ValueType.FLOAT64, is_writable=True, maximum=100.0),
)


class MessageCore:
    """One node; its links are lists."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.now = 1_000 * MS
        self.frames: list[Frame] = []
        self.orders_sent: list[WriteOrder] = []
        self.answers: list[Answer] = []
        self.letters: deque[tuple[bytes, TreeMessage]] = deque()
        self.epoch = 0
        self.refused: Refusal | None = None
        self.watch = SelectionWatch()
        self.begin()
        turn = self.turn()
        self.registry.declare(FAN.item.adapter, (FAN.item,), turn)
        self.settle(turn)

    def begin(self, *, continues: bool = False, frames: int | None = None) -> None:
        """Begin a tenure on the log, or on an old copy of it."""
        if frames is not None:
            del self.frames[frames:]
        self.folds = Folds()
        for one in self.frames:
            self.folds.replay(one)
        before = self.epoch if continues else 0
        self.epoch += 1
        waiters = CommandWaiters()
        self.registry = Registry(self.node, self.folds, Instant(self.now))
        self.orders = Orders(self.folds, self.registry, waiters, self.watch)
        messages = NodeMessages(self.node, self.folds.messages, random.Random(f"{self.node} {self.epoch}"))
        self.writes = Write(self)
        kinds: tuple[AnyKind, ...] = (self.writes, Select(self), Deselect(self))
        self.post = MessagePost(messages, {one.name: one for one in kinds})
        turn = self.turn()
        life = Life(self.epoch, random.Random(f"{self.node} branch {self.epoch}").getrandbits(64))
        self.post.begin(life, self.moment, self.log_time, turn, continues=before)
        self.orders.restarted(self.log_time, self.moment, turn)
        self.settle(turn)

    @property
    def moment(self) -> Moment:
        return Moment(Instant(self.now), WallTime(self.now))

    @property
    def log_time(self) -> LogTime:
        return LogTime(self.now)

    def turn(self) -> Turn:
        history = EpochHistory((EpochEntry(self.epoch, 1, 1),))
        last = self.frames[-1].header.last if self.frames else history.position(0)
        return Turn(view_of(self.frames, history, last), 3)

    def settle(self, turn: Turn) -> None:
        """Commit what a turn drafts, and all that follows from it."""
        while turn.drafts or turn.sends:
            self._sent(turn)
            fresh = frames_of(turn, b"L" * 16, self.frames[-1] if self.frames else None, self.epoch, self.moment)
            self.frames += fresh
            turn = self.turn()
            for frame in fresh:
                self._committed(frame.header, frame, turn)
        assert self.post.is_open or self.post.deadline(self.moment, self.log_time) is None

    def _sent(self, turn: Turn) -> None:
        for one in turn.sends:
            message: AnyMessage = one.message
            if isinstance(message, WriteOrder):
                self.orders_sent.append(message)
            elif isinstance(message, FromOrigin | FromOwner):
                self.letters.append((one.to, message))
            else:
                assert isinstance(message, Answer), message
                self.answers.append(message)

    def _committed(self, header: FrameHeader, frame: Frame, turn: Turn) -> None:
        content = declared.read(header, frame.body)
        assert isinstance(content, list)
        self.folds.fold(header, content)
        self.post.committed(content, self.moment, self.log_time, turn)
        for record in content:
            match record:
                case CommandRequested():
                    self.orders.accept(lambda _item: True, turn)
                case CommandAccepted(command_id=command_id):
                    name = self.writes.begun(record)
                    state = self.folds.commands.find(command_id)
                    assert state is not None
                    if name is not None:
                        self.post.begun(name, self.moment, self.log_time, turn)
                    self.orders.accepted(state, b"plc", self.now + state.command.expires_ms * MS, turn)
                case CommandFinished(receipt=receipt):
                    self.orders.finished(receipt, turn)
                    if (ended := self.writes.finished(receipt)) is not None:
                        self.post.executed(*ended, self.moment, self.log_time, turn)

    def ask(self, asked: SendAsked, request_id: int = 1) -> None:
        turn = self.turn()
        question = Question(b"desk", request_id, self.moment, "operator")
        told = write_told if asked.kind == WRITE else _receipt
        self.refused = self.post.ask(question, asked, self.log_time, turn, told)
        self.settle(turn)

    def cancel(self, command_id: str) -> Refusal | None:
        turn = self.turn()
        refused = self.post.cancel(command_id, self.moment, self.log_time, turn)
        self.settle(turn)
        return refused

    def hear(self, sender: bytes, letter: TreeMessage) -> None:
        turn = self.turn()
        self.post.letter(sender, letter, self.moment, self.log_time, turn)
        self.settle(turn)

    def carried_out(self, outcome: Outcome = Outcome.VERIFIED) -> None:
        """The adapter carries out the oldest order."""
        order = self.orders_sent.pop(0)
        turn = self.turn()
        receipt = Receipt(command_id=order.command_id, outcome=outcome, read_back=order.value)
        self.orders.done(WriteDone(receipt=receipt), self.moment, turn)
        self.settle(turn)

    def pass_ms(self, wait_ms: int) -> None:
        for _ in range(wait_ms // 100):
            self.now += 100 * MS
            turn = self.turn()
            self.post.time_passed(self.moment, self.log_time, turn)
            self.settle(turn)


def _receipt(receipt: MessageReceipt) -> object:
    return receipt


def exchange(cores: dict[bytes, MessageCore], most: int = 200) -> None:
    """Deliver letters until none is on its way. A core's key is the sender's name on every link to it."""
    names = {core.node: key for key, core in cores.items()}
    while any(core.letters for core in cores.values()):
        most -= 1
        assert most, "letters without an end"
        for core in cores.values():
            while core.letters:
                to, letter = core.letters.popleft()
                cores[to].hear(names[core.node], letter)
