"""A large plant at the page: 20,000 items, 5,000 of them in alarm."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in
from tests.parts.page_plant import PagePlant, page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
ITEMS, CASES = 20_000, 5_000
HIGH = AlarmSettings(hi=40.0, severity=700)
SHOWN_S = 10.0
"""Bound of the time until a view shows all of it."""
HEAP_BYTES_MAX = 200 << 20
ROWS_MAX = 120
SCROLLED = """async () => {
  let longest = 0;
  for (let step = 1; step <= 60; step += 1) {
    const began = performance.now();
    window.scrollTo(0, step * 9_000);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    longest = Math.max(longest, performance.now() - began);
  }
  return longest;
}"""
STEP_MS = 5_000
"""Bound of one step of scrolling, of two frames and what is drawn anew."""
LISTED_MAX = 200
LONGEST = """async () => {
  let [longest, last] = [0, performance.now()];
  for (const end = last + 3_000; last < end;) {
    const now = await new Promise((done) => requestAnimationFrame(() => done(performance.now())));
    [longest, last] = [Math.max(longest, now - last), now];
  }
  return longest;
}"""
"""The longest time between two frames while the list of alarms is drawn anew each second."""


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant")) as made:
        made.add_person("anna", "admin")
        items = [
            DataItem(
                name=f"level_{at}",
                value_type=ValueType.FLOAT64,
                unit="m",
                description=f"Level of basin {at}",
                alarm=HIGH if at < CASES else None,
            )
            for at in range(ITEMS)
        ]
        made.say({one: 46.8 if at < CASES else 20.0 for at, one in enumerate(items)})
        yield made


def test_20000_items_and_5000_alarms_are_shown_and_scrolled(plant: PagePlant, chromium: Browser) -> None:
    began = time.monotonic()
    page = logged_in(chromium, plant.at, "anna", "#items")
    expect(page.locator("main .chips")).to_contain_text(f"Abnormal {CASES}", timeout=PATIENCE_MS)
    assert time.monotonic() - began < SHOWN_S
    rows = page.locator("main [data-name]")
    assert 0 < rows.count() < ROWS_MAX, "rows beyond the window are not drawn"
    assert page.evaluate(SCROLLED) < STEP_MS
    page.get_by_role("searchbox").fill(f"level_{ITEMS - 1}")
    expect(rows).to_have_count(1, timeout=SHOWN_S * 1000)
    page.evaluate("location.hash = '#alarms'")
    likes = page.locator("tr.fold")
    expect(likes).to_contain_text(f"Level of basin … is high, {CASES - 1} of them", timeout=SHOWN_S * 1000)
    likes.get_by_role("button").click()
    expect(page.locator("main")).to_contain_text("more: filter them", timeout=SHOWN_S * 1000)
    assert page.locator("tr[data-key]").count() <= LISTED_MAX
    assert page.evaluate(LONGEST) < STEP_MS
    likes.click()
    expect(page.locator(".bar2")).to_contain_text(f"{CASES - 1} selected", timeout=SHOWN_S * 1000)
    page.evaluate("location.hash = '#overview'")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=SHOWN_S * 1000)
    expect(page.locator(".banner .counts")).to_contain_text(f"of {CASES}")
    assert page.evaluate("performance.memory.usedJSHeapSize") < HEAP_BYTES_MAX
