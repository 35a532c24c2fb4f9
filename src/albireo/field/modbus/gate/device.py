"""The device behind a gate: one connection for all who read and for the gate's own writes, one exchange at a time.

It is made when somebody asks, and after a failure not again before the back-off says so. A write that nobody answered
ends the connection by RST, so that nothing of it leaves later. So do some silences in a row of units that had answered
on it: a device that was restarted knows nothing of the connection. A unit that was never heard says nothing of others.

What it does not do: decide what may be written, or when again after a silence (machine/output/gate.py).
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from albireo.field.back_off import BackOff, BackOffConfig
from albireo.field.contract import GOES_ON, DeviceLost
from albireo.field.modbus.answers import Answer, DataReply, Nonsense, NotSent, Silence
from albireo.field.modbus.items import ModbusItem, TableKind
from albireo.field.modbus.mailbox import words_of
from albireo.field.modbus.output import PlainOutputs, not_done
from albireo.field.modbus.wire import Wire
from albireo.machine.output.mailbox import Result
from albireo.model.command import Outcome
from albireo.model.instant import Instant
from albireo.runtime.journal import Journal

SILENCES_MAX: Final = 3


class GatedDevice:
    """The device of one gate, on the gate's loop."""

    def __init__(
        self, wire: Wire, back_off: BackOffConfig, now: Callable[[], Instant], log: Journal, draw: random.Random
    ) -> None:
        """`draw`: jitter of the back-off."""
        self._wire = wire
        self._outputs = PlainOutputs(wire)
        self._config = back_off
        self._now = now
        self._log = log
        self._draw = draw
        self._back_off = BackOff()
        self._not_before = Instant(0)
        self._turn = asyncio.Lock()
        self._silences = 0
        self._heard: set[int] = set()
        """Units that answered on this connection."""
        self._is_told: bool | None = None
        self.reads = 0

    @property
    def is_connected(self) -> bool:
        return self._wire.is_connected

    async def read(self, kind: TableKind, unit: int, first: int, count: int) -> Answer:
        """
        Raises:
            DeviceLost: it can't be reached.
        """
        await self._reach()
        self.reads += 1
        try:
            answer = await self._wire.read(kind, unit, first, count)
        except DeviceLost as lost:
            self._tell(False, lost.reason)
            raise
        await self._judge(unit, is_silent=isinstance(answer, Silence))
        return answer

    async def write(self, item: ModbusItem, value: int, longest_ns: int) -> Result:
        """Send one order's value at most once, and give the result.

        Args:
            longest_ns: the value is not sent later than this from now, since its sender has given it up by then.
        """
        until = self._now() + longest_ns

        def may_send() -> str:
            return GOES_ON if self._now() < until else "it waited too long"

        try:
            await self._reach()
        except DeviceLost:
            return Result.UNREACHED
        answer = await self._outputs.send(item, words_of(item, value), may_send)
        match answer:
            case DataReply():
                self._silences = 0
                return Result.DONE
            case NotSent():
                return Result.UNREACHED
            case Silence() | Nonsense():
                self._tell(False, "a write was not answered")
                await self.close()
                return Result.UNKNOWN
            case _:
                return Result.REFUSED if not_done(answer).outcome is Outcome.REJECTED else Result.UNKNOWN

    async def close(self) -> None:
        await self._wire.closed()

    async def _reach(self) -> None:
        """Be connected.

        Raises:
            DeviceLost: it can't be now, or is not to be tried yet.
        """
        async with self._turn:
            if self._wire.is_connected:
                return
            if self._now() < self._not_before:
                raise DeviceLost("no connection")
            try:
                await self._wire.connect()
            except DeviceLost as lost:
                self._back_off, wait_ns = self._back_off.next(self._config, self._draw)
                self._not_before = Instant(self._now() + wait_ns)
                self._tell(False, lost.reason)
                raise
            self._back_off = BackOff()
            self._silences = 0
            self._heard.clear()
            self._tell(True)

    async def _judge(self, unit: int, *, is_silent: bool) -> None:
        if not is_silent:
            self._heard.add(unit)
            self._silences = 0
        elif unit in self._heard or not self._heard:
            self._silences += 1
        if self._silences >= SILENCES_MAX:
            self._silences = 0
            self._tell(False, "no answer")
            await self.close()

    def _tell(self, is_connected: bool, reason: str = "") -> None:
        """Log a change of the connection once."""
        if is_connected is not self._is_told:
            self._is_told = is_connected
            if is_connected:
                self._log.info("device_connected")
            else:
                self._log.warning("device_lost", reason=reason)
