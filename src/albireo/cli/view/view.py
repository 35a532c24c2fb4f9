"""The live view on a terminal: keys in, threads that follow and ask the node, a screen four times a second.

    follower thread   states of the nodes                   -> inbox
    asker thread      status and tree, once a second        -> inbox
    orders thread     selections, writes, cases, scenarios  -> inbox
    this thread       keys, inbox, drawing; the only one that touches LiveState and Screen

Off a terminal it writes one plain line every PLAIN_S seconds to standard error instead.
"""

import contextlib
import os
import queue
import select
import sys
import termios
import threading
import time
import tty
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.live import Live

from albireo.cli.output import say
from albireo.cli.target import Place, opened
from albireo.cli.view.render import Clock, Size, page_of, plain_line, render
from albireo.cli.view.screen import (
    CaseActed,
    Mode,
    Quit,
    ScenarioBegun,
    Screen,
    SelectionGivenBack,
    SelectOrdered,
    Wish,
    WriteOrdered,
    not_selected,
    pressed,
    selected,
)
from albireo.cli.view.state import HeldSelection, LiveState, PartsTold
from albireo.client import Changes, Client, ClientError, ItemSelection, NodeRefused
from albireo.model.command import Outcome
from albireo.model.instant import MS, Instant
from albireo.model.tree.node_row import NodeRow
from albireo.plant.tunnel.processes import TunnelError
from albireo.plant.tunnel.scenario import Scenario
from albireo.runtime.clock import boot_ns, wall_ns
from albireo.runtime.errors import RuntimeFault

DRAW_S: Final = 0.25
"""ISA-101 wants calm; four times a second is what an eye follows."""
STATUS_S: Final = 1.0
RETRY_S: Final = 0.5
PLAIN_S: Final = 5.0
INBOX_MAX: Final = 64
"""Messages between the threads. Overflow rule: block; the feed then conflates on the node's side."""
ORDERS_MAX: Final = 16
"""Orders on their way. Overflow rule: refuse, and say so."""
LOOK_S: Final = 0.2
"""Time after which changes come though there are none: the member may be another one now."""
WRITE_S: Final = 10.0
JOIN_S: Final = 3.0
SELECTED_S: Final = 15.0
"""Longest time until it is known whether an item was selected: whoever leaves meanwhile waits, and gives it back."""

REASON: Final = "live view"
BeginScenario = Callable[[Scenario, str], None]
"""Begins a scenario of the simulated plant of a node (empty: of the usual one); raises TunnelError."""


class StatusKnown(msgspec.Struct, frozen=True):
    """Status of CORE, boot and history, and the other nodes as CORE sees them."""

    status: PartsTold
    rows: list[NodeRow]


class OrderEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a write."""

    command_id: str
    outcome: Outcome
    detail: str = ""
    read_back: Any = None


class SelectionHeld(msgspec.Struct, frozen=True):
    """An item was selected."""

    held: HeldSelection


class SelectionRefused(msgspec.Struct, frozen=True):
    """An item was not selected."""

    reason: str


class OperatorLine(msgspec.Struct, frozen=True):
    """A line for the operator."""

    text: str


News = Changes | StatusKnown | OrderEnded | SelectionHeld | SelectionRefused | OperatorLine


class LiveView:
    """The live view of a node, or of several. `run` returns when the operator leaves or `is_over` says so."""

    def __init__(
        self, where: Callable[[], Place], begin: BeginScenario | None = None, patterns: Sequence[str] = ()
    ) -> None:
        """
        Args:
            begin: is there when a simulated plant can be reached.
            where: where the node is that is asked.
            patterns: items that are shown, of any nodes; empty: the whole node itself.
        """
        self._patterns = patterns or ("*",)
        self._where = where
        self._begin = begin
        self._live = LiveState()
        self._screen = Screen()
        self._inbox: queue.Queue[News] = queue.Queue(INBOX_MAX)
        self._orders: queue.Queue[tuple[str, Wish]] = queue.Queue(ORDERS_MAX)
        self._stop = threading.Event()
        self._has_quit = False

    def run(self, is_over: Callable[[LiveState], bool], *, is_plain: bool = False) -> bool:
        """Shows the node until `is_over`, asked a few times a second, says true.

        Args:
            is_plain: lines instead of a screen, even on a terminal.
        Returns:
            Whether the operator left before that.
        """
        workers = [
            threading.Thread(target=target, name=f"view-{target.__name__.strip('_')}", daemon=True)
            for target in (self._follow, self._ask_status, self._carry_out)
        ]
        for worker in workers:
            worker.start()
        try:
            if sys.stdin.isatty() and sys.stdout.isatty() and not is_plain:
                self._run_on_terminal(is_over)
            else:
                self._run_plainly(is_over)
        finally:
            self._stop.set()
            self._empty_inbox()
            for worker in workers:
                worker.join(SELECTED_S if self._screen.mode is Mode.SELECTING else JOIN_S)
            self._empty_inbox()
            self._give_back_held()
        return self._has_quit

    def tell(self, text: str) -> None:
        """A line for the operator, from any thread; lost when the view is over."""
        self._put(OperatorLine(text))

    def _run_on_terminal(self, is_over: Callable[[LiveState], bool]) -> None:
        console = Console()
        with _keys_at_once() as descriptor, Live(console=console, screen=True, auto_refresh=False) as live:
            drawn_at = 0.0
            while not self._has_quit and not is_over(self._live):
                is_pressed = bool(select.select([descriptor], [], [], 0.05)[0])
                if is_pressed:
                    self._take_keys(keys_of(os.read(descriptor, 1024)))
                self._take_news()
                self._live.let_go(boot_ns())
                if is_pressed or time.monotonic() - drawn_at >= DRAW_S:
                    drawn_at = time.monotonic()
                    size = Size(console.width, console.height)
                    self._screen = msgspec.structs.replace(
                        self._screen, page=max(1, page_of(self._live, self._screen, size))
                    )
                    clock = Clock(boot_ns(), wall_ns())
                    shown = render(self._live, self._screen, size, clock, has_scenarios=self._begin is not None)
                    live.update(shown, refresh=True)

    def _run_plainly(self, is_over: Callable[[LiveState], bool]) -> None:
        said_at = time.monotonic()
        while not is_over(self._live):
            with contextlib.suppress(queue.Empty):
                self._take(self._inbox.get(timeout=0.1))
            self._take_news()
            if time.monotonic() - said_at >= PLAIN_S:
                said_at = time.monotonic()
                say(plain_line(self._live, Clock(boot_ns(), wall_ns())))

    def _take_keys(self, keys: list[str]) -> None:
        for key in keys:
            self._screen, wishes = pressed(self._live, self._screen, key)
            for wish in wishes:
                self._wish(wish)

    def _wish(self, wish: Wish) -> None:
        if isinstance(wish, Quit):
            self._has_quit = True
            return
        if isinstance(wish, ScenarioBegun) and self._begin is None:
            self._tell("no simulated tunnel here: scenarios belong to `albireo demo`")
            return
        command_id = str(uuid.uuid4())
        try:
            self._orders.put_nowait((command_id, wish))
        except queue.Full:
            self._tell(f"{ORDERS_MAX} orders are under way already: wait for one to end")
            return
        if isinstance(wish, WriteOrdered):
            self._live.ordered(command_id, wish.order)
        if isinstance(wish, WriteOrdered | SelectionGivenBack):
            self._live.hold(None)

    def _take_news(self) -> None:
        for _ in range(INBOX_MAX):
            try:
                self._take(self._inbox.get_nowait())
            except queue.Empty:
                return

    def _take(self, news: News) -> None:
        match news:
            case Changes():
                self._live.take(news, boot_ns())
            case StatusKnown():
                self._live.told(news.status, news.rows, boot_ns())
            case SelectionHeld():
                self._live.hold(news.held)
                self._screen, wishes = selected(self._screen, news.held)
                for wish in wishes:
                    self._wish(wish)
            case SelectionRefused():
                self._screen = not_selected(self._screen, news.reason)
            case OrderEnded():
                self._live.finished(news.command_id, news.outcome, news.detail, news.read_back)
            case OperatorLine():
                self._tell(news.text)

    def _tell(self, text: str) -> None:
        self._screen = msgspec.structs.replace(self._screen, message=text)
        if not sys.stdout.isatty():
            say(text)

    def _empty_inbox(self) -> None:
        """Empty the inbox, so that no worker waits for room; what was selected is not forgotten."""
        with contextlib.suppress(queue.Empty):
            while True:
                news = self._inbox.get_nowait()
                if isinstance(news, SelectionHeld):
                    self._live.hold(news.held)

    def _put(self, news: News) -> bool:
        """False: the view is over, and nobody takes it."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._inbox.put(news, timeout=0.2)
                return True
        return False

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                where = self._where()
                with opened(where) as client:
                    for change in client.watch(self._patterns, timeout_s=LOOK_S):
                        if self._stop.is_set():
                            return
                        self._put(change)
                        if self._where() != where:
                            break  # Another member acts now.
            except (ClientError, RuntimeFault):
                self._stop.wait(RETRY_S)  # The node starts, or starts again; the silence is on the screen.

    def _ask_status(self) -> None:
        while not self._stop.is_set():
            try:
                where = self._where()
                with opened(where) as client:
                    while not self._stop.is_set() and self._where() == where:
                        self._put(StatusKnown(_told(client), client.tree()))
                        self._stop.wait(STATUS_S)
            except (ClientError, RuntimeFault):
                self._stop.wait(RETRY_S)

    def _carry_out(self) -> None:
        """Carry out one order after the other; an order that can't be is told, never retried."""
        while not self._stop.is_set():
            try:
                command_id, wish = self._orders.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                news = self._done(command_id, wish)
                if not self._put(news) and isinstance(news, SelectionHeld):
                    self._give_back(news.held.selection)
            except (ClientError, RuntimeFault, TunnelError) as error:
                if isinstance(wish, WriteOrdered):
                    outcome = Outcome.REJECTED if isinstance(error, NodeRefused) else Outcome.UNKNOWN
                    self._put(OrderEnded(command_id=command_id, outcome=outcome, detail=str(error)))
                elif isinstance(wish, SelectOrdered):
                    self._put(SelectionRefused(str(error)))
                else:
                    self._put(OperatorLine(str(error)))

    def _done(self, command_id: str, wish: Wish) -> News:
        match wish:
            case ScenarioBegun():
                assert self._begin is not None
                self._begin(wish.scenario, wish.node)
                return OperatorLine(f"scenario {wish.scenario.value} has begun")
            case SelectOrdered():
                return self._selected(wish.item)
            case SelectionGivenBack():
                self._give_back(wish.selection)
                return OperatorLine("nothing written, and nobody has it selected any more")
            case WriteOrdered():
                return self._written(command_id, wish)
            case CaseActed():
                with opened(self._where()) as client:
                    duration_s = None if wish.duration_ms is None else wish.duration_ms / 1_000
                    client.act(wish.action, wish.case_id, "", duration_s, wish.activation, node=wish.node)
                return OperatorLine(f"{wish.text}: done")
            case Quit():
                return OperatorLine("")

    def _selected(self, item: str) -> SelectionHeld:
        asked_at = boot_ns()
        with opened(self._where()) as client:
            selection = client.select(item, REASON)
        return SelectionHeld(HeldSelection(selection, Instant(asked_at + selection.left_ms * MS)))

    def _give_back(self, selection: ItemSelection) -> None:
        """Raises ClientError, RuntimeFault: it was over, or ends by itself."""
        with opened(self._where()) as client:
            client.deselect(selection, REASON)

    def _give_back_held(self) -> None:
        """Whoever leaves leaves nothing selected."""
        held = self._live.held
        if held is not None:
            with contextlib.suppress(ClientError, RuntimeFault):
                self._give_back(held.selection)

    def _written(self, command_id: str, wish: WriteOrdered) -> OrderEnded:
        order, selection = wish.order, wish.selection
        with opened(self._where()) as client:
            try:
                receipt = client.write(order.name, order.value, REASON, expires_s=WRITE_S, selection=selection)
            except NodeRefused:
                if selection is not None:
                    with contextlib.suppress(ClientError):  # It is over, or ends by itself.
                        client.deselect(selection, REASON)
                raise
        return OrderEnded(
            command_id=command_id, outcome=receipt.outcome, detail=receipt.detail, read_back=receipt.read_back
        )


