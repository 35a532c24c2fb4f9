"""Reads of a survey: one connection to a device of which nobody knows its habits.

    hangs up                connected again, asked again; twice at one request is as silence
    silent, or a gateway's  refused, if something that was given before is given still; otherwise the device is gone.
      word for that         After some of them the wait shrinks to a multiple of the longest answer; all that is waited
                            is bounded for each table
    busy                    asked again, some times, a little later each time

Each read is followed by a pause, so that others are served.
"""

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from typing import Final, TypeGuard

from albireo.field.contract import DeviceLost
from albireo.field.modbus.answers import BUSY, Answer, DataReply, ExceptionReply, Silence
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import NotGiven, SurveyEnds
from albireo.field.modbus.wire import Wire
from albireo.model.instant import SECOND

MISSES_MAX: Final = 3
"""Requests without an answer, one after another, after which it is looked whether the device is still there."""
BUSY_TRIES: Final = 5
BUSY_PAUSE_S: Final = 0.02
"""Before the first repeat; twice as long before the second, and so on."""
GATEWAY: Final = 10
"""Exceptions from here on are a gateway's: nobody behind it."""
SHORTEST_WAIT_S: Final = 0.05
PATIENCE: Final = 8
"""Longest answers so far for which an answer is waited."""
VAIN_S_MAX: Final = 8.0
"""Time of one table that goes into waiting for nothing; the rest of it is not looked at then."""


class SurveyReader:
    """Reads of one unit; `Read` of the survey."""

    def __init__(self, wire: Wire, device_id: int, timeout_s: float, pause_s: float) -> None:
        wire.redial(lambda: None)
        self._wire = wire
        self._device_id = device_id
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._longest_s = 0.0
        self._silences = self._misses = 0
        """In all, and one after another."""
        self._vain_s = dict.fromkeys(TableKind, 0.0)
        self.heard: tuple[TableKind, int, int] | None = None
        """A request to which the unit said anything for itself, a refusal included."""

    async def trouble(self) -> str:
        """Why it makes no sense to look further; empty: the unit answers, if only with refusals."""
        found = ""
        for kind in TableKind:
            answer = await self._asked(kind, 0, 1, self._timeout_s)
            if isinstance(answer, Silence):
                found = answer.heard or "no answer"
            elif _is_gateway(answer):
                found = f"the gateway says {answer.text}"
            else:
                return ""
        return found

    async def __call__(self, kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
        if self._vain_s[kind] > VAIN_S_MAX:
            self._vain_s[kind] = 0.0  # What was found is still to be read.
            raise SurveyEnds(f"it was silent or busy for {VAIN_S_MAX:g} s, which is the limit of a table")
        began = _now()
        is_silent_kind = self._silences >= MISSES_MAX and self._longest_s > 0
        shorter_s = max(SHORTEST_WAIT_S, PATIENCE * self._longest_s) if is_silent_kind else self._timeout_s
        wait_s = min(self._timeout_s, shorter_s)
        answer = await self._asked(kind, address, count, wait_s)
        for attempt in range(BUSY_TRIES):
            if not _is_busy(answer):
                break
            await asyncio.sleep(BUSY_PAUSE_S * 2**attempt)
            answer = await self._asked(kind, address, count, wait_s)
        await asyncio.sleep(self._pause_s)
        if is_silent := isinstance(answer, Silence) or _is_gateway(answer):
            self._silences += 1
            await self._missed(answer)
        else:
            self.heard, self._misses = (kind, address, count), 0
        if is_silent or _is_busy(answer):
            self._vain_s[kind] += _now() - began
        if not isinstance(answer, DataReply):
            return NotGiven.BUSY if _is_busy(answer) else NotGiven.REFUSED
        if kind.is_bits:
            return [answer.data[bit // 8] >> (bit % 8) & 1 for bit in range(count)]
        return list(struct.unpack(f">{count}H", answer.data))

    async def _asked(self, kind: TableKind, address: int, count: int, wait_s: float) -> Answer:
        """One exchange; again over a new connection if the device hangs up, and silence if it does so twice."""
        reason = ""
        for attempt in range(2):
            began = _now()
            try:
                answer = await self._wire.read(kind, self._device_id, address, count, int(wait_s * SECOND))
            except DeviceLost as lost:
                reason = lost.reason
                await asyncio.sleep(attempt * BUSY_PAUSE_S)
                if not self._wire.is_connected:
                    with contextlib.suppress(DeviceLost):
                        await self._wire.connect()
                continue
            if not isinstance(answer, Silence):
                self._longest_s = max(self._longest_s, _now() - began)
            return answer
        return Silence(reason)

    async def _missed(self, answer: Answer) -> None:
        """
        Raises:
            DeviceLost: what was answered before is answered no more.
        """
        self._misses += 1
        if self._misses < MISSES_MAX or self.heard is None:
            return
        self._misses = 0
        if isinstance(await self._asked(*self.heard, self._timeout_s), Silence):
            heard = answer.heard if isinstance(answer, Silence) else ""
            raise DeviceLost(heard or f"no answer to {MISSES_MAX} requests in a row")


def _is_gateway(answer: Answer) -> TypeGuard[ExceptionReply]:
    return isinstance(answer, ExceptionReply) and answer.code >= GATEWAY


def _is_busy(answer: Answer) -> bool:
    return isinstance(answer, ExceptionReply) and answer.code in BUSY


def _now() -> float:
    return asyncio.get_running_loop().time()
