"""Logging in at the page, and what ends a login."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.parts.browser import MISSING, PATIENCE_MS, logged_in, opened_page, shows
from tests.parts.page_plant import CO, PagePlant, page_plant
from tests.parts.waiting import awaited
from tests.parts.web import PASSWORD

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PagePlant]:
    with page_plant(tmp_path) as made:
        made.add_person("anna", "operate")
        yield made


def enter(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.keyboard.press("Enter")


def test_the_first_admin_chooses_a_password_of_its_own(plant: PagePlant, chromium: Browser) -> None:
    page = opened_page(chromium, f"{plant.url}/#login")
    enter(page, "admin", plant.at.password)
    shows(page, "this password is for one login")
    for new, again in (("one that I chose", "another one"), ("one that I chose", "one that I chose")):
        page.get_by_label("New password, 8").fill(new)
        page.get_by_label("New password once more").fill(again)
        page.keyboard.press("Enter")
        if new != again:
            shows(page, "differ")
    link = page.get_by_role("banner").get_by_role("link", name="admin")
    expect(link).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("banner").get_by_role("link", name="admin").click()
    page.get_by_role("button", name="Log out").click()
    shows(page, "view only: log in")
    page.goto(f"{plant.url}/#login")
    enter(page, "admin", plant.at.password)
    shows(page, "name or password is wrong")
    enter(page, "admin", "one that I chose")
    expect(link).to_be_visible(timeout=PATIENCE_MS)


def test_a_wrong_password_is_told_and_the_right_one_logs_in_until_the_logout(
    plant: PagePlant, chromium: Browser
) -> None:
    page = opened_page(chromium, f"{plant.url}/#login")
    enter(page, "anna", "not this one")
    shows(page, "name or password is wrong")
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    enter(page, "anna", PASSWORD)
    link = page.get_by_role("banner").get_by_role("link", name="anna")
    expect(link).to_be_visible(timeout=PATIENCE_MS)
    assert not page.url.endswith("#login")
    page.reload()
    expect(link).to_be_visible(timeout=PATIENCE_MS)
    link.click()
    page.get_by_role("button", name="Log out").click()
    shows(page, "view only: log in")
    page.reload()
    shows(page, "view only: log in")
    with plant.client() as client:
        awaited(lambda: not [one for one in client.sessions() if one.principal == "person:anna"])


def test_a_login_that_is_ended_ends_at_the_page_within_seconds(plant: PagePlant, chromium: Browser) -> None:
    plant.say({CO: 46.8})
    page = logged_in(chromium, plant.at, "anna")
    button = page.locator(".banner").get_by_role("button", name="Acknowledge")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)
    with plant.client() as client:
        login = next(one for one in client.sessions() if one.principal == "person:anna")
        client.end_session(login.session_id, "she went home")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("has ended this login: she went home", timeout=PATIENCE_MS)
    expect(button).to_be_disabled()
    shows(page, "46.8")
    notice.get_by_role("link", name="Log in").click()
    expect(page.get_by_label("Name")).to_be_focused(timeout=PATIENCE_MS)


def test_a_page_that_is_closed_to_strangers_shows_them_a_login_alone(tmp_path: Path, chromium: Browser) -> None:
    with page_plant(tmp_path, open=False) as plant:
        plant.add_person("anna", "operate")
        plant.say({CO: 46.8})
        page = opened_page(chromium, plant.url)
        shows(page, "Password")
        assert "46.8" not in page.inner_text("body")
        enter(page, "anna", PASSWORD)
        shows(page, "46.8")
