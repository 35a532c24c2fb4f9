"""The line of a page: a real CORE, a real server, and pages at a real WebSocket."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets

from albireo.client import NodeRefused, aconnect
from albireo.face.web import pages, site
from albireo.face.web.trends import Trends
from albireo.model.case import Action
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch, column_of
from albireo.model.value import Value, ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.waiting import PATIENCE_S
from tests.parts.web import PageEnd, Served, served

CO = DataItem(name="co_1", value_type=ValueType.FLOAT64, unit="ppm", alarm=AlarmSettings(hi=40.0, severity=700))


def rows(values: Sequence[Value], at_ns: int = 0) -> SampleBatch:
    """A value of each item, in their order, as of a time; 0: now."""
    now = np.full(len(values), at_ns or wall_ns())
    kind = ValueType.STRING if isinstance(values[0], str) else ValueType.FLOAT64
    return SampleBatch(
        value_type=kind,
        item_id=np.arange(len(values), dtype=np.uint32),
        source_ns=now,
        node_ns=now,
        value=column_of(values, kind),
        quality=np.zeros(len(values), np.uint32),
    )


def shows(turn: int, page: PageEnd) -> bool:
    return str(page.values.get("root:text_9")).startswith(f"{turn} ")


async def put(at: Served, *values: float) -> None:
    """Have a program say these values of co_1."""
    async with await aconnect(at.data, name="sensor", is_pinned=True) as client:
        producer = client.producer("sensor", [CO])
        for value in values:
            producer.offer([rows([value])])
        await producer.flush(PATIENCE_S)


def test_a_page_sees_values_and_cases_as_they_come_and_acknowledges(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, zone="Asia/Kathmandu") as at, at.page(await at.token()) as page:
            await page.until(lambda one: one.views and one.alive)
            assert [page.hello[one] for one in ("node", "member", "zone")] == ["root", "root", "Asia/Kathmandu"]
            assert (page.hello["person"]["name"], page.hello["person"]["roles"]) == ("admin", {"": "admin"})
            assert page.views[0]["is_whole"]
            await put(at, 11.2, 46.8)
            await page.until(lambda one: one.values.get("root:co_1") == 46.8 and one.cases)
            (case,) = page.cases.values()
            assert (case["item"], case["limit"], case["unit"], case["is_acked"]) == ("root:co_1", 40.0, "ppm", False)
            await page.until(lambda one: one.alive["leads"] == "root" and not one.alive["silent_since_ms"])
            seen = [{"case_id": case["case_id"], "node": "root", "activation": 1}]
            told = await page.asked(1, "ack", cases=seen, comment="seen")
            assert told["result"] == [{"why": "", "is_unknown": False}], told
            await page.until(lambda one: one.cases[case["case_id"]]["is_acked"])
            assert page.cases[case["case_id"]]["actor"] == "admin"
            (refused,) = (await page.asked(2, "ack", cases=[{**seen[0], "activation": 7}]))["result"]
            assert "activation" in refused["why"] and not refused["is_unknown"]

    asyncio.run(story())


def test_acknowledging_all_that_match_leaves_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, await aconnect(at.data, name="desk", is_pinned=True) as client:
            await put(at, 46.8)
            async with at.page() as page:
                await page.until(lambda one: one.cases)
            assert await client.act_on_matching(Action.ACK_ALL, "fan_*") == []
            assert len(await client.waiting(Action.ACK_ALL)) == 1
            (told,) = await client.act_on_matching(Action.ACK_ALL, "co_*")
            assert told.error is None and await client.waiting(Action.ACK_ALL) == []

    asyncio.run(story())


def test_whoever_is_not_logged_in_looks_and_does_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            for token in ("", "admin.00", "nobody", "\u2603" * 9):
                async with at.page(token) as page:
                    told = [await page.asked(*one) for one in enumerate(("events", "sessions", "people", "switchover"))]
                    assert {one["refusal"]["code"] for one in told} == {"access"}
                    assert (await page.asked(9, "status"))["result"]["node"] == "root"
                    assert page.hello.get("person") is None and page.hello["may_look"]

    asyncio.run(story())


def test_a_closed_page_shows_nothing_before_the_login(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, open=False) as at:
            async with at.page() as page:
                assert (await page.asked(1, "status"))["refusal"]["code"] == "access"
                assert not page.hello["may_look"] and not page.views and not page.alive
            async with at.page(await at.token()) as page:
                await page.until(lambda one: one.views)

    asyncio.run(story())


def test_a_page_sees_the_items_that_it_looks_at(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(patterns=()) as page:
            await page.until(lambda one: one.views)
            await put(at, 11.2)
            await page.say("look", patterns=["root:co_?"])
            await page.until(lambda one: one.values)
            assert set(page.values) == {"root:co_1"}

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"kind":"begin"',
        '{"kind":"hello"}',
        '{"kind":"asked","id":1,"method":"status"}',
        '{"kind":"begin","token":7}',
        "[" * 9_000,
        b"\xff\xfe",
        '{"kind":"begin","patterns":' + json.dumps(["x"] * 201) + "}",
    ],
)
def test_a_first_word_that_is_none_closes_the_line(tmp_path: Path, text: str | bytes) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.line() as line:
            await line.send(text)
            with pytest.raises(websockets.ConnectionClosed):
                await asyncio.wait_for(line.recv(), PATIENCE_S)
            assert line.close_code == pages.MALFORMED

    asyncio.run(story())


@pytest.mark.parametrize("method", ["nothing", "__class__", "write", "ack", "trend" * 12])
def test_what_is_asked_wrongly_is_refused_and_the_page_goes_on(tmp_path: Path, method: str) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            told = await page.asked(1, method, wrong=1)
            assert told["refusal"]["code"] == "malformed"
            told = await page.asked(3, "events", start_ms=2**53 - 1, end_ms=2**53)
            assert told["refusal"]["code"] == "malformed", "no time of ours is that late"
            assert (await page.asked(2, "status"))["result"]["node"] == "root"

    asyncio.run(story())


def test_no_page_of_another_address_is_heard(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, urls=("https://scada.plant:8443",)) as at:
            for origin in ("http://evil.example", "null", f"http://127.0.0.1:{at.port + 1}", "https://scada.plant"):
                async with at.line(origin=origin) as line:
                    with pytest.raises(websockets.ConnectionClosed):
                        await asyncio.wait_for(line.recv(), PATIENCE_S)
                    assert line.close_code == site.STRANGE
                status, _, _ = await asyncio.to_thread(
                    at.request, "POST", "/login", {"name": "admin", "password": at.password}, Origin=origin
                )
                assert status == 403
            for origin in (at.url, "https://scada.plant:8443"):
                async with at.page(origin=origin) as page:
                    await page.until(lambda one: one.hello)
            status, _, _ = await asyncio.to_thread(at.request, "GET", "/", Host="evil.example:80")
            assert status == 421

    asyncio.run(story())


def test_pages_of_one_address_are_bounded_and_ended_ones_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "LINES_OF_ONE_MAX", 2)

    async def story() -> None:
        async with served(tmp_path) as at:
            async with at.page() as one, at.page() as two:
                await one.until(lambda page: page.hello)
                await two.until(lambda page: page.hello)
                async with at.line() as third:
                    with pytest.raises(websockets.ConnectionClosed):
                        await asyncio.wait_for(third.recv(), PATIENCE_S)
                    assert third.close_code == site.TOO_MANY
            async with at.page() as again:
                await again.until(lambda page: page.hello)

    asyncio.run(story())


def test_a_page_that_takes_nothing_is_closed_and_others_see_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "STUCK_S", 0.5)
    many = [DataItem(name=f"text_{index}", value_type=ValueType.STRING) for index in range(300)]

    async def story() -> None:
        async with served(tmp_path) as at:
            stuck = socket.create_connection(("127.0.0.1", at.port))
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host = f"127.0.0.1:{at.port}"
            stuck.sendall(_upgrade(host, at.url) + _masked(b'{"kind":"begin","patterns":["*"]}'))
            async with at.page() as page, await aconnect(at.data, name="texts", is_pinned=True) as client:
                producer = client.producer("texts", many)
                gone = False
                for turn in range(400):
                    producer.offer([rows([f"{turn} {'x' * 900}"] * len(many))])
                    await producer.flush(PATIENCE_S)
                    await page.until(partial(shows, turn))
                    if at_most_one_page(at):
                        gone = True
                        break
                assert gone, "the one that takes nothing is still there"
            stuck.close()

    def at_most_one_page(at: Served) -> bool:
        return sum(1 for one in asyncio.all_tasks() if "Page._hear" in repr(one.get_coro())) <= 1

    asyncio.run(story())


def _upgrade(host: str, origin: str) -> bytes:
    lines = [
        "GET /ws HTTP/1.1",
        f"Host: {host}",
        f"Origin: {origin}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _masked(text: bytes) -> bytes:
    """A text frame with a mask of zeros (RFC 6455, 5.2)."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


