"""A state that goes in pieces: from a source by its feed to a follower, and into a mirror there."""

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
import pytest

from albireo.codec import samples
from albireo.codec.delta import StateCursor, StateDelta
from albireo.codec.message import FeedAnswer, FeedHello, FeedState, encode
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Effect,
    Event,
    Follower,
    FollowerConfig,
    LinkDown,
    LinkUp,
    Received,
    TellLeader,
)
from albireo.machine.feed.leader import LogFacts
from albireo.machine.feed.state import StateFeed
from albireo.machine.feed.viewing import LISTS, StatePieces, decode_state
from albireo.machine.fold.items.forces import FORCES, ForceState
from albireo.machine.fold.state_piece import PIECE_BYTES
from albireo.machine.kernel.turn import Turn
from albireo.machine.table.told import TableChange
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.case import Case
from albireo.model.instant import MS, Instant
from albireo.model.item import Condition, DataItem, KnownItem, Reading
from albireo.model.position import BEGINNING, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, ValueType
from tests.parts.drafted import view_of
from tests.parts.feed import HISTORY, LOG
from tests.parts.tables import told_rows

NODE: Final = "root/wide"
COUNT: Final = 3_000
ROOM: Final = 2 * PIECE_BYTES


def known(number: int) -> KnownItem:
    return KnownItem(
        item_id=ItemId(number + 1), node=NODE, item=DataItem(name=f"item_{number}", value_type=ValueType.FLOAT64)
    )


def told(mirror: NodeMirror, values: dict[int, float], items: tuple[KnownItem, ...] = ()) -> None:
    """Tell the mirror of items and of values by item number."""
    ids = np.array([number + 1 for number in values], np.uint32)
    now = np.full(len(ids), 5, np.int64)
    batch = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=ids,
        source_ns=now,
        node_ns=now,
        value=np.array(list(values.values())),
        quality=np.zeros(len(ids), np.uint32),
    )
    state = FeedState(
        epoch=1,
        position=mirror.position,
        previous=mirror.position,
        items=items,
        value_parts=((int(ValueType.FLOAT64), len(ids)),),
    )
    mirror.take(state, [samples.encode(batch)])


def readings(mirror: NodeMirror) -> list[Reading]:
    dim = mirror.dim
    found = (dim.by_name(f"{NODE}:item_{number}") for number in range(len(dim)))
    rows = (dim.index_of(one.item_id) for one in found if one is not None)
    return [dim.reading_at(row) for row in rows if row is not None]


class Way:
    """A feed and a follower in front of a mirror. Nothing is lost, and nothing is late unless it is held."""

    def __init__(self, source: NodeMirror, capacity_bytes: int = PIECE_BYTES) -> None:
        self.source, self.feed = source, StateFeed(source)
        self.follower = Follower(FollowerConfig(name="root", mode="state", capacity_bytes=capacity_bytes))
        self.shown = NodeMirror(NODE)
        self.now = Instant(0)
        self.pieces: list[FeedState] = []
        self.sizes: list[int] = []
        self.turn_sizes: list[int] = []
        self.verdicts: list[str] = []
        self.after_piece: Callable[[], None] | None = None
        """Called after each piece but the last."""

    def begin(self) -> None:
        self._done(self.follower.step(LinkUp(), self.now), [])

    def turn(self) -> bool:
        """One turn of the feed; False: there is nothing to do."""
        due, at = self.feed.deadline(self.source.position), self.source.position
        if due is None:
            return False
        self.now = max(self.now, due)
        turn = Turn(view_of([], HISTORY, BEGINNING), 1)
        spent = self.feed.time_passed(2, at, at, self.now, turn, is_acting=True, room_bytes=ROOM)
        self.turn_sizes.append(spent)
        for sent in turn.sends:
            if isinstance(sent.message, FeedState):
                self.pieces.append(sent.message)
                self.sizes.append(sum(len(part) for part in encode(sent.message, sent.raw)))
            size = sum(len(part) for part in sent.raw)
            self._done(self.follower.step(Received(sent.message, size), self.now), sent.raw)  # type: ignore[arg-type]  # A feed sends nothing else.
        return any(isinstance(one.message, FeedState) for one in turn.sends)

    def until_level(self) -> None:
        for _ in range(500):
            if self.follower.position == self.source.position:
                return
            self.turn()
        raise AssertionError("the follower never gets level")

    def _done(self, effects: list[Effect], raw: list[bytes | memoryview]) -> None:
        for effect in effects:
            match effect:
                case TellLeader(FeedHello() as hello):
                    facts = LogFacts(LOG, HISTORY, 1, self.source.position)
                    answer = self.feed.hello(b"f", hello, facts, self.now)
                    self.verdicts.append(answer.verdict)
                    self._done(self.follower.step(Received(answer), self.now), [])
                case TellLeader(message):
                    assert not isinstance(message, FeedHello | FeedAnswer)
                    self.feed.ack(b"f", message, self.now)
                case Deliver(FeedState() as state):
                    self.shown.take(state, raw)
                    if state.goes_on and self.after_piece is not None:
                        self.after_piece()
                    self._done(self.follower.step(Digested(state.position), self.now), [])
                case _:
                    pass


