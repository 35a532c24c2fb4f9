"""CORE's root machine over a log in memory: what is said when, and what never is before its commit."""

import uuid
from typing import Any

import msgspec
import pytest

from albireo.codec import record, samples
from albireo.codec.frame import body_crc
from albireo.codec.message import (
    Answer,
    Append,
    Appended,
    AppendEntry,
    AppendRefused,
    Ask,
    FeedAck,
    FeedAnswer,
    FeedHello,
    FeedState,
    ProducerHello,
    ProducerWelcome,
    WriteDone,
    WriteOrder,
)
from albireo.codec.record import GapFound
from albireo.machine.desk.pending import FOLD_COST_MAX
from albireo.machine.desk.receipts import ANSWERS_MAX
from albireo.machine.desk.registry import Registry
from albireo.machine.diagnostics.adapters import SILENT_NS
from albireo.machine.fold.commands.commands import OPEN_MAX
from albireo.machine.fold.declared import fold_cost
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import (
    AdmissionChanged,
    Answered,
    Committed,
    LettersDrained,
    Measured,
    PeerLost,
    Stopping,
    WakeUpEnded,
)
from albireo.machine.kernel.turn import RECORDS_BYTES
from albireo.machine.orders.write.command_waiters import WAITING_MAX
from albireo.model import quality
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.value import ItemId, ValueType
from tests.parts.refusals import refused_with
from tests.parts.root import ITEMS, LOG, T0, World, append, batch, hello, order


def test_a_welcome_waits_for_the_commit_of_its_ids() -> None:
    world = World()
    world.letter(b"plc", ProducerHello(producer="p1", items=ITEMS, run=1))
    assert world.take(ProducerWelcome) == []
    world.sync()
    (welcome,) = world.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    assert len(set(welcome.item_ids)) == 3
    assert welcome.last_sequence == 0


def test_an_item_that_is_not_on_record_yet_is_not_there_for_who_reads_it_by_name() -> None:
    """The answer had no row for it, so those behind it stood in its place."""
    world = World()
    hello(world)
    world.letter(b"new", ProducerHello(producer="p2", items=(msgspec.structs.replace(ITEMS[0], name="late"),), run=1))
    assert "no item late" in refused_with(world.ask("read", names=["late", "co_1"]))
    world.sync()
    readings: Any = world.ask("read", names=["late", "co_1"]).result
    assert [one["name"] for one in readings] == ["root:late", "root:co_1"]


def test_ids_stay_when_the_producer_comes_back_and_when_the_order_of_items_changes() -> None:
    world = World()
    first = hello(world)
    world.letter(b"new", ProducerHello(producer="p1", items=ITEMS[::-1], run=2))
    world.sync()
    (again,) = world.take(ProducerWelcome)
    assert isinstance(again, ProducerWelcome)
    assert again.item_ids == first.item_ids[::-1]
    assert again.producer_id > first.producer_id, "it is another life"


def test_nothing_is_acknowledged_before_it_is_durable() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [1.0, 2.0])
    assert world.take(Appended) == []
    world.sync()
    (appended,) = world.take(Appended)
    assert isinstance(appended, Appended)
    assert (appended.producer_sequence, appended.position) == (1, world.root.folded_to)


def test_a_repeat_is_answered_only_once_its_original_is_committed_and_never_stored() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [1.0])
    end = world.end
    append(world, welcome, 1, [1.0])
    assert world.end == end
    assert world.take(Appended) == []
    world.sync()
    assert len(world.take(Appended)) == 1
    append(world, welcome, 1, [1.0])
    assert len(world.take(Appended)) == 1
    assert world.root.samples_committed == 1


def test_a_gap_is_refused_with_the_number_wanted() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 3, [1.0])
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert (refused.refusal.code, refused.wanted) == ("gap", 1)


