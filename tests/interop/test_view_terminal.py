"""The live view on a real terminal, over a real tree: it shows the nodes, selects, writes, and leaves nothing held."""

import asyncio
import contextlib
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.client import connect
from albireo.codec.record import SelectionEnded
from albireo.model.item import Control
from tests.parts.core_pair import aside
from tests.parts.tree import tree_of
from tests.parts.tree_orders import NORTH, ROOT, SET_POINT, device, told, up
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]
SIGN = msgspec.structs.replace(SET_POINT, control=Control.SELECT)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program on a terminal of 30 lines and 120 columns."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=os.environ | {"TERM": "xterm-256color"},
        )
        os.close(theirs)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def shows(self, wanted: str) -> str:
        """What came on the screen until then. Raises TimeoutError: it never showed that."""
        seen, ends = "", time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            if not select.select([self._ours], [], [], 0.1)[0]:
                continue
            try:
                seen += os.read(self._ours, 65_536).decode(errors="replace")
            except OSError:  # It has ended.
                break
            if wanted in ESCAPES.sub("", seen):
                return ESCAPES.sub("", seen)
        raise TimeoutError(f"{wanted!r} never came: {ESCAPES.sub('', seen)[-3_000:]}")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while self.process.poll() is None:
                if select.select([self._ours], [], [], 0.1)[0]:
                    os.read(self._ours, 65_536)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextlib.contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    one = Terminal(*arguments)
    try:
        yield one
    finally:
        one.end()


def test_the_nodes_are_shown_and_an_item_is_selected_written_and_left_free(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> list[Any]:
        data = str(nodes[ROOT].data)
        with device(nodes[NORTH], nodes[ROOT], SIGN) as adapter, terminal("watch", "*:*", "--data", data) as view:
            view.shows("root/north  live")
            view.press("/speed\r")
            view.shows("s north:speed")
            view.press("w")
            view.shows("SELECTED, ")
            view.press("40\r")
            view.shows("root/north:speed = 40: verified, read back 40")
            view.press("w")
            view.shows("SELECTED, ")
            view.interrupt()
            with connect(nodes[NORTH].endpoint, timeout_s=PATIENCE_S) as client:
                assert client.selections() == []
            return [one.value for one in adapter.orders]

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]) as north:
            assert await aside(story_of) == [40.0]
            assert [one.cause for one in told(north.log, SelectionEnded)] == ["operated", "cancelled"]

    asyncio.run(story())


def test_a_site_that_goes_away_is_marked_on_the_screen(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def live(view: Terminal) -> None:
        view.shows("root/north  live")

    def away(view: Terminal) -> None:
        view.shows("!! root/north  NOT HEARD")

    async def story() -> None:
        async with up(nodes[ROOT]):
            async with up(nodes[NORTH]):
                view = await aside(lambda: Terminal("watch", "*:*", "--data", str(nodes[ROOT].data)))
                try:
                    await aside(lambda: live(view))
                except BaseException:
                    view.end()
                    raise
            try:
                await aside(lambda: away(view))
            finally:
                view.end()

    asyncio.run(story())


def test_whoever_leaves_while_an_item_is_being_selected_leaves_it_free(tmp_path: Path) -> None:
    """The answer comes when nobody waits for it any more, or has come and was not looked at."""
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> None:
        data = str(nodes[ROOT].data)
        with device(nodes[NORTH], nodes[ROOT], SIGN), terminal("watch", "*:*", "--data", data) as view:
            view.shows("root/north  live")
            view.press("/speed\r")
            view.shows("s north:speed")
            view.press("w")
            view.shows("selecting root/north:speed")
            view.interrupt()
            with connect(nodes[NORTH].endpoint, timeout_s=PATIENCE_S) as client:
                assert client.selections() == []

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]) as north:
            await aside(story_of)
            assert [one.cause for one in told(north.log, SelectionEnded)] == ["cancelled"]

    asyncio.run(story())
