"""Trends in a browser: a bad value is no number, what happened has marks, and a link brings all of it back."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from albireo.model import quality
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, shows
from tests.parts.page_plant import CO, page_plant, said
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
PENS = "trends?pens=root%3Aco_8%2Croot%3Afan_speed"


def test_a_trend_says_what_is_bad_and_what_happened_and_its_link_brings_the_cursor_back(
    tmp_path: Path, chromium: Browser
) -> None:
    with page_plant(tmp_path, has_plc=True) as plant, plant.client() as client:
        plant.add_person("anna", "operate")
        producer = client.producer("sensor", [CO])
        page = logged_in(chromium, plant.at, "anna", f"#{PENS}")
        for value, code in ((11.2, quality.GOOD), (46.8, quality.GOOD), (7.0, quality.BAD)):
            row = said([0], [value], ValueType.FLOAT64, wall_ns())
            row.quality[:] = code
            producer.offer([row])
            assert producer.flush(PATIENCE_S)
        client.force("root:fan_speed", 500, "repair", for_s=600)
        row_of = {name: page.get_by_role("row").filter(has_text=name) for name in ("co_8", "fan_speed")}
        expect(row_of["co_8"].get_by_role("cell").nth(6)).to_have_text("-", timeout=PATIENCE_MS)
        expect(row_of["co_8"].locator(".tag")).to_contain_text("Bad", timeout=PATIENCE_MS)
        expect(row_of["fan_speed"].get_by_role("cell").nth(6)).to_have_text("500.0", timeout=PATIENCE_MS)
        page.goto(f"{plant.at.url}/#{PENS}&span=3600")
        marks = page.locator(".evs title")
        expect(marks.filter(has_text="co 8 · hi · raised")).to_have_count(1, timeout=PATIENCE_MS)
        expect(marks.filter(has_text="fan speed · forced")).to_have_count(1)
        expect(row_of["fan_speed"].get_by_role("cell").nth(9)).not_to_have_text("-", timeout=PATIENCE_MS)
        page.keyboard.press("ArrowLeft")
        heading = page.locator(".lg th").nth(5).inner_text()
        assert "at=" in page.url and heading != "At -"
        page.reload()
        shows(page, heading)
        expect(page.locator(".u-cursor-x").last).to_be_visible()
        page.close()