def _hostile(world: World, welcome: ProducerWelcome) -> list[tuple[str, Append, list[bytes]]]:
    good = samples.encode_body(welcome.producer_id, 1, batch(world, 1, [1.0]))
    crc = body_crc(good)
    case = record.encode_records(welcome.producer_id, 1, [record.Marked()])
    foreign = samples.encode_body(99, 1, batch(world, 1, [1.0]))
    short = good[:-3]

    def one(stream: int, kind: int, count: int, body: bytes, crc: int) -> tuple[Append, list[bytes]]:
        return Append(entries=(AppendEntry(stream, kind, count, crc),)), [body]

    return [
        ("malformed", *one(1, 1, 1, good, crc ^ 1)),
        ("malformed", *one(1, 1, 2, good, crc)),
        ("malformed", *one(1, 9, 1, good, crc)),
        ("malformed", *one(2, 16, 1, case, body_crc(case))),
        ("malformed", *one(1, 16, 1, case, body_crc(case))),
        ("malformed", *one(1, 1, 1, short, body_crc(short))),
        ("malformed", *one(1, 1, 1, b"123", body_crc(b"123"))),
        ("malformed", Append(entries=(AppendEntry(1, 1, 1, crc),)), []),
        ("unknown_producer", *one(1, 1, 1, foreign, body_crc(foreign))),
    ]


@pytest.mark.parametrize("index", range(9))
def test_what_is_not_what_it_claims_is_refused_by_name_and_leaves_no_trace(index: int) -> None:
    world = World()
    welcome = hello(world)
    reason, message, raw = _hostile(world, welcome)[index]
    end = world.end
    world.letter(b"plc", message, raw)
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == reason
    assert world.end == end
    append(world, welcome, 1, [1.0])
    world.sync()
    assert len(world.take(Appended)) == 1


def test_another_run_of_a_producer_leaves_a_gap_record() -> None:
    world = World()
    welcome = hello(world, run=1)
    append(world, welcome, 1, [1.0])
    world.sync()
    last = T0 + world.now
    world.now = Instant(world.now + 3 * SECOND)
    again = hello(world, run=2)
    assert again.last_sequence == 0
    (gap,) = world.records(GapFound)
    assert isinstance(gap, GapFound)
    assert (gap.source, gap.reason, gap.from_ns, gap.to_ns) == ("p1", "adapter_down", last, T0 + world.now)
    hello(world, run=2)
    assert len(world.records(GapFound)) == 1


def test_after_a_restart_of_the_node_the_gap_says_node_down() -> None:
    world = World()
    welcome = hello(world, run=1)
    append(world, welcome, 1, [1.0])
    world.sync()
    folds = Folds()
    for frame in world.frames:
        folds.replay(frame)
    restarted = World(folds, world.frames, epoch=2)
    assert hello(restarted, run=2).item_ids == welcome.item_ids
    (gap,) = restarted.records(GapFound)
    assert isinstance(gap, GapFound)
    assert gap.reason == "node_down"


def test_no_admission_takes_nothing_and_resumes() -> None:
    world = World()
    welcome = hello(world)
    world.step(AdmissionChanged("disk full"))
    end = world.end
    append(world, welcome, 1, [1.0])
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == "not_recording"
    assert "disk full" in refused_with(world.ask("write", item="fan_set", value=1.0, command_id="c"))
    assert world.end == end
    world.step(AdmissionChanged(""))
    append(world, welcome, 1, [1.0])
    world.sync()
    assert len(world.take(Appended)) == 1
    assert world.notes.count("admission_stopped") == world.notes.count("admission_resumed") == 1


