"""The page in a real browser, at a real pair: live values, an alarm, and the member that serves it killed."""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from albireo.client import Client, connect
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.browser import MISSING, opened_page
from tests.parts.port import free_ports
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
CO = DataItem(
    name="co_8",
    value_type=ValueType.FLOAT64,
    unit="ppm",
    description="Carbon monoxide in section 8",
    alarm=AlarmSettings(hi=40.0, severity=700),
)
FACE = """
[[node.face]]
name = "page_{member}"
kind = "web"
bind = "{url}"
urls = {urls}
member = "{member}"
"""
PATIENCE_MS = PATIENCE_S * 1000


class PagedPair:
    """A pair with a page beside each member, and a program that says a value."""

    def __init__(self, home: Path) -> None:
        self.urls = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
        faces = [
            FACE.format(member=member, url=url, urls=str(self.urls).replace("'", '"'))
            for member, url in zip(MEMBERS, self.urls, strict=True)
        ]
        self.pair = Pair(home, adapters="".join(faces))
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


def say(client: Client, *values: float) -> None:
    producer = client.producer("sensor", [CO])
    for value in values:
        now = np.array([wall_ns()])
        row = SampleBatch(
            value_type=ValueType.FLOAT64,
            item_id=np.zeros(1, np.uint32),
            source_ns=now,
            node_ns=now,
            value=np.array([value]),
            quality=np.zeros(1, np.uint32),
        )
        producer.offer([row])
        assert producer.flush(PATIENCE_S)


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedPair]:
    made = PagedPair(tmp_path)
    try:
        yield made
    finally:
        made.pair.end()


def shows(page: Page, text: str) -> None:
    expect(page.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)


def test_a_page_goes_on_with_the_other_member_when_its_own_is_killed(paged: PagedPair, chromium: Browser) -> None:
    page = opened_page(chromium, paged.urls[0])
    shows(page, "speaking with")
    with paged.client() as client:
        say(client, 11.2, 46.8)
        shows(page, "Carbon monoxide in section 8")
        shows(page, "46.8")
        paged.pair.kill("primary")
        expect(page.get_by_text(re.compile("Nothing heard for|Now speaking with")).first).to_be_visible(
            timeout=PATIENCE_MS
        )
        shows(page, "Now speaking with root[backup]")
        say(client, 47.3)
        shows(page, "47.3")
    assert page.url.startswith(paged.urls[0]), "the page was not loaded anew"
