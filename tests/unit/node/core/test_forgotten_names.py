"""Forgotten names and full tables on two real COREs, with a real client and the command (ADR-0150)."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from albireo.cli.node.forget import command
from albireo.client import ProducerRefused
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.settings import LimitSettings
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.runtime.clock import boot_ns
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.producing import producing
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


def batch() -> SampleBatch:
    times = np.full(1, 1_800_000_000 * SECOND, np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.ones(1),
        quality=np.zeros(1, np.uint32),
    )


def told_once(made: Plant, name: str, *items: str) -> None:
    """A program of this name declares its items, has one batch recorded, and ends."""
    declared = [DataItem(name=one, value_type=ValueType.FLOAT64) for one in items]
    with producing(name, declared, made.lines, None) as producer:
        producer.offer([batch()])
        ends = boot_ns() + PATIENCE_S * SECOND
        while not producer.wait(1.0):
            assert boot_ns() < ends, "nobody tells of the batch"


def id_of(core: Core, name: str) -> int | None:
    known = core.root.folds.dim.by_name(f"root:{name}")
    return None if known is None else int(known.item_id)


def forget(made: Plant, *names: str) -> Result:
    return CliRunner().invoke(command, [*names, "--data", str(made.data(0)), "--user", "ann"])


def test_a_forgotten_item_is_gone_at_both_members_and_its_id_is_not_given_after_a_takeover(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            backup = await made.start(1)
            await made.wait_for("active", "ready")
            primary = made.cores[0]
            await aside(lambda: told_once(made, "p", "a", "b", "c"))
            first = id_of(primary, "c")
            assert first is not None
            await aside(lambda: told_once(made, "p", "a"))
            refused = await aside(lambda: forget(made, "item", "b", "a"))
            assert "which declares it" in refused.output
            done = await aside(lambda: forget(made, "item", "c"))
            assert (done.exit_code, done.output) == (0, "forgotten: c\n")
            await until(lambda: id_of(backup, "c") is None, "forgotten there too")
            await made.wait_until_level()

            await made.kill(0)
            await made.wait_for("", "solo")
            await aside(lambda: told_once(made, "q", "c"))
            again = id_of(backup, "c")
            assert again is not None
            assert again > first

    asyncio.run(story())


def test_a_client_hears_which_table_is_full_and_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path, cold_wait_ns=SECOND) as made:
            await made.kill(0)
            made.limits = LimitSettings(producers_max=1)
            await made.start(0)
            await made.wait_for("solo", "")
            await aside(lambda: told_once(made, "p", "a"))
            with pytest.raises(ProducerRefused, match=r"'q' is refused: the table of producers is full: 1 names, at"):
                await aside(lambda: told_once(made, "q", "b"))
            await aside(lambda: told_once(made, "p", "a"))

    asyncio.run(story())
