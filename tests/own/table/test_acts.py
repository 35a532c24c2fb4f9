"""A table that only this folder knows goes the whole way: fold, snapshot, state, client, mirror, bound."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.client import connect
from albireo.codec.message import FeedState
from albireo.codec.record import Audited, Record
from albireo.machine.fold import declared
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.state_piece import WHOLE, StateSource
from albireo.machine.table.told import TableChange
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.position import Position
from tests.own.table.acts import ACTS, ACTS_MAX, CLOSED, Act, Acts
from tests.parts.bounds import structs, unbounded
from tests.parts.client import lone, produce
from tests.parts.core_pair import aside
from tests.parts.pieces import pieces_since
from tests.parts.tables import changes_of, header_at, told_rows
from tests.parts.waiting import PATIENCE_S


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The table is one of those that there are."""
    monkeypatch.setattr(declared, "FOLDS", (*declared.FOLDS, Acts))
    yield


def act(user: str, action: str = "wrote", subject: str = "") -> Audited:
    return Audited(at_ns=7, user=user, action=action, subject=subject)


class Log:
    """Folds, and the end of what they folded."""

    def __init__(self) -> None:
        self.folds = Folds()
        self.end = Position(1, 0)

    def takes(self, *records: Record) -> None:
        for record in records:
            self.end = Position(1, self.end.sequence + 1)
            self.folds.fold(header_at(sequence=self.end.sequence), (record,))


def told(source: StateSource, mirror: NodeMirror, since: int, at: Position) -> None:
    for piece in pieces_since(source, since, at, bytes_max=1):
        mirror.take(piece.message, piece.raw)


def users(mirror: NodeMirror) -> list[str]:
    return [one.user for one in mirror.table(ACTS)]


@pytest.mark.usefixtures("known")
def test_it_is_folded_and_stands_in_a_snapshot() -> None:
    log = Log()
    log.takes(act("ann"), act("bob"), act("ann", "forced"), act("chief", CLOSED, "bob"))
    assert list(log.folds.of(Acts)) == [Act(user="ann", action="forced", at_ns=7)]
    again = Folds.restore(log.folds.snapshot(), 0)
    assert list(again.of(Acts)) == list(log.folds.of(Acts))
    assert again.snapshot() == log.folds.snapshot()
    assert again.of(Acts).table.changed_since(2) == ["bob", "ann"]


@pytest.mark.usefixtures("known")
def test_nodes_above_mirror_it_keep_it_and_tell_it_on() -> None:
    log, above, top = Log(), NodeMirror("root"), NodeMirror("root")
    log.takes(act("ann"), act("bob"))
    told(log.folds, above, WHOLE, log.end)
    told(above, top, WHOLE, above.position)
    assert users(above) == users(top) == ["ann", "bob"]
    seen, shown = log.end.sequence, above.position.sequence
    log.takes(act("chief", CLOSED, "ann"), act("bob", "forced"))
    (delta,) = pieces_since(log.folds, seen, log.end)
    assert changes_of(delta).of(ACTS) == TableChange((Act(user="bob", action="forced", at_ns=7),), ("ann",))
    told(log.folds, above, seen, log.end)
    told(above, top, shown, above.position)
    assert users(above) == users(top) == ["bob"]
    after = NodeMirror("root")
    for kept in above.kept(1):
        after.take_kept(kept)
    assert users(after) == ["bob"]


@pytest.mark.usefixtures("known")
def test_its_bounds_are_kept() -> None:
    (row,) = structs(ACTS.row)
    assert list(unbounded(row, "")) == []
    above = NodeMirror("root")
    at = above.position
    many = [Act(user=f"u{number}", action="wrote", at_ns=1) for number in range(ACTS_MAX + 2)]
    above.take(FeedState(epoch=1, position=at, previous=at, tables={"acts": told_rows(*many)}), [])
    assert (len(above.table(ACTS)), above.refused) == (ACTS_MAX, 2)
    long = Act(user="x" * 1_000, action="wrote", at_ns=1)
    above.take(FeedState(epoch=1, position=at, previous=at, tables={"acts": told_rows(long)}), [])
    assert (above.refused, "acts" in above.trouble) == (3, True)


@pytest.mark.usefixtures("known")
def test_a_viewer_that_lacks_what_is_forgotten_takes_the_whole_state() -> None:
    log = Log()
    log.takes(*(act(user) for user in "abc"), *(act("chief", CLOSED, user) for user in "abc"))
    assert [piece.message.is_snapshot for piece in pieces_since(log.folds, 3, log.end)] == [True]
    (delta,) = pieces_since(log.folds, 4, log.end)
    assert (delta.message.is_snapshot, changes_of(delta).of(ACTS).gone) == (False, ("b", "c"))


def test_who_does_not_know_it_passes_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(declared, "FOLDS", (*declared.FOLDS, Acts))
        log = Log()
        log.takes(act("ann"))
        (piece,) = pieces_since(log.folds, WHOLE, log.end)
        sections = log.folds.snapshot()
    above = NodeMirror("root")
    above.take(piece.message, piece.raw)
    assert (above.passed_over, above.refused, above.trouble) == (1, 0, "")
    assert "acts" in sections
    assert "acts" not in Folds.restore(sections, 0).snapshot()


@pytest.mark.usefixtures("known")
def test_a_client_follows_it(tmp_path: Path) -> None:
    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            produce(client, 1, 1)
            states = client.follow_state()
            first = next(one for one in states if one is not None)
            assert first.tables.of(ACTS) == TableChange()
            client.force("number", 5, "test", for_s=60)
            rows = next(rows for one in states if one is not None and (rows := one.tables.of(ACTS).rows))
            assert [one.action for one in rows] == ["forced"]

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)

    asyncio.run(world())
