"""A flood of 60 alarms at the page: folded by kind and unfolded, acknowledged by keys, and steady under the pointer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import Value, ValueType
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in
from tests.parts.page_plant import PagePlant, page_plant, say
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
SHOTS = os.environ.get("ALBIREO_PAGE_SHOTS", "")
"""Directory in which screenshots are kept; empty: none are."""


def item(name: str, text: str, severity: int, suppressed_by: str = "") -> DataItem:
    alarm = AlarmSettings(hi=40.0, severity=severity, suppressed_by=suppressed_by)
    return DataItem(name=name, value_type=ValueType.FLOAT64, unit="ppm", description=text, alarm=alarm)


CLOSED = DataItem(name="entrance_closed", value_type=ValueType.BOOL, description="the entrance is closed")
FIRST = item("fire_5", "Heat detector of section 5", 900)
HIGH = [item(f"opacity_{at}", f"Extinction in section {at}", 700) for at in range(5, 9)]
LOW = [
    *(item(f"air_{at}", f"Air temperature in section {at}", 300) for at in range(1, 31)),
    *(item(f"door_{at}", f"Door {at} of the cabinet", 300) for at in range(1, 18)),
]
LOOPS = [item(f"loop_{at}", f"Speed at loop {at}", 300, CLOSED.name) for at in range(1, 9)]
LATE = item("smoke_1", "Smoke at the portal", 900)
PLACES = "[...document.querySelectorAll('tr[data-key]')].map((row) => [row.dataset.key, row.getBoundingClientRect().y])"


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PagePlant]:
    with page_plant(tmp_path) as made, made.client() as gate:
        made.add_person("anna", "operate")
        made.say({FIRST: 46.8}, "fire")
        values: dict[DataItem, Value] = {}
        values |= {one: 50.0 + at for at, one in enumerate(HIGH)}
        values |= dict.fromkeys(LOW, 46.8)
        made.say(values, "rest")
        say(gate, {CLOSED: True}, "gate")  # Just before them: what a silent program said suppresses nothing.
        made.say(dict.fromkeys(LOOPS, 46.8), "loops")
        awaited(lambda: len(gate.cases()) == 60)
        yield made


@pytest.fixture
def page(plant: PagePlant, chromium: Browser) -> Iterator[Page]:
    opened = logged_in(chromium, plant.at, "anna", "#alarms")
    expect(rows(opened)).to_have_count(4, timeout=PATIENCE_MS)
    yield opened
    opened.close()


def rows(page: Page) -> Locator:
    return page.locator("tr[data-key]")


def unacked(plant: PagePlant) -> set[str]:
    with plant.client() as client:
        return {one.item.partition(":")[2] for one in client.cases() if not one.is_acked}


def test_a_flood_is_folded_and_unfolded_and_loses_none(page: Page) -> None:
    flood = page.locator(".fld")
    expect(flood).to_contain_text("Flood: 52 new alarms in 10 minutes")
    first, high, low, suppressed = (rows(page).nth(at) for at in range(4))
    expect(first).to_contain_text("Heat detector of section 5")
    expect(first).to_contain_text("first of these")
    expect(high).to_contain_text("Extinction is high in 4 sections")
    expect(high).to_contain_text("53")
    expect(low).to_contain_text("47 low ones: Air temperature 30, Door … of the cabinet 17")
    expect(suppressed).to_contain_text("Speed at loop … 8, because of “the entrance is closed”. Nobody is asked.")
    expect(page.get_by_role("tab", name="Active")).to_contain_text("60")
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / "flood.png")
    low.get_by_role("button").click()
    expect(rows(page)).to_have_count(6)
    rows(page).filter(has_text="Air temperature is high in 30 sections").get_by_role("button").click()
    expect(rows(page)).to_have_count(36)
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / "flood_open.png")
    low.get_by_role("button").click()
    expect(rows(page)).to_have_count(4)


def test_a_folded_row_is_acknowledged_by_keys(plant: PagePlant, page: Page) -> None:
    for key in ("j", "j", "j", "Space"):
        page.keyboard.press(key)
    expect(rows(page).nth(2)).to_have_attribute("aria-selected", "true")
    expect(page.locator(".bar2")).to_contain_text("47 selected")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(6)
    page.keyboard.press("Enter")
    page.keyboard.press("a")
    others = {one.name for one in (FIRST, *HIGH, *LOOPS)}
    awaited(lambda: unacked(plant) == others)
    expect(rows(page).nth(2)).to_contain_text("47 low ones, acknowledged", timeout=PATIENCE_MS)


def test_nothing_moves_under_the_pointer_and_new_ones_wait(plant: PagePlant, page: Page) -> None:
    rows(page).nth(1).hover()
    expect(rows(page).nth(3)).to_contain_text("the entrance is closed", timeout=PATIENCE_MS)  # It may need two lines.
    before = page.evaluate(PLACES)
    plant.say({LATE: 46.8}, "late")
    expect(page.get_by_text("1 new", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    assert page.evaluate(PLACES) == before
    expect(page.locator(".banner")).to_contain_text("Smoke at the portal")
    page.mouse.move(0, 0)
    expect(rows(page)).to_have_count(5)
    expect(rows(page).nth(1)).to_contain_text("Smoke at the portal")


def test_a_row_that_has_the_focus_of_the_keyboard_stays(plant: PagePlant, page: Page) -> None:
    page.keyboard.press("j")
    expect(rows(page).first).to_be_focused()
    plant.say({LATE: 46.8}, "late")
    plant.say({FIRST: 1.0}, "fire")
    with plant.client() as client:
        case = next(one for one in client.cases() if one.item == "root:fire_5")
        client.ack(case)
    expect(rows(page).first).to_contain_text("closed", timeout=PATIENCE_MS)
    expect(page.get_by_text("1 new", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("searchbox").focus()
    expect(rows(page).filter(has_text="Smoke at the portal")).to_be_visible(timeout=PATIENCE_MS)
    expect(rows(page).filter(has_text="Heat detector")).to_have_count(0)
