"""A real browser for tests: Debian's chromium, driven by Playwright, which brings none of its own."""

import contextlib
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
MISSING = "" if CHROMIUM else "the Debian package chromium is missing (make peers)"
SIZE = {"width": 1440, "height": 900}


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
    page = of.new_page(viewport=SIZE)  # type: ignore[arg-type]  # A dict is what it takes.
    page.on("pageerror", _failed)
    page.goto(url)
    return page


def _failed(error: Exception) -> None:
    raise AssertionError(f"a script of the page failed: {error}")
