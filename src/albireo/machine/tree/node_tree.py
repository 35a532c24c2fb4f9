"""The tree as one node takes part in it: what it follows below, what it shows of that, and orders from node to node."""

import random
from typing import Protocol

from albireo.codec.message import AnyMessage
from albireo.codec.tree.letters import FromOrigin, FromOwner
from albireo.codec.tree.records import MessageFact
from albireo.machine.fold.folds import Folds
from albireo.machine.message.events import MessageTimes
from albireo.machine.node.orders import WriteAsked, WriteRefusal
from albireo.machine.node.role import RootConfig
from albireo.machine.node.turn import Moment, Question, Turn
from albireo.machine.tree.below import Below, mirrors_of
from albireo.machine.tree.child import Raw
from albireo.machine.tree.tree_orders import TreeOrders
from albireo.model.command import Receipt
from albireo.model.instant import Instant, LogTime, soonest


class TreeRoot(Protocol):
    """The root machine, as far as the tree needs it."""

    config: RootConfig
    folds: Folds

    def log_time_ns(self, now: Instant) -> int:
        """Log time at this instant: that of the end of the log, and what has passed since."""

    def take(self, asked: WriteAsked, principal: str, moment: Moment, turn: Turn) -> WriteRefusal | None:
        """Begin an order of another node for an item of this one, or say why not."""


class NodeTree:
    """The machine; a tenure begins it afresh, but for the mirrors."""

    def __init__(self, root: TreeRoot) -> None:
        self._root = root
        self.mirrors = mirrors_of(root.config.children, root.folds.origins)
        self._chance = random.Random(root.config.seed)
        self._seen: Moment | None = None
        self.begin_afresh()

    def begin_afresh(self) -> None:
        """Take anew from the folds what is known of other nodes: nobody is connected yet."""
        root = self._root
        self.below = Below(root.config, root.folds.origins, self.mirrors)
        messages, commands = root.folds.messages, root.folds.commands
        self.orders = TreeOrders(root.config.node, messages, commands, self.below, root, self._chance)

    def _times(self, moment: Moment) -> MessageTimes:
        self._seen = moment
        return MessageTimes(moment.now, LogTime(self._root.log_time_ns(moment.now)), moment.wall)

    def deadline(self) -> Instant | None:
        """When `time_passed` is due."""
        orders = None if self._seen is None else self.orders.deadline(self._times(self._seen))
        return soonest(self.below.deadline(), orders)

    def serve(self, moment: Moment, turn: Turn, *, is_open: bool) -> None:
        """Do what follows from serving, each thing once."""
        self.below.serve(moment, turn, is_open=is_open)
        self.orders.serve(self._times(moment), moment, turn, is_paired=self._root.config.is_paired)

    def stand_by(self) -> None:
        """Order and record nothing until this node serves again."""
        self.orders.messages.suspend()

    def hears(self, sender: bytes, message: AnyMessage, raw: Raw, principal: str, moment: Moment, turn: Turn) -> None:
        """Take what a neighbour says."""
        if isinstance(message, FromOrigin | FromOwner):
            self.orders.heard(sender, message, self._times(moment), moment, turn)
        else:
            self.below.hears(sender, message, raw, principal, moment, turn)

    def ask(self, question: Question, asked: WriteAsked, owner: str, turn: Turn) -> WriteRefusal | None:
        """Order a write of an item of a node below."""
        return self.orders.ask(question, asked, owner, self._times(question.moment), turn)

    def folded(self, record: Receipt | MessageFact, moment: Moment, turn: Turn) -> None:
        """Go on with what waited for an order's receipt, or for a record of a message."""
        if isinstance(record, Receipt):
            self.orders.finished(record, self._times(moment), moment, turn)
        else:
            self.orders.committed(record, self._times(moment), moment, turn)

    def committed(self, sequence: int, moment: Moment, turn: Turn) -> None:
        """The own log is committed, and folded, up to `sequence`."""
        self.below.committed(sequence, moment, turn)

    def time_passed(self, moment: Moment, turn: Turn, *, is_serving: bool) -> None:
        self.below.time_passed(moment, turn)
        if is_serving:
            self.orders.time_passed(self._times(moment), moment, turn)

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """A send to this peer failed."""
        self.below.lost(sender, moment, turn)
