"""Pictures at a browser: values that change, alarms, what is not there, keys, a phone, drawings that want to act."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from albireo.model.item import AlarmSettings, DataItem
from albireo.model.value import ValueType
from tests.parts.browser import AXE, AXE_RULES, MISSING, PATIENCE_MS, logged_in, opened_page, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.pictures import HOSTILE, SVG, TOML, drawn

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
CO_7 = DataItem(
    name="co_7", value_type=ValueType.FLOAT64, unit="ppm", description="Carbon monoxide", alarm=AlarmSettings(hi=40.0)
)
RUNS = DataItem(name="fan_running", value_type=ValueType.BOOL, description="Contactor closed")
TRIPS = DataItem(name="fan_trip", value_type=ValueType.BOOL, description="Tripped")
SAID = {CO: 46.8, CO_7: 20.4, RUNS: True, TRIPS: False}
TYPES = """[...document.querySelectorAll(".pic text")].filter((one) => one.checkVisibility() && one.textContent.trim())
  .map((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""
SCRIPTED = '<script>window.acted = 1</script><image href="x" onerror="window.acted = 2"/>'


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    home = tmp_path_factory.mktemp("plant")
    drawn(home / "pictures")
    drawn(home / "pictures", "z_other", toml=TOML.replace("North", "Other").replace("co_8", "co_7"))
    drawn(home / "pictures", "evil", svg=SVG.replace("</svg>", f"{SCRIPTED}</svg>"))
    for name in ("event at the root", "foreign object", "link", "style import", "file entity"):
        drawn(home / "pictures", name, svg=HOSTILE[name][0], toml='title = "H"')
    with page_plant(home, pictures=str(home / "pictures")) as made:
        made.add_person("anna", "admin")
        yield made


def at_picture(page: Page, name: str = "tunnel") -> None:
    page.evaluate(f"location.hash = 'picture?name={name}'")
    expect(page.locator(".el")).to_have_count(6, timeout=PATIENCE_MS)


@pytest.fixture
def page(plant: PagePlant, chromium: Browser) -> Iterator[Page]:
    opened = logged_in(chromium, plant.at, "anna")
    opened.set_default_timeout(PATIENCE_MS)
    plant.say(SAID)  # Now: what a silent program said is bad.
    at_picture(opened)
    yield opened
    opened.close()


def element(page: Page, name: str) -> Any:
    return page.locator(f'.el[aria-label^="{name}"]')


def test_values_are_shown_and_change(plant: PagePlant, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    expect(page.locator("#pic-co8")).to_have_text("46.8 ppm")
    expect(element(page, "Fan 1: runs")).to_have_count(1)
    expect(page.locator("#pic-fan rect")).to_have_class("eq on")
    expect(element(page, "Carbon monoxide 1: 20.4 ppm")).to_have_count(1)
    column = element(page, "Carbon monoxide 1").locator(".pb")
    before = float(column.get_attribute("height") or 0)
    plant.say({CO: 46.9, CO_7: 30.4, RUNS: False, TRIPS: True})
    expect(page.locator("#pic-co8")).to_have_text("46.9 ppm")
    expect(element(page, "Carbon monoxide 1: 30.4 ppm")).to_have_count(1)
    assert float(column.get_attribute("height") or 0) > before
    expect(element(page, "Fan 1: tripped")).to_have_count(1)
    expect(page.locator("#pic-fan rect")).to_have_class("eq trip")
    plant.say(SAID)
    expect(page.locator("#pic-fan rect")).to_have_class("eq on")
    assert not [one for one in said if "Content Security" in one or "Refused" in one], said


def test_an_item_that_is_not_there_is_dashed_and_says_so(page: Page) -> None:
    ghost = element(page, "Ghost: no item")
    expect(ghost).to_have_class(re.compile("none"))
    expect(ghost.get_by_text("no item")).to_be_visible()
    expect(page.locator("#pic-ghost")).to_have_text("-")
    assert ghost.locator(".hit").evaluate("(one) => getComputedStyle(one).strokeDasharray") != "none"


def test_an_alarm_has_its_mark_until_it_is_acknowledged(plant: PagePlant, page: Page) -> None:
    plant.say({CO_7: 45.0})
    first = element(page, "Carbon monoxide 1: 45.0 ppm, Carbon monoxide is high, active, not acknowledged")
    expect(first.locator(".mk.un use")).to_have_attribute("href", "#m3")
    expect(first.locator(".pb")).to_have_class(re.compile("al p3"))
    first.click()
    faceplate = page.get_by_role("complementary", name="Carbon monoxide 1")
    picture = page.locator(".pic").bounding_box()
    beside = faceplate.bounding_box()
    assert picture and beside and beside["x"] >= picture["x"] + picture["width"], "it lies beside the picture"
    faceplate.get_by_role("button", name="Acknowledge").click()
    acked = element(page, "Carbon monoxide 1: 45.0 ppm, Carbon monoxide is high, active, acknowledged")
    expect(acked.locator(".mk use")).to_have_attribute("href", "#a3")
    expect(acked.locator(".mk.un")).to_have_count(0)
    expect(faceplate.get_by_role("link", name="Item")).to_have_attribute("href", "#item?name=root%3Aco_7")
    plant.say({CO_7: 20.4})
    expect(element(page, "Carbon monoxide 1: 20.4 ppm").locator(".mk")).to_have_count(0)


def test_by_keys_alone(page: Page) -> None:
    page.evaluate("location.hash = 'overview'")
    expect(page.get_by_role("heading", name="Wrong now")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.locator(".el")).to_have_count(6, timeout=PATIENCE_MS)
    elements = page.locator(".el")
    elements.nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(elements.nth(2)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(elements.nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    expect(elements.nth(0)).to_be_focused()
    assert elements.nth(0).locator(".hit").evaluate("(one) => getComputedStyle(one).strokeWidth") == "3px"
    page.keyboard.press("Enter")
    expect(elements.nth(0)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("complementary").get_by_text("root:co_8", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(elements.nth(0)).to_have_attribute("aria-pressed", "false")
    expect(elements.nth(0)).to_be_focused()


def test_a_drawing_that_wants_to_act_is_named_and_not_drawn(plant: PagePlant, page: Page) -> None:
    shows(page, re.compile(r"evil\.svg:\d+: script: <script> is not allowed\. Take it away"))
    page.evaluate("location.hash = 'picture?name=evil'")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("evil")
    page.evaluate("location.hash = 'picture?name=../../static/page'")
    at_picture(page)
    assert page.evaluate("window.acted") is None
    assert page.locator(".drawn script, .drawn image, .drawn foreignObject, .drawn a").count() == 0
    assert plant.at.request("GET", "/static/..%2f..%2fpictures%2fevil.svg")[0] == 404


def test_pictures_are_chosen_and_the_overview_leads_to_one(page: Page) -> None:
    page.get_by_role("combobox", name="Picture").select_option("Other tunnel")
    expect(page.get_by_role("heading", name="Other tunnel")).to_be_visible()
    expect(page.locator("#pic-co8")).to_have_text("20.4 ppm")
    page.evaluate("location.hash = 'overview'")
    page.locator(".site header").get_by_role("link", name="Pictures").click()
    expect(page.locator(".el")).to_have_count(6, timeout=PATIENCE_MS)


def test_a_forced_value_and_one_that_is_bad_are_told_apart(plant: PagePlant, page: Page) -> None:
    with plant.client() as client:
        client.force("root:co_7", 33.0, "sensor out", for_s=3_600)
        forced = element(page, "Carbon monoxide 1: 33.0 ppm, forced")
        expect(forced.locator(".qt")).to_have_text("=")
        expect(forced.locator(".hit")).to_have_attribute("fill", "url(#picture-hatch)")
        client.release("root:co_7")
    expect(element(page, "Carbon monoxide 1: 20.4 ppm").locator(".qt")).to_have_count(0)


def test_a_node_that_is_not_heard_is_hatched_and_its_values_are_old(plant: PagePlant, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})

    def relayed(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def heard(text: str | bytes) -> None:
            word = json.loads(text)
            if word["kind"] == "view":
                word["stale"] = {"root": word["at_ms"] - 14_000}
            route.send(json.dumps(word))

        server.on_message(heard)

    page.route_web_socket(re.compile("/ws$"), relayed)
    plant.say(SAID)
    page.goto(f"{plant.url}/#picture?name=tunnel")
    expect(page.locator(".card.old .pic")).to_have_count(1, timeout=PATIENCE_MS)
    shows(page, re.compile("not heard for 1[4-9] s"))
    expect(page.locator("#pic-co8 tspan")).to_have_class("it")
    expect(element(page, "Carbon monoxide 2: 46.8 ppm, old").locator(".hit")).to_have_attribute(
        "fill", "url(#picture-hatch)"
    )
    expect(page.locator(".pb.al")).to_have_count(0)
    page.close()


def test_a_phone_has_a_list_by_section_and_the_wall_the_picture_alone(plant: PagePlant, page: Page) -> None:
    assert min(page.evaluate(TYPES)) >= 12
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".el")).to_have_count(0)
    expect(page.get_by_role("heading", name="Section 8")).to_be_visible()
    row = page.get_by_role("button", name=re.compile("Carbon monoxide 1 20.4 ppm"))
    row.click()
    expect(page.get_by_role("complementary", name="Carbon monoxide 1")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.set_viewport_size({"width": 1024, "height": 768})
    expect(page.locator(".el")).to_have_count(6)
    assert min(page.evaluate(TYPES)) >= 12
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(f"{plant.url}/?wall#picture?name=tunnel")
    expect(page.locator(".el")).to_have_count(6, timeout=PATIENCE_MS)
    assert page.locator("main button:visible, main select:visible, aside:visible, nav:visible").count() == 0
    assert min(page.evaluate(TYPES)) >= 24


def test_axe_finds_nothing(plant: PagePlant, chromium: Browser) -> None:
    for theme in ("", "dark"):
        plant.say(SAID)
        page = opened_page(chromium, f"{plant.url}/?theme={theme}#picture?name=tunnel")
        expect(page.locator(".el")).to_have_count(6, timeout=PATIENCE_MS)
        page.locator(".el").first.click()
        page.evaluate(AXE.read_text())
        found: list[dict[str, Any]] = page.evaluate(
            "(options) => axe.run(document, options).then((told) => told.violations)", AXE_RULES
        )
        assert [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []
        page.close()


def test_a_file_that_changes_is_drawn_anew(plant: PagePlant, page: Page, tmp_path: Path) -> None:
    directory = plant.data / "pictures"
    try:
        drawn(directory, "z_other", toml=TOML.replace("North", "Changed"))
        expect(page.locator("option", has_text="Changed tunnel")).to_have_count(1, timeout=PATIENCE_MS)
        drawn(directory, "z_other", toml="title =")
        shows(page, re.compile(r"z_other is not shown\. z_other\.toml:1: not TOML"))
    finally:
        drawn(directory, "z_other", toml=TOML.replace("North", "Other").replace("co_8", "co_7"))