def wide() -> NodeMirror:
    source = NodeMirror(NODE)
    told(source, {number: float(number) for number in range(COUNT)}, tuple(map(known, range(COUNT))))
    return source


def test_a_large_state_goes_in_pieces_and_arrives_whole() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    assert len(way.pieces) > 3
    assert max(way.sizes) <= PIECE_BYTES + 1_000, "the entries of a piece are bounded, its head is small"
    assert max(way.turn_sizes) <= ROOM + PIECE_BYTES
    assert [one.piece for one in way.pieces] == list(range(len(way.pieces)))
    assert [one.goes_on for one in way.pieces] == [True] * (len(way.pieces) - 1) + [False]
    assert readings(way.shown) == readings(way.source)
    assert len(readings(way.shown)) == COUNT


def test_what_was_shown_stays_until_the_new_state_is_whole() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    before, seen = readings(way.shown), []
    told(way.source, {1: -1.0})
    way.follower = Follower(way.follower.config)
    way.after_piece = lambda: seen.append(readings(way.shown))
    way.begin()
    way.until_level()
    assert len(seen) > 3
    assert all(one == before for one in seen), "no item vanishes or goes back meanwhile"
    assert readings(way.shown) == readings(way.source) != before


def test_a_change_between_two_pieces_is_told_by_the_next_delta() -> None:
    way, changed = Way(wide()), iter(range(10_000))

    def change() -> None:
        number = next(changed)
        told(way.source, {number: -1.0 - number, COUNT - 1 - number: -2.0 - number})

    way.after_piece = change
    way.begin()
    way.until_level()
    assert readings(way.shown) == readings(way.source)


def test_a_state_that_begins_anew_between_two_pieces_is_told_anew() -> None:
    way, is_first = Way(wide()), iter([True])

    def replace() -> None:
        if next(is_first, False):
            fewer = tuple(map(known, range(COUNT - 500)))
            whole = FeedState(epoch=1, position=way.source.position, previous=BEGINNING, is_snapshot=True, items=fewer)
            way.source.take(whole, [])

    way.after_piece = replace
    way.begin()
    way.until_level()
    assert [one.piece for one in way.pieces].count(0) == 2
    assert len(readings(way.shown)) == COUNT - 500
    assert readings(way.shown) == readings(way.source)


def test_a_follower_that_asks_again_goes_on_from_its_position() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    told(way.source, {7: 70.0})
    way.pieces.clear()
    way.begin()
    way.until_level()
    assert way.verdicts == ["snapshot", "resume"]
    assert [one.is_snapshot for one in way.pieces] == [False]
    assert sum(count for one in way.pieces for _, count in one.value_parts) == 1
    assert readings(way.shown) == readings(way.source)


def test_a_follower_of_another_epoch_takes_the_whole_state() -> None:
    way = Way(wide())
    facts = LogFacts(LOG, HISTORY, 1, way.source.position)
    for log_id, entries in ((LOG, HISTORY.entries[:1]), (b"X" * 16, HISTORY.entries), (b"", ())):
        hello = FeedHello(
            follower="f", mode="state", log_id=log_id, history=entries, position=Position(1, 1), in_pieces=True
        )
        assert way.feed.hello(b"f", hello, facts, Instant(0)).verdict == "snapshot"
    ahead = FeedHello(follower="f", mode="state", log_id=LOG, history=HISTORY.entries, position=Position(1, 99))
    assert way.feed.hello(b"f", ahead, facts, Instant(0)).verdict == "snapshot"


