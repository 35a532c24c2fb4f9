"""Device: keeps the connection of one adapter, and asks what the role wants to know of it.

    connect --> acting: poll, poll, poll ...      --DeviceLost--> tell, close, wait (back_off.py) --> connect
                standing by, connected: knock now and then
                standing by, polling:   poll, and drop it
                standing by, off:       close, and wait; a voter's connection stays

Runs as one task of COMM; what it finds goes to the two functions of `PollListener`.

Spec: docs/ARCHITECTURE.md, walk 1; ADR-0108.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final, Protocol

from albireo.field.back_off import BackOff, BackOffConfig
from albireo.field.contract import Adapter, DeviceLost, PairAdapter, PolledColumns
from albireo.field.role import AdapterRole
from albireo.field.voter_line import VoterLine
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.model.topology import AdapterConfig, Standby
from albireo.runtime.actor.actor import ActorContext

STEADY_NS: Final = 10 * SECOND
"""A device that answered this long begins again with the shortest wait when it is lost."""
KNOCK_NS: Final = SECOND
"""Between two knocks at a device of a member that stands by."""


class PollListener(Protocol):
    """COMM, as the device sees it."""

    def polled(self, polled: Sequence[PolledColumns], began: Instant, source_ns: WallTime) -> None:
        """A poll of a member that acts came back."""

    def reach_changed(self, at_ns: WallTime, reason: str) -> None:
        """`Device.is_connected` has changed; `reason` why it was lost."""


class Device:
    """One adapter's connection. COMM sets `role` and `line`, and calls `wake` after it changed the role."""

    def __init__(
        self,
        adapter: Adapter,
        settings: AdapterConfig,
        actor: ActorContext,
        listener: PollListener,
        draw: random.Random,
    ) -> None:
        """`draw`: jitter of the back-off."""
        self._adapter = adapter
        self._settings = settings
        self._actor = actor
        self._listener = listener
        self._draw = draw
        self._back_off_config = BackOffConfig(
            first_ns=settings.backoff_min_ms * MS, longest_ns=settings.backoff_max_ms * MS
        )
        self._woken = asyncio.Event()
        self._is_hung_up = False
        self._role_changes = 0
        self.role = AdapterRole()
        self.line: VoterLine | None = None
        self.is_connected: bool | None = None
        """None: nothing was asked yet."""
        self.is_stopping = False
        self.overruns = 0

    @property
    def _wants_connection(self) -> bool:
        return self.role.is_acting or self._settings.standby is not Standby.OFF or self.line is not None

    def wake(self) -> None:
        """The role has changed: what is under way is of the tenure before."""
        self._role_changes += 1
        self._woken.set()

    def hung_up(self) -> None:
        """The voter's line closes the connection: no loss of the device, unless it can't be reached again at once."""
        self._is_hung_up = True
        self._woken.set()

    async def live(self) -> None:
        """Connect, stay until the device is lost, wait, again."""
        back_off = BackOff()
        while not self.is_stopping:
            if not self._wants_connection:
                self.is_connected = None
                await self._pause(KNOCK_NS)
                continue
            began = self._actor.now()
            try:
                await self._connect()
                await self._stay()
            except DeviceLost as lost:
                if not self._is_hung_up:
                    self._changed(False, self._actor.wall_ns(), lost.reason)
            await self.close()
            if self.is_stopping or not self._wants_connection or self._is_hung_up:
                # NB: no wait after a hang-up; the voter itself is silent for a while on a new connection.
                self._is_hung_up = False
                continue
            if self._actor.now() - began >= STEADY_NS:
                back_off = BackOff()
            back_off, wait_ns = back_off.next(self._back_off_config, self._draw)
            await asyncio.sleep(wait_ns / SECOND)

    async def close(self) -> None:
        """End the connection, then tell CORE that its voter's is lost."""
        await self._adapter.close()
        if self.line is not None:
            self.line.lost("closed")

    async def _connect(self) -> None:
        try:
            await self._adapter.connect()
        except UnicodeError as error:  # No resolver takes the name: the device can't be reached, and we are not broken.
            raise DeviceLost(f"its address is no name of a host: {error}") from error
        if self.line is not None:
            self.line.connected()

    async def _pause(self, wait_ns: int) -> bool:
        """Wait; True when woken by a change of role or a lost connection."""
        try:
            async with asyncio.timeout(max(0, wait_ns) / SECOND):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def _stay(self) -> None:
        """Ask on a fixed grid; a poll that takes longer than the period leaves out what it ran over.

        Raises:
            DeviceLost: it does not answer, or the voter has hung up.
        """
        due = self._actor.now()
        while self._wants_connection and not self.is_stopping:
            if self._is_hung_up:
                raise DeviceLost("the voter gave the connection up")
            period_ns = await (self._poll() if self.role.is_acting else self._look_idly())
            due = Instant(due + period_ns)
            late_ns = self._actor.now() - due
            if late_ns > 0:
                missed = late_ns // period_ns
                self.overruns += missed
                due = Instant(due + missed * period_ns)
            if await self._pause(due - self._actor.now()):
                due = self._actor.now()

    async def _poll(self) -> int:
        """One poll of a member that acts; returns when the next is due.

        Raises:
            DeviceLost: the device was lost in it; its items are marked with the time at which it began.
        """
        began, source_ns = self._actor.now(), self._actor.wall_ns()
        role_changes = self._role_changes
        try:
            polled = await self._adapter.poll()
        except DeviceLost as lost:
            if not self._is_hung_up:
                self._changed(False, source_ns, lost.reason)
            raise
        if self.role.is_acting and role_changes == self._role_changes:
            self._listener.polled(polled, began, source_ns)
        self._changed(True, source_ns)
        return self._settings.poll_ms * MS

    async def _look_idly(self) -> int:
        """Knock at the device, or poll it slowly, while this member stands by; returns when to do it again.

        Raises:
            DeviceLost: the device does not answer.
        """
        poll_ns = self._settings.poll_ms * MS
        slow_ns = max(poll_ns, KNOCK_NS)
        if self._settings.standby is Standby.OFF:
            return slow_ns
        if isinstance(self._adapter, PairAdapter) and self._settings.standby is Standby.CONNECTED:
            await self._adapter.knock()
        else:
            await self._adapter.poll()
        self._changed(True, self._actor.wall_ns())
        return poll_ns if self._settings.standby is Standby.POLLING else slow_ns

    def _changed(self, is_connected: bool, at_ns: WallTime, reason: str = "") -> None:
        if self.is_connected is not is_connected:
            self.is_connected = is_connected
            self._listener.reach_changed(at_ns, reason)
