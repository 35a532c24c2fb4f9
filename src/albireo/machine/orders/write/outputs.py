"""Outputs: orders on their way to the adapters that own the items, and when the last write of this node has landed.

    accepted, committed --> the one order, to the adapter; from now on its write may land until its not-after
                                not sent, and never will be --> rejected or expired, as soon as this node may record it
    standing down       --> each adapter that takes orders says that it writes no more, and how long what left may land

Registers without a guard take a late write from whoever sends it. So at an orderly handover the lead is given away only
when nothing of this node can land any more:

    its outcome is known                nothing is under way
    it left, and nobody answers         it lands before its not-after or never: it began with that much left
    the adapter is gone                 the same, before the end of its permit: who is gone begins nothing
    the adapter says nothing            it may stand right before a send: it is waited for

Spec: design/pair.md, rules 10 and 11; ADR-0121.
"""

from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.message import WriteDone, WritesEnded
from albireo.codec.record import CommandAccepted, Record
from albireo.machine.desk.registry import Registry
from albireo.machine.desk.role import Role
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.orders.write.orders import Orders
from albireo.model.command import Outcome
from albireo.model.instant import MS, Instant
from albireo.model.principal import PrincipalKind, kind_of

OWNER_GONE: Final = "the adapter that owns the item went away"
SENDERS_MAX: Final = 512
"""Senders whose last word is remembered; beyond them only that of adapters that said hello in this tenure."""


class OutputOrders(RootPart):
    """Output orders of one tenure."""

    def __init__(
        self, folds: Folds, registry: Registry, orders: Orders, role: Role, log_time_ns: Callable[[Instant], int]
    ) -> None:
        """`log_time_ns`: log time at an instant, whatever of the log is folded by then."""
        self._log_time_ns = log_time_ns
        self._folds = folds
        self._registry = registry
        self._orders = orders
        self._role = role
        self._lands_until: dict[bytes, int] = {}
        """Instant before which the writes of each adapter land, as far as this side can tell."""
        self._stopped: set[bytes] = set()
        """Adapters that came to a clean stop."""
        self._awaited: set[bytes] = set()
        """Adapters that were told to stand by, and have not said yet that they write no more."""
        self._unsent: dict[str, tuple[Outcome, str]] = {}
        """Ends of accepted commands whose orders never left and never will, until they are recorded."""

    def send(self, command_id: str, moment: Moment, turn: Turn) -> None:
        """Send the order of a command whose `accepted` is committed, if it still may leave."""
        state = self._folds.commands.find(command_id)
        if state is None or state.receipt is not None:
            return
        if self._role.is_handing_over:
            self._orders.never_sent(command_id, Outcome.REJECTED, self._role.cause, moment, turn)
            return
        owner = self._registry.owner_of(state.command.item_id)
        spent_ms = (self._log_time_ns(moment.now) - state.requested_at) // MS
        left_ms = state.command.expires_ms - spent_ms
        if owner is not None and left_ms > 0 and self._role.may_write(moment.now):
            not_after = self._role.not_after(moment.now + left_ms * MS)
            self._orders.accepted(state, owner, not_after, turn)
            self._forget(moment.now)
            self._lands_until[owner] = max(not_after, self._lands_until.get(owner, 0))
        elif self._role.holds and state.accepted_epoch == turn.epoch:
            self._unsent[command_id] = self._why_unsent(left_ms, has_owner=owner is not None)

    def _why_unsent(self, left_ms: int, *, has_owner: bool) -> tuple[Outcome, str]:
        if left_ms <= 0:
            return Outcome.EXPIRED, "its time ran out first"
        return Outcome.REJECTED, "this node had lost the right to act" if has_owner else OWNER_GONE

    def not_taken(self, command_id: str) -> None:
        """Take note that the link did not take the order of this command; empty: it was no order."""
        if command_id:
            self._unsent[command_id] = (Outcome.REJECTED, OWNER_GONE)

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        for one in records:
            if isinstance(one, CommandAccepted):
                self.send(one.command_id, moment, turn)

    def consequences(self, now: Footing, turn: Turn) -> None:
        """Accept what may leave, and end what never left: an accepted command would end as perhaps sent."""
        moment = now.moment
        if self._role.may_write(moment.now):
            self._orders.accept(self._registry.takes_orders, turn)
        for command_id, (outcome, why) in self._unsent.items():
            self._orders.never_sent(command_id, outcome, why, moment, turn)
        self._unsent.clear()

    def _forget(self, now: Instant) -> None:
        """Forget adapters whose writes have landed, also those from before a restart."""
        self._lands_until = {sender: at for sender, at in self._lands_until.items() if at > now}

    def stand_by(self, turn: Turn) -> None:
        """Await the word of every adapter that takes orders, as each is told to stand by now."""
        adapters = [one.sender for one in self._registry.adapters() if one.takes_orders and one.sender is not None]
        self._awaited = set(adapters) - self._stopped

    def tick(self, now: Footing, turn: Turn) -> None:
        """Tell adapters to stand by that have not said that they do: who is gone is noticed so."""
        if self._role.is_handing_over and not now.is_serving:
            self._role.tell_stand_by(self.awaited, turn)

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        sender, message, _, principal = letter
        if not isinstance(message, WriteDone | WritesEnded):
            return False
        if kind_of(principal) is not PrincipalKind.LOCAL:
            turn.note("warning", "not_an_adapter", kind=type(message).__name__, principal=principal)
        elif isinstance(message, WriteDone):
            self._orders.done(message, now.moment, turn)
        else:
            self.ended(sender, message)
        return True

    def ended(self, sender: bytes, message: WritesEnded) -> None:
        """Take an adapter's word that it writes no more."""
        if not self._is_known(sender):
            return
        if message.is_stopped:
            self._stopped.add(sender)
        elif message.stand_down != self._role.stand_down:
            return  # It spoke of an earlier time, and has acted since.
        self._lands_until[sender] = message.lands_until
        self._awaited.discard(sender)

    def _is_known(self, sender: bytes) -> bool:
        """True: it may be an adapter of this node. Those that have not said hello yet are taken while there is room."""
        senders = self._lands_until.keys() | self._stopped
        if sender in senders or len(senders) < SENDERS_MAX:
            return True
        return any(one.sender == sender for one in self._registry.adapters())

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """Take an adapter for gone: what it had sent left under a permit that is not newer than the present one."""
        if sender in self._awaited:
            self._awaited.discard(sender)
            permit = self._role.permit
            self._lands_until[sender] = 0 if permit is None else permit.not_after

    @property
    def awaited(self) -> list[bytes]:
        return sorted(self._awaited)

    def until(self) -> Instant | None:
        """Instant at or after which no write of this node lands; None: that can't be told yet."""
        return None if self._awaited else Instant(max(self._lands_until.values(), default=0))

    def goes_on(self, turn: Turn) -> None:
        """Note the adapters that a handover still awaits when this node serves again: somebody should see to them."""
        silent = sorted(one.name for one in self._registry.adapters() if one.sender in self._awaited)
        if self._role.is_handing_over and silent:
            turn.note("warning", "adapters_silent", adapters=silent)
