"""Lives: each row of the table of answers to a hello (design/log-and-feed.md, Lives), and what else a life rests on."""

import msgspec

from albireo.codec import record
from albireo.codec.frame import Frame
from albireo.codec.message import (
    Answer,
    Appended,
    AppendRefused,
    Ask,
    ProducerHello,
    ProducerWelcome,
    Successor,
    WriteOrder,
)
from albireo.codec.record import GapFound, Kind, Record
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.producers import EARLIER_MAX
from albireo.machine.kernel.events import Deposed, FramesFollowed, LogCut
from albireo.machine.producer.starts import run_of_start
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.position import EpochEntry
from albireo.model.settings import LimitSettings
from albireo.model.status import NodeStatus, ProducerLife, ProducerStatus
from tests.parts.refusals import code
from tests.parts.root_roles import ALONE, ITEMS, T0, Side, pair


def says_hello(side: Side, run: int, life: int = 0, *, sender: bytes | None = None) -> None:
    """The program of this run says hello, on a line of its own."""
    hello = ProducerHello(producer="p", items=ITEMS, run=run, life=life)
    side.letter(hello, sender=sender or f"run {run}".encode())


def welcomed(side: Side, run: int, life: int = 0) -> ProducerWelcome:
    says_hello(side, run, life)
    side.commit()
    (welcome,) = side.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    assert welcome.run == run
    return welcome


def refusals(side: Side) -> list[tuple[str, int, int]]:
    """Reason, life and run of each refusal since the last look."""
    return [
        (one.refusal.code, one.producer_id, one.run)
        for one in side.take(AppendRefused)
        if isinstance(one, AppendRefused)
    ]


def leader() -> Side:
    return pair()[0]


def records_of(frame: Frame) -> list[Record]:
    return record.decode_records(frame.body, frame.header.record_count) if frame.header.kind == Kind.RECORDS else []


def openings(side: Side) -> int:
    known = side.root.folds.producers.find("p")
    return 0 if known is None else 1 + len(known.earlier)


def test_a_run_that_is_new_gets_the_next_life_and_the_life_before_it_is_over() -> None:
    one = leader()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    one.commit()
    one.now = Instant(one.now + SECOND)
    second = welcomed(one, 2)
    assert second.producer_id > first.producer_id
    assert (first.last_sequence, second.last_sequence) == (0, 0), "numbers mean nothing in another life"
    (told,) = one.take(AppendRefused)
    assert isinstance(told, AppendRefused)
    by = Successor(producer_id=second.producer_id, run=2, since_ns=T0 + one.now)
    assert (told.producer_id, told.is_final, told.run, told.successor) == (first.producer_id, True, 1, by)
    assert code(told) == "superseded"
    assert second.item_ids == first.item_ids


def test_nobody_is_superseded_before_the_life_after_it_is_committed() -> None:
    one = leader()
    first = welcomed(one, 1)
    says_hello(one, 2)
    one.append(first, 1, sender=b"run 1")
    says_hello(one, 1, first.producer_id)
    assert refusals(one) == []
    assert one.take(Appended) == []
    one.commit()
    told = ("superseded", first.producer_id, 1)
    assert refusals(one) == [told, told], "at the commit, and in answer to its hello"
    assert one.take(Appended) == []


def test_a_life_whose_successor_is_cut_goes_on() -> None:
    one = leader()
    first = welcomed(one, 1)
    committed, frames = one.committed, len(one.frames)
    says_hello(one, 2)
    one.step(Deposed("test"))
    one.frames = one.frames[:frames]
    one.step(LogCut())
    assert one.committed == committed
    one.lead()
    again = welcomed(one, 1, first.producer_id)
    assert (again.producer_id, refusals(one)) == (first.producer_id, [])
    assert welcomed(one, 3).producer_id > first.producer_id


def test_the_run_of_the_present_life_that_did_not_hear_its_welcome_hears_it_again() -> None:
    one = leader()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    again = welcomed(one, 1)
    assert (again.producer_id, again.last_sequence) == (first.producer_id, 1)
    assert openings(one) == 1


def test_a_run_that_was_slow_to_hear_its_welcome_takes_nothing_back() -> None:
    one = leader()
    lives = [welcomed(one, run).producer_id for run in range(1, EARLIER_MAX + 2)]
    one.take(AppendRefused)
    for run in range(1, EARLIER_MAX + 1):
        says_hello(one, run)
        one.commit()
        assert refusals(one) == [("superseded", 0, run)]
    known = one.root.folds.producers.find("p")
    assert known is not None
    assert known.producer_id == lives[-1]
    assert [life.producer_id for life in known.earlier] == lives[:-1]


