"""Bounds within which output orders may act."""

import msgspec

from albireo.model.instant import Instant


class Permit(msgspec.Struct, frozen=True):
    """Bounds that output orders carry; the adapter compares them right before the send."""

    epoch: int
    not_before: Instant
    not_after: Instant

    def allows(self, now: Instant) -> bool:
        return self.not_before <= now < self.not_after
