"""Parts that tests share: history through the client."""

import contextlib
from collections.abc import Callable, Sized

from albireo.client import NodeRefused
from albireo.model.instant import SECOND
from albireo.runtime.clock import boot_ns
from tests.parts.waiting import PATIENCE_S


def wait_for(rows: int, ask: Callable[[], Sized]) -> None:
    """Until the history has taken what CORE committed."""
    ends = boot_ns() + PATIENCE_S * SECOND
    while boot_ns() < ends:
        with contextlib.suppress(NodeRefused):
            if len(ask()) == rows:
                return
    raise AssertionError(f"not {rows} rows")
