"""The copier takes what continues the copy of a log, once, and nothing that claims to be what it is not."""

import pytest

from albireo.codec.frame import Origin
from albireo.codec.record import (
    EpochGranted,
    Kind,
    OriginDeclared,
    OriginGap,
)
from albireo.codec.tree.envelope import encode_envelope, inside
from albireo.machine.fold.origins import Origins
from albireo.machine.kernel.turn import Turn
from albireo.machine.tree.copier import Copier
from albireo.model.instant import SECOND
from albireo.model.log_view import LogView
from albireo.model.position import EpochHistory, Position
from tests.parts.copier import SITE, SITE_LOG, SiteLog

PUMP, PUMP_LOG = "root/north/pump", b"the log of a pump"[:16]
STRANGER = "root/south"
ROOM = 1 << 20


def turn() -> Turn:
    position = Position(1, 5)
    return Turn(LogView(committed=position, durable=position, end=position, history=EpochHistory()), 3)


def taken(
    copier: Copier, chunk: bytes, child: str = SITE, log_id: bytes = SITE_LOG
) -> tuple[str, list[tuple[int, bytes]]]:
    """The fault, and index and content of each envelope."""
    one = turn()
    fault = copier.take(child, log_id, chunk, one)
    found = [(draft.origin.node, bytes(inside(draft.body))) for draft in one.drafts if draft.origin is not None]
    return fault, found


@pytest.fixture
def site() -> SiteLog:
    return SiteLog(SITE_LOG)


def copier() -> Copier:
    return Copier(Origins(), ROOM)


def test_chunk_lies_in_one_envelope_as_it_came(site: SiteLog) -> None:
    chunk = site.frame() + site.frame() + site.frame()
    assert taken(copier(), chunk) == ("", [(1, chunk)])


def test_repeats_are_left_out_before_they_are_folded(site: SiteLog) -> None:
    one, first, second = copier(), site.frame(), site.frame()
    assert taken(one, first) == ("", [(1, first)])
    assert taken(one, first) == ("", [])
    assert taken(one, first + second) == ("", [(1, second)])
    assert one.end_of(SITE_LOG) == Position(1, 2)


def test_frame_of_another_log_ends_a_chunk(site: SiteLog) -> None:
    first, other = site.frame(), SiteLog(PUMP_LOG).frame()
    fault, found = taken(copier(), first + other)
    assert "another log" in fault
    assert found == [(1, first)]


def test_flipped_bit_ends_a_chunk(site: SiteLog) -> None:
    first, second = site.frame(), bytearray(site.frame())
    second[-9] ^= 1
    fault, found = taken(copier(), first + bytes(second))
    assert "CRC" in fault
    assert found == [(1, first)]


def test_frame_that_does_not_follow_in_the_chain_is_refused(site: SiteLog) -> None:
    one, first = copier(), site.frame()
    site.crc ^= 1
    forged = site.frame()
    taken(one, first)
    assert "does not follow" in taken(one, forged)[0]
    assert "does not follow" in taken(copier(), first + forged)[0]


def test_branch_that_nobody_told_of_is_refused_and_taken_behind_a_fork(site: SiteLog) -> None:
    one, first, second = copier(), site.frame(), site.frame()
    taken(one, first + second)
    branch = SiteLog(SITE_LOG, epoch=2)
    branch.end = 1
    other = branch.frame()
    assert "lies within" in taken(one, other)[0]
    one.forked(SITE_LOG, Position(1, 1), turn())
    assert taken(one, other) == ("", [(1, other)])


def forwarded(site: SiteLog, node: str, inner: bytes) -> bytes:
    """Frames by which a site forwards those of a node below."""
    declared = site.frame(OriginDeclared(index=7, node=node, origin_log=PUMP_LOG))
    return declared + site.frame(kind=Kind.ENVELOPE, body=encode_envelope(inner), origin=Origin(7, 1, 1)) + site.frame()


def test_frames_of_a_grandchild_lie_under_their_own_origin(site: SiteLog) -> None:
    inner = SiteLog(PUMP_LOG).frame()
    chunk = forwarded(site, PUMP, inner)
    fault, found = taken(copier(), chunk)
    assert fault == ""
    assert [index for index, _ in found] == [1, 2, 1]
    assert found[1] == (2, inner)


