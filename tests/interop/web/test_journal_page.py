"""The journal at the page: an event is found by its item, and older ones by asking on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, expect

from albireo.model.case import Action
from tests.parts.browser import MISSING, logged_in, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
COMMENTS = 300
"""Each is two entries, so that they are more than the page asks for at once."""


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PagePlant]:
    with page_plant(tmp_path) as made:
        made.add_person("anna", "operate")
        yield made


def test_an_event_is_found_by_its_item_and_older_ones_are_asked_for(plant: PagePlant, chromium: Browser) -> None:
    fan = replace(CO, name="fan_fault")
    plant.say({fan: 55.0})
    with plant.client() as client:
        (meant,) = awaited(lambda: [one for one in client.cases() if one.item == "root:fan_fault"])
        for number in range(COMMENTS):
            client.act(Action.COMMENT, meant.case_id, f"comment {number}")
    plant.say({CO: 46.8}, "another sensor")
    page = logged_in(chromium, plant.at, "anna", "#journal")
    first = page.locator("table.evt tr").first
    expect(page.get_by_role("row", name="root:co_8")).to_be_visible()
    shows(page, f"comment {COMMENTS - 1}")
    assert "comment 1 " not in page.inner_text("main") + " "
    page.keyboard.press("/")
    page.keyboard.type("co_8")
    expect(page.locator("table.evt tr")).to_have_count(1)
    expect(first).to_contain_text("raised")
    shows(page, "1 of the newest 500")
    page.get_by_role("searchbox").fill("fan_fault raised")
    shows(page, "None of those that are shown here is like this.")
    older = page.get_by_role("button", name="Older ones")
    older.click()
    expect(older).to_have_count(0)
    expect(page.locator("table.evt tr")).to_have_count(1)
    expect(first).to_contain_text("root:fan_fault")
    page.get_by_label("Kind").select_option("case")
    page.get_by_role("searchbox").fill("")
    expect(first).to_contain_text("root:co_8")
    page.close()
