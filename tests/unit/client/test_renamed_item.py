"""A program renames one of its items: what is stored of it is found under the new name."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from albireo.client import NodeRefused, connect
from albireo.node.history import HistoryArguments
from albireo.node.history.actor import Historian
from albireo.runtime import running
from albireo.runtime.clock import wall_ns
from tests.parts.client import lone
from tests.parts.client_history import wait_for
from tests.parts.core_pair import aside
from tests.parts.early_receipts import ITEM, batch
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


def test_a_renamed_item_has_its_history_under_the_new_name(tmp_path: Path) -> None:
    renamed = msgspec.structs.replace(ITEM, name="counted", was=ITEM.name)

    now = np.full(1, wall_ns(), np.int64)

    def story() -> None:
        with connect(tmp_path, timeout_s=PATIENCE_S) as client:
            for item, value in ((ITEM, 1), (renamed, 2), (renamed, 3)):
                with client.producer("meter", [item]) as producer:
                    producer.offer([msgspec.structs.replace(batch(value), source_ns=now + value, node_ns=now)])
            wait_for(3, lambda: client.history("counted", 0))
            assert client.history("counted", 0).column("value").to_pylist() == [1, 2, 3]
            with pytest.raises(NodeRefused, match=ITEM.name):
                client.history(ITEM.name, 0)

    async def world() -> None:
        async with lone(tmp_path), running(Historian(HistoryArguments(node="root")), tmp_path):
            await aside(story)

    asyncio.run(world())