def test_items_of_a_silent_adapter_are_without_communication() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [1.0])
    world.sync()
    for _ in range(SILENT_NS // SECOND + 1):
        world.pass_time(SECOND)
    readings = world.ask("read", names=["co_1", "root:door"]).result
    assert isinstance(readings, list)
    assert [one["quality"] for one in readings] == [quality.BAD_NO_COMMUNICATION] * 2
    assert world.notes.count("adapter_silent") == 1
    append(world, welcome, 2, [2.0])
    world.sync()
    readings = world.ask("read", names=["co_1"]).result
    assert isinstance(readings, list)
    assert (readings[0]["quality"], readings[0]["value"]) == (quality.GOOD, 2.0)


def declared(world: World) -> list[DataItem]:
    return [one.item for one in world.records(record.ItemDeclared) if one.item.adapter == "p1"]  # type: ignore[union-attr]  # As asked for.


def test_an_item_that_left_the_table_is_out_of_service() -> None:
    world = World()
    hello(world)
    world.letter(b"plc", ProducerHello(producer="p1", items=ITEMS[:2], run=2))
    world.sync()
    readings = world.ask("read", names=["door"]).result
    assert isinstance(readings, list)
    assert readings[0]["quality"] == quality.BAD_OUT_OF_SERVICE


def test_a_limit_raises_a_case_that_can_be_acknowledged_and_closes() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [60.0])
    world.sync()
    cases = world.ask("cases").result
    assert isinstance(cases, list)
    assert [(one["item"], one["condition"], one["is_active"]) for one in cases] == [("root:co_1", "hi", True)]
    answer = world.ask("case_action", action="ack", case_id=cases[0]["case_id"], user="ann")
    assert refused_with(answer) == ""
    append(world, welcome, 2, [10.0])
    world.sync()
    assert world.ask("cases").result == []
    assert world.root.cases.raised == 1


def test_an_unknown_case_is_refused_with_a_reason() -> None:
    assert "no open case" in refused_with(World().ask("case_action", action="ack", case_id=12345, user="ann"))


def test_an_order_leaves_only_after_accepted_is_durable_and_is_answered_after_its_receipt_is() -> None:
    world = World()
    hello(world)
    order(world, "c1")
    assert world.take(WriteOrder) == []
    world.sync()
    (sent,) = world.take(WriteOrder)
    assert isinstance(sent, WriteOrder)
    assert (sent.value, sent.epoch, sent.not_after - world.now) == (40.0, 1, 1000 * MS)
    receipt = Receipt(command_id="c1", outcome=Outcome.VERIFIED, read_back=40.0, finished_ns=1, ack_guid="g")
    world.letter(b"plc", WriteDone(receipt=receipt))
    assert world.take(Answer) == []
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert msgspec.convert(answer.result, Receipt) == receipt


def test_the_same_command_again_is_answered_and_not_sent_again() -> None:
    world = World()
    hello(world)
    order(world, "c1")
    world.sync()
    order(world, "c1")
    world.sync()
    assert len(world.take(WriteOrder)) == 1
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    assert len(world.take(Answer)) == 2
    order(world, "c1")
    world.sync()
    assert world.take(WriteOrder) == []
    assert len(world.take(Answer)) == 1


def test_an_order_that_nobody_can_carry_out_expires_unsent() -> None:
    world = World()
    hello(world)
    world.step(PeerLost(b"plc"))
    order(world, "c1")
    world.sync()
    for _ in range(3):
        world.pass_time(500 * MS)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert msgspec.convert(answer.result, Receipt).outcome is Outcome.EXPIRED
    assert world.take(WriteOrder) == []


def test_an_order_without_a_receipt_is_unknown_and_a_late_receipt_changes_nothing() -> None:
    world = World()
    hello(world)
    order(world, "c1")
    world.sync()
    for _ in range(8):
        world.pass_time(500 * MS)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert msgspec.convert(answer.result, Receipt).outcome is Outcome.UNKNOWN
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    state = world.root.folds.commands.find("c1")
    assert state is not None
    assert state.outcome is Outcome.UNKNOWN


