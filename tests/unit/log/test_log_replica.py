"""The log of a pair's member: frames of the holder taken as they are, read before they are durable, cut, repaired."""

import contextlib
import errno
import gc
import weakref
from pathlib import Path

import msgspec
import numpy as np
import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.frame import HEADER_BYTES, Frame, FrameHeader, encode, frames, seal
from albireo.log import (
    Backlogged,
    Corrupted,
    FramesRefused,
    LogConfig,
    LogStopped,
    Pruned,
    RepairFailed,
    StoreIdentity,
    WrongStore,
    pair_log_id,
)
from albireo.log.write.claims import CALM_MS, Claims
from albireo.model.instant import LogTime
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.sim.engine.disk import SimDisk
from tests.parts.log import DIRECTORY, QUARANTINE, SMALL, entry_of, same, segment_paths, selected
from tests.parts.log_member import ALL, IDENTITIES, Member, frames_of


@pytest.fixture
def holder() -> Member:
    member = Member(0, SimDisk(1))
    member.open()
    member.lead(2)
    return member


@pytest.fixture
def follower(holder: Member) -> Member:
    member = Member(1, SimDisk(1))
    member.open()
    member.follow(holder)
    return member


def durable(member: Member, *sizes: int) -> None:
    member.append(*sizes)
    member.flush_and_commit()
    member.log.keep_house()


def reopen(member: Member) -> None:
    member.disk.process_death()
    member.open()


def ends(member: Member) -> list[int]:
    return [frame.header.last_sequence for frame in member.branch]


def test_both_members_keep_the_same_log(holder: Member, follower: Member) -> None:
    assert holder.log.log_id == follower.log.log_id == pair_log_id("7f0c/root")
    assert holder.log.header.store_id != follower.log.header.store_id
    assert pair_log_id("7f0c/root/north") != pair_log_id("7f0c/root")


def test_a_store_with_another_log_is_refused_by_name(holder: Member) -> None:
    holder.log.close()
    other = msgspec.structs.replace(IDENTITIES[0], log_id=bytes(16))
    with pytest.raises(WrongStore, match=f"holds log {pair_log_id('7f0c/root').hex()}.* keeps log 0000"):
        holder.log.open(DIRECTORY, other, SMALL, holder.disk)
    unnamed = msgspec.structs.replace(IDENTITIES[0], log_id=b"")
    holder.log.open(DIRECTORY, unnamed, SMALL, holder.disk)


def test_a_log_id_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        StoreIdentity(cluster="a", node="b", log_id=b"short")


def test_frames_arrive_byte_for_byte(holder: Member, follower: Member) -> None:
    holder.append(100, 0, 3000, 7)
    holder.append(5000, 5000)
    taken = frames_of(holder.log.read_appended(0, ALL))
    follower.feed(holder)
    assert all(map(same, taken, holder.branch))
    assert follower.log.end == holder.log.end
    assert follower.log.log_time == holder.log.log_time
    for member in (holder, follower):
        member.flush_and_commit()
    assert [holder.disk.bytes_of(path) for path in segment_paths(holder.disk)] == [
        follower.disk.bytes_of(path) for path in segment_paths(follower.disk)
    ]
    assert all(map(same, follower.log.replay(0, ALL), holder.branch))


