"""Samples that are not replicated, on two real COREs: they stay with who took them, and nothing is doubled by it."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from albireo.codec import record, reference, samples
from albireo.codec.frame import Frame, body_crc, frames
from albireo.codec.message import Append, AppendEntry
from albireo.codec.record import Kind, Stream
from albireo.machine.answers.status import status_of
from albireo.model import quality
from albireo.model.case import Case
from albireo.model.instant import SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.position import BEGINNING
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.node.core.actor import Core
from albireo.node.history.files.hot import HotTail
from albireo.runtime import Letter
from tests.parts.core_pair import aside, private_plant, until
from tests.parts.early_receipts import told
from tests.parts.producing import producing

pytestmark = [pytest.mark.slow]

ITEM: Final = DataItem(name="number", value_type=ValueType.INT64, alarm=AlarmSettings(hi=100))
PATIENT: Final = {"cold_wait_ns": SECOND}


_sampled = count(1_800_000_000)


def batch(value: int) -> SampleBatch:
    """One second after the one before."""
    times = np.full(1, next(_sampled) * SECOND, np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array([value], np.int64),
        quality=np.zeros(1, np.uint32),
    )


def served(core: Core) -> Iterator[Frame]:
    """The committed log, as followers on this member get it."""
    after = 0
    while after < core.log.committed.sequence:
        for header, body in frames((core.private or core.log).select(after, 4096, ())[0]):
            after = header.last_sequence
            yield Frame(header, body)


def values(core: Core, name: str) -> list[int | None]:
    """Of a producer, in order; None: a batch whose values are not here."""
    known = core.root.folds.producers.find(name)
    assert known is not None
    found: list[int | None] = []
    for frame in served(core):
        if record.decode_producer(frame.body)[0] != known.producer_id:
            continue
        if reference.is_reference(frame):
            found += [None] * frame.header.record_count
        elif frame.header.kind == Kind.INT64:
            found += map(int, samples.decode_body(frame.body, Kind.INT64, frame.header.record_count).values())
    return found


def reading(core: Core) -> tuple[object, bool]:
    """Value and whether it is good."""
    known = core.root.registry.find("number")
    assert known is not None
    (one,) = core.root.folds.readings([known])
    return one.value, quality.is_good(one.quality)


def cases(core: Core) -> list[Case]:
    """Of the item; CORE's own may have some too."""
    known = core.root.registry.find("number")
    return [one for one in core.root.folds.cases if known is not None and one.item_id == known.item_id]


def gaps(core: Core) -> list[tuple[object, object]]:
    """Reason and samples lost of the gaps that a history on this member has."""
    hot = HotTail(BEGINNING, 0)
    for frame in served(core):
        hot.take(frame.header, frame.body)
    return [(one["reason"], one["lost"]) for one in hot.content().gaps if one["reason"] == "not_replicated"]


def test_values_stay_with_the_member_that_took_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with private_plant(tmp_path, **PATIENT) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            primary, backup = made.cores[0], made.cores[1]
            with producing("p", [ITEM], made.lines, None) as producer:
                producer.offer([batch(1)])
                producer.offer([batch(200)])
                receipt = await aside(lambda: told(producer, 2))
                assert (receipt.durability, receipt.members, receipt.may_be_cut) == ("local", (0,), False)
                await until(lambda: len(cases(backup)) == 1, "a case on both members")
                await until(lambda: values(backup, "p") == [None, None], "committed on both members")
                assert values(primary, "p") == [1, 200] and reading(primary) == (200, True)
                assert reading(backup) == (None, False)
                assert not gaps(primary) and gaps(backup)
                status = status_of(primary.root, primary.log.view(), primary._moment())
                assert status.replication["samples"] == "configuration"
                case = cases(backup)

                await made.kill(0)
                await made.wait_for("", "solo")
                assert reading(backup) == (None, False), "unknown until it is taken here"
                assert cases(backup) == case, "what is on record stands"
                producer.offer([batch(150)])
                receipt = await aside(lambda: told(producer, 3))
                assert (receipt.durability, receipt.members) == ("local", (1,))
                assert values(backup, "p") == [None, None, 150] and reading(backup) == (150, True)
                assert [one.is_active for one in cases(backup)] == [True]
                producer.offer([batch(3)])
                await aside(lambda: told(producer, 4))
                await until(lambda: not any(one.is_active for one in cases(backup)), "cleared by a sample")

                primary = await made.start(0)
                await made.wait_for("ready", "active")
                await until(lambda: primary.root.folded_to == backup.root.folded_to, "level")
                assert values(primary, "p") == [1, 200, None, None]
                assert values(backup, "p") == [None, None, 150, 3]
                assert reading(primary) == (None, False), "what it knew is not current any more"
                assert len(gaps(primary)) == 1

    asyncio.run(story())


def test_the_member_that_took_them_finds_them_again_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with private_plant(tmp_path, **PATIENT) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.kill(1)
            await made.wait_for("solo", "")
            with producing("p", [ITEM], made.lines, None) as producer:
                for value in (1, 2, 3):
                    producer.offer([batch(value)])
                await aside(lambda: told(producer, 3))
                private = made.cores[0].private
                assert private is not None
                name = private.log.log_id
                await made.kill(0)
                primary = await made.start(0)
                await made.wait_for("solo", "")
                assert primary.private is not None and primary.private.log.log_id == name
                assert primary.private.log.end.sequence >= 3
                assert values(primary, "p") == [1, 2, 3] and reading(primary) == (3, True)
                producer.offer([batch(4)])
                await aside(lambda: told(producer, 4))
                assert values(primary, "p") == [1, 2, 3, 4], "its number goes on"

    asyncio.run(story())


def test_who_may_only_view_fills_no_disk(tmp_path: Path) -> None:
    """A letter that is refused for want of a role stores nothing, and is not waited with."""

    async def story() -> None:
        async with private_plant(tmp_path, **PATIENT) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            core = made.cores[0]
            assert core.private is not None
            end = core.private.log.end
            body = samples.encode_body(1, 1, batch(1))
            append = Append(entries=(AppendEntry(Stream.SAMPLES, Kind.INT64, 1, body_crc(body)),))
            clients = core._membership._links.clients  # type: ignore[attr-defined]  # It is a pair's.
            core.drained([Letter(clients, b"x", append, [body], principal) for principal in ("rosa@desk", "")])
            assert core.private.log.end.sequence == end.sequence + 1, "of the second, which has no key"

    asyncio.run(story())
