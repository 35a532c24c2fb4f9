"""Outcome of an admin action: a reply now, or a poll that gives one later."""

from collections.abc import Callable
from typing import Final

from albireo.machine.pair.events import Objection
from albireo.model.instant import Instant
from albireo.model.refusal import Refusal, RefusalCode

Reply = dict[str, object] | Refusal
"""Answer to whoever asked for the action: what was done, or why it was not."""
Poll = Callable[[Instant], Reply | None]
"""Function that is called now and then until it gives a reply, which it does within a bounded time."""

GIVEN_UP: Final = {
    Objection.OUTPUTS_NOT_ENDED: Refusal(
        RefusalCode.NOT_POSSIBLE,
        "an adapter did not say that it writes no more, so this member leads on",
        "the log names it (adapters_silent); once it answers or was started again, try again",
    ),
    Objection.OTHER_NOT_LEVEL: Refusal(
        RefusalCode.OTHER_MEMBER,
        "the other member was not level in time, so this member leads on",
        "try again; `albireo status` shows how far the other member is behind",
    ),
    Objection.OTHER_NOT_IN_SET: Refusal(
        RefusalCode.OTHER_MEMBER,
        "the other member left the set meanwhile, so this member leads on",
        "wait until `albireo status` shows the other member ready, then try again",
    ),
    Objection.LEASE_OVER: Refusal(
        RefusalCode.VOTERS,
        "the lease ended meanwhile, so nothing was given away",
        "`albireo status` shows which voters and members hear each other; try again once a member is active",
    ),
}
"""Refusals of a handover that was given up, by the reason."""
