"""Ten jet fans in four stages, their motors, and the control that follows air quality.

A fan whose bearing fails vibrates first and trips then; the control takes the next fan that is ready.
"""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.plant.tunnel.scenario import Incidents
from albireo.plant.tunnel.setpoints import SetPoints, Vector

FANS: Final = 10
STAGE_FANS: Final = (0, 3, 5, 8, 10)
STAGE_NEED: Final = np.array([0.55, 0.75, 0.95, 1.15])
"""Share of the set point at which each stage engages."""
STAGE_HYSTERESIS: Final = 0.15
STAGE_HOLD_S: Final = 8.0
"""Least time between two stages: motors must not start in bursts."""
RUN_UP_S: Final = 3.0
RUN_OUT_S: Final = 6.0
RATED_A: Final = 68.0
RATED_RPM: Final = 1_480.0
VOLT: Final = 400.0
COS_PHI: Final = 0.86
TRIP_AFTER_S: Final = 3.0
"""Time from the first vibration of a failing bearing to its trip."""
DAMAGE_VIBRATION: Final = 7.0


class Fans(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Motors and the state of the stage control."""

    speed: Vector
    """0..1 of the rated speed."""
    is_commanded: NDArray[np.bool_]
    is_tripped: NDArray[np.bool_]
    bearing_c: Vector
    runtime_h: Vector
    starts: Vector
    stage: int
    stage_held_s: float
    need: float
    """Worst air quality as a share of its set point, smoothed."""


def initial() -> Fans:
    return Fans(
        speed=np.zeros(FANS),
        is_commanded=np.zeros(FANS, np.bool_),
        is_tripped=np.zeros(FANS, np.bool_),
        bearing_c=np.full(FANS, 16.0),
        runtime_h=3_000.0 + 137.0 * np.arange(FANS, dtype=np.float64),
        starts=400.0 + 11.0 * np.arange(FANS, dtype=np.float64),
        stage=0,
        stage_held_s=STAGE_HOLD_S,
        need=0.5,
    )


def step(
    before: Fans, points: SetPoints, incidents: Incidents, *, need: float, is_fire: bool, air_c: float, dt: float
) -> Fans:
    """The fans `dt` seconds later.

    Args:
        need: worst measured air quality / its set point.
        is_fire: full stage, whatever auto or manual says.
    """
    smoothed = before.need + dt / 3.0 * (need - before.need)
    stage, held_s = _stage(before, points, smoothed, is_fire, dt)

    is_tripped = _tripped(before, points, incidents)
    is_ready = (points.fan_enable > 0) & ~is_tripped
    order = np.cumsum(is_ready)
    is_commanded = is_ready & (order <= STAGE_FANS[stage])

    running: Vector = is_commanded.astype(np.float64)
    started: Vector = (is_commanded & ~before.is_commanded).astype(np.float64)
    time_s: Vector = np.where(running > before.speed, RUN_UP_S, RUN_OUT_S)
    speed = before.speed + dt / time_s * (running - before.speed)
    return Fans(
        speed=speed,
        is_commanded=is_commanded,
        is_tripped=is_tripped,
        bearing_c=before.bearing_c + dt / 90 * (air_c + 34 * speed**2 - before.bearing_c),
        runtime_h=before.runtime_h + running * (dt / 3_600),
        starts=before.starts + started,
        stage=stage,
        stage_held_s=held_s,
        need=smoothed,
    )


def _stage(before: Fans, points: SetPoints, need: float, is_fire: bool, dt: float) -> tuple[int, float]:
    held_s = before.stage_held_s + dt
    if is_fire:
        return 4, held_s
    if not points.vent_auto[0]:
        return int(points.vent_stage_set[0]), held_s
    rising = int(np.sum(need > STAGE_NEED))
    falling = int(np.sum(need > STAGE_NEED - STAGE_HYSTERESIS))
    if held_s >= STAGE_HOLD_S and rising > before.stage:
        return before.stage + 1, 0.0
    if held_s >= STAGE_HOLD_S and falling < before.stage:
        return before.stage - 1, 0.0
    return before.stage, held_s


def _tripped(before: Fans, points: SetPoints, incidents: Incidents) -> NDArray[np.bool_]:
    is_tripped: NDArray[np.bool_] = before.is_tripped & ~np.full(FANS, points.fan_reset[0] > 0)
    if incidents.damaged_fan is not None and incidents.damage_s >= TRIP_AFTER_S:
        is_tripped[incidents.damaged_fan] = True
    return is_tripped


def current(fans: Fans) -> Vector:
    """A per motor, with the inrush of a start."""
    running = RATED_A * (0.35 + 0.65 * fans.speed**2)
    inrush = RATED_A * (1 + 3.0 * (1 - fans.speed))
    is_starting = fans.is_commanded & (fans.speed < 0.9)
    amps: Vector = np.where(is_starting, inrush, np.where(fans.is_commanded, running, 0.0))
    return amps


def power_kw(fans: Fans) -> Vector:
    """Active power per motor; the inrush is mostly reactive."""
    drawn: Vector = np.minimum(current(fans), 1.3 * RATED_A) * np.sqrt(3) * VOLT * COS_PHI / 1_000
    return drawn


def vibration(fans: Fans, incidents: Incidents) -> Vector:
    """mm/s effective, before noise."""
    level: Vector = 0.25 + 1.7 * fans.speed**2
    failing = incidents.damaged_fan
    if failing is not None and not fans.is_tripped[failing]:
        level[failing] += DAMAGE_VIBRATION * (1 + incidents.damage_s / TRIP_AFTER_S) * max(0.4, fans.speed[failing])
    return level
