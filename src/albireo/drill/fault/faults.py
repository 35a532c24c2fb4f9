"""The faults: what is done to a pair, how it is undone, and what must be there for it.

A fault is prepared before the load of a round begins, done (`strike`) while it runs, and undone (`heal`) after the
service is back. Each is told the member that led when the round began.

Cables, disks, stores and clocks have modules of their own; here are those that need no more than signals, and the
table of all.
"""

import time
from collections.abc import Callable
from typing import Final

import msgspec

from albireo.drill.fault.cables import CutCables, CutPlcs
from albireo.drill.fault.clocks import Clocks, Jump
from albireo.drill.fault.disks import Disks
from albireo.drill.fault.fault import Fault
from albireo.drill.fault.lives import TwoLives
from albireo.drill.fault.network import NetworkGround
from albireo.drill.fault.storage import BrokenDisk, DamagedDisk, FullDisk, HangingDisk, OldDisk, PowerLoss
from albireo.drill.fault.stores import damage_middle, damage_tail
from albireo.drill.fault.upgrade import TwoLevels, Upgrade
from albireo.drill.ground import Ground
from albireo.drill.pair import WITNESSES, Pair, other_of

LED_S: Final = 3.0
"""Time for which a member leads after a switchover before it is killed."""
Whom = Callable[[str], tuple[str, ...]]
"""Gives, for the active member, the processes to which a fault is done."""


class KillProcesses(Fault):
    """Processes end at once, as by `kill -9`; they are started again when all is over, or at once."""

    def __init__(self, whom: Whom, *, is_restarted_at_once: bool = False) -> None:
        self._whom = whom
        self._is_restarted_at_once = is_restarted_at_once

    def strike(self, pair: Pair, active: str) -> None:
        for name in self._whom(active):
            pair.groups[name].kill()
        if self._is_restarted_at_once:
            self._start(pair, active)

    def heal(self, pair: Pair, active: str) -> None:
        if not self._is_restarted_at_once:
            self._start(pair, active)

    def _start(self, pair: Pair, active: str) -> None:
        for name in self._whom(active):
            pair.groups[name].start()


class PauseProcesses(Fault):
    """The whole active member stands still (SIGSTOP), as a frozen virtual machine does, and goes on later."""

    def strike(self, pair: Pair, active: str) -> None:
        pair.groups[active].pause()

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[active].resume()


class Switchover(Fault):
    """No fault: what an operator orders before maintenance."""

    def strike(self, pair: Pair, active: str) -> None:
        pair.hand_over(active)


class KillAfterSwitchover(Fault):
    """The member that was just given the lead ends as by `kill -9`; nothing of the switchover may be a brake."""

    def __init__(self) -> None:
        self._killed = ""

    def strike(self, pair: Pair, active: str) -> None:
        pair.hand_over(active)
        self._killed = other_of(active)
        time.sleep(LED_S)
        pair.groups[self._killed].kill()

    def heal(self, pair: Pair, active: str) -> None:
        pair.groups[self._killed].start()


class FaultEntry(msgspec.Struct, frozen=True):
    """One line of the table of faults."""

    what: str
    """Description for people."""
    make: Callable[[Ground], Fault]
    ground: type[Ground] = Ground
    flaps: bool = False
    """The passive member leaves the set and comes back while the same one leads."""
    is_orderly: bool = False
    """The lead is given away, not taken: no output sees a late write, whatever its guard."""


def _active(active: str) -> tuple[str, ...]:
    return (active,)


def _passive(active: str) -> tuple[str, ...]:
    return (other_of(active),)


def _both(active: str) -> tuple[str, ...]:
    return (active, other_of(active))


def _on_cables(whom: Callable[[str], tuple[str, str]], *, goes_in: bool, goes_out: bool) -> Callable[[Ground], Fault]:
    def make(ground: Ground) -> Fault:
        assert isinstance(ground, NetworkGround)
        return CutCables(ground, whom, goes_in=goes_in, goes_out=goes_out)

    return make