@pytest.mark.parametrize("node", [STRANGER, "root", SITE, "root/northern"])
def test_what_a_child_forwards_of_a_node_that_is_not_below_it_is_left_out(site: SiteLog, node: str) -> None:
    one = copier()
    fault, found = taken(one, forwarded(site, node, SiteLog(PUMP_LOG).frame()))
    assert fault == ""
    assert {index for index, _ in found} == {1}
    assert one.not_taken == 1


def test_grandchild_whose_log_is_known_as_that_of_another_node_is_left_out(site: SiteLog) -> None:
    one, pump = copier(), SiteLog(PUMP_LOG)
    taken(one, pump.frame(), STRANGER, PUMP_LOG)
    taken(one, forwarded(site, PUMP, pump.frame()))
    assert one.not_taken == 1
    assert one.end_of(PUMP_LOG) == Position(1, 1)


def test_branch_of_a_grandchild_that_the_child_never_knew_otherwise_is_taken(site: SiteLog) -> None:
    """Both were restored: the child has nothing of the branch that was left, so it notes no fork, and the new branch
    has the epoch and the numbers of the old one."""

    def branch(branch_id: int) -> tuple[bytes, bytes]:
        pump = SiteLog(PUMP_LOG)
        first = pump.frame()
        pump.epoch = 2
        granted = EpochGranted(epoch=2, branch_id=branch_id, node=PUMP, reason="start")
        return first, pump.frame(granted) + pump.frame()

    one, (first, left), (_, living) = copier(), branch(7), branch(8)
    taken(one, forwarded(site, PUMP, first + left))
    fault, found = taken(
        one, site.frame(kind=Kind.ENVELOPE, body=encode_envelope(first + living), origin=Origin(7, 1, 1))
    )
    assert (fault, found) == ("", [(2, living)])
    assert one.not_taken == 0


def test_frame_that_finds_no_room_is_refused(site: SiteLog) -> None:
    body = bytes(4_000)
    large = site.frame(kind=Kind.FLOAT64, body=body)
    fault, found = taken(Copier(Origins(), 4_000), large)
    assert "finds no room" in fault
    assert found == []


def gaps_in(one: Turn) -> list[OriginGap]:
    records = (two for draft in one.drafts if isinstance(draft.content, tuple) for two in draft.content)
    return [two for two in records if isinstance(two, OriginGap)]


def skipped(site: SiteLog, count: int) -> None:
    """The site lets go of its next frames."""
    for _ in range(count):
        site.frame()


def test_records_that_a_child_let_go_are_a_gap_right_before_what_comes_behind_them(site: SiteLog) -> None:
    one, first = copier(), site.frame()
    taken(one, first)
    skipped(site, 3)
    behind, now = site.frame(), turn()
    one.let_go(SITE, SITE_LOG, now)
    assert one.take(SITE, SITE_LOG, behind + site.frame(), now) == ""
    gap = OriginGap(index=1, first=2, epoch=1, sequence=5, from_ns=SECOND, to_ns=5 * SECOND)
    assert gaps_in(now) == [gap]
    assert now.drafts[0].content == (gap,), "the gap stands behind the envelope"
    assert one.end_of(SITE_LOG) == Position(1, 6)
    later = turn()
    assert one.take(SITE, SITE_LOG, site.frame(), later) == ""
    assert gaps_in(later) == []


def test_gap_at_the_beginning_of_a_log_reaches_back_for_ever(site: SiteLog) -> None:
    one, now = copier(), turn()
    skipped(site, 2)
    one.let_go(SITE, SITE_LOG, now)
    one.take(SITE, SITE_LOG, site.frame(), now)
    assert gaps_in(now) == [OriginGap(index=1, first=1, epoch=1, sequence=3, from_ns=0, to_ns=3 * SECOND)]


