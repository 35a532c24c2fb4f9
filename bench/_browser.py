"""The page in a real browser: a change until its pixel, what the browser costs, first paint, long trends, a takeover.

A site below a root, and a pair, both real. Values are the times of their change, so that whoever shows one tells its
age: a client beside the browser by what it is told, the browser by its text once the frame with it was made.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from albireo.client import Client, QueueFull, connect
from albireo.drill.ports import KeptPorts
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo
from bench import Case, Progress, case, median
from bench._pair import MEMBERS, running_pair
from bench._tree import NodeTree, TreeNode

ITEMS: Final = 200
PENS: Final = 4
PERIOD_S: Final = 0.1
START_S: Final = 60.0
SETTLE_S: Final = 5.0
MEASURED_S: Final = 15.0
DAYS: Final = 30
ROWS: Final = 20_000
"""Samples of one batch of the past."""
LONG_ITEMS: Final = 3
PATIENCE_MS: Final = 60_000
CHANGING: Final = "import sys; from bench._browser import change; change(sys.argv[1])"
FACE: Final = """[[node.face]]
name = "{name}"
kind = "web"
bind = "{url}"
urls = {urls}
{more}
"""
SEEN: Final = """
window.ages = []; window.changedAt = []; window.trend = {};
const painted = (then) => requestAnimationFrame(() => {
  const line = new MessageChannel(); line.port1.onmessage = then; line.port2.postMessage(0);
});
window.lookAt = (name) => {
  let last = "";
  const look = () => {
    const text = document.querySelector(`[data-name="${name}"] .val`)?.textContent ?? "";
    if (text !== last) {
      last = text;
      const at = Number(text.replace(/\\D/g, ""));
      painted(() => { window.ages.push(Date.now() % 1e8 - at); window.changedAt.push(Date.now()); });
    }
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
};
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  if (typeof data === "string" && data.includes('"trend"')) window.trend.asked ??= performance.now();
  if (!this.isWatched) {
    this.isWatched = true;
    this.addEventListener("message", ({ data }) => {
      if (!data.includes('"times_ms"')) return;
      painted(() => { window.trend.shown = performance.now(); document.body.dataset.trend = "shown"; });
    });
  }
  return send.call(this, data);
};
"""
"""A frame is made between the animation callback and the message behind it."""


def cases(directory: Path, progress: Progress) -> list[Case]:
    with sync_playwright() as playwright, KeptPorts(3) as kept:
        url, *urls = (f"http://127.0.0.1:{one}" for one in kept.numbers)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            live = _live(directory / "tree", browser, url, progress)
            return [*live, *_takeover(directory / "pair", browser, urls, progress)]
        finally:
            browser.close()


def _live(directory: Path, browser: Browser, url: str, progress: Progress) -> list[Case]:
    directory.mkdir()
    face = FACE.format(name="page", url=url, urls=json.dumps([url]), more="")
    nodes = [TreeNode(node="root", more=face), TreeNode(node="root/site")]
    with NodeTree(directory, nodes) as tree:
        tree.start("root", "root/site")
        tree.wait_until_heard("root", "root/site")
        with tree.client("root/site") as site:
            progress(f"{LONG_ITEMS} items of {DAYS} days at 1 Hz")
            begin_s = _fill(site)
        with _changing([tree.lines["root/site"]], tree.keys), tree.client("root") as client:
            progress("changes until their pixel")
            return [
                *_ages(client, browser, url),
                *_paint(browser, url),
                *_trends(tree, browser, url, begin_s, progress),
            ]


def _ages(client: Client, browser: Browser, url: str) -> list[Case]:
    page = _opened(browser, f"{url}/#items?find=change_")
    page.wait_for_selector('[data-name="root/site:change_0"] .val')
    page.evaluate("lookAt('root/site:change_0')")
    other = _opened(browser, f"{url}/#trends?pens=" + ",".join(f"root/site:change_{one}" for one in range(PENS)))
    other.wait_for_selector("canvas")
    time.sleep(SETTLE_S)
    family = _family()
    page.evaluate("ages.length = 0")
    before, began = _cpu_s(family), time.perf_counter()
    told = _watched(client, "root/site:change_0")
    spent = (_cpu_s(family) - before) / (time.perf_counter() - began)
    seen = page.evaluate("ages")
    for one in (page, other):
        one.close()
    return [
        case(
            "change at a site until its pixel at the root, p50, beside a client", "ms", *_both(seen, told, 0.5), "<= 3"
        ),
        case("the same, p99", "ms", *_both(seen, told, 0.99), "<= 4"),
        case("the same, p50, by itself", "ms", _at(seen, 0.5), goal="<= 150"),
        case(f"CPU of the browser, {ITEMS} items at 10 Hz and {PENS} trends", "% of a core", 100 * spent, goal="<= 20"),
    ]


def _paint(browser: Browser, url: str) -> list[Case]:
    context = browser.new_context()
    page = context.new_page()
    found = []
    for _ in range(6):
        page.goto(url)
        page.wait_for_selector("main h1")
        found.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        page.goto("about:blank")
    context.close()
    return [case("first paint, warm", "ms", median(found[1:]), goal="<= 1000")]


def _trends(tree: NodeTree, browser: Browser, url: str, begin_s: int, progress: Progress) -> list[Case]:
    shown, asked = [], []
    begin_ns, end_ns = begin_s * 10**9, (begin_s + DAYS * 86_400) * 10**9
    with tree.client("root") as client:
        for number in range(LONG_ITEMS):
            name = f"root/site:long_{number}"
            progress(f"{name}, {DAYS} days")
            began = time.perf_counter()
            client.band(name, begin_ns, end_ns, DAYS * 86_400 / 600)
            asked.append(1e3 * (time.perf_counter() - began))
            place = f"trends?pens={name}&span={DAYS * 86_400}&to={end_ns // 10**6}"
            page = _opened(browser, f"{url}/#{place}")
            page.wait_for_selector("body[data-trend]")
            shown.append(page.evaluate("trend.shown - trend.asked"))
            page.close()
    return [
        case(
            f"trend of {DAYS} days at 1 Hz until it is drawn, beside `history`",
            "ms",
            median(shown),
            median(asked),
            "<= 3",
        )
    ]


def _takeover(directory: Path, browser: Browser, urls: list[str], progress: Progress) -> list[Case]:
    directory.mkdir()
    more = "".join(
        FACE.format(name=f"page_{one}", url=url, urls=json.dumps(urls), more=f'member = "{one}"')
        for one, url in zip(MEMBERS, urls, strict=True)
    )
    with running_pair(directory, more) as pair:
        lines = [LineTo(pair.clients[one], pair.place(one)) for one in MEMBERS]
        with _changing(lines, pair.keys), connect(lines, keys=pair.keys, timeout_s=60.0) as client:
            active = pair.wait_until_whole()
            progress(f"{active} is killed under a page")
            page = _opened(browser, f"{urls[MEMBERS.index(active)]}/#items?find=change_")
            page.wait_for_selector('[data-name="root:change_0"] .val')
            page.evaluate("lookAt('root:change_0')")
            time.sleep(SETTLE_S)
            page.evaluate("changedAt.length = 0")
            killing = threading.Timer(2.0, pair.kill, [active])
            killing.start()
            told: list[float] = []
            _watched(client, "root:change_0", told)
            killing.join()
            seen = page.evaluate("changedAt")
            page.close()
            gap, own = _longest(seen), _longest([1e3 * one for one in told])
    return [
        case("longest gap of the page at a takeover", "ms", gap),
        case("longest gap of a client at the same takeover", "ms", own),
        case("the page's gap beyond the client's", "ms", max(0.0, gap - own), goal="<= 1000"),
    ]


def _longest(times_ms: Sequence[float]) -> float:
    return float(np.max(np.diff(times_ms)))


def _watched(client: Client, name: str, at: list[float] | None = None) -> list[float]:
    """Ages of an item's changes at a client, in ms; `at` takes when they came, in s."""
    ages: list[float] = []
    ends = time.monotonic() + MEASURED_S
    for changes in client.watch([name], timeout_s=1.0):
        if changes.readings and not changes.is_whole:
            ages += [time.time() * 1e3 % 1e8 - float(one.value) for one in changes.readings if one.value is not None]
            if at is not None:
                at.append(time.time())
        if time.monotonic() > ends:
            return ages
    return ages


