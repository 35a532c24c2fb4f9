"""Orders in the simulated tree: who gave which to whom, and the judge of what became of them.

Checked of each order
    once       its device wrote its value at most once, whatever failed and was repeated
    ended      it ends in a named outcome, at the node that gave it
    true       verified: the device wrote it; expired, cancelled, rejected: the device never did and never does
    agreed     where both logs have its receipt, they have the same guid and outcome

A node whose disk was exchanged may have forgotten what it was asked for. Its orders are judged by the device alone.

Spec: docs/messages.md; design/tree.md, Messages as resources.
"""

from collections.abc import Callable, Mapping

import msgspec

from albireo.codec.message import Answer
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.root.root import Root
from albireo.model.tree.message import MessageOutcome
from albireo.sim.tree.device import TreeDevice

PROMISES = frozenset({"expired", "cancelled", "rejected"})


class Order(msgspec.Struct):
    """One write."""

    command_id: str
    giver: str
    owner: str
    value: float
    givers_store: int
    """How often the disk of the giver had been exchanged before it was given."""
    answers: list[Answer] = []


class OrderLedger:
    """Judge of one world's orders."""

    def __init__(self, fail: Callable[[str], None], devices: Mapping[str, TreeDevice]) -> None:
        self._fail = fail
        self._devices = devices
        self.given: list[Order] = []
        self.outcomes: list[str] = []
        """Outcomes that were judged at the end."""

    def give(self, giver: str, owner: str, givers_store: int) -> Order:
        number = len(self.given) + 1
        order = Order(f"order-{number}", giver, owner, float(number), givers_store)
        self.given.append(order)
        return order

    def check_once(self) -> None:
        for node, device in self._devices.items():
            for value, times in device.done.items():
                if times > 1:
                    self._fail(f"{node}: {value} was written {times} times")

    def check(self, order: Order, giver: Root, stores: Mapping[str, int]) -> None:
        """Judge one order now that nothing is under way any more.

        Args:
            giver: root machine of the node that gave it.
            stores: how often the disk of each node was exchanged.
        """
        times = self._devices[order.owner].done[order.value]
        outcome = outcome_of(giver, order.command_id)
        if outcome:
            self.outcomes.append(outcome)
        if stores[order.giver] != order.givers_store:
            return
        if not outcome and times:
            self._fail(f"{order.command_id} was carried out at {order.owner}, {order.giver} knows nothing of it")
        if outcome in PROMISES and times:
            self._fail(f"{order.command_id} is {outcome} at {order.giver}, {order.owner} carried it out")
        if outcome == MessageOutcome.VERIFIED and not times:
            self._fail(f"{order.command_id} is verified at {order.giver}, {order.owner} never carried it out")
        for answer in order.answers:
            told = answer.result.get("outcome") if isinstance(answer.result, dict) else ""
            if told and told != outcome and not (told == "unknown" or (told, outcome) == ("rejected", "cancelled")):
                self._fail(f"{order.command_id} was told to be {told}, on record it is {outcome or 'not there'}")


def outcome_of(giver: Root, command_id: str) -> str:
    """Outcome of a write at the node that gave it; empty: it has none, or was never taken."""
    found = giver.tree.post.messages.find(command_id)
    if isinstance(found, MessageReceipt):
        return found.end.outcome.value
    state = giver.folds.commands.find(command_id)
    return "" if state is None or state.receipt is None else state.receipt.outcome.value


def open_orders(root: Root) -> list[str]:
    """Orders that a node gave, or carries out, and that have no end yet."""
    inbox, outbox = root.folds.messages.inbox, root.folds.messages.outbox
    unfinished = [str(one.name) for one in inbox.unfinished()]
    return [*map(str, outbox.open), *unfinished, *["a command"] * root.folds.commands.open_count]


def disagreements(giver: Root, owner: Root, *, is_restored: bool) -> list[str]:
    """Receipts that both have and that differ; an end that only the giver had to say for itself is none.

    Args:
        is_restored: the disk of the owner was exchanged, so it may say `unknown` of what it had ended before.
    """
    found = []
    at_owner = {one.name: one for one in owner.folds.messages.inbox.receipts}
    for one in giver.folds.messages.outbox.receipts:
        other = at_owner.get(one.name)
        if other is None or not one.guid:
            continue
        if other.guid != one.guid:
            found.append(f"{one.name}: guid {one.guid!r}, {other.guid!r}")
        elif MessageOutcome.UNKNOWN in (one.end.outcome, *[other.end.outcome] * is_restored):
            continue
        elif other.end.outcome is not one.end.outcome:
            found.append(f"{one.name}: {one.end.outcome}, {other.end.outcome}")
    return found
