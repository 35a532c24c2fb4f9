"""The tunnel's physics: deterministic, plausible, quiet in normal running, and worse in every scenario."""

import msgspec
import numpy as np
import pytest

from albireo.field.modbus.items import RegisterType
from albireo.plant.tunnel.physics import channels, lighting, physics, traffic, ventilation
from albireo.plant.tunnel.physics.physics import TunnelState
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.scenario import Scenario
from albireo.plant.tunnel.setpoints import SetPoints, written

DT = 0.1


def after(state: TunnelState, seconds: float, dt: float = DT) -> TunnelState:
    for _ in range(round(seconds / dt)):
        state = physics.step(state, dt)
    return state


def with_point(state: TunnelState, name: str, value: float, index: int = 0) -> TunnelState:
    return msgspec.structs.replace(state, points=written(state.points, name, index, value))


@pytest.fixture(scope="module")
def running() -> TunnelState:
    """The tunnel after a minute of the morning."""
    return after(physics.initial(seed=3), 60)


def test_same_seed_gives_the_same_tunnel_bit_for_bit() -> None:
    first, second = (channels.read(after(physics.initial(seed=9), 5)) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_another_seed_gives_another_tunnel() -> None:
    first, second = (channels.read(after(physics.initial(seed=seed), 5)) for seed in (9, 10))
    assert not np.array_equal(first["co"], second["co"])


def test_instruments_are_noisy_at_every_tick() -> None:
    """Values change ten times a second, as those of real transmitters do."""
    first = physics.initial(seed=9)
    before, after_one = channels.read(first), channels.read(physics.step(first, DT))
    for name in ("voltage", "no2", "loop_speed", "battery_voltage", "cabinet_temperature"):
        assert (before[name] != after_one[name]).all(), name


def test_step_leaves_its_input_alone() -> None:
    state = after(physics.initial(seed=1), 1)
    before = channels.read(state)
    after(physics.begin(state, Scenario.FIRE), 20)
    assert all(np.array_equal(before[name], values) for name, values in channels.read(state).items())


def test_traffic_follows_the_day() -> None:
    assert traffic.demand(7.6) > 1_500 > traffic.demand(13.0) > traffic.demand(3.0)


def test_vehicles_are_neither_made_nor_lost_inside(running: TunnelState) -> None:
    """What went in minus what came out is what is in."""
    road = running.traffic
    blockage = traffic.Blockage(burning_section=None, is_exit_slow=False, is_entry_closed=False)
    later = traffic.step(road, running.points, blockage, 8.0, DT, np.random.default_rng(1))
    crossed = (later.passing[0] - later.passing[-1]) * DT / 3_600
    assert later.vehicles.sum() - road.vehicles.sum() == pytest.approx(crossed, abs=1e-9)


@pytest.mark.slow
def test_more_traffic_makes_worse_air() -> None:
    night, rush = (after(physics.initial(seed=2, hour=hour), 240) for hour in (2.0, 7.5))
    assert rush.air.co.max() > 2 * night.air.co.max()
    assert rush.air.opacity.max() > night.air.opacity.max()


def test_air_gets_worse_towards_the_exit(running: TunnelState) -> None:
    assert running.air.co[-1] > running.air.co[0]


@pytest.mark.slow
def test_more_fans_clear_the_air(running: TunnelState) -> None:
    manual = with_point(running, "vent_auto", 0)
    off = after(with_point(manual, "vent_stage_set", 0), 60)
    full = after(with_point(manual, "vent_stage_set", 4), 60)
    assert full.fans.is_commanded.all()
    assert full.air.velocity > off.air.velocity + 1
    assert full.air.co.max() < off.air.co.max()


def test_a_lower_co_set_point_engages_more_fans(running: TunnelState) -> None:
    strict = after(with_point(running, "co_setpoint", 5), 40)
    assert strict.fans.stage > after(running, 40).fans.stage


def test_a_fan_that_is_not_enabled_stays_off(running: TunnelState) -> None:
    state = with_point(with_point(running, "vent_auto", 0), "vent_stage_set", 4)
    state = after(with_point(state, "fan_enable", 0, index=3), 10)
    assert not state.fans.is_commanded[3]
    assert state.fans.is_commanded.sum() == ventilation.FANS - 1


def test_threshold_lighting_follows_daylight() -> None:
    night, noon = (after(physics.initial(seed=2, hour=hour), 30) for hour in (1.0, 12.5))
    assert noon.lighting.level[0] > 2 * night.lighting.level[0]
    interior = lighting.ZONES.index("interior")
    assert noon.lighting.level[interior] == pytest.approx(night.lighting.level[interior])


def test_manual_lighting_goes_where_it_is_set(running: TunnelState) -> None:
    state = with_point(with_point(running, "light_auto", 0), "light_level_set", 77, index=2)
    assert after(state, 15).lighting.level[2] == pytest.approx(77)


@pytest.mark.slow
def test_pumps_keep_the_sump_between_their_levels() -> None:
    state = physics.initial(seed=4)
    levels, starts_before = [], state.drainage.starts.sum()
    for _ in range(600):
        state = after(state, 1)
        levels.append(state.drainage.level[0])
    assert 0.5 < min(levels) < 0.7
    assert 1.5 < max(levels) < 1.8
    assert state.drainage.starts.sum() > starts_before + 1, "both pumps take turns"


def test_a_pump_in_manual_obeys(running: TunnelState) -> None:
    state = with_point(with_point(running, "pump_auto", 0, index=1), "pump_run", 1, index=1)
    assert after(state, 1).drainage.is_running[1]


def test_a_fire_is_found_and_answered(running: TunnelState) -> None:
    state = after(physics.begin(running, Scenario.FIRE, 4), 40)
    assert state.safety.is_alarm[4]
    assert state.fans.stage == 4
    assert state.lighting.level.min() == pytest.approx(100)
    assert physics.is_barrier_closed(state)
    assert state.traffic.passing[0] == 0
    assert state.safety.is_door_open[3:6].all() and not state.safety.is_door_open[0]
    assert channels.texts(state) == {"sign_text": "FIRE - LEAVE"}
    assert state.air.co.max() > 2 * running.air.co.max()


@pytest.mark.slow
def test_the_fire_panel_holds_its_alarm_until_it_is_reset(running: TunnelState) -> None:
    burning = after(physics.begin(running, Scenario.FIRE), 40)
    out = msgspec.structs.replace(burning, incidents=msgspec.structs.replace(burning.incidents, fire_section=None))
    out = after(out, 60)
    assert out.safety.is_fire
    assert not after(with_point(out, "fire_reset", 1), 1).safety.is_fire


def test_a_failing_fan_shakes_then_trips_and_another_takes_over(running: TunnelState) -> None:
    state = after(with_point(with_point(running, "vent_auto", 0), "vent_stage_set", 1), 15)
    state = physics.begin(state, Scenario.FAN_TRIP, 0)
    shaking = after(state, 2)
    assert channels.read(shaking)["fan_vibration"][0] > 7.1
    tripped = after(shaking, 8)
    assert tripped.fans.is_tripped[0] and not tripped.fans.is_commanded[0]
    assert tripped.fans.is_commanded.sum() == 3
    assert channels.read(tripped)["fan_current"][0] == 0


def test_a_reset_fan_trips_again_while_its_bearing_is_bad(running: TunnelState) -> None:
    tripped = after(physics.begin(running, Scenario.FAN_TRIP, 0), 5)
    held = after(with_point(tripped, "fan_reset", 1), 1)
    assert held.fans.is_tripped[0]
    healed = physics.begin(held, Scenario.CLEAR)
    assert not after(healed, 1).fans.is_tripped.any()


def test_a_frozen_sensor_repeats_and_is_called_stuck(running: TunnelState) -> None:
    state = physics.begin(running, Scenario.SENSOR_FROZEN, 2)
    shown = state.sensors.co[2]
    state = after(state, 10)
    assert state.sensors.co[2] == shown
    assert channels.read(state)["co_stuck"].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.slow
def test_a_jam_queues_from_the_exit_and_drives_the_fans(running: TunnelState) -> None:
    state = after(physics.begin(running, Scenario.JAM), 20)
    assert channels.read(state)["queue"][-1] == 1
    assert channels.read(state)["queue"][0] == 0
    state = after(state, 300)
    assert state.traffic.vehicles.sum() > 150
    assert state.fans.stage >= 3
    assert state.traffic.density.max() <= traffic.JAM_DENSITY


def test_clear_ends_everything(running: TunnelState) -> None:
    state = running
    for scenario in (Scenario.FIRE, Scenario.FAN_TRIP, Scenario.JAM, Scenario.SENSOR_FROZEN):
        state = physics.begin(state, scenario)
    state = after(physics.begin(after(state, 40), Scenario.CLEAR), 1)
    shown = channels.read(state)
    assert not any(shown[name].any() for name in ("fire_alarm", "fan_trip", "co_stuck", "fire_mode"))


@pytest.mark.slow
def test_a_long_jam_with_a_fire_stays_finite(running: TunnelState) -> None:
    """The explicit scheme does not blow up where everything happens at once."""
    state = physics.begin(physics.begin(running, Scenario.JAM), Scenario.FIRE)
    state = after(with_point(state, "speed_limit", 100), 300)
    shown = channels.read(state)
    assert all(np.isfinite(values).all() for values in shown.values())
    assert state.traffic.density.min() >= 0


@pytest.mark.slow
def test_an_hour_of_normal_running_raises_no_limit_alarm() -> None:
    """Goal: quiet when nothing is wrong. Method: every limit of the register map, judged each second."""
    state = physics.initial(seed=5)
    limited = [
        one
        for plc in PLCS.values()
        for one in plc.live
        if one.alarm is not None and one.row.type is not RegisterType.BOOL
    ]
    switches = [
        one for plc in PLCS.values() for one in plc.live if one.alarm is not None and one.row.type is RegisterType.BOOL
    ]
    by_name = {one.name: one for plc in PLCS.values() for one in plc.live}
    for _ in range(3_600):
        state = after(state, 1, dt=0.5)
        shown = channels.read(state)

        def value(name: str, shown: channels.Channels = shown) -> float:
            return float(shown[by_name[name].row.channel][by_name[name].index])

        for one in limited:
            assert one.alarm is not None
            if one.alarm.suppressed_by and value(one.alarm.suppressed_by):
                continue
            low = one.alarm.lo if one.alarm.lo is not None else -np.inf
            high = one.alarm.hi if one.alarm.hi is not None else np.inf
            assert low < value(one.name) < high, f"{one.name} at tick {state.tick}"
        for one in switches:
            assert one.alarm is not None
            assert bool(value(one.name)) != one.alarm.off_normal, f"{one.name} at tick {state.tick}"


def test_every_channel_of_the_register_map_exists() -> None:
    shown = channels.read(physics.initial(seed=1))
    for plc in PLCS.values():
        for one in plc.live:
            assert one.index < len(shown[one.row.channel]), one.name
        for one in plc.writable:
            assert one.index < len(getattr(SetPoints(), one.row.channel)), one.name


def test_unknown_set_points_are_refused() -> None:
    with pytest.raises(KeyError):
        written(SetPoints(), "no_such", 0, 1.0)