def test_after_a_restart_an_accepted_order_is_never_sent_again() -> None:
    world = World()
    hello(world)
    order(world, "c1")
    world.sync()
    folds = Folds()
    for frame in world.frames:
        folds.replay(frame)
    restarted = World(folds, world.frames, epoch=2)
    hello(restarted, run=2)
    for _ in range(8):
        restarted.pass_time(500 * MS)
    assert restarted.take(WriteOrder) == []
    state = restarted.root.folds.commands.find("c1")
    assert state is not None
    assert state.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"item": "nothing", "value": 1.0, "command_id": "c"}, "no item"),
        ({"item": "co_1", "value": 1.0, "command_id": "c"}, "not writable"),
        ({"item": "fan_set", "value": 101.0, "command_id": "c"}, "above the maximum"),
        ({"item": "fan_set", "value": float("nan"), "command_id": "c"}, "not a value"),
        ({"item": "fan_set", "value": "fast", "command_id": "c"}, "takes float64"),
        ({"item": "fan_set", "value": True, "command_id": "c"}, "takes float64"),
        ({"item": "fan_set", "value": 1.0, "command_id": "c", "expires_ms": 0}, "expires_ms"),
        ({"item": "fan_set", "value": 1.0}, "command_id"),
        ({"item": "fan_set", "value": 1.0, "command_id": "c", "force": True}, "force"),
    ],
)
def test_a_write_that_can_not_be_meant_is_refused_and_leaves_no_record(
    arguments: dict[str, object], reason: str
) -> None:
    world = World()
    hello(world)
    end = world.end
    answer = world.ask("write", **arguments)
    assert reason in refused_with(answer)
    assert world.end == end


def test_an_unknown_question_is_refused_by_name() -> None:
    assert "unknown question 'shutdown'" in refused_with(World().ask("shutdown"))


def test_a_viewer_gets_a_snapshot_and_then_what_changed() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [1.0])
    world.sync()
    world.letter(b"view", FeedHello(follower="view", mode="state"))
    world.pass_time(200 * MS)
    (snapshot,) = world.take(FeedState)
    assert isinstance(snapshot, FeedState)
    assert snapshot.is_snapshot
    assert len(snapshot.items) == len(world.root.folds.dim)
    append(world, welcome, 2, [2.0])
    world.sync()
    world.letter(b"view", FeedAck(received=snapshot.position, durable=snapshot.position, credit_bytes=1 << 20))
    world.pass_time(200 * MS)
    (delta,) = world.take(FeedState)
    assert isinstance(delta, FeedState)
    assert (delta.previous, delta.value_parts) == (snapshot.position, ((1, 1),))
    assert not delta.items


def test_an_idle_log_gets_one_mark_that_carries_the_commit_position() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [1.0])
    world.sync()
    world.pass_time(60 * MS)
    assert len(world.records(record.Marked)) == 1
    world.pass_time(60 * MS)
    assert len(world.records(record.Marked)) == 1


def test_a_clean_stop_is_the_last_record() -> None:
    world = World()
    world.step(Stopping())
    world.sync()
    assert len(world.records(record.NodeStopped)) == 1


def test_replay_gives_the_folds_that_the_live_log_gave() -> None:
    world = World()
    welcome = hello(world)
    for number in range(1, 40):
        append(world, welcome, number, [float(number * 7 % 90)])
        order(world, str(uuid.UUID(int=number)), expires_ms=300)
        world.pass_time(130 * MS)
    replayed = Folds()
    for frame in world.frames:
        replayed.replay(frame)
    assert replayed.snapshot() == world.root.folds.snapshot()
    restored = Folds.restore(replayed.snapshot(), replayed.log_time_ms)
    assert restored.snapshot() == replayed.snapshot()


def test_many_declarations_take_many_turns_and_the_welcome_comes_after_the_last() -> None:
    world = World()
    items = tuple(DataItem(name=f"x_{number}", value_type=ValueType.FLOAT64) for number in range(1000))
    world.letter(b"plc", ProducerHello(producer="p1", items=items, run=1))
    turns = 0
    while not (welcomes := world.take(ProducerWelcome)):
        before = world.end.sequence
        world.step(TimePassed())
        assert world.end.sequence - before <= 250
        world.sync()
        turns += 1
    (welcome,) = welcomes
    assert isinstance(welcome, ProducerWelcome)
    assert len(set(welcome.item_ids)) == 1000
    assert turns >= 3


