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
    Append,
    Appended,
    AppendRefused,
    ProducerHello,
    RoleAsked,
    RoleTold,
    WriteDone,
)
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.permit import Permit
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.instant import Instant
from albireo.model.position import Position
from albireo.model.principal import PrincipalKind, kind_of
from albireo.model.refusal import Refusal, RefusalCode

_PASSIVE: Final = Refusal(RefusalCode.NOT_HOLDER, "this node does not lead", "ask the member that leads")
STANDING_BY_MAX: Final = 512
"""Most producers that a node which does not serve remembers, to tell them when it does; one too many asks again."""


class Batch(msgspec.Struct, frozen=True):
    """A producer's batch in the log."""

    producer_sequence: int
    position: Position
    """Position of the last record of the batch."""
    is_private: bool = False
    """One member only has what it holds."""


class Role(RootPart):
    """Role of this node, which the root machine asks before it appends anything of its own."""

    def __init__(self, config: RootConfig) -> None:
        self.config = config
        self.is_serving = False
        self.is_handing_over = False
        self.stand_down = 0
        """Number of times that this run has stopped serving; an adapter's word about its writes names one of them."""
        self.cause = "this node does not lead"
        """Reason why this node does not serve; empty: it serves."""
        self.word = "standalone"
        """State of this node in one word, for people."""
        self.members: tuple[int, ...] = ()
        """Confirmed in-sync set, if this member is the holder; empty: it is not, or there is no pair."""
        self.permit: Permit | None = None
        """Bounds of output orders; None: nobody bounds them."""
        self.first_sequence = 0
        """Sequence of the first record of the epoch that was granted to this node; 0: none was."""
        self.goes_on = False
        """True: as in `Granted`, of the present tenure."""
        self._may_serve = False
        self._is_begun = False
        self.reaches: dict[str, bool | None] = {}
        """As `RoleAsked.reaches`; by name of each adapter that stands by."""
        self._standing_by: dict[bytes, None] = {}

    @property
    def holds(self) -> bool:
        """True: the epoch is this node's, so it may append records of its own."""
        return self.first_sequence > 0

    def granted(self, first_sequence: int, *, goes_on: bool) -> None:
        self.first_sequence, self.goes_on = first_sequence, goes_on
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
        """Stop serving; returns whether this node served."""
        was_serving, self.is_serving, self._may_serve = self.is_serving, False, False
        self.stand_down += was_serving
        self.is_handing_over = False
        self.cause = cause
        return was_serving

    def hand_over(self, cause: str) -> bool:
        """Stop serving for a handover; returns whether this node served."""
        was_serving = self.suspend(cause)
        self.is_handing_over = True
        return was_serving

    def deposed(self, cause: str) -> bool:
        self.first_sequence = 0
        self.permit = None
        return self.suspend(cause)

    def receipt(
        self,
        producer_id: int,
        batch: Batch,
        uncommitted: int = 0,
        ends: tuple[int, ...] = (),
    ) -> Appended:
        """Receipt for a batch: which members have it, and how many batches up to it are not committed."""
        members = (self.config.member,) if uncommitted else self.members
        if batch.is_private and members:
            members = (batch.position.epoch % 2,)  # Epochs of one member never are another's: who took it has it.
        return Appended(
            producer_id=producer_id,
            producer_sequence=batch.producer_sequence,
            position=batch.position,
            durability="both" if len(members) > 1 else "local",
            members=members,
            uncommitted=uncommitted,
            ends=ends,
        )

    def may_write(self, now: Instant) -> bool:
        """True: an output order may leave now."""
        return self.is_serving and (self.permit is None or self.permit.allows(now))

    def not_after(self, deadline: int) -> int:
        """Instant until which an order may be sent that nobody wants after `deadline`."""
        return deadline if self.permit is None else min(deadline, self.permit.not_after)

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """A node that does not serve sends producers home, and remembers who came."""
        sender, message, _, principal = letter
        if isinstance(message, RoleAsked):
            self._remember(sender)
            is_adapter = kind_of(principal) is PrincipalKind.LOCAL
            if is_adapter and (message.adapter in self.reaches or len(self.reaches) < STANDING_BY_MAX):
                self.reaches[message.adapter] = message.reaches
            turn.send(sender, self._told(turn))
            return True
        if self.is_serving:
            return False
        match message:
            case ProducerHello():
                self._remember(sender)
                turn.send(sender, self._told(turn))
            case Append():
                turn.send(sender, AppendRefused(producer_id=0, producer_sequence=0, refusal=_PASSIVE))
            case WriteDone() if not self.is_handing_over:
                turn.note("warning", "write_done_unheard", command_id=message.receipt.command_id)
            case _:
                return False
        return True

    def tell_waiting(self, turn: Turn) -> None:
        """Tell everybody who waited that serving begins: they may say hello."""
        for sender in self._standing_by:
            turn.send(sender, self._told(turn))
        self._standing_by.clear()

    def _remember(self, sender: bytes) -> None:
        if not self.is_serving and len(self._standing_by) < STANDING_BY_MAX:
            self._standing_by[sender] = None

    def _told(self, turn: Turn) -> RoleTold:
        permit = self.permit
        return RoleTold(
            is_acting=self.is_serving,
            epoch=turn.epoch,
            committed=turn.log.committed,
            member=self.config.member,
            not_before=permit.not_before if self.is_serving and permit is not None else 0,
            not_after=permit.not_after if self.is_serving and permit is not None else 0,
            stand_down=self.stand_down,
        )

    def tell_stand_by(self, senders: list[bytes], turn: Turn) -> None:
        """Tell adapters that serving is over: none writes from now on."""
        for sender in senders:
            self._remember(sender)
            turn.send(sender, self._told(turn))

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        self._standing_by.pop(sender, None)
