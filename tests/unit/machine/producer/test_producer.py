"""Producer: hello, credit, resend, refusals and overflow, message by message. No clock: time is an argument."""

import msgspec
import numpy as np
import pytest

from albireo.codec import record, samples
from albireo.codec.message import Append, Appended, AppendRefused, ProducerHello, ProducerWelcome, Successor
from albireo.codec.record import GapFound, Kind, Stream
from albireo.machine.producer import committed
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.flight import MESSAGE_BYTES, Loss
from albireo.machine.producer.producer import WORTH_SENDING_BYTES, LinkOpened, Offered, Producer, SendToCore
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.refusals import no

ITEMS = (DataItem(name="a", value_type=ValueType.FLOAT64), DataItem(name="b", value_type=ValueType.FLOAT64))
CONFIG = ProducerConfig(queue_bytes_max=MESSAGE_BYTES)


def at(seconds: float) -> Instant:
    return Instant(int(seconds * SECOND))


def batch(value: float, rows: int = 1, value_type: ValueType | None = None) -> SampleBatch:
    """Of another type than the one before, so that what waits together does not become one body."""
    return SampleBatch(
        value_type=value_type or (ValueType.FLOAT64 if value % 2 else ValueType.INT64),
        item_id=np.arange(rows, dtype=np.uint32) % 2,
        source_ns=np.full(rows, int(value), np.int64),
        node_ns=np.full(rows, int(value), np.int64),
        value=np.full(rows, value) if value_type or value % 2 else np.full(rows, int(value)),
        quality=np.zeros(rows, np.uint32),
    )


def offered(*values: float, rows: int = 1) -> Offered:
    return Offered(batches=tuple(batch(one, rows) for one in values))


def welcome(last: int = 0, *, epoch: int = 1, producer_id: int = 3, credit: int = 1 << 20) -> ProducerWelcome:
    return ProducerWelcome(
        producer_id=producer_id, last_sequence=last, item_ids=(41, 42), epoch=epoch, credit_bytes=credit, run=5
    )


def appended(sequence: int, *, epoch: int = 1) -> Appended:
    return Appended(producer_id=3, producer_sequence=sequence, position=Position(epoch, sequence))


def refused(code: str, sequence: int, wanted: int = 0) -> AppendRefused:
    return AppendRefused(producer_id=3, producer_sequence=sequence, refusal=no(code), wanted=wanted)


def sent(effects: list[SendToCore]) -> list[tuple[int, float | str]]:
    """(producer sequence, first value or the gap's reason) of every body in `effects`."""
    found: list[tuple[int, float | str]] = []
    for send in effects:
        if not isinstance(send.message, Append):
            continue
        for entry, body in zip(send.message.entries, send.raw, strict=True):
            _, sequence = record.decode_producer(body)
            assert entry.stream == Stream.SAMPLES
            if entry.kind == Kind.RECORDS:
                (gap,) = record.decode_records(body, entry.record_count)
                assert isinstance(gap, GapFound)
                found.append((sequence, gap.reason))
            else:
                values = samples.decode_body(body, entry.kind, entry.record_count)
                assert set(values.item_id.tolist()) <= {41, 42}
                found.append((sequence, values.values()[0]))
    return found


def streaming(last: int = 0, **more: int) -> Producer:
    one = Producer("p1", ITEMS, run=5, config=CONFIG)
    one.step(LinkOpened(), at(0))
    one.step(welcome(last, **more), at(0))
    return one


def test_what_was_offered_before_the_welcome_goes_out_after_it() -> None:
    one = Producer("p1", ITEMS, run=5, config=CONFIG, takes_orders=True)
    (hello,) = one.step(LinkOpened(), at(0))
    assert hello.message == ProducerHello(producer="p1", items=ITEMS, run=5, takes_orders=True)
    assert one.step(offered(1, 2), at(0)) == []
    assert sent(one.step(welcome(6), at(0))) == [(7, 1.0), (8, 2.0)]
    assert one.epoch == 1
    assert one.row_of(42) == 1
    assert one.row_of(1) is None


