"""Fire, its detection, and what people do: doors, emergency phones, hydrants.

A fire grows with the square of time (t-squared fires of fire engineering), faster than a real one so that a demo need
not wait for five minutes.
"""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.plant.tunnel.physics.traffic import SECTIONS
from albireo.plant.tunnel.scenario import Incidents
from albireo.plant.tunnel.setpoints import SetPoints, Vector

FIRE_FULL_MW: Final = 20.0
FIRE_FULL_S: Final = 30.0
PLUME_C: Final = 34.0
"""K at the ceiling right above a fire of 1 MW; grows with the power to 2/3."""
ALARM_C: Final = 58.0
"""EN 54-22: static response; the rate rule is left to the node's own alarms."""
FLEE_AFTER_S: Final = 12.0
PHONE_AFTER_S: Final = 9.0
HYDRANTS: Final = 4
HYDRANT_BAR: Final = 8.2


class Safety(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Detectors and people."""

    ceiling_c: Vector
    """Linear heat sensor under the ceiling, per section."""
    is_alarm: NDArray[np.bool_]
    """Latched in the fire panel until it is reset."""
    is_door_open: NDArray[np.bool_]
    is_phone_lifted: NDArray[np.bool_]
    hydrant_bar: Vector

    @property
    def is_fire(self) -> bool:
        return bool(self.is_alarm.any())


def initial() -> Safety:
    none = np.zeros(SECTIONS, np.bool_)
    return Safety(
        ceiling_c=np.full(SECTIONS, 15.0),
        is_alarm=none,
        is_door_open=none,
        is_phone_lifted=none,
        hydrant_bar=np.full(HYDRANTS, HYDRANT_BAR),
    )


def fire_mw(incidents: Incidents) -> Vector:
    """Heat release per section, MW."""
    power = np.zeros(SECTIONS)
    if incidents.fire_section is not None:
        power[incidents.fire_section] = FIRE_FULL_MW * min(1.0, incidents.fire_s / FIRE_FULL_S) ** 2
    return power


def step(
    before: Safety, points: SetPoints, incidents: Incidents, *, air_c: Vector, velocity: float, dt: float
) -> Safety:
    """Detectors and people `dt` seconds later."""
    burning = fire_mw(incidents)
    plume = PLUME_C * burning ** (2 / 3)
    spread = np.concatenate(([0.0], plume[:-1])) if velocity >= 0 else np.concatenate((plume[1:], [0.0]))
    target = air_c + np.minimum(plume + 0.35 * spread, 900.0)
    ceiling = before.ceiling_c + dt / 4.0 * (target - before.ceiling_c)
    kept = before.is_alarm & (points.fire_reset[0] == 0)
    people = _people(incidents)
    is_hosing = incidents.fire_section is not None and incidents.fire_s > 20
    pressure = HYDRANT_BAR - (np.array([0.6, 1.9, 1.5, 0.8]) if is_hosing else 0.0)
    return Safety(
        ceiling_c=ceiling,
        is_alarm=kept | (ceiling >= ALARM_C),
        is_door_open=people & (incidents.fire_s > FLEE_AFTER_S),
        is_phone_lifted=people & (incidents.fire_s > PHONE_AFTER_S) & (np.arange(SECTIONS) == incidents.fire_section),
        hydrant_bar=before.hydrant_bar + dt / 3 * (pressure - before.hydrant_bar),
    )


def _people(incidents: Incidents) -> NDArray[np.bool_]:
    """Sections from which people flee: the burning one and its neighbours."""
    if incidents.fire_section is None:
        return np.zeros(SECTIONS, np.bool_)
    near: NDArray[np.bool_] = np.abs(np.arange(SECTIONS) - incidents.fire_section) <= 1
    return near
