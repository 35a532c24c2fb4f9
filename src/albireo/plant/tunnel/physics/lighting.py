"""Lighting in six zones: bright behind the entrance so that eyes can follow, dark in the interior, bright at the exit.

Spec: CIE 88 (threshold zone as a share of the luminance L20 before the portal, then a falling curve); shares ASSUMED.
"""

from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.setpoints import SetPoints, Vector

ZONES: Final = ("threshold_1", "threshold_2", "transition_1", "transition_2", "interior", "exit")
L20_SHARE: Final = np.array([0.050, 0.030, 0.012, 0.005, 0.0, 0.004])
NIGHT_CD: Final = np.array([3.0, 3.0, 3.0, 3.0, 3.0, 3.0])
FULL_CD: Final = np.array([260.0, 155.0, 65.0, 30.0, 8.0, 26.0])
RATED_KW: Final = np.array([46.0, 38.0, 21.0, 13.0, 17.0, 9.0])
FAILED_SHARE: Final = np.array([0.01, 0.0, 0.02, 0.0, 0.03, 0.0])
SLEW_PER_S: Final = 8.0
"""% per second: drivers must not see it switch."""
L20_NOON_CD: Final = 4_800.0


class Lighting(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Dimming of each zone and the weather outside."""

    level: Vector
    """% of full output."""
    cloud: float
    """Share of the daylight that comes through, slow and random."""


def initial() -> Lighting:
    return Lighting(level=np.full(len(ZONES), 30.0), cloud=0.8)


def daylight(hour: float, cloud: float) -> float:
    """Luminance L20 before the portal, cd/m2."""
    sun = max(0.0, float(np.sin((hour - 5.5) / 14 * np.pi))) if 5.5 < hour < 19.5 else 0.0
    return 0.5 + L20_NOON_CD * float(np.power(sun, 1.3)) * cloud


def step(
    before: Lighting, points: SetPoints, *, hour: float, is_fire: bool, dt: float, random: np.random.Generator
) -> Lighting:
    """The lighting `dt` seconds later; a fire turns everything on."""
    cloud = before.cloud + dt / 60 * (0.8 - before.cloud) + 0.015 * np.sqrt(dt) * random.standard_normal()
    if is_fire:
        target = np.full(len(ZONES), 100.0)
    elif points.light_auto[0]:
        wanted = np.maximum(NIGHT_CD, L20_SHARE * daylight(hour, float(cloud)))
        target = np.clip(100 * wanted / FULL_CD, 5, 100)
    else:
        target = points.light_level_set
    change = np.clip(target - before.level, -SLEW_PER_S * dt, SLEW_PER_S * dt)
    return Lighting(level=before.level + change, cloud=float(np.clip(cloud, 0.25, 1.0)))


def luminance(lighting: Lighting) -> Vector:
    """cd/m2 on the road in each zone."""
    found: Vector = FULL_CD * lighting.level / 100 * (1 - FAILED_SHARE)
    return found


def power_kw(lighting: Lighting) -> Vector:
    drawn: Vector = RATED_KW * lighting.level / 100 * (1 - FAILED_SHARE)
    return drawn
