"""Reports of the pipeline, as the face lists and gives them."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from albireo.face.web import reports
from tests.parts.web import served

pytestmark = pytest.mark.slow
HTML = "<!doctype html><title>north</title><p>all is well</p>"


def written(path: Path, text: str = HTML, at_s: int = 1_700_000_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at_s, at_s))
    return path


def test_the_reports_are_listed_by_time_and_each_is_given_under_a_policy_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        written(tmp_path / "pipeline" / "report.html")
        written(tmp_path / "pipeline" / "below" / "root~north-abc" / "report.html", "north", 1_700_000_100)
        async with served(tmp_path) as at, at.page() as page:
            told = (await page.asked(1, "reports"))["result"]
            assert [(one["node"], one["made_ms"]) for one in told] == [
                ("root/north", 1_700_000_100_000),
                ("root", 1_700_000_000_000),
            ]
            status, headers, body = await asyncio.to_thread(at.request, "GET", told[1]["path"])
            assert (status, body.decode()) == (200, HTML)
            assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
            for path in ("/report/", "/report/x", "/report/..%2f..%2fkeys", f"{told[0]['path']}/../x"):
                assert (await asyncio.to_thread(at.request, "GET", path))[0] == 404, path

    asyncio.run(story())


def test_whoever_may_not_look_is_told_of_no_report(tmp_path: Path) -> None:
    async def story() -> None:
        written(tmp_path / "pipeline" / "report.html")
        async with served(tmp_path, open=False) as at, at.page() as page:
            assert (await page.asked(1, "reports"))["refusal"]["code"] == "access"
            token = await at.token()
            async with at.page(token) as known:
                assert len((await known.asked(1, "reports"))["result"]) == 1

    asyncio.run(story())


def test_a_setting_names_another_directory_and_none_there_is_no_report(tmp_path: Path) -> None:
    async def story() -> None:
        written(tmp_path / "elsewhere" / "report.html")
        (tmp_path / "node").mkdir()
        async with served(tmp_path / "node") as at, at.page() as page:
            assert (await page.asked(1, "reports"))["result"] == []
        (tmp_path / "other").mkdir()
        async with served(tmp_path / "other", report=str(tmp_path / "elsewhere")) as at, at.page() as page:
            assert len((await page.asked(1, "reports"))["result"]) == 1

    asyncio.run(story())


def test_no_link_no_pipe_and_nothing_too_large_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = written(tmp_path / "secret.html")
    out = tmp_path / "out"
    (out / "below").mkdir(parents=True)
    (out / "report.html").symlink_to(secret)
    written(tmp_path / "far" / "report.html")
    (out / "below" / "a-1").symlink_to(tmp_path / "far")
    (out / "below" / "b-1").mkdir()
    os.mkfifo(out / "below" / "b-1" / "report.html")
    written(out / "below" / "c-1" / "report.html")
    assert [parts for _, parts in reports._found(out)] == [("below", "c-1", "report.html")]
    assert reports._read(out, ("report.html",)) is None
    assert reports._read(out, ("below", "a-1", "report.html")) is None
    assert reports._read(out, ("below", "c-1", "report.html")) == HTML.encode()
    monkeypatch.setattr(reports, "BYTES_MAX", 10)
    assert reports._read(out, ("below", "c-1", "report.html")) is None


def test_a_number_is_good_for_a_while_and_they_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "report.html")
    now = [1]
    told = reports.Reports(tmp_path, "root", (), lambda: now[0])  # type: ignore[arg-type, return-value]  # An instant.
    nobody: Any = None

    async def story() -> None:
        (one,) = await told.reports(nobody)
        assert len(told._numbers) == 1
        now[0] += reports.NUMBER_NS
        request: Any = type("Asked", (), {"path_params": {"number": one.path.rpartition("/")[2]}})
        assert (await told._given(request)).status_code == 404
        monkeypatch.setattr(reports, "NUMBERS_MAX", 3)
        for _ in range(5):
            await told.reports(nobody)
        assert len(told._numbers) == 3

    asyncio.run(story())
