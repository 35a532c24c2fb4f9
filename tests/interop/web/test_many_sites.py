"""The overview by the number of sites: cards in full, cards with what is wrong, a row for each; and a site that is cut.

The page hears the words of a face that serves many sites, which are made here: no processes are needed for them.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from albireo.face.web.words import Alive, FaceWord, Hello, PageMember, ShownCase, ShownItem, View
from albireo.model.case import LifecycleStatus
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.tree.navigation import PlantObject
from albireo.model.value import ItemId, ValueType
from tests.parts.browser import MISSING, PATIENCE_MS, SIZE
from tests.parts.page_plant import PagePlant, page_plant

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
SHOTS = os.environ.get("ALBIREO_PAGE_SHOTS", "")
"""Directory in which screenshots are kept; empty: none are."""
HEARD = """
const words = %s;
window.WebSocket = class {
  static OPEN = 1;
  readyState = 1;
  constructor() { setTimeout(() => this.onopen?.()); }
  say(word) { this.onmessage?.({ data: JSON.stringify({ ...word, at_ms: Date.now() }) }); }
  send(text) {
    if (JSON.parse(text).kind !== "begin") return;
    for (const word of words) this.say(word);
    setInterval(() => this.say(words.at(-1)), 300);
  }
  close() {}
};
"""
KINDS = ("co", "opacity", "fan", "level", "speed", "voltage")
ROWS = len(KINDS)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagePlant]:
    with page_plant(tmp_path_factory.mktemp("plant")) as made:
        yield made


def words(sites: int) -> list[FaceWord]:
    """A plant of so many sites: the last item of the second one is in alarm, the third one is cut."""
    now = int(time.time() * 1000)
    nodes = [f"root/s{at}" for at in range(1, sites + 1)]
    alarm = AlarmSettings(hi=100.0, severity=700)
    names = [(node, kind) for node in nodes for kind in KINDS]
    items = [
        ShownItem(key=at, node=node, item=DataItem(name=kind, value_type=ValueType.FLOAT64, alarm=alarm))
        for at, (node, kind) in enumerate(names)
    ]
    case = ShownCase(
        case_id=1,
        item_id=ItemId(1),
        condition=Condition.HI,
        severity=700,
        lifecycle_status=LifecycleStatus.NEW,
        is_active=True,
        is_acked=False,
        raised_ns=0,
        changed_ns=0,
        item=f"{nodes[1]}:{KINDS[-1]}",
        raised_ms=now,
        changed_ms=now,
    )
    hello = Hello(
        node="root",
        member="root",
        members=(PageMember(place="root"),),
        build="",
        objects=tuple(PlantObject(node=one, name="", label=f"Site {one[6:]}") for one in nodes),
    )
    view = View(
        number=1,
        at_ms=now,
        is_whole=True,
        items=tuple(items),
        values=tuple((at, 10.0, 0, now) for at in range(len(items))),
        cases=(case,),
        stale={nodes[2]: now - 14_000},
        forced=(),
    )
    return [hello, view, Alive(at_ms=now, newest_ms=now, leads="root", items=len(items))]


def opened(chromium: Browser, plant: PagePlant, sites: int, **size: Any) -> Page:
    page = chromium.new_page(viewport={**SIZE, **size})  # type: ignore[arg-type]  # A dict is what it takes.
    page.add_init_script(HEARD % msgspec.json.encode(words(sites)).decode())
    page.goto(plant.url)
    expect(page.locator("main")).to_contain_text("Site 3", timeout=PATIENCE_MS)
    if SHOTS:
        page.wait_for_timeout(500)
        page.screenshot(path=Path(SHOTS) / f"sites_{sites}.png")
    return page


def site(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


@pytest.mark.parametrize(("sites", "rows", "rows_in_alarm"), [(4, ROWS, ROWS), (5, 4, 5), (12, 4, 5)])
def test_cards_have_room_for_what_is_wrong(
    plant: PagePlant, chromium: Browser, sites: int, rows: int, rows_in_alarm: int
) -> None:
    page = opened(chromium, plant, sites)
    expect(page.locator(".site")).to_have_count(sites)
    expect(site(page, "Site 1").locator(".r")).to_have_count(rows)
    alarmed = site(page, "Site 2")
    expect(alarmed.locator(".r")).to_have_count(rows_in_alarm)
    expect(alarmed.locator(".r").last).to_contain_text("voltage")
    page.close()


def test_a_line_to_a_site_that_is_cut_says_since_when(plant: PagePlant, chromium: Browser) -> None:
    page = opened(chromium, plant, 3)
    expect(page.locator(".join.cut")).to_have_text("cut since " + page.locator(".wrong .node .si").inner_text())
    expect(site(page, "Site 3")).to_contain_text("values of")
    expect(page.locator(".wrong tr").first).to_contain_text("Not heard")
    page.close()


def test_beyond_twelve_sites_each_has_a_row_and_what_is_wrong_stands_first(plant: PagePlant, chromium: Browser) -> None:
    page = opened(chromium, plant, 13)
    rows = page.locator("main > * > section.card").last.get_by_role("row")
    expect(rows).to_have_count(13)
    expect(rows.nth(0)).to_contain_text("Site 3")
    expect(rows.nth(0)).to_contain_text("not heard for")
    expect(rows.nth(1)).to_contain_text("Site 2")
    page.close()


def test_a_wall_shows_five_rows_of_what_is_wrong_and_six_of_each_site(plant: PagePlant, chromium: Browser) -> None:
    page = opened(chromium, plant, 4, width=1920, height=1080)
    page.goto(f"{plant.url}/?wall")
    expect(site(page, "Site 1").locator(".r")).to_have_count(ROWS, timeout=PATIENCE_MS)
    expect(page.locator(".wrong tr")).to_have_count(2)
    page.close()
