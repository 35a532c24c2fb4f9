"""Registers of a PLC of the tunnel for a pair of nodes: voter's blocks, output mailboxes, outputs with a stamp.

    first  registers  what
    9000      64      two blocks of the voter (codec/register_block.py): plain, anybody writes
    9100      28      two output mailboxes and the guard's status (machine/output/mailbox.py)
    9200      64      plain outputs without meaning to the plant, for guard levels that refuse nothing

All are retained. The program looks at the mailboxes one scan after they changed, which is all a scan can find.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from albireo.field.modbus.config import MAILBOX_AREA_REGISTERS, VOTER_REGISTERS
from albireo.machine.output.mailbox import (
    MAILBOX_REGISTERS,
    MEMBERS,
    ORDER_REGISTERS,
    Applied,
    GuardState,
    encode_answer,
    encode_status,
    restarted,
    scan,
)
from albireo.plant.tunnel.plc.memory import Area, Delays, PlainMemory, Retained, WordStore
from albireo.plant.tunnel.plc.wire import PlcFaults

VOTER_ADDRESS: Final = 9_000
MAILBOX_ADDRESS: Final = 9_100
PLAIN_ADDRESS: Final = 9_200
PLAIN_REGISTERS: Final = 64
SCAN_S: Final = 0.01
"""Cycle of the PLC's program: an order waits at most this long."""

OnApplied = Callable[[Sequence[Applied]], None]


class OutputGuard:
    """The output mailboxes at `first`, and what the program remembers of them; each scan runs `mailbox.scan`.

    Targets 1..n are the PLC's set points in the order of its register table. The 32 bits of a value hold what the
    target takes: a switch or a 16-bit number in the low word, a 32-bit number or float32 with its high word first,
    whatever the word order of its registers.
    """

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


class PairArea:
    """The registers for a pair; runs in the event loop of its caller."""

    def __init__(self, store: WordStore, targets: int) -> None:
        """This is a start of the PLC: `store` gets another boot number."""
        self.voter = Area(VOTER_ADDRESS, VOTER_REGISTERS)
        self.on_applied: OnApplied = lambda applied: None
        """Gets the orders of each scan that carried some out."""
        self._store = store
        self.plain = Area(PLAIN_ADDRESS, PLAIN_REGISTERS)
        mailboxes = Area(MAILBOX_ADDRESS, MAILBOX_AREA_REGISTERS)
        self._memory = PlainMemory((self.voter, mailboxes, self.plain), store)
        self.guard = OutputGuard(self._memory, mailboxes.first, store.boot, targets)
        self._is_frozen = False
        self._timer: asyncio.TimerHandle | None = None
        self._started()

    @property
    def areas(self) -> tuple[Area, ...]:
        return self._memory.areas

    def holds(self, address: int, count: int) -> bool:
        """Whether a request for these registers fits into one of the areas."""
        return self._memory.holds(address, count)

    def seen(self, connection: int, area: Area) -> list[int]:
        """All registers of `area` as a reader on `connection` sees them now."""
        return self._memory.seen(connection, area.first, area.count, _now())

    async def write(self, connection: int, address: int, words: Sequence[int], faults: PlcFaults) -> None:
        """A client's write of registers that `holds` them; returns when it is to be answered."""
        delays = Delays(
            own=faults.own_delay_ms / 1e3,
            others=faults.others_delay_ms / 1e3,
            between_halves=faults.tear_ms / 1e3,
            splits_register=faults.splits_register,
        )
        self._memory.write(connection, address, words, delays, _now())
        self._arm(_now() + SCAN_S)
        if len(words) > 1:
            await asyncio.sleep(delays.between_halves)

    def freeze(self, is_frozen: bool) -> None:
        """The program stands still: writes are kept, but no order is looked at until it goes on."""
        was_frozen, self._is_frozen = self._is_frozen, is_frozen
        if was_frozen and not is_frozen:
            self._arm(_now() + SCAN_S)

    def zero_voter(self) -> None:
        self._memory.zero(self.voter)

    def restart(self, keep: Retained, age_s: float) -> None:
        """The PLC starts anew."""
        self._memory.restart(keep, age_s, _now())
        self.guard.restart()
        self._started()
        self._arm(_now() + SCAN_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _started(self) -> None:
        self._store.boot = self.guard.state.boot

    def _arm(self, at: float) -> None:
        """A scan at `at`, unless one comes before."""
        if self._timer is None or at < self._timer.when():
            self.close()
            self._timer = asyncio.get_running_loop().call_at(at, self._scan)

    def _scan(self) -> None:
        self._timer = None
        self._memory.advance(_now())
        if not self._is_frozen:
            applied = self.guard.scan()
            if applied:
                self.on_applied(applied)
        due = self._memory.due()
        if due is not None:
            self._arm(due + SCAN_S)


def _now() -> float:
    """The loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
