"""The browser of these tests: one for each file, since Playwright keeps a loop in its thread while it is open."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.parts.browser import browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened
