"""A real browser for tests: Debian's chromium, driven by Playwright, which brings none of its own."""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as NotInTime

from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import PASSWORD, Served

CHROMIUM = shutil.which("chromium")
MISSING = "" if CHROMIUM else "the Debian package chromium is missing (make peers)"
SIZE = {"width": 1440, "height": 900}
PATIENCE_MS: Final = PATIENCE_S * 1000
PRESS_MS: Final = 2_000
AXE: Final = Path(__file__).parents[1] / "interop" / "web" / "axe" / "axe.min.js"
"""axe-core 4.14.1, as it is published; Mozilla Public License 2.0 (axe/LICENSE)."""
AXE_RULES: Final = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"landmark-unique": {"enabled": False}},
}
"""All but one that the overview of a lone node breaks: the node is a card of its own, and its own only site."""
HUE: Final = 30
"""Between the channels of a pixel: more is a hue. Ink and ground differ by 15 at most."""
BOXES = """[...document.querySelectorAll(
  "header.top, .banner, nav a, main :is(section, tr, [role=row], button, input, a, h1, h2)"
)].map((one) => { const box = one.getBoundingClientRect(); return [box.x, box.y, box.height].map(Math.round); })"""
"""Places of all that may not move by itself, and its height: texts grow and shrink."""
expect.set_options(timeout=PATIENCE_MS)  # A busy machine may need longer than Playwright's five seconds.


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window. It runs as whoever runs the tests, so it has no sandbox if that is root."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


def opened_page(of: Browser, url: str) -> Page:
    """A page that fails the test if a script of it does, or if the policy of the site forbids it something."""
    page = _made(of)
    page.goto(url)
    return page


def _made(of: Browser) -> Page:
    page = of.new_page(viewport=SIZE)  # type: ignore[arg-type]  # A dict is what it takes.
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", _failed)
    return page


def _failed(error: Exception) -> None:
    raise AssertionError(f"a script of the page failed: {error}")


def logged_in(of: Browser, at: Served, name: str, place: str = "", script: str = "") -> Page:
    """As `opened_page`, by somebody who has the password of all tests; `script` runs before those of the page."""
    status, _, body = at.request("POST", "/login", {"name": name, "password": PASSWORD})
    assert status == 200, body
    page = _made(of)
    page.add_init_script(f"sessionStorage.setItem('albireo.token', {json.dumps(json.loads(body)['token'])})")
    page.add_init_script(script)
    page.goto(f"{at.url}/{place}")
    expect(page.get_by_role("banner").get_by_role("link", name=name)).to_be_visible(timeout=PATIENCE_MS)
    return page


def write_form(page: Page) -> Locator:
    """The field "Value" of the form of an order, which does not open while the page hears nothing: then once more."""
    value = page.get_by_label("Value")

    def is_open() -> bool:
        if not value.is_visible():
            with contextlib.suppress(NotInTime):  # The button goes as the form comes.
                page.get_by_role("button", name="Write …").click(timeout=PRESS_MS)
        return value.is_visible()

    awaited(is_open)
    return value


def shows(page: Page, text: str | re.Pattern[str]) -> None:
    """Wait until a text is seen."""
    expect(page.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)


def hue(page: Page) -> int:
    """Largest distance between two channels of a pixel."""
    with Image.open(io.BytesIO(page.screenshot())) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    return int((pixels.max(axis=2) - pixels.min(axis=2)).max())