def test_the_page_is_given_with_its_policy_and_no_other_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at:
            for path in (
                "/static/..%2factor.py",
                "/static/actor.py",
                "/static/%00",
                "/nothing",
                "/static/",
                f"/static/{'a' * 300}.js",
            ):
                status, headers, _ = await asyncio.to_thread(at.request, "GET", path)
                assert status == 404, path
                assert headers["content-security-policy"].startswith("default-src 'none'")
            for path in ("/api/v1/items", "/api/v1/openapi.json", "/metrics", "/livez", "/login"):
                _, headers, _ = await asyncio.to_thread(at.request, "GET", path)
                assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff"), path
            status, _, body = await asyncio.to_thread(at.request, "POST", "/login", b"x" * 5_000)
            assert status == 413, body
            for wrong in (b"", b"[]", b'{"name":1,"password":2}', b"\xff", b'{"name":"admin"}'):
                status, _, _ = await asyncio.to_thread(at.request, "POST", "/login", wrong)
                assert status in (400, 422)
            asked: dict[str, Any] = {"name": "admin", "password": "wrong"}
            status, _, body = await asyncio.to_thread(at.request, "POST", "/login", asked)
            assert status == 401 and json.loads(body)["code"] == "access"

    asyncio.run(story())


def test_a_trend_tells_what_the_history_has_and_null_where_nothing_is_known(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            await put(at, 11.2, 46.8)
            end_ms = wall_ns() // MS + 2_000
            asked = {"names": ["root:co_1"], "start_ms": end_ms - 60_000, "end_ms": end_ms, "points": 60}
            trend: dict[str, Any] = {}
            for number in count():
                told = await page.asked(number, "trend", **asked)
                trend = told["result"] or {"pens": {"root:co_1": {"max": []}}}
                if 46.8 in trend["pens"]["root:co_1"]["max"]:
                    break
            pen = trend["pens"]["root:co_1"]
            assert {len(one) for one in pen.values()} == {len(trend["times_ms"])}
            at_end = pen["max"].index(46.8)
            assert pen["min"][at_end] in (11.2, 46.8) and pen["last"][at_end] == 46.8 and pen["quality"][at_end] == 0
            assert pen["mean"][0] is None and pen["quality"][0] is None
            again = await page.asked(number + 1, "trend", **asked)
            assert again["result"]["pens"]["root:co_1"]["max"][: at_end + 1] == pen["max"][: at_end + 1]
            wrongs: list[dict[str, Any]] = [
                {"names": []},
                {"points": 0},
                {"end_ms": 0},
                {"names": ["root:nothing"]},
                {"start_ms": -1},
            ]
            for wrong in wrongs:
                told = await page.asked(number + 2, "trend", **{**asked, **wrong})
                assert told["refusal"], wrong

    asyncio.run(story())


def test_a_trend_holds_what_was_told_once_and_tells_late_rows_when_they_come(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, await aconnect(at.data, name="sensor", is_pinned=True) as client:
            producer = client.producer("sensor", [CO])
            begin_ms, now = (wall_ns() // MS - 600_000) // 128_000 * 128_000, [0]  # The begin of a block.
            trends = Trends(lambda: now[0])
            span = {"start_ms": begin_ms, "end_ms": begin_ms + 100_000}

            async def until(value: float) -> list[float | None]:
                """Last values of the intervals, once one is that; each look is later than a block is kept."""
                while True:
                    now[0] += 10 * SECOND
                    with contextlib.suppress(NodeRefused):  # The history knows no such item yet.
                        trend: Any = await trends.trend(client, names=("root:co_1",), points=100, **span)
                        if value in trend["pens"]["root:co_1"]["last"]:
                            return list(trend["pens"]["root:co_1"]["last"])

            async def put(value: float, at_s: float) -> None:
                producer.offer([rows([value], round((begin_ms + 1000 * at_s) * MS))])
                await producer.flush(PATIENCE_S)

            await put(11.2, 10.5)
            once = await until(11.2)
            assert once[:10] == [None] * 10 and set(once[10:]) == {11.2}, "it was not told anew, and it holds"
            await put(47.5, 20.5)
            late = await until(47.5)
            assert late[:20] == once[:20] and set(late[20:]) == {47.5}

    asyncio.run(story())


def test_marks_of_a_trend_are_the_alarms_of_its_items_what_people_did_with_them_and_starts_of_nodes(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            async with await aconnect(at.data, name="sensor", is_pinned=True) as client:
                producer = client.producer("sensor", [CO, DataItem(name="co_2", value_type=ValueType.FLOAT64)])
                producer.offer([rows([46.8, 3.0])])
                await producer.flush(PATIENCE_S)
                await client.force("root:co_1", 12.5, "repair", for_s=60)
                await client.force("root:co_2", 12.5, "no pen", for_s=60)
                await client.release("root:co_1", "done")
            end_ms = wall_ns() // MS + 1_000
            asked = {"names": ["root:co_1"], "start_ms": end_ms - 60_000, "end_ms": end_ms}
            for number in count():
                told = await page.asked(number, "marks", **asked)
                marks = told["result"] or []
                if any(one["action"] == "force_released" for one in marks):
                    break
            again = ("cleared", "activated")  # As fast as this machine is, once the force is over.
            assert [(one["kind"], one["action"], one["item"]) for one in marks if one["action"] not in again] == [
                ("control", "epoch_granted", "root"),
                ("case", "raised", "root:co_1"),
                ("audit", "forced", "root:co_1"),
                ("audit", "force_released", "root:co_1"),
            ]
            assert [(one["condition"], one["severity"]) for one in marks if one["action"] == "raised"] == [("hi", 700)]
            assert [one["at_ms"] for one in marks] == sorted(one["at_ms"] for one in marks)

    asyncio.run(story())


def test_a_page_of_the_other_member_may_log_in_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path, urls=("https://a.plant:8443", "https://b.plant:8443")) as at:
            for origin, is_known in (("https://b.plant:8443", True), ("https://evil.example:8443", False)):
                _, headers, _ = await asyncio.to_thread(at.request, "OPTIONS", "/login", Origin=origin)
                assert (headers.get("access-control-allow-origin") == origin) is is_known
                asked = {"name": "admin", "password": "wrong password"}
                status, headers, _ = await asyncio.to_thread(at.request, "POST", "/login", asked, Origin=origin)
                assert (status, headers.get("access-control-allow-origin")) == (
                    (401, origin) if is_known else (403, None)
                )
            status, _, _ = await asyncio.to_thread(at.request, "GET", "/favicon.ico")
            assert status == 204

    asyncio.run(story())


def test_who_is_present_and_on_record_is_told_to_an_admin(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as at, at.page(await at.token()) as page:
            sessions = (await page.asked(1, "sessions"))["result"]
            assert "person:admin" in {one["principal"] for one in sessions}
            (admin,) = (await page.asked(2, "people"))["result"]
            assert (admin["name"], admin["has_password"], admin["is_one_time"]) == ("admin", True, False)
            assert not {"password", "key"} & admin.keys()

    asyncio.run(story())
