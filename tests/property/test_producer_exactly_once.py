"""Producer against a core that dies, a link that loses, and a disk that fills: each batch once, in order, or counted.

The core here is the dumbest that keeps the contract: a list of committed batches and a list of pending ones, which a
crash forgets.
"""

from collections import deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec import record, samples
from albireo.codec.message import Appended, AppendRefused, ProducerHello, ProducerWelcome
from albireo.codec.record import Kind
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Offered, Producer, SendToCore
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType
from tests.long_form import examples
from tests.parts.refusals import no

ITEM = DataItem(name="a", value_type=ValueType.INT64)


class Core:
    def __init__(self) -> None:
        self.epoch = 1
        self.committed: list[list[tuple[str, int]]] = []
        self.pending: list[list[tuple[str, int]]] = []
        self.is_full = False

    @property
    def last(self) -> int:
        return len(self.committed) + len(self.pending)

    def crash(self) -> None:
        self.pending.clear()
        self.epoch += 1

    def commit(self) -> Appended:
        self.committed += self.pending
        self.pending.clear()
        return self._appended()

    def early(self) -> Appended:
        """What is pending is on this disk, and may be cut; nothing pending: what is committed."""
        count, pending = self.last, len(self.pending)
        position = Position(self.epoch, count)
        return Appended(producer_id=1, producer_sequence=count, position=position, uncommitted=pending)

    def _appended(self) -> Appended:
        count = len(self.committed)
        return Appended(producer_id=1, producer_sequence=count, position=Position(self.epoch, count))

    def take(self, send: SendToCore) -> list[ProducerWelcome | Appended | AppendRefused]:
        if isinstance(send.message, ProducerHello):
            welcome = ProducerWelcome(
                producer_id=1,
                last_sequence=self.last,
                item_ids=(1,),
                epoch=self.epoch,
                credit_bytes=4_000,
                run=send.message.run,
            )
            return [welcome]
        answers: list[ProducerWelcome | Appended | AppendRefused] = []
        for entry, body in zip(send.message.entries, send.raw, strict=True):
            _, sequence = record.decode_producer(body)
            if sequence <= len(self.committed):
                answers.append(self._appended())
            elif sequence > self.last + 1 or self.is_full:
                code = "gap" if sequence > self.last + 1 else "not_recording"
                wanted = self.last + 1
                return [
                    *answers,
                    AppendRefused(producer_id=1, producer_sequence=sequence, refusal=no(code), wanted=wanted),
                ]
            elif sequence == self.last + 1:
                self.pending.append(_content(entry.kind, entry.record_count, body))
        return answers


def _content(kind: int, count: int, body: bytes) -> list[tuple[str, int]]:
    if kind == Kind.RECORDS:
        (gap,) = record.decode_records(body, count)
        return [("gap", gap.lost or 0)]  # type: ignore[union-attr]  # A producer appends gaps only.
    return [("value", int(value)) for value in samples.decode_body(body, kind, count).values()]


def _batch(number: int) -> SampleBatch:
    one = np.array([number], np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=one,
        node_ns=one,
        value=one,
        quality=np.zeros(1, np.uint32),
    )


STEPS = st.lists(
    st.sampled_from("offer offer deliver deliver lose early commit crash full room time".split()),
    max_size=120,
)


@settings(max_examples=examples(300), deadline=None)
@given(STEPS)
def test_every_batch_is_committed_once_and_in_order(steps: list[str]) -> None:
    core = Core()
    producer = Producer("p", [ITEM], run=1, config=ProducerConfig())
    now = 0
    link: deque[SendToCore] = deque(producer.step(LinkOpened(), Instant(now)))
    offered = 0

    def deliver() -> None:
        for answer in core.take(link.popleft()):
            link.extend(producer.step(answer, Instant(now)))

    for step in steps:
        match step:
            case "offer":
                offered += 1
                link.extend(producer.step(Offered(batches=(_batch(offered),)), Instant(now)))
            case "deliver" if link:
                deliver()
            case "lose" if link:
                link.popleft()
            case "commit":
                link.extend(producer.step(core.commit(), Instant(now)))
            case "early":
                link.extend(producer.step(core.early(), Instant(now)))
            case "crash":
                core.crash()
                link.clear()
            case "full" | "room":
                core.is_full = step == "full"
            case "time":
                now += SECOND
                link.extend(producer.step(TimePassed(), Instant(now)))

    core.is_full = False
    for _ in range(60):  # In peace everything arrives within a few timeouts.
        now += 20 * SECOND
        link.extend(producer.step(TimePassed(), Instant(now)))
        while link:
            deliver()
            if not link:
                link.extend(producer.step(core.commit(), Instant(now)))
        if producer.is_all_acknowledged:
            break
    assert producer.is_all_acknowledged
    assert [one for batch in core.committed for one in batch] == [("value", number) for number in range(1, offered + 1)]
    assert producer.dropped == 0


@given(st.lists(st.lists(st.text(max_size=4), min_size=1, max_size=4), min_size=1, max_size=5))
def test_joined_batches_have_the_rows_of_each_one_after_another(texts: list[list[str]]) -> None:
    def batch(values: list[str], start: int) -> SampleBatch:
        rows = np.arange(start, start + len(values))
        return SampleBatch(
            value_type=ValueType.STRING,
            item_id=rows.astype(np.uint32),
            source_ns=rows + 1,
            node_ns=rows + 2,
            value=Strings.of(values),
            quality=rows.astype(np.uint32) + 3,
        )

    flat = [one for values in texts for one in values]
    whole = batch(flat, 0)
    starts = np.cumsum([0, *map(len, texts)])
    parts = [batch(values, int(start)) for values, start in zip(texts, starts, strict=False)]
    assert samples.encode(*parts, before=b"head") == b"head" + samples.encode(whole)