def test_committed_batches_are_forgotten_and_nothing_is_due_then() -> None:
    one = streaming()
    assert sent(one.step(offered(1, 2, 3), at(0))) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert one.step(appended(2), at(1)) == []
    assert not one.is_all_acknowledged
    one.step(appended(3), at(1))
    assert one.is_all_acknowledged
    assert one.queue_bytes == 0
    assert one.deadline() is None


def test_no_more_than_the_credit_is_on_its_way() -> None:
    one = streaming(credit=1_100)
    assert sent(one.step(offered(1, 2, 3), at(0))) == [(1, 1.0)]
    assert sent(one.step(appended(1), at(0))) == [(2, 2.0)]


def test_a_batch_larger_than_the_credit_goes_alone() -> None:
    one = streaming(credit=10)
    assert sent(one.step(offered(1, 2), at(0))) == [(1, 1.0)]


def test_silence_is_answered_with_hello_and_the_same_bodies_again() -> None:
    one = streaming()
    first = one.step(offered(1, 2), at(0))
    due = one.deadline()
    assert due == at(2)
    (hello,) = one.step(TimePassed(), due)
    assert isinstance(hello.message, ProducerHello)
    again = one.step(welcome(1), due)
    assert [send.raw for send in again] == [send.raw for send in first]


def test_waiting_for_a_silent_core_doubles_up_to_its_limit() -> None:
    one = streaming()
    one.step(offered(1), at(0))
    waits, now = [], at(0)
    for _ in range(6):
        due = one.deadline()
        assert due is not None
        waits.append((due - now) / SECOND)
        now = due
        one.step(TimePassed(), now)
    assert waits == [2, 4, 8, 15, 15, 15]


def test_another_epoch_is_greeted() -> None:
    one = streaming()
    one.step(offered(1), at(0))
    (hello,) = one.step(appended(1, epoch=2), at(0))
    assert isinstance(hello.message, ProducerHello)


def test_a_gap_refusal_resends_once_however_often_it_is_said() -> None:
    one = streaming()
    one.step(offered(1, 2, 3), at(0))
    assert sent(one.step(refused("gap", 3, wanted=2), at(0))) == [(2, 2.0), (3, 3.0)]
    assert one.step(refused("gap", 3, wanted=2), at(0)) == []


def test_an_unknown_producer_says_hello() -> None:
    one = streaming()
    one.step(offered(1), at(0))
    (hello,) = one.step(refused("unknown_producer", 1), at(0))
    assert isinstance(hello.message, ProducerHello)


def test_want_of_room_pauses_then_one_batch_asks_again() -> None:
    one = streaming()
    one.step(offered(1, 2), at(0))
    assert one.step(refused("not_recording", 1, wanted=1), at(0)) == []
    assert one.step(offered(3), at(0.5)) == []
    assert one.deadline() == at(1)
    assert sent(one.step(TimePassed(), at(1))) == [(1, 1.0)]
    assert one.step(refused("not_recording", 1, wanted=1), at(1)) == []
    assert sent(one.step(TimePassed(), at(2))) == [(1, 1.0)]
    assert sent(one.step(appended(1), at(2))) == [(2, 2.0), (3, 3.0)]


def test_a_batch_that_core_cannot_take_is_given_up_and_said() -> None:
    one = streaming()
    one.step(offered(1, 2, 3), at(0))
    one.step(appended(1), at(0))
    (hello,) = one.step(refused("malformed", 2, wanted=2), at(0))
    assert isinstance(hello.message, ProducerHello)
    assert sent(one.step(welcome(1), at(0))) == [(2, 3.0), (3, "refused")]
    assert one.dropped == 1


def test_a_body_refused_twice_takes_no_other_one_with_it() -> None:
    """What is sent again before the first refusal comes is refused again, under a number that is another's by then."""
    one = streaming()
    one.step(offered(1, 2, 3), at(0))
    one.step(refused("malformed", 1), at(1))
    one.step(refused("malformed", 1), at(1))
    assert sent(one.step(welcome(0), at(1))) == [(1, 2.0), (2, 3.0), (3, "refused")]
    assert one.dropped == 1


