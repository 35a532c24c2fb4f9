"""Faults of disks and of what is on them."""

import shutil
from collections.abc import Callable
from pathlib import Path

from albireo.drill.fault.disks import Disks
from albireo.drill.fault.fault import Fault
from albireo.drill.fault.stores import keep_copy, put_back
from albireo.drill.pair import MEMBERS, Pair, other_of


class PowerLoss(Fault):
    """Both machines lose power at the same time and come back with what was synced."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def strike(self, pair: Pair, active: str) -> None:
        # Stopped first: else somebody could be told between the two that something is safe, by a process that
        # has lost its disk already. A real power cut ends both in one instant.
        for name in MEMBERS:
            pair.groups[name].pause()
        for name in MEMBERS:
            self._disks.cut(name)
        for name in MEMBERS:
            pair.groups[name].kill()
        for name in MEMBERS:
            self._disks.replace(name)
            pair.groups[name].start()


class FullDisk(Fault):
    """Room ends on the active member's disk; somebody makes room later."""

    felt_s = 120.0

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def strike(self, pair: Pair, active: str) -> None:
        self._disks.fill(active)

    def is_felt(self, pair: Pair, active: str) -> bool:
        """The segments that were prepared before are full too."""
        told = pair.status(active)
        if told is None or told.pair is None:
            return False
        return told.pair.state not in ("active", "solo") or bool(told.log.admission)

    def heal(self, pair: Pair, active: str) -> None:
        self._disks.make_room(active)


class HangingDisk(Fault):
    """The active member's disk answers nothing for a while."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def strike(self, pair: Pair, active: str) -> None:
        self._disks.freeze(active)

    def heal(self, pair: Pair, active: str) -> None:
        self._disks.thaw(active)


class BrokenDisk(Fault):
    """The active member's disk fails for good; the machine gets another with the same data, and is started again."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def strike(self, pair: Pair, active: str) -> None:
        self._disks.break_down(active)

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].kill()
        self._disks.replace(active)
        pair.groups[active].start()


class DamagedDisk(Fault):
    """The active member dies; while it is down, its log is damaged."""

    def __init__(self, damage: Callable[[Path], object]) -> None:
        self._damage = damage

    def strike(self, pair: Pair, active: str) -> None:
        pair.groups[active].kill()
        self._damage(pair.data[active])

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].start()


class OldDisk(Fault):
    """The active member dies and comes back with a copy of its disk from before the round: a restored backup."""

    def prepare(self, pair: Pair) -> None:
        """Have a copy of both stores, made while each was down: on a busy machine the lead may change once more. Later
        there is the one that was found at a member's last death."""
        for _ in MEMBERS:
            acting = pair.acting()
            assert acting is not None
            active, passive = acting[0], other_of(acting[0])
            if not _copy_of(pair, passive).exists():
                pair.groups[passive].stop()
                keep_copy(pair.data[passive], _copy_of(pair, passive))
                pair.groups[passive].start()
                pair.wait_healthy()
            if _copy_of(pair, active).exists():
                return
            pair.hand_over(active)
            pair.wait_healthy()

    def strike(self, pair: Pair, active: str) -> None:
        old, newer = _copy_of(pair, active), pair.directory / "newer"
        pair.groups[active].kill()
        keep_copy(pair.data[active], newer)
        put_back(old, pair.data[active])
        shutil.rmtree(old)
        newer.rename(old)

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].start()


def _copy_of(pair: Pair, member: str) -> Path:
    return pair.directory / f"copy-{member}"
