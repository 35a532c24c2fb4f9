"""What a machine can say of the look: axe-core, contrast, size of the type, and what is cut off; in both themes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.parts.browser import AXE, AXE_RULES, HUE, MISSING, PATIENCE_MS, hue, logged_in
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
LOOK = Path(__file__).with_name("look.js")
SHOTS = os.environ.get("ALBIREO_PAGE_SHOTS", "")
"""Directory in which screenshots are kept; empty: none are."""
SIZES = {"desk": (1440, 900), "small": (1024, 768), "phone": (390, 844)}
VIEWS = {
    "overview": "overview",
    "alarms": "alarms",
    "shelved": "alarms?tab=shelved",
    "history": "alarms?tab=history",
    "load": "alarms?tab=load",
    "items": "items",
    "item": "item?name=root%3Afan_speed",
    "item_in_alarm": "item?name=root%3Aco_8",
    "item_with_words": "item?name=root%3Avent_mode",
    "trends": "trends?pens=root%3Aco_8,root%3Afan_speed&span=3600",
    "plant": "plant",
    "journal": "journal",
    "report": "report",
    "people": "people",
}
MODE = {
    "name": "vent_mode",
    "kind": "holding",
    "address": "21",
    "type": "int16",
    "writable": "true",
    "states": "0=waits for the other tube",
    "description": "Mode of the ventilation",
}
"""Its value has the longest word that there may be."""
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant"), has_plc=True, rows=[MODE]) as made:
        made.add_person("anna", "admin")
        made.say({CO: 11.2})
        made.say({CO: 46.8})
        with made.client() as client:
            client.write("root:fan_speed", 700, "test")
            client.force("root:barrier", True, "under repair", for_s=3_600)
        yield made


@pytest.fixture(scope="module", params=["", "dark"], ids=["grey", "dark"])
def page(request: pytest.FixtureRequest, plant: PagePlant, chromium: Browser) -> Iterator[Page]:
    opened = logged_in(chromium, plant.at, "anna", f"?theme={request.param}")
    opened.evaluate(AXE.read_text())
    opened.evaluate(LOOK.read_text())
    yield opened
    opened.close()


def look(page: Page, view: str, size: str) -> None:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(f"location.hash = {VIEWS[view]!r}")
    expect(page.locator("main h1")).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_timeout(700)
    if SHOTS:
        theme = page.evaluate("document.documentElement.dataset.theme") or "grey"
        page.screenshot(path=Path(SHOTS) / f"{view}_{size}_{theme}.png")


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(page: Page, view: str) -> None:
    look(page, view, "desk")
    found: list[dict[str, Any]] = page.evaluate(
        "(options) => axe.run(document, options).then((told) => told.violations)", AXE_RULES
    )
    assert [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_no_text_is_too_small_or_outside(page: Page, plant: PagePlant, view: str, size: str) -> None:
    plant.say({CO: 46.8})  # A program that said nothing for a while is silent, and its value has no bar.
    look(page, view, size)
    assert page.evaluate("look.small()") == []
    assert page.evaluate(WIDE) <= 0
    assert page.evaluate("look.cut()") == []
    assert page.evaluate("look.outside()") == []
    assert page.evaluate("look.mute()") == [], "with all hues taken away nothing tells the state"


def test_texts_and_marks_stand_out_from_their_grounds(page: Page) -> None:
    found = page.evaluate("look.contrasts()")
    assert found["text"] >= 4.5 and found["marks"] >= 3, found


@pytest.mark.parametrize("theme", ["", "dark"])
def test_a_calm_plant_has_no_hue(tmp_path: Path, chromium: Browser, theme: str) -> None:
    with page_plant(tmp_path, has_plc=True) as plant:
        plant.add_person("anna", "admin")
        plant.say({CO: 11.2})
        opened = logged_in(chromium, plant.at, "anna", f"?theme={theme}")
        with plant.client() as client:
            for view in VIEWS.keys() - {"trends"}:  # Its pens are tinted.
                look(opened, view, "desk")
                awaited(lambda: not client.cases())
                assert hue(opened) <= HUE, view
        opened.close()
