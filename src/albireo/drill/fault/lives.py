"""Lives: three programs of one name, each begun while the one before stands still with messages under way.

    first   counts, stands still                         goes on, is told that its name is taken, ends
    second          begins, counts, stands still                   goes on, is told so as well, ends
    third                           begins; the active member is killed; counts on at the other one

Judged: each has heard what it should, and what stands in both members' logs of each is 1, 2, 3... at least up to what
was acknowledged.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from albireo.drill.counting import TAKEN
from albireo.drill.fault.fault import Fault
from albireo.drill.ground import DrillError
from albireo.drill.load import PRODUCERS, read_log
from albireo.drill.pair import MEMBERS, Pair
from albireo.model.position import Position

COUNTED: Final = 50
"""Messages that a program has acknowledged before something is done to it."""
WAIT_S: Final = 30.0


class CountingProgram:
    """One process of drill/counting.py."""

    def __init__(self, pair: Pair, owner: int) -> None:
        self.owner = owner
        self._said = pair.directory / f"counting-{owner}.log"
        places = [text for line in pair.lines for text in (line.endpoint, line.peer)]
        keys = str(pair.directory / "keys" / "operator")
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "albireo.drill.counting", keys, str(owner), *places],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def _lines(self) -> list[str]:
        """Lines that it has finished."""
        return [line.strip() for line in Path(self._said).read_text().splitlines(keepends=True) if line.endswith("\n")]

    def heard(self) -> list[tuple[int, Position]]:
        """Number and position of each acknowledgement."""
        found = [line.split() for line in self._lines() if line != TAKEN]
        if any(len(words) != 3 for words in found):
            raise DrillError(f"program {self.owner}: {' / '.join(self._lines()[-5:])}")
        return [(int(number), Position(int(epoch), int(sequence))) for number, epoch, sequence in found]

    @property
    def acked(self) -> int:
        return max((number for number, _ in self.heard()), default=0)

    @property
    def is_superseded(self) -> bool:
        return TAKEN in self._lines() and self._process.poll() is not None

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class TwoLives(Fault):
    """See the module."""

    def __init__(self) -> None:
        self._begun = len(PRODUCERS)
        self._programs: list[CountingProgram] = []

    def strike(self, pair: Pair, active: str) -> None:
        self._programs = []
        try:
            for _ in range(2):
                self._begin(pair).pause()
            self._begin(pair)
            pair.wait_healthy()  # It took some time; nobody takes over from a member that leads alone.
        except DrillError:
            self._end()
            raise
        pair.groups[active].kill()

    def _end(self) -> None:
        for one in self._programs:
            one.end()

    def _begin(self, pair: Pair) -> CountingProgram:
        self._begun += 1
        one = CountingProgram(pair, self._begun)
        self._programs.append(one)
        pair.until(f"program {one.owner} counts", lambda: one.acked >= COUNTED, WAIT_S)
        return one

    def heal(self, pair: Pair, active: str) -> None:
        if not pair.groups[active].is_running:
            pair.groups[active].start()
        *replaced, third = self._programs
        try:
            for one in replaced:
                one.resume()
            pair.until("who is replaced hears so", lambda: all(one.is_superseded for one in replaced), WAIT_S)
            acked = third.acked
            pair.until("the third program counts on", lambda: third.acked > acked, WAIT_S)
        finally:
            self._end()
        pair.wait_healthy()
        self._judge(pair)

    def _judge(self, pair: Pair) -> None:
        last = max(position for one in self._programs for _, position in one.heard())
        for name, line in zip(MEMBERS, pair.lines, strict=True):
            record = read_log(line, pair.keys, f"judge of lives at {name}", last)
            for one in self._programs:
                found = record.others.get(one.owner, [])
                if found != list(range(1, len(found) + 1)) or len(found) < one.acked:
                    raise DrillError(f"{name}: of program {one.owner}, told {one.acked}, stands there: {found}")
