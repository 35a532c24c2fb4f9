"""Counting program: a producer in a process of its own, which several may run under one name.

    python -m albireo.drill.counting KEYS OWNER ENDPOINT PLACE ENDPOINT PLACE

Writes a line for each acknowledgement (its number, then epoch and sequence of its position), `taken` when another
program has the name, and ends then. Ends with whoever started it.
"""

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from albireo.client import Acknowledged, NameTaken, NotDelivered, QueueFull, SampleProducer, connect
from albireo.drill.load import OWNER_SHIFT
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

NAME: Final = "counting"
"""Name of the producer, of all that run."""
TAKEN: Final = "taken"
PAUSE_S: Final = 0.01
"""Time between two messages."""


def main(arguments: Sequence[str]) -> None:
    keys, owner, *places = arguments
    members = [LineTo(*places[:2]), LineTo(*places[2:])]
    item = DataItem(name="counted", value_type=ValueType.INT64)
    with connect(members, keys=Keys.load(Path(keys)), waits=False) as client:
        producer = client.producer(NAME, [item])
        try:
            _count(producer, int(owner))
        except NameTaken:
            _say(TAKEN)
        with contextlib.suppress(NotDelivered):  # The drill knows what was acknowledged.
            producer.close(0)


def _count(producer: SampleProducer, owner: int) -> None:
    parent, number, due = os.getppid(), 0, time.monotonic()
    while os.getppid() == parent:
        if time.monotonic() >= due:
            try:
                number = producer.offer([_message(owner, number + 1)])
            except QueueFull:
                pass  # Nobody acts; what waits is enough.
            due = time.monotonic() + PAUSE_S
        for receipt in producer.wait(PAUSE_S):
            if isinstance(receipt, Acknowledged):
                _say(f"{receipt.batch} {receipt.position.epoch} {receipt.position.sequence}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _message(owner: int, number: int) -> SampleBatch:
    at = np.array([wall_ns()], np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=at,
        node_ns=at,
        value=np.array([owner << OWNER_SHIFT | number], np.int64),
        quality=np.zeros(1, np.uint32),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
