"""Traffic on two lanes in one direction, as a cell transmission model.

Idea: a section sends at most what is in it and receives at most what still fits; what passes a boundary is the smaller
of both. Queues, shock waves and free flow come out of that.

Spec: C. F. Daganzo, "The cell transmission model", Transportation Research B 28 (1994).
"""

from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.setpoints import SetPoints, Vector

SECTIONS: Final = 8
SECTION_KM: Final = 0.15
LOOP_SECTIONS: Final = np.array([0, 0, 2, 2, 4, 4, 6, 6])
"""Section at whose entry each induction loop lies: four stations, two lanes."""
LANE_SHARE: Final = np.array([0.58, 0.42] * 4)
LANE_PACE: Final = np.array([0.96, 1.06] * 4)

FREE_SHARE: Final = 0.95
"""Share of the speed limit that is driven when nobody is in the way."""
CAPACITY: Final = 3_800.0
"""Vehicles per hour, both lanes."""
JAM_DENSITY: Final = 260.0
"""Vehicles per km, both lanes, standing."""
WAVE_KMH: Final = 18.0
"""Speed at which a queue grows backwards."""
JAM_EXIT_SHARE: Final = 0.05
JAM_DEMAND: Final = 2_800.0
"""Vehicles per hour: the road that is closed elsewhere sends its traffic through the tunnel."""
QUEUE_SPEED_KMH: Final = 20.0
"""Below this a section with traffic counts as queued."""
LOOP_WINDOW_S: Final = 10.0
QUEUE_MAX: Final = 400.0
"""Vehicles waiting outside; more of them take another road."""


class Traffic(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """State of the road."""

    density: Vector
    """Vehicles per km in each section, both lanes."""
    passing: Vector
    """Vehicles per hour over each of the nine boundaries."""
    waiting: float
    """Vehicles before the entrance."""
    mood: float
    """Slow random factor on the demand, around 1."""
    loop_flow: Vector
    """Vehicles per hour at each loop, averaged over LOOP_WINDOW_S."""
    loop_count: Vector
    """Vehicles since the start at each loop."""
    speed: Vector
    """km/h, mean of each section; the free speed where (almost) nobody drives."""

    @property
    def vehicles(self) -> Vector:
        return self.density * SECTION_KM


class Blockage(msgspec.Struct, frozen=True, kw_only=True):
    """Obstacles that keep vehicles from moving."""

    burning_section: int | None
    is_exit_slow: bool
    is_entry_closed: bool


def initial() -> Traffic:
    return Traffic(
        density=np.full(SECTIONS, 24.0),
        passing=np.full(SECTIONS + 1, 1_800.0),
        waiting=0.0,
        mood=1.0,
        loop_flow=1_800.0 * LANE_SHARE,
        loop_count=np.zeros(len(LANE_SHARE)),
        speed=np.full(SECTIONS, 76.0),
    )


def demand(hour: float) -> float:
    """Vehicles per hour that want in: a night base, a day plateau and two rush hours."""
    morning = 1_300 * np.exp(-(((hour - 7.6) / 1.3) ** 2))
    evening = 1_200 * np.exp(-(((hour - 17.0) / 1.8) ** 2))
    day = 700 / (1 + np.exp(-(hour - 6.0) * 2)) / (1 + np.exp((hour - 20.5) * 1.5))
    return float(140 + day + morning + evening)


def step(
    before: Traffic, points: SetPoints, blockage: Blockage, hour: float, dt: float, random: np.random.Generator
) -> Traffic:
    """The road `dt` seconds (at most 1) later."""
    hours = dt / 3_600
    mood = before.mood + dt / 120 * (1 - before.mood) + 0.02 * np.sqrt(dt) * random.standard_normal()
    wanted = max(0.0, demand(hour) * mood)
    if blockage.is_exit_slow:
        wanted = max(wanted, JAM_DEMAND)
    arrived = random.poisson(wanted * hours)
    waiting = min(before.waiting + arrived, QUEUE_MAX)

    passing = _passing(before, points, blockage, waiting / hours)
    density = np.maximum(before.density + (passing[:-1] - passing[1:]) * hours / SECTION_KM, 0.0)
    at_loop = passing[LOOP_SECTIONS] * LANE_SHARE
    return Traffic(
        density=density,
        passing=passing,
        waiting=waiting - float(passing[0]) * hours,
        mood=float(np.clip(mood, 0.6, 1.4)),
        loop_flow=before.loop_flow + dt / LOOP_WINDOW_S * (at_loop - before.loop_flow),
        loop_count=before.loop_count + at_loop * hours,
        speed=_speed(before.density, passing[1:], FREE_SHARE * points.speed_limit[0]),
    )


def _passing(before: Traffic, points: SetPoints, blockage: Blockage, offered: float) -> Vector:
    free_kmh = FREE_SHARE * points.speed_limit[0]
    sending = np.minimum(free_kmh * before.density, CAPACITY)
    receiving = np.minimum(CAPACITY, WAVE_KMH * (JAM_DENSITY - before.density))
    if blockage.burning_section is not None:
        sending[blockage.burning_section] = 0.0
    entry = 0.0 if blockage.is_entry_closed else min(offered, CAPACITY)
    exit_capacity = CAPACITY * (JAM_EXIT_SHARE if blockage.is_exit_slow else 1.0)
    wanted = np.concatenate(([entry], sending))
    room = np.concatenate((receiving, [exit_capacity]))
    passing: Vector = np.maximum(np.minimum(wanted, room), 0.0)
    return passing


def _speed(density: Vector, leaving: Vector, free_kmh: float) -> Vector:
    """Flow over the density it came from, so that a burst at the entry does not look like slow traffic."""
    moving = np.minimum(free_kmh, leaving / np.maximum(density, 1.0))
    speed: Vector = np.where(density < 2.0, free_kmh, moving)
    return speed
