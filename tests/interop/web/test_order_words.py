"""Words beside an order under way: of a node that falls silent, and of an outcome that comes late.

What the face says is real; on its way to the page it is changed where a test asks for it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, write_form
from tests.parts.page_plant import CO, PagePlant, page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
UNHEARD = re.compile(r"root is not heard since .*\d\d:\d\d:\d\d")
OUTCOMES = ("verified", "executed", "mismatched", "unknown", "rejected", "expired", "cancelled")


class Way:
    """The way from the face to the page."""

    def __init__(self) -> None:
        self.is_silent = False
        """The face does not hear its node."""
        self.state = ""
        """State of each order until this is empty; it has no outcome then, unless that is `unknown`."""

    def relayed(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def heard(text: str | bytes) -> None:
            word = json.loads(text)
            if word["kind"] == "view" and self.is_silent:
                word["stale"] = {"root": word["at_ms"] - 14_000}
            if word["kind"] == "answered" and self.state:
                word = self.held_back(word)
            if word:
                route.send(json.dumps(word))

        server.on_message(heard)

    def held_back(self, word: dict[str, Any]) -> dict[str, Any]:
        result = word["result"]
        if isinstance(result, dict) and "outcome" in result:
            return {**word, "result": None, "is_unknown": True} if self.state == "unknown" else {}
        if isinstance(result, dict) and "steps" in result:
            steps = [one for one in result["steps"] if one["stage"] not in OUTCOMES]
            word["result"] = {**result, "state": self.state, "steps": steps, "read_back": None, "is_settled": False}
        return word


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant"), has_plc=True) as made:
        made.add_person("anna", "operate")
        made.say({CO: 46.8})
        yield made


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture
def page(plant: PagePlant, chromium: Browser, way: Way) -> Iterator[Page]:
    opened = logged_in(chromium, plant.at, "anna", "#item?name=root%3Afan_speed")
    opened.route_web_socket(re.compile("/ws$"), way.relayed)
    opened.reload()
    yield opened
    opened.close()


def until_confirmed(page: Page, value: int) -> None:
    """Up to the last step."""
    write_form(page).fill(str(value))
    page.get_by_label("Why").fill("smoke")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Operate")).to_be_enabled(timeout=PATIENCE_MS)


def test_before_an_order_is_given_its_form_says_that_the_node_fell_silent(
    plant: PagePlant, page: Page, way: Way
) -> None:
    until_confirmed(page, 700)
    footer = page.locator(".order footer")
    expect(footer).not_to_contain_text("not heard")
    way.is_silent = True
    plant.say({CO: 47.0})
    expect(footer).to_contain_text(UNHEARD, timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Operate")).to_be_disabled()


def test_beside_an_order_under_way_stands_that_the_node_fell_silent(plant: PagePlant, page: Page, way: Way) -> None:
    until_confirmed(page, 710)
    way.state = "executing"
    page.get_by_role("button", name="Operate").click()
    waits = page.locator(".course .wait")
    expect(waits).to_contain_text("for the next word of the node", timeout=PATIENCE_MS)
    way.is_silent = True
    plant.say({CO: 47.1})
    expect(waits).to_contain_text(UNHEARD, timeout=PATIENCE_MS)
    way.is_silent, way.state = False, ""
    expect(page.locator(".res")).to_contain_text("Verified", timeout=PATIENCE_MS)


@pytest.mark.parametrize(
    ("state", "value", "first", "is_late"),
    [
        ("executing", 720, "for the next word of the node", False),
        ("unknown", 730, "It may have been done, or not.", True),
    ],
)
def test_an_outcome_that_comes_late_takes_the_place_of_what_was_said(
    page: Page, way: Way, state: str, value: int, first: str, is_late: bool
) -> None:
    until_confirmed(page, value)
    way.state = state
    page.get_by_role("button", name="Operate").click()
    panel = page.get_by_role("region", name="Order", exact=True)
    expect(panel).to_contain_text(first, timeout=PATIENCE_MS)
    expect(panel.locator(".course")).to_contain_text("executing", timeout=PATIENCE_MS)
    way.state = ""
    expect(panel.get_by_role("status")).to_contain_text(f"Read back {value} rpm.", timeout=PATIENCE_MS)
    late = "It was unknown until now." in panel.inner_text()
    assert late is is_late, "only what was called unknown is said to have been so"
    assert first not in panel.inner_text()
    expect(panel.locator(".course")).to_contain_text(f"read back {value} rpm: it is so")
