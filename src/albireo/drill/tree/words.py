"""Words to a member that stands still: the first that it hears when it wakes, while it still believes that it acts.

A program that speaks with this member only was welcomed before the member stood still. While it does so, the program
sends it one more batch, and an order. Nothing of that may be acknowledged, answered with an outcome, or carried out by
a member whose mate has taken over meanwhile.
"""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec
import numpy as np

from albireo.client import Acknowledged, Client, ClientError, NotDelivered, SampleProducer, connect
from albireo.drill.ground import DrillError
from albireo.drill.load import OWNER_SHIFT, PRODUCERS
from albireo.drill.tree.nodes import OUTPUT, TreeNodes
from albireo.drill.tree.shapes import ROOT
from albireo.model.command import Outcome, Receipt
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns

VALUE: Final = 100
"""Value of the order; no other order has it."""
WELCOME_S: Final = 30.0
EXPIRES_MS: Final = 1_000
ANSWER_S: Final = 20.0
REFUSALS: Final = (Outcome.UNKNOWN, Outcome.EXPIRED, Outcome.REJECTED)
"""Outcomes that take nothing on: a member that took an order before it saw that its lease is over says `unknown`."""


class LateWords:
    """The words to one member that stands still, and what it answers."""

    def __init__(self, nodes: TreeNodes, name: str, number: int) -> None:
        """`number`: its own, from 1; numbers of its batches tell it."""
        self._item = f"{nodes.site}:{OUTPUT}" if nodes.node_of[name] == ROOT else OUTPUT
        self.owner = len(PRODUCERS) + number
        """Owner of the batches, as `ConsumedMessages` sorts them."""
        self._stack = contextlib.ExitStack()
        self._client = self._stack.enter_context(
            connect([nodes.line(name)], keys=nodes.keys, timeout_s=ANSWER_S, is_pinned=True)
        )
        self._thread = self._stack.enter_context(ThreadPoolExecutor(1))
        self._order: Future[object]
        self._producer = self._welcomed(self._client)

    def _welcomed(self, client: Client) -> SampleProducer:
        """Raises DrillError: its first batch is not acknowledged."""
        producer = client.producer("late", [DataItem(name="late", value_type=ValueType.INT64)])
        producer.offer([self._batch(1)])
        if not producer.flush(WELCOME_S) or not producer.wait(0.0):
            self.close()
            raise DrillError("a batch to the acting member was not acknowledged")
        return producer

    def _batch(self, number: int) -> SampleBatch:
        at = np.array([wall_ns()], np.int64)
        return SampleBatch(
            value_type=ValueType.INT64,
            item_id=np.zeros(1, np.uint32),
            source_ns=at,
            node_ns=at,
            value=np.array([self.owner << OWNER_SHIFT | number], np.int64),
            quality=np.zeros(1, np.uint32),
        )

    def say(self) -> None:
        """Send what the member will find when it wakes."""
        self._producer.offer([self._batch(2)])
        self._producer.wait(0.0)
        self._order = self._thread.submit(
            self._client.ask,
            "write",
            item=self._item,
            value=VALUE,
            command_id=f"late-{self.owner}",
            expires_ms=EXPIRES_MS,
        )

    def answers(self) -> int:
        """Number of words that the member took on itself: a batch acknowledged, an order carried out as it says."""
        taken = 0
        with contextlib.suppress(ClientError):  # Refused, or not answered.
            receipt = msgspec.convert(self._order.result(ANSWER_S + 1), Receipt, strict=False)
            taken += receipt.outcome not in REFUSALS
        return taken + sum(isinstance(one, Acknowledged) for one in self._producer.wait(0.0))

    def close(self) -> None:
        with contextlib.suppress(NotDelivered):
            self._producer.close(0)
        self._stack.close()
