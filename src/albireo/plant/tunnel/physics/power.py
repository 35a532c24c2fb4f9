"""Supply: two transformers that share the load, energy meters, and a battery for what must not go dark."""

from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.setpoints import Vector

BASE_KW: Final = np.array([18.0, 24.0])
"""Control, communication, signs; the second also carries the pumps."""
OIL_TIME_S: Final = 600.0


class Power(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Meters and slow states."""

    active_kw: Vector
    """Per transformer."""
    energy_kwh: Vector
    oil_c: Vector
    grid_hz: float
    battery_percent: float


def initial() -> Power:
    return Power(
        active_kw=BASE_KW.copy(),
        energy_kwh=np.array([1_204_311.0, 987_440.0]),
        oil_c=np.array([38.0, 36.0]),
        grid_hz=50.0,
        battery_percent=99.5,
    )


def step(before: Power, load_kw: Vector, dt: float, random: np.random.Generator) -> Power:
    """The meters `dt` seconds later; `load_kw` per transformer comes on top of the base load."""
    active = BASE_KW + load_kw
    grid = before.grid_hz + dt / 30 * (50.0 - before.grid_hz) + 0.004 * np.sqrt(dt) * random.standard_normal()
    return Power(
        active_kw=active,
        energy_kwh=before.energy_kwh + active * dt / 3_600,
        oil_c=before.oil_c + dt / OIL_TIME_S * (30 + 0.09 * active - before.oil_c),
        grid_hz=float(grid),
        battery_percent=before.battery_percent + dt / 3_600 * (100.0 - before.battery_percent),
    )
