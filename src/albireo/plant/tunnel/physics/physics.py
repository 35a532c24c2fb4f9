"""The tunnel as one pure step: state and set points in, state a tenth of a second later out.

What it does not do: registers, sockets, clocks. The same seed and the same writes at the same ticks give the same
tunnel, bit for bit: noise is drawn from a counter-based generator keyed by (seed, tick), so no generator state is
carried along.

    demand -> traffic -> emissions -> air -> sensors -> control -> fans -> air
                                 fire -> air, ceiling -> fire panel -> full stage, lights, barrier
"""

from typing import Final

import msgspec
import numpy as np

from albireo.plant.tunnel.physics import air, drainage, lighting, power, safety, traffic, ventilation
from albireo.plant.tunnel.scenario import Incidents, Scenario, aged, begun
from albireo.plant.tunnel.setpoints import SetPoints, Vector

DAY_S: Final = 86_400.0
DAY_SPEED: Final = 20.0
"""The day runs this much faster than the machines, so that a quarter of an hour shows a rush."""
START_HOUR: Final = 7.0
STUCK_TICKS: Final = 30
"""A live sensor is never this long at exactly one value: its noise is gone."""
FAN_OF_SCENARIO: Final = 0
"""The fan that runs first, so that its trip is seen."""
SECTION_OF_SCENARIO: Final = 4

CO_NOISE: Final = 0.12
OPACITY_NOISE: Final = 0.02
CO_RANGE: Final = 1_000.0
"""ppm; far above any fire, since a value at the end of the range would look stuck."""
OPACITY_RANGE: Final = 100.0
"""1/km; smoke beyond it reads as this."""