def test_a_view_is_copied_before_its_owner_uses_it_again(holder: Member, follower: Member) -> None:
    holder.append(100)
    buffer = bytearray(holder.log.read_appended(0, ALL))
    follower.log.append_raw(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    follower.flush_and_commit()
    assert all(map(same, follower.held(), holder.branch))


def changed(frame: Frame, **fields: object) -> bytes:
    """The frame with other fields and a right header CRC: only what it says can betray it."""
    return encode(msgspec.structs.replace(frame, header=seal(msgspec.structs.replace(frame.header, **fields))[0]))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"log_id": bytes(16)}, "another log"),
        ({"first_sequence": 9}, "sequence 9 where 7"),
        ({"epoch": 1}, "epoch 1 behind epoch 2"),
        ({"epoch": 4}, "epoch 4 where the history says 2"),
        ({"previous_header_crc": 1}, "does not follow"),
        ({"log_time_ms": 1}, "log time"),
        ({"body_crc": 1}, "body CRC"),
    ],
)
def test_what_does_not_continue_the_log_is_refused_whole(
    holder: Member, follower: Member, fields: dict[str, object], reason: str
) -> None:
    holder.append(10, 10)
    follower.feed(holder)
    holder.append(10, 10)
    good, bad = holder.branch[2], holder.branch[3]
    end, time, pending = follower.log.end, follower.log.log_time, follower.log.stats().pending_bytes
    with pytest.raises(FramesRefused, match=reason):
        follower.log.append_raw(encode(good) + changed(bad, **fields))
    assert (follower.log.end, follower.log.log_time, follower.log.stats().pending_bytes) == (end, time, pending)
    follower.log.append_raw(encode(good) + encode(bad))
    follower.flush_and_commit()
    assert all(map(same, follower.held(), holder.branch))


@pytest.mark.parametrize("cut", [1, 127, 128, 135])
def test_a_chunk_that_is_cut_short_is_refused(holder: Member, follower: Member, cut: int) -> None:
    holder.append(8, 8)
    with pytest.raises(FramesRefused, match="cut short"):
        follower.log.append_raw(holder.log.read_appended(0, ALL)[:-cut])
    assert follower.log.end == Position()


def test_an_empty_chunk_is_nothing(follower: Member) -> None:
    assert follower.log.append_raw(b"") == []


def test_a_frame_that_no_segment_holds_is_refused(holder: Member) -> None:
    wide = Member(0, SimDisk(2), LogConfig(segment_bytes=65536, pending_bytes_max=1 << 20, free_bytes_min=0))
    wide.open()
    wide.lead(2)
    wide.append(20000)
    narrow = Member(1, SimDisk(3))
    narrow.open()
    narrow.follow(wide)
    with pytest.raises(FramesRefused, match="segments hold 8192"):
        narrow.feed(wide)


def test_what_waits_for_the_disk_is_bounded_for_frames_too(holder: Member) -> None:
    small = Member(1, SimDisk(2), msgspec.structs.replace(SMALL, pending_bytes_max=4096))
    small.open()
    small.follow(holder)
    holder.append(1500, 1500, 1500)
    small.feed(holder, 1, 2)
    with pytest.raises(Backlogged):
        small.feed(holder, 1)
    small.log.flush()
    small.feed(holder)


def test_a_stopped_log_takes_no_frames(holder: Member, follower: Member) -> None:
    holder.append(10)
    follower.log.keep_house()
    follower.disk.refuse = lambda operation, path: errno.EIO if operation == "pwritev" else 0
    follower.feed(holder)
    with pytest.raises(LogStopped):
        follower.log.flush()
    with pytest.raises(LogStopped):
        follower.log.append_raw(b"")
    with pytest.raises(LogStopped):
        follower.log.cut_to(0)


def test_appended_frames_can_be_read_before_they_are_written(holder: Member) -> None:
    holder.append(100, 200, 300)
    assert holder.log.read(0, ALL) == b""
    first = holder.branch[0].header
    assert all(map(same, frames_of(holder.log.read_appended(0, ALL)), holder.branch))
    assert [one.header for one in frames_of(holder.log.read_appended(0, 1))] == [first]
    assert frames_of(holder.log.read_appended(first.last_sequence - 1, 1))[0].header == first
    assert holder.log.read_appended(holder.log.end.sequence, ALL) == b""


def test_reading_on_crosses_from_disk_to_memory(holder: Member) -> None:
    """Whatever is durable, whatever the tail keeps, each frame comes once and in order."""
    config = msgspec.structs.replace(SMALL, tail_bytes_max=4000)
    member = Member(0, SimDisk(5), config)
    member.open()
    member.lead(2)
    for step in range(60):
        member.append(300, step, 700)
        if step % 3 == 0:
            member.log.flush()
            member.log.keep_house()
        member.log.commit(member.branch[2 * step].header.last)
        committed = [one for one in member.branch if one.header.last_sequence <= member.log.committed.sequence]
        for bytes_max in (1, 900, 5000):
            for read, expected in ((member.log.read_appended, member.branch), (member.log.read, committed)):
                found: list[Frame] = []
                after = 0
                while chunk := read(after, bytes_max):
                    found += frames_of(chunk)
                    after = found[-1].header.last_sequence
                assert len(found) == len(expected)
                assert all(map(same, found, expected))


