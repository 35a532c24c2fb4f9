"""Records with extreme values: what admission refuses, and that nothing in a log stops folds or history."""

import types
import typing
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec import record, samples
from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.codec.history import BUCKET_NS, FileKind
from albireo.codec.message import Append, Appended, AppendEntry, AppendRefused
from albireo.codec.message_records import (
    LifeBegun,
    LowTold,
    MessageAccepted,
    MessageDone,
    MessageEnd,
    MessageEnded,
    MessageLeased,
    MessageRefused,
    MessageRequested,
    MessageStopped,
    OwnerHeard,
)
from albireo.codec.people_records import CookieKeyMade, PersonChanged
from albireo.codec.questions.history import HotQuestion
from albireo.codec.record import (
    AccessGranted,
    AccessRevoked,
    Audited,
    CaseChanged,
    CommandAccepted,
    CommandFinished,
    CommandRequested,
    EpochGranted,
    FeatureRaised,
    ForceEnded,
    GapFound,
    ItemDeclared,
    ItemForced,
    ItemForgotten,
    ItemSelected,
    Kind,
    LowWater,
    Marked,
    NodeStopped,
    OriginDeclared,
    OriginForked,
    OriginGap,
    ProducerForgotten,
    ProducerOpened,
    Record,
    SelectionEnded,
    SessionBegan,
    SessionEnded,
    SessionRoleChanged,
    Stream,
)
from albireo.codec.topic_records import (
    Subscribed,
    TopicChanged,
    TopicDeclared,
    TopicDropped,
    TopicPurged,
    Unsubscribed,
)
from albireo.machine.fold.folds import Folds
from albireo.machine.history.aggregate import TIME_LIMIT_NS
from albireo.machine.history.trace import AggregateSettings
from albireo.model.bounded import TEXT_CHARS_MAX
from albireo.model.case import Case
from albireo.model.command import Command, Outcome, Receipt
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.item_states import WORD_CHARS_MAX, ItemState
from albireo.model.person import Person
from albireo.model.samples import Column, SampleBatch, Strings
from albireo.model.topic import TopicPolicy
from albireo.model.topic_lease import Sharing
from albireo.model.tree.message import AddCause, Life, MessageName, MessageOutcome
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files.hot import HotTail
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.hot_answer import hot_answer
from albireo.node.history.query import StoredHistory, TimeRange
from tests.long_form import IS_LONG
from tests.parts.history import DAY_ZERO, LOG_ID, DyingFiles, MemoryLog, fill, hot_of, stored
from tests.parts.root import World, hello

