"""Frames of a holder that claim what they do not hold, told over the real link of a real pair."""

import asyncio
from pathlib import Path

import pytest

from albireo.codec.pair_message import Frames
from albireo.log.log import Log
from albireo.log.write.appending import Appender, End, Stamp
from albireo.model.position import Position
from albireo.node.member.member import PairMembership
from tests.parts.core_pair import LOG, Plant, plant, until
from tests.parts.log import entry_of

pytestmark = [pytest.mark.slow]


def membership(made: Plant, member: int) -> PairMembership:
    found = made.cores[member]._membership
    assert isinstance(found, PairMembership)
    return found


def refused(made: Plant) -> int:
    return membership(made, 1)._status.refused["impossible_frames"]


def say(made: Plant, claimed: int, payload: bytes) -> bool:
    """The holder sends frames that are said to have so many records more than the follower's log; False, always."""
    holder, follower = membership(made, 0)._member, membership(made, 1)._member
    end, following = made.cores[1].log.end, follower.following
    if following is None:
        return False
    last = Position(end.epoch, end.sequence + claimed)
    message = Frames(
        **holder.own.peer_head,
        to_run=follower.own.run,
        epoch=following.epoch,
        session=following.session,
        previous=end.sequence,
        last=last,
        committed=last,
    )
    assert membership(made, 0)._links.others[0].send(message, [payload])
    return False


def next_frame(log: Log) -> bytes:
    """A frame that continues this log."""
    at = log.header_at(log.end.sequence) if log.committed == log.end else None
    if at is None:
        return b""
    appender = Appender(LOG, log.log_id, End(log.end, at.header_crc, at.log_time_ms))
    stamp = Stamp(log.end.epoch, 0, 0, 0)
    (queued,) = appender.own([entry_of(b"12345678")], stamp, 0)
    return bytes(queued.encoded) + bytes(queued.frame.body)


@pytest.mark.parametrize("kind", ["nothing", "rubbish", "records it has"])
def test_a_follower_counts_frames_that_do_not_hold_what_they_claim_and_goes_on(tmp_path: Path, kind: str) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.wait_until_level()
            log = made.cores[1].log
            known = log.read(0, 1 << 20)
            payload = {"nothing": b"", "rubbish": b"x" * 200, "records it has": known}[kind]
            await until(lambda: refused(made) or say(made, 5, payload), "refused by name")
            assert not made.has_ended(1)
            assert log.committed <= log.end
            await made.wait_for("active", "ready")
            await made.wait_until_level()

    asyncio.run(story())


def test_only_what_came_is_committed_whatever_is_claimed(tmp_path: Path) -> None:
    """One frame that fits, said to be ten records and committed."""

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.wait_until_level()
            log = made.cores[1].log
            await until(lambda: refused(made) or say(made, 10, next_frame(log)), "refused by name")
            assert not made.has_ended(1)
            assert log.committed <= log.end

    asyncio.run(story())
