"""Set points: everything an operator can write, as the PLCs hold it. Units are those of the register map."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def _of(*values: float) -> Vector:
    return np.array(values, np.float64)


class SetPoints(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One column per name; switches are 0 or 1."""

    vent_auto: Vector = _of(1)
    """1: fans follow air quality; 0: `vent_stage_set` counts."""
    vent_stage_set: Vector = _of(0)
    """0..4, fans in groups."""
    co_setpoint: Vector = _of(12)
    """ppm at which the ventilation is fully engaged."""
    opacity_setpoint: Vector = _of(5)
    """1/km, the same for visibility."""
    fan_enable: Vector = np.ones(10)
    fan_reset: Vector = _of(0)
    """Resets tripped motor protections while it is 1."""
    speed_limit: Vector = _of(80)
    """km/h on the signs before and in the tunnel."""
    barrier_close: Vector = _of(0)
    light_auto: Vector = _of(1)
    light_level_set: Vector = np.full(6, 50.0)
    """% per zone, used in manual."""
    pump_auto: Vector = np.ones(4)
    pump_run: Vector = np.zeros(4)
    """Used in manual."""
    sump_start_level: Vector = np.full(2, 1.6)
    """m at which the first pump starts; the second starts 0.4 m higher."""
    sump_stop_level: Vector = np.full(2, 0.6)
    fire_reset: Vector = _of(0)
    """Resets latched fire alarms while it is 1."""


def written(points: SetPoints, name: str, index: int, value: float) -> SetPoints:
    """`points` with one element of column `name` changed.

    Raises:
        KeyError: no such column; the register map names only existing ones (a test holds that).
    """
    if name not in SetPoints.__struct_fields__:
        raise KeyError(name)
    column: Vector = getattr(points, name).copy()
    column[index] = value
    return msgspec.structs.replace(points, **{name: column})
