"""Role: whether this node leads, and what it may do because of it.

    passive --Granted--> recovering --Served, and its first record is folded--> serving --HandoverBegun--> handing over
       ^                     |                                                   |  ^                        |   |
       +------Deposed--------+---------------------Suspended---------------------+  +--------Served----------+   |
                                                      v                             |                            |
                                                  suspended ---------Served---------+                            |
                                                      ^------------------------Suspended-------------------------+

Handing over: nothing is taken, no order leaves any more; outcomes of those that left are still heard, and recorded.
A node that stands alone goes through the same states at its start and never leaves `serving`.

Not decided here: who leads (machine.pair).
Spec: design/pair.md, rule 7.
"""

from typing import Final

import msgspec

from albireo.codec.message import (
    AnyMessage,
    Append,
    Appended,
    AppendRefused,
    ProducerHello,
    RoleAsked,
    RoleTold,
    WriteDone,
)
from albireo.codec.record import BODY_BYTES_MAX
from albireo.machine.node.turn import Turn
from albireo.machine.pair.events import Permit
from albireo.model.instant import Instant
from albireo.model.position import Position

STANDING_BY_MAX: Final = 512
"""Producers that said hello to a node that does not serve, and are told when it does; one too many asks again."""


class RootConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the root machine is told once, at its start."""

    node: str
    log_id: bytes
    segment_bytes: int = BODY_BYTES_MAX
    """Of the log: no frame is larger."""
    member: int = 0
    """Index in the pair."""
    is_paired: bool = False
    local_streams: frozenset[int] = frozenset()
    """Their producers are answered when the own disk has a batch (durability `local`)."""
    private_streams: frozenset[int] = frozenset()
    """Their samples stay with the member that took them (replication `configuration`)."""


class Role:
    """What the root machine asks before it appends anything of its own."""

    def __init__(self, config: RootConfig) -> None:
        self.config = config
        self.is_serving = False
        self.is_handing_over = False
        self.stand_down = 0
        """How often this run has stopped serving: what an adapter says of its writes, it says of one of these times."""
        self.cause = "this node does not lead"
        """Why it does not serve."""
        self.word = "standalone"
        """For people."""
        self.members: tuple[int, ...] = ()
        """Confirmed in-sync set; empty: no pair."""
        self.permit: Permit | None = None
        """Bounds of output orders; none: nobody bounds them."""
        self.first_sequence = 0
        """First record of the epoch that was granted to this node; 0: none was."""
        self._may_serve = False
        self._is_begun = False
        self.reaches: dict[str, bool] = {}
        """By adapter that stands by: whether it reaches its device."""
        self._standing_by: dict[bytes, None] = {}

    @property
    def holds(self) -> bool:
        """The epoch is this node's: what it appends is its own to append."""
        return self.first_sequence > 0

    def granted(self, first_sequence: int) -> None:
        self.first_sequence = first_sequence
        self._is_begun = self._may_serve = False

    def may_serve(self) -> None:
        self._may_serve, self.is_handing_over = True, False

    def begins(self, folded_to: int) -> bool:
        """True once, when serving begins: the epoch's first record is folded."""
        if self.is_serving or not self._may_serve or not self.holds or folded_to < self.first_sequence:
            return False
        self.is_serving = True
        self.cause = ""
        return True

    def is_new_tenure(self) -> bool:
        """True at the first serving under this epoch: what was known of producers belongs to the one before."""
        is_new, self._is_begun = not self._is_begun, True
        return is_new

    def suspend(self, cause: str) -> bool:
        """Returns whether it served."""
        was_serving, self.is_serving, self._may_serve = self.is_serving, False, False
        self.stand_down += was_serving
        self.is_handing_over = False
        self.cause = cause
        return was_serving

    def hand_over(self, cause: str) -> bool:
        """Returns whether it served."""
        was_serving = self.suspend(cause)
        self.is_handing_over = True
        return was_serving

    def deposed(self, cause: str) -> bool:
        self.first_sequence = 0
        self.permit = None
        return self.suspend(cause)

    def receipt(self, producer_id: int, producer_sequence: int, position: Position, uncommitted: int = 0) -> Appended:
        """What is told of a batch: how many disks have it, and how many before it are not committed."""
        members = (self.config.member,) if uncommitted else self.members
        if self.config.private_streams and members:
            members = (position.epoch % 2,)  # Epochs of one member never are another's: who took it has it.
        return Appended(
            producer_id=producer_id,
            producer_sequence=producer_sequence,
            position=position,
            durability="both" if len(members) > 1 else "local",
            members=members,
            uncommitted=uncommitted,
        )

    def may_write(self, now: Instant) -> bool:
        """An output order may leave now."""
        return self.is_serving and (self.permit is None or self.permit.allows(now))

    def not_after(self, deadline: int) -> int:
        """Until when an order may be sent that nobody wants after `deadline`, instants."""
        return deadline if self.permit is None else min(deadline, self.permit.not_after)

    def turns_away(self, sender: bytes, message: AnyMessage, turn: Turn) -> bool:
        """A node that does not serve sends producers home, and remembers who wanted to come."""
        if isinstance(message, RoleAsked):
            self._remember(sender)
            if len(self.reaches) < STANDING_BY_MAX:
                self.reaches[message.adapter] = message.reaches is True
            turn.send(sender, self._told(turn.epoch))
            return True
        if self.is_serving:
            return False
        match message:
            case ProducerHello():
                self._remember(sender)
                turn.send(sender, self._told(turn.epoch))
            case Append():
                turn.send(sender, AppendRefused(producer_id=0, producer_sequence=0, reason="passive"))
            case WriteDone() if not self.is_handing_over:
                turn.note("warning", "write_done_unheard", command_id=message.receipt.command_id)
            case _:
                return False
        return True

    def tell_waiting(self, turn: Turn) -> None:
        """Serving begins: everybody who waited may say hello."""
        for sender in self._standing_by:
            turn.send(sender, self._told(turn.epoch))
        self._standing_by.clear()

    def _remember(self, sender: bytes) -> None:
        if not self.is_serving and len(self._standing_by) < STANDING_BY_MAX:
            self._standing_by[sender] = None

    def _told(self, epoch: int) -> RoleTold:
        permit = self.permit
        return RoleTold(
            is_acting=self.is_serving,
            epoch=epoch,
            member=self.config.member,
            not_before=permit.not_before if self.is_serving and permit is not None else 0,
            not_after=permit.not_after if self.is_serving and permit is not None else 0,
            stand_down=self.stand_down,
        )

    def stand_by(self, senders: list[bytes], turn: Turn) -> None:
        """Serving is over: no adapter writes from now on."""
        for sender in senders:
            self._remember(sender)
            turn.send(sender, self._told(turn.epoch))

    def lost(self, sender: bytes) -> None:
        self._standing_by.pop(sender, None)
