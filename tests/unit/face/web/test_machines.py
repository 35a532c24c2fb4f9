"""What watches over a node asks its face: is it there, does it lead, and the figures of Prometheus."""

import asyncio
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.questions.kind import Nothing, QuestionKind
from albireo.face.web.metrics import escaped, number
from tests.parts.web import HIGH, WebNode, item

pytestmark = pytest.mark.slow


def figures(text: str) -> dict[str, float]:
    """Samples by name and labels, without the place."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            told = re.fullmatch(r'(\w+)\{(.*?),?place="root"\} (\S+)', line)
            assert told is not None, line
            found[f"{told[1]}{{{told[2]}}}"] = float(told[3])
    return found


def test_a_face_says_that_it_lives_is_ready_and_leads(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            for path in ("/livez", "/readyz", "/leader"):
                told = await node.get(path)
                assert (told.status, told.text) == (200, "ok\n" if path != "/leader" else "standalone\n")

    asyncio.run(main())


def test_a_face_alone_lives_and_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.face_up():
            assert (await node.until("/livez", lambda _: True)).status == 200
            for path in ("/readyz", "/leader"):
                told = await node.get(path)
                assert told.status == 503 and "own member" in told.text
            told = await node.get("/metrics")
            assert told.status == 200 and figures(told.text)['albireo_up{node="root"}'] == 0
            assert "albireo_leads" not in told.text

    asyncio.run(main())


def test_metrics_tell_items_cases_and_the_log_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            await asyncio.to_thread(node.produce, item("co", alarm=HIGH), item("no"), value=150.0)
            unacked = 'albireo_cases{node="root",priority="1",acked="false"}'
            told = await node.until("/metrics", lambda one: figures(one.text).get(unacked) == 1)
            assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
            found = figures(told.text)
            assert found['albireo_up{node="root"}'] == found['albireo_leads{node="root"}'] == 1
            assert found['albireo_items{node="root",quality="good"}'] >= 2
            assert found['albireo_log_committed_sequence{node="root"}'] > 0
            assert found['albireo_samples_committed_total{node="root"}'] >= 2
            assert found['albireo_log_room_bytes{node="root"}'] > 0
            assert "albireo_item_value" not in told.text
            items = await node.get("/metrics?items=co")
            assert figures(items.text)['albireo_item_value{node="root",item="root:co"}'] == 150.0

    asyncio.run(main())


def test_a_node_is_asked_once_a_second_however_many_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            asked: Counter[str] = Counter()
            ask = node.actor._pinned.ask_kind

            async def counting(kind: QuestionKind[Nothing, Any], *rest: Any) -> Any:
                asked[kind.name] += 1
                return await ask(kind, *rest)

            monkeypatch.setattr(node.actor._pinned, "ask_kind", counting)
            begun = time.monotonic()
            for _ in range(10):
                await asyncio.gather(*(node.get("/metrics") for _ in range(4)), node.get("/leader"))
            seconds = int(time.monotonic() - begun) + 1
            assert 1 <= asked["status"] <= seconds and asked["tree"] <= seconds

    asyncio.run(main())


@pytest.mark.interop
def test_the_real_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    promtool = shutil.which("promtool") or pytest.skip("promtool is missing: apt-get install prometheus")

    async def main() -> bytes:
        node = WebNode(tmp_path)
        async with node.up():
            await asyncio.to_thread(node.produce, item("co", alarm=HIGH), value=150.0)
            await node.until("/metrics", lambda one: 'acked="false",place="root"} 1' in one.text)
            return (await node.get("/metrics?items=*")).body

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=asyncio.run(main()), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_label_and_a_number_are_told_as_the_format_has_them() -> None:
    assert escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    assert [number(one) for one in (3, True, 0.25, float("inf"), float("-inf"), float("nan"))] == [
        "3",
        "1",
        "0.25",
        "+Inf",
        "-Inf",
        "NaN",
    ]


def test_metrics_of_a_closed_page_need_a_token_only_from_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path, open=False)
        async with node.up():
            assert (await node.get("/metrics")).status == 200
            # uvicorn believes a proxy on this machine about whom it speaks for.
            far = {"X-Forwarded-For": "192.0.2.7"}
            refused = await node.get("/metrics", **far)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            token = await node.token()
            assert (await node.get("/metrics", token, **far)).status == 200
            assert (await node.get("/metrics", "admin.forged", **far)).status == 401
            assert (await node.get("/livez", **far)).status == 200

    asyncio.run(main())


def test_hostile_scrapes_are_refused_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        node = WebNode(tmp_path)
        async with node.up():
            long = await node.get("/metrics?items=" + "*a" * 5_000)
            assert (long.status, long.json["code"]) == (422, "malformed")
            assert (await node.get("/metrics", Origin="http://evil.example")).status == 403
            assert (await node.get("/metrics", Host="evil.example")).status == 421
            assert (await node.get("/static/..%2f..%2f..%2fpyproject.toml")).status == 404
            counted = 'albireo_http_responses_total{node="root",code="422"}'
            await node.until("/metrics", lambda one: figures(one.text).get(counted) == 1)

    asyncio.run(main())


def test_kept_figures_do_not_outlive_their_second() -> None:
    from albireo.face.web.machines import KEPT_S, Kept

    async def main() -> None:
        made: list[int] = []

        async def make() -> int:
            made.append(len(made))
            return len(made)

        kept = Kept(make)
        assert await asyncio.gather(*(kept.get() for _ in range(20))) == [1] * 20
        kept._until -= KEPT_S
        assert await kept.get() == 2

    asyncio.run(main())
