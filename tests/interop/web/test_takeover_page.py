"""The page in a real browser, at a real pair: live values, an alarm, and the member that serves it killed."""

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from albireo.client import Client, connect
from tests.parts.browser import BOXES, MISSING, PATIENCE_MS, logged_in, opened_page, shows, write_form
from tests.parts.field import RawDevice, registers_answer
from tests.parts.page_plant import CO, add_person, is_read, say
from tests.parts.port import free_ports
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.waiting import PATIENCE_S
from tests.parts.web import PASSWORD, Served

pytestmark = [pytest.mark.drill, pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
FACE = """
[[node.face]]
name = "page_{member}"
kind = "web"
bind = "{url}"
urls = {urls}
member = "{member}"
"""
ADAPTER = """
[[node.adapter]]
name = "p1"
kind = "modbus"
url = "tcp://127.0.0.1:{port}"
items = "p1.csv"
timeout_ms = 30000
dead_time_ms = 60000
"""
KEPT = """(() => { const one = document.activeElement; return [one.id, one.value, one.selectionStart, one.selectionEnd,
  document.querySelector("#value")?.value, window.scrollY, location.href]; })()"""
FANS = """name,kind,address,type,writable,minimum,maximum,unit,description
fan_1,holding,1,int16,true,0,1500,rpm,Speed of fan 1
fan_2,holding,2,int16,true,0,1500,rpm,Speed of fan 2
"""


class PagedPair:
    """A pair with a page beside each member, and a program that says a value."""

    def __init__(self, home: Path, device_port: int) -> None:
        self.urls = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
        faces = [
            FACE.format(member=member, url=url, urls=str(self.urls).replace("'", '"'))
            for member, url in zip(MEMBERS, self.urls, strict=True)
        ]
        (home / "p1.csv").write_text(FANS)
        self.pair = Pair(home, adapters="".join(faces) + ADAPTER.format(port=device_port))
        self.pair.start(*VOTERS, *MEMBERS)
        try:
            until(lambda: self.pair.run("pair", "init", member="primary")[0] == 0, lambda: "the voters answer")
            until(lambda: all(map(is_served, self.urls)), lambda: "both pages are there")
        except BaseException:  # Whatever it was goes on; the processes do not.
            self.pair.end()
            raise

    def client(self) -> Client:
        return connect([self.pair.data(member) for member in MEMBERS], timeout_s=PATIENCE_S)


def is_served(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), PATIENCE_S):
        return True
    return False


def fan_device() -> RawDevice:
    """A PLC that tells its registers, and never says what became of a write."""
    return RawDevice(lambda _, function, request: registers_answer(request, 0) if function == 3 else None)


@contextlib.contextmanager
def served_device() -> Iterator[RawDevice]:
    """The device, in a thread of its own."""
    device, is_over = fan_device(), threading.Event()

    async def story() -> None:
        async with device:
            await asyncio.to_thread(is_over.wait)

    with ThreadPoolExecutor(1, "device") as threads:
        serving = threads.submit(asyncio.run, story())
        try:
            yield device
        finally:
            is_over.set()
            serving.result(PATIENCE_S)


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedPair]:
    with served_device() as device:
        made = PagedPair(tmp_path, device.port)
        try:
            yield made
        finally:
            made.pair.end()


def test_a_page_goes_on_with_the_other_member_when_its_own_is_killed(paged: PagedPair, chromium: Browser) -> None:
    with paged.client() as client:
        say(client, {CO: 11.2})
        page = opened_page(chromium, paged.urls[0])
        shows(page, "11.2")
        say(client, {CO: 46.8})
        shows(page, "Carbon monoxide in section 8")
        shows(page, "46.8")
        paged.pair.kill("primary")
        expect(page.get_by_text(re.compile("Nothing heard for|Now speaking with")).first).to_be_visible(
            timeout=PATIENCE_MS
        )
        shows(page, "Now speaking with root[backup]")
        say(client, {CO: 47.3})
        shows(page, "47.3")
    assert page.url.startswith(paged.urls[0]), "the page was not loaded anew"


def test_a_takeover_keeps_what_the_operator_was_doing(paged: PagedPair, chromium: Browser) -> None:
    with paged.client() as client:
        add_person(client, "anna", "operate")
        until(lambda: is_read(client, "root:fan_1") and is_read(client, "root:fan_2"), lambda: "the fans are read")
    at = Served(paged.pair.data("primary"), int(paged.urls[0].rpartition(":")[2]), PASSWORD)
    page = logged_in(chromium, at, "anna", "#item?name=root%3Afan_1")
    page.set_viewport_size({"width": 1280, "height": 480})
    # An order of which the device says nothing.
    write_form(page).fill("700")
    page.get_by_label("Why").fill("smoke")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Operate").click()
    # On a busy machine the lead may move before the takeover of this test, and nobody knows then either.
    expect(page.locator(".course")).to_contain_text(re.compile("executing|Unknown"), timeout=PATIENCE_MS)
    order_id = page.locator(".order footer .id").inner_text()
    # A form that is half filled.
    page.goto(f"{paged.urls[0]}/#item?name=root%3Afan_2")
    write_form(page).fill("900")
    why = page.get_by_label("Why")
    why.fill("too much smoke in section 8")
    why.evaluate("(one) => one.setSelectionRange(4, 8)")
    page.evaluate("window.scrollTo(0, 60)")
    before, boxes = page.evaluate(KEPT), page.evaluate(BOXES)
    paged.pair.kill("primary")
    shows(page, "Now speaking with root[backup]")
    with paged.client() as client:
        assert page.evaluate(KEPT) == before
        assert page.evaluate(BOXES) == boxes, "something moved"
        expect(page.locator("header.top")).to_contain_text("anna")
        page.goto(f"{paged.urls[0]}/#item?name=root%3Afan_1")
        expect(page.locator(".res")).to_contain_text("Unknown", timeout=PATIENCE_MS)
        # The page knew of no answer at once; the node that goes on waits first for one of the device.
        until(lambda: client.command(order_id).state == "unknown", lambda: f"{client.command(order_id)}")
        course = client.command(order_id)
        assert (course.reason, course.user) == ("smoke", "anna")
        # It goes on where it was.
        page.goto(f"{paged.urls[0]}/#item?name=root%3Afan_2")
        expect(why).to_have_value("too much smoke in section 8")
        why.press("Enter")
        page.get_by_role("button", name="Operate").click(timeout=PATIENCE_MS)
        until(
            lambda: any(one.reason == "too much smoke in section 8" for one in client.commands(limit=5)),
            lambda: "the order is on record at the other member",
        )