def _both(ours: Sequence[float], theirs: Sequence[float], share: float) -> tuple[float, float]:
    return _at(ours, share), _at(theirs, share)


def _at(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share))


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(SEEN)
    ends = time.monotonic() + START_S
    while True:
        try:
            page.goto(url)
        except PlaywrightError:  # The face is not there yet.
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)
        else:
            return page


def _family() -> list[psutil.Process]:
    """Processes of the browser, children of this one."""
    return [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    spent = 0.0
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            spent += times.user + times.system
    return spent


def _fill(client: Client) -> int:
    """Thirty days of the past, one sample a second; when they begin, in s."""
    items = [DataItem(name=f"long_{number}", value_type=ValueType.FLOAT64) for number in range(LONG_ITEMS)]
    begin_s = (int(time.time()) // 86_400 - DAYS) * 86_400
    random = np.random.default_rng(3)
    with client.producer("past", items) as producer:
        for at in range(0, DAYS * 86_400, ROWS):
            times = (begin_s + np.arange(at, min(at + ROWS, DAYS * 86_400))) * 10**9
            for number in range(LONG_ITEMS):
                while True:
                    with contextlib.suppress(QueueFull):
                        producer.offer([_past(times, number, random)])
                        break
                    producer.wait(1.0)
        producer.flush(120.0)
    return begin_s


def _past(times: "np.ndarray[Any, np.dtype[np.int64]]", number: int, random: np.random.Generator) -> SampleBatch:
    count = len(times)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.full(count, number, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.round(20 + 5 * np.sin(times / 3e12) + random.normal(0, 0.3, count), 2),
        quality=np.zeros(count, np.uint32),
    )


@contextlib.contextmanager
def _changing(lines: Sequence[LineTo], keys: Keys) -> Iterator[None]:
    """A process that changes all items ten times a second."""
    said = json.dumps([[[one.endpoint, one.peer] for one in lines], str(keys.directory)])
    child = subprocess.Popen([sys.executable, "-c", CHANGING, said], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        if not child.stdout.readline():
            raise RuntimeError("the program that changes items ended")
        yield
    finally:
        child.terminate()
        child.wait()


def change(said: str) -> None:
    """Change all items ten times a second, until somebody ends this process. The value is its time, in ms."""
    lines, keys = json.loads(said)
    items = [DataItem(name=f"change_{number}", value_type=ValueType.INT64) for number in range(ITEMS)]
    due = time.monotonic()
    places = [LineTo(*one) for one in lines]
    with connect(places, keys=Keys.load(Path(keys)), timeout_s=60.0) as client, client.producer("plc", items) as plc:
        plc.offer([_now()])
        plc.flush(60.0)
        print("ready", flush=True)
        while True:
            plc.offer([_now()])
            plc.wait(0)
            due += PERIOD_S
            time.sleep(max(0.0, due - time.monotonic()))


def _now() -> SampleBatch:
    now_ns = time.time_ns()
    at = np.full(ITEMS, now_ns, np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.arange(ITEMS, dtype=np.uint32),
        source_ns=at,
        node_ns=at,
        value=np.full(ITEMS, now_ns // 10**6 % 10**8, np.int64),
        quality=np.zeros(ITEMS, np.uint32),
    )