class Sensors(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Readings of the air; the control believes them."""

    co: Vector
    opacity: Vector
    unchanged_ticks: Vector
    """Ticks for which each CO sensor has shown exactly one value."""


class TunnelState(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Everything there is to know about the tunnel at one tick."""

    seed: int
    tick: int
    day_s: float
    """Seconds since midnight in the tunnel's own day."""
    points: SetPoints
    incidents: Incidents
    traffic: traffic.Traffic
    air: air.Air
    sensors: Sensors
    fans: ventilation.Fans
    lighting: lighting.Lighting
    drainage: drainage.Drainage
    power: power.Power
    safety: safety.Safety

    @property
    def hour(self) -> float:
        return self.day_s / 3_600


def initial(seed: int, hour: float = START_HOUR) -> TunnelState:
    """A quiet tunnel shortly before the morning rush."""
    still = air.initial()
    return TunnelState(
        seed=seed,
        tick=0,
        day_s=hour * 3_600 % DAY_S,
        points=SetPoints(),
        incidents=Incidents(),
        traffic=traffic.initial(),
        air=still,
        sensors=Sensors(co=still.co, opacity=still.opacity, unchanged_ticks=np.zeros(traffic.SECTIONS)),
        fans=ventilation.initial(),
        lighting=lighting.initial(),
        drainage=drainage.initial(),
        power=power.initial(),
        safety=safety.initial(),
    )


def noise(seed: int, tick: int) -> np.random.Generator:
    """The random numbers of one tick.

    NB: the key must be made as uint64; of a list with a large number numpy makes float64, and ticks fall together.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed & (2**64 - 1), tick], np.uint64)))


def step(state: TunnelState, dt: float) -> TunnelState:
    """The tunnel `dt` seconds later.

    Args:
        dt: seconds, above 0 and at most 1: the transport of air and traffic is explicit.
    """
    random = noise(state.seed, state.tick)
    points, incidents = state.points, aged(state.incidents, dt)
    hour = state.hour
    is_fire = state.safety.is_fire

    road = traffic.step(state.traffic, points, _blockage(state, incidents), hour, dt, random)
    sources = air.Sources(
        vehicles=road.vehicles,
        speed_kmh=road.speed,
        fan_speed=state.fans.speed,
        fire_mw=safety.fire_mw(incidents),
        hour=hour,
    )
    moved = air.step(state.air, sources, dt, random)
    sensors = _read(state.sensors, moved, incidents, random)
    fans = ventilation.step(
        state.fans, points, incidents, need=_need(sensors, points), is_fire=is_fire, air_c=air.WALL_C, dt=dt
    )
    lights = lighting.step(state.lighting, points, hour=hour, is_fire=is_fire, dt=dt, random=random)
    water = drainage.step(state.drainage, points, dt, random)
    return msgspec.structs.replace(
        state,
        tick=state.tick + 1,
        day_s=(state.day_s + dt * DAY_SPEED) % DAY_S,
        incidents=incidents,
        traffic=road,
        air=moved,
        sensors=sensors,
        fans=fans,
        lighting=lights,
        drainage=water,
        power=power.step(state.power, _load_kw(fans, lights, water), dt, random),
        safety=safety.step(state.safety, points, incidents, air_c=moved.temperature, velocity=moved.velocity, dt=dt),
    )


def begin(state: TunnelState, scenario: Scenario, target: int | None = None) -> TunnelState:
    """The tunnel right after `scenario` began; without a target at the usual place.

    `CLEAR` also resets what stays latched in the plant: trips and the fire panel.
    """
    if target is None:
        target = FAN_OF_SCENARIO if scenario is Scenario.FAN_TRIP else SECTION_OF_SCENARIO
    state = msgspec.structs.replace(state, incidents=begun(state.incidents, scenario, target))
    if scenario is not Scenario.CLEAR:
        return state
    fans = msgspec.structs.replace(state.fans, is_tripped=np.zeros(ventilation.FANS, np.bool_))
    calm = safety.initial()
    return msgspec.structs.replace(
        state,
        fans=fans,
        safety=msgspec.structs.replace(state.safety, is_alarm=calm.is_alarm, ceiling_c=calm.ceiling_c),
        air=msgspec.structs.replace(
            state.air,
            co=np.minimum(state.air.co, air.initial().co),
            opacity=np.minimum(state.air.opacity, air.initial().opacity),
            temperature=np.minimum(state.air.temperature, air.initial().temperature),
        ),
    )


def _blockage(state: TunnelState, incidents: Incidents) -> traffic.Blockage:
    return traffic.Blockage(
        burning_section=incidents.fire_section,
        is_exit_slow=incidents.is_jam,
        is_entry_closed=is_barrier_closed(state),
    )


def is_barrier_closed(state: TunnelState) -> bool:
    return state.safety.is_fire or bool(state.points.barrier_close[0])


def _read(before: Sensors, truth: air.Air, incidents: Incidents, random: np.random.Generator) -> Sensors:
    sections = traffic.SECTIONS
    co = np.clip(truth.co + CO_NOISE * random.standard_normal(sections), 0.0, CO_RANGE)
    opacity = np.clip(truth.opacity + OPACITY_NOISE * random.standard_normal(sections), 0.0, OPACITY_RANGE)
    if incidents.frozen_sensor is not None:
        co[incidents.frozen_sensor] = before.co[incidents.frozen_sensor]
    unchanged = np.where(co == before.co, before.unchanged_ticks + 1, 0)
    return Sensors(co=co, opacity=opacity, unchanged_ticks=unchanged)


def _need(sensors: Sensors, points: SetPoints) -> float:
    return float(max(sensors.co.max() / points.co_setpoint[0], sensors.opacity.max() / points.opacity_setpoint[0]))


def _load_kw(fans: ventilation.Fans, lights: lighting.Lighting, water: drainage.Drainage) -> Vector:
    fan_kw = ventilation.power_kw(fans)
    light_kw = lighting.power_kw(lights)
    pump_kw = drainage.PUMP_KW * water.is_running.sum()
    return np.array([fan_kw[:5].sum() + light_kw[:2].sum(), fan_kw[5:].sum() + light_kw[2:].sum() + pump_kw])
