"""REST beside a page: what a program asks with a token, and how it is refused."""

import asyncio
import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import Client, connect
from albireo.client.errors import ClientBusy, NodeRefused, NodeUnreachable, OutcomeUnknown
from albireo.face.web import actor, callers, watches
from albireo.face.web.refusals import STATUS, refusal_of
from albireo.face.web.rest import BODY_BYTES_MAX, WATCHES_MAX
from albireo.model.case import Action
from albireo.model.refusal import REGISTRY, Refusal
from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import HIGH, WebNode, events_of, item

pytestmark = pytest.mark.slow
FREE = ("items", "read", "watch")
"""Methods that whoever may look may ask."""


async def known(node: WebNode, *names: str, value: float = 150.0) -> str:
    """Record values of items, wait until the face has them, and give a token."""
    await asyncio.to_thread(node.produce, *(item(one, alarm=HIGH) for one in names), value=value)
    await node.until(
        f"/api/v1/read?names={','.join(names[-100:])}",
        lambda one: one.status == 200 and all(item["value"] == value for item in one.json["items"]),
    )
    return await node.token()


def test_items_come_in_pieces_with_their_values(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await known(node, "a1", "a2", "a3", "b1")
            first = (await node.get("/api/v1/items?pattern=a*&limit=2")).json
            assert [one["name"] for one in first["items"]] == ["root:a1", "root:a2"]
            assert (first["items"][0]["value"], first["items"][0]["item"]["unit"]) == (150.0, "ppm")
            rest = (await node.get(f"/api/v1/items?pattern=a*&limit=2&cursor={first['next']}")).json
            assert [one["name"] for one in rest["items"]] == ["root:a3"] and rest["next"] == ""
            assert rest["stale"] == {}
            everything = (await node.get("/api/v1/items?pattern=*:*&limit=1000")).json
            assert len(everything["items"]) > 8
            unknown = await node.get("/api/v1/read?names=a1,zz")
            assert (unknown.status, unknown.json["code"]) == (404, "unknown_item")

    asyncio.run(main())


def test_history_comes_as_lines_or_csv_piece_by_piece(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            token = await known(node, "a1", "a2")
            start = round(time.time() * 1000) - 600_000
            path = f"/api/v1/history?items=a1,a2&start_ms={start}"
            told = await node.until(path, lambda one: len(one.text.splitlines()) == 2, token)
            rows = [json.loads(one) for one in told.text.splitlines()]
            assert [(one["item"], one["value"], one["quality"]) for one in rows] == [
                ("root:a1", 150.0, "Good"),
                ("root:a2", 150.0, "Good"),
            ]
            assert "albireo-next" not in told.headers
            first = await node.get(f"{path}&limit=1", token, Accept="text/csv")
            head, row = first.text.splitlines()
            assert (head.split(",")[1], row.split(",")[1]) == ('"item"', '"root:a1"')
            rest = await node.get(f"{path}&limit=1&cursor={first.headers['albireo-next']}", token, Accept="text/csv")
            assert '"root:a2"' in rest.text and '"root:a1"' not in rest.text
            count = await node.get(f"{path}&aggregate=count&every_s=3600", token)
            assert sum(json.loads(one)["value"] for one in count.text.splitlines()) == 2

    asyncio.run(main())


def test_a_person_acknowledges_a_case_and_the_journal_tells_it(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            token = await known(node, "a1")
            cases = await node.until("/api/v1/cases", lambda one: any(c["item"] == "root:a1" for c in one.json), token)
            (case,) = [one for one in cases.json if one["item"] == "root:a1"]
            seen = {"case_id": case["case_id"], "node": "", "activation": case["activations"]}
            done = await node.post("/api/v1/ack", {"cases": [seen], "comment": "seen"}, token)
            assert (done.status, done.json) == (200, [{"why": "", "is_unknown": False}])
            again = await node.get("/api/v1/cases", token)
            assert [one["is_acked"] for one in again.json if one["item"] == "root:a1"] == [True]
            told = (await node.get("/api/v1/status", token)).json
            assert (told["node"], told["cases"]["unacked"]) == ("root", 0)
            order = {"item": "a1", "value": 3.0, "command_id": "0123456789abcdef"}
            refused = await node.post("/api/v1/write", order, token)
            assert (refused.status, refused.json["code"]) == (409, "not_writable")
            gone = await node.get("/api/v1/command?command_id=nowhere", token)
            assert (gone.status, gone.json["code"]) == (404, "unknown_name"), gone.text

    asyncio.run(main())


def test_the_journal_tells_the_newest_first_piece_by_piece_and_names_what_was_forgotten(tmp_path: Path) -> None:
    def forget(node: WebNode) -> None:
        with connect(node.data, timeout_s=PATIENCE_S) as client:
            act_on_matching(client)
            awaited(lambda: _is_forgotten(client))

    def act_on_matching(client: Client) -> None:
        became = awaited(lambda: client.act_on_matching(Action.ACK, "a1"))
        assert [one.error for one in became] == [None]

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            token = await known(node, "a1")
            await asyncio.to_thread(node.produce, item("a1", alarm=HIGH), value=50.0)
            await asyncio.to_thread(forget, node)
            path = f"/api/v1/events?start_ms=1&end_ms={2**42}&newest_first=true"
            whole = await node.until(
                f"{path}&limit=1000", lambda one: any("forg" in row["action"] for row in one.json["events"]), token
            )
            rows = whole.json["events"]
            assert [row["at_ms"] for row in rows] == sorted((row["at_ms"] for row in rows), reverse=True)
            cases = [row for row in rows if row["kind"] == "case"]
            assert {row["item"] for row in cases} == {"root:a1"} and len(cases) >= 3
            assert [row["item"] for row in rows if row["kind"] != "case"] == [None] * (len(rows) - len(cases))
            found: list[Any] = []
            cursor = ""
            while cursor or not found:
                told = (await node.get(f"{path}&limit=3&cursor={cursor}", token)).json
                found, cursor = [*found, *told["events"]], told["next"]
            assert found == rows
            told = (await node.get(f"{path}&limit=2&kind=case", token)).json
            assert told["events"] == cases[:2]
            other = await node.get("/api/v1/events?start_ms=1&end_ms=9&cursor=b.-1.-1", token)
            assert (other.status, "cursor" in other.json["cause"]) == (422, True), other.text

    asyncio.run(main())


def _is_forgotten(client: Client) -> bool:
    with contextlib.suppress(NodeRefused):
        client.ask("forget", items=["a1"])
        return True
    return False


def test_the_token_of_a_program_may_what_it_says_and_no_more(tmp_path: Path) -> None:
    def given(node: WebNode) -> str:
        assert node.log_in(), "the admin is on record"
        command = ["people", "token", "admin", "--role", "view", "--data", str(node.data), "--json"]
        told = CliRunner().invoke(cli, command)
        assert told.exit_code == 0, told.output
        token: str = json.loads(told.stdout)["token"]
        return token

    async def main() -> None:
        node = WebNode(tmp_path, open=False)
        async with node.up():
            token = await asyncio.to_thread(given, node)
            assert (await node.get("/api/v1/items", token)).status == 200
            assert (await node.get("/api/v1/status", token)).status == 200
            order = {"item": "a1", "value": 3.0, "command_id": "0123456789abcdef"}
            refused = await node.post("/api/v1/write", order, token)
            assert (refused.status, refused.json["code"]) == (403, "access")

    asyncio.run(main())


def test_nobody_asks_the_node_without_a_token_and_no_cookie_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            token = await node.token()
            paths = (await node.get("/api/v1/openapi.json")).json["paths"]
            free = {path for path, told in paths.items() if any("security" in one for one in told.values())}
            assert free == {f"/api/v1/{one}" for one in FREE}
            for path in paths.keys() - free:
                ask = node.get if "get" in paths[path] else lambda path, **head: node.post(path, {}, **head)
                for headers in ({}, {"Cookie": f"token={token}"}, {"Authorization": f"Basic {token}"}):
                    told = await ask(path, **headers)
                    assert (told.status, told.json["code"]) == (401, "access"), path
            foreign = await node.get("/api/v1/status", token, Origin="http://evil.example")
            assert foreign.status == 403
            own = await node.get("/api/v1/status", token, Origin=node.url)
            assert own.status == 200

    asyncio.run(main())


def test_a_closed_face_shows_nothing_without_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path, open=False)
        async with node.up():
            token = await node.token()
            for path in ("/api/v1/items", "/api/v1/read?names=a", "/api/v1/watch?pattern=*"):
                assert (await node.get(path)).status == 401
            assert (await node.get("/api/v1/items", token)).status == 200

    asyncio.run(main())


HOSTILE: list[tuple[str, str, bytes | None, int]] = [
    ("GET", "/api/v1/items?pattern=" + "a" * 10_000, None, 422),
    ("GET", "/api/v1/items?pattern=" + "*a" * 17, None, 422),
    ("GET", "/api/v1/items?limit=-1", None, 422),
    ("GET", "/api/v1/items?limit=1001", None, 422),
    ("GET", "/api/v1/items?limit=1&limit=2", None, 422),
    ("GET", "/api/v1/items?colour=red", None, 422),
    ("GET", "/api/v1/items?cursor=%00%ff", None, 200),
    ("GET", "/api/v1/history?items=a&start_ms=-5", None, 422),
    ("GET", "/api/v1/history?items=a&start_ms=1e99", None, 422),
    ("GET", "/api/v1/history?items=a&start_ms=1&every_s=nan&aggregate=max", None, 422),
    ("GET", "/api/v1/history?items=" + ",".join(["a"] * 101) + "&start_ms=1", None, 422),
    ("GET", "/api/v1/history?items=a&start_ms=1&cursor=rubbish", None, 404),
    ("GET", "/api/v1/../../etc/passwd", None, 404),
    ("GET", "/api/v1/..%2f..%2fetc%2fpasswd", None, 404),
    ("GET", "/api/v2/items", None, 404),
    ("PUT", "/api/v1/items", None, 405),
    ("POST", "/api/v1/items", b"{}", 405),
    ("GET", "/api/v1/write", None, 405),
    ("POST", "/api/v1/write", b"{", 400),
    ("POST", "/api/v1/write", b"\xff\xfe", 400),
    ("POST", "/api/v1/write", b"[" * 100_000, 422),
    ("POST", "/api/v1/write", b'{"item": "a"}', 422),
    ("POST", "/api/v1/ack", b'{"cases": [], "x": 1}', 422),
    ("POST", "/api/v1/ack", b" " * (BODY_BYTES_MAX + 1), 413),
]


def test_hostile_requests_are_refused_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            token = await node.token()
            for method, path, body, status in HOSTILE:
                told = await asyncio.to_thread(node.request, method, path, body, token)
                assert told.status == status, (path[:60], told.status, told.text[:200])
                assert status == 200 or told.json["cause"], path[:60]
            assert (await node.get("/livez")).status == 200

    asyncio.run(main())


def test_the_document_names_every_operation_and_each_of_its_parts(tmp_path: Path) -> None:
    async def main() -> tuple[Any, dict[str, bool]]:
        node = WebNode(tmp_path)
        async with node.up():
            methods = node.actor.face.methods.items()
            offered = {name: one.is_reading for name, one in methods if not one.is_for_pages}
            return (await node.get("/api/v1/openapi.json")).json, offered | dict.fromkeys((*FREE, "history"), True)

    told, offered = asyncio.run(main())
    assert told["openapi"] == "3.1.0"
    assert {path.rpartition("/")[2] for path in told["paths"]} == set(offered)
    assert {"write", "trend", "grant"} <= set(offered) and not {"trust", "knocks", "reports"} & set(offered)
    for name, is_reading in offered.items():
        assert set(told["paths"][f"/api/v1/{name}"]) == {"get" if is_reading else "post"}
    for reference in references(told):
        assert reference.removeprefix("#/components/schemas/") in told["components"]["schemas"]
    parameters = {one["name"]: one for one in told["paths"]["/api/v1/history"]["get"]["parameters"]}
    assert parameters["items"]["required"] and parameters["items"]["explode"] is False
    assert parameters["limit"]["schema"]["maximum"] == 15_000


def test_statuses_are_told_of_codes_that_there_are() -> None:
    assert set(STATUS) <= set(REGISTRY)


def test_an_order_of_which_nobody_knows_says_so() -> None:
    unknown = refusal_of(OutcomeUnknown("write", "no answer came", "0123456789abcdef"))
    assert (unknown.status, unknown.refusal.code, unknown.is_unknown) == (504, "outcome_unknown", True)
    for code, status in (("access", 403), ("changed", 409), ("not_yet", 503), ("of_a_newer_version", 409)):
        told = refusal_of(NodeRefused("write", Refusal(code, "no")))
        assert (told.status, told.is_unknown) == (status, False), code
    assert [refusal_of(one).status for one in (ClientBusy(9), NodeUnreachable("nobody"))] == [429, 504]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, one in node.items():
            if name == "$ref":
                yield one
            else:
                yield from references(one)
    elif isinstance(node, list):
        for one in node:
            yield from references(one)


def watched(node: WebNode, path: str, token: str = "") -> Iterator[tuple[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield from events_of(iter(answer.readline, b""))


def test_a_watch_tells_all_then_what_changes_of_its_items(tmp_path: Path) -> None:
    def look(node: WebNode) -> None:
        events = watched(node, "/api/v1/watch?pattern=a*")
        first = next(told for name, told in events if name == "changes")
        assert first["is_whole"] and [one["item"]["name"] for one in first["items"]] == ["a1"]
        assert [one[:2] for one in first["values"]] == [["root:a1", 150.0]]
        assert all(one["item"] == "root:a1" for one in first.get("cases", ()))
        node.produce(item("a1", alarm=HIGH), item("b1", alarm=HIGH), value=7.0)
        seen = []
        for name, told in events:
            if name == "changes":
                seen += [one[:2] for one in told.get("values", ())]
            if ["root:a1", 7.0] in seen:
                break
        assert {one[0] for one in seen} == {"root:a1"}
        assert next(told for name, told in events if name == "alive")["leads"] == "root"

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await known(node, "a1", "b1")
            await asyncio.to_thread(look, node)

    asyncio.run(main())


def test_a_watch_that_takes_nothing_is_ended_and_its_connection_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "STUCK_S", 0.3)
    monkeypatch.setattr(actor, "TAKES_NOTHING_MS", 1_000)

    def look(node: WebNode) -> None:
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            line.connect(("127.0.0.1", node.port))
            line.sendall(b"GET /api/v1/watch?pattern=* HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            awaited(lambda: node.actor.face.watches.total(), lambda count: count == 1)
            awaited(lambda: node.actor.face.watches.total(), lambda count: count == 0)
            connections = node.actor._server.server_state.connections
            awaited(lambda: len(connections), lambda count: count == 0)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await known(node, *(f"i{one}" for one in range(3_000)))
            await asyncio.to_thread(look, node)

    asyncio.run(main())


def test_a_watch_ends_with_the_login_of_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "JUDGED_S", 0.2)
    monkeypatch.setattr(callers, "KNOWN_S", 0.1)

    def look(node: WebNode) -> None:
        events = watched(node, "/api/v1/watch?pattern=*", node.log_in())
        assert next(events)
        monkeypatch.setattr(node.actor.face.logins, "_key", b"another")
        with contextlib.suppress(http.client.IncompleteRead):
            assert all(name in ("alive", "changes") for name, _ in events)

    async def main() -> None:
        node = WebNode(tmp_path, open=False)
        async with node.up():
            await asyncio.to_thread(look, node)

    asyncio.run(main())


def test_watches_that_never_read_are_bounded_and_felt_by_nobody(tmp_path: Path) -> None:
    def attack(node: WebNode) -> None:
        with contextlib.ExitStack() as opened:
            for _ in range(WATCHES_MAX):
                one = opened.enter_context(socket.create_connection(("127.0.0.1", node.port), PATIENCE_S))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
                one.sendall(b"GET /api/v1/watch?pattern=*:* HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            awaited(lambda: node.actor.face.watches.total(), lambda count: count == WATCHES_MAX // 2)
            refused = node.request("GET", "/api/v1/watch?pattern=*")
            assert (refused.status, refused.json["code"], refused.headers["retry-after"]) == (429, "full", "1")
            node.produce(item("a1", alarm=HIGH), value=9.0)
            awaited(
                lambda: node.request("GET", "/api/v1/read?names=a1").json["items"][0]["value"], lambda one: one == 9
            )
        awaited(lambda: node.actor.face.watches.total(), lambda count: count == 0)

    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await known(node, "a1")
            await asyncio.to_thread(attack, node)

    asyncio.run(main())