def test_what_is_gone_by_retention_is_said(holder: Member) -> None:
    for _ in range(20):
        durable(holder, 1500, 1500)
    for _ in range(2):
        holder.log.save_snapshot(holder.log.committed, holder.log.log_time, {})
    assert holder.log.prune(ALL)
    with pytest.raises(Pruned):
        holder.log.read_appended(0, ALL)


def test_damage_that_retention_lets_go_of_is_none_any_more(holder: Member) -> None:
    """Nobody could repair it, and a member that waits for its repair would wait for ever."""
    for _ in range(20):
        durable(holder, 1500, 1500)
    holder.disk.flip(segment_paths(holder.disk)[0], HEADER_BYTES + 1, 0)
    with pytest.raises(Corrupted):
        list(holder.log.replay(0, ALL))
    assert holder.log.corrupt
    for _ in range(2):
        holder.log.save_snapshot(holder.log.committed, holder.log.log_time, {})
    assert holder.log.prune(ALL)
    assert holder.log.corrupt == ()


def test_the_tail_is_bounded_beyond_what_is_not_durable(holder: Member) -> None:
    """Reads that the tail answers do not touch the disk."""
    config = msgspec.structs.replace(SMALL, tail_bytes_max=8000)
    member = Member(0, SimDisk(5), config)
    member.open()
    member.lead(2)
    member.log.read_appended(0, 1)
    for _ in range(30):
        durable(member, 500)
    member.append(10)
    assert member.log.read_appended(0, ALL)
    member.disk.refuse = lambda operation, path: errno.EIO if operation == "pread" else 0
    assert member.log.read_appended(ends(member)[-4], ALL)
    with pytest.raises(Exception, match="Input/output"):
        member.log.read_appended(ends(member)[5], ALL)


def test_what_the_tail_has_forgotten_is_not_in_memory() -> None:
    member = Member(0, SimDisk(5), msgspec.structs.replace(SMALL, tail_bytes_max=8000))
    member.open()
    member.lead(2)
    member.log.read_appended(0, 1)
    kept: list[weakref.ref[object]] = []
    for _ in range(30):
        body = np.zeros(500, np.uint8)
        kept.append(weakref.ref(body))
        member.log.append([entry_of(body.data)], elapsed_ms=3, node_ns=7)
        del body
        member.log.flush()
    gc.collect()
    assert 0 < sum(one() is not None for one in kept) <= 8000 // 500


def test_readers_see_the_lesser_of_committed_and_durable(holder: Member, follower: Member) -> None:
    durable(holder, 10, 10)
    follower.feed(holder)
    follower.log.commit(holder.log.committed)
    assert follower.log.committed == Position()
    assert follower.log.read(0, ALL) == b""
    assert list(follower.log.replay(0, ALL)) == []
    follower.log.flush()
    assert follower.log.committed == holder.log.committed
    assert len(list(follower.log.replay(0, ALL))) == 2


def test_headers_never_claim_what_is_not_durable_here(holder: Member, follower: Member) -> None:
    durable(holder, 10)
    follower.feed(holder)
    follower.log.commit(holder.log.committed)
    follower.lead(3)
    follower.append(10)
    assert follower.branch[-1].header.committed_sequence == 0


def _catching_up(holder: Member, follower: Member) -> None:
    """The last frames call committed what the follower has not synced; the power goes and takes the middle."""
    for _ in range(6):
        durable(holder, 900)
    follower.feed(holder, ALL, 1)
    follower.log.flush()
    follower.feed(holder)