def test_the_present_life_goes_on_at_whichever_member() -> None:
    one, two = pair()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    two.follow(one)
    two.lead()
    again = welcomed(two, 1, first.producer_id)
    assert (again.producer_id, again.last_sequence) == (first.producer_id, 1)


def test_an_older_life_is_superseded_at_whichever_member_and_however_old() -> None:
    one, two = pair()
    lives = [welcomed(one, run).producer_id for run in range(1, EARLIER_MAX + 5)]
    two.follow(one)
    two.lead()
    for run, life in enumerate(lives[:-1], 1):
        says_hello(two, run, life)
        two.commit()
        assert refusals(two) == [("superseded", life, run)]
    assert two.take(ProducerWelcome) == []


def test_a_batch_of_an_older_life_is_refused_whatever_its_number() -> None:
    one = leader()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    second = welcomed(one, 2)
    for sequence in (1, 2):
        one.append(second, sequence, sender=b"run 2")
    one.commit()
    one.take(AppendRefused)
    one.take(Appended)
    end = one.end
    for sequence in (1, 2, 3, 7):
        one.append(first, sequence, sender=b"run 1")
        one.commit()
        assert refusals(one) == [("superseded", first.producer_id, 1)]
    assert one.take(Appended) == []
    assert one.end == end
    assert one.root.admission.counters.superseded == 4


def test_what_a_life_appended_before_it_was_over_is_acknowledged_first() -> None:
    one = leader()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    says_hello(one, 2)
    one.commit()
    words = [type(message) for message in one.sent if not isinstance(message, ProducerWelcome)]
    assert words == [Appended, AppendRefused]


def test_two_live_programs_take_the_name_once() -> None:
    """Both come back again and again, with and without their life: the second keeps the name."""
    one = leader()
    lives = {run: welcomed(one, run).producer_id for run in (1, 2)}
    for _ in range(3):
        for run in (1, 2):
            for life in (0, lives[run]):
                says_hello(one, run, life)
                one.commit()
    welcomes = one.take(ProducerWelcome)
    assert {one.producer_id for one in welcomes if isinstance(one, ProducerWelcome)} == {lives[2]}
    assert set(refusals(one)) == {("superseded", life, 1) for life in (0, lives[1])}
    assert openings(one) == 2


def test_a_life_that_a_forced_promotion_lost_is_a_new_one_with_its_gap() -> None:
    """`two` leads without what `one` committed alone: a life opened there, of this name or a first one."""
    one, two = pair()
    old = welcomed(one, 1)
    one.append(old, 1, sender=b"run 1")
    two.follow(one)
    lost = welcomed(one, 2)
    one.append(lost, 1, sender=b"run 2")
    two.lead()
    two.letter(ProducerHello(producer="other", run=9), sender=b"other")  # It gets the number of the life that was lost.
    two.commit()
    (other,) = two.take(ProducerWelcome)
    assert isinstance(other, ProducerWelcome)
    assert other.producer_id == lost.producer_id
    again = welcomed(two, 2, lost.producer_id)
    assert again.producer_id not in (old.producer_id, lost.producer_id)
    assert again.last_sequence == 0
    gaps = [one for frame in two.frames for one in records_of(frame) if isinstance(one, GapFound)]
    assert [gap.source for gap in gaps] == ["p"]
    same_number = welcomed(two, 3, again.producer_id)
    assert same_number.producer_id > again.producer_id, "a number that another run has here was given in a lost branch"


def test_senders_of_lives_that_nobody_remembers_are_forgotten() -> None:
    one = leader()
    for run in range(1, 40):
        welcomed(one, run)
    assert len(one.root.registry._senders) == EARLIER_MAX + 1
    assert len(one.root.folds.producers._names) == EARLIER_MAX + 1


def test_a_full_table_counts_names_not_lives() -> None:
    one = Side(msgspec.structs.replace(ALONE, limits=LimitSettings(producers_max=2)))
    one.lead()
    for run in range(1, 6):
        welcomed(one, run)
    for name in ("q", "r"):
        one.letter(ProducerHello(producer=name, run=1), sender=b"other")
    one.commit()
    assert refusals(one)[-1] == ("full", 0, 1)
    assert len(one.take(ProducerWelcome)) == 1


