"""Told: each token has one word, and `committed` only when the log has said so."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from albireo.codec.message import Appended, AppendRefused, ProducerWelcome
from albireo.field.contract import Arrivals
from albireo.field.dead_band import DeadBand
from albireo.field.told import ToldSide
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Offered, Producer
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.value import ValueType
from tests.own.adapter.adapter import TellingAdapter
from tests.own.adapter.kind import ToldConfig
from tests.parts.refusals import no

ITEMS = (
    DataItem(name="a", value_type=ValueType.FLOAT64),
    DataItem(name="b", value_type=ValueType.INT64),
    DataItem(name="banded", value_type=ValueType.FLOAT64),
)
WIDTHS = (0.0, 0.0, 1.0)
BEGAN = WallTime(10**18)
CREDIT = 1 << 20


class Hearing(TellingAdapter):
    """The adapter of the tests, without a device: keeps its words."""

    def __init__(self) -> None:
        super().__init__(ToldConfig(name="a1", kind="told"), ITEMS, WIDTHS, [])
        self.words: list[tuple[str, int]] = []

    def committed(self, token: int) -> None:
        self.words.append(("committed", token))

    def let_go(self, token: int) -> None:
        self.words.append(("let_go", token))


class Site:
    """The told side and a real producer, without COMM's tasks."""

    def __init__(self, queue_bytes: int = 1 << 20, is_greeted: bool = True) -> None:
        self.adapter = Hearing()
        self.told = ToldSide(self.adapter)
        self.band = DeadBand(ITEMS, np.array(WIDTHS), np.full(len(ITEMS), 10 * SECOND), BEGAN)
        self.producer = Producer("a1", ITEMS, run=1, config=ProducerConfig(queue_bytes_max=queue_bytes))
        self.producer.step(LinkOpened(), Instant(0))
        if is_greeted:
            self.welcome()

    def welcome(self) -> None:
        self.hear(
            ProducerWelcome(producer_id=3, last_sequence=0, item_ids=(1, 2, 3), epoch=1, credit_bytes=CREDIT, run=1)
        )

    def give(self, *rows: int, value: float = 1.0) -> int:
        """One arrival for each row, in columns of their own."""
        token = self.told.next_token()
        news = self.told.news([arrival(row, value) for row in rows], self.band, Instant(0), BEGAN)
        first = self.producer.batches.offered + 1
        self.told.promise(token, first, self.producer.batches.offered + len(news.batches))
        self.producer.step(Offered(batches=news.batches, losses=news.losses), Instant(0))
        self.told.hear(self.producer)
        return token

    def hear(self, message: ProducerWelcome | Appended | AppendRefused) -> None:
        self.producer.step(message, Instant(0))
        self.told.hear(self.producer)

    def receipt(self, sequence: int, uncommitted: int = 0) -> None:
        position = Position(1, sequence)
        self.hear(Appended(producer_id=3, producer_sequence=sequence, position=position, uncommitted=uncommitted))

    @property
    def words(self) -> list[tuple[str, int]]:
        """Words so far, said as COMM's task says them."""

        async def say() -> None:
            task = asyncio.ensure_future(self.told.serve())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()

        asyncio.run(say())
        return self.adapter.words


def arrival(row: int, value: float) -> Arrivals:
    is_real = row != 1
    return Arrivals(
        value_type=ValueType.FLOAT64 if is_real else ValueType.INT64,
        rows=np.array([row]),
        value=np.array([value]) if is_real else np.array([int(value)]),
        quality=np.zeros(1, np.uint32),
        source_ns=np.array([BEGAN], np.int64),
    )


def committed(*tokens: int) -> list[tuple[str, int]]:
    return [("committed", one) for one in tokens]


def test_tokens_are_committed_in_order_as_their_batches_are() -> None:
    one = Site()
    assert [one.give(0), one.give(1), one.give(0, 1)] == [1, 2, 3]
    assert one.words == []
    one.receipt(1)
    assert one.words == committed(1)
    one.receipt(2)
    assert one.words == committed(1, 2)
    one.receipt(3)
    one.receipt(4)
    assert one.words == committed(1, 2, 3)


def test_an_early_receipt_is_no_commit() -> None:
    """A stream of durability `local` is answered before the other member has it."""
    one = Site()
    one.give(0)
    one.receipt(1, uncommitted=1)
    assert one.producer.is_all_acknowledged
    assert one.words == []
    one.receipt(1)
    assert one.words == committed(1)


def test_what_the_dead_band_keeps_shares_the_fate_of_what_was_given_before() -> None:
    one = Site()
    one.give(2, value=5.0)
    one.give(2, value=5.5)
    assert one.words == []
    one.receipt(1)
    assert one.words == committed(1, 2)
    one.give(2, value=5.5)
    assert one.words == committed(1, 2, 3), "nothing is under way: all that it says is on record"


def test_what_a_full_queue_drops_is_let_go_and_the_rest_committed() -> None:
    one = Site(queue_bytes=512 << 10, is_greeted=False)
    count = 2 * (512 << 10) // (1 << 10)
    for _ in range(count):
        one.give(0)
    let_go = [token for word, token in one.words if word == "let_go"]
    assert let_go == list(range(1, len(let_go) + 1)), "the oldest"
    assert one.producer.dropped == len(let_go) > 0
    one.welcome()
    for sequence in range(1, count):
        one.receipt(sequence)
    assert one.words[len(let_go) :] == committed(*range(len(let_go) + 1, count + 1))


def test_a_device_that_tells_nothing_new_while_core_is_away_costs_no_memory() -> None:
    one = Site(is_greeted=False)
    one.give(2, value=5.0)
    for _ in range(1_000):
        one.give(2, value=5.5)
    assert len(one.told._batches) == 1
    one.welcome()
    one.receipt(1)
    assert one.words == committed(*range(1, 1_002))


def test_what_core_cannot_take_is_let_go_and_what_follows_is_committed() -> None:
    one = Site()
    one.give(0)
    one.give(1)
    one.hear(AppendRefused(producer_id=3, producer_sequence=1, refusal=no("malformed")))
    one.hear(ProducerWelcome(producer_id=3, last_sequence=0, item_ids=(1, 2, 3), epoch=1, credit_bytes=CREDIT, run=1))
    one.receipt(2)
    assert sorted(one.words) == [("committed", 2), ("let_go", 1)]


@pytest.mark.parametrize("rows", [(0,), (0, 1, 0)])
def test_another_run_lets_go_of_what_was_not_committed(rows: Sequence[int]) -> None:
    one = Site()
    one.give(*rows)
    one.give(0)
    one.receipt(1)
    one.told.forget()
    wanted = [("committed", 1), ("let_go", 2)] if len(rows) == 1 else [("let_go", 1), ("let_go", 2)]
    assert one.words == wanted


def test_a_restart_of_core_changes_nothing_but_the_time() -> None:
    one = Site()
    one.give(0)
    one.hear(ProducerWelcome(producer_id=3, last_sequence=1, item_ids=(1, 2, 3), epoch=2, credit_bytes=CREDIT, run=1))
    assert one.words == [], "it knows the number, and has not said yet that it is committed"
    one.receipt(1)
    assert one.words == committed(1)
