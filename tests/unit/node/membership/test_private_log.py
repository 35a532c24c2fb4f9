"""The private log beside a pair's log, and what folds and history make of a reference without its payload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec import record, reference, samples
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, encode, frames
from albireo.codec.message import AnyMessage, Append, AppendEntry, Ask
from albireo.codec.record import CaseChanged, ItemDeclared, Kind, Stream
from albireo.log import LogConfig, StoreIdentity
from albireo.log.log import Log
from albireo.log.opening import SEGMENTS
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.turn import Draft
from albireo.model import quality
from albireo.model.instant import MS, SECOND, LogTime, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import BEGINNING, EpochEntry
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, Value, ValueType
from albireo.node.history.files.hot import HotTail
from albireo.node.membership.private_log import OneLetter, PrivateLog

CONFIG: Final = LogConfig(segment_bytes=8_192, free_bytes_min=0)
SAMPLES: Final = frozenset({int(Stream.SAMPLES)})
T0: Final = 1_800_000_000 * SECOND
ITEM: Final = DataItem(name="level", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=100.0, stale_s=60.0))


def batch(*values: float, at_s: int = 0) -> SampleBatch:
    times = np.full(len(values), T0 + at_s * SECOND, np.int64) + np.arange(len(values))
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.ones(len(values), np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array(values, np.float64),
        quality=np.zeros(len(values), np.uint32),
    )


def draft(number: int, content: SampleBatch) -> Draft:
    body = samples.encode_body(7, number, content)
    return Draft(int(Stream.SAMPLES), int(Kind.FLOAT64), len(content), body, crc32c(body), 7, number, content)


def admitted(_: OneLetter) -> bool:
    return True


def records(*content: record.Record) -> Draft:
    body = record.encode_records(0, 0, list(content))
    return Draft(int(Stream.STATE), int(Kind.RECORDS), len(content), body, crc32c(body), 0, 0, content)


class Store:
    """Both logs of one member, without threads."""

    def __init__(self, home: Path, name: str = "root[primary]", streams: frozenset[int] = SAMPLES) -> None:
        self.home = home
        self.pair, _ = Log.open(home / "log", StoreIdentity(cluster="c", node=name, log_id=b"P" * 16), CONFIG)
        self.own, _ = Log.open(home / "private", StoreIdentity(cluster="c", node=name), CONFIG)
        for log in (self.pair, self.own):
            log.grant(EpochEntry(log.history.epoch + 2, log.end.sequence + 1, 1))
        self.damage: list[Exception] = []
        self.private = PrivateLog(self.own, self.pair, streams, CONFIG.segment_bytes, self.damage.append)

    def append(self, *drafts: Draft) -> list[Frame]:
        found = self.private.append(drafts, elapsed_ms=1, node_ns=T0)
        self.sync()
        return found

    def sync(self) -> None:
        for log in (self.own, self.pair):
            log.flush()
            log.commit(log.durable)

    def read(self, bytes_max: int = 1 << 20) -> list[Frame]:
        """The whole log as followers get it."""
        found: list[Frame] = []
        after = self.pair.begin_sequence - 1
        while chunk := self.private.select(after, bytes_max, ())[0]:
            found += [Frame(header, bytes(body)) for header, body in frames(chunk)]
            after = found[-1].header.last_sequence
        return found

    def close(self) -> None:
        for log in (self.own, self.pair):
            log.close()


def values(found: Sequence[Frame]) -> list[object]:
    """Of sample frames; None for one whose payload is not there."""
    return [
        None
        if reference.is_reference(one)
        else list(samples.decode_body(one.body, one.header.kind, one.header.record_count).values())
        for one in found
        if one.header.stream == Stream.SAMPLES
    ]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 3_000))
def test_whatever_is_read_at_once_the_whole_frames_come_in_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], bytes_max: int
) -> None:
    store = Store(tmp_path_factory.mktemp("s"))
    given_ = [batch(*(float(number) for number in range(size))) for size in sizes]
    appended = store.append(*(draft(number, one) for number, one in enumerate(given_, 1)), records(declared()))
    assert [one.header.kind for one in appended] == [Kind.FLOAT64] * len(sizes) + [Kind.RECORDS]
    found = store.read(bytes_max)
    assert [encode(one) for one in found] == [encode(one) for one in appended]
    stored = list(store.pair.replay(0, store.pair.end.sequence))
    assert [one.header.kind for one in stored] == [Kind.REFERENCE] * len(sizes) + [Kind.RECORDS]
    assert [one.header.last for one in stored] == [one.header.last for one in found], "the same places"
    assert [record.decode_producer(one.body) for one in stored] == [record.decode_producer(one.body) for one in found]
    store.close()


@given(st.binary(max_size=80))
def test_no_bytes_are_taken_for_a_reference_that_are_none(body: bytes) -> None:
    try:
        found = reference.decode(body)
    except DecodeError:
        return
    assert len(body) == 56 and found.sequence


def test_the_payload_is_found_after_a_restart_and_not_in_another_log(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    store.append(draft(1, batch(1.0)), draft(2, batch(2.0, 3.0)))
    store.close()
    store = Store(tmp_path / "a")
    assert values(store.read()) == [[1.0], [2.0, 3.0]]
    raw = b"".join(encode(one) for one in store.pair.replay(0, store.pair.end.sequence))
    other = Store(tmp_path / "b", "root[backup]")
    other.pair.promise(2, 2, store.pair.history)
    other.pair.append_raw(raw)
    other.sync()
    assert values(other.read()) == [None, None]
    assert not other.damage, "nobody promised that they are there"
    store.close()
    other.close()


def test_a_payload_that_rots_is_told_of_and_is_a_gap(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(1, 40):
        store.append(draft(number, batch(*[float(number)] * 20)))
    sealed = sorted(p for p in (tmp_path / "private" / SEGMENTS).iterdir() if p.stat().st_size >= 8_192)[0]
    data = bytearray(sealed.read_bytes())
    data[300] ^= 1
    sealed.write_bytes(data)
    store.close()
    store = Store(tmp_path)
    found = values(store.read())
    assert found[0] is None and found[-1] == [39.0] * 20 and store.damage
    store.close()


def test_payloads_stay_as_long_as_their_references(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(1, 150):
        store.append(draft(number, batch(*[float(number)] * 5)))
    assert store.private.prune() == 0, "no reference has gone"
    everything = store.pair.end.sequence
    for _ in range(2):
        store.pair.save_snapshot(store.pair.committed, LogTime(0), {})
        store.append(draft(400, batch(1.0)))
    assert store.pair.prune(everything)
    for _ in range(3):
        store.private.prune()
        store.append(draft(401, batch(1.0)))
    assert 1 < store.own.begin_sequence
    assert None not in values(store.read()), "of those that are left none lacks its payload"
    store.close()


def test_a_payload_that_waits_stays_whatever_overtakes_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    waiting = draft(1, batch(7.0))
    store.private.hold([letter(b"p", waiting)], T0, admitted)
    store.sync()
    for number in range(1, 150):
        store.append(draft(number, batch(*[float(number)] * 5)))
    everything = store.pair.end.sequence
    for _ in range(2):
        store.pair.save_snapshot(store.pair.committed, LogTime(0), {})
        store.append(draft(400, batch(1.0)))
    assert store.pair.prune(everything)
    for _ in range(3):
        assert store.private.prune() == 0
        store.append(draft(401, batch(1.0)))
    store.private.release(lambda letters: store.append(waiting).clear())
    assert values(store.read())[-1] == [7.0]
    store.close()


def letter(sender: bytes, *drafts: Draft) -> OneLetter:
    entries = tuple(AppendEntry(one.stream, one.kind, one.record_count, one.body_crc) for one in drafts)
    return sender, Append(entries=entries), [one.body for one in drafts], "local:0"


def test_a_letter_waits_for_its_payload_and_the_senders_next_one_behind_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    question: AnyMessage = Ask(request_id=1, what="status")
    first = letter(b"p", draft(1, batch(1.0)))
    behind: OneLetter = (b"p", question, [], "local:0")
    other: OneLetter = (b"q", question, [], "local:0")
    assert store.private.hold([first, behind, other], T0, admitted) == [other]
    told: list[OneLetter] = []
    assert not store.private.release(told.extend) and not told, "not on the disk"
    store.own.flush()
    assert not store.private.release(told.extend)
    assert told == [first, behind]
    assert store.own.end.sequence == 1
    store.close()


def test_what_is_drafted_of_a_letter_is_stored_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, refused = draft(1, batch(1.0)), draft(9, batch(9.0))
    store.private.hold([letter(b"p", one, refused)], T0, admitted)
    store.own.flush()
    told: list[OneLetter] = []

    def take(letters: list[OneLetter]) -> None:
        told.extend(letters)
        store.append(one)

    store.private.release(take)
    assert told
    assert values(store.read()) == [[1.0]]
    assert store.own.end.sequence == 2, "the refused one stays there, and nothing leads to it"
    store.close()


def test_nothing_is_stored_of_what_can_be_no_batch(tmp_path: Path) -> None:
    store = Store(tmp_path)
    good = draft(1, batch(1.0))
    wrong: list[tuple[AppendEntry, list[bytes | memoryview]]] = [
        (AppendEntry(good.stream, good.kind, 1, good.body_crc ^ 1), [good.body]),
        (AppendEntry(good.stream, good.kind, 0, good.body_crc), [good.body]),
        (AppendEntry(good.stream, int(Kind.RECORDS), 1, good.body_crc), [good.body]),
        (AppendEntry(good.stream, good.kind, 1, good.body_crc), []),
    ]
    letters: list[OneLetter] = [(b"p", Append(entries=(entry,)), raw, "local:0") for entry, raw in wrong]
    assert store.private.hold(letters, T0, admitted) == letters, "admission says why"
    assert store.private.hold([letter(b"p", good)], T0, lambda _: False), "nothing is admitted"
    assert store.own.end.sequence == 0
    store.close()


def declared() -> ItemDeclared:
    return ItemDeclared(item_id=ItemId(1), node="root", item=ITEM)


class Replayed:
    """Folds that are given frames one after another, with or without payloads."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.folds = Folds()
        self.number = 0
        self.take([records(declared())])

    def take(self, drafts: list[Draft], *, is_here: bool = True) -> None:
        whole = self.store.append(*drafts)
        stored = list(self.store.pair.replay(whole[0].header.first_sequence - 1, self.store.pair.end.sequence))
        for frame in whole if is_here else stored:
            self.folds.replay(frame)

    def sample(self, *found: float, is_here: bool = True) -> None:
        self.number += 1
        self.take([draft(self.number, batch(*found, at_s=self.number))], is_here=is_here)

    def propose(self) -> list[str]:
        """What is proposed, and then on record."""
        changes = self.folds.propose(WallTime(T0))
        if changes:
            self.take([records(*changes)])
        return [one.cause for one in changes]

    @property
    def reading(self) -> tuple[Value | None, bool]:
        found = self.folds.dim.reading_at(0)
        return found.value, quality.is_good(found.quality)


