"""Markup in every text that comes from outside: it is shown as it is, nothing is made of it, and no script runs."""

import contextlib
import csv
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from albireo.client import Client, ClientError, NodeRefused, connect
from albireo.client.credentials import password_words
from albireo.model.case import Action, Case
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.item_states import ItemState
from albireo.model.value import ValueType
from tests.parts.browser import MISSING, PATIENCE_MS, logged_in
from tests.parts.page_plant import add_person, say
from tests.parts.port import free_port
from tests.parts.process_pair import ALBIREO, ENVIRONMENT
from tests.parts.waiting import PATIENCE_S, awaited
from tests.parts.web import PASSWORD, Served

pytestmark = [pytest.mark.drill, pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
HOSTILE = (
    '<img src=x onerror="window.hit=1">',
    "<script>window.hit=1</script>",
    '"><svg onload=window.hit=1>',
    "' autofocus onfocus='window.hit=1' x='",
    "</td></textarea></style><iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "javascript:window.hit=1",
    "${window.hit=1}{{window.hit=1}}",
    "<!--<b>&lt;i&gt;",
)
ALL = " ".join(HOSTILE)
IMAGE, SVG = HOSTILE[0], HOSTILE[2]
MADE = """[...document.querySelectorAll("body *")].filter((one) =>
  one.matches("img, script:not([src]), iframe, object, embed, base, meta, style, link")
  || [...one.attributes].some((its) => its.name.startsWith("on")
    || ["href", "src", "action"].includes(its.name) && its.value.trim().startsWith("javascript:"))
).map((one) => one.outerHTML)"""
"""Elements that no view has."""
WATCHING = """
window.hit = 0;
window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => window.forbidden.push(event.violatedDirective));
"""
ITEMS = (
    DataItem(
        name="co_8",
        value_type=ValueType.FLOAT64,
        unit=IMAGE,
        description=ALL,
        alarm=AlarmSettings(hi=40.0, severity=900),
    ),
    DataItem(name="note", value_type=ValueType.STRING, unit=SVG, description=f"Note {IMAGE}"),
)
WORD = "javascript:hit++ ' onhit"
VALVE = DataItem(
    name="valve", value_type=ValueType.BOOL, states=(ItemState(0, WORD), ItemState(1, "${hit++}{{hit++}}"))
)
NAMED = [DataItem(name=one, value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=40.0)) for one in HOSTILE]
"""Programs may give any name."""
TOPOLOGY = """
cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be002"
[[node]]
id = "root"
label = {label}
description = {text}
[[node.face]]
name = "page"
kind = "web"
bind = "http://127.0.0.1:{port}"
[[node.adapter]]
name = "p1"
kind = "modbus"
label = {label}
description = {text}
url = "tcp://127.0.0.1:{dead}"
items = "p1.csv"
[[node.object]]
name = "thing"
label = {label}
description = {text}
items = ["fan"]
[[group]]
label = {label}
description = {text}
members = ["root", "root:thing"]
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Served]:
    """A node of a process of its own, since its topology speaks too."""
    port = free_port()
    with (tmp_path / "p1.csv").open("w", newline="") as rows:
        table = csv.writer(rows)
        table.writerow(["name", "kind", "address", "type", "writable", "unit", "description"])
        table.writerow(["fan", "holding", "1", "int16", "true", SVG, ALL])
    file = tmp_path / "plant.toml"
    file.write_text(
        TOPOLOGY.format(text=json.dumps(ALL), label=json.dumps(f"{IMAGE} {SVG}"), port=port, dead=free_port())
    )
    data = tmp_path / "data"
    command = [*ALBIREO, "node", "run", "--topology", str(file), "--id", "root", "--data", str(data)]
    with (tmp_path / "node.log").open("wb") as log:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True)
    try:
        first = data / "web" / "page.first-login"
        awaited(lambda: process.poll() is not None or first.exists())
        assert process.poll() is None, (tmp_path / "node.log").read_text()
        with connect(data, timeout_s=PATIENCE_S, name=IMAGE) as client:
            awaited(lambda: client.people())
            speak(client)
        yield Served(data, port, PASSWORD)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)


def speak(client: Client) -> None:
    """Say what is hostile wherever a program or a person may say anything."""
    words = password_words(PASSWORD)
    for name in HOSTILE:
        with pytest.raises((NodeRefused, ClientError)):
            client.add_person(name, words)
    add_person(client, "anna", "admin")
    for word in HOSTILE:
        with pytest.raises(ValueError, match="the word"):
            ItemState(0, word)
    say(client, dict(zip((*ITEMS, VALVE), (46.8, ALL, False), strict=True)))
    say(client, dict.fromkeys(NAMED, 46.8), "named")
    case = awaited(lambda: [one for one in client.cases() if one.item == "root:co_8"])[0]
    client.act(Action.COMMENT, case.case_id, ALL)
    client.force("root:note", ALL, ALL, for_s=600)
    with contextlib.suppress(ClientError):
        client.write("root:fan", 1, ALL, expires_s=1.0)


def places() -> list[str]:
    said = quote(ALL)
    return [
        "overview",
        "alarms",
        "alarms?tab=history",
        f"alarms?node={said}",
        "items",
        f"items?find={said}&node={said}",
        "item?name=root%3Aco_8",
        "item?name=root%3Anote",
        "item?name=root%3Afan",
        f"item?name={said}",
        f"trends?pens=root%3Aco_8,{said}",
        "plant",
        "journal",
        "people",
        said,
    ]


def is_harmless(page: Page) -> None:
    assert page.evaluate(MADE) == []
    assert page.evaluate("window.hit") == 0
    assert page.evaluate("window.forbidden") == [], "the policy of the site had to help"


def test_hostile_texts_are_shown_as_they_are(hostile: Served, chromium: Browser) -> None:
    dialogs: list[str] = []
    page = logged_in(chromium, hostile, "anna", "", WATCHING)
    page.on("dialog", lambda one: dialogs.append(one.message))
    for place in places():
        page.goto(f"{hostile.url}/#{place}")
        for one in HOSTILE:  # Of the banner at the least.
            expect(page.locator("body")).to_contain_text(one, timeout=PATIENCE_MS)
        page.wait_for_timeout(300)  # Whatever a script would do, it has begun.
        is_harmless(page)
    for key in ("?", "D"):
        page.keyboard.press(key)
    is_harmless(page)
    assert not dialogs


def test_the_texts_of_what_people_did_are_shown_as_they_are(hostile: Served, chromium: Browser) -> None:
    page = logged_in(chromium, hostile, "anna", "#alarms", WATCHING)
    row = page.locator("tr[data-key]").filter(has_text="co_8")
    expect(row.locator(".by")).to_contain_text(IMAGE, timeout=PATIENCE_MS)
    page.goto(f"{hostile.url}/#item?name=root%3Anote")
    for one in HOSTILE:
        expect(page.locator("main .val").first).to_contain_text(one, timeout=PATIENCE_MS)
    page.get_by_role("button", name="End it: show what is measured").click()
    page.get_by_role("button", name="Force …").click(timeout=PATIENCE_MS)
    page.get_by_label("Value").fill(SVG)
    page.get_by_label("Why").fill(ALL)
    page.get_by_role("button", name="Force it").click()
    expect(page.locator("main .val").first).to_contain_text(SVG, timeout=PATIENCE_MS)
    page.goto(f"{hostile.url}/#item?name=root%3Afan")
    expect(page.locator(".oh")).to_contain_text(IMAGE, timeout=PATIENCE_MS)
    is_harmless(page)


def test_words_of_states_are_shown_as_they_are(hostile: Served, chromium: Browser) -> None:
    page = logged_in(chromium, hostile, "anna", "#item?name=root%3Avalve", WATCHING)
    expect(page.locator("main .val").first).to_have_text(f"{WORD} (false)", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Force …").click()
    assert page.get_by_label("Value").locator("option").all_inner_texts() == [
        f"{WORD} (false)",
        "${hit++}{{hit++}} (true)",
    ]
    is_harmless(page)


def test_the_policy_of_the_site_stands(hostile: Served) -> None:
    for path in ("/", "/static/page.js", "/static/page.css", "/login"):
        status, headers, _ = hostile.request(
            "POST" if path == "/login" else "GET", path, {} if path == "/login" else None
        )
        policy = headers["content-security-policy"]
        assert status in (200, 422)
        for one in ("default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
            assert one in policy
        assert "unsafe" not in policy and headers["x-content-type-options"] == "nosniff"


def test_alarms_of_items_of_any_name_are_acknowledged(hostile: Served, chromium: Browser) -> None:
    with connect(hostile.data, timeout_s=PATIENCE_S) as client:
        awaited(lambda: len(named(client)) == len(NAMED))
        page = logged_in(chromium, hostile, "anna", "#alarms", WATCHING)
        page.locator("tr.fold").get_by_role("button").click(timeout=PATIENCE_MS)  # So many are a flood.
        for one in HOSTILE:
            expect(page.locator("tr[data-key]").filter(has_text=one).first).to_be_visible(timeout=PATIENCE_MS)
        is_harmless(page)
        page.keyboard.press("Control+a")
        expect(page.locator(".bar2")).to_contain_text("selected")
        page.keyboard.press("a")
        awaited(lambda: all(one.is_acked for one in named(client)))


def named(client: Client) -> list[Case]:
    """Cases of items with hostile names."""
    return [one for one in client.cases() if one.item.partition(":")[2] in HOSTILE]