LIFE = Life(1, 1)
NAME = MessageName("root", "root/a", LIFE, 1)
END = MessageEnd(outcome=MessageOutcome.VERIFIED, read_back=1, ended_ns=1)
EXAMPLES: dict[type[Record], tuple[Stream, Record]] = {
    TopicDeclared: (Stream.STATE, TopicDeclared(name="plant.events", since_ns=1)),
    TopicDropped: (Stream.STATE, TopicDropped(topic_id=1)),
    TopicChanged: (Stream.STATE, TopicChanged(topic_id=1, policy=TopicPolicy(max_messages=1), gone=1)),
    TopicPurged: (Stream.STATE, TopicPurged(topic_id=1)),
    Subscribed: (
        Stream.STATE,
        Subscribed(
            subscriber="billing", principal="mes-1", patterns=("plant.>", "a.b"), since_ns=1, sharing=Sharing(lease_s=1)
        ),
    ),
    Unsubscribed: (Stream.STATE, Unsubscribed(subscription_id=1)),
    ItemDeclared: (
        Stream.STATE,
        ItemDeclared(item_id=ItemId(1), node="root", item=DataItem(name="co", value_type=ValueType.INT64)),
    ),
    GapFound: (Stream.SAMPLES, GapFound(source="p1", reason="overflow", from_ns=1, to_ns=2, item_ids=(1,), lost=3)),
    CaseChanged: (
        Stream.CASES,
        CaseChanged(
            case=Case(case_id=1, item_id=1, condition=Condition.HI, severity=500, unshelve_at=5, value=1.5),
            cause="raised",
        ),
    ),
    CommandRequested: (
        Stream.COMMAND,
        CommandRequested(command=Command(command_id="c", item_id=1, value=1, user="u", requested_ns=1)),
    ),
    CommandAccepted: (Stream.COMMAND, CommandAccepted(command_id="c")),
    CommandFinished: (
        Stream.COMMAND,
        CommandFinished(receipt=Receipt(command_id="c", outcome=Outcome.VERIFIED, read_back=1, finished_ns=1)),
    ),
    Audited: (Stream.AUDIT, Audited(at_ns=1, user="u", action="write", subject="s")),
    ProducerOpened: (Stream.CONTROL, ProducerOpened(producer_id=1, name="p1", run=1)),
    ProducerForgotten: (Stream.CONTROL, ProducerForgotten(producer_id=1, name="p1")),
    ItemForgotten: (Stream.STATE, ItemForgotten(item_ids=(1,))),
    ItemForced: (
        Stream.STATE,
        ItemForced(item_id=1, measured_id=2, value=1, user="u", reason="r", since_ns=1, for_ms=1),
    ),
    ForceEnded: (Stream.STATE, ForceEnded(item_id=1, cause="expired")),
    ItemSelected: (
        Stream.COMMAND,
        ItemSelected(item_id=1, selection_id="s1", user="u", principal="", since_ns=1, for_ms=1),
    ),
    SelectionEnded: (Stream.COMMAND, SelectionEnded(item_id=1, selection_id="s1", cause="expired")),
    PersonChanged: (Stream.PEOPLE, PersonChanged(person=Person(name="anna", since_ns=1))),
    CookieKeyMade: (Stream.PEOPLE, CookieKeyMade(key=b"k" * 32)),
    SessionBegan: (
        Stream.STATE,
        SessionBegan(principal="anna@desk", address="10.0.0.4", role="view", since_ns=1),
    ),
    SessionRoleChanged: (Stream.STATE, SessionRoleChanged(session_id=1, role="admin")),
    SessionEnded: (Stream.STATE, SessionEnded(session_id=1, cause="link", by="mes-1", reason="r")),
    EpochGranted: (Stream.CONTROL, EpochGranted(epoch=1, branch_id=1, node="root", reason="start")),
    NodeStopped: (Stream.CONTROL, NodeStopped(at_ns=1)),
    Marked: (Stream.CONTROL, Marked()),
    LowWater: (Stream.CONTROL, LowWater(stream=1, sequence=1, reason="age")),
    FeatureRaised: (Stream.CONTROL, FeatureRaised(level=2)),
    AccessGranted: (Stream.CONTROL, AccessGranted(principal="mes-1", role="operate", node="root")),
    AccessRevoked: (Stream.CONTROL, AccessRevoked(principal="mes-1", node="root")),
    OriginDeclared: (Stream.CONTROL, OriginDeclared(index=1, node="root/north", origin_log=bytes(16))),
    OriginForked: (Stream.CONTROL, OriginForked(index=1, epoch=1, sequence=1)),
    OriginGap: (Stream.CONTROL, OriginGap(index=1, first=1, epoch=1, sequence=2, from_ns=1, to_ns=2)),
    LifeBegun: (Stream.COMMAND, LifeBegun(life=LIFE, epoch=1)),
    MessageRequested: (
        Stream.COMMAND,
        MessageRequested(name=NAME, guid="g", command_id="c", kind="write", body=b"1", expires_ms=1, requested_ns=1),
    ),
    MessageStopped: (Stream.COMMAND, MessageStopped(name=NAME, cause=AddCause.TIME_LIMIT_OVER)),
    MessageEnded: (Stream.COMMAND, MessageEnded(name=NAME, guid="g", end=END)),
    OwnerHeard: (Stream.COMMAND, OwnerHeard(owner="root/a", life=LIFE, unsent=(1,))),
    MessageAccepted: (Stream.COMMAND, MessageAccepted(name=NAME, guid="g", kind="write", body=b"1")),
    MessageLeased: (Stream.COMMAND, MessageLeased(name=NAME, receiver="r", lease=1)),
    MessageRefused: (Stream.COMMAND, MessageRefused(name=NAME)),
    MessageDone: (Stream.COMMAND, MessageDone(name=NAME, guid="g", end=END)),
    LowTold: (Stream.COMMAND, LowTold(origin="root", owner="root/a", life=LIFE, low=1, since=1)),
}
STORED = (GapFound, CaseChanged, Audited, EpochGranted, NodeStopped, ItemDeclared)
"""Kinds that the history makes rows of."""
ALARMED = ItemDeclared(
    item_id=ItemId(1),
    node="root",
    item=DataItem(name="co", value_type=ValueType.INT64, alarm=AlarmSettings(hi=1e18, lo=-1e18, rate_per_s=1.0)),
)
INTEGERS = (-(2**63), -(2**62), -1, 0, 1, 2**32, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = ("", "\0", "\x1b[2J", "=1+1", "../..", "ü" * 300, "x" * (TEXT_CHARS_MAX + 1))
FLOATS = (0.0, -0.0, 5e-324, 1.7e308, float("inf"), float("-inf"), float("nan"))
EVER = TimeRange(-TIME_LIMIT_NS, TIME_LIMIT_NS)
REACHED = TimeRange(-TIME_LIMIT_NS + 2 * BUCKET_NS, TIME_LIMIT_NS - 2 * BUCKET_NS)
"""Minutes of which every query sees the whole."""
MINUTE = TimeRange(DAY_ZERO, DAY_ZERO + 60 * SECOND)


def is_within(*records: Record) -> bool:
    """True: a frame of these records can be read."""
    try:
        record.decode_records(record.encode_records(1, 1, list(records)), len(records))
    except DecodeError:
        return False
    return True


def test_every_kind_of_record_has_an_example_within_bounds() -> None:
    assert set(EXAMPLES) == set(typing.get_args(Record))
    assert all(is_within(one) for _, one in EXAMPLES.values())


def fields_of(hint: Any) -> st.SearchStrategy[Any]:
    """Extreme contents of a field of this type."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if hint is AlarmSettings:
        return st.just(AlarmSettings(hi=1.7e308, lo=-1.7e308, hysteresis=1e308, stale_s=1e300, rate_per_s=5e-324))
    if hint is ItemState:
        return st.builds(
            ItemState, st.sampled_from((-(2**53), 0, 1, 2**53)), st.sampled_from(("ü", "x" * WORD_CHARS_MAX))
        )
    if hint is MessageName:
        return st.builds(MessageName, st.just("root"), st.just("root/a"), st.just(LIFE), st.integers(1, 3))
    if hint is Life:
        return st.builds(Life, st.integers(1, 3), st.just(1))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{name: fields_of(hints[name]) for name in hint.__struct_fields__})
    if typing.get_origin(hint) is typing.Annotated:
        return fields_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of(*(fields_of(one) for one in typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return st.lists(fields_of(typing.get_args(hint)[0]), max_size=3).map(tuple)
    plain = getattr(hint, "__supertype__", hint)
    return {
        bool: st.booleans(),
        int: st.sampled_from(INTEGERS),
        float: st.sampled_from(FLOATS),
        str: st.sampled_from(TEXTS),
        bytes: st.sampled_from((b"", b"\xff" * 300)),
        type(None): st.none(),
    }[plain]


def sealed(data: Path, log: MemoryLog) -> tuple[HotTail, StoredHistory]:
    """What the history makes of a log: it is asked while the rows are in memory, seals them, and is opened again."""
    store, _ = HistoryStore.open(data, "root", DyingFiles())
    hot = hot_of(store)
    fill(hot, log)
    hot_answer(hot.content(), HotQuestion())
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    again, report = HistoryStore.open(data, "root")
    assert (report.problem, report.leftovers) == ("", 0)
    assert again.manifest.position.sequence == log.end
    return hot, StoredHistory(again.root, again.manifest)


@pytest.mark.slow
@settings(max_examples=100 if IS_LONG else 25, deadline=None)
@given(st.data())
def test_a_log_of_any_records_is_folded_sealed_and_read_back(data: st.DataObject) -> None:
    log, folds = MemoryLog(), Folds()
    log.records(Stream.STATE, [ALARMED], DAY_ZERO)
    kinds = data.draw(st.lists(st.sampled_from(list(EXAMPLES)), min_size=1, max_size=6))
    drawn = [data.draw(fields_of(kind)) for kind in kinds]
    for one in drawn:
        log.records(EXAMPLES[type(one)][0], [one], DAY_ZERO)
    for frame in log.frames:
        folds.replay(frame)
    taken = [one for one in drawn if is_within(one)]
    assert folds.unreadable == len(drawn) - len(taken)
    Folds.restore(folds.snapshot(), folds.log_time_ms)
    with TemporaryDirectory() as folder:
        hot, history = sealed(Path(folder), log)
        gaps = sum(len(table) for table in stored(Path(folder) / "history", FileKind.GAPS))
        events = [row for table in stored(Path(folder) / "history", FileKind.EVENTS) for row in table.to_pylist()]
        items = len(history.items())
    unreadable = [row for row in events if row["action"] == "unreadable"]
    assert len(unreadable) == hot.unreadable
    declared = {one.item_id for one in taken if isinstance(one, ItemDeclared)}
    made = len(drawn) - len(taken) + sum(isinstance(one, STORED) for one in taken)
    lost_items = sum(isinstance(one, ItemDeclared) for one in taken) - len(declared - {1})
    assert made - lost_items <= gaps + len(events) + items <= made + 1


def gap_bodies() -> st.SearchStrategy[GapFound]:
    built: st.SearchStrategy[GapFound] = fields_of(GapFound)
    return st.one_of(built, built.map(lambda gap: msgspec.structs.replace(gap, source="p1")))


@pytest.mark.slow
@settings(max_examples=100 if IS_LONG else 25, deadline=None)
@given(gaps=st.lists(gap_bodies(), min_size=1, max_size=3))
def test_a_producer_s_gap_is_refused_or_can_be_stored(gaps: list[GapFound]) -> None:
    world = World()
    welcome = hello(world)
    body = record.encode_records(welcome.producer_id, 1, list(gaps))
    entry = AppendEntry(Stream.SAMPLES, Kind.RECORDS, len(gaps), crc32c(body))
    world.letter(b"plc", Append(entries=(entry,)), [body])
    world.sync()
    refused = [one.refusal.code for one in world.take(AppendRefused) if isinstance(one, AppendRefused)]
    own = [one for one in gaps if one.source == "p1" and set(one.item_ids) <= set(welcome.item_ids)]
    is_refused = (
        len(own) < len(gaps)
        or not is_within(*gaps)
        or not all(abs(ns) < 2**62 for one in gaps for ns in (one.from_ns, one.to_ns))
    )
    assert refused == (["malformed"] if is_refused else [])
    assert len(world.take(Appended)) == (not is_refused)
    assert len(world.records(GapFound)) == (0 if is_refused else len(gaps))
    sealed_world(world)


def sealed_world(world: World) -> None:
    log = MemoryLog()
    log.frames, log.end = world.frames, world.end.sequence
    with TemporaryDirectory() as folder:
        hot, history = sealed(Path(folder), log)
        for item_id in list(history.items())[:3]:
            whole = history.intervals(item_id, REACHED, 2 * TIME_LIMIT_NS, AggregateSettings())
            raw = history.intervals(item_id, REACHED, 2 * TIME_LIMIT_NS, AggregateSettings(), only_raw=True)
            assert whole.rows.tolist() == raw.rows.tolist()
            history.at(item_id, MINUTE, 10 * SECOND, AggregateSettings())
            history.raw([item_id], EVER)
            history.last(item_id, TIME_LIMIT_NS)
            history.last(item_id, DAY_ZERO)
        history.gaps(EVER)
        history.events(EVER)
    assert hot.unreadable == 0, "what is admitted can be stored"


times = st.sampled_from([-(2**63), -TIME_LIMIT_NS, -1, 0, DAY_ZERO, DAY_ZERO + SECOND, TIME_LIMIT_NS, 2**63 - 1])


@st.composite
def extreme_batches(draw: st.DrawFn) -> SampleBatch:
    value_type = draw(st.sampled_from(list(ValueType)))
    count = draw(st.integers(1, 5))

    def column(content: st.SearchStrategy[Any], dtype: str) -> np.ndarray[Any, Any]:
        return np.array(draw(st.lists(content, min_size=count, max_size=count)), dtype)

    texts = Strings.of(draw(st.lists(st.sampled_from(TEXTS), min_size=count, max_size=count)))
    values: dict[ValueType, Column] = {
        ValueType.FLOAT64: column(st.sampled_from(FLOATS), "f8"),
        ValueType.INT64: column(st.sampled_from([-(2**63), 0, 10**18 + 1, 2**63 - 1]), "i8"),
        ValueType.BOOL: column(st.integers(0, 1), "u1"),
        ValueType.STRING: texts,
    }
    return SampleBatch(
        value_type=value_type,
        item_id=column(st.integers(0, 5), "u4"),
        source_ns=column(times, "i8"),
        node_ns=column(times, "i8"),
        value=values[value_type],
        quality=column(st.sampled_from([0, 0, 0x4000_0000, 0x8000_0000, 2**32 - 1]), "u4"),
    )


@pytest.mark.slow
@settings(max_examples=100 if IS_LONG else 25, deadline=None)
@given(batches=st.lists(extreme_batches(), min_size=1, max_size=5))
def test_samples_of_any_value_and_time_are_folded_sealed_and_read_back(batches: list[SampleBatch]) -> None:
    world = World()
    welcome = hello(world)
    own = np.array(welcome.item_ids, "u4")
    for number, drawn in enumerate(batches, 1):
        batch = msgspec.structs.replace(drawn, item_id=own[drawn.item_id % len(own)])  # Others are not taken.
        body = samples.encode_body(welcome.producer_id, number, batch)
        entry = AppendEntry(Stream.SAMPLES, int(batch.value_type), len(batch), crc32c(body))
        world.letter(b"plc", Append(entries=(entry,)), [body])
        world.sync()
    assert world.take(AppendRefused) == []
    world.pass_time(SECOND)
    Folds.restore(world.root.folds.snapshot(), world.root.folds.log_time_ms)
    sealed_world(world)


def test_a_case_of_the_largest_integer_has_a_value_that_an_integer_can_have() -> None:
    log, folds = MemoryLog(), Folds()
    log.records(Stream.STATE, [ALARMED], DAY_ZERO)
    log.samples([(1, DAY_ZERO, 2**63 - 1, 0)], DAY_ZERO, ValueType.INT64)
    for frame in log.frames:
        folds.replay(frame)
    (raised,) = folds.propose(DAY_ZERO)  # type: ignore[arg-type]  # a wall time
    assert is_within(raised)
    assert raised.case.value == 2**63 - 1
