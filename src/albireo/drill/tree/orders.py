"""Orders of the root to an output of the site that never stop, one at a time, and what the PLC made of them.

An order of which nobody is left who would answer is asked for again under its id, so each has an outcome. The value
tells which order it was.
"""

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.client import ClientError, NodeRefused, connect
from albireo.drill.load import Worker
from albireo.drill.tree.nodes import OUTPUT, TreeNodes
from albireo.drill.tree.shapes import ROOT
from albireo.model.command import Outcome, Receipt

VALUES: Final = range(30, 100)
"""Values of the orders in turn, so that no two in a row are the same."""
PAUSE_S: Final = 0.2
EXPIRES_S: Final = 2.0
ANSWER_S: Final = 10.0
TOLD_S: Final = 60.0
"""Longest time until an order has its outcome."""


class GivenOrder(msgspec.Struct):
    """One order."""

    value: int
    outcome: Outcome | None = None
    """Outcome that the root was told; None: none yet."""


class OrdersFromAbove(Worker):
    """Gives the orders, in a thread of its own."""

    def __init__(self, nodes: TreeNodes) -> None:
        super().__init__("orders", nodes.lines(ROOT), nodes.keys)
        self._item = f"{nodes.site}:{OUTPUT}"
        self.given: list[GivenOrder] = []
        self._is_ordering = threading.Event()
        self._is_idle = threading.Event()

    def order(self, *, is_on: bool) -> None:
        """Go on with the orders, or let the one under way have its outcome."""
        if is_on:
            self._is_idle.clear()
            self._is_ordering.set()
        else:
            self._is_ordering.clear()

    @property
    def is_idle(self) -> bool:
        """True: no order is under way, and none will be until `order`."""
        return self._is_idle.is_set() or bool(self.failure)

    def _work(self) -> None:
        while not self._is_stopping.wait(PAUSE_S):
            if self._is_ordering.is_set():
                self._order()
            else:
                self._is_idle.set()

    def _order(self) -> None:
        one = GivenOrder(VALUES[len(self.given) % len(VALUES)])
        self.given.append(one)
        command_id = str(uuid.uuid4())
        ends = time.monotonic() + TOLD_S
        while one.outcome is None and time.monotonic() < ends and not self._is_stopping.wait(0.0):
            one.outcome = self._asked(one.value, command_id)

    def _asked(self, value: int, command_id: str) -> Outcome | None:
        """Give an order, or ask again for its outcome; None: nobody answered."""
        try:
            with connect(self._members, keys=self._keys, timeout_s=ANSWER_S) as client:
                told = client.ask(
                    "write",
                    item=self._item,
                    value=value,
                    command_id=command_id,
                    expires_ms=round(EXPIRES_S * 1000),
                )
                return msgspec.convert(told, Receipt, strict=False).outcome
        except NodeRefused:
            self._is_stopping.wait(PAUSE_S)  # Whoever answers has just lost the lead, or does not know the item yet.
        except ClientError:
            pass  # Whoever was asked is gone.
        return None


class OrderAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The orders of a round against what the PLC carried out."""

    orders: int
    verified: int
    unknown: int
    untold: int
    """Orders without an outcome."""
    untrue: int
    """Orders of which the PLC says otherwise than the root was told, and writes that nobody had ordered."""
    details: tuple[str, ...] = ()


TIMES: Final = {Outcome.VERIFIED: (1,), Outcome.EXPIRED: (0,), Outcome.REJECTED: (0,)}
"""Numbers of times that an order with this outcome may have been carried out."""


def judge_orders(given: Sequence[GivenOrder], carried: Sequence[int]) -> OrderAccount:
    """Compare orders in the sequence in which they were given with the values that the PLC carried out. Pure."""
    untrue, at = 0, 0
    details: list[str] = []
    for one in given:
        count = 0
        while at < len(carried) and carried[at] == one.value:
            count, at = count + 1, at + 1
        allowed = (0, 1) if one.outcome is None else TIMES.get(one.outcome, (0, 1))
        if count not in allowed:
            untrue += 1
            details.append(f"order of {one.value}: told {one.outcome}, carried out {count} times")
    if at < len(carried):
        untrue += len(carried) - at
        details.append(f"carried out late, or ordered by nobody: {list(carried[at : at + 5])}")
    told = [one.outcome for one in given]
    return OrderAccount(
        orders=len(given),
        verified=told.count(Outcome.VERIFIED),
        unknown=told.count(Outcome.UNKNOWN),
        untold=told.count(None),
        untrue=untrue,
        details=tuple(details),
    )