def test_nobody_waits_for_a_fold_and_a_fold_waits_for_the_answers() -> None:
    """A receipt leaves before the folds are done; of what no turn has folded yet none leaves."""
    world = World()
    welcome = hello(world)
    for number in range(1, 200):
        append(world, welcome, number, [1.0] * 10)
    told, folded = 0, world.root.folded_to
    while folded != world.end:
        world.commit()
        assert world.root.folded_to == folded, "folded before the answers have left"
        (receipt,) = world.take(Appended)
        world.step(Answered())
        world.step(WakeUpEnded(0))
        assert isinstance(receipt, Appended)
        assert receipt.producer_sequence > told
        assert receipt.position == world.root.folded_to, "answered for more, or less, than is folded then"
        told, folded = receipt.producer_sequence, world.root.folded_to
    assert told == 199


def test_what_is_durable_is_folded_over_several_turns() -> None:
    world = World()
    welcome = hello(world)
    for number in range(1, 200):
        append(world, welcome, number, [1.0] * 10)
    world.commit()
    world.step(Answered())
    assert world.root.has_unfolded
    assert world.root.folded_to < world.end
    world.step(WakeUpEnded(0))
    world.sync()
    assert not world.root.has_unfolded
    assert world.root.samples_committed == 1990


def test_many_commits_of_one_wake_up_fold_no_more_than_one() -> None:
    """A holder hears of several commits in one wake-up when its follower has answered several times."""
    world = World()
    welcome = hello(world)
    begins = len(world.frames)
    for number in range(1, 200):
        append(world, welcome, number, [1.0] * 10)
    frames = world.frames[begins:]
    while world.root.folded_to != world.end:
        before, is_first = world.root.folded_to.sequence, True
        for one in frames:
            if one.header.last_sequence > before:
                world.committed = one.header.last
                world.step(Committed(is_first=is_first))
                is_first = False
                world.step(Answered())
        taken = [one for one in frames if before < one.header.last_sequence <= world.root.folded_to.sequence]
        assert taken
        assert sum(fold_cost(one.header) for one in taken[:-1]) < FOLD_COST_MAX
        world.step(WakeUpEnded(0))
    assert world.root.samples_committed == 1990


def test_what_an_earlier_run_left_on_its_way_takes_no_number_of_the_present_one() -> None:
    world = World()
    first = hello(world, run=1)
    world.letter(b"new", ProducerHello(producer="p1", items=ITEMS, run=2))
    append(world, first, 1, [1.0])
    assert world.take(AppendRefused) == []
    world.sync()
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == "superseded"
    assert world.take(Appended) == []


def test_a_welcome_comes_before_the_acknowledgement_of_what_was_appended_after_its_hello() -> None:
    """Else the producer, with nothing in flight by then, would go on at a number that CORE has."""
    world = World()
    welcome = hello(world)
    world.letter(b"other", ProducerHello(producer="p2", run=1))  # Something else waits for its commit.
    world.letter(b"plc", ProducerHello(producer="p1", items=ITEMS, run=1, takes_orders=True))
    append(world, welcome, 1, [1.0])
    world.sync()
    to_plc = [message for to, message in world.sent if to == b"plc" and isinstance(message, ProducerWelcome | Appended)]
    assert [type(one) for one in to_plc] == [ProducerWelcome, Appended]


def test_an_adapter_whose_pipe_was_full_is_there_again_when_it_is_heard() -> None:
    world = World()
    welcome = hello(world)
    world.step(PeerLost(b"plc"))
    append(world, welcome, 1, [1.0])
    for _ in range(7):
        append(world, welcome, world.root.admission.producers.last_appended(welcome.producer_id) or 0, [1.0])
        world.pass_time(SECOND)
    assert "adapter_silent" not in world.notes
    order(world, "c1")
    world.sync()
    assert len(world.take(WriteOrder)) == 1