def test_claims_ahead_of_this_disk_are_no_corruption(holder: Member, follower: Member) -> None:
    durable(holder, 10)
    follower.feed(holder)
    follower.flush_and_commit()
    for _ in range(6):
        durable(holder, 900)
    assert follower.log.header.claims_to is None
    follower.feed(holder)
    assert follower.log.header.claims_to == ends(holder)[0]
    follower.log.flush()
    (path,) = segment_paths(follower.disk)
    follower.disk.zero(path, 1500, 8)
    reopen(follower)
    assert follower.report.corrupt == ()
    assert follower.report.torn is not None
    assert follower.log.header.claims_to is None


def test_the_same_damage_counts_once_the_claims_do(holder: Member, follower: Member) -> None:
    for _ in range(6):
        durable(holder, 900)
        follower.feed(holder)
        follower.flush_and_commit()
    follower.log.close()
    (path,) = segment_paths(follower.disk)
    follower.disk.zero(path, 1500, 8)
    follower.open()
    assert follower.report.torn is None
    assert len(follower.report.corrupt) == 1


def test_a_sealed_segment_moves_the_belief_on(holder: Member, follower: Member) -> None:
    for _ in range(12):
        durable(holder, 2000)
    follower.feed(holder)
    assert follower.log.header.claims_to == 0
    for _ in range(3):
        follower.log.flush()
        follower.log.keep_house()
    sealed = [segment for segment in follower.log._stored.table.segments if segment.is_sealed]
    assert follower.log.header.claims_to == sealed[-1].last_sequence > 0


def test_claims_count_again_after_a_while_without_one_ahead() -> None:
    def header(committed: int, log_time_ms: int) -> FrameHeader:
        return FrameHeader(bytes(16), 1, 1, 1, 1, 1, 0, 0, committed_sequence=committed, log_time_ms=log_time_ms)

    claims = Claims()
    assert claims.taken([header(5, 10)], 5, None) is None
    assert claims.taken([header(9, 20)], 5, None) == 5
    assert claims.taken([header(9, 30)], 7, 5) == 5
    assert claims.taken([header(9, 40)], 9, 5) == 5
    assert claims.taken([header(9, 30 + CALM_MS)], 9, 5) == 5
    assert claims.taken([header(9, 31 + CALM_MS)], 8, 5) == 5
    assert claims.taken([header(9, 31 + 2 * CALM_MS)], 9, 5) == 5
    assert claims.taken([header(9, 32 + 2 * CALM_MS)], 9, 5) is None


def test_promises_and_the_holders_history_survive(holder: Member, follower: Member) -> None:
    history = EpochHistory((EpochEntry(2, 1, 77), EpochEntry(4, 9, 78)))
    follower.log.promise(6, 4, history)
    reopen(follower)
    header = follower.log.header
    assert (header.tried_epoch, header.accepted_epoch, header.history) == (6, 4, history)


@pytest.mark.parametrize(("tried", "accepted"), [(5, 4), (6, 3)])
def test_a_promise_never_goes_back(follower: Member, tried: int, accepted: int) -> None:
    follower.log.promise(6, 4, EpochHistory())
    with pytest.raises(ValueError, match="the store has tried 6, accepted 4"):
        follower.log.promise(tried, accepted, EpochHistory())


def test_a_promise_that_can_not_be_written_stops_the_log(follower: Member) -> None:
    follower.disk.refuse = lambda operation, path: errno.EIO if operation == "sync" else 0
    with pytest.raises(LogStopped):
        follower.log.promise(6, 4, EpochHistory())


def test_epochs_without_a_record_go_with_the_next_grant(holder: Member) -> None:
    holder.log.grant(EpochEntry(4, 1, 8))
    assert [entry.epoch for entry in holder.log.history.entries] == [4]
    durable(holder, 9)
    holder.log.grant(EpochEntry(6, 2, 9))
    holder.log.grant(EpochEntry(6, 2, 9))
    holder.log.grant(EpochEntry(8, 2, 9))
    assert [entry.epoch for entry in holder.log.history.entries] == [4, 8]
    with pytest.raises(ValueError, match="epoch 8 granted after epoch 8"):
        holder.log.grant(EpochEntry(8, 2, 10))


