"""How an order to a pair ends: a reply, or somebody who will know it later."""

from collections.abc import Callable
from typing import Final

import msgspec

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


Poll = Callable[[Instant], Reply | None]
"""Asked now and then until there is a reply; it gives one in any case after a bounded time."""
