"""Producer and sender of a local stream: what is acknowledged early is answered, kept, and sent again as it was."""

import itertools

import msgspec
import numpy as np

from albireo.codec.message import Append, Appended, ProducerHello, ProducerWelcome, RoleTold
from albireo.codec.record import GapFound, Kind, decode_producer, decode_records
from albireo.codec.samples import decode_body
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.flight import Loss
from albireo.machine.producer.producer import LinkOpened, Offered, Producer, SendToCore
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, Heard, PairSender, SayTo
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

ITEMS = (DataItem(name="a", value_type=ValueType.FLOAT64),)
CONFIG = ProducerConfig()


def at(seconds: float) -> Instant:
    return Instant(int(seconds * SECOND))


def batch(value: float, rows: int = 1) -> SampleBatch:
    times = np.full(rows, int(value), np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.zeros(rows, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.full(rows, value),
        quality=np.zeros(rows, np.uint32),
    )


def welcome(last: int, epoch: int = 2, credit: int = 1 << 20) -> ProducerWelcome:
    return ProducerWelcome(producer_id=3, last_sequence=last, item_ids=(41,), epoch=epoch, credit_bytes=credit, run=5)


def appended(sequence: int, uncommitted: int = 0, epoch: int = 2) -> Appended:
    members = (0,) if uncommitted else (0, 1)
    return Appended(
        producer_id=3,
        producer_sequence=sequence,
        position=Position(epoch, sequence),
        durability="both" if len(members) > 1 else "local",
        members=members,
        uncommitted=uncommitted,
    )


def streaming(credit: int = 1 << 20) -> Producer:
    one = Producer("p", ITEMS, run=5, config=CONFIG)
    one.step(LinkOpened(), at(0))
    one.step(welcome(0, credit=credit), at(0))
    return one


def bodies(sends: list[SendToCore]) -> list[bytes]:
    return [body for send in sends for body in send.raw]


def test_what_was_acknowledged_early_goes_out_again_as_it_was_after_a_takeover() -> None:
    one = streaming()
    first = [
        *bodies(one.step(Offered(batches=(batch(1),)), at(0))),
        *bodies(one.step(Offered(batches=(batch(2),)), at(0))),
    ]
    one.step(appended(2, uncommitted=2), at(0.1))
    assert one.batches.acknowledged == 2
    assert one.is_all_acknowledged, "nobody waits for an answer"
    assert one.queue_bytes > 0, "and yet they are kept"
    one.step(LinkOpened(), at(1))
    assert bodies(one.step(welcome(1, epoch=5), at(1))) == first, (
        "the first is a repeat, for its commit was not heard of"
    )
    one.step(appended(2, epoch=5), at(1.1))
    assert (one.queue_bytes, one.deadline()) == (0, None)


def test_a_welcome_takes_back_what_was_acknowledged_early() -> None:
    """A takeover may have cut it: whoever waits for the producer to be drained waits until it is told anew."""
    one = streaming()
    for value in (1, 2):
        one.step(Offered(batches=(batch(value),)), at(0))
    one.step(appended(2, uncommitted=2), at(0.1))
    assert one.is_all_acknowledged
    one.step(LinkOpened(), at(1))
    one.step(welcome(0, epoch=5), at(1))
    assert not one.is_all_acknowledged, "the log of the new holder has neither"
    one.step(appended(1, uncommitted=1, epoch=5), at(1.1))
    assert not one.is_all_acknowledged
    one.step(appended(2, uncommitted=2, epoch=5), at(1.2))
    assert one.is_all_acknowledged


def test_what_is_committed_is_let_go_by_the_receipt_that_says_how_far() -> None:
    one = streaming()
    for value in (1, 2):
        one.step(Offered(batches=(batch(value),)), at(0))
    one.step(appended(1, uncommitted=1), at(0))
    kept = one.queue_bytes
    one.step(appended(2, uncommitted=1), at(0))
    assert 0 < one.queue_bytes < kept
    one.step(appended(2), at(0))
    assert one.queue_bytes == 0
    assert one.batches.acknowledged == 2


def test_a_gap_record_is_no_batch_that_a_program_hears_of() -> None:
    one = streaming()
    one.step(Offered(losses=(Loss(reason="device_lost", from_ns=1, to_ns=2),)), at(0))
    one.step(appended(1, uncommitted=1), at(0))
    assert one.batches.acknowledged == 0
    one.step(Offered(batches=(batch(1),)), at(0))
    one.step(Offered(losses=(Loss(reason="device_lost", from_ns=3, to_ns=4),)), at(0))
    one.step(appended(3, uncommitted=3), at(0))
    assert one.batches.acknowledged == 1


def test_what_is_kept_counts_against_the_credit_until_it_is_committed() -> None:
    one = streaming(credit=40_000)
    one.step(Offered(batches=(batch(1, rows=1_000),)), at(0))
    assert one.step(Offered(batches=(batch(2, rows=1_000),)), at(0)) == []
    assert one.step(appended(1, uncommitted=1), at(0)) == [], "acknowledged, and still in the way"
    assert len(bodies(one.step(appended(1), at(0)))) == 1


def test_a_commit_that_was_said_and_lost_is_asked_for() -> None:
    one = streaming()
    one.step(Offered(batches=(batch(1),)), at(0))
    one.step(appended(1, uncommitted=1), at(0.1))
    due = one.deadline()
    assert due is not None
    (hello,) = one.step(TimePassed(), due)
    assert isinstance(hello.message, ProducerHello)
    assert len(bodies(one.step(welcome(1), due))) == 1, "a repeat is how it asks"
    one.step(appended(1), due)
    assert one.queue_bytes == 0


def sender() -> PairSender:
    """Talks to member 0 in epoch 2."""
    one = PairSender("p", ITEMS, run=5, config=CONFIG, seek=SeekConfig(), now=at(0))
    for member in (0, 1):
        one.step(LineUp(member), at(0))
    one.step(Heard(0, RoleTold(is_acting=True, epoch=2)), at(0))
    one.step(Heard(0, welcome(0)), at(0))
    return one


def test_a_program_is_told_once_and_that_it_may_be_cut() -> None:
    one = sender()
    one.step(Offered(batches=(batch(1),)), at(0))
    told = Acknowledged(1, Position(2, 1), "local", members=(0,), may_be_cut=True)
    assert one.step(Heard(0, appended(1, uncommitted=1)), at(0)) == [told]
    assert one.step(Heard(0, appended(1)), at(0)) == [], "the commit is no second receipt"


def test_a_paused_member_that_lacks_what_was_acknowledged_early_is_left() -> None:
    one = sender()
    one.step(Heard(1, RoleTold(is_acting=True, epoch=5)), at(0))
    one.step(Heard(1, welcome(0, epoch=5)), at(0))
    one.step(Offered(batches=(batch(1),)), at(0))
    one.step(Heard(1, appended(1, uncommitted=1, epoch=5)), at(0))
    one.step(LineDown(1), at(0))
    settled = at(SeekConfig().settle_ns / SECOND)
    one.step(Heard(0, RoleTold(is_acting=True, epoch=2)), settled)
    assert one.chosen == 0, "nobody better has spoken for so long"
    one.step(Heard(0, welcome(0, epoch=2)), settled)
    assert one.late_welcomes == 1
    assert not one.is_streaming


def test_a_node_alone_that_lacks_what_was_acknowledged_is_followed_under_a_lower_epoch_too() -> None:
    """Its disk was put back from a backup, or is empty: nobody else can have what is missing."""
    one = sender()
    one.step(Offered(batches=(batch(1), batch(2))), at(0))
    one.step(Heard(0, msgspec.structs.replace(appended(1, epoch=5), members=())), at(0))
    one.step(LineDown(0), at(1))
    one.step(Offered(batches=(batch(3),)), at(1))
    one.step(LineUp(0), at(1))
    later = at(1 + SeekConfig().settle_ns / SECOND)
    one.step(Heard(0, RoleTold(is_acting=True, epoch=1)), later)
    anew = msgspec.structs.replace(welcome(0, epoch=1), producer_id=9, item_ids=(77,))
    (effect,) = one.step(Heard(0, anew), later)
    assert isinstance(effect, SayTo) and isinstance(effect.message, Append)
    numbers = [decode_producer(body) for body in effect.raw]
    assert numbers == [(9, 1), (9, 2)], "a gap record for what is gone, then what waits"
    assert GapFound in [type(one) for one in decode_records(effect.raw[0], 1)]
    assert decode_body(effect.raw[1], Kind.FLOAT64, 1).item_id.tolist() == [77], "by the ids of this log"
    assert (one.late_welcomes, one.is_streaming) == (0, True)


def test_a_new_holder_that_lacks_what_was_acknowledged_early_gets_it() -> None:
    one = sender()
    one.step(Offered(batches=(batch(1),)), at(0))
    one.step(Heard(0, appended(1, uncommitted=1)), at(0))
    one.step(Heard(1, RoleTold(is_acting=True, epoch=5)), at(1))
    effects = one.step(Heard(1, welcome(0, epoch=5)), at(1))
    assert [type(effect.message) for effect in effects if isinstance(effect, SayTo)] == [Append]
    assert one.late_welcomes == 0
    assert one.step(Heard(1, appended(1, epoch=5)), at(1)) == [], "told already"


def test_hello_that_is_lost_is_said_again_after_the_same_time_however_many_were() -> None:
    """Right around a takeover several may be: a pause that doubled from one to the next made a gap of ten seconds."""
    one, settle_ns = sender(), SeekConfig().settle_ns
    one.step(Offered(batches=(batch(1),)), at(0))
    one.step(LineDown(0), at(0))
    now, said = at(0), list[Instant]()
    one.step(LineUp(1), now)
    while len(said) < 6:
        effects = one.step(Heard(1, RoleTold(is_acting=True, epoch=4)), now)
        said += [now for effect in effects if isinstance(effect, SayTo) and isinstance(effect.message, ProducerHello)]
        due = one.deadline()
        assert due is not None
        now = max(now, due)
        one.step(TimePassed(), now)
    pauses = [after - before for before, after in itertools.pairwise(said)]
    assert max(pauses) <= settle_ns + SeekConfig().ask_ns
