"""Role: what an adapter may do, as CORE told it.

    unheard --told--> standing by <--told--> acting

Unheard is a node that stands alone, or one whose CORE has not spoken yet: it samples, and its orders come from the CORE
that welcomed it, under that epoch. Standing by is always believed; acting only under an epoch as high as any heard.

Spec: design/pair.md, rules 7 and 10; ADR-0108.
"""

from typing import Final

import msgspec

from albireo.codec.message import RoleTold, WriteOrder
from albireo.field.contract import GOES_ON, WriteTenure
from albireo.model.instant import MS, Instant
from albireo.model.topology import Guard

BOUNDED_BY_TIME: Final = frozenset({Guard.LEASE, Guard.STAMP})
"""Guards under which a write that arrives late is carried out: it must not start late."""

STANDS_BY: Final = "this member stands by"
TIME_OVER: Final = "its time has run out"


class AdapterRole(msgspec.Struct, frozen=True, kw_only=True):
    """Role of an adapter, as CORE told it; `told` gives the next role."""

    is_acting: bool = True
    is_paired: bool = False
    """CORE spoke of roles: this is a member of a pair."""
    epoch: int = 0
    """Highest told."""
    member: int = 0
    not_before: int = 0
    not_after: int = 0
    """The holder's permit, for writes without an order; 0: none."""

    def told(self, message: RoleTold) -> "AdapterRole":
        """The role that follows from the message; this very one when it is too old to be believed."""
        if message.is_acting and message.epoch < self.epoch:
            return self
        return AdapterRole(
            is_acting=message.is_acting,
            is_paired=True,
            epoch=max(self.epoch, message.epoch),
            member=message.member,
            not_before=message.not_before,
            not_after=message.not_after,
        )

    def tenure(self, welcomed: int) -> WriteTenure:
        """Tenure under which to write; `welcomed`: highest epoch that the own CORE spoke in."""
        return WriteTenure(epoch=max(self.epoch, welcomed), member=self.member, is_paired=self.is_paired)

    def objection(self, order: WriteOrder, welcomed: int, now: Instant, write_max_ns: int) -> str:
        """Why `order` must not be sent now; GOES_ON when it may.

        Args:
            order: as CORE gave it.
            welcomed: epoch of the CORE that took the hello; 0: none yet.
            now: boot clock.
            write_max_ns: longest way of a write to its device; 0: what arrives late is refused there.
        """
        if not self.is_acting:
            return STANDS_BY
        epoch = max(self.epoch, welcomed)
        if order.epoch < epoch:
            return f"ordered in epoch {order.epoch}, now it is {epoch}"
        if now < order.not_before:
            return "the holder before may still write"
        return self._of_time(order.not_after, now, write_max_ns)

    def own_objection(self, now: Instant, write_max_ns: int) -> str:
        """Objection to a write without an order, under the permit of the holder."""
        if not self.is_acting or now < self.not_before:
            return "this member has no permit"
        return self._of_time(self.not_after, now, write_max_ns)

    def _of_time(self, not_after: int, now: Instant, write_max_ns: int) -> str:
        if now >= not_after:
            return TIME_OVER
        if self.is_paired and not_after - now < write_max_ns:
            return f"a write may take {write_max_ns // MS} ms, {(not_after - now) // MS} of the lease are left"
        return GOES_ON
