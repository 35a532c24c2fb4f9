"""Questions of the node to single devices, beside the order of events: reading, writing, programs.

They go from a port of their own, so their numbers are no part of the master's row. A question is sent again until it is
answered; a write is sent once.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import (
    WANT_ACK,
    AckPacket,
    EndpointReportPacket,
    ErrorPacket,
    HexDatagram,
    HexPacket,
    PropertyReportPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.field.contract import GOES_ON, SendGuard
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.rows import REPEATS, following
from albireo.machine.hexabus.upload import ProgramUpload
from albireo.model.instant import SECOND, Instant
from albireo.runtime.clock import boot_ns

QUESTION_REPEATS: Final = REPEATS[:6]
"""Waits for an answer, 1.55 s in all."""
WRITE_WAIT: Final = REPEATS[4:5]
"""Wait for the acknowledgement of a write, which is sent once."""
Answers = AckPacket | ErrorPacket | ReportPacket | EndpointReportPacket | PropertyReportPacket


class HexQuestions:
    """One socket for questions."""

    def __init__(self, interface: str, host: str, draw: Random, may_send: SendGuard) -> None:
        """`host`: own address. Raises OSError: it can't be bound."""
        self._may_send = may_send
        self._socket = HexSocket(open_socket(interface, host, 0), self._heard)
        self._draw = draw
        self._number = draw.randint(1, 0xFFFF)
        self._waiting: dict[tuple[str, int], asyncio.Future[Answers | None]] = {}
        self._uploads: dict[str, tuple[ProgramUpload, asyncio.Event]] = {}

    def close(self) -> None:
        self._socket.close()
        for one in self._waiting.values():  # Not cancelled: who waits is no task of ours.
            if not one.done():
                one.set_result(None)

    async def ask(
        self, host: str, packet: HexPacket, repeats: Sequence[int] = QUESTION_REPEATS, port: int | None = None
    ) -> Answers | None:
        """The answer of a device; None: it gave none."""
        to = HexAddress(host) if port is None else HexAddress(host, port)
        self._number = number = following(self._number)
        data = encode(HexDatagram(packet, number, WANT_ACK if isinstance(packet, WritePacket) else 0))
        answer = self._waiting[host, number] = asyncio.get_running_loop().create_future()
        try:
            for wait_ns in repeats:
                self._send(to, data)
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(asyncio.shield(answer), wait_ns / SECOND)
        finally:
            self._waiting.pop((host, number), None)
        return None

    async def upload(self, host: str, program: bytes) -> str:
        """Give a device a program, and have it begin anew. Why that did not succeed; empty: it did."""
        to, came = HexAddress(host), asyncio.Event()
        upload = ProgramUpload(to, program, lambda data: self._send(to, data), self._draw.randint(1, 0xFFFF))
        self._uploads[host] = upload, came
        try:
            upload.begin(_now())
            while not (upload.is_over or upload.is_broken_off or upload.refused is not None):
                due = upload.deadline()
                wait_s = max(0.0, (due - _now()) / SECOND) if due is not None else 0.0
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await came.wait()
                came.clear()
                upload.time_passed(_now())
        finally:
            del self._uploads[host]
        if upload.refused is not None:
            return f"it refuses packet {upload.done + 1} of {len(upload.packets)} with error {upload.refused}"
        return "" if upload.is_over else f"silent after packet {upload.done} of {len(upload.packets)}"

    def _send(self, to: HexAddress, data: bytes) -> None:
        if self._may_send() == GOES_ON:
            self._socket.send(to, data)

    def _heard(self, came: Came, _: bool) -> None:
        for source, data in came:
            self._take(source, data)

    def _take(self, source: HexAddress, data: bytes) -> None:
        if (under_way := self._uploads.get(source.host)) is not None:
            under_way[0].heard(source, data, _now())
            under_way[1].set()
        try:
            packet = decode(data).packet
        except DecodeError:
            return
        if isinstance(packet, Answers):
            waiting = self._waiting.get((source.host, packet.cause))
            if waiting is not None and not waiting.done():
                waiting.set_result(packet)


def _now() -> Instant:
    return boot_ns()