def test_an_order_that_waited_while_the_node_was_down_is_not_sent_after_its_time() -> None:
    world = World()
    hello(world)
    world.step(PeerLost(b"plc"))
    order(world, "c1", expires_ms=10_000)
    world.sync()
    folds = Folds()
    for frame in world.frames:
        folds.replay(frame)
    restarted = World(folds, world.frames, epoch=2, now=Instant(world.now + 3600 * SECOND))
    hello(restarted, run=2)
    restarted.sync()
    assert restarted.take(WriteOrder) == []
    state = restarted.root.folds.commands.find("c1")
    assert state is not None
    assert state.outcome is Outcome.EXPIRED


LONG = "x" * 20_000_000


@pytest.mark.parametrize(
    "arguments",
    [
        {"command_id": LONG},
        {"command_id": ""},
        {"command_id": "c", "user": LONG},
        {"command_id": "c", "reason": LONG},
    ],
    ids=["id", "no id", "user", "reason"],
)
def test_an_endless_text_is_refused_and_not_recorded(arguments: dict[str, object]) -> None:
    """A record larger than a frame may be would end CORE."""
    world = World()
    hello(world)
    end = world.end
    answer = world.ask("write", item="fan_set", value=1.0, **arguments)
    assert f"length {'<= 1000' if LONG in arguments.values() else '>= 1'} - at" in refused_with(answer)
    assert world.end == end


def test_an_endless_set_point_is_refused() -> None:
    world = World()
    text = DataItem(name="text", value_type=ValueType.STRING, is_writable=True)
    count = DataItem(name="count", value_type=ValueType.INT64, is_writable=True)
    world.letter(b"plc", ProducerHello(producer="p1", items=(text, count), run=1, takes_orders=True))
    world.sync()
    assert "length <= 1000 - at" in refused_with(world.ask("write", item="text", value=LONG, command_id="c"))
    assert "9223372036854775807" in refused_with(world.ask("write", item="count", value=2**63, command_id="c"))


def test_an_endless_receipt_is_cut() -> None:
    world = World()
    hello(world)
    order(world, "c1")
    world.sync()
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.REJECTED, detail=LONG)))
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    receipt = msgspec.convert(answer.result, Receipt)
    assert receipt.outcome is Outcome.REJECTED
    assert len(receipt.detail) < 10_000


def test_a_hello_with_endless_texts_is_refused() -> None:
    world = World()
    end = world.end
    world.letter(b"plc", ProducerHello(producer="p1", items=(DataItem(name=LONG, value_type=ValueType.BOOL),), run=1))
    world.letter(b"plc", ProducerHello(producer=LONG, run=1))
    world.letter(b"plc", ProducerHello(producer="", run=1))
    assert [one.refusal.code for one in world.take(AppendRefused) if isinstance(one, AppendRefused)] == [
        "malformed"
    ] * 3
    assert world.end == end


def test_answers_that_wait_for_a_commit_are_bounded() -> None:
    """A disk, or another member, that hangs: whoever goes on asking is refused at last, and answered again later."""
    world = World()
    append(world, hello(world), 1, [60.0])
    world.sync()
    (case,) = world.root.folds.cases
    action: dict[str, object] = {"action": "comment", "user": "ann", "comment": "seen", "case_id": case.case_id}
    for number in range(ANSWERS_MAX + 1):
        world.letter(b"cli", Ask(request_id=number, what="case_action", arguments=action))
    (refused,) = world.take(Answer)
    assert isinstance(refused, Answer)
    assert "too many" in refused_with(refused)
    world.sync()
    assert len(world.take(Answer)) == ANSWERS_MAX
    assert refused_with(world.ask("case_action", **action)) == ""


