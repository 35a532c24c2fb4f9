"""Five tasks of a new operator, by keys alone: no pointer is moved."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from albireo.model.command import Outcome
from albireo.model.item import DataItem
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
MINUTE_NS = 60 * 10**9
DAY_NS = 24 * 60 * MINUTE_NS
PORTAL = DataItem(
    name="co_portal", value_type=ValueType.FLOAT64, unit="ppm", description="Carbon monoxide at the north portal"
)
FOCUSED = "document.activeElement.matches('a,button') ? document.activeElement.innerText : ''"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant"), has_plc=True) as made:
        made.add_person("anna", "operate")
        now = wall_ns()
        for hour, value in ((-4, 12.5), (-3, 71.5), (-2, 13.5), (23, 9.5)):
            made.say({PORTAL: value}, "portal", at_ns=now - DAY_NS + 60 * hour * MINUTE_NS)
        for minute in range(50, 0, -10):
            made.say({CO: 10.0 + minute}, at_ns=now - minute * MINUTE_NS)
        made.say({CO: 46.8})
        yield made


@pytest.fixture
def page(plant: PagePlant, chromium: Browser) -> Iterator[Page]:
    opened = logged_in(chromium, plant.at, "anna")
    shows(opened, "Carbon monoxide in section 8")
    yield opened
    opened.close()


def press(page: Page, *keys: str) -> None:
    for one in keys:
        page.keyboard.press(one)


def until_focused(page: Page, what: str) -> None:
    """Go on with Tab until a control has the focus."""
    for _ in range(60):
        text = page.evaluate(FOCUSED)
        if what in text:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab reaches {what!r}")


def test_what_is_wrong_is_seen_at_once(plant: PagePlant, page: Page) -> None:
    plant.say({CO: 10.0})
    plant.say({CO: 46.8})  # Somebody may have acknowledged the one before.
    wrong = page.get_by_role("region", name="What is wrong now")
    expect(wrong).to_contain_text("Carbon monoxide in section 8", timeout=PATIENCE_MS)
    expect(wrong).to_contain_text("46.8", timeout=PATIENCE_MS)


def test_an_alarm_is_acknowledged(plant: PagePlant, page: Page) -> None:
    press(page, "g", "a")
    row = page.locator("tr[data-key]")
    expect(row).to_contain_text("Carbon monoxide in section 8", timeout=PATIENCE_MS)
    press(page, "j", "Space")
    expect(row).to_have_attribute("aria-selected", "true")
    press(page, "a")
    expect(row).to_have_class(re.compile(r"\back\b"), timeout=PATIENCE_MS)
    with plant.client() as client:
        (case,) = client.cases()
        assert (case.is_acked, case.actor) == (True, "anna")


def test_a_trend_of_the_last_hour_is_drawn(page: Page, plant: PagePlant) -> None:
    press(page, "g", "t")
    expect(page.get_by_role("heading", name="Trends")).to_be_visible()
    press(page, "+")
    expect(page.locator("#pen")).to_be_focused()
    page.keyboard.type("co_8")
    press(page, "Enter")
    legend = page.get_by_role("row").filter(has_text="co_8")
    expect(legend).to_be_visible(timeout=PATIENCE_MS)
    until_focused(page, "1 h")
    press(page, "Enter")
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
    assert "span=3600" in page.url
    expect(legend).to_contain_text("60", timeout=PATIENCE_MS)
    plant.say({CO: 46.8})  # A program that said nothing for a while is silent.
    expect(legend).to_contain_text("46.8")


def test_yesterdays_carbon_monoxide_at_the_north_portal_is_drawn(page: Page) -> None:
    press(page, "g", "t")
    expect(page.get_by_role("heading", name="Trends")).to_be_visible()
    press(page, "+")
    expect(page.locator("#pen")).to_be_focused()
    page.keyboard.type("north portal")
    expect(page.locator(".adder .chips button")).to_have_count(1)
    press(page, "Enter")
    legend = page.get_by_role("row").filter(has_text="co_portal")
    expect(legend).to_contain_text("9.5", timeout=PATIENCE_MS)
    expect(legend).not_to_contain_text("71.5")
    until_focused(page, "24 h")
    press(page, "Enter")
    until_focused(page, "◂")
    press(page, "Enter", "Enter")
    expect(legend).to_contain_text("71.5", timeout=PATIENCE_MS)
    seen: set[str] = set()
    for _ in range(25):  # Half of what is shown: the hours before now of yesterday.
        press(page, "Shift+ArrowLeft" if seen else "ArrowLeft")
        seen.add(legend.get_by_role("cell").nth(5).inner_text())
    assert {"71.5 ppm", "12.5 ppm"} <= seen, "the cursor tells what was when"
    assert "at=" in page.url and "to=" in page.url and "pens=root%3Aco_portal" in page.url


@pytest.mark.parametrize(("item", "has_selection", "value"), [("fan_speed", False, 750), ("barrier", True, True)])
def test_an_item_is_written_with_a_reason_and_the_order_ends(
    plant: PagePlant, page: Page, item: str, has_selection: bool, value: int | bool
) -> None:
    press(page, "g", "i", "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(item)
    expect(page.get_by_role("row")).to_have_count(2, timeout=PATIENCE_MS)  # One is the head.
    press(page, "Escape")
    until_focused(page, item)
    press(page, "Enter")
    panel = page.get_by_role("region", name="Order", exact=True)
    expect(panel).to_be_visible(timeout=PATIENCE_MS)
    press(page, "w")
    if has_selection:
        shows(page, "Selected for you")
        expect(page.locator("#why")).to_be_focused(timeout=PATIENCE_MS)
    else:
        expect(page.locator("#value")).to_be_focused(timeout=PATIENCE_MS)
        press(page, "Control+a")
        page.keyboard.type(str(value))
        press(page, "Tab")
    page.keyboard.type("smoke at the portal")
    press(page, "Enter")
    expect(page.get_by_role("button", name="Operate")).to_be_focused(timeout=PATIENCE_MS)
    with plant.client() as client:
        assert client.read(f"root:{item}").value != value, "nothing is written before the last step"
    press(page, "Enter")
    expect(panel.get_by_role("status")).to_contain_text("Verified", timeout=PATIENCE_MS)
    with plant.client() as client:
        order = client.commands(limit=1)[0]
        assert (order.reason, order.user, order.state) == ("smoke at the portal", "anna", Outcome.VERIFIED)
        awaited(lambda: client.read(f"root:{item}").value == value)
    press(page, "g", "j")
    shows(page, "smoke at the portal")


def test_who_leads_is_told(page: Page) -> None:
    press(page, "g", "l")
    shows(page, "root stands alone")


def test_the_next_key_is_for_the_view_that_the_one_before_led_to(page: Page) -> None:
    press(page, "g", "t", "+")
    expect(page.locator("#pen")).to_be_focused(timeout=PATIENCE_MS)
    press(page, "Escape", "g", "o", "/")
    expect(page.get_by_role("searchbox")).to_be_focused(timeout=PATIENCE_MS)
    page.go_back()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=PATIENCE_MS)
