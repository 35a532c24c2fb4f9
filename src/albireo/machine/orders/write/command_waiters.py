"""Command waiters: who waits to hear what became of a command, while this node leads and after it.

A node that leads answers when the outcome is committed. One that leads no more follows the log of the one that does:
the outcome comes by there, under the same command id, and is told as if nothing had happened. If it does not come in
time (the order was cut with the old tail, or this node is cut off), it is told as `unknown`: nobody is left waiting.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.machine.fold.commands.commands import Commands
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import NOBODY, Turn, answer_to
from albireo.model.command import Command, Outcome, Receipt
from albireo.model.instant import SECOND, Instant

WAITING_MAX: Final = 16
"""Most questions that wait for one command."""
LATE_NS: Final = 3 * SECOND
"""Time after the expiry of an order in which its outcome may still come; clients wait some seconds longer than this."""
_UNKNOWN: Final = "the lead has changed, and this member has not heard what became of it"


OrderTold = Callable[[Receipt], object]
"""Makes the answer to a question out of the receipt of its order: a value, or a refusal."""


def _receipt(receipt: Receipt) -> Receipt:
    return receipt


class CommandWaiter(msgspec.Struct, frozen=True):
    """One question that waits for the outcome of a command."""

    sender: bytes
    request_id: int
    due: Instant
    """Instant at which the asker is told, if only that nobody knows."""
    told: OrderTold


class CommandWaiters(RootPart):
    """Waiters by command id; they outlive a tenure."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[CommandWaiter]] = {}
        self.led: Commands | None = None
        """Commands that this node itself brings to an end while it serves."""
        self._commands: dict[str, Command] = {}
        """The commands waited for; the record of one may not be committed yet, or be cut."""

    def __len__(self) -> int:
        return len(self._waiting)

    def command(self, command_id: str) -> Command | None:
        """The command with this id, if anybody waits for it."""
        return self._commands.get(command_id)

    def wait(self, command: Command, sender: bytes, request_id: int, due: Instant, told: OrderTold = _receipt) -> bool:
        """Have a question wait for a command; False: too many wait for it already."""
        self._commands.setdefault(command.command_id, command)
        waiting = self._waiting.setdefault(command.command_id, [])
        if len(waiting) >= WAITING_MAX:
            return False
        waiting.append(CommandWaiter(sender, request_id, due, told))
        return True

    def answer(self, receipt: Receipt, turn: Turn) -> None:
        """Send the receipt to everybody who waits for it."""
        self._commands.pop(receipt.command_id, None)
        for one in self._waiting.pop(receipt.command_id, []):
            if one.sender == NOBODY:
                continue
            turn.send(one.sender, answer_to(one.request_id, one.told(receipt)))

    def end_known(self, commands: Commands, turn: Turn) -> None:
        """Answer those whose command has ended in what is folded now, perhaps from another holder's log."""
        known = [commands.find(command_id) for command_id in self._waiting]
        for state in known:
            if state is not None and state.receipt is not None:
                self.answer(state.receipt, turn)

    def tick(self, now: Footing, turn: Turn) -> None:
        """Answer those whose time is over with `unknown`."""
        led = self.led if now.is_serving else None
        for command_id, waiting in list(self._waiting.items()):
            is_led = led is not None and led.find(command_id) is not None
            if not is_led and now.moment.now >= max(one.due for one in waiting):
                self.answer(Receipt(command_id=command_id, outcome=Outcome.UNKNOWN, detail=_UNKNOWN), turn)