def test_while_two_messages_are_under_way_what_waits_becomes_one_body() -> None:
    one = streaming()
    for value in (1, 2, 3, 4, 5):
        one.step(Offered(batches=(batch(value, value_type=ValueType.FLOAT64),)), at(0))
    (more,) = one.step(appended(1), at(0))
    assert isinstance(more.message, Append)
    (entry,) = more.message.entries
    assert record.decode_producer(more.raw[0]) == (3, 3)
    rows = samples.decode_body(more.raw[0], entry.kind, entry.record_count)
    assert (rows.values(), rows.item_id.tolist(), rows.source_ns.tolist()) == ([3, 4, 5], [41, 41, 41], [3, 4, 5])
    one.step(appended(2), at(0))
    assert one.batches.acknowledged == 2
    one.step(appended(3), at(0))
    assert one.batches.acknowledged == 5
    assert one.is_all_acknowledged


def test_a_large_message_waits_for_nobody() -> None:
    one = Producer("p1", ITEMS, run=5, config=ProducerConfig())
    one.step(LinkOpened(), at(0))
    one.step(welcome(credit=8 * MESSAGE_BYTES), at(0))
    rows = WORTH_SENDING_BYTES // 2 // 32
    bodies = [sent(one.step(offered(value, rows=rows), at(0))) for value in (1, 2, 3, 4, 5)]
    assert bodies == [[(1, 1.0)], [(2, 2.0)], [], [(3, 3.0)], [(4, 4)]]


