"""Parts that tests share: a member whose records were pruned comes back."""

from pathlib import Path
from typing import Final

import numpy as np

from albireo.codec import samples
from albireo.codec.frame import body_crc
from albireo.codec.message import (
    Append,
    Appended,
    AppendEntry,
    AppendRefused,
    ProducerHello,
    ProducerWelcome,
    RoleTold,
)
from albireo.codec.record import Kind, Stream
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from albireo.runtime import SyncLink
from albireo.runtime.clock import boot_ns
from tests.parts.waiting import PATIENCE_S

ROWS: Final = 100


ITEM: Final = DataItem(name="message", value_type=ValueType.STRING)


class Producer:
    """Sends batches of text and waits for each to be acknowledged; says hello as one run, wherever it goes."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def send(self, data: Path, batches: int) -> None:
        with SyncLink(data, "core") as link:
            welcome = self._hello(link)
            assert welcome.last_sequence == self.acknowledged, "the dedup state is that of the log"
            for _ in range(batches):
                body = samples.encode_body(welcome.producer_id, self.acknowledged + 1, rows(welcome.item_ids[0]))
                entry = AppendEntry(Stream.SAMPLES, Kind.STRING, ROWS, body_crc(body))
                link.send(Append(entries=(entry,)), [body])
                answer = self._answer(link)
                assert isinstance(answer, Appended), answer
                self.acknowledged = answer.producer_sequence

    def _hello(self, link: SyncLink) -> ProducerWelcome:
        ends = boot_ns() + PATIENCE_S * SECOND
        while boot_ns() < ends:
            link.send(ProducerHello(producer="p", items=(ITEM,), run=1))
            answer = self._answer(link)
            if isinstance(answer, ProducerWelcome):
                return answer
        raise AssertionError("no welcome")

    def _answer(self, link: SyncLink) -> object:
        while True:
            received = link.receive(PATIENCE_S)
            assert received is not None, "no answer"
            if isinstance(received[0], ProducerWelcome | Appended | AppendRefused | RoleTold):
                return received[0]


def rows(item_id: int) -> SampleBatch:
    times = np.full(ROWS, 1_800_000_000 * SECOND, np.int64)
    return SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.full(ROWS, item_id, np.uint32),
        source_ns=times,
        node_ns=times,
        value=Strings.of(["x" * 600] * ROWS),
        quality=np.zeros(ROWS, np.uint32),
    )
