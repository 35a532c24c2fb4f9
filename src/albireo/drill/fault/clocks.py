"""Wall clocks that jump: what NTP, an operator or a virtual machine's host may do to them.

Wall time is read at one place (runtime/clock.py), and that place adds what stands in a file named by the
environment.
"""

from pathlib import Path
from typing import Final

from albireo.drill.fault.fault import Fault
from albireo.drill.ground import Ground
from albireo.drill.pair import MEMBERS, Pair
from albireo.runtime.clock import SHIFT_VARIABLE, write_shift

JUMP_NS: Final = 3_600 * 1_000_000_000


class Clocks(Ground):
    """A file per member that moves its wall clock."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.files = {name: directory / f"{name}.shift" for name in MEMBERS}
        self.environment = {name: {SHIFT_VARIABLE: str(file)} for name, file in self.files.items()}

    def make(self) -> None:
        for file in self.files.values():
            write_shift(file, 0)


class Jump(Fault):
    """An hour ahead at once, and back when it is healed: both directions."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks

    def strike(self, pair: Pair, active: str) -> None:
        write_shift(self._clocks.files[active], JUMP_NS)

    def heal(self, pair: Pair, active: str) -> None:
        write_shift(self._clocks.files[active], 0)
