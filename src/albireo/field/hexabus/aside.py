"""Questions to devices, beside the order of events: reading, writing, programs.

They go from a port of their own, so their numbers are no part of the master's row. A question is sent again to whoever
has not answered (machine/hexabus/asking.py); a write of the node is sent once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from random import Random
from typing import Final

from albireo.codec.hexabus.packets import HexPacket
from albireo.field.contract import GOES_ON, SendGuard
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.machine.hexabus.asking import ASK_WAITS, GROUP_WAITS, HexAnswer, QuestionToMany
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.rows import REPEATS, following
from albireo.machine.hexabus.upload import ProgramUpload
from albireo.model.instant import SECOND, Instant
from albireo.runtime.clock import boot_ns

QUESTION_WAITS: Final = REPEATS[:6]
"""Waits for an answer to the node, 1.55 s in all."""
WRITE_WAIT: Final = REPEATS[4:5]
"""Wait for the acknowledgement of a write, which is sent once."""


class HexAsking:
    """A socket for questions to devices of an interface."""

    def __init__(self, interface: str, draw: Random, host: str = "::", may_send: SendGuard = lambda: GOES_ON) -> None:
        """
        Args:
            host: own address; without it the kernel chooses.
            may_send: asked right before each datagram leaves.
        Raises:
            OSError: there is no such interface, or no such address of it.
        """
        self._interface = interface
        self._draw = draw
        self._may_send = may_send
        self._socket = HexSocket(open_socket(interface, host, 0), self._heard)
        self._number = draw.randint(1, 0xFFFF)
        self._is_closed = False
        self._under_way: dict[QuestionToMany | ProgramUpload, asyncio.Event] = {}
        """Questions and uploads that wait for answers, each with what is set when a datagram came."""

    def close(self) -> None:
        """No question gets an answer any more; who waits hears so."""
        self._is_closed = True
        self._socket.close()
        for came in self._under_way.values():
            came.set()

    async def ask(
        self, packet: HexPacket, hosts: Sequence[str] = (), waits: Sequence[int] = ()
    ) -> dict[str, HexAnswer]:
        """Answers by host. `hosts`: none: whoever is there. `waits`: none: the usual ones."""
        self._number = following(self._number)
        waits = waits or (ASK_WAITS if hosts else GROUP_WAITS)
        question = QuestionToMany(packet, self._number, hosts, self._send, waits)
        await self._pursue(question, lambda: question.deadline() is None)
        return question.answers

    async def upload(self, host: str, program: bytes) -> str:
        """Give a device a program, and have it begin anew. Why that did not succeed; empty: it did."""
        to = HexAddress(host)
        upload = ProgramUpload(to, program, lambda data: self._send(to, data), self._draw.randint(1, 0xFFFF))
        await self._pursue(upload, lambda: upload.is_over or upload.is_broken_off or upload.refused is not None)
        if upload.refused is not None:
            return f"it refuses packet {upload.done + 1} of {len(upload.packets)} with error {upload.refused}"
        return "" if upload.is_over else f"silent after packet {upload.done} of {len(upload.packets)}"

    async def _pursue(self, work: QuestionToMany | ProgramUpload, is_over: Callable[[], bool]) -> None:
        """Go on with a question or an upload until it is over."""
        came = self._under_way[work] = asyncio.Event()
        try:
            work.begin(boot_ns())
            while not is_over() and not self._is_closed:
                wait_s = ((work.deadline() or Instant(0)) - boot_ns()) / SECOND
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, wait_s)):
                        await came.wait()
                came.clear()
                work.time_passed(boot_ns())
        finally:
            del self._under_way[work]

    def _send(self, to: HexAddress, data: bytes) -> None:
        is_local = IPv6Address(to.host).is_link_local
        if not self._is_closed and self._may_send() == GOES_ON:
            self._socket.send(HexAddress(f"{to.host}%{self._interface}", to.port) if is_local else to, data)

    def _heard(self, news: Came, _: bool) -> None:
        for source, data in news:
            for work, came in self._under_way.items():
                work.heard(source, data, boot_ns())
                came.set()


class HexQuestions(HexAsking):
    """The same of a node, which asks one device at a time."""

    async def ask_one(self, host: str, packet: HexPacket, waits: Sequence[int] = QUESTION_WAITS) -> HexAnswer | None:
        """The answer of a device; None: it gave none."""
        return (await self.ask(packet, [host], waits)).get(host)
