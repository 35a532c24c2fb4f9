"""The report at the page: opened by keys, framed without scripts."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.parts.browser import MISSING, opened_page, shows
from tests.parts.page_plant import page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
REPORT = """<!doctype html><html lang="en"><title>root</title><style>h1 { color: rgb(1, 2, 3) }</style>
<h1 id="a">Availability</h1><script>document.body.textContent = "a script ran"</script><a href="#a">up</a></html>"""


def test_the_report_is_opened_by_keys_and_runs_no_script(tmp_path: Path, chromium: Browser) -> None:
    with page_plant(tmp_path) as plant:
        page = opened_page(chromium, plant.url)
        shows(page, "Live")
        page.keyboard.press("g")
        page.keyboard.press("r")
        shows(page, "No report yet: run albireo pipeline run")
        out = tmp_path / "pipeline"
        for path, at_s in ((out, 1_700_000_000), (out / "below" / "root~north-1", 1_600_000_000)):
            path.mkdir(parents=True)
            (path / "report.html").write_text(REPORT.replace("Availability", path.name))
            os.utime(path / "report.html", (at_s, at_s))
        page.get_by_role("button", name="Ask anew").click()
        chosen = page.get_by_label("Which report")
        expect(chosen.locator("option:checked")).to_contain_text("root, written 14 Nov 2023 22:13:20")
        heading = page.frame_locator("iframe").get_by_role("heading")
        expect(heading).to_have_text("pipeline")
        assert heading.evaluate("(one) => getComputedStyle(one).color") == "rgb(1, 2, 3)"
        chosen.select_option("root/north")
        expect(heading).to_have_text("root~north-1")
        assert page.frame_locator("iframe").get_by_text("a script ran").count() == 0
        page.close()
