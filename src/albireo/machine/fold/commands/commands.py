"""Commands: the table of commands, and the proof of the outcome of each.

A command is a record before it is anything else. It is sent, as an order, only after "accepted" is committed, so a
restart knows that the write *may* have happened; from there only a receipt of the adapter that carried it out, or
`unknown`, can follow. No order is ever sent twice.

    requested --accepted committed, order sent--> accepted --receipt--> verified | executed | mismatched | rejected
        |                                            |
        |                                            +--order did not leave, as CORE knows--> rejected | expired
        +--time ran out, adapter never there-->      +--time ran out without a receipt--> unknown
           expired

Invariants
    requested:  the order was never sent.
    accepted:   the order was sent at most once, in the epoch that accepted it.
    finished:   exactly one receipt; the last `KEPT_MAX` commands are kept, so that a retry is not carried out again.

Spec: docs/ARCHITECTURE.md, walk 2; reference/scada.md, 6 (life cycle of a command).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from albireo.codec.record import CommandAccepted, CommandFinished, CommandRequested
from albireo.machine.table.shape import TableShape
from albireo.machine.table.table import Table
from albireo.model.command import Command, Outcome, Receipt
from albireo.model.instant import MS, LogTime

KEPT_MAX: Final = 10_000
"""Finished commands remembered; the oldest are forgotten first (their receipts stay in the audit journal)."""
OPEN_MAX: Final = 1_000
"""Most unfinished commands at once; one more is refused."""
RECEIPT_GRACE_MS: Final = 2_000
"""An accepted command whose time ran out waits this much longer for its receipt before it counts as unknown."""


RECEIPTS: Final = TableShape(
    "receipts", Receipt, lambda one: one.command_id, KEPT_MAX, gone_max=KEPT_MAX, is_shown_above=False
)


class CommandState(msgspec.Struct, kw_only=True):
    """State of one command, by the committed records."""

    command: Command
    requested_at: int
    """Log time of the request, ns."""
    accepted_epoch: int = 0
    """Epoch that accepted the command; 0: none yet."""
    receipt: Receipt | None = None
    changed_at: int = 0
    """Sequence of the record that last changed it."""
    accepted_ns: int = 0
    """Wall time of the record that accepted it; 0: none yet."""

    @property
    def outcome(self) -> Outcome:
        if self.receipt is not None:
            return self.receipt.outcome
        return Outcome.ACCEPTED if self.accepted_epoch else Outcome.REQUESTED


class Commands:
    """The fold."""

    def __init__(self) -> None:
        self._known: dict[str, CommandState] = {}
        self._open: dict[str, CommandState] = {}
        self.table = Table(RECEIPTS)
        """Receipts of finished commands, for viewers."""

    def fold_requested(self, record: CommandRequested, sequence: int, log_time: LogTime) -> None:
        if record.command.command_id in self._known:
            return
        state = CommandState(command=record.command, requested_at=log_time, changed_at=sequence)
        self._known[record.command.command_id] = state
        self._open[record.command.command_id] = state

    def fold_accepted(self, record: CommandAccepted, sequence: int, epoch: int, wall_ns: int) -> None:
        state = self._open.get(record.command_id)
        if state is not None:
            state.accepted_epoch = epoch
            state.accepted_ns = wall_ns
            state.changed_at = sequence

    def fold_finished(self, record: CommandFinished, sequence: int) -> None:
        state = self._open.pop(record.receipt.command_id, None)
        if state is None:
            return
        state.receipt = record.receipt
        self.table.put(record.receipt, sequence)
        state.changed_at = sequence
        while len(self._known) > KEPT_MAX + len(self._open):
            oldest = next(one for one in self._known if one not in self._open)
            del self._known[oldest]
            self.table.remove(oldest, sequence)

    def find(self, command_id: str) -> CommandState | None:
        return self._known.get(command_id)

    def __iter__(self) -> Iterator[CommandState]:
        return iter(self._known.values())

    @property
    def open_count(self) -> int:
        return len(self._open)

    def items_ordered(self) -> set[int]:
        """Ids of the items of unfinished commands."""
        return {one.command.item_id for one in self._open.values()}

    def waiting(self) -> list[CommandState]:
        """Requested and not yet accepted, oldest first."""
        return [one for one in self._open.values() if not one.accepted_epoch]

    def overdue(self, log_time: LogTime) -> list[Receipt]:
        """Receipts of commands whose time ran out: expired, or unknown."""
        return [
            Receipt(command_id=one.command.command_id, outcome=outcome, detail=detail)
            for one in self._open.values()
            if log_time >= self._ends_at(one)
            for outcome, detail in [_end_of(one)]
        ]

    def deadline(self) -> LogTime | None:
        """Log time at which the next open command runs out."""
        return LogTime(min(self._ends_at(one) for one in self._open.values())) if self._open else None

    def _ends_at(self, state: CommandState) -> int:
        grace = RECEIPT_GRACE_MS if state.accepted_epoch else 0
        return state.requested_at + (state.command.expires_ms + grace) * MS

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(list(self._known.values()))

    @classmethod
    def restore(cls, data: bytes) -> "Commands":
        self = cls()
        for one in msgspec.msgpack.decode(data, type=list[CommandState]):
            self._known[one.command.command_id] = one
            if one.receipt is None:
                self._open[one.command.command_id] = one
        for one in sorted(self._known.values(), key=lambda one: one.changed_at):
            if one.receipt is not None:
                self.table.put(one.receipt, one.changed_at)
        return self


def _end_of(state: CommandState) -> tuple[Outcome, str]:
    if state.accepted_epoch:
        return Outcome.UNKNOWN, "perhaps sent, and no receipt came in time: look at the device before you order again"
    return Outcome.EXPIRED, "never sent: the adapter that owns the item was not connected in time"