def test_values_are_unknown_while_another_takes_them_and_its_cases_stand(tmp_path: Path) -> None:
    one = Replayed(tmp_path)
    one.sample(200.0)
    assert one.reading == (200.0, True) and one.propose() == ["raised"]
    one.sample(300.0, is_here=False)
    assert not one.reading[1] and one.reading[0] is None
    assert one.propose() == [], "nothing can be judged here"
    one.sample(250.0)
    assert one.reading == (250.0, True)
    assert one.propose() == [], "it is on record already"
    one.sample(5.0)
    assert one.propose() == ["cleared"]
    one.sample(150.0)
    assert one.propose() == ["activated"]
    one.store.close()


def test_a_case_that_the_other_cleared_is_raised_anew_by_a_sample_only(tmp_path: Path) -> None:
    one = Replayed(tmp_path)
    one.sample(200.0)
    assert one.propose() == ["raised"]
    one.sample(1.0, is_here=False)
    case = next(iter(one.folds.cases))
    one.take([records(CaseChanged(case=msgspec.structs.replace(case, is_active=False), cause="cleared"))])
    one.sample(50.0)
    assert one.propose() == []
    one.sample(101.0)
    assert one.propose() == ["activated"]
    one.store.close()


def test_who_takes_over_neither_clears_nor_raises_what_it_has_no_value_for(tmp_path: Path) -> None:
    """The other member saw the value and raised the case. Here comes, first of all, a sample of something else."""
    one, two = Replayed(tmp_path / "a"), Replayed(tmp_path / "b")
    one.sample(200.0)
    (raised,) = one.folds.propose(WallTime(T0))
    two.sample(200.0, is_here=False)
    two.take([records(raised)])
    assert two.propose() == []
    other = ItemDeclared(item_id=ItemId(2), node="root", item=msgspec.structs.replace(ITEM, name="other"))
    two.take([records(other)])
    two.take([draft(2, msgspec.structs.replace(batch(1.0, at_s=9), item_id=np.full(1, 2, np.uint32)))])
    assert not two.folds.elsewhere and two.propose() == []
    two.sample(3.0)
    assert two.propose() == ["cleared"]
    one.store.close()
    two.store.close()


