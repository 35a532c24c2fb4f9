"""Forces in any order with samples, restarts and the end of the log: nothing lost, doubled or in the wrong series."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albireo.codec import samples
from albireo.codec.message import Answer
from albireo.codec.record import ForceEnded, ItemForced, Kind, Stream, decode_producer, decode_records
from albireo.machine.desk.detours import Detours
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.forces import Forces
from albireo.model import quality
from albireo.model.force import Force
from albireo.model.instant import MS, SECOND, LogTime
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.forcing import hello, order, shown
from tests.parts.history import batch_of
from tests.parts.retired_items import again
from tests.parts.root import World, append
from tests.parts.tables import header_at

SHORT_MS = 3_000
steps = st.lists(
    st.tuples(st.sampled_from(["measure", "force", "release", "pass", "restart"]), st.booleans()), max_size=25
)


class Life:
    """One item of a device, forced and released, with all values that its device sent."""

    def __init__(self) -> None:
        self.world: World = World()
        self.run = self.number = 0
        self.sent: list[float] = []
        self.connect()

    def connect(self) -> None:
        self.run += 1
        self.welcome = hello(self.world, run=self.run)
        self.number = 0

    def step(self, what: str, *, is_synced: bool) -> None:
        match what:
            case "measure":
                self.number += 1
                self.sent.append(float(len(self.sent)))
                append(self.world, self.welcome, self.number, self.sent[-1:])
            case "force":
                arguments = {"item": "co", "value": 1e6, "for_ms": SHORT_MS, "reason": "r"}
                order(self.world, "force", b"desk", **arguments)
            case "release":
                order(self.world, "force_release", item="co")
            case "pass":
                self.world.pass_time(SECOND)
            case "restart":
                self.world = again(self.world)
                self.connect()
        if is_synced:
            self.world.sync()
        self.world.take(Answer)


def played(story: list[tuple[str, bool]]) -> Life:
    life = Life()
    for what, is_synced in story:
        life.step(what, is_synced=is_synced)
    life.world.sync()
    return life


@example([("force", True), ("release", False), ("measure", False), ("restart", False)])  # All at one instant.
@example([("measure", True), ("force", True), ("release", False), ("measure", False), ("restart", False)])
@given(steps)
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_each_sample_stands_once_in_the_series_of_its_place_and_the_last_state_is_true(
    story: list[tuple[str, bool]],
) -> None:
    life = played(story)
    item_id, measured_id, found = life.welcome.item_ids[0], 0, list[float]()
    for frame in life.world.frames:
        header = frame.header
        if header.kind == Kind.RECORDS:
            for record in decode_records(frame.body, header.record_count):
                if isinstance(record, ItemForced):
                    measured_id = record.measured_id
                elif isinstance(record, ForceEnded):
                    measured_id = 0
        elif header.stream == Stream.SAMPLES and decode_producer(frame.body)[0]:
            batch = samples.decode_body(frame.body, header.kind, header.record_count)
            assert batch.item_id.tolist() == [measured_id or item_id]
            found += [float(one) for one in batch.values()]
    assert found == life.sent
    last = life.sent[-1] if life.sent else None
    (own,) = shown(life.world, "co")
    if measured_id:
        assert own == (1e6, "GoodLocalOverride")
        ((value, _),) = shown(life.world, "co/measured")
        assert value == last
    else:
        assert own == (last, "Good" if last is not None else "BadWaitingForInitialData")


@given(steps, st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_folds_equal_their_replay_from_any_snapshot(story: list[tuple[str, bool]], data: st.DataObject) -> None:
    life = played(story)
    frames, taken = life.world.frames, life.world.root.folds.snapshot()
    whole, parted = Folds(), Folds()
    whole.replay_all(frames)
    assert whole.snapshot() == taken
    cut = data.draw(st.integers(0, len(frames)))
    for frame in frames[:cut]:
        parted.replay(frame)
    parted = Folds.restore(parted.snapshot(), parted.log_time_ms)
    parted.replay_all(frames[cut:])
    assert parted.snapshot() == taken


def force(item_id: int, for_ms: int) -> ItemForced:
    return ItemForced(
        item_id=item_id, measured_id=100 + item_id, value=1.0, user="u", reason="r", since_ns=1, for_ms=for_ms
    )


acts: st.SearchStrategy[list[Callable[[Forces, int], object]]] = st.lists(
    st.one_of(
        st.builds(
            lambda item_id, for_ms: lambda forces, at: forces.fold(force(item_id, for_ms), at, header_at(at)),
            st.integers(1, 5),
            st.integers(1, 50),
        ),
        st.builds(
            lambda item_id: (
                lambda forces, at: forces.fold(ForceEnded(item_id=item_id, cause="released"), at, header_at(at))
            ),
            st.integers(1, 5),
        ),
    ),
    max_size=200,
)


@given(acts, st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_the_next_end_and_what_is_overdue_are_those_of_a_list(
    done: list[Callable[[Forces, int], object]], at_ms: int
) -> None:
    forces = Forces()
    for number, act in enumerate(done):
        act(forces, number)
    ends = {one.item_id: forces.left_ms(one.item_id, 0) for one in forces}
    assert forces.deadline() == (min(ends.values()) * MS if ends else None)
    found = [one.item_id for one in forces.overdue(LogTime(at_ms * MS), (3,), 10)]
    assert sorted(found) == [one for one in sorted(ends) if ends[one] <= at_ms and one != 3]
    again = Forces()
    again.restore(forces.table.snapshot())
    assert again.table.snapshot() == forces.table.snapshot()
    assert again.deadline() == forces.deadline()


def test_more_items_than_the_table_reaches_pass_as_they_came() -> None:
    detours = Detours(
        [Force(item_id=3, measured_id=9, value=1.0, user="u", reason="r", since_ns=1, for_ms=1)], lambda _: ()
    )
    batch = samples.decode(samples.encode(batch_of_ids(1, 3, 3, 4_000_000)), batch_of_ids(1).value_type, 4)
    assert detours.divert(batch).item_id.tolist() == [1, 9, 9, 4_000_000]
    detours.end(3)
    assert detours.divert(batch) is batch
    assert batch.quality.tolist() == [quality.GOOD] * 4


def batch_of_ids(*ids: int) -> SampleBatch:
    return batch_of([(one, 1, 1.0, 0) for one in ids], ValueType.FLOAT64, 1)