def test_a_follower_that_knows_no_pieces_gets_one_message() -> None:
    way = Way(wide())
    hello = FeedHello(follower="f", mode="state", credit_bytes=1 << 24)
    way.feed.hello(b"f", hello, LogFacts(LOG, HISTORY, 1, way.source.position), way.now)
    assert way.turn()
    (state,) = way.pieces
    assert (len(state.items), state.piece, state.goes_on) == (COUNT, 0, False)


def test_pieces_are_joined_to_the_same_state() -> None:
    way, joined = Way(wide()), []
    pieces = StatePieces()
    take = way.shown.take

    def collect(state: FeedState, raw: list[bytes | memoryview]) -> None:
        whole = pieces.add(decode_state(state, raw))
        if whole is not None:
            joined.append(whole)
        take(state, raw)

    way.shown.take = collect  # type: ignore[method-assign,assignment]  # A tap on the way.
    way.begin()
    way.until_level()
    (whole,) = joined
    state, batches = whole.state, whole.batches
    assert state.is_snapshot
    assert [one.item_id for one in state.items] == list(range(1, COUNT + 1))
    assert np.concatenate([one.item_id for one in batches]).tolist() == list(range(1, COUNT + 1))
    assert [count for _, count in state.value_parts] == [len(one) for one in batches]


def test_rows_of_all_pieces_are_told() -> None:
    force = ForceState(
        item_id=1, measured_id=2, value=1.0, user="ann", reason="test", since_ns=1, for_ms=1, forced_at=0
    )
    first = FeedState(
        epoch=1,
        position=Position(1, 2),
        previous=Position(1, 1),
        tables={"forces": told_rows(force), "later": told_rows(force)},
        after=StateCursor(2, 1),
    )
    last = msgspec.structs.replace(first, tables={"forces": told_rows(gone=(3, 4))}, piece=1, after=None)
    pieces = StatePieces()
    assert pieces.add(decode_state(first, [])) is None
    whole = pieces.add(decode_state(last, []))
    assert whole is not None
    assert whole.tables.of(FORCES) == TableChange((force,), (3, 4))
    assert whole.tables.passed_over == 1


def test_every_list_of_all_pieces_is_told() -> None:
    fields = msgspec.structs.fields(FeedState)
    assert {one.name for one in fields if one.default == ()} == set(LISTS)


def test_a_follower_without_room_gets_no_more_than_one_piece_beyond_it() -> None:
    way = Way(wide(), capacity_bytes=1)
    way.begin()
    way.until_level()
    assert readings(way.shown) == readings(way.source)
    assert max(way.turn_sizes) <= PIECE_BYTES + 2_000


def test_a_lively_feed_rests_longer_the_more_it_sends() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    rests = {}
    for count in (1, COUNT):
        sent_at = []
        for turn in range(20):
            told(way.source, {number: float(turn) for number in range(count)})
            while not way.turn():
                pass
            sent_at.append(way.now)
            way.until_level()
        rests[count] = min(np.diff(sent_at))
    assert rests[1] == 20 * MS
    assert 40 * MS <= rests[COUNT] <= 100 * MS


def cut_each(way: Way, count: int) -> None:
    """Let the link end behind each `count` pieces, and another one take its place."""
    came = iter(range(1, 10_000))

    def piece_came() -> None:
        if next(came) % count == 0:
            way.follower.step(LinkDown(), way.now)
            way.feed.lost(b"f")
            way.begin()

    way.after_piece = piece_came


