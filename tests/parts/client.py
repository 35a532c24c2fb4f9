"""Parts that tests share: the client at real nodes, alone and in pairs, over real links."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from albireo.client import (
    Client,
)
from albireo.node.core.actor import create
from albireo.runtime import running
from tests.parts.core_actor import ARGUMENTS
from tests.parts.early_receipts import ITEM, batch
from tests.parts.waiting import PATIENCE_S


@contextlib.asynccontextmanager
async def lone(data: Path) -> AsyncIterator[Path]:
    """A node that stands alone."""
    async with running(create(ARGUMENTS), data):
        yield data


def produce(client: Client, first: int, last: int) -> None:
    with client.producer("meter", [ITEM]) as producer:
        for value in range(first, last + 1):
            producer.offer([batch(value)])
        assert producer.flush(PATIENCE_S)