def test_nothing_is_stale_at_once_when_the_values_return(tmp_path: Path) -> None:
    one = Replayed(tmp_path)
    one.sample(1.0)
    one.sample(2.0, is_here=False)
    one.folds.conditions.time_passed(LogTime(100 * SECOND), WallTime(T0))
    one.folds.elsewhere.returns(LogTime(100 * SECOND))
    assert one.propose() == []
    one.folds.conditions.time_passed(LogTime(159 * SECOND), WallTime(T0))
    assert not one.folds.conditions.is_active().any()
    one.folds.conditions.time_passed(LogTime(161 * SECOND), WallTime(T0))
    assert one.folds.conditions.is_active().any()
    one.store.close()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 300), st.booleans()), max_size=8), st.integers(0, 8))
def test_a_snapshot_in_between_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, bool]], cut: int
) -> None:
    one, other = (Replayed(tmp_path_factory.mktemp("s")) for _ in range(2))
    for at, (value, is_here) in enumerate(steps):
        if at == cut:
            other.folds = Folds.restore(other.folds.snapshot(), other.folds.log_time_ms)
        for each in (one, other):
            each.sample(value, is_here=is_here)
            each.propose()
    assert one.folds.snapshot() == other.folds.snapshot()
    is_elsewhere = bool(steps) and not steps[-1][1]
    assert bool(one.folds.elsewhere) is is_elsewhere
    assert one.folds.producers.last_appended(7) is None, "no producer was opened here"
    one.store.close()
    other.store.close()