def test_while_nothing_is_admitted_a_due_shelve_makes_no_marks() -> None:
    world = World()
    welcome = hello(world)
    append(world, welcome, 1, [60.0])
    world.sync()
    (case,) = world.root.folds.cases
    world.ask("case_action", action="shelve", case_id=case.case_id, user="ann", duration_ms=1000)
    world.pass_time(100 * MS)
    world.step(AdmissionChanged("disk full"))
    marks = len(world.records(record.Marked))
    world.now = Instant(world.now + 2 * SECOND)
    for _ in range(50):
        world.step(TimePassed())
        world.sync()
        assert world.root.deadline() > world.now - SECOND
    assert len(world.records(record.Marked)) - marks <= 2
    assert world.root.deadline() > world.now
    world.step(AdmissionChanged(""))
    world.pass_time(SECOND)
    (case,) = world.root.folds.cases
    assert case.unshelve_at is None


def test_a_gap_does_not_end_before_it_begins_when_the_wall_clock_was_set_back() -> None:
    world = World()
    welcome = hello(world, run=1)
    append(world, welcome, 1, [1.0])
    world.sync()
    world.now = Instant(world.now - 3 * SECOND)
    hello(world, run=2)
    (gap,) = world.records(GapFound)
    assert isinstance(gap, GapFound)
    assert gap.from_ns <= gap.to_ns


def test_a_follower_ahead_of_the_folds_is_not_told_that_it_knows_too_much() -> None:
    """Durable frames go out before the folds have caught up; a hello in between is no reason for alarm."""
    world = World()
    welcome = hello(world)
    for number in range(1, 400):
        append(world, welcome, number, [1.0] * 10)
    world.commit()
    world.step(Answered())
    assert world.root.has_unfolded
    position = world.end
    world.letter(b"h", FeedHello(follower="history", log_id=LOG, history=world.history.entries, position=position))
    (answer,) = world.take(FeedAnswer)
    assert isinstance(answer, FeedAnswer)
    assert answer.verdict == "resume"


def test_items_of_core_have_a_gap_for_the_time_in_which_the_node_was_down() -> None:
    world = World()
    world.step(Measured(turn_ms=1.0, log_bytes=1))
    world.sync()
    last = T0 + world.now
    folds = Folds()
    for frame in world.frames:
        folds.replay(frame)
    restarted = World(folds, world.frames, epoch=2, now=Instant(world.now + 60 * SECOND))
    (gap,) = restarted.records(GapFound)
    assert isinstance(gap, GapFound)
    assert (gap.source, gap.reason, gap.from_ns, gap.to_ns) == ("core", "node_down", last, T0 + restarted.now)
    assert set(gap.item_ids) == {one.item_id for one in folds.dim}


def test_an_item_that_left_the_table_stays_out_of_service_when_its_adapter_falls_silent() -> None:
    world = World()
    hello(world)
    world.letter(b"plc", ProducerHello(producer="p1", items=ITEMS[:2], run=2))
    world.sync()
    for _ in range(SILENT_NS // SECOND + 1):
        world.pass_time(SECOND)
    readings = world.ask("read", names=["co_1", "door"]).result
    assert isinstance(readings, list)
    assert [one["quality"] for one in readings] == [quality.BAD_NO_COMMUNICATION, quality.BAD_OUT_OF_SERVICE]


def test_requests_of_one_drain_are_bounded_too() -> None:
    world = World()
    hello(world)
    arguments = {"item": "fan_set", "value": 1.0, "user": "ann"}
    asks = [Ask(request_id=n, what="write", arguments=arguments | {"command_id": f"c{n}"}) for n in range(OPEN_MAX + 5)]
    world.step(LettersDrained([(b"cli", one, (), "local:0") for one in asks]))
    refused = world.take(Answer)
    assert len(refused) == 5
    assert len(world.records(record.CommandRequested)) == OPEN_MAX


def test_who_asks_again_and_again_for_one_command_does_not_fill_the_memory() -> None:
    world = World()
    hello(world)
    for _ in range(WAITING_MAX + 3):
        order(world, "c1")
    world.sync()
    refused = world.take(Answer)
    assert len(refused) == 3
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    assert len(world.take(Answer)) == WAITING_MAX


def test_what_became_of_an_order_is_in_the_audit_journal() -> None:
    """The log lets go of its stream COMMAND, and the history does not keep that one."""
    world = World()
    hello(world)
    order(world, "c1")
    world.sync()
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED, read_back=40.0)))
    world.sync()
    asked, done = world.records(record.Audited)
    assert isinstance(asked, record.Audited)
    assert isinstance(done, record.Audited)
    assert (asked.action, done.action) == ("write", "write_ended")
    assert (done.user, done.subject) == ("ann", "root:fan_set")
    assert "verified" in done.detail
    assert "c1" in done.detail