def test_a_cut_leaves_the_log_as_if_it_had_ended_there(holder: Member, follower: Member) -> None:
    """Chain, log time and commit position go on from the cut; the holder's next frames fit."""
    for size in (300, 2500, 4000, 20, 3000):
        durable(holder, size)
    follower.feed(holder)
    follower.flush_and_commit()
    follower.log.save_snapshot(follower.log.committed, follower.log.log_time, {})
    follower.lead(5)
    place = ends(holder)[1]
    follower.cut(place)
    assert follower.log.end == follower.log.durable == follower.log.committed == Position(2, place)
    assert follower.log.history == holder.log.history
    assert follower.disk.paths(DIRECTORY / "snapshots") == []
    assert follower.log.stats().pending_bytes == 0
    follower.follow(holder)
    while chunk := holder.log.read_appended(follower.log.end.sequence, ALL):
        follower.branch += follower.log.append_raw(chunk)
    follower.log.flush()
    assert follower.log.committed.sequence == place, "what was told of another branch says nothing of this one"
    assert all(map(same, follower.held(), holder.branch))
    assert follower.log.log_time == holder.log.log_time
    reopen(follower)
    assert follower.report.corrupt == ()
    assert follower.log.end == holder.log.end


def test_what_was_never_written_is_cut_and_kept_too(holder: Member, follower: Member) -> None:
    holder.append(100, 100, 100)
    follower.feed(holder)
    first = ends(holder)[0]
    follower.cut(first)
    assert follower.log.durable == Position()
    follower.log.flush()
    assert follower.log.durable.sequence == first
    follower.feed(holder)
    follower.log.flush()
    assert all(map(same, follower.held(), holder.branch))


def test_the_backlog_counts_what_is_left_after_a_cut(holder: Member, follower: Member) -> None:
    holder.append(100, 1000, 1000)
    follower.feed(holder)
    follower.cut(ends(holder)[0])
    assert follower.log.stats().pending_bytes == holder.branch[0].header.frame_bytes
    follower.log.flush()
    assert follower.log.stats().pending_bytes == 0


@pytest.mark.parametrize("is_written", [True, False])
def test_a_cut_in_the_middle_of_a_batch_changes_nothing(holder: Member, follower: Member, is_written: bool) -> None:
    holder.append(2, 2)
    follower.feed(holder)
    if is_written:
        follower.log.flush()
    with pytest.raises(ValueError, match="middle of a batch"):
        follower.log.cut_to(2)
    with pytest.raises(ValueError, match="the log ends at"):
        follower.log.cut_to(100)
    follower.log.flush()
    assert follower.log.durable == holder.log.end
    assert follower.log.quarantine() == []


def test_a_cut_goes_where_the_log_says_that_it_lacks_no_room(holder: Member) -> None:
    durable(holder, 3000, 500, 500)
    holder.append(700)
    place, disk = ends(holder)[0], holder.disk
    disk.capacity_bytes = 0
    lacked, used = holder.log.room_lacked_by_cut(place), -disk.free_bytes(DIRECTORY)
    assert lacked > used, "what is over the capacity is lacked too"
    disk.capacity_bytes = lacked
    assert holder.log.room_lacked_by_cut(place) == 0
    assert holder.log.cut_to(place).sequence == place


def test_a_cut_to_the_end_does_nothing(holder: Member) -> None:
    durable(holder, 10)
    operations = len(holder.disk.operations)
    assert holder.log.cut_to(holder.log.end.sequence) == holder.log.end
    assert len(holder.disk.operations) == operations


def test_quarantine_says_what_when_and_why(holder: Member) -> None:
    for _ in range(8):
        durable(holder, 3000)
    holder.append(50)
    place = ends(holder)[2]
    holder.log.cut_to(place, why="followed epoch 9", node_ns=123)
    (found,) = holder.log.quarantine()
    assert (found.first_sequence, found.last_sequence) == (place + 1, ends(holder)[-1])
    assert (found.when_ns, found.why) == (123, "followed epoch 9")
    assert found.size_bytes == sum(frame.header.frame_bytes for frame in holder.branch[3:])
    assert {path.name for path in holder.disk.paths(QUARANTINE)} == {found.name, *found.files}


