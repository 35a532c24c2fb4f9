"""Readings of the tunnel's instruments: one column of float64 per channel, with the noise of real transmitters.

Strings are kept apart. Names of channels are those in the register map.
"""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from albireo.plant.tunnel.physics import air, drainage, lighting, traffic, ventilation
from albireo.plant.tunnel.physics.physics import OPACITY_RANGE, STUCK_TICKS, TunnelState, is_barrier_closed, noise
from albireo.plant.tunnel.setpoints import Vector

INSTRUMENT_STREAM: Final = 1 << 63
"""Keeps the noise of the instruments apart from that of the physics at the same tick."""

Channels = dict[str, Vector]


def read(state: TunnelState) -> Channels:
    """Every channel at this tick. Pure: the same state gives the same noise."""
    random = noise(state.seed, state.tick | INSTRUMENT_STREAM)

    def noisy(values: Vector, sigma: float) -> Vector:
        return values + sigma * random.standard_normal(len(values))

    return {
        **_air(state, noisy),
        **_fans(state, noisy),
        **_road(state, noisy),
        **_light(state, noisy),
        **_water(state, noisy),
        **_supply(state, noisy),
        **_safety(state, noisy),
        **_controllers(state, noisy),
    }


def texts(state: TunnelState) -> dict[str, str]:
    """Text of the message sign over the entrance."""
    limit = int(state.points.speed_limit[0])
    if state.safety.is_fire:
        sign = "FIRE - LEAVE"
    elif is_barrier_closed(state):
        sign = "CLOSED"
    elif _is_queue(state).any():
        sign = f"QUEUE {min(limit, 50)}"
    else:
        sign = f"LIMIT {limit}"
    return {"sign_text": sign}


class Noisy(Protocol):
    """Adds the noise of a transmitter."""

    def __call__(self, values: Vector, sigma: float) -> Vector: ...


def _flag(values: NDArray[np.bool_]) -> Vector:
    return values.astype(np.float64)


def _one(value: float) -> Vector:
    return np.array([value], np.float64)


def _air(state: TunnelState, noisy: Noisy) -> Channels:
    truth = state.air
    outside = air.ambient_temperature(state.hour)
    return {
        "co": state.sensors.co,
        "opacity": state.sensors.opacity,
        "no2": np.maximum(noisy(truth.no2, 1.5), 0.0),
        "air_temperature": noisy(truth.temperature, 0.05),
        "humidity": np.clip(noisy(78 - 1.6 * (truth.temperature - outside), 0.3), 5, 100),
        "air_velocity": noisy(np.full(4, truth.velocity) * np.array([1.0, 1.03, 0.98, 1.01]), 0.06),
        "co_stuck": _flag(state.sensors.unchanged_ticks >= STUCK_TICKS),
        "outside_temperature": noisy(_one(outside), 0.05),
        "outside_pressure": noisy(_one(96_540.0 + truth.wind / 50), 3.0),
        "wind_speed": np.abs(noisy(_one(2.5 + truth.wind / 400), 0.15)),
    }


def _fans(state: TunnelState, noisy: Noisy) -> Channels:
    fans = state.fans
    is_turning = fans.speed > 0.02
    current = ventilation.current(fans)
    return {
        "fan_speed": np.maximum(noisy(ventilation.RATED_RPM * fans.speed, 2.0) * is_turning, 0.0),
        "fan_current": np.maximum(noisy(current, 0.3), 0.0) * (current > 0),
        "fan_power": ventilation.power_kw(fans) * (current > 0),
        "fan_vibration": np.maximum(noisy(ventilation.vibration(fans, state.incidents), 0.05), 0.0),
        "fan_bearing": noisy(fans.bearing_c, 0.1),
        "fan_runtime": fans.runtime_h,
        "fan_starts": fans.starts,
        "fan_running": _flag(fans.is_commanded),
        "fan_off": _flag(~fans.is_commanded | (fans.speed < 0.9)),
        "fan_trip": _flag(fans.is_tripped),
        "vent_stage": _one(fans.stage),
        "vent_need": noisy(_one(100 * fans.need), 0.2),
        "fans_running": _one(float(fans.is_commanded.sum())),
    }


def _is_queue(state: TunnelState) -> NDArray[np.bool_]:
    is_slow = state.traffic.speed < traffic.QUEUE_SPEED_KMH
    queued: NDArray[np.bool_] = is_slow & (state.traffic.density > 40)
    return queued


