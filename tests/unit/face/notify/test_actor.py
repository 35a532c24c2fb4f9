"""The face beside a real CORE with topics: what it tells, what it keeps on record, and its own alarms."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from albireo.client import AsyncClient
from albireo.client.aio import AsyncSampleProducer
from albireo.face.kinds import FacePlace
from albireo.face.notify import sending
from albireo.face.notify.actor import NotifyActor
from albireo.face.notify.notice import Notice, SendOutcome, tried
from albireo.face.notify.settings import NotifySettings
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.arguments import TopicsArguments
from albireo.runtime import running
from albireo.runtime.clock import wall_ns
from albireo.runtime.link.lines import LineTo
from tests.parts.lone import NODE, LoneNode
from tests.parts.notify import mail_server
from tests.parts.topics_plant import aclient
from tests.parts.waiting import PATIENCE_S, PAUSE_S

RULES = """[smtp]
host = "127.0.0.1"
port = {port}
tls = "none"
sender = "scada@plant.example"
[[rule]]
name = "all"
roster = "roster.csv"
"""
ROSTER = "name,kind,address,order\nAnna,mail,anna@plant.example,1\nBob,mail,bob@plant.example,2\n"
STORE = "notify.night"


def face(file: Path, zone: str = "UTC") -> NotifyActor:
    place = FacePlace(name="night", node=NODE, doors=(LineTo(""),), zone=zone)
    return NotifyActor(NotifySettings(rules=str(file)), place)


def write(home: Path, port: int, roster: str = ROSTER) -> Path:
    file = home / "notify.toml"
    (home / "roster.csv").write_text(roster)
    file.write_text(RULES.format(port=port))
    return file


@contextlib.asynccontextmanager
async def plant(home: Path) -> AsyncIterator[tuple[AsyncClient, Path, "Alarms"]]:
    """A node with ten items that may be in alarm."""
    node = LoneNode(home)
    async with node.core_up(), running(TopicsActor(TopicsArguments(node=NODE)), node.data), aclient(node) as client:
        items = [
            DataItem(name=f"co_{n}", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=40.0)) for n in range(10)
        ]
        async with client.producer("plc", items) as producer:
            yield client, node.data, Alarms(producer)


class Alarms:
    """Sets items."""

    def __init__(self, producer: AsyncSampleProducer) -> None:
        self._producer = producer

    async def set(self, values: Sequence[float]) -> None:
        now = np.full(len(values), wall_ns())
        batch = SampleBatch(
            value_type=ValueType.FLOAT64,
            item_id=np.arange(len(values), dtype=np.uint32),
            source_ns=now,
            node_ns=now,
            value=np.array(values),
            quality=np.zeros(len(values), np.uint32),
        )
        self._producer.offer([batch])
        assert await self._producer.flush(PATIENCE_S)


async def until(look: Callable[[], Awaitable[Any]], is_so: Callable[[Any], object]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(seen := await look()):  # noqa: ASYNC110  # Nothing else tells.
            await asyncio.sleep(PAUSE_S)
    return seen


async def notices(client: AsyncClient) -> list[Notice]:
    store = client.store(STORE)
    found = [await store.entry(key) for key in await store.keys()]
    return [msgspec.json.decode(one.value, type=Notice) for one in found if one is not None]


async def open_cases(client: AsyncClient) -> dict[str, bool]:
    return {one.item.partition(":")[2]: one.is_active for one in await client.cases()}


def test_an_alarm_is_mailed_once_and_its_record_ends_with_the_acknowledgement(tmp_path: Path) -> None:
    async def run() -> None:
        async with mail_server() as mails, plant(tmp_path) as (client, data, alarms):
            file = write(tmp_path, mails.port)
            async with running(face(file), data):
                await alarms.set([50.0])
                await asyncio.wait_for(mails.came.wait(), PATIENCE_S)
                (mail,) = mails.mails
                assert (mail["Subject"], mail["To"]) == ("[low] root:co_0 hi", "anna@plant.example")
                found = await until(
                    partial_notices(client), lambda one: one and one[0].tried[-1].outcome is SendOutcome.SENT
                )
                assert len(found) == 1
            async with running(face(file), data):  # Another life: it is on record that this was told.
                await alarms.set([50.0, 60.0])
                await until(count_of(mails.mails), lambda count: count == 2)
                assert mails.mails[1]["Subject"] == "[low] root:co_1 hi"
                await client.ack_all("seen")
                await until(partial_notices(client), lambda one: not one)
            assert len(mails.mails) == 2

    asyncio.run(run())


def test_hours_of_a_roster_are_those_of_the_zone_of_the_place(tmp_path: Path) -> None:
    """Of two people on duty at other hours the one is told whose hours it is in the plant, not at Greenwich."""

    async def run() -> None:
        async with mail_server() as mails, plant(tmp_path) as (_, data, alarms):
            now = datetime.now(ZoneInfo("Pacific/Kiritimati"))  # 14 hours ahead.
            here, there = (
                f"{(now + timedelta(hours=by)):%H}:00-{(now + timedelta(hours=by + 3)):%H}:00" for by in (-1, 9)
            )
            rows = (f"Anna,mail,anna@plant.example,1,{there}", f"Bob,mail,bob@plant.example,1,{here}")
            file = write(tmp_path, mails.port, "\n".join(("name,kind,address,order,weekly", *rows, "")))
            async with running(face(file, "Pacific/Kiritimati"), data):
                await alarms.set([50.0])
                await asyncio.wait_for(mails.came.wait(), PATIENCE_S)
                assert mails.mails[0]["To"] == "bob@plant.example"

    asyncio.run(run())


def test_nobody_reached_and_wrong_rules_are_cases_that_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with mail_server({"RCPT": "550 nobody here"}) as mails, plant(tmp_path) as (client, data, alarms):
            file = write(tmp_path, mails.port)
            async with running(face(file), data):
                await alarms.set([50.0])
                look = open_cases_of(client)
                await until(look, lambda cases: cases.get("night/unreached"))
                why = (await client.read("night/why")).value
                assert "550 nobody here" in str(why) and "albireo notify check" in str(why)
                (tmp_path / "roster.csv").write_text(ROSTER.replace("Bob,mail", "Bob,fax"))
                await until(look, lambda cases: cases.get("night/rules_wrong"))
                assert "roster.csv:3: kind: 'fax'" in str((await client.read("night/why")).value)
                (tmp_path / "roster.csv").write_text(ROSTER)
                await until(look, lambda cases: not cases.get("night/rules_wrong"))
                await client.ack_all("seen")
                await until(look, lambda cases: not cases.get("night/unreached"))

    asyncio.run(run())


def test_a_face_that_was_overtaken_goes_on_with_what_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it sends, somebody else records the outcome: its own is refused, and it sends no second time."""
    monkeypatch.setattr(sending, "TIME_S", 1.0)

    async def run() -> None:
        async with mail_server({".": "HANG"}) as mails, plant(tmp_path) as (client, data, alarms):
            async with running(face(write(tmp_path, mails.port)), data):
                await alarms.set([50.0])
                await until(count_of(mails.mails), lambda count: count == 1)
                ((notice,), store) = await notices(client), client.store(STORE)
                assert notice.tried[-1].outcome is SendOutcome.LEAVING
                told = tried(notice, notice.tried[-1], SendOutcome.SENT, 1, wall_ns())
                await store.put(notice.number, msgspec.json.encode(told))
                mails.answers.clear()
                await alarms.set([50.0, 60.0])  # Its turn comes once the first one is done with.
                await until(count_of(mails.mails), lambda count: count == 2)
                await until(partial_notices(client), lambda one: len(one) == 2 and all(map(is_sent, one)))
                await client.ack_all("seen")
                await until(partial_notices(client), lambda one: not one)
            assert mails.mails[1]["Subject"] == "[low] root:co_1 hi"

    asyncio.run(run())


def is_sent(notice: Notice) -> bool:
    return notice.tried[-1].outcome is SendOutcome.SENT


def test_a_notice_that_nobody_can_read_is_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with mail_server() as mails, plant(tmp_path) as (client, data, alarms):
            store = client.store(STORE)
            await store.create()
            await store.put("void", b"{}")
            await store.put("other", b"\xff")
            async with running(face(write(tmp_path, mails.port)), data):
                await alarms.set([50.0])
                await asyncio.wait_for(mails.came.wait(), PATIENCE_S)
            assert {"void", "other"} < set(await store.keys())

    asyncio.run(run())


def partial_notices(client: AsyncClient) -> Callable[[], Awaitable[list[Notice]]]:
    return lambda: notices(client)


def open_cases_of(client: AsyncClient) -> Callable[[], Awaitable[dict[str, bool]]]:
    return lambda: open_cases(client)


def count_of(mails: Sequence[object]) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return len(mails)

    return count
