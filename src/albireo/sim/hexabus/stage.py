"""Stage of a world of Hexabus: time, chance, the journal, and what members and devices may ask of the world."""

import random
from collections.abc import Callable, Hashable
from heapq import heappop, heappush

from albireo.codec.hexabus.journal import JournalRecord
from albireo.machine.hexabus.device import HexAddress
from albireo.model.instant import SECOND, Instant
from albireo.sim.hexabus.ledger import HexLedger


class HexStage:
    """The stage. The world says how it carries and records."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now = Instant(0)
        self.ledger = HexLedger()
        self.journal: list[tuple[JournalRecord, Instant]] = []
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0
        self._wakes: dict[Hashable, int] = {}

    def send(self, source: str, to: HexAddress, data: bytes) -> None:
        """Carry a datagram."""
        raise NotImplementedError

    def put(self, index: int, record: JournalRecord) -> None:
        """Put what a member says into the journal, sooner or later."""
        raise NotImplementedError

    def has_program(self, host: str, program: bytes, *, may_give: bool) -> bool:
        """Whether a device says that it has this program; it is given it if it has another one."""
        raise NotImplementedError

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        self.at(self.now + int(seconds * SECOND), work)

    def at(self, at: int, work: Callable[[], object]) -> None:
        self._count += 1
        heappush(self._agenda, (at, self._count, work))

    def wake(self, who: Hashable, due: Instant, work: Callable[[], object]) -> None:
        """Call for time at an instant, unless that is to be done before."""
        if not self.now < self._wakes.get(who, 0) <= due:
            self._wakes[who] = max(due, self.now + 1)
            self.at(self._wakes[who], work)

    def play_for(self, seconds: float) -> None:
        ends = self.now + int(seconds * SECOND)
        while self._agenda and self._agenda[0][0] <= ends:
            at, _, work = heappop(self._agenda)
            self.now = Instant(max(self.now, at))
            work()
        self.now = Instant(ends)