def test_status_tells_two_programs_of_one_name_apart() -> None:
    one = leader()
    lives = [welcomed(one, run).producer_id for run in (1, 2)]
    one.letter(Ask(request_id=1, what="status"), sender=b"cli")
    (answer,) = one.take(Answer)
    assert isinstance(answer, Answer)
    status = msgspec.convert(answer.result, NodeStatus)
    (row,) = status.producers
    earlier = (ProducerLife(lives[0], 1),)
    assert row == ProducerStatus(name="p", life=lives[1], run=2, since_ns=T0 + one.now, last=0, earlier=earlier)
    assert status.superseded == 0
    says_hello(one, 1, lives[0])
    assert one.root.admission.counters.superseded == 1


def test_a_snapshot_keeps_the_lives() -> None:
    one = leader()
    for run in (1, 2, 3):
        welcomed(one, run)
    restored = Folds.restore(one.root.folds.snapshot(), 0)
    assert restored.snapshot() == one.root.folds.snapshot()
    assert restored.producers.is_over(1)


def test_a_life_cut_between_its_record_and_its_gap_still_has_its_gap() -> None:
    one, two = pair()
    first = welcomed(one, 1)
    one.append(first, 1, sender=b"run 1")
    one.commit()
    two.follow(one)
    frames = len(one.frames)
    says_hello(one, 2)
    kept = one.frames[: frames + 1]
    two.frames, two.history = two.frames + kept[len(two.frames) :], one.history
    two.step(FramesFollowed(kept[frames:]))
    two.history = two.history.granted(EpochEntry(2, two.end.sequence + 1, 5))
    two.lead()
    welcomed(two, 2)
    gaps = [one for frame in two.frames for one in records_of(frame) if isinstance(one, GapFound)]
    assert [gap.source for gap in gaps] == ["p", "p"], "told twice rather than not at all"


def serving(*adapters: str) -> Side:
    side = Side(msgspec.structs.replace(ALONE, adapters=frozenset(adapters)))
    side.lead()
    return side


def test_a_late_hello_of_an_adapter_that_died_does_not_supersede_its_successor() -> None:
    one = serving("p")
    dead, living = run_of_start(Instant(3 * SECOND), 9), run_of_start(Instant(4 * SECOND), 0)
    present = welcomed(one, living)
    says_hello(one, dead)
    one.commit()
    assert one.take(ProducerWelcome) == []
    assert refusals(one) == [("superseded", 0, dead)]
    one.append(present, 1, sender=f"run {living}".encode())
    one.commit()
    assert len(one.take(Appended)) == 1
    assert openings(one) == 1


def test_the_next_start_of_an_adapter_supersedes_the_one_before() -> None:
    one = serving("p")
    welcomed(one, run_of_start(Instant(3 * SECOND), 9))
    welcomed(one, run_of_start(Instant(4 * SECOND), 0))
    assert openings(one) == 2


def test_a_program_that_spoke_under_an_adapters_name_does_not_keep_the_adapter_out() -> None:
    """Its run is random, so it looks like a start to come."""
    one = serving("p")
    welcomed(one, 1 << 61)
    welcomed(one, run_of_start(Instant(3 * SECOND), 9))
    assert openings(one) == 2


def test_runs_of_programs_have_no_order() -> None:
    one = serving("another")
    welcomed(one, run_of_start(Instant(4 * SECOND), 0))
    welcomed(one, run_of_start(Instant(3 * SECOND), 0))
    assert openings(one) == 2


def test_runs_of_starts_rise() -> None:
    first = run_of_start(Instant(3 * SECOND), 1 << 40)
    assert first < run_of_start(Instant(3 * SECOND + MS), 0)
    assert run_of_start(Instant(3 * SECOND), 0, first) == first + 1
    assert run_of_start(Instant(100 * 365 * 86_400 * SECOND), (1 << 20) - 1) < 1 << 62


def test_no_order_goes_to_a_program_whose_successor_has_no_items_and_takes_no_orders() -> None:
    one = leader()
    one.hello()
    one.letter(ProducerHello(producer="p", run=2), sender=b"successor")
    one.commit()
    one.ask_write("c1", 2.0)
    assert one.take(WriteOrder) == []
    one.take(ProducerWelcome)
    one.hello(run=3)
    assert len(one.take(WriteOrder)) == 1, "to whoever takes orders next"
