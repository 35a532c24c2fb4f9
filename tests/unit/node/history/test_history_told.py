"""What both members say while one copies stored files of the other, and how their histories' words find their way."""

from pathlib import Path
from typing import cast

import msgspec
import pytest

from albireo.cli.pair.table import refused_text, rows_of, troubles
from albireo.codec.message import AnyMessage, Carry, HistoryTold
from albireo.codec.pair_message import Carried, CopyTold
from albireo.codec.questions.kind import UserAsked
from albireo.machine.pair.events import State
from albireo.model.instant import SECOND
from albireo.model.status import PairStatus
from albireo.node.member.relay import MemberRelay
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Letter, Link
from tests.parts.pair import CLUSTER, WALL, Side, Table

Part = bytes | memoryview


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.sides[0].actions.admission.init(UserAsked(), made.now)
    made.wait_for(State.ACTIVE, State.READY)
    made.pass_time(2 * SECOND)
    return made


def view_of(side: Side) -> PairStatus:
    return side.status.describe(side.member, side.log, side.table.now)


def told(own: CopyTold | None = None, other: CopyTold | None = None, **refused: int) -> HistoryTold:
    return HistoryTold(own=own or CopyTold(), other=other or CopyTold(), refused=refused)


def test_both_members_say_how_many_files_are_missing_until_none_is(table: Table) -> None:
    primary, backup = table.sides
    copy = CopyTold(is_incomplete=True, files=10, done=3)
    backup.status.history_told(told(own=copy), WALL)
    primary.status.history_told(told(other=copy), WALL)
    assert troubles(rows_of([view_of(backup)])) == ["root[backup]: history incomplete: 3 of 10 files"]
    assert troubles(rows_of([view_of(primary)])) == [
        "root[primary]: the other member's history incomplete: 3 of 10 files"
    ]
    figures = primary.status.figures(primary.member, primary.log.history, table.now, is_recorded=True)
    assert figures.history_incomplete == 7
    for side in table.sides:
        side.status.history_told(told(), WALL + SECOND)
        assert troubles(rows_of([view_of(side)])) == []
        assert side.status.figures(side.member, side.log.history, table.now, is_recorded=True).history_incomplete == 0


def test_what_can_not_be_counted_yet_is_no_zero(table: Table) -> None:
    backup = table.sides[1]
    backup.status.history_told(told(own=CopyTold(is_incomplete=True, trouble="no answer")), WALL)
    (line,) = troubles(rows_of([view_of(backup)]))
    assert line.endswith("history incomplete: its files are not counted yet; no answer")
    assert backup.status.figures(backup.member, backup.log.history, table.now, is_recorded=True).history_incomplete == 1


def test_it_is_told_since_when(table: Table) -> None:
    backup = table.sides[1]
    for done in range(3):
        copy = CopyTold(is_incomplete=True, files=10, done=done)
        backup.status.history_told(told(own=copy), WALL + done * SECOND)
    assert view_of(backup).cases_since_ns == {"history_incomplete": WALL}


def test_what_the_other_history_said_and_was_not_believed_is_shown_by_its_name(table: Table) -> None:
    backup = table.sides[1]
    backup.status.history_told(told(path_outside=2), WALL)
    assert refused_text(rows_of([view_of(backup)])) == ["root[backup] refused: history_path_outside 2"]


class Wire:
    """Stands for the links of a process: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, object, list[Part]]] = []

    def send(self, message: AnyMessage, raw: list[Part], to: bytes = b"") -> bool:
        self.sent.append((to, message, list(raw)))
        return True

    def say(self, to: bytes, message: AnyMessage, raw: list[Part]) -> None:
        self.send(message, raw, to)

    def wall_ns(self) -> int:
        return WALL


class Ends:
    """A relay in the CORE of the primary, and what leaves it."""

    def __init__(self, side: Side) -> None:
        self.core, self.link = Wire(), Wire()
        self.refused: list[str] = []
        own, peer = side.member.own, side.member.peer
        self.relay = MemberRelay(
            cast(ActorContext, self.core),
            cast(LogAndFolds, self.core),
            own,
            peer,
            [cast(Link, self.link)],
            side.status,
            self.refused.append,
        )

    def says(self, message: AnyMessage, *raw: Part) -> None:
        self.relay.from_actor(Letter(cast(Link, self.link), b"history.1", message, list(raw)))


def carried(**changes: object) -> Carried:
    """As the backup's CORE sends it."""
    return msgspec.structs.replace(Carried(cluster=CLUSTER, member=1, run=11, store="store 1"), **changes)


def test_words_go_both_ways_as_they_are(table: Table) -> None:
    ends = Ends(table.sides[0])
    ends.says(Carry(), b"word", b"piece")
    ((_, message, raw),) = ends.link.sent
    assert isinstance(message, Carried)
    assert (message.cluster, message.member, message.run, raw) == (CLUSTER, 0, 10, [b"word", b"piece"])
    ends.relay.from_peer(carried(), [b"answer"])
    assert ends.core.sent == [(b"history.1", Carry(), [b"answer"])]
    assert ends.refused == []


def test_what_comes_before_the_history_has_spoken_has_no_way(table: Table) -> None:
    ends = Ends(table.sides[0])
    ends.relay.from_peer(carried(), [b"word"])
    assert ends.core.sent == []
    ends.says(told())
    ends.relay.from_peer(carried(), [b"word"])
    assert len(ends.core.sent) == 1
    assert ends.link.sent == [], "what it tells of itself is for this CORE"


@pytest.mark.parametrize(
    ("changes", "parts", "reason"),
    [
        ({"cluster": "foreign"}, 1, "foreign_cluster"),
        ({"member": 0}, 1, "same_member"),
        ({"store": "store 0"}, 1, "cloned_store"),
        ({"run": 99}, 1, "unknown_run"),
        ({}, 0, "carried_parts"),
        ({}, 3, "carried_parts"),
    ],
)
def test_what_is_not_the_other_member_s_is_refused_by_name(
    table: Table, changes: dict[str, object], parts: int, reason: str
) -> None:
    ends = Ends(table.sides[0])
    ends.says(told())
    ends.relay.from_peer(carried(**changes), [b"x"] * parts)
    assert (ends.refused, ends.core.sent) == ([reason], [])