def test_nothing_is_a_gap_that_nobody_let_go(site: SiteLog) -> None:
    """Envelopes of the child's own lie between its frames, and their sequences are left out."""
    one, now = copier(), turn()
    pump = SiteLog(PUMP_LOG)
    one.take(SITE, SITE_LOG, forwarded(site, PUMP, pump.frame()) + site.frame(), now)
    skipped(site, 1)
    one.take(SITE, SITE_LOG, site.frame(), now)
    assert gaps_in(now) == []
    one.let_go(SITE, SITE_LOG, now)
    one.take(SITE, SITE_LOG, site.frame(), now)
    assert gaps_in(now) == [], "all that was let go lies here"


def test_gap_of_a_child_may_be_one_of_whatever_it_forwards(site: SiteLog) -> None:
    one, pump, now = copier(), SiteLog(PUMP_LOG), turn()
    taken(one, forwarded(site, PUMP, pump.frame()))
    skipped(site, 2)
    skipped(pump, 4)
    one.let_go(SITE, SITE_LOG, now)
    envelope = encode_envelope(pump.frame())
    one.take(SITE, SITE_LOG, site.frame() + site.frame(kind=Kind.ENVELOPE, body=envelope, origin=Origin(7, 1, 6)), now)
    assert [(gap.index, gap.first, gap.sequence) for gap in gaps_in(now)] == [(1, 4, 6), (2, 2, 6)]


def test_what_a_child_forwards_first_behind_its_gap_has_its_own_gap_before_it(site: SiteLog) -> None:
    one, pump, now = copier(), SiteLog(PUMP_LOG), turn()
    taken(one, forwarded(site, PUMP, pump.frame()))
    skipped(site, 2)
    skipped(pump, 4)
    one.let_go(SITE, SITE_LOG, now)
    forward = site.frame(kind=Kind.ENVELOPE, body=encode_envelope(pump.frame()), origin=Origin(7, 1, 6))
    assert one.take(SITE, SITE_LOG, forward + site.frame(), now) == ""
    assert [(gap.index, gap.first, gap.sequence) for gap in gaps_in(now)] == [(1, 4, 6), (2, 2, 6)]


def test_an_origin_that_is_first_declared_behind_a_gap_has_its_own_gap_from_its_beginning(site: SiteLog) -> None:
    """The child declared it in what it let go, and declares it anew; what came in between has no name here."""
    one, pump, now = copier(), SiteLog(PUMP_LOG), turn()
    taken(one, site.frame())
    skipped(site, 2)
    skipped(pump, 4)
    one.let_go(SITE, SITE_LOG, now)
    one.take(SITE, SITE_LOG, site.frame() + forwarded(site, PUMP, pump.frame()), now)
    assert [(gap.index, gap.first, gap.sequence) for gap in gaps_in(now)] == [(1, 2, 4), (2, 1, 5)]


def test_gap_that_a_child_tells_of_what_it_forwards_is_one_here_too(site: SiteLog) -> None:
    one, pump = copier(), SiteLog(PUMP_LOG)
    taken(one, forwarded(site, PUMP, pump.frame()))
    skipped(pump, 4)
    told = OriginGap(index=7, first=2, epoch=1, sequence=6, from_ns=1, to_ns=2)
    now = turn()
    chunk = site.frame(told) + site.frame(
        kind=Kind.ENVELOPE, body=encode_envelope(pump.frame()), origin=Origin(7, 1, 6)
    )
    one.take(SITE, SITE_LOG, chunk, now)
    assert [(gap.index, gap.first, gap.sequence) for gap in gaps_in(now)] == [(2, 2, 6)]


def test_gap_is_on_record_once_though_the_frame_behind_it_was_lost(site: SiteLog) -> None:
    """The node ended between the two: from its folds it knows the gap, and asks for the frame again."""
    origins = Origins()
    origins.fold_record(OriginDeclared(index=1, node=SITE, origin_log=SITE_LOG), 1, 0)
    origins.fold_record(OriginGap(index=1, first=1, epoch=1, sequence=3, from_ns=0, to_ns=3 * SECOND), 2, 0)
    one, now = Copier(Origins.restore(origins.snapshot()), ROOM), turn()
    skipped(site, 2)
    one.let_go(SITE, SITE_LOG, now)
    one.take(SITE, SITE_LOG, site.frame(), now)
    assert gaps_in(now) == []
