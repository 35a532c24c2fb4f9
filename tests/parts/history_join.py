"""Parts that tests share: two COREs with their histories, over real links."""

import contextlib
from collections.abc import AsyncIterator

from albireo.machine.history.sealing import SealPaceConfig
from albireo.model.instant import SECOND
from albireo.node.history import HistoryArguments
from albireo.node.history.actor import Historian
from albireo.runtime import running
from tests.parts.core_pair import Plant

PACE = SealPaceConfig(seal_every_ns=SECOND // 5)


@contextlib.asynccontextmanager
async def stored(made: Plant, member: int) -> AsyncIterator[Historian]:
    actor = Historian(HistoryArguments(node="root", pace=PACE, is_paired=True))
    async with running(actor, made.data(member)):
        yield actor
