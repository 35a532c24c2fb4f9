"""Air in the tunnel: one velocity, and per section what the vehicles and a fire put into it.

Idea: momentum of the whole air column (fans, piston effect, wind, friction) gives the velocity; every pollutant is
carried along by it, section by section. Emissions are high for today's cars: the tunnel climbs, which makes the
ventilation worth watching.

Spec: PIARC, "Road tunnels: vehicle emissions and air demand for ventilation" (the shape of the balance and the order
of the limits; the factors here are ASSUMED, chosen so that a rush hour engages two of four stages).
"""

from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.physics.traffic import SECTION_KM, SECTIONS
from albireo.plant.tunnel.setpoints import Vector

SECTION_M: Final = SECTION_KM * 1_000
AREA_M2: Final = 60.0
DENSITY: Final = 1.2
HEAT_CAPACITY: Final = 1_005.0
AIR_KG: Final = DENSITY * AREA_M2 * SECTION_M * SECTIONS
SECTION_M3: Final = AREA_M2 * SECTION_M
FRICTION: Final = 173.0
"""N per (m/s)^2: inlet loss and walls of 1.2 km."""
PISTON: Final = 0.72
"""N per (m/s)^2 and vehicle: half of air density x 1.2 m2 of drag area."""
FAN_THRUST_N: Final = 620.0

CO_AMBIENT: Final = 0.8
OPACITY_AMBIENT: Final = 0.4
NO2_AMBIENT: Final = 15.0
MG_PER_PPM: Final = 1.165
"""mg/m3 of one ppm CO at 20 C."""
WALL_C: Final = 14.0
WALL_TIME_S: Final = 300.0


class Air(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """True values, before any sensor."""

    velocity: float
    """m/s, positive in driving direction."""
    wind: float
    """N on the entrance portal, slow and random."""
    co: Vector
    """ppm."""
    opacity: Vector
    """1/km: extinction coefficient, the inverse of visibility."""
    no2: Vector
    """ppb."""
    temperature: Vector
    """C."""


def initial() -> Air:
    ramp = np.linspace(0.2, 1.0, SECTIONS)
    return Air(
        velocity=5.0,
        wind=0.0,
        co=CO_AMBIENT + 6.0 * ramp,
        opacity=OPACITY_AMBIENT + 1.2 * ramp,
        no2=NO2_AMBIENT + 60 * ramp,
        temperature=WALL_C + 2.0 * ramp,
    )


def ambient_temperature(hour: float) -> float:
    return float(12.0 + 6.0 * np.sin((hour - 9.0) / 24 * 2 * np.pi))


class Sources(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Causes that act on the air during one step."""

    vehicles: Vector
    speed_kmh: Vector
    fan_speed: Vector
    """0..1 each."""
    fire_mw: Vector
    """Heat release per section."""
    hour: float


def step(before: Air, sources: Sources, dt: float, random: np.random.Generator) -> Air:
    """The air `dt` seconds (at most 1) later."""
    wind = before.wind - dt / 200 * before.wind + 60 * np.sqrt(dt) * random.standard_normal()
    velocity = before.velocity + dt * _force(before, sources, float(wind)) / AIR_KG
    vehicles, speed, fire = sources.vehicles, sources.speed_kmh, sources.fire_mw

    co_mg = vehicles * (40 + 1.0 * speed) + 2_500 * fire
    opacity_m2 = vehicles * (0.006 + 0.0002 * speed) + 44 * fire
    no2_mg = vehicles * (0.6 + 0.012 * speed)
    heat_w = vehicles * (4_000 + 150 * speed) + 0.7e6 * fire
    ambient = ambient_temperature(sources.hour)
    warmed = heat_w / (DENSITY * HEAT_CAPACITY * SECTION_M3) - (before.temperature - WALL_C) / WALL_TIME_S

    def moved(values: Vector, inlet: float, source: Vector) -> Vector:
        return _carried(values, inlet, velocity, dt) + source * dt

    return Air(
        velocity=velocity,
        wind=float(wind),
        co=moved(before.co, CO_AMBIENT, co_mg / SECTION_M3 / MG_PER_PPM),
        opacity=moved(before.opacity, OPACITY_AMBIENT, opacity_m2 / SECTION_M3 * 1_000),
        no2=moved(before.no2, NO2_AMBIENT, no2_mg / SECTION_M3 * 520),
        temperature=moved(before.temperature, ambient, warmed),
    )


def _force(air: Air, sources: Sources, wind: float) -> float:
    relative = sources.speed_kmh / 3.6 - air.velocity
    piston = PISTON * float(np.sum(sources.vehicles * relative * np.abs(relative)))
    fans = FAN_THRUST_N * float(np.sum(sources.fan_speed**2))
    return fans + piston + wind - FRICTION * air.velocity * abs(air.velocity)


def _carried(values: Vector, inlet: float, velocity: float, dt: float) -> Vector:
    """First-order upwind transport; stable as long as |velocity| x dt < SECTION_M."""
    if velocity >= 0:
        upstream = np.concatenate(([inlet], values[:-1]))
    else:
        upstream = np.concatenate((values[1:], [inlet]))
    return values + abs(velocity) * dt / SECTION_M * (upstream - values)