def test_many_long_records_go_into_several_frames() -> None:
    world = World()
    items = tuple(DataItem(name=f"x_{n}", value_type=ValueType.BOOL, description="d" * 9_000) for n in range(200))
    world.letter(b"plc", ProducerHello(producer="p1", items=items, run=1))
    world.sync()
    (welcome,) = world.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    assert len(set(welcome.item_ids)) == 200
    assert max(len(one.body) for one in world.frames) <= RECORDS_BYTES


def test_a_body_that_no_segment_can_hold_is_refused() -> None:
    """The log would refuse it too, and CORE would end each time the producer sends it again."""
    world = World(segment_bytes=1 << 20)
    welcome = hello(world)
    append(world, welcome, 1, [1.0] * 100_000)
    (refused,) = world.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == "malformed"


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_a_wall_clock_that_jumps_is_a_case_and_nothing_else(jump_s: int) -> None:
    world = World()

    def measure(times: int) -> None:
        for _ in range(times):
            world.now = Instant(world.now + SECOND)
            world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40))
            world.sync()

    measure(5)
    assert world.ask("cases").result == []
    world.wall_began += jump_s * SECOND
    measure(10)
    cases = world.ask("cases").result
    assert isinstance(cases, list)
    assert [one["item"] for one in cases] == ["root:core/clock_jump"]
    assert cases[0]["value"] == pytest.approx(jump_s, rel=0.01)


def test_keys_that_can_not_be_read_any_more_are_a_case_until_they_can() -> None:
    world = World()
    world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40))
    world.sync()
    for unreadable, is_active in ((1.0, True), (0.0, False)):
        world.now = Instant(world.now + SECOND)
        world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, keys_unreadable=unreadable))
        world.sync()
        cases = world.ask("cases").result
        assert isinstance(cases, list)
        assert [(one["item"], one["is_active"]) for one in cases] == [("root:core/keys_unreadable", is_active)]


def test_a_history_that_is_not_sealed_is_a_case_with_cause_and_remedy_until_it_is() -> None:
    world = World()

    def cases(trouble: str | None, seconds: int) -> list[Any]:
        for _ in range(seconds):
            world.now = Instant(world.now + SECOND)
            world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, seal_trouble=trouble))
            world.sync()
        found: Any = world.ask("cases").result
        return [one for one in found if one["is_active"]]

    assert cases(None, 20) == [], "history has said nothing yet"
    assert cases("No space left on device: make room", 5) == [], "it is tried again soon"
    (one,) = cases("No space left on device: make room", 10)
    assert one["item"] == "root:core/history_unsealed"
    assert one["message"] == "No space left on device: make room"
    assert cases("", 1) == []


def test_adapters_of_before_a_restart_are_told_in_the_same_order_in_every_process() -> None:
    """A set has another order in each: the same events would have other effects."""
    folds = Folds()
    for number, name in enumerate("fbdhaegc", 1):
        item = DataItem(name=name, adapter=name, value_type=ValueType.FLOAT64)
        folds.dim.fold_item(record.ItemDeclared(item_id=ItemId(number), node="root", item=item), number)
    assert [one.name for one in Registry("root", folds, Instant(0)).adapters()] == sorted("fbdhaegc")