def _told(client: Client) -> PartsTold:
    told: dict[str, Any] = {}
    for actor, what in (("boot", "actors"), ("history", "stats")):
        with contextlib.suppress(ClientError, RuntimeFault):
            told[what] = client.ask(what, of=actor)
    return PartsTold(core=client.status(), **told)


@contextlib.contextmanager
def _keys_at_once() -> Iterator[int]:
    """Standard input without line editing and echo; as it was at the end. Ctrl-C stays a signal."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


_SEQUENCES: Final = {
    b"[A": "up",
    b"[B": "down",
    b"[5~": "pgup",
    b"[6~": "pgdn",
    b"[H": "home",
    b"[1~": "home",
    b"[F": "end",
    b"[4~": "end",
    b"OA": "up",
    b"OB": "down",
    b"OH": "home",
    b"OF": "end",
}
_PLAIN: Final = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}


def keys_of(data: bytes) -> list[str]:
    """Names of the keys that a terminal sent; sequences that nobody knows are left out.

    Grammar (ECMA-48, 5.4): ESC `[` parameters 0x30..0x3F, a final 0x40..0x7E; ESC `O` and one byte; else UTF-8.
    """
    keys: list[str] = []
    at = 0
    while at < len(data):
        if data[at] != 0x1B:
            end = data.find(b"\x1b", at)
            end = len(data) if end < 0 else end
            keys += [
                _PLAIN.get(one, one)
                for one in data[at:end].decode(errors="ignore")
                if one in _PLAIN or one.isprintable()
            ]
            at = end
            continue
        end = _sequence_end(data, at + 1)
        name = "esc" if end == at + 1 else _SEQUENCES.get(data[at + 1 : end])
        keys += [name] if name else []
        at = end
    return keys


def _sequence_end(data: bytes, at: int) -> int:
    """Behind the sequence whose ESC stands before `at`; `at` itself for a lone ESC."""
    if data[at : at + 1] == b"O":
        return min(at + 2, len(data))
    if data[at : at + 1] != b"[":
        return at
    end = at + 1
    while end < len(data) and 0x20 <= data[end] <= 0x3F:
        end += 1
    return min(end + 1, len(data))
