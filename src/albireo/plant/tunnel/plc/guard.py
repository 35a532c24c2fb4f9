"""The output guard in a simulated PLC: each scan it runs `machine.output.mailbox.scan` on its registers, as guard.st
does.

Targets 1..n are the PLC's set points in the order of its register table. The 32 bits of a value hold what the target
takes: a switch or a 16-bit number in the low word, a 32-bit number or float32 with its high word first, whatever the
word order of its registers.
"""

from collections.abc import Sequence
from typing import Final

from albireo.machine.output.mailbox import (
    MAILBOX_REGISTERS,
    MEMBERS,
    ORDER_REGISTERS,
    WORD_MAX,
    Applied,
    GuardState,
    encode_answer,
    encode_status,
    restarted,
    scan,
)
from albireo.plant.tunnel.plc.memory import PlainMemory
from albireo.plant.tunnel.plc.registers import Register, value_of

SCAN_S: Final = 0.01
"""Cycle of the PLC's program: an order waits at most this long."""


class OutputGuard:
    """The mailboxes at `first`, and what the program remembers of them."""

    def __init__(self, memory: PlainMemory, first: int, boot: int, targets: int) -> None:
        """`boot` is the number of the last start; this is the next one."""
        self._first = first
        self._memory = memory
        self.state = restarted(GuardState(boot=boot, targets=(0,) * targets))
        self._show_status()

    def scan(self) -> tuple[Applied, ...]:
        """One cycle over both mailboxes: the orders that are carried out."""
        before = self.state
        boxes = [self._memory.words(self._box(member), ORDER_REGISTERS) for member in range(MEMBERS)]
        self.state, applied = scan(before, (boxes[0], boxes[1]))
        for member in range(MEMBERS):
            if self.state.answers[member] != before.answers[member]:
                self._memory.put(self._box(member) + ORDER_REGISTERS, encode_answer(self.state.answers[member]))
        self._show_status()
        return applied

    def restart(self) -> None:
        """The PLC starts: another boot number, no guard, nothing answered yet."""
        self.state = restarted(self.state)
        self._show_status()

    def _box(self, member: int) -> int:
        return self._first + member * MAILBOX_REGISTERS

    def _show_status(self) -> None:
        self._memory.put(self._box(MEMBERS), encode_status(self.state))


def value_of_order(value: int, register: Register) -> float:
    """The 32 bits of an order as the set point takes them, in engineering units."""
    words: Sequence[int] = [value & WORD_MAX] if register.words == 1 else [value >> 16, value & WORD_MAX]
    return value_of(words[::-1] if register.row.word_order == "little" else words, register)