def test_a_torn_tail_has_a_note_too(holder: Member) -> None:
    durable(holder, 10)
    holder.append(10, 10)
    holder.log.flush()
    (path,) = segment_paths(holder.disk)
    holder.disk.zero(path, holder.branch[0].header.frame_bytes, 8)
    reopen(holder)
    assert holder.report.torn is not None
    (found,) = holder.log.quarantine()
    assert found.files == holder.report.torn.files
    assert (found.first_sequence, found.last_sequence) == (ends(holder)[0] + 1, ends(holder)[2])
    assert found.why


def test_a_copy_without_a_note_is_listed(holder: Member) -> None:
    holder.disk.close(holder.disk.open(QUARANTINE / f"{7:020d}-128-0011.cut", create=True))
    (found,) = holder.log.quarantine()
    assert (found.name, found.first_sequence, found.size_bytes) == (f"{7:020d}-128-0011.cut", 7, 0)


def test_a_cut_below_damage_and_through_it(holder: Member) -> None:
    """Damaged records are no frames to end at; whatever of them is left stays known as damage."""
    for _ in range(3):
        durable(holder, 10, 500, 500, 10)
    offset = holder.branch[0].header.frame_bytes
    (path,) = segment_paths(holder.disk)
    holder.disk.zero(path, offset, 200)
    with pytest.raises(Corrupted):
        holder.log.read(ends(holder)[0], ALL)
    holder.log.cut_to(ends(holder)[1])
    assert [(one.first_sequence, one.last_sequence) for one in holder.log.corrupt] == [
        (ends(holder)[0] + 1, ends(holder)[1])
    ]
    reopen(holder)
    assert holder.log.end.sequence == ends(holder)[1]
    holder.log.cut_to(ends(holder)[0])
    assert holder.log.corrupt == ()
    reopen(holder)
    assert (holder.report.corrupt, holder.log.end.sequence) == ((), ends(holder)[0])


def test_a_cut_that_the_disk_refuses_stops_the_log_and_is_finished_later(holder: Member) -> None:
    for _ in range(6):
        durable(holder, 3000)
    place = ends(holder)[0]
    holder.disk.refuse = lambda operation, path: errno.EIO if operation == "rename" and "-0-" in path.name else 0
    with pytest.raises(LogStopped):
        holder.log.cut_to(place)
    assert holder.log.admission()
    holder.disk.refuse = lambda operation, path: 0
    reopen(holder)
    assert holder.log.end.sequence == place


def test_a_member_that_is_too_old_starts_over(holder: Member, follower: Member) -> None:
    for _ in range(10):
        durable(holder, 2000, 30)
    follower.feed(holder, ALL, 2)
    follower.flush_and_commit()
    follower.log.save_snapshot(follower.log.committed, follower.log.log_time, {})
    for _ in range(2):
        holder.log.save_snapshot(holder.log.committed, holder.log.log_time, {})
    old = list(follower.branch)
    holder.log.prune(ALL)
    before = next(one.header for one in holder.branch if one.header.last_sequence == holder.log.begin_sequence - 1)
    time = LogTime(before.log_time_ms * 1_000_000)
    follower.log.start_over(before.last, before.header_crc, time, history=holder.log.history, why="too old", node_ns=9)
    for _ in range(2):
        assert follower.log.end == follower.log.durable == follower.log.committed == before.last
        assert follower.log.begin_sequence == before.last_sequence + 1
        assert follower.log.log_time == time
        assert list(follower.log.load_snapshots()) == []
        reopen(follower)
    (found,) = follower.log.quarantine()
    assert (found.why, found.when_ns) == ("too old", 9)
    data = b"".join(follower.disk.bytes_of(QUARANTINE / name) for name in found.files)
    assert all(encode(frame).rstrip(b"\0") in data for frame in old)
    follower.branch = []
    follower.feed(holder)
    follower.flush_and_commit()
    kept = [one for one in holder.branch if one.header.first_sequence >= holder.log.begin_sequence]
    assert all(map(same, follower.held(), kept))
    assert follower.log.end == holder.log.end
    reopen(follower)
    assert follower.report.corrupt == ()
    assert follower.log.end == holder.log.end


