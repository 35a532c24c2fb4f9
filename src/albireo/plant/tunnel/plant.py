"""The plant process: the physics, ten ticks a second, for every PLC and whoever switches scenarios.

    python -m albireo.plant.tunnel.plant --directory DIR [--seed N]

It opens `plant.sock` in DIR. A PLC says hello and then gets an `Image` per tick; its writes act at the next tick.
"""

import argparse
import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.child import until_told
from albireo.plant.tunnel.physics import channels, physics
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.wire import (
    ActAsked,
    Done,
    FaultsAsked,
    Image,
    Message,
    PlcFaults,
    PlcHello,
    PointsWritten,
    Restart,
    ScenarioAsked,
    WireError,
    ZeroVoter,
    framed,
    receive,
    socket_path,
)
from albireo.plant.tunnel.scenario import DELAY_MS, PLC_OFF_S, TEAR_MS, Scenario
from albireo.plant.tunnel.setpoints import written

TICK_S: Final = 0.1
BEHIND_MAX_S: Final = 2.0
"""A plant that was stopped longer than this goes on from now instead of hurrying after."""
PENDING_BYTES_MAX: Final = 256 * 1024
"""Bytes that wait for one PLC; an image for a PLC that does not read is dropped, the next one is newer."""

log = logging.getLogger(__name__)


class Plant:
    """One tunnel and the connections to it."""

    def __init__(self, seed: int) -> None:
        self.state = physics.initial(seed)
        self.faults = {plc: PlcFaults() for plc in PLCS}
        self._back_at: dict[str, float] = {}
        """Event-loop time at which a PLC that is off comes back."""
        self._links: dict[str, asyncio.StreamWriter] = {}

    async def run(self, directory: Path, is_ready: asyncio.Event) -> None:
        """Serves until it is cancelled."""
        with socket_path(directory) as place:
            server = await asyncio.start_unix_server(self._serve, place)
        is_ready.set()
        try:
            await self._tick_forever()
        finally:
            server.close()
            for writer in self._links.values():
                writer.close()

    async def _tick_forever(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self.tick(loop.time())
            due = max(due + TICK_S, loop.time() - BEHIND_MAX_S)
            await asyncio.sleep(max(0.0, due - loop.time()))

    def tick(self, now: float) -> None:
        """One step of the physics, and its image to every PLC."""
        for plc, at in list(self._back_at.items()):
            if now >= at:
                del self._back_at[plc]
                self.faults[plc] = msgspec.structs.replace(self.faults[plc], is_off=False)
        self.state = physics.step(self.state, TICK_S)
        values = channels.read(self.state)
        texts = channels.texts(self.state)
        for plc, writer in self._links.items():
            if writer.transport.get_write_buffer_size() < PENDING_BYTES_MAX:
                vector = PLCS[plc].gathered(values).astype("<f8").tobytes()
                writer.write(framed(Image(values=vector, texts=texts, faults=self.faults[plc])))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plc = ""
        try:
            while (message := await receive(reader)) is not None:
                plc = self._heard(message, plc, writer)
        except WireError as error:
            log.warning("malformed plc=%s reason=%s", plc, error)
        finally:
            if plc and self._links.get(plc) is writer:
                del self._links[plc]
            writer.close()

    def _heard(self, message: Message, plc: str, writer: asyncio.StreamWriter) -> str:
        """Acts on one message; the name of the PLC that this connection belongs to, if any."""
        match message:
            case PlcHello():
                return self._greeted(message, writer)
            case PointsWritten():
                self._take(plc, message.values)
            case ScenarioAsked() | FaultsAsked():
                writer.write(framed(self.asked(message, asyncio.get_running_loop().time())))
            case ActAsked():
                writer.write(framed(self._handed_on(message)))
            case Image() | Done():
                raise WireError(f"{type(message).__name__} is said by the plant, not to it")
        return plc

    def _greeted(self, hello: PlcHello, writer: asyncio.StreamWriter) -> str:
        if hello.plc not in PLCS:
            raise WireError(f"no PLC {hello.plc!r} in this tunnel")
        self._links[hello.plc] = writer
        return hello.plc

    def _take(self, plc: str, values: dict[str, float]) -> None:
        if not plc:
            raise WireError("set points of nobody: say hello first")
        rows = {one.name: one for one in PLCS[plc].writable}
        points = self.state.points
        for name, value in values.items():
            if name not in rows or not np.isfinite(value):
                raise WireError(f"{name!r} is no set point of {plc}")
            points = written(points, rows[name].row.channel, rows[name].index, value)
        self.state = msgspec.structs.replace(self.state, points=points)

    def _handed_on(self, message: ActAsked) -> Done:
        """Hand an act on to its PLC at once: it does not wait for the next image."""
        if message.plc not in self._links:
            return Done(error=f"no PLC {message.plc!r} is running; there are {', '.join(self._links) or 'none'}")
        self._links[message.plc].write(framed(message))
        return Done()

    def asked(self, message: ScenarioAsked | FaultsAsked, now: float) -> Done:
        """Begins a scenario or sets the faults of a PLC."""
        if message.plc not in PLCS:
            return Done(error=f"no PLC {message.plc!r}; there are {', '.join(PLCS)}")
        if isinstance(message, FaultsAsked):
            self.faults[message.plc] = message.faults
            return Done()
        places = 10 if message.scenario is Scenario.FAN_TRIP else 8
        if message.target is not None and not 0 <= message.target < places:
            return Done(error=f"place {message.target + 1} is not within 1..{places}")
        self.state = physics.begin(self.state, message.scenario, message.target)
        return self._begun(message.scenario, message.plc, now)

    def _begun(self, scenario: Scenario, plc: str, now: float) -> Done:
        """The part of a scenario that concerns a PLC as a device."""
        match scenario:
            case Scenario.PLC_OFF:
                self._back_at[plc] = now + PLC_OFF_S
                self._change_faults(plc, is_off=True)
            case Scenario.PLC_TEAR:
                self._change_faults(plc, tear_ms=TEAR_MS)
            case Scenario.PLC_DELAY:
                self._change_faults(plc, others_delay_ms=DELAY_MS)
            case Scenario.PLC_RESTART:
                return self._handed_on(ActAsked(plc=plc, act=Restart()))
            case Scenario.PLC_ZERO:
                return self._handed_on(ActAsked(plc=plc, act=ZeroVoter()))
            case Scenario.CLEAR:
                self.faults = {one: PlcFaults() for one in PLCS}
                self._back_at.clear()
            case _:
                pass
        return Done()

    def _change_faults(self, plc: str, **changes: bool | int) -> None:
        self.faults[plc] = msgspec.structs.replace(self.faults[plc], **changes)


async def _main(directory: Path, seed: int, is_child: bool) -> None:
    work = partial(Plant(seed).run, directory)
    await until_told(work, lambda: {"directory": str(directory)}, is_child=is_child)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m albireo.plant.tunnel.plant", description="The tunnel's physics.")
    parser.add_argument("--directory", type=Path, required=True, help="where plant.sock is opened")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same tunnel")
    parser.add_argument("--child", action="store_true", help="end at the end of stdin")
    arguments = parser.parse_args()
    asyncio.run(_main(arguments.directory, arguments.seed, arguments.child))


if __name__ == "__main__":
    main()
