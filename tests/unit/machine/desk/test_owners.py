"""Owners: an item is one name's; hellos and batches with another's are refused by name (ADR-0147)."""

import msgspec
import numpy as np
import pytest

from albireo.codec import record, samples
from albireo.codec.frame import body_crc
from albireo.codec.message import Append, Appended, AppendEntry, AppendRefused, ProducerHello, ProducerWelcome
from albireo.codec.record import Audited, GapFound, Kind, Stream
from albireo.machine.desk.owners import NAME_CHARS_MAX, Owners
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Producer
from albireo.model.instant import Instant, TimePassed
from albireo.model.item import DataItem, KnownItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, ValueType
from tests.parts.root_roles import ALONE, T0, Side, pair


def items(*names: str) -> tuple[DataItem, ...]:
    return tuple(DataItem(name=name, value_type=ValueType.FLOAT64) for name in names)


def alone(*adapters: str) -> Side:
    side = Side(msgspec.structs.replace(ALONE, adapters=frozenset(adapters)))
    side.lead()
    return side


def says_hello(side: Side, producer: str, *names: str, run: int = 1) -> ProducerWelcome | AppendRefused:
    side.letter(ProducerHello(producer=producer, items=items(*names), run=run), sender=producer.encode())
    side.commit()
    (answer,) = side.take(ProducerWelcome) + side.take(AppendRefused)
    assert isinstance(answer, ProducerWelcome | AppendRefused)
    return answer


def welcomed(side: Side, producer: str, *names: str, run: int = 1) -> ProducerWelcome:
    answer = says_hello(side, producer, *names, run=run)
    assert isinstance(answer, ProducerWelcome), answer
    return answer


def refused(side: Side, producer: str, *names: str, run: int = 1) -> AppendRefused:
    answer = says_hello(side, producer, *names, run=run)
    assert isinstance(answer, AppendRefused), answer
    return answer


def owner_of(side: Side, name: str) -> str:
    known = side.root.folds.dim.by_name(f"root:{name}")
    assert known is not None
    return known.item.adapter


def append(side: Side, sender: str, producer_id: int, sequence: int, *item_ids: int) -> list[str]:
    """Append one batch with a row for each id; the words that came back: empty is a receipt."""
    times = np.full(len(item_ids), T0 + side.now, np.int64)
    rows = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.array(item_ids, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.ones(len(item_ids)),
        quality=np.zeros(len(item_ids), np.uint32),
    )
    body = samples.encode_body(producer_id, sequence, rows)
    return _append(side, sender, AppendEntry(Stream.SAMPLES, Kind.FLOAT64, len(item_ids), body_crc(body)), body)


def append_gap(side: Side, sender: str, producer_id: int, sequence: int, *item_ids: int, source: str = "") -> list[str]:
    gap = GapFound(source=source or sender, reason="overflow", from_ns=1, to_ns=2, item_ids=item_ids)
    body = record.encode_records(producer_id, sequence, [gap])
    return _append(side, sender, AppendEntry(Stream.SAMPLES, Kind.RECORDS, 1, body_crc(body)), body)


def _append(side: Side, sender: str, entry: AppendEntry, body: bytes) -> list[str]:
    side.letter(Append(entries=(entry,)), [body], sender=sender.encode())
    side.commit()
    said = side.take(Appended) + side.take(AppendRefused)
    return [one.refusal.code if isinstance(one, AppendRefused) else "" for one in said]


def test_an_item_stays_with_the_name_that_declared_it_first() -> None:
    side = alone()
    first = welcomed(side, "p", "fan")
    end = side.end
    no = refused(side, "q", "new", "fan", run=7)
    assert (no.refusal.code, no.run, no.producer_id) == ("not_owner", 7, 0)
    assert "'fan' belongs to 'p'" in str(no.refusal)
    assert side.end == end, "nothing of the hello is recorded"
    assert owner_of(side, "fan") == "p"
    assert welcomed(side, "p", "fan", run=2).item_ids == first.item_ids, "its own next program passes"


def test_an_item_of_a_hello_that_is_still_being_declared_is_taken() -> None:
    side = alone()
    for name in ("p", "q"):
        side.letter(ProducerHello(producer=name, items=items("fan"), run=1), sender=name.encode())
    side.commit()
    assert [one.refusal.code for one in side.take(AppendRefused) if isinstance(one, AppendRefused)] == ["not_owner"]
    assert owner_of(side, "fan") == "p"


def test_the_owner_is_known_at_the_other_member_too() -> None:
    one, two = pair()
    welcomed(one, "p", "fan")
    two.follow(one)
    two.lead()
    assert refused(two, "q", "fan").refusal.code == "not_owner"


