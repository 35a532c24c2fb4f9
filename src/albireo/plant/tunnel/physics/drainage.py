"""Two sumps with two pumps each: on at a level, off at a lower one, the other pump leads next time."""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.plant.tunnel.setpoints import SetPoints, Vector

SUMPS: Final = 2
PUMPS: Final = 4
"""Pumps 0 and 1 drain sump 0, pumps 2 and 3 drain sump 1."""
SUMP_M2: Final = 1.4
PUMP_M3H: Final = 62.0
SECOND_PUMP_M: Final = 0.4
"""The second pump starts this much above the first."""
SEEPAGE_M3H: Final = np.array([22.0, 15.0])
DEEP_M: Final = 3.0
HIGH_FLOAT_M: Final = 2.4
PUMP_KW: Final = 7.5


class Drainage(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Water and pumps."""

    level: Vector
    """m per sump."""
    inflow: Vector
    """m3/h per sump."""
    is_running: NDArray[np.bool_]
    lead: NDArray[np.int64]
    """0 or 1 per sump: the pump that starts first."""
    starts: Vector
    runtime_h: Vector


def initial() -> Drainage:
    return Drainage(
        level=np.array([1.48, 1.0]),
        inflow=SEEPAGE_M3H.copy(),
        is_running=np.zeros(PUMPS, np.bool_),
        lead=np.zeros(SUMPS, np.int64),
        starts=np.array([812.0, 790.0, 401.0, 416.0]),
        runtime_h=np.array([530.0, 512.0, 260.0, 255.0]),
    )


def step(before: Drainage, points: SetPoints, dt: float, random: np.random.Generator) -> Drainage:
    """The sumps `dt` seconds later."""
    inflow = before.inflow + dt / 40 * (SEEPAGE_M3H - before.inflow)
    inflow = np.maximum(inflow + 0.8 * np.sqrt(dt) * random.standard_normal(SUMPS), 2.0)
    pumped = PUMP_M3H * before.is_running.reshape(SUMPS, 2).sum(axis=1) * (before.level > 0.05)
    level = np.clip(before.level + (inflow - pumped) / 3_600 / SUMP_M2 * dt, 0.0, DEEP_M)

    automatic, lead = _automatic(before, points, level)
    is_auto = points.pump_auto > 0
    is_running = np.where(is_auto, automatic, points.pump_run > 0) & np.repeat(level > 0.05, 2)
    return Drainage(
        level=level,
        inflow=inflow,
        is_running=is_running,
        lead=lead,
        starts=before.starts + (is_running & ~before.is_running),
        runtime_h=before.runtime_h + is_running * dt / 3_600,
    )


def _automatic(before: Drainage, points: SetPoints, level: Vector) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Wish of the level control for each pump, and the next first pump of each sump: it changes with each emptying."""
    wanted = before.is_running.reshape(SUMPS, 2).copy()
    lead = before.lead.copy()
    for sump in range(SUMPS):
        first, second = int(lead[sump]), 1 - int(lead[sump])
        start = points.sump_start_level[sump]
        if level[sump] <= points.sump_stop_level[sump]:
            if wanted[sump].any():
                lead[sump] = second
            wanted[sump] = False
        elif level[sump] >= start:
            wanted[sump, first] = True
            wanted[sump, second] |= level[sump] >= start + SECOND_PUMP_M
    return wanted.reshape(PUMPS), lead


def flow(drainage: Drainage) -> Vector:
    """m3/h per pump."""
    delivered: Vector = np.where(drainage.is_running, PUMP_M3H, 0.0)
    return delivered