def test_a_follower_whose_link_ends_again_and_again_goes_on_behind_the_pieces_that_came() -> None:
    way = Way(wide())
    cut_each(way, 2)
    way.begin()
    way.until_level()
    count = max(one.piece for one in way.pieces) + 1
    assert [one.piece for one in way.pieces][:count] == list(range(count))
    assert not any(one.piece for one in way.pieces[count:]), "nothing but the short one behind it"
    assert way.verdicts == ["snapshot"] + ["resume"] * ((count - 1) // 2)
    assert readings(way.shown) == readings(way.source)


def test_a_long_change_goes_on_so_too_and_what_changed_meanwhile_follows() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    told(way.source, dict.fromkeys(range(COUNT), -1.0))
    way.pieces.clear()
    cut_each(way, 1)
    cut, changed = way.after_piece, iter(range(10_000))
    assert cut is not None

    def change_and_cut() -> None:
        told(way.source, {next(changed): -2.0})
        cut()

    way.after_piece = change_and_cut
    way.until_level()
    assert not any(one.is_snapshot for one in way.pieces)
    begins = [place for place, one in enumerate(way.pieces) if one.piece == 0]
    assert [one.piece for one in way.pieces[: begins[1]]] == list(range(begins[1]))
    assert readings(way.shown) == readings(way.source)


@pytest.mark.parametrize("capacity_bytes", [1, PIECE_BYTES, 3 * PIECE_BYTES])
def test_a_piece_that_is_lost_is_all_that_comes_again(capacity_bytes: int) -> None:
    """Also if nothing comes behind it, because it took all the credit: the next life sign says what was sent."""
    way, sent, lost = Way(wide(), capacity_bytes), [], iter(range(10_000))
    pass_on = way.follower.step

    def lossy(event: Event, now: Instant) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, FeedState):
            sent.append(event.message.piece)
            if next(lost) == 2:
                return []
        return pass_on(event, now)

    way.follower.step = lossy  # type: ignore[method-assign]  # A link that loses one message.
    way.begin()
    way.until_level()
    assert len(sent) <= max(sent) + 1 + 4, "the lost piece, what was on its way behind it, and the short one"
    assert way.verdicts[0] == "snapshot" and {*way.verdicts[1:]} == {"resume"}
    assert readings(way.shown) == readings(way.source)


def test_a_source_that_can_not_tell_the_rest_any_more_begins_anew() -> None:
    way = Way(wide())
    cut_each(way, 2)
    cut, is_first = way.after_piece, iter([True])
    assert cut is not None

    def replace_and_cut() -> None:
        if next(is_first, False):
            whole = FeedState(epoch=1, position=way.source.position, previous=BEGINNING, is_snapshot=True)
            way.source.take(msgspec.structs.replace(whole, items=tuple(map(known, range(2_000)))), [])
        cut()

    way.after_piece = replace_and_cut
    way.begin()
    way.until_level()
    assert len(readings(way.shown)) == 2_000
    assert readings(way.shown) == readings(way.source)


@pytest.mark.parametrize(
    "after",
    [StateCursor(0, "text"), StateCursor(1, "text"), StateCursor(1, 2**52), StateCursor(9), StateCursor(3, "x")],
)
def test_a_follower_that_says_nonsense_of_its_pieces_harms_nobody(after: StateCursor) -> None:
    way = Way(wide())
    delta = StateDelta(way.source.position, 3, after, is_whole=True)
    hello = FeedHello(follower="f", mode="state", log_id=LOG, history=HISTORY.entries, in_pieces=True, delta=delta)
    facts = LogFacts(LOG, HISTORY, 1, way.source.position)
    assert way.feed.hello(b"f", hello, facts, way.now).verdict == "resume"
    for _ in range(20):
        way.turn()
    ahead = msgspec.structs.replace(delta, position=Position(1, 1 << 40))
    assert way.feed.hello(b"f", msgspec.structs.replace(hello, delta=ahead), facts, way.now).verdict == "snapshot"


def test_cases_go_before_the_values_that_changed_with_them() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    way.pieces.clear()
    case = Case(case_id=1, item_id=COUNT, condition=Condition.HI, severity=500)
    at = way.source.position
    way.source.take(FeedState(epoch=1, position=at, previous=at, tables={"cases": told_rows(case)}), [])
    told(way.source, dict.fromkeys(range(COUNT), -1.0))
    way.until_level()
    assert len(way.pieces) > 2
    assert [list(one.tables) for one in way.pieces if one.tables] == [["cases"]] == [list(way.pieces[0].tables)]


def test_after_a_long_delta_a_short_one_follows_though_nothing_changed() -> None:
    way = Way(wide())
    way.begin()
    way.until_level()
    while way.turn():
        pass
    assert [one.piece for one in way.pieces[-2:]] == [len(way.pieces) - 2, 0]