def test_what_waits_behind_two_messages_becomes_bodies_of_one_message_each() -> None:
    one = Producer("p1", ITEMS, run=5, config=ProducerConfig())
    one.step(LinkOpened(), at(0))
    one.step(welcome(credit=8 * MESSAGE_BYTES), at(0))
    many = [batch(value, rows=1_000, value_type=ValueType.FLOAT64) for value in range(1, 41)]
    one.step(Offered(batches=(many[0],)), at(0))
    one.step(Offered(batches=(many[1],)), at(0))
    found: list[SendToCore] = []
    for waiting in many[2:]:
        found += one.step(Offered(batches=(waiting,)), at(0))
    bodies = [len(body) for send in found for body in send.raw]
    assert [len(send.raw) for send in found] == [1] * len(bodies)
    assert len(bodies) == 3
    assert all(WORTH_SENDING_BYTES // 2 < size <= MESSAGE_BYTES for size in bodies)
    at_once = [len(body) for send in one.step(Offered(batches=tuple(many)), at(0)) for body in send.raw]
    assert MESSAGE_BYTES - 64 * 1024 < max(at_once) <= MESSAGE_BYTES


def test_a_gap_stays_between_the_batches_it_lies_between() -> None:
    one = streaming()
    one.step(offered(1), at(0))
    one.step(offered(2), at(0))
    kind = ValueType.FLOAT64
    one.step(Offered(batches=(batch(3, value_type=kind), batch(4, value_type=kind))), at(0))
    loss = Loss(reason="device_lost", from_ns=4, to_ns=5)
    one.step(Offered(losses=(loss,), batches=(batch(5, value_type=kind), batch(6, value_type=kind))), at(0))
    assert sent(one.step(appended(2), at(0))) == [(3, 3.0), (4, "device_lost"), (5, 5.0)]


def test_of_batches_in_one_body_only_the_one_at_fault_is_given_up() -> None:
    one = Producer("p1", ITEMS, run=5, config=CONFIG)
    one.step(LinkOpened(), at(0))
    one.step(Offered(batches=tuple(batch(value, value_type=ValueType.FLOAT64) for value in (1, 2, 3))), at(0))
    assert sent(one.step(welcome(0), at(0))) == [(1, 1.0)]
    one.step(refused("malformed", 1), at(1))
    assert sent(one.step(welcome(0), at(1))) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    one.step(appended(1), at(2))
    one.step(refused("malformed", 2), at(2))
    assert list(one.batches.lost) == [2]
    assert sent(one.step(welcome(1), at(2))) == [(2, 3.0), (3, "refused")]
    one.step(appended(3), at(3))
    assert one.batches.acknowledged == 3
    assert one.is_all_acknowledged
    assert one.dropped == 1


def test_overflow_drops_the_oldest_counts_them_and_says_so_in_its_place() -> None:
    one = streaming(credit=1)
    assert sent(one.step(offered(1), at(0))) == [(1, 1.0)]
    rows = MESSAGE_BYTES // 3 // 32
    for value in (2, 3, 4, 5):
        one.step(offered(value, rows=rows), at(0))
    assert one.queue_bytes <= CONFIG.queue_bytes_max
    assert one.dropped == 2 * rows
    effects = one.step(appended(1), at(0))
    assert sent(effects) == [(2, "overflow")]
    (gap,) = record.decode_records(effects[0].raw[0], 1)
    assert gap == GapFound(source="p1", reason="overflow", from_ns=1, to_ns=4, lost=2 * rows)
    assert sent(one.step(appended(2), at(0))) == [(3, 4.0)]


def test_a_gap_names_items_by_their_ids() -> None:
    one = streaming()
    loss = Loss(reason="device_lost", from_ns=1, to_ns=2, rows=(1,))
    effects = one.step(Offered(losses=(loss,), batches=(batch(9),)), at(0))
    assert sent(effects) == [(1, "device_lost"), (2, 9.0)]
    assert record.decode_records(effects[0].raw[0], 1) == [
        GapFound(source="p1", reason="device_lost", from_ns=1, to_ns=2, item_ids=(42,))
    ]


def test_another_log_gets_what_is_in_flight_under_its_own_numbers() -> None:
    one = streaming(last=10)
    one.step(offered(1, 2), at(0))
    effects = one.step(welcome(0, producer_id=1), at(0))
    assert sent(effects) == [(1, 1.0), (2, 2.0)]
    assert record.decode_producer(effects[0].raw[0]) == (1, 1)


def gap_in(effects: list[SendToCore]) -> GapFound:
    (gap,) = [
        one
        for send in effects
        if isinstance(send.message, Append)
        for entry, body in zip(send.message.entries, send.raw, strict=True)
        if entry.kind == Kind.RECORDS
        for one in record.decode_records(body, entry.record_count)
        if isinstance(one, GapFound)
    ]
    return gap


def committed_up_to(last: int, *, before: int = 0) -> Producer:
    """A producer whose batches, of `2` rows and at times 1, 2, 3..., are all committed."""
    one = streaming(before)
    for sequence in range(before + 1, last + 1):
        one.step(offered(sequence, rows=2), at(0))
        one.step(appended(sequence), at(0))
    return one


def test_what_was_committed_and_is_not_in_the_log_is_a_gap_before_what_follows() -> None:
    one = committed_up_to(5)
    one.step(offered(6), at(1))
    again = one.step(welcome(3, epoch=2), at(2))
    assert sent(again) == [(4, "committed_lost"), (5, 6.0)]
    assert gap_in(again) == GapFound(source="p1", reason="committed_lost", from_ns=3, to_ns=5, lost=4)
    assert sent(one.step(welcome(3, epoch=2), at(3))) == [(4, "committed_lost"), (5, 6.0)], "the same, under its number"
    one.step(appended(5, epoch=2), at(3))
    assert sent(one.step(welcome(5, epoch=3), at(4))) == []
    one.step(offered(7), at(4))
    one.step(appended(6, epoch=3), at(4))
    assert gap_in(one.step(welcome(5, epoch=4), at(5))).lost == 1, "each loss is counted for itself"


def test_with_nothing_in_flight_the_gap_goes_out_at_once() -> None:
    one = committed_up_to(5)
    assert sent(one.step(welcome(4, epoch=2), at(2))) == [(5, "committed_lost")]
    assert sent(one.step(offered(8), at(2))) == [(6, 8.0)]


def test_in_another_log_everything_committed_is_lost() -> None:
    one = committed_up_to(5)
    again = one.step(welcome(9, epoch=2, producer_id=7), at(2))
    assert sent(again) == [(10, "committed_lost")]
    assert gap_in(again) == GapFound(source="p1", reason="committed_lost", from_ns=1, to_ns=5, lost=10)


def test_of_a_life_that_began_later_only_its_own_is_counted() -> None:
    gap = gap_in(committed_up_to(5, before=3).step(welcome(1, epoch=2), at(2)))
    assert (gap.from_ns, gap.to_ns, gap.lost) == (4, 5, 4)


def test_beyond_what_is_remembered_the_count_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed, "BODIES_MAX", 4)
    exact, beyond = committed_up_to(9), committed_up_to(9)
    assert gap_in(exact.step(welcome(4, epoch=2), at(2))).lost == 10
    gap = gap_in(beyond.step(welcome(2, epoch=2), at(2)))
    assert (gap.from_ns, gap.to_ns, gap.lost) == (1, 9, None)


