"""Voter line: the requests of CORE's register voter, on the connection that this adapter owns.

    connected --> offered to CORE under a new number --> requests, one after the other --> lost: told to CORE

A number stands for one connection, or for a part of one: a request that the device answered with an exception ends the
number, not the connection, for nothing of it is under way any more and the items are read over it as well. In all other
cases the connection is closed by RST before CORE is told that it is lost.

What it does not do: vote (machine/vote/register.py), or know what the registers mean.

Spec: design/pair.md, The PLC register block; ADR-0107.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from albireo.codec.message import AnyMessage
from albireo.codec.register_block import (
    VoterHangUp,
    VoterLost,
    VoterOffered,
    VoterRead,
    VoterReadAsked,
    VoterWriteAsked,
    VoterWritten,
)
from albireo.field.contract import GOES_ON, DeviceLost, PairAdapter, VoterRequestRefused
from albireo.model.instant import MS, SECOND, Instant

REQUESTS_MAX: Final = 8
"""Waiting at once; the voter has one under way. Overflow rule: the connection is given up, CORE begins anew."""
OFFER_EVERY_NS: Final = 500 * MS
"""Longest wait of a CORE that has just started for the line."""
REFUSED_PAUSE_NS: Final = 5 * SECOND
"""After a refusal: the registers are not there, or the PLC is busy with itself."""

Request = VoterReadAsked | VoterWriteAsked | VoterHangUp


class VoterLine:
    """One voter's line. The device is asked in `serve`, a task of its own; everything else comes from COMM's loop."""

    def __init__(
        self,
        adapter: str,
        device: PairAdapter,
        send: Callable[[AnyMessage], object],
        now: Callable[[], Instant],
        first: int,
        hung_up: Callable[[], object],
    ) -> None:
        """
        Args:
            first: a random number to count connections from, so that two runs never use the same.
            hung_up: called right before the connection is closed here: its end is no loss of the device.
        """
        self._adapter = adapter
        self._device = device
        self._send = send
        self._now = now
        self._hung_up = hung_up
        self._number = first
        self._connection = 0
        self._offer_due = Instant(0)
        self._is_paused = False
        """The device refused; the connection stands."""
        self._requests: deque[Request] = deque()
        self._came = asyncio.Event()
        self.lost_reason = ""
        """Reason of the last loss, set before CORE is told."""
        self.is_stopping = False

    # Calls of COMM.

    def connected(self) -> None:
        """The adapter has a new connection."""
        self.lost("")
        self._begin()

    def lost(self, reason: str) -> None:
        """The adapter's connection is closed."""
        self._is_paused = False
        if self._connection:
            self.lost_reason = reason
            connection, self._connection = self._connection, 0
            self._requests.clear()
            self._send(VoterLost(adapter=self._adapter, connection=connection))

    def asked(self, request: Request) -> None:
        """A message of CORE; one for another connection is forgotten."""
        if request.connection == self._connection != 0 and request.adapter == self._adapter:
            self._requests.append(request)
            self._came.set()

    def deadline(self) -> Instant | None:
        """Instant at which `tick` is due."""
        return self._offer_due if self._connection or self._is_paused else None

    def tick(self, now: Instant) -> None:
        """Offer again: CORE may have started anew, or a refusal's pause is over."""
        if now < self._offer_due:
            return
        if self._connection:
            self._offer()
        elif self._is_paused:
            self._begin()

    # Work on the device.

    def _begin(self) -> None:
        self._is_paused = False
        self._number += 1
        self._connection = self._number
        self._offer()

    def _offer(self) -> None:
        self._offer_due = Instant(self._now() + OFFER_EVERY_NS)
        self._send(VoterOffered(adapter=self._adapter, connection=self._connection))

    async def serve(self) -> None:
        """Carry out requests in their order, until the adapter stops."""
        while not self.is_stopping:
            if not self._requests:
                self._came.clear()
                await self._came.wait()
                continue
            if len(self._requests) > REQUESTS_MAX:
                await self._hang_up("more requests than a voter has", self._connection)
                continue
            await self._carry_out(self._requests.popleft())

    async def _carry_out(self, request: Request) -> None:
        try:
            match request:
                case VoterReadAsked():
                    words = await self._device.read_voter()
                    if isinstance(words, VoterRequestRefused):
                        await self._refused(words, request.connection)
                    elif request.connection == self._connection:
                        self._send(VoterRead(adapter=self._adapter, connection=request.connection, words=words))
                case VoterWriteAsked():
                    await self._write(request)
                case VoterHangUp():
                    await self._hang_up("CORE gave it up", request.connection)
        except DeviceLost as lost:
            await self._hang_up(lost.reason, request.connection)

    async def _write(self, request: VoterWriteAsked) -> None:
        def may_send() -> str:
            if request.connection != self._connection:
                return "its connection is gone"
            return GOES_ON if self._now() < request.not_after else "its time has run out"

        refused = await self._device.write_voter(request.member, request.register, request.words, may_send)
        if refused is not None:
            await self._refused(refused, request.connection)
        elif request.connection == self._connection:
            self._send(VoterWritten(adapter=self._adapter, connection=request.connection))

    async def _refused(self, refused: VoterRequestRefused, connection: int) -> None:
        if connection != self._connection:
            return
        if refused.must_close:
            await self._hang_up(refused.reason, connection)
            return
        self.lost(refused.reason)
        self._is_paused = True
        self._offer_due = Instant(self._now() + REFUSED_PAUSE_NS)

    async def _hang_up(self, reason: str, connection: int) -> None:
        """RST first, then CORE is told. Nothing for a connection that is gone already: there may be a new one."""
        if connection != self._connection:
            return
        self._hung_up()
        await self._device.hang_up()
        if connection == self._connection:
            self.lost(reason)
