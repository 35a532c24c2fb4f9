"""People and keys at the page: an admin puts a person on record, ends what somebody does, and lets a key in."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from albireo.client import ClientError, connect
from albireo.runtime import Keys
from tests.parts.browser import MISSING, logged_in, opened_page, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited
from tests.parts.web import PASSWORD

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PagePlant]:
    with page_plant(tmp_path, with_keys=True) as made:
        made.add_person("otto", "admin")
        made.add_person("anna", "operate")
        yield made


def people(plant: PagePlant, chromium: Browser, name: str) -> Page:
    return logged_in(chromium, plant.at, name, "#people")


def enter(page: Page, **fields: str) -> None:
    """Fill in the form that is open, and send it."""
    for label, text in fields.items():
        page.get_by_role("dialog").get_by_label(label.replace("_", "-")).fill(text)
    page.get_by_role("dialog").locator("button.go").click()


def actions(plant: PagePlant) -> list[tuple[str, str, str]]:
    with plant.client() as client:
        rows = client.events(0, kind="audit").to_pylist()
    return [(row["action"], row["subject"], row["principal"]) for row in rows]


def test_a_person_is_put_on_record_and_chooses_a_password_at_the_first_login(
    plant: PagePlant, chromium: Browser
) -> None:
    page = people(plant, chromium, "otto")
    page.get_by_role("button", name="New person …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    assert dialog.get_by_label("one-time password").get_attribute("autocomplete") == "new-password"
    page.get_by_label("Role", exact=True).select_option("operate")
    enter(page, Name="anna", one_time="for one login")
    expect(dialog.get_by_role("alert")).to_contain_text("is on record already")
    page.get_by_role("dialog").get_by_label("Name").fill("bert")
    page.keyboard.press("Enter")
    row = page.get_by_role("region", name="People on record").get_by_role("row", name="bert")
    expect(row).to_contain_text("operate at all nodes")
    expect(row).to_contain_text("one-time password")
    assert "for one login" not in page.content() + page.url
    assert ("person_added", "bert", "person:otto") in actions(plant)
    other = opened_page(chromium, f"{plant.url}/#login")
    other.get_by_label("Name").fill("bert")
    other.get_by_label("Password", exact=True).fill("for one login")
    other.keyboard.press("Enter")
    shows(other, "this password is for one login")
    other.get_by_label("New password, 8").fill(PASSWORD)
    other.get_by_label("New password once more").fill(PASSWORD)
    other.keyboard.press("Enter")
    expect(other.get_by_role("banner").get_by_role("link", name="bert")).to_be_visible()
    expect(row).not_to_contain_text("one-time password")
    other.close()
    page.close()


def test_roles_and_passwords_are_given_and_taken(plant: PagePlant, chromium: Browser) -> None:
    page = people(plant, chromium, "otto")
    row = page.get_by_role("region", name="People on record").get_by_role("row", name="anna")
    row.get_by_role("button", name="Give a role … person:anna").click()
    page.get_by_label("Role", exact=True).select_option("engineer")
    enter(page)
    expect(row).to_contain_text("engineer at all nodes")
    row.get_by_role("button", name="Take … person:anna: engineer at all nodes").click()
    page.keyboard.press("Enter")
    expect(row).to_contain_text("may view")
    row.get_by_role("button", name="New password …").click()
    enter(page, one_time="short")
    expect(page.get_by_role("dialog")).to_be_visible()
    enter(page, one_time="long enough")
    expect(page.get_by_role("dialog")).to_have_count(0)
    status, _, _ = plant.at.request("POST", "/login", {"name": "anna", "password": "long enough"})
    assert status == 409, "it is for one login"
    done = actions(plant)
    assert {one for one, _, who in done if who == "person:otto"} >= {
        "access_granted",
        "access_revoked",
        "person_changed",
    }
    page.close()


@pytest.mark.parametrize("how", ["disabled", "ended"])
def test_whose_login_is_ended_is_told_by_whom_and_why(plant: PagePlant, chromium: Browser, how: str) -> None:
    hers = logged_in(chromium, plant.at, "anna", "#alarms")
    page = people(plant, chromium, "otto")
    if how == "disabled":
        page.get_by_role("row", name="anna").get_by_role("button", name="Disable …").click()
        page.keyboard.press("Enter")
        expect(page.get_by_role("row", name=re.compile("anna.*disabled"))).to_be_visible()
    else:
        page.get_by_role("row", name="person:anna").get_by_role("button", name="End …").click()
        enter(page, Why="she went home")
    told = "person:otto has disabled anna" if how == "disabled" else "person:otto has ended this login: she went home"
    expect(hers.get_by_role("alert")).to_contain_text(told)
    expect(hers.get_by_role("banner").get_by_role("link", name="anna")).to_have_count(0)
    if how == "disabled":
        page.get_by_role("button", name="Enable …").click()
        page.keyboard.press("Enter")
        expect(page.get_by_role("row", name=re.compile("anna.*disabled"))).to_have_count(0)
        assert plant.at.request("POST", "/login", {"name": "anna", "password": PASSWORD})[0] == 200
    hers.close()
    page.close()


def test_who_is_no_admin_sees_what_is_missing_and_who_can_give_it(plant: PagePlant, chromium: Browser) -> None:
    page = people(plant, chromium, "anna")
    shows(page, "Needs the role admin at root; you have operate. Whoever is admin here can give it")
    expect(page.get_by_role("button", name="New person …")).to_be_disabled()
    assert "otto" not in page.get_by_role("region", name="People on record").inner_text()
    page.close()


def test_a_key_that_knocked_is_trusted_by_an_admin_and_has_its_role_then(
    plant: PagePlant, chromium: Browser, tmp_path: Path
) -> None:
    assert plant.keys is not None
    desk = Keys.new(tmp_path / "desk", "mes-1")
    desk.trust("root", plant.keys.public)
    plant.say({CO: 12.0})

    def knock(timeout_s: float) -> bool:
        with contextlib.suppress(ClientError), connect(plant.endpoint, keys=desk, timeout_s=timeout_s) as client:
            return bool(client.items())
        return False

    assert not knock(1.0)
    page = people(plant, chromium, "otto")
    knocks = page.get_by_role("region", name="Keys that knocked")
    shown = " ".join(re.findall("....", desk.public))
    expect(knocks).to_contain_text(shown)
    knocks.get_by_role("button", name="Trust …").click()
    expect(page.get_by_role("dialog")).to_contain_text(shown)
    page.get_by_label("Role", exact=True).select_option("operate")
    enter(page, Name="mes-1")
    expect(page.get_by_role("region", name="Keys", exact=True)).to_contain_text("operate at all nodes")
    expect(knocks).to_contain_text("None since this node runs.")
    assert ("access_granted", "mes-1", "person:otto") in actions(plant)
    assert awaited(lambda: knock(5.0))
    with plant.client() as client:
        assert any(one.principal == "mes-1" and one.role == "operate" for one in client.sessions())
    page.close()
