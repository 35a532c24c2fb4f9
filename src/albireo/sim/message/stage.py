"""Stage of one world of messages: cables between neighbours of the tree, the machines that play, and the ledger."""

import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from albireo.codec.tree.letters import TreeMessage
from albireo.machine.message.events import HandOut
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.receiving.receivers import MessageReceivers, Receiver
from albireo.model.tree.message import MessageName
from albireo.sim.engine.agenda import Agenda
from albireo.sim.engine.network import Messages
from albireo.sim.engine.stage import Stage
from albireo.sim.message.ledger import MessagesLedger
from albireo.sim.message.swarm import MessageSwarm

LETTERS_KEPT = 200


class ServingRun(Protocol):
    """Run of a node, as the programs that receive there have it."""

    def ready(self, receiver: Receiver, credit: int, handed: Callable[[HandOut], None]) -> None: ...
    def lost(self, link: str) -> None: ...
    def take(self, link: str, name: MessageName, lease: int, took: Callable[[], None]) -> bool: ...
    def give_back(self, link: str, name: MessageName, lease: int) -> bool: ...


class MessageVariant(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that play, and what the shell around them leaves out."""

    messages: type[NodeMessages] = NodeMessages
    receivers: type[MessageReceivers] = MessageReceivers
    claims_its_store: bool = False
    """True: every start says that its store goes on, restored ones too."""
    keeps_folds: bool = True
    """False: the machines change their folds beside the log, so that nobody compares them."""
    is_bounded: bool = True
    """False: what an owner remembers is not counted."""


PLAIN_MESSAGES = MessageVariant()


class MessagesStage(Stage[MessageSwarm]):
    """Stage of one seed."""

    def __init__(self, seed: int, swarm: MessageSwarm, variant: MessageVariant, *, is_verbose: bool) -> None:
        chance = random.Random(f"messages world {seed}")
        super().__init__(seed, swarm, chance, Agenda(), is_verbose=is_verbose)
        self.variant = variant
        self.network = Messages(self, loss=swarm.loss, duplicate=swarm.duplicate, long_delay=swarm.long_delay)
        self.ledger = MessagesLedger(self.agenda, swarm.drift, self.fail)
        self.doubts = 0
        """Number of outcomes whose guid was wrong, as the machines said."""
        self.letters: list[tuple[str, str, TreeMessage]] = []
        """Letters that were sent lately: one of them may come again."""
        self.hear: Callable[[str, TreeMessage], None] = lambda _to, _letter: None
        self.present_of: Callable[[str], Callable[[], ServingRun | None]] = lambda _node: lambda: None

    def post(self, source: str, target: str, letter: TreeMessage) -> None:
        """Send a letter to a neighbour."""
        self.tell(source, f"-> {target} {type(letter).__name__} {letter.name}")
        self.letters = [*self.letters[-LETTERS_KEPT:], (source, target, letter)]
        self.network.send(source, target, 0, lambda: self.hear(target, letter))
