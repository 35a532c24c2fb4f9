"""The page on a wall, 3 m away, and its banner on a phone; and the horn."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, opened_page, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
WALL = {"width": 1920, "height": 1080}
PHONE = {"width": 390, "height": 844}
SHOWN = """const shown = (selector) =>
  [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility({ visibilityProperty: true }));
"""
SIZES = f"""(selector) => {{ {SHOWN}
  return shown(selector).filter((one) => !one.closest("symbol, .mk, .vh")
    && [...one.childNodes].some((text) => text.nodeType === 3 && text.textContent.trim()))
    .map((one) => [parseFloat(getComputedStyle(one).fontSize), one.textContent.trim().slice(0, 40)]);
}}"""
PRESSED = f"() => {{ {SHOWN} return shown('button, nav, input, select').length; }}"
HIGHEST = "document.documentElement.scrollHeight"
CUT = f"""() => {{ {SHOWN}
  const all = document.querySelector(".banner").getBoundingClientRect();
  return shown(".banner *").filter((one) => !one.closest("svg")).filter((one) => {{
    const box = one.getBoundingClientRect();
    return one.clientWidth && one.scrollWidth > one.clientWidth + 1
      || box.right > all.right || box.bottom > all.bottom || box.top < all.top;
  }}).map((one) => one.outerHTML);
}}"""
LINES = f"""() => {{ {SHOWN}
  const boxes = shown(".banner > *").map((one) => one.getBoundingClientRect());
  return new Set(boxes.map((box) => Math.round((box.top + box.bottom) / 2))).size;
}}"""
LISTENING = """
window.beeps = 0;
const create = AudioContext.prototype.createOscillator;
AudioContext.prototype.createOscillator = function () { window.beeps += 1; return create.call(this); };
"""


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PagePlant]:
    """One of its own for each test: an alarm that comes and goes in several of them would chatter."""
    with page_plant(tmp_path) as made:
        made.add_person("anna", "operate")
        made.say({CO: 10.0})
        made.say({CO: 46.8})
        yield made


def sizes(page: Page, selector: str) -> list[tuple[float, str]]:
    return [(size, text) for size, text in page.evaluate(SIZES, selector)]


@pytest.mark.parametrize("theme", ["", "dark"], ids=["grey", "dark"])
@pytest.mark.parametrize("place", ["overview", "alarms"])
def test_a_wall_is_read_from_3_m_and_has_nothing_to_press(
    plant: PagePlant, chromium: Browser, place: str, theme: str
) -> None:
    page = opened_page(chromium, f"{plant.url}/?wall&theme={theme}#{place}")
    page.set_viewport_size(WALL)  # type: ignore[arg-type]  # A dict is what it takes.
    expect(page.locator("main")).to_contain_text("Carbon monoxide in section 8", timeout=PATIENCE_MS)
    assert [one for one in sizes(page, "body *") if one[0] < 24] == []
    names = ".r .nm a, .wrong td:not(.st), .al td:not(.st)"
    assert sizes(page, names) and [one for one in sizes(page, names) if one[0] < 30] == []
    values = ".r .val, .banner .line1"
    assert sizes(page, values) and [one for one in sizes(page, values) if one[0] < 38] == []
    assert page.evaluate(PRESSED) == 0
    expect(page.get_by_text("view only")).to_have_count(0)
    assert page.evaluate(HIGHEST) <= WALL["height"], "nothing is below the edge"
    page.keyboard.press("a")
    with plant.client() as client:
        assert [one.is_acked for one in client.cases() if one.item == "root:co_8"] == [False]
    page.close()


def test_the_banner_has_two_lines_on_a_phone_and_nothing_of_it_is_cut(plant: PagePlant, chromium: Browser) -> None:
    page = logged_in(chromium, plant.at, "anna")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # As above.
    shows(page, "Carbon monoxide in section 8")
    for name in ("Allow sound", "Silence"):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_be_visible(timeout=PATIENCE_MS)
        assert (page.evaluate(CUT), page.evaluate(LINES)) == ([], 2)
        button.click()
    page.close()


def test_the_horn_sounds_until_it_is_silenced_and_again_for_the_next_one(plant: PagePlant, chromium: Browser) -> None:
    page = logged_in(chromium, plant.at, "anna", "", LISTENING)
    page.get_by_role("button", name="Sound: click to allow").click(timeout=PATIENCE_MS)
    awaited(lambda: page.evaluate("window.beeps") > 1)
    page.get_by_role("button", name="Silence horn").click()
    shows(page, "Horn silent until the next one")
    plant.say({CO: 10.0})
    plant.say({CO: 46.8})
    before = page.evaluate("window.beeps")
    awaited(lambda: page.evaluate("window.beeps") > before)
    page.keyboard.press("?")
    page.get_by_label("Sound").select_option("off")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Silence horn")).to_have_count(0)
    page.close()


def test_when_nothing_is_wrong_the_page_says_since_when(plant: PagePlant, chromium: Browser) -> None:
    page = logged_in(chromium, plant.at, "anna", "#overview")
    plant.say({CO: 10.0})
    with plant.client() as client:
        client.ack_all()
    expect(page.locator(".banner")).to_contain_text("No alarms. Last one closed at", timeout=PATIENCE_MS)
    expect(page.locator(".wrong")).to_contain_text("Nothing is wrong since", timeout=PATIENCE_MS)
    page.close()
