"""Forgetting: who leaves the tables, who may not, and what a program that was forgotten is told (ADR-0150)."""

import msgspec
import pytest

from albireo.codec import record
from albireo.codec.message import (
    Answer,
    Appended,
    AppendRefused,
    Ask,
    FeedHello,
    FeedState,
    ProducerHello,
    ProducerWelcome,
)
from albireo.codec.record import Audited, ItemForgotten, Kind, ProducerForgotten, Record
from albireo.machine.desk.forgetting import AGED_MAX, DAY_MS, HEARD_MS, LOOK_NS, ORDERED_MAX
from albireo.machine.diagnostics.own import TABLE_FILL_HIGH
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import Deposed, Measured
from albireo.machine.kernel.turn import Moment
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import LinkOpened, Producer
from albireo.model import quality
from albireo.model.instant import MS, Instant, TimePassed, WallTime
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.order_text import TEXT_CHARS_MAX
from albireo.model.settings import LimitSettings
from albireo.model.value import ValueType
from tests.parts.refusals import refused_with
from tests.parts.root_roles import ALONE, T0, Side

AGE_MS = LimitSettings().forget_producers_days * DAY_MS


class ForgettingSide(Side):
    """A member whose wall clock can be set."""

    jump_ns = 0

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(T0 + self.now + self.jump_ns))

    def wait(self, ms: int) -> None:
        """Let time pass, with a record at the end of it."""
        self.now = Instant(self.now + ms * MS)
        self.step(TimePassed())
        self.commit()

    def look(self) -> None:
        """Let the next look for old producers come, and fold what it gave."""
        self.wait(LOOK_NS // MS)

    def records(self, kind: type[Record]) -> list[Record]:
        frames = [one for one in self.frames if one.header.kind == Kind.RECORDS]
        found = [one for frame in frames for one in record.decode_records(frame.body, frame.header.record_count)]
        return [one for one in found if isinstance(one, kind)]

    def says_hello(self, name: str, *items: str, run: int = 1, life: int = 0) -> ProducerWelcome | AppendRefused:
        declared = tuple(DataItem(name=one, value_type=ValueType.FLOAT64) for one in items)
        self.letter(ProducerHello(producer=name, items=declared, run=run, life=life), sender=name.encode())
        self.commit()
        (answer,) = self.take(ProducerWelcome) + self.take(AppendRefused)
        assert isinstance(answer, ProducerWelcome | AppendRefused)
        return answer

    def welcomed(self, name: str, *items: str, run: int = 1, life: int = 0) -> ProducerWelcome:
        answer = self.says_hello(name, *items, run=run, life=life)
        assert isinstance(answer, ProducerWelcome), answer
        return answer

    def refused(self, name: str, *items: str, run: int = 1, life: int = 0) -> AppendRefused:
        answer = self.says_hello(name, *items, run=run, life=life)
        assert isinstance(answer, AppendRefused), answer
        return answer

    def forget(self, **arguments: object) -> Answer:
        self.letter(Ask(request_id=1, what="forget", arguments={"user": "ann", **arguments}), sender=b"cli")
        self.commit()
        (answer,) = self.take(Answer)
        assert isinstance(answer, Answer)
        return answer

    def names(self) -> list[str]:
        return sorted(one.name for one in self.root.folds.producers)


def side(*adapters: str, **limits: int) -> ForgettingSide:
    config = msgspec.structs.replace(ALONE, adapters=frozenset(adapters), limits=LimitSettings(**limits))
    one = ForgettingSide(config)
    one.lead()
    return one


# By age.


def test_a_producer_without_items_is_forgotten_when_its_last_record_is_too_old() -> None:
    one = side()
    life = one.welcomed("job").producer_id
    one.wait(AGE_MS - 2 * DAY_MS)
    one.welcomed("young")
    one.wait(2 * DAY_MS)
    one.look()
    assert one.names() == ["young"]
    assert one.records(ProducerForgotten) == [ProducerForgotten(producer_id=life, name="job")]
    (entry,) = one.records(Audited)
    assert isinstance(entry, Audited)
    assert (entry.user, entry.action, entry.subject) == ("core", "producer_forgotten", "job")


def test_a_batch_keeps_its_producer_and_the_items_of_one_do() -> None:
    one = side("configured")
    for name in ("busy", "configured"):
        one.welcomed(name)
    one.welcomed("owner", "a")
    one.hello()
    one.wait(AGE_MS)
    busy = one.welcomed("busy", "b", run=1)
    one.append(busy, 1, sender=b"busy")
    one.look()
    assert one.names() == ["busy", "configured", "owner", "p"]


@pytest.mark.parametrize("days", [AGE_MS // DAY_MS, -AGE_MS // DAY_MS])
def test_a_clock_that_jumps_forgets_nobody(days: int) -> None:
    one = side()
    one.welcomed("job")
    one.jump_ns = 2 * days * DAY_MS * MS
    one.look()
    assert one.names() == ["job"], "log time stood still"
    one.wait(AGE_MS)
    one.jump_ns = -AGE_MS * MS
    one.look()
    assert one.names() == ["job"], "the wall clock was set back: it may be young"


def test_the_oldest_go_first_and_not_all_at_one_look() -> None:
    one = side()
    for number in range(AGED_MAX + 1):
        one.welcomed(f"job {number:03}")
        one.wait(1)
    one.wait(AGE_MS)
    one.look()
    assert one.names() == [f"job {AGED_MAX:03}"]
    one.look()
    assert one.names() == []


def test_no_age_means_never() -> None:
    one = side(forget_producers_days=0)
    one.welcomed("job")
    one.wait(2 * AGE_MS)
    one.look()
    assert one.names() == ["job"]


def test_nothing_is_forgotten_while_the_record_of_it_can_still_be_cut() -> None:
    one = side()
    life = one.welcomed("job").producer_id
    one.wait(AGE_MS)
    one.now = Instant(one.now + LOOK_NS)
    one.step(TimePassed())
    assert one.names() == ["job"]
    one.letter(ProducerHello(producer="job", run=1, life=life), sender=b"job")
    assert one.take(ProducerWelcome) + one.take(AppendRefused) == [], "neither answer would be true if it is cut"
    one.step(Deposed("test"))
    del one.frames[-2:]
    one.root._pending.cut(one.end, 0)
    one.lead()
    assert one.welcomed("job", life=life).producer_id == life, "it was cut"


# What a forgotten program is told.


def test_a_name_that_comes_back_is_a_new_life_and_its_old_program_is_told_so() -> None:
    one = side()
    old = one.welcomed("job", run=1)
    one.append(one.hello(), 1)
    one.wait(HEARD_MS)
    assert refused_with(one.forget(producers=["job"])) == ""
    paused = one.refused("job", run=1, life=old.producer_id)
    assert (paused.refusal.code, paused.run) == ("forgotten", 1)
    assert "start it again" in str(paused.refusal)
    new = one.welcomed("job", run=2)
    assert new.producer_id > old.producer_id
    again = one.refused("job", run=1, life=old.producer_id)
    assert again.refusal.code == "superseded"


def test_a_late_hello_of_a_forgotten_run_that_names_no_life_takes_nothing() -> None:
    """Its program was welcomed in that life: what it has under way would be recorded twice under the next one."""
    one = side()
    one.welcomed("job", run=1)
    one.wait(HEARD_MS)
    one.forget(producers=["job"])
    one.root.folds.producers = Folds.restore(one.root.folds.snapshot(), 0).producers
    one.step(Deposed("test"))
    one.lead()
    assert one.refused("job", run=1).refusal.code == "forgotten"
    one.welcomed("job", run=2)
    one.letter(ProducerHello(producer="job", run=1), sender=b"late")
    one.commit()
    (told,) = one.take(AppendRefused)
    assert isinstance(told, AppendRefused)
    assert (told.refusal.code, told.run) == ("superseded", 1)


def test_a_life_of_a_lost_branch_is_no_forgotten_one() -> None:
    """What this log never gave, or gave to another name, was not forgotten: the program goes on with a gap record."""
    one = side()
    one.welcomed("job")
    other = one.welcomed("other")
    one.wait(HEARD_MS)
    one.forget(producers=["job"])
    assert one.welcomed("lost", life=other.producer_id + 7).producer_id > other.producer_id
    assert one.welcomed("too", life=other.producer_id).producer_id > other.producer_id


def test_the_machine_of_a_forgotten_program_stops_with_the_words() -> None:
    one = side()
    old = one.welcomed("job", run=1)
    program = Producer("job", (), run=1, config=ProducerConfig())
    program.step(LinkOpened(), one.now)
    program.step(old, one.now)
    one.wait(HEARD_MS)
    one.forget(producers=["job"])
    (hello,) = program.step(LinkOpened(), one.now)
    assert isinstance(hello.message, ProducerHello)
    one.letter(hello.message, sender=b"job")
    (word,) = one.take(AppendRefused)
    assert isinstance(word, AppendRefused)
    program.step(word, one.now)
    assert program.last_word == word
    assert program.deadline() is None


def test_a_life_is_never_given_twice_also_over_a_snapshot() -> None:
    one = side()
    given = [one.welcomed("job", run=1).producer_id]
    for run in range(2, 6):
        one.wait(HEARD_MS)
        assert refused_with(one.forget(producers=["job"])) == ""
        one.root.folds.producers = Folds.restore(one.root.folds.snapshot(), 0).producers
        one.step(Deposed("test"))
        one.lead()
        given.append(one.welcomed("job", run=run).producer_id)
    assert given == sorted(set(given))


# By order.


def test_who_is_alive_configured_or_an_owner_is_not_forgotten_by_order() -> None:
    one = side("plc")
    for name in ("plc", "gone"):
        one.welcomed(name)
    one.welcomed("owner", "a")
    one.wait(HEARD_MS)
    one.welcomed("alive")
    told = {name: refused_with(one.forget(producers=["gone", name])) for name in ("nobody", "plc", "alive", "owner")}
    assert "no producer 'nobody'" in told["nobody"]
    assert "take it out of the file" in told["plc"]
    assert "end its program" in told["alive"]
    assert "owns 1 items" in told["owner"]
    assert "gone" in one.names(), "all or none"
    assert one.forget(producers=["gone"]).result == {"producers": ("gone",), "items": ()}
    assert "gone" not in one.names()


def test_an_item_that_nobody_declares_is_forgotten_with_its_id() -> None:
    one = side()
    first = one.welcomed("meter", "a", "b")
    one.welcomed("meter", "b", run=2)
    assert "which declares it" in refused_with(one.forget(items=["b"]))
    assert refused_with(one.forget(items=["root:a", "a"], reason="moved")) == ""
    folds = one.root.folds
    assert folds.dim.by_name("root:a") is None
    assert one.records(ItemForgotten) == [ItemForgotten(item_ids=(first.item_ids[0],))]
    (entry,) = one.records(Audited)
    assert isinstance(entry, Audited)
    assert (entry.user, entry.subject) == ("ann", "root:a")
    assert entry.detail == f"id {first.item_ids[0]}, of 'meter': moved"
    again = one.welcomed("other", "a")
    assert again.item_ids[0] > max(first.item_ids)
    assert folds.dim.index_of(again.item_ids[0]) is not None


def test_items_of_a_program_that_is_gone_can_be_forgotten_and_then_the_program() -> None:
    one = side()
    old = one.welcomed("meter", "a")
    assert "which declares it" in refused_with(one.forget(items=["a"]))
    one.wait(HEARD_MS)
    assert one.root.folds.dim.live.quality[one.root.folds.dim.index_of(old.item_ids[0])] == quality.BAD_NO_COMMUNICATION
    assert refused_with(one.forget(items=["a"])) == ""
    assert refused_with(one.forget(producers=["meter"])) == ""
    assert one.names() == []


def test_a_program_that_was_only_silent_declares_its_forgotten_item_anew() -> None:
    one = side()
    old = one.welcomed("meter", "a")
    one.wait(HEARD_MS)
    one.forget(items=["a"])
    one.append(old, 1, sender=b"meter")
    (refused,) = one.take(AppendRefused)
    assert isinstance(refused, AppendRefused)
    assert refused.refusal.code == "unknown_producer"
    new = one.welcomed("meter", "a", life=old.producer_id)
    assert new.producer_id == old.producer_id
    assert new.item_ids > old.item_ids
    one.append(new, 1, sender=b"meter")
    one.commit()
    assert one.take(Appended)


def test_items_of_the_node_and_of_its_topology_and_with_a_command_or_a_case_stay() -> None:
    one = side("plc")
    one.welcomed("plc", "a")
    assert "never forgotten" in refused_with(one.forget(items=["core/turn_ms"]))
    one.wait(HEARD_MS)
    assert "which declares it" in refused_with(one.forget(items=["a"]))
    alarmed = DataItem(name="hot", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=5.0))
    one.letter(ProducerHello(producer="meter", items=(alarmed,), run=1), sender=b"meter")
    one.commit()
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    one.append(welcome, 1, 9.0, sender=b"meter")
    one.commit()
    one.wait(HEARD_MS)
    assert "open case" in refused_with(one.forget(items=["hot"]))


def test_an_item_with_a_command_under_way_stays_until_that_has_its_outcome() -> None:
    one = side()
    one.hello()
    one.now = Instant(one.now + HEARD_MS * MS)
    one.step(TimePassed())
    one.commit()
    one.ask_write("c1", 1.0)
    assert "no outcome yet" in refused_with(one.forget(items=["fan"]))


def test_an_item_stays_whose_command_is_not_committed_yet_and_takes_none_while_it_is_forgotten() -> None:
    one = side()
    one.hello()
    one.now = Instant(one.now + HEARD_MS * MS)
    one.step(TimePassed())
    one.commit()
    write = {"item": "fan", "value": 1.0, "command_id": "c1", "user": "ann"}
    one.letter(Ask(request_id=1, what="write", arguments=write), sender=b"desk")
    assert "no outcome yet" in refused_with(one.forget(items=["fan"]))
    other = side()
    other.hello()
    other.now = Instant(other.now + HEARD_MS * MS)
    other.step(TimePassed())
    other.commit()
    forget: dict[str, object] = {"items": ["fan"], "user": "ann"}
    other.letter(Ask(request_id=1, what="forget", arguments=forget), sender=b"cli")
    other.letter(Ask(request_id=2, what="write", arguments=write), sender=b"desk")
    (refused,) = other.take(Answer)
    assert isinstance(refused, Answer)
    assert (refused.request_id, "no item" in refused_with(refused)) == (2, True)


def test_an_order_is_refused_where_it_can_not_be_recorded() -> None:
    one = side()
    assert f"not 1..{ORDERED_MAX}" in refused_with(one.forget())
    assert f"not 1..{ORDERED_MAX}" in refused_with(one.forget(items=[str(number) for number in range(ORDERED_MAX + 1)]))
    assert "length <= 1000" in refused_with(one.forget(producers=["p"], reason="x" * (TEXT_CHARS_MAX + 1)))
    one.step(Deposed("test"))
    assert "nothing is recorded now" in refused_with(one.forget(producers=["p"]))


# Full tables.


def test_a_refusal_says_which_table_is_full_its_limit_and_the_remedy() -> None:
    one = side(producers_max=1, items_max=15)
    one.welcomed("first", "a")
    told = one.refused("second", run=9)
    assert (told.refusal.code, told.run) == ("full", 9)
    assert str(told.refusal).startswith("the table of producers is full: 1 names, at most 1; what to do: forget")
    told = one.refused("first", *"abcdefgh")
    assert told.refusal.code == "full"
    assert str(told.refusal).startswith(
        "the table of items is full: 14 items and 7 new ones, at most 15; what to do: forget"
    )
    assert one.welcomed("first", "a", "b").item_ids


def test_a_case_comes_before_a_table_is_full() -> None:
    one = side(producers_max=10)
    measured = Measured(turn_ms=1.0, log_bytes=1, corrupt_ranges=0, room_bytes=1 << 40)
    for count in range(10):
        one.step(measured)
        one.commit()
        index = one.root.folds.dim.index_named("root:core/producers_fill")
        assert index is not None
        assert one.root.folds.dim.value_at(index) == 10.0 * count
        item_id = one.root.folds.dim.item_at(index).item_id
        is_open = any(case.item_id == item_id for case in one.root.folds.cases)
        assert is_open == (10.0 * count > TABLE_FILL_HIGH)
        one.welcomed(f"job {count}")


# Followers.


def test_a_viewer_gets_the_whole_state_when_an_item_is_forgotten() -> None:
    one = side()
    old = one.welcomed("meter", "a", "b")
    one.letter(FeedHello(follower="view", mode="state"), sender=b"view")
    one.welcomed("meter", "b", run=2)
    one.wait(1_000)
    (first,) = one.take(FeedState)
    one.forget(items=["a"])
    one.wait(1_000)
    (after,) = one.take(FeedState)
    assert isinstance(first, FeedState)
    assert isinstance(after, FeedState)
    assert after.is_snapshot
    assert old.item_ids[0] in {one.item_id for one in first.items}
    assert {one.item_id for one in after.items} == {int(one.item_id) for one in one.root.folds.dim}
    one.wait(1_000)
    assert not any(isinstance(later, FeedState) and later.is_snapshot for later in one.take(FeedState))


def test_the_passive_member_and_a_restart_fold_the_same() -> None:
    one, two = side(), ForgettingSide()
    one.welcomed("job")
    one.welcomed("meter", "a", "b")
    one.wait(HEARD_MS)
    one.forget(producers=["job"], items=["a"])
    one.welcomed("meter", "b", "c", run=2)
    two.follow(one)
    two.commit()
    assert two.root.folds.snapshot() == one.root.folds.snapshot()
    restored = Folds.restore(one.root.folds.snapshot(), one.root.folds.log_time_ms)
    assert restored.snapshot() == one.root.folds.snapshot()