def test_frames_that_do_not_chain_to_the_new_beginning_are_refused(holder: Member, follower: Member) -> None:
    durable(holder, 10)
    durable(holder, 10)
    first, second = holder.branch
    follower.log.start_over(first.header.last, 12345, LogTime(0), history=holder.log.history)
    with pytest.raises(FramesRefused, match="does not follow"):
        follower.log.append_raw(encode(second))


def test_a_snapshot_of_the_branch_that_was_left_is_not_used(holder: Member, follower: Member) -> None:
    """It could stand at the very position at which the log begins anew."""
    durable(follower := holder, 10)
    snapshot_at = follower.log.committed
    follower.log.save_snapshot(snapshot_at, follower.log.log_time, {})
    data = follower.disk.bytes_of(follower.disk.paths(DIRECTORY / "snapshots")[0])
    path = follower.disk.paths(DIRECTORY / "snapshots")[0]
    follower.log.start_over(snapshot_at, 4711, LogTime(0))
    handle = follower.disk.open(path, create=True)
    follower.disk.pwritev(handle, [data], 0)
    assert list(follower.log.load_snapshots()) == []


def twins(holder: Member, follower: Member) -> None:
    """Both have the same records, sealed and not, and everything is committed."""
    for step in range(14):
        durable(holder, 10, 900 + step, 700)
        follower.feed(holder)
        follower.flush_and_commit()
        follower.log.keep_house()
    follower.log.commit(holder.log.committed)
    assert len(segment_paths(follower.disk)) >= 3


def mend(holder: Member, follower: Member, bytes_max: int) -> int:
    """Repair everything that is known to be damaged; returns how many pieces it took."""
    pieces = 0
    while follower.log.corrupt:
        follower.log.repair(holder.log.read(follower.log.corrupt[0].first_sequence - 1, bytes_max))
        pieces += 1
    return pieces


def written(member: Member, *paths: Path) -> list[Frame]:
    """Frames that stand in segments, with zeros behind them."""
    found: list[Frame] = []
    for path in paths or segment_paths(member.disk):
        data, size = member.disk.bytes_of(path), 0
        with contextlib.suppress(DecodeError):
            for header, body in frames(data):
                found.append(Frame(header, bytes(body)))
                size += header.frame_bytes
        assert not data[size:].strip(b"\0"), f"bytes behind the last frame of {path.name}"
    return found


def is_whole(holder: Member, follower: Member) -> bool:
    """True: it has all frames, and gives those of each stream."""
    for stream in (1, 2):
        committed = [one.header for one in holder.branch if one.header.last_sequence <= follower.log.committed.sequence]
        wanted = [one for one in committed if one.stream == stream]
        assert selected(follower.log, (stream,), 4096) == wanted
    found = follower.held()
    return len(found) == len(holder.branch) and all(map(same, found, holder.branch))


@pytest.mark.parametrize("bytes_max", [1, 2000, ALL])
@pytest.mark.parametrize("is_reopened", [True, False])
@pytest.mark.parametrize(("place", "size"), [(300, 8), (300, 2000), (0, 8), (0, 4000), (2000, 1)])
@pytest.mark.parametrize("segment", [0, 1, -1])
def test_rot_is_repaired_from_the_other_member(
    holder: Member, follower: Member, segment: int, place: int, size: int, is_reopened: bool, bytes_max: int
) -> None:
    """Found at open or while reading; in the first segment, in the middle, in the one being written."""
    twins(holder, follower)
    follower.disk.flip(segment_paths(follower.disk)[segment], place, 3)
    follower.disk.zero(segment_paths(follower.disk)[segment], place, size)
    if is_reopened:
        follower.log.close()
        for path in follower.disk.paths(DIRECTORY / "segments"):
            if path.suffix == ".index":
                follower.disk.unlink(path)
        follower.open()
    else:
        with pytest.raises(Corrupted):
            list(follower.log.replay(0, ALL))
    follower.log.keep_house()
    assert follower.log.corrupt
    assert mend(holder, follower, bytes_max) >= 1
    assert is_whole(holder, follower)
    durable(holder, 40)
    follower.feed(holder)
    follower.flush_and_commit()
    reopen(follower)
    assert (follower.report.corrupt, follower.report.torn) == ((), None)
    assert is_whole(holder, follower)


