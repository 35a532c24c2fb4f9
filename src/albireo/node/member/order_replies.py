"""How an order to a pair ends: a reply, or somebody who will know it later."""

from collections.abc import Callable
from typing import Final

import msgspec

from albireo.machine.pair.events import Refusal
from albireo.model.instant import Instant

WHAT_TO_DO: Final = "; what to do: "
"""Between them; a command shows what follows on a line of its own."""


class Reply(msgspec.Struct, frozen=True):
    """What is said to whoever ordered; `error` is empty when it was done."""

    result: dict[str, object] = {}
    error: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """Error and remedy as one answer has them."""
        return f"{self.error}{WHAT_TO_DO}{self.remedy}" if self.error and self.remedy else self.error


GIVEN_UP: Final = {
    Refusal.OUTPUTS_NOT_ENDED: Reply(
        error="an adapter did not say that it writes no more, so this one leads on",
        remedy="the log names it (adapters_silent); once it answers or was started again, order again",
    ),
    Refusal.OTHER_NOT_LEVEL: Reply(
        error="the other member was not level in time, so this one leads on",
        remedy="order again; `albireo status` shows how far the other one is behind",
    ),
    Refusal.OTHER_NOT_IN_SET: Reply(
        error="the other member left the set meanwhile, so this one leads on",
        remedy="wait until `albireo status` shows the other one ready, then order again",
    ),
    Refusal.LEASE_OVER: Reply(
        error="the lease ended meanwhile, so nothing was given away",
        remedy="`albireo status` shows which voters and members hear each other; order again once a member is active",
    ),
}
"""What became of a handover that did not go through, in words, and what to do."""

Poll = Callable[[Instant], Reply | None]
"""Asked now and then until there is a reply; it gives one in any case after a bounded time."""