def test_where_another_took_the_name_meanwhile_the_count_is_unknown() -> None:
    one = committed_up_to(3)
    one.step(welcome(7, epoch=2), at(2))
    one.step(offered(4), at(2))
    one.step(appended(8, epoch=2), at(2))
    gap = gap_in(one.step(welcome(2, epoch=3), at(3)))
    assert (gap.from_ns, gap.to_ns, gap.lost) == (1, 4, None)


def test_a_welcome_that_fits_not_is_not_taken() -> None:
    one = Producer("p1", ITEMS, run=5, config=CONFIG)
    one.step(LinkOpened(), at(0))
    short = ProducerWelcome(producer_id=3, last_sequence=0, item_ids=(41,), epoch=1, credit_bytes=1, run=5)
    assert one.step(short, at(0)) == []
    assert not one.is_streaming


def test_config_refuses_a_queue_that_holds_no_message() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        ProducerConfig(queue_bytes_max=1)


def superseded(run: int = 5, producer_id: int = 3) -> AppendRefused:
    by = Successor(producer_id=8, run=6, since_ns=1)
    return AppendRefused(
        producer_id=producer_id, producer_sequence=0, refusal=no("superseded"), is_final=True, run=run, successor=by
    )


def test_each_hello_says_which_life_it_goes_on_with() -> None:
    one = Producer("p1", ITEMS, run=5, config=CONFIG)
    hellos = one.step(LinkOpened(), at(0))
    one.step(welcome(0), at(0))
    hellos += one.step(LinkOpened(), at(1))
    assert [hello.message.life for hello in hellos if isinstance(hello.message, ProducerHello)] == [0, 3]


@pytest.mark.parametrize("is_greeting", [False, True])
def test_a_superseded_producer_stops_for_good(is_greeting: bool) -> None:
    one = streaming()
    one.step(offered(1, 2), at(0))
    if is_greeting:
        one.step(LinkOpened(), at(0))
    assert one.step(superseded(), at(1)) == []
    assert one.last_word is not None
    assert one.last_word.successor == Successor(producer_id=8, run=6, since_ns=1)
    for event in (LinkOpened(), offered(3), welcome(2), appended(2), TimePassed(), refused("unknown_producer", 1)):
        assert one.step(event, at(100_000)) == []
    assert one.deadline() is None
    assert not one.is_all_acknowledged


def test_words_to_another_run_that_had_the_link_before_change_nothing() -> None:
    one = Producer("p1", ITEMS, run=5, config=CONFIG)
    one.step(LinkOpened(), at(0))
    late = msgspec.structs.replace(welcome(4, producer_id=2), run=4)
    assert one.step(late, at(0)) == []
    assert not one.is_streaming
    one.step(superseded(run=4, producer_id=2), at(0))
    assert one.last_word is None
    one.step(msgspec.structs.replace(welcome(0), run=5), at(0))
    assert sent(one.step(offered(1), at(0))) == [(1, 1.0)]