def test_what_the_other_took_is_one_gap_in_a_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    hot = HotTail(BEGINNING, T0 - 5 * MS)
    store.append(draft(1, batch(1.0)), draft(2, batch(2.0, 3.0)), records(declared()), draft(3, batch(4.0)))
    own = store.append(draft(4, batch(5.0)))
    store.append(draft(5, batch(6.0)))
    for frame in store.pair.replay(0, own[0].header.first_sequence - 1):
        hot.take(frame.header, frame.body)
    (gap,) = hot.content().gaps
    assert (gap["reason"], gap["lost"], gap["from_ns"], gap["to_ns"]) == ("not_replicated", 4, T0 - 5 * MS, T0)
    assert gap["sequence"] == 1, "where it began"
    hot.take(own[0].header, own[0].body)
    for frame in store.pair.replay(own[0].header.last_sequence, store.pair.end.sequence):
        hot.take(frame.header, frame.body)
    assert [one["lost"] for one in hot.content().gaps] == [4, 1]
    store.close()


def test_a_gap_that_was_shown_does_not_grow(tmp_path: Path) -> None:
    """What is sealed is dropped; what came since is a gap of its own."""
    store = Store(tmp_path)
    hot = HotTail(BEGINNING, 0)
    store.append(draft(1, batch(1.0)), draft(2, batch(2.0)))
    first, second = store.pair.replay(0, 2)
    hot.take(first.header, first.body)
    sealed = hot.content()
    hot.take(second.header, second.body)
    hot.drop(sealed)
    assert [one["lost"] for one in sealed.gaps] == [1]
    assert [one["lost"] for one in hot.content().gaps] == [1]
    store.close()
