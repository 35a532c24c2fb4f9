"""Scenarios: what can go wrong in the tunnel, and how far it has gone.

A scenario whose name begins with `plc-` is no physics: the plant tells the PLC's process (`plant`). All others act in
`physics.step`.
"""

from enum import StrEnum
from typing import Final

import msgspec

PLC_OFF_S: Final = 20.0
"""Time that a PLC stays away: long enough to see the loss, the gap and the return in one short demo."""
TEAR_MS: Final = 30
DELAY_MS: Final = 15
"""Just within what the demo's topology allows for (`settle_ms` = 20)."""


class Scenario(StrEnum):
    """Names as a user types them."""

    FIRE = "fire"
    FAN_TRIP = "fan-trip"
    PLC_OFF = "plc-off"
    PLC_RESTART = "plc-restart"
    """A power cycle; the registers keep every write."""
    PLC_ZERO = "plc-zero"
    """The voter's registers are zeroed, as by loading a program."""
    PLC_TEAR = "plc-tear"
    """Writes to the voter and the mailboxes are seen in two halves, TEAR_MS apart."""
    PLC_DELAY = "plc-delay"
    """Other connections see such a write DELAY_MS later."""
    SENSOR_FROZEN = "sensor-frozen"
    JAM = "jam"
    CLEAR = "clear"


class Incidents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is wrong now. Sections, fans and sensors count from 0; None is nothing wrong."""

    fire_section: int | None = None
    fire_s: float = 0.0
    """Seconds since ignition."""
    damaged_fan: int | None = None
    damage_s: float = 0.0
    """Seconds since the bearing began to fail."""
    is_jam: bool = False
    """Hardly anything gets out, and another road's traffic comes in."""
    frozen_sensor: int | None = None
    """Section whose CO sensor repeats its last value."""


def begun(incidents: Incidents, scenario: Scenario, target: int) -> Incidents:
    """The incidents after `scenario` began at section or fan `target`; `CLEAR` ends all of them."""
    match scenario:
        case Scenario.FIRE:
            return msgspec.structs.replace(incidents, fire_section=target, fire_s=0.0)
        case Scenario.FAN_TRIP:
            return msgspec.structs.replace(incidents, damaged_fan=target, damage_s=0.0)
        case Scenario.JAM:
            return msgspec.structs.replace(incidents, is_jam=True)
        case Scenario.SENSOR_FROZEN:
            return msgspec.structs.replace(incidents, frozen_sensor=target)
        case Scenario.CLEAR:
            return Incidents()
        case Scenario.PLC_OFF | Scenario.PLC_RESTART | Scenario.PLC_ZERO | Scenario.PLC_TEAR | Scenario.PLC_DELAY:
            return incidents


def aged(incidents: Incidents, dt: float) -> Incidents:
    """The same incidents `dt` seconds later."""
    return msgspec.structs.replace(
        incidents,
        fire_s=incidents.fire_s + dt if incidents.fire_section is not None else 0.0,
        damage_s=incidents.damage_s + dt if incidents.damaged_fan is not None else 0.0,
    )