@pytest.mark.parametrize("bytes_max", [1, 3000, ALL])
@pytest.mark.parametrize("segment", [0, 1, -1])
@pytest.mark.parametrize("size", [None, 300, 0])
def test_a_lost_end_and_a_lost_segment_are_repaired(
    holder: Member, follower: Member, segment: int, size: int | None, bytes_max: int
) -> None:
    twins(holder, follower)
    follower.log.close()
    path = segment_paths(follower.disk)[segment]
    if size is None:
        follower.disk.unlink(path)
    else:
        follower.disk.truncate(path, size)
    for index in follower.disk.paths(DIRECTORY / "segments"):
        if index.suffix == ".index":
            follower.disk.unlink(index)
    follower.open()
    assert follower.log.corrupt
    mend(holder, follower, bytes_max)
    assert is_whole(holder, follower)
    durable(holder, 40)
    with pytest.raises(FramesRefused, match="does not follow"):
        follower.log.append_raw(changed(holder.branch[-1], previous_header_crc=1))
    follower.feed(holder)
    follower.flush_and_commit()
    assert is_whole(holder, follower)
    assert written(follower) == written(holder)
    follower.log.keep_house()
    for is_clean in (False, True):
        follower.log.close() if is_clean else follower.disk.process_death()
        follower.open()
        assert (follower.report.corrupt, follower.report.torn) == ((), None)
        assert is_whole(holder, follower)


def _damaged(holder: Member, follower: Member) -> list[Frame]:
    """The second and third frame of the follower can't be read; they are returned."""
    twins(holder, follower)
    first = holder.branch[0].header
    follower.disk.zero(segment_paths(follower.disk)[0], first.frame_bytes, first.frame_bytes + 900)
    with pytest.raises(Corrupted):
        list(follower.log.replay(0, ALL))
    return holder.branch[1:3]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"log_id": bytes(16)}, "another log"),
        ({"epoch": 1}, "epoch 1 where the history says 2"),
        ({"previous_header_crc": 1}, "does not follow"),
        ({"node_ns": 1}, "does not follow them"),
        ({"body_crc": 1}, "body CRC"),
    ],
)
def test_frames_that_do_not_belong_there_are_refused(
    holder: Member, follower: Member, fields: dict[str, object], reason: str
) -> None:
    second, third = _damaged(holder, follower)
    damaged = follower.log.corrupt
    is_end = "node_ns" in fields
    chunk = encode(second) + changed(third, **fields) if is_end else changed(second, **fields)
    with pytest.raises(FramesRefused, match=reason):
        follower.log.repair(chunk)
    assert follower.log.corrupt == damaged
    mend(holder, follower, ALL)
    assert is_whole(holder, follower)


def test_only_known_damage_is_repaired(holder: Member, follower: Member) -> None:
    _damaged(holder, follower)
    for chunk in (b"", encode(holder.branch[0]), encode(holder.branch[2])):
        with pytest.raises(FramesRefused, match="no known damage"):
            follower.log.repair(chunk)


def test_a_disk_that_refuses_the_repair_keeps_the_damage_known(holder: Member, follower: Member) -> None:
    _damaged(holder, follower)
    damaged = follower.log.corrupt
    follower.disk.refuse = lambda operation, path: errno.EIO if operation == "pwritev" else 0
    with pytest.raises(RepairFailed, match="Input/output"):
        mend(holder, follower, ALL)
    assert follower.log.corrupt == damaged
    follower.disk.refuse = lambda operation, path: 0
    mend(holder, follower, ALL)
    assert is_whole(holder, follower)
