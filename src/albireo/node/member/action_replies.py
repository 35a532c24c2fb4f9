"""Outcome of an admin action: a reply now, or a poll that gives one later."""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.machine.pair.events import Refusal
from albireo.model.instant import Instant

WHAT_TO_DO: Final = "; what to do: "
"""Text between error and remedy; a command shows the remedy on a line of its own."""


class Reply(msgspec.Struct, frozen=True):
    """Answer to whoever asked for the action; `error` is empty when it was done."""

    result: dict[str, object] = {}
    error: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """Error and remedy as one answer has them."""
        return f"{self.error}{WHAT_TO_DO}{self.remedy}" if self.error and self.remedy else self.error


GIVEN_UP: Final = {
    Refusal.OUTPUTS_NOT_ENDED: Reply(
        error="an adapter did not say that it writes no more, so this member leads on",
        remedy="the log names it (adapters_silent); once it answers or was started again, try again",
    ),
    Refusal.OTHER_NOT_LEVEL: Reply(
        error="the other member was not level in time, so this member leads on",
        remedy="try again; `albireo status` shows how far the other member is behind",
    ),
    Refusal.OTHER_NOT_IN_SET: Reply(
        error="the other member left the set meanwhile, so this member leads on",
        remedy="wait until `albireo status` shows the other member ready, then try again",
    ),
    Refusal.LEASE_OVER: Reply(
        error="the lease ended meanwhile, so nothing was given away",
        remedy="`albireo status` shows which voters and members hear each other; try again once a member is active",
    ),
}
"""Replies to a handover that was given up, by the reason."""

Poll = Callable[[Instant], Reply | None]
"""Function that is called now and then until it gives a reply, which it does within a bounded time."""
