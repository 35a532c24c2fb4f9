"""Feature levels: the gate of new record kinds, folds, and who may have which log."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from albireo.cli.pair.table import level_text, rows_of, troubles
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.pair_message import FollowAnswered, FollowAsked, Frames
from albireo.codec.questions.kind import UserAsked
from albireo.codec.record import LEVELS, FeatureRaised, Kind, Marked, Record, Stream, encode_records, may_append
from albireo.machine.fold.folds import Folds, joined, level_of
from albireo.machine.kernel.turn import Turn
from albireo.machine.pair.events import FromPeer, Objection, State
from albireo.model.feature import FEATURE_LEVEL, FIRST_LEVEL
from albireo.model.instant import SECOND
from albireo.model.log_view import LogView
from albireo.model.status import PairStatus
from albireo.node.core.actor import create
from albireo.runtime import running
from albireo.runtime.errors import ConfigurationRefused
from tests.parts.core_actor import ARGUMENTS, status
from tests.parts.pair import Side, Table


def test_every_kind_of_record_has_a_level() -> None:
    assert set(LEVELS) == set(get_args(Record))
    assert set(LEVELS.values()) <= set(range(FIRST_LEVEL, FEATURE_LEVEL + 1))


def test_a_kind_is_drafted_at_its_level_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEVELS, Marked, 3)
    with pytest.raises(AssertionError, match="level 2"):
        Turn(LogView(), 2).record(Stream.CONTROL, [Marked()])
    assert Turn(LogView(), 3).record(Stream.CONTROL, [Marked()]) == 1


@pytest.mark.parametrize(("level", "raised", "is_taken"), [(1, 2, True), (1, 3, False), (2, 2, False), (2, 3, True)])
def test_a_log_is_raised_one_step_at_a_time(level: int, raised: int, is_taken: bool) -> None:
    assert may_append(FeatureRaised(level=raised), level) is is_taken


def frame_of(records: Sequence[Record], sequence: int = 1) -> Frame:
    body = encode_records(0, 0, list(records))
    header = FrameHeader(
        b"", 1, sequence, len(records), Stream.CONTROL, Kind.RECORDS, len(body), body_crc(body), log_time_ms=1
    )
    return Frame(header, body)


def folded(*levels: int) -> Folds:
    folds = Folds()
    for sequence, level in enumerate(levels, 1):
        folds.replay(frame_of([FeatureRaised(level=level)], sequence))
    return folds


def test_folds_keep_the_level_over_a_snapshot() -> None:
    folds = folded(2)
    restored = Folds.restore(joined(folds.snapshot_slices()), folds.log_time_ms)
    assert (folds.feature_level, restored.feature_level, folds.unreadable) == (2, 2, 0)
    assert restored.snapshot() == folds.snapshot()


def test_a_level_in_a_snapshot_that_is_none_is_refused() -> None:
    with pytest.raises(DecodeError, match="snapshot"):
        Folds.restore(folded(2).snapshot() | {"feature": b"\xa1x"}, 0)


def test_the_level_of_frames_is_the_highest_that_one_of_them_raises_to() -> None:
    assert level_of([frame_of([Marked()]), frame_of([FeatureRaised(level=2)]), frame_of([Marked()])]) == 2
    assert level_of([]) == level_of([frame_of([Marked()])]) == FIRST_LEVEL


def view_of(side: Side) -> PairStatus:
    return side.status.describe(side.member, side.log, side.table.now)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.sides[0].actions.admission.init(UserAsked(), made.now)
    made.wait_for(State.ACTIVE, State.READY)
    made.pass_time(2 * SECOND)
    return made


def set_levels(table: Table, primary: tuple[int, int], backup: tuple[int, int]) -> None:
    """What each knows, and the level of its log."""
    for side, levels in zip(table.sides, (primary, backup), strict=True):
        side.member.own.feature_level, side.member.own.log_level = levels
    table.pass_time(SECOND)


@pytest.mark.parametrize(
    ("primary", "backup", "wanted"),
    [((2, 1), (1, 1), set()), ((1, 1), (2, 1), set()), ((2, 1), (2, 1), {2}), ((2, 2), (2, 2), set())],
)
def test_the_holder_raises_what_both_know(
    table: Table, primary: tuple[int, int], backup: tuple[int, int], wanted: set[int]
) -> None:
    set_levels(table, primary, backup)
    assert table.sides[0].raised_to == wanted and not table.sides[1].raised_to
    assert table.states() == (State.ACTIVE, State.READY)


@pytest.mark.parametrize(
    ("primary", "backup", "reasons"),
    [
        ((2, 2), (1, 1), (Objection.OTHER_BELOW_LOG, Objection.LOG_ABOVE_OWN)),
        ((1, 1), (2, 2), (Objection.LOG_ABOVE_OWN, Objection.OTHER_BELOW_LOG)),
        ((3, 1), (1, 1), (Objection.TOO_FAR_APART, Objection.TOO_FAR_APART)),
        ((1, 1), (3, 1), (Objection.TOO_FAR_APART, Objection.TOO_FAR_APART)),
    ],
)
def test_members_that_cannot_have_one_log_part_and_who_leads_goes_on(
    table: Table, primary: tuple[int, int], backup: tuple[int, int], reasons: tuple[Objection, Objection]
) -> None:
    epoch = view_of(table.sides[0]).epoch
    set_levels(table, primary, backup)
    table.pass_time(5 * SECOND)
    assert table.states() == (State.SOLO, State.JOINING)
    views = [view_of(one) for one in table.sides]
    assert (views[0].apart, views[1].apart) == reasons
    assert views[0].epoch == epoch and table.sides[1].status.refused[reasons[1]]
    assert sum("knows feature level 1" in line for line in troubles(rows_of(views))) == 1
    table.told.clear()
    table.sides[0].append(epoch)
    table.pass_time(SECOND)
    assert not [one for one in table.told if isinstance(one, FollowAsked | FollowAnswered | Frames)]
    leading = table.sides[0].member.holder
    assert leading is not None and leading.wanted_from(table.now) is None, "the log is not kept for it"
    set_levels(table, (2, 1), (2, 1))
    table.wait_for(State.ACTIVE, State.READY)


def test_a_hello_of_a_member_below_the_log_is_refused_by_name(table: Table) -> None:
    """It may have asked before it heard of the level; the holder of a raised log does not answer."""
    set_levels(table, (2, 2), (1, 1))
    holder, other = table.sides[0], table.sides[1].member.own
    leading = holder.member.holder
    assert leading is not None
    asked = FollowAsked(
        **other.peer_head,
        to_run=holder.member.own.run,
        epoch=leading.epoch,
        session=99,
        history=(),
        end=table.sides[1].log.end,
    )
    holder.step(FromPeer(asked))
    assert holder.status.refused[Objection.OTHER_BELOW_LOG] and leading.session != 99


def test_a_status_says_who_holds_the_level_back(table: Table) -> None:
    set_levels(table, (2, 1), (1, 1))
    assert level_text(rows_of([view_of(table.sides[0])])) == ("feature level 1, 2 is known: held back by root[backup]")
    set_levels(table, (2, 2), (2, 2))
    assert level_text(rows_of([view_of(table.sides[0])])) == "feature level 2"


async def wait_for_level(data: Path, level: int) -> None:
    while True:
        found: Any = await status(data)
        if found["log"]["feature_level"] == level:
            return


def test_a_node_alone_raises_its_log_once_and_is_not_started_below_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(create(ARGUMENTS), tmp_path):
            await wait_for_level(tmp_path, 1)
        async with running(create({**ARGUMENTS, "feature_level": 2}), tmp_path):
            await wait_for_level(tmp_path, 2)
        async with running(create({**ARGUMENTS, "feature_level": 2}), tmp_path):
            assert ((await status(tmp_path))["log"])["feature_level"] == 2  # type: ignore[index]
        with pytest.RaisesGroup(pytest.RaisesExc(ConfigurationRefused, match="level 2, this node knows 1; start the")):
            async with running(create(ARGUMENTS), tmp_path):
                pass

    asyncio.run(story())