def _on_plc_cables(ground: Ground) -> Fault:
    assert isinstance(ground, NetworkGround)
    return CutPlcs(ground)


def _on_disks(kind: Callable[[Disks], Fault]) -> Callable[[Ground], Fault]:
    def make(ground: Ground) -> Fault:
        assert isinstance(ground, Disks)
        return kind(ground)

    return make


def _on_clocks(ground: Ground) -> Fault:
    assert isinstance(ground, Clocks)
    return Jump(ground)


_FROM_ALL: Final = ""

FAULTS: Final[dict[str, FaultEntry]] = {
    "kill-active": FaultEntry("kill -9 of the whole active member", lambda _: KillProcesses(_active)),
    "kill-passive": FaultEntry("kill -9 of the passive member", lambda _: KillProcesses(_passive), flaps=True),
    "kill-after-switchover": FaultEntry(
        "the lead is handed over, and who has it is killed 3 s later", lambda _: KillAfterSwitchover()
    ),
    "pause-active": FaultEntry("the active member stands still, and goes on later", lambda _: PauseProcesses()),
    "cut-link": FaultEntry(
        "no cable between the members; both reach voters and clients",
        _on_cables(lambda active: (active, other_of(active)), goes_in=True, goes_out=True),
        NetworkGround,
        flaps=True,
    ),
    "cut-active": FaultEntry(
        "every cable of the active member is cut",
        _on_cables(lambda active: (active, _FROM_ALL), goes_in=True, goes_out=True),
        NetworkGround,
    ),
    "cut-oneway": FaultEntry(
        "nothing that the active member says reaches anybody; it hears all",
        _on_cables(lambda active: (active, _FROM_ALL), goes_in=False, goes_out=True),
        NetworkGround,
    ),
    "cut-plc-active": FaultEntry(
        "the active member reaches no PLC any more", _on_plc_cables, NetworkGround, is_orderly=True
    ),
    "kill-voter": FaultEntry("kill -9 of one witness", lambda _: KillProcesses(lambda _: WITNESSES[:1])),
    "voter-and-active": FaultEntry(
        "one witness and the active member at once", lambda _: KillProcesses(lambda active: (WITNESSES[0], active))
    ),
    "restart-both": FaultEntry(
        "both members end at once, and are started again", lambda _: KillProcesses(_both, is_restarted_at_once=True)
    ),
    "power-both": FaultEntry("both machines lose power, and come back", _on_disks(PowerLoss), Disks),
    "disk-full": FaultEntry("no room is left on the active member's disk", _on_disks(FullDisk), Disks),
    "disk-hang": FaultEntry(
        "the active member's disk takes nothing and refuses nothing", _on_disks(HangingDisk), Disks
    ),
    "sync-error": FaultEntry("every write and sync of the active member's disk fails", _on_disks(BrokenDisk), Disks),
    "corrupt-tail": FaultEntry(
        "the active member dies and comes back with its last frame damaged", lambda _: DamagedDisk(damage_tail)
    ),
    "corrupt-middle": FaultEntry(
        "the active member dies and comes back with a frame in the middle damaged", lambda _: DamagedDisk(damage_middle)
    ),
    "old-disk": FaultEntry("the active member dies and comes back with an older copy of its disk", lambda _: OldDisk()),
    "clock-jump": FaultEntry("wall time of the active member jumps an hour ahead, then back", _on_clocks, Clocks),
    "upgrade": FaultEntry(
        "the members get this feature level one by one; the newer one is killed while the other has the one before",
        lambda _: Upgrade(),
        TwoLevels,
    ),
    "two-lives": FaultEntry(
        "three programs of one name begin one after the other, two stand still meanwhile; the active member is killed",
        lambda _: TwoLives(),
    ),
    "switchover": FaultEntry("no fault: the planned handover", lambda _: Switchover(), is_orderly=True),
}
