"""Followers of a stream that stands still: what each of them costs CORE while another stream goes on."""

import time
from pathlib import Path
from typing import Final, Self

import psutil

from albireo.client import connect
from albireo.codec.record import Stream
from albireo.machine.feed.follower import Follower, FollowerConfig, LinkUp, TellLeader
from albireo.model.position import Position
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.sockets import SyncLink

COUNT: Final = 500
"""Followers that are added, well below `[limits] followers_max`."""
SETTLED_S: Final = 2.0


class FilteredFollowers:
    """Followers of the stream `state`, each a channel of one link on the member's machine."""

    def __init__(self, data: Path) -> None:
        with connect(data, is_pinned=True) as client:
            log = client.status().log
        head = Position(log.epoch, log.sequence)
        self._link = SyncLink(data, "core")
        for channel in range(COUNT):
            config = FollowerConfig(name=f"filtered-{channel}", streams=(int(Stream.STATE),), channel=channel)
            machine = Follower(config, head, bytes.fromhex(log.log_id))
            for effect in machine.step(LinkUp(), boot_ns()):
                if isinstance(effect, TellLeader):
                    self._link.send(effect.message)
        answers = 0
        while answers < COUNT:
            received = self._link.receive(5.0)
            assert received is not None, f"{answers} of {COUNT} followers are served"
            answers += getattr(received[0], "verdict", "") == "resume"
        time.sleep(SETTLED_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()


def cpu_s(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])
