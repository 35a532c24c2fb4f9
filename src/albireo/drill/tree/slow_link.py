"""People at a slow link over which much comes in: they look at live values, give orders, send a file.

    root --file, orders--> far and slow cable --> site
    root <--backlog, live values------------------ site

Everything is measured by a clock of one machine, from the drill's own program.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import Client
from albireo.drill.ground import DrillError
from albireo.drill.load import OWNER_SHIFT, ProducerWorker, one_value
from albireo.drill.relay import CableSpec
from albireo.model.item import DataItem
from albireo.model.tree.proof import MessageProof
from albireo.model.value import ValueType

WAY: Final = CableSpec(delay_s=0.3, bytes_per_s=20_000)
"""A satellite: a round trip of 600 ms."""
BACKLOG: Final = 10_000
FILE_BYTES: Final = 1_000_000
LOOKED_S: Final = 20.0
"""Time for which people look and order; the link needs two minutes for the backlog and the file."""
VALUE_S: Final = 2.0
ORDER_S: Final = 5.0
FAST: Final = 2_000
"""Messages a second of a producer that makes the backlog."""
SLOW: Final = 2
"""Messages a second of the one that is looked at."""
VALVE: Final = DataItem(name="valve", value_type=ValueType.INT64)
"""Item that is ordered."""
PAUSE_S: Final = 0.1
FILE_S: Final = 120.0
Connect = Callable[[], Client]


class SeenOverSlowLink(msgspec.Struct, frozen=True):
    """The worst that people met."""

    value_s: float
    """Longest time until a value that the site had acknowledged was shown at the root."""
    order_s: float
    """Longest time of an order."""
    orders: int


class SlowLink:
    """One time of much on a slow link: begun, looked at, and ended here."""

    def __init__(self, root: Connect, site: Connect, directory: Path) -> None:
        self._root, self._site = root, site
        self._directory = directory
        self._pool = ThreadPoolExecutor(3)
        self._is_over = threading.Event()
        self._file = bytes(range(256)) * (FILE_BYTES // 256)
        self._received: list[bytes] = []

        with site() as client, client.producer(VALVE.name, [VALVE]) as producer:
            producer.offer([one_value(0)])

    def look(self, watched: str, site: str, source: ProducerWorker) -> SeenOverSlowLink:
        """Look, order and send for a while.

        Args:
            watched: item of `source` as the root shows it.
        Raises:
            ClientError: an order was not carried out.
        """
        self._receiving = self._pool.submit(self._receive)
        self._sending = self._pool.submit(self._send, site)
        ordering = self._pool.submit(self._order, f"{site}:{VALVE.name}")
        value_s = self._longest_wait(watched, source)
        self._is_over.set()
        order_s = ordering.result(FILE_S)
        return SeenOverSlowLink(round(value_s, 3), round(max(order_s), 3), len(order_s))

    def end(self) -> None:
        """Wait for the file; the link is a fast one by now.

        Raises:
            DrillError: it did not come, or another one did.
        """
        outcome = self._sending.result(FILE_S).outcome
        self._receiving.result(FILE_S)
        if outcome != "executed" or self._received != [self._file]:
            raise DrillError(f"the file: {outcome}, {len(self._received)} received")
        self._pool.shutdown()

    def _longest_wait(self, watched: str, source: ProducerWorker) -> float:
        """Longest time from the acknowledgement of a value until it was seen, or one after it."""
        began, waits = time.monotonic(), [0.0]
        with self._root() as root:
            while (now := time.monotonic()) < began + LOOKED_S:
                number = int(root.read(watched).value or 0) & ((1 << OWNER_SHIFT) - 1)
                unseen = [at for at, acked in source.acks.times if at >= began and acked > number]
                waits.append(now - unseen[0] if unseen else 0.0)
                time.sleep(PAUSE_S)
        return max(waits)

    def _order(self, item: str) -> list[float]:
        took: list[float] = []
        with self._root() as root:
            while not self._is_over.is_set():
                began = time.monotonic()
                root.force(item, len(took), "drill", for_s=FILE_S)
                took.append(time.monotonic() - began)
            root.release(item)
        return took

    def _send(self, site: str) -> MessageProof:
        with self._root() as root:
            return root.send_file(site, self._file, name="file", expires_s=FILE_S)

    def _receive(self) -> None:
        with self._site() as site:
            for message in site.inbox(timeout_s=FILE_S):
                if (path := site.receive_file(message, self._directory)) is not None:
                    self._received.append(path.read_bytes())
                    return
