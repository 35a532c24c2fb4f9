"""What nobody, a viewer and an operator may do at the page: what is off says why, and the node refuses all the same."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, opened_page, shows
from tests.parts.page_plant import CO, PagePlant, page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
ASKED = """([method, values]) => new Promise((done) => {
  const line = new WebSocket(location.origin.replace("http", "ws") + "/ws");
  line.onopen = () => {
    line.send(JSON.stringify({ kind: "begin", token: sessionStorage.getItem("albireo.token") ?? "", patterns: [] }));
    line.send(JSON.stringify({ kind: "asked", id: 1, method, arguments: values }));
  };
  line.onmessage = (event) => {
    const word = JSON.parse(event.data);
    if (word.kind !== "answered") return;
    line.close();
    done(word);
  };
})"""
"""Asks as a page could that knows nothing of what is off."""
ORDER = {"item": "root:fan_speed", "value": 700, "command_id": "12345678-of-a-test"}
NOBODY, VIEWER = "Needs somebody who is logged in", "Needs the role operate at root; you have view"
ELSEWHERE = "Needs the role operate at root; you have view"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant"), has_plc=True) as made:
        made.add_person("vera")
        made.add_person("otto", "operate")
        made.add_person("nora", "operate", "root/north")
        made.say({CO: 46.8})
        yield made


def opened(plant: PagePlant, chromium: Browser, name: str) -> Page:
    page = logged_in(chromium, plant.at, name) if name else opened_page(chromium, plant.url)
    shows(page, "Carbon monoxide in section 8")
    return page


def is_off(button: Locator, why: str) -> None:
    expect(button).to_be_disabled(timeout=PATIENCE_MS)
    expect(button).to_have_attribute("title", why)
    assert button.evaluate("(one) => getComputedStyle(one).borderStyle") == "dashed"


@pytest.mark.parametrize(("name", "why"), [("", NOBODY), ("vera", VIEWER), ("nora", ELSEWHERE)])
def test_whoever_may_not_operate_is_told_why(plant: PagePlant, chromium: Browser, name: str, why: str) -> None:
    page = opened(plant, chromium, name)
    is_off(page.locator(".banner").get_by_role("button", name="Acknowledge"), why)
    page.goto(f"{plant.url}/#alarms")
    page.locator("tr[data-key]").click()
    bar = page.locator(".bar2")
    for one in ("Acknowledge", "Shelve …", "Comment …"):
        is_off(bar.get_by_role("button", name=one), why)
    page.goto(f"{plant.url}/#item?name=root%3Afan_speed")
    panel = page.get_by_role("region", name="Order", exact=True)
    expect(panel.get_by_text(why)).to_be_visible(timeout=PATIENCE_MS)
    expect(panel.get_by_role("button", name="Write …")).to_be_disabled()
    is_off(page.get_by_role("button", name="Force …"), why)
    for key in ("w", "a"):
        page.keyboard.press(key)
    expect(page.locator("#why")).to_have_count(0)
    for method, values in (("write", ORDER), ("ack", {"cases": [{"case_id": 1, "node": "root"}]})):
        told = page.evaluate(ASKED, [method, values])
        refusal = told.get("refusal") or {"code": "access", "cause": told["result"][0]["why"]}
        assert refusal["code"] == "access" and ("role" in refusal["cause"] or "logged in" in refusal["cause"]), told
    with plant.client() as client:
        assert client.read("root:fan_speed").value == 0
        assert not any(one.is_acked for one in client.cases())
    page.close()


def test_an_operator_does_all_but_what_needs_an_engineer(plant: PagePlant, chromium: Browser) -> None:
    page = opened(plant, chromium, "otto")
    expect(page.locator(".banner").get_by_role("button", name="Acknowledge")).to_be_enabled()
    page.goto(f"{plant.url}/#alarms")
    page.locator("tr[data-key]").click()
    bar = page.locator(".bar2")
    for one in ("Acknowledge", "Shelve …", "Comment …"):
        expect(bar.get_by_role("button", name=one)).to_be_enabled()
    is_off(
        bar.get_by_role("button", name="Take out of service …"),
        "Needs the role engineer at root; you have operate",
    )
    page.goto(f"{plant.url}/#item?name=root%3Afan_speed")
    expect(page.get_by_role("button", name="Write …")).to_be_enabled(timeout=PATIENCE_MS)
    with plant.client() as client:
        (case,) = client.cases()
        login = client.begin_login("vera", "10.0.0.9")
    acts = {"action": "out_of_service", "case_id": case.case_id, "node": "root", "comment": "wrong"}
    for method, values in (("act", acts), ("end_session", {"session_id": login.session_id, "node": "root"})):
        told = page.evaluate(ASKED, [method, values])
        assert told["refusal"]["code"] == "access", told
    page.goto(f"{plant.url}/#people")
    other = page.get_by_role("row").filter(has_text="vera").get_by_role("button", name="End …")
    is_off(other.first, "Needs the role admin at root; you have operate")
    page.close()
