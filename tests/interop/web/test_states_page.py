"""Items whose values have words: every view says the word, and an order is given by it."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from albireo.model.command import Outcome
from albireo.model.instant import MS
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.item_states import ItemState
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, shows
from tests.parts.page_plant import PagePlant, page_plant
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
MODE = {
    "name": "vent_mode",
    "kind": "holding",
    "address": "21",
    "type": "int16",
    "writable": "true",
    "maximum": "3",
    "states": "0=off;1=automatic;3=service;9=locked",
    "description": "Mode of the ventilation",
}
DOOR = DataItem(
    name="door",
    value_type=ValueType.BOOL,
    description="Emergency exit 3",
    states=(ItemState(0, "shut"), ItemState(1, "open")),
    alarm=AlarmSettings(off_normal=True, severity=700),
)
STAGE = DataItem(
    name="stage", value_type=ValueType.INT64, description="Stage", states=(ItemState(0, "idle"), ItemState(4, "full"))
)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant"), has_plc=True, rows=[MODE]) as made:
        made.add_person("anna", "operate")
        yield made


def opened(plant: PagePlant, chromium: Browser, place: str) -> Page:
    return logged_in(chromium, plant.at, "anna", f"#{place}")


def test_an_item_is_written_by_its_word_by_keys_alone(plant: PagePlant, chromium: Browser) -> None:
    page = opened(plant, chromium, "item?name=root%3Avent_mode")
    panel = page.get_by_role("region", name="Order", exact=True)
    expect(panel).to_contain_text("off (0)", timeout=PATIENCE_MS)
    page.keyboard.press("w")
    expect(page.locator("#value")).to_be_focused(timeout=PATIENCE_MS)
    assert page.locator("#value option").all_inner_texts() == ["off (0)", "automatic (1)", "service (3)"]
    page.keyboard.type("serv")
    expect(panel.locator(".new")).to_contain_text("service (3)")
    page.keyboard.press("Tab")
    page.keyboard.type("inspection")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Operate: service (3)")).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("Enter")
    expect(panel.get_by_role("status")).to_contain_text("service (3)", timeout=PATIENCE_MS)
    expect(panel.locator(".course")).to_contain_text("service (3)")
    expect(page.locator("main .val").first).to_have_text("service (3)", timeout=PATIENCE_MS)
    expect(page.locator(".oh")).to_contain_text("service (3)", timeout=PATIENCE_MS)
    with plant.client() as client:
        order = client.commands(limit=1)[0]
        assert (order.reason, order.state) == ("inspection", Outcome.VERIFIED)
        awaited(lambda: client.read("root:vent_mode").value == 3)
        assert client.read("root:vent_mode").word == "service"
    page.close()


def test_a_switch_is_ordered_by_its_words(plant: PagePlant, chromium: Browser) -> None:
    page = opened(plant, chromium, "item?name=root%3Abarrier")
    panel = page.get_by_role("region", name="Order", exact=True)
    expect(panel.locator(".chg")).to_contain_text("open (false)", timeout=PATIENCE_MS)
    expect(panel.locator(".new")).to_contain_text("closed (true)")
    page.close()


def test_each_view_says_the_word_of_a_value_and_the_number_of_one_without(plant: PagePlant, chromium: Browser) -> None:
    plant.say({DOOR: True, STAGE: 4}, "doors")
    page = opened(plant, chromium, "items")
    row = page.get_by_role("row")
    expect(row.filter(has_text="door").locator(".val")).to_have_text("open", timeout=PATIENCE_MS)
    stage = row.filter(has_text="stage").locator(".val")
    expect(stage).to_have_text("full")
    expect(page.get_by_role("banner").or_(page.locator(".banner")).last).to_contain_text("Emergency exit 3: open")
    plant.say({DOOR: True, STAGE: 3}, "doors")
    expect(stage).to_have_text("3", timeout=PATIENCE_MS)
    page.goto(f"{plant.at.url}/#overview")
    expect(page.locator(".r").filter(has_text="Stage")).to_contain_text("3", timeout=PATIENCE_MS)
    plant.say({DOOR: True, STAGE: 0}, "doors")
    expect(page.locator(".r").filter(has_text="Stage")).to_contain_text("idle", timeout=PATIENCE_MS)
    page.goto(f"{plant.at.url}/#alarms")
    expect(page.locator("tr[data-key]").filter(has_text="Emergency exit 3: open")).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{plant.at.url}/#item?name=root%3Adoor")
    shows(page, "Emergency exit 3: open")
    expect(page.locator("main .val").first).to_have_text("open (true)")
    page.get_by_role("button", name="Force …").click()
    page.get_by_label("Value").select_option("shut (false)")
    page.get_by_label("Why").fill("under repair")
    page.get_by_role("button", name="Force it").click()
    expect(page.locator("main .val").first).to_have_text("shut (false)", timeout=PATIENCE_MS)
    page.close()


def test_the_journal_says_the_word_that_a_value_had_then(plant: PagePlant, chromium: Browser) -> None:
    gate = replace(DOOR, name="gate", description="Gate 7")
    for words in (gate.states, (ItemState(0, "shut"), ItemState(1, "ajar"))):
        for value in (False, True):
            plant.say({replace(gate, states=words): value}, "gates")
    page = opened(plant, chromium, "journal?find=gate")
    rows = page.locator("table.evt tr")
    expect(rows.filter(has_text="off normal · open (true)")).to_have_count(1, timeout=PATIENCE_MS)
    expect(rows.filter(has_text="off normal · ajar (true)").filter(has_text="activated")).to_have_count(1)
    page.get_by_role("searchbox").fill("gate open")
    expect(rows).to_have_count(1)
    page.close()


def test_the_cursor_of_a_trend_says_the_word_and_both_ends_of_an_interval_in_which_it_changed(
    plant: PagePlant, chromium: Browser
) -> None:
    level = replace(STAGE, name="level", states=(ItemState(0, "idle"), ItemState(2, "half"), ItemState(4, "full")))
    begin = wall_ns() // (1_000 * MS) * 1_000 - 300_000
    said = {0: 0, 20_300: 2, 40_000: 3, 60_000: 0, 60_500: 4, 61_000: 4}
    for at, value in said.items():
        plant.say({level: value}, "levels", (begin + at) * MS)
    for at, shown in ((10_500, "idle"), (30_500, "half"), (50_500, "3"), (60_700, "idle … full"), (80_500, "full")):
        page = opened(plant, chromium, f"trends?pens=root%3Alevel&span=300&to={begin + 200_000}&at={begin + at}")
        cells = page.get_by_role("row").filter(has_text="level").get_by_role("cell")
        expect(cells.nth(5)).to_have_text(shown, timeout=PATIENCE_MS)
        assert cells.nth(7).inner_text() == "idle"
        page.close()