@pytest.mark.parametrize("adapter", ["q", "p1"])
def test_nobody_takes_items_of_core(adapter: str) -> None:
    side = alone("p1")
    own = next(known.item.name for known in side.root.folds.dim if known.item.adapter == "core")
    assert "belongs to 'core'" in str(refused(side, adapter, own).refusal)


def test_an_adapter_of_the_topology_takes_an_item_over_on_record_and_keeps_it() -> None:
    side = alone("renamed")
    before = welcomed(side, "old", "fan", "door")
    after = welcomed(side, "renamed", "fan")
    assert after.item_ids == before.item_ids[:1]
    assert (owner_of(side, "fan"), owner_of(side, "door")) == ("renamed", "old")
    records = [
        one
        for frame in side.frames
        if frame.header.kind == Kind.RECORDS
        for one in record.decode_records(frame.body, frame.header.record_count)
    ]
    (audited,) = [one for one in records if isinstance(one, Audited)]
    assert (audited.action, audited.subject) == ("item_handed_over", "root:fan")
    assert audited.detail == "from 'old' to 'renamed'"
    assert append(side, "old", before.producer_id, 1, before.item_ids[0]) == ["malformed"]
    assert append(side, "renamed", after.producer_id, 1, after.item_ids[0]) == [""]
    assert refused(side, "old", "fan", run=2).refusal.code == "not_owner"


def test_an_item_that_its_owner_has_no_longer_goes_to_the_next_name() -> None:
    side = alone()
    welcomed(side, "p", "fan", "door")
    welcomed(side, "p", "door", run=2)
    welcomed(side, "q", "fan")
    assert owner_of(side, "fan") == "q"
    assert refused(side, "p", "fan", "door", run=3).refusal.code == "not_owner"


def test_a_batch_with_an_item_of_another_is_malformed() -> None:
    side = alone()
    mine, other = welcomed(side, "p", "fan", "door"), welcomed(side, "q", "lamp")
    end = side.end
    for foreign in (other.item_ids[0], 1, 0, 99, 2**32 - 1):
        assert append(side, "p", mine.producer_id, 1, mine.item_ids[0], foreign) == ["malformed"]
        assert append_gap(side, "p", mine.producer_id, 1, mine.item_ids[0], foreign) == ["malformed"]
    assert side.end == end
    assert side.root.admission.counters.malformed == 10
    assert append(side, "p", mine.producer_id, 1, *mine.item_ids) == [""]
    assert append_gap(side, "p", mine.producer_id, 2, source="core") == ["malformed"], "another's loss"
    assert append_gap(side, "p", mine.producer_id, 2) == [""]
    assert append_gap(side, "p", mine.producer_id, 3, *mine.item_ids) == [""]


BAD_NAMES = ["", "a\x1b[2J", "a\nb", " a", "a ", "\u202ea", "a" * (NAME_CHARS_MAX + 1)]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_are_checked(name: str) -> None:
    side = alone()
    end = side.end
    assert refused(side, "p", name, run=3).refusal.code == "malformed"
    no = refused(side, name, run=3)
    assert (no.refusal.code, no.run) == ("malformed", 3)
    assert str(no.refusal)
    assert side.end == end


def test_a_producer_that_is_refused_for_good_stops() -> None:
    one = Producer("q", items("fan"), run=7, config=ProducerConfig())
    (hello,) = one.step(LinkOpened(), Instant(0))
    side = alone()
    welcomed(side, "p", "fan")
    side.letter(hello.message, sender=b"q")
    (no,) = side.take(AppendRefused)
    assert isinstance(no, AppendRefused)
    assert one.step(msgspec.structs.replace(no, run=8), Instant(1)) == [], "a word to another run on this link"
    assert one.last_word is None
    assert one.step(no, Instant(1)) == []
    assert one.last_word is not None
    assert "belongs to 'p'" in one.last_word.refusal.cause
    assert one.deadline() is None
    assert one.step(LinkOpened(), Instant(2)) == []
    assert one.step(TimePassed(), Instant(10**12)) == []


def test_a_million_ids_are_looked_up_as_columns() -> None:
    known = [
        KnownItem(
            item_id=ItemId(1 + n), node="root", item=DataItem(name=f"i{n}", value_type=ValueType.BOOL, adapter="p")
        )
        for n in range(1000)
    ]
    owners = Owners(known, frozenset())
    ids = np.tile(np.arange(1, 1001, dtype=np.uint32), 1000)
    times = np.zeros(len(ids), np.int64)
    rows = SampleBatch(
        value_type=ValueType.BOOL,
        item_id=ids,
        source_ns=times,
        node_ns=times,
        value=np.zeros(len(ids), np.uint8),
        quality=np.zeros(len(ids), np.uint32),
    )
    assert owners.owns("p", rows)
    assert not owners.owns("q", rows)