def _road(state: TunnelState, noisy: Noisy) -> Channels:
    road = state.traffic
    density = road.density[traffic.LOOP_SECTIONS] * traffic.LANE_SHARE
    return {
        "loop_flow": np.maximum(noisy(road.loop_flow, 4.0), 0.0),
        "loop_speed": np.maximum(noisy(road.speed[traffic.LOOP_SECTIONS] * traffic.LANE_PACE, 0.6), 0.0),
        "loop_occupancy": np.clip(noisy(density * 0.55, 0.1), 0, 100),
        "loop_count": np.floor(road.loop_count),
        "vehicles": np.round(road.vehicles),
        "vehicles_inside": _one(float(np.round(road.vehicles.sum()))),
        "vehicles_waiting": _one(float(np.floor(road.waiting))),
        "vehicles_total": _one(float(np.floor(road.loop_count[:2].sum()))),
        "queue": _flag(_is_queue(state)),
        "barrier_closed": _one(is_barrier_closed(state)),
    }


def _light(state: TunnelState, noisy: Noisy) -> Channels:
    lights = state.lighting
    outside = lighting.daylight(state.hour, lights.cloud)
    zones = len(lighting.ZONES)
    return {
        "light_level": lights.level,
        "light_luminance": np.maximum(noisy(lighting.luminance(lights), 0.08), 0.0),
        "light_power": np.maximum(noisy(lighting.power_kw(lights), 0.03), 0.0),
        "lamps_failed": np.round(lighting.FAILED_SHARE * 200),
        "lamp_hours": 8_000 + 1_000 * np.arange(zones) + state.tick / 36_000,
        "portal_luminance": np.maximum(noisy(np.array([outside, 0.93 * outside]), 3.0), 0.0),
    }


def _water(state: TunnelState, noisy: Noisy) -> Channels:
    water = state.drainage
    flow = drainage.flow(water)
    return {
        "sump_level": np.maximum(noisy(water.level, 0.004), 0.0),
        "sump_inflow": np.maximum(noisy(water.inflow, 0.15), 0.0),
        "sump_high": _flag(water.level >= drainage.HIGH_FLOAT_M),
        "pump_running": _flag(water.is_running),
        "pump_trip": np.zeros(drainage.PUMPS),
        "pump_flow": np.maximum(noisy(flow, 0.4), 0.0) * water.is_running,
        "pump_current": np.maximum(noisy(np.full(drainage.PUMPS, 14.2), 0.08), 0.0) * water.is_running,
        "pump_starts": water.starts,
        "pump_runtime": water.runtime_h,
    }


def _supply(state: TunnelState, noisy: Noisy) -> Channels:
    power = state.power
    factor = np.array([0.91, 0.93])
    amps = power.active_kw * 1_000 / (np.sqrt(3) * ventilation.VOLT * factor)
    unbalance = np.array([1.01, 0.98, 1.01])
    drop = 1 - 0.03 * power.active_kw / 400
    return {
        "voltage": noisy((ventilation.VOLT / np.sqrt(3) * np.outer(drop, unbalance**0.2)).ravel(), 0.15),
        "current": np.maximum(noisy(np.outer(amps, unbalance).ravel(), 0.4), 0.0),
        "active_power": noisy(power.active_kw, 0.2),
        "reactive_power": noisy(power.active_kw * np.tan(np.arccos(factor)), 0.2),
        "power_factor": np.clip(noisy(factor, 0.002), 0, 1),
        "energy": power.energy_kwh,
        "oil_temperature": noisy(power.oil_c, 0.05),
        "breaker_closed": np.ones(2),
        "grid_frequency": noisy(_one(power.grid_hz), 0.002),
        "battery_charge": _one(power.battery_percent),
        "battery_voltage": noisy(_one(54.1), 0.02),
        "on_battery": np.zeros(1),
    }


def _safety(state: TunnelState, noisy: Noisy) -> Channels:
    safe = state.safety
    return {
        "ceiling_temperature": noisy(safe.ceiling_c, 0.08),
        "smoke": np.clip(noisy(0.04 * state.air.opacity, 0.01), 0.0, OPACITY_RANGE),
        "fire_alarm": _flag(safe.is_alarm),
        "fire_mode": _one(safe.is_fire),
        "door_open": _flag(safe.is_door_open),
        "phone_lifted": _flag(safe.is_phone_lifted),
        "hydrant_pressure": noisy(safe.hydrant_bar, 0.01),
        "hydrant_pump": _one(float(safe.hydrant_bar.min()) < 7.5),
    }


def _controllers(state: TunnelState, noisy: Noisy) -> Channels:
    return {
        "life": _one(state.tick % 65_536),
        "uptime_ms": _one(state.tick * 100.0),
        "day_time": _one(state.hour),
        "cycle_ms": np.maximum(noisy(_one(8.0), 0.4), 1.0),
        "cabinet_temperature": noisy(np.array([27.0, 25.5, 26.2, 28.1]), 0.05),
        "cabinet_door_open": np.zeros(4),
    }
