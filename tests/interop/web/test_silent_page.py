"""A page that hears nothing: grey within 2.1 s, nothing to be done, nothing moved, and live again by itself."""

import re
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from albireo.drill.relay import Relay
from tests.long_form import some
from tests.parts.browser import BOXES, HUE, MISSING, PATIENCE_MS, hue, logged_in, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.pictures import drawn
from tests.parts.port import free_port

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
LISTENING = """
const Heard = WebSocket;
window.WebSocket = class extends Heard {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => { window.heardAt = performance.now(); window.stalledMs = 0; });
  }
};
let ranAt = performance.now();
setInterval(() => {
  const now = performance.now();
  window.stalledMs += Math.max(0, now - ranAt - 40);
  ranAt = now;
}, 20);
new MutationObserver(() => {
  if (document.documentElement.hasAttribute("data-silent")) {
    window.greyAfter ??= performance.now() - window.heardAt - window.stalledMs;
  } else delete window.greyAfter;
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-silent"] });
"""
"""Notes how long after the last word the page went grey, less the time in which the machine let no script run."""
ABLE = """[...document.querySelectorAll("button")].filter((one) => one.checkVisibility() && !one.disabled)
  .map((one) => one.innerText)"""
ACTS = re.compile("Acknowledge|Silence horn|Shelve …|Comment|Reset|Take|Write|Select|Force …|Operate|Go on|End|Switch")
PLACES = (
    "overview",
    "alarms",
    "items",
    "item?name=root%3Afan_speed",
    "item?name=root%3Aco_8",
    "trends?pens=root%3Aco_8",
    "plant",
    "people",
    "picture?name=tunnel",
)
GREY_MS = 2_100
FRAMES_MS = 34
"""Of a display of 60 Hz: one until it is drawn, and one that was just missed."""


class CabledPlant(NamedTuple):
    """A plant whose page is reached by a cable."""

    plant: PagePlant
    cable: Relay


@pytest.fixture(scope="module")
def cabled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CabledPlant]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    home = tmp_path_factory.mktemp("plant")
    drawn(home / "pictures")
    with page_plant(home, has_plc=True, urls=(url,), pictures=str(home / "pictures")) as plant:
        cable = Relay(port, plant.at.port)
        cable.begin()
        plant.at.url = url
        plant.add_person("anna", "admin")
        plant.say({CO: 46.8})
        yield CabledPlant(plant, cable)
        cable.end()


def at_rest(page: Page) -> list[list[int]]:
    """Boxes of the page, once they are the same for a second: the first values are there."""
    seen: list[list[list[int]]] = []
    while len(seen) < 5 or any(one != seen[-1] for one in seen[-5:]):
        seen.append(page.evaluate(BOXES))
        page.wait_for_timeout(200)
    return seen[-1]


@pytest.mark.parametrize(("place", "theme"), some(list(zip(PLACES, cycle(["", "dark"]), strict=False)), 3))
def test_a_page_that_hears_nothing_is_grey_and_does_nothing(
    cabled: CabledPlant, chromium: Browser, place: str, theme: str
) -> None:
    plant, cable = cabled
    page = logged_in(chromium, plant.at, "anna", f"?theme={theme}#{place}", LISTENING)
    root, clock = page.locator("html"), page.locator(".notice .clock")
    shows(page, "Carbon monoxide in section 8")
    assert hue(page) > HUE, "an alarm has a hue while the page is live"
    before = at_rest(page)
    cable.carry_out(cable.cut())
    try:
        expect(root).to_have_attribute("data-silent", "", timeout=PATIENCE_MS)
        assert page.evaluate("window.greyAfter") <= GREY_MS + FRAMES_MS
        shows(page, "Nothing heard for")
        assert page.evaluate(BOXES) == before, "something moved"
        assert hue(page) <= HUE
        assert not [one for one in page.evaluate(ABLE) if ACTS.search(one)]
        page.keyboard.press("a")
        told = clock.inner_text()
        expect(clock).not_to_have_text(told, timeout=PATIENCE_MS)  # Its own goes on.
    finally:
        cable.carry_out(cable.mend())
    expect(root).not_to_have_attribute("data-silent", "", timeout=PATIENCE_MS)
    expect(page.locator(".livew")).to_have_text("Live")
    with plant.client() as client:
        assert not any(one.is_acked for one in client.cases())
    page.close()
