"""Items that come while the page is open."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.parts.browser import MISSING, opened_page, shows
from tests.parts.page_plant import CO, page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def test_the_overview_learns_of_an_item_that_comes_later(tmp_path: Path, chromium: Browser) -> None:
    with page_plant(tmp_path, has_plc=True) as plant:
        page = opened_page(chromium, plant.url)
        shows(page, "Speed of fan 1")
        plant.say({CO: 31.4})
        shows(page, "31.4")
