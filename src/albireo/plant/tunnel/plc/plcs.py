"""The two PLCs of the tunnel: their register tables, 400 items in total.

Limits: CO and visibility after the order of PIARC's figures, vibration after the zones of ISO 20816 for small
machines; delays and hysteresis so that a running tunnel is quiet (a test runs it for an hour).
"""

# ruff: noqa: E501  # A register table is read line by line, like the CSV it becomes.

from typing import Final

from albireo.field.modbus.items import RegisterType, TableKind
from albireo.model.item import AlarmSettings, Control
from albireo.plant.tunnel.physics.drainage import PUMPS, SUMPS
from albireo.plant.tunnel.physics.lighting import ZONES
from albireo.plant.tunnel.physics.safety import HYDRANTS
from albireo.plant.tunnel.physics.traffic import LOOP_SECTIONS, SECTIONS
from albireo.plant.tunnel.physics.ventilation import FANS
from albireo.plant.tunnel.plc.registers import ItemGroup, RegisterMap

LOOPS: Final = len(LOOP_SECTIONS)

_INPUT, _HOLDING, _COIL, _DISCRETE = TableKind.INPUT, TableKind.HOLDING, TableKind.COIL, TableKind.DISCRETE
_PHASES: Final = ("1_l1", "1_l2", "1_l3", "2_l1", "2_l2", "2_l3")


def _switch(severity: int, *, latched: bool = False, is_bad: bool = True, delay_ms: int = 0) -> AlarmSettings:
    return AlarmSettings(off_normal=is_bad, severity=severity, is_latched=latched, on_delay_ms=delay_ms)


# fmt: off
_CO = AlarmSettings(hi=40, hi_hi=70, hysteresis=3, on_delay_ms=2000, off_delay_ms=5000, severity=600)
_OPACITY = AlarmSettings(hi=7, hi_hi=12, hysteresis=0.5, on_delay_ms=2000, off_delay_ms=5000, severity=650)
_AIR_TEMPERATURE = AlarmSettings(hi=45, hysteresis=2, on_delay_ms=2000, severity=500)
_VIBRATION = AlarmSettings(hi=4.5, hi_hi=7.1, hysteresis=0.3, on_delay_ms=500, severity=550, suppressed_by="fan_{n}_off")
_SLOW = AlarmSettings(lo=20, hysteresis=5, on_delay_ms=5000, off_delay_ms=5000, severity=300, suppressed_by="barrier_closed")
_CEILING = AlarmSettings(hi=50, hi_hi=70, hysteresis=3, on_delay_ms=500, severity=800)
_SUMP = AlarmSettings(lo=0.2, hi=2.2, hi_hi=2.6, hysteresis=0.1, on_delay_ms=2000, severity=500)

P1_ROWS: Final = (
    ItemGroup(name="co_{n}", channel="co", count=SECTIONS, kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="ppm", alarm=_CO, dead_band=0.1, description="Carbon monoxide in the section"),
    ItemGroup(name="opacity_{n}", channel="opacity", count=SECTIONS, kind=_INPUT, type=RegisterType.FLOAT32, unit="1/km", alarm=_OPACITY, dead_band=0.01, description="Extinction coefficient (inverse of visibility)"),
    ItemGroup(name="no2_{n}", channel="no2", count=SECTIONS, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="ppb", dead_band=0.5, description="Nitrogen dioxide in the section"),
    ItemGroup(name="air_temperature_{n}", channel="air_temperature", count=SECTIONS, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", alarm=_AIR_TEMPERATURE, description="Air temperature in the section"),
    ItemGroup(name="humidity_{n}", channel="humidity", count=SECTIONS, kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="%", dead_band=0.5, description="Relative humidity in the section"),
    ItemGroup(name="air_velocity_{n}", channel="air_velocity", count=4, kind=_INPUT, type=RegisterType.INT16, scale=0.01, unit="m/s", description="Air velocity, positive in driving direction"),
    ItemGroup(name="fan_{n}_speed", channel="fan_speed", count=FANS, kind=_INPUT, type=RegisterType.UINT16, unit="rpm", description="Speed of the jet fan"),
    ItemGroup(name="fan_{n}_current", channel="fan_current", count=FANS, kind=_INPUT, type=RegisterType.FLOAT32, unit="A", dead_band=0.1, description="Motor current"),
    ItemGroup(name="fan_{n}_power", channel="fan_power", count=FANS, kind=_INPUT, type=RegisterType.FLOAT32, word_order="little", unit="kW", description="Active power"),
    ItemGroup(name="fan_{n}_vibration", channel="fan_vibration", count=FANS, kind=_INPUT, type=RegisterType.UINT16, scale=0.01, unit="mm/s", alarm=_VIBRATION, description="Vibration velocity, effective"),
    ItemGroup(name="fan_{n}_bearing", channel="fan_bearing", count=FANS, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", alarm=AlarmSettings(hi=80, hysteresis=3, on_delay_ms=5000, severity=500), description="Bearing temperature"),
    ItemGroup(name="fan_{n}_runtime", channel="fan_runtime", count=FANS, kind=_INPUT, type=RegisterType.UINT32, scale=0.01, unit="h", description="Hours run"),
    ItemGroup(name="fan_{n}_starts", channel="fan_starts", count=FANS, kind=_INPUT, type=RegisterType.UINT16, description="Starts"),
    ItemGroup(name="vent_stage", channel="vent_stage", kind=_INPUT, type=RegisterType.INT16, states="0=off;1=low;2=medium;3=high;4=full", description="Engaged stage of the ventilation, 0..4"),
    ItemGroup(name="vent_need", channel="vent_need", kind=_INPUT, type=RegisterType.FLOAT32, unit="%", description="Worst air quality as a share of its set point"),
    ItemGroup(name="fans_running", channel="fans_running", kind=_INPUT, type=RegisterType.UINT16, description="Fans switched on"),
    ItemGroup(name="loop_{n}_flow", channel="loop_flow", count=LOOPS, kind=_INPUT, type=RegisterType.FLOAT32, unit="1/h", dead_band=1, description="Vehicles per hour"),
    ItemGroup(name="loop_{n}_speed", channel="loop_speed", count=LOOPS, kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="km/h", alarm=_SLOW, description="Mean speed at the loop"),
    ItemGroup(name="loop_{n}_occupancy", channel="loop_occupancy", count=LOOPS, kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="%", description="Share of time the loop is covered"),
    ItemGroup(name="loop_{n}_count", channel="loop_count", count=LOOPS, kind=_INPUT, type=RegisterType.UINT32, description="Vehicles since the start"),
    ItemGroup(name="vehicles_{n}", channel="vehicles", count=SECTIONS, kind=_INPUT, type=RegisterType.UINT16, description="Vehicles in the section"),
    ItemGroup(name="vehicles_inside", channel="vehicles_inside", kind=_INPUT, type=RegisterType.UINT16, description="Vehicles in the tunnel"),
    ItemGroup(name="vehicles_waiting", channel="vehicles_waiting", kind=_INPUT, type=RegisterType.UINT16, description="Vehicles before the entrance"),
    ItemGroup(name="vehicles_total", channel="vehicles_total", kind=_INPUT, type=RegisterType.UINT64, description="Vehicles that came in since the start"),
    ItemGroup(name="outside_temperature", channel="outside_temperature", kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", description="Air outside"),
    ItemGroup(name="outside_pressure", channel="outside_pressure", kind=_INPUT, type=RegisterType.FLOAT64, unit="Pa", dead_band=1, description="Barometric pressure"),
    ItemGroup(name="wind_speed", channel="wind_speed", kind=_INPUT, type=RegisterType.FLOAT32, unit="m/s", description="Wind at the entrance"),
    ItemGroup(name="p1_life", channel="life", kind=_INPUT, type=RegisterType.UINT16, description="Life sign: counts the cycles of the program"),
    ItemGroup(name="p1_uptime", channel="uptime_ms", kind=_INPUT, type=RegisterType.INT64, unit="ms", dead_band=1000, description="Time since the PLC started"),
    ItemGroup(name="p1_cycle", channel="cycle_ms", kind=_INPUT, type=RegisterType.FLOAT32, unit="ms", alarm=AlarmSettings(hi=50, on_delay_ms=1000, severity=300), description="Cycle time of the program"),
    ItemGroup(name="sign_text", channel="sign_text", kind=_INPUT, type=RegisterType.STRING, description="Message sign over the entrance"),

    ItemGroup(name="co_{n}_stuck", channel="co_stuck", count=SECTIONS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(400), description="The CO sensor repeats one value"),
    ItemGroup(name="fan_{n}_running", channel="fan_running", count=FANS, kind=_DISCRETE, type=RegisterType.BOOL, states="0=stands;1=runs", description="Contactor closed"),
    ItemGroup(name="fan_{n}_off", channel="fan_off", count=FANS, kind=_DISCRETE, type=RegisterType.BOOL, description="Not (yet) at speed: its limits mean nothing"),
    ItemGroup(name="fan_{n}_trip", channel="fan_trip", count=FANS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(700, latched=True), states="0=ready;1=tripped", description="Motor protection has tripped"),
    ItemGroup(name="queue_{n}", channel="queue", count=SECTIONS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(350, delay_ms=2000), description="Slow and dense traffic in the section"),
    ItemGroup(name="barrier_closed", channel="barrier_closed", kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(250), states="0=open;1=closed", description="The entrance is closed"),

    ItemGroup(name="vent_auto", channel="vent_auto", kind=_COIL, type=RegisterType.BOOL, is_writable=True, states="0=manual;1=automatic", description="Ventilation follows air quality"),
    ItemGroup(name="fan_{n}_enable", channel="fan_enable", count=FANS, kind=_COIL, type=RegisterType.BOOL, is_writable=True, states="0=locked;1=enabled", description="The control may use this fan"),
    ItemGroup(name="fan_reset", channel="fan_reset", kind=_COIL, type=RegisterType.BOOL, is_writable=True, description="Resets tripped motor protections; falls back by itself"),
    ItemGroup(name="barrier_close", channel="barrier_close", kind=_COIL, type=RegisterType.BOOL, is_writable=True, control=Control.SELECT, states="0=open;1=closed", description="Closes the entrance"),

    ItemGroup(name="vent_stage_set", channel="vent_stage_set", kind=_HOLDING, type=RegisterType.INT16, is_writable=True, minimum=0, maximum=4, states="0=off;1=low;2=medium;3=high;4=full", description="Stage in manual"),
    ItemGroup(name="co_setpoint", channel="co_setpoint", kind=_HOLDING, type=RegisterType.FLOAT32, unit="ppm", is_writable=True, minimum=5, maximum=100, description="CO at which the ventilation is fully engaged"),
    ItemGroup(name="opacity_setpoint", channel="opacity_setpoint", kind=_HOLDING, type=RegisterType.FLOAT32, word_order="little", unit="1/km", is_writable=True, minimum=1, maximum=12, description="Extinction at which the ventilation is fully engaged"),
    ItemGroup(name="speed_limit", channel="speed_limit", kind=_HOLDING, type=RegisterType.UINT16, unit="km/h", is_writable=True, minimum=30, maximum=100, description="Speed limit on the signs"),
    ItemGroup(name="p1_name", channel="", text="TUNNEL-P1 R2.4", kind=_HOLDING, type=RegisterType.STRING, description="Name and release of the program"),
)

P2_ROWS: Final = (
    ItemGroup(name="light_{n}_level", channel="light_level", members=ZONES, kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="%", description="Dimming of the zone"),
    ItemGroup(name="light_{n}_luminance", channel="light_luminance", members=ZONES, kind=_INPUT, type=RegisterType.FLOAT32, unit="cd/m²", dead_band=0.05, description="Luminance of the road"),
    ItemGroup(name="light_{n}_power", channel="light_power", members=ZONES, kind=_INPUT, type=RegisterType.FLOAT32, word_order="little", unit="kW", description="Power of the zone"),
    ItemGroup(name="light_{n}_failed", channel="lamps_failed", members=ZONES, kind=_INPUT, type=RegisterType.UINT16, alarm=AlarmSettings(hi=10, severity=200), description="Failed lamps"),
    ItemGroup(name="light_{n}_hours", channel="lamp_hours", members=ZONES, kind=_INPUT, type=RegisterType.UINT32, scale=0.1, unit="h", description="Hours since the last exchange"),
    ItemGroup(name="portal_luminance_{n}", channel="portal_luminance", count=2, kind=_INPUT, type=RegisterType.FLOAT32, unit="cd/m²", dead_band=1, description="L20 before the portal"),
    ItemGroup(name="sump_{n}_level", channel="sump_level", count=SUMPS, kind=_INPUT, type=RegisterType.FLOAT32, unit="m", alarm=_SUMP, dead_band=0.002, description="Water level"),
    ItemGroup(name="sump_{n}_inflow", channel="sump_inflow", count=SUMPS, kind=_INPUT, type=RegisterType.FLOAT32, unit="m³/h", description="Inflow"),
    ItemGroup(name="pump_{n}_flow", channel="pump_flow", count=PUMPS, kind=_INPUT, type=RegisterType.FLOAT32, unit="m³/h", description="Delivered"),
    ItemGroup(name="pump_{n}_current", channel="pump_current", count=PUMPS, kind=_INPUT, type=RegisterType.UINT16, scale=0.01, unit="A", description="Motor current"),
    ItemGroup(name="pump_{n}_starts", channel="pump_starts", count=PUMPS, kind=_INPUT, type=RegisterType.UINT32, description="Starts"),
    ItemGroup(name="pump_{n}_runtime", channel="pump_runtime", count=PUMPS, kind=_INPUT, type=RegisterType.FLOAT64, unit="h", dead_band=0.001, description="Hours run"),
    ItemGroup(name="voltage_{n}", channel="voltage", members=_PHASES, kind=_INPUT, type=RegisterType.FLOAT32, unit="V", alarm=AlarmSettings(lo=207, hi=253, hysteresis=2, on_delay_ms=1000, severity=400), dead_band=0.05, description="Phase voltage"),
    ItemGroup(name="current_{n}", channel="current", members=_PHASES, kind=_INPUT, type=RegisterType.FLOAT32, unit="A", dead_band=0.1, description="Phase current"),
    ItemGroup(name="transformer_{n}_power", channel="active_power", count=2, kind=_INPUT, type=RegisterType.FLOAT32, unit="kW", dead_band=0.05, description="Active power"),
    ItemGroup(name="transformer_{n}_reactive", channel="reactive_power", count=2, kind=_INPUT, type=RegisterType.INT32, scale=0.001, unit="kvar", dead_band=0.05, description="Reactive power"),
    ItemGroup(name="transformer_{n}_cos_phi", channel="power_factor", count=2, kind=_INPUT, type=RegisterType.INT16, scale=0.001, alarm=AlarmSettings(lo=0.8, hysteresis=0.02, on_delay_ms=10000, severity=200), description="Power factor"),
    ItemGroup(name="transformer_{n}_energy", channel="energy", count=2, kind=_INPUT, type=RegisterType.FLOAT64, unit="kWh", dead_band=0.01, description="Active energy"),
    ItemGroup(name="transformer_{n}_oil", channel="oil_temperature", count=2, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", alarm=AlarmSettings(hi=85, hi_hi=95, hysteresis=2, on_delay_ms=5000, severity=600), description="Oil temperature"),
    ItemGroup(name="grid_frequency", channel="grid_frequency", kind=_INPUT, type=RegisterType.FLOAT32, unit="Hz", alarm=AlarmSettings(lo=49.5, hi=50.5, hysteresis=0.05, on_delay_ms=1000, severity=400), dead_band=0.001, description="Frequency of the supply"),
    ItemGroup(name="battery_charge", channel="battery_charge", kind=_INPUT, type=RegisterType.UINT16, scale=0.1, unit="%", dead_band=0.1, alarm=AlarmSettings(lo_lo=20, lo=50, hysteresis=2, severity=600), description="Charge of the battery"),
    ItemGroup(name="battery_voltage", channel="battery_voltage", kind=_INPUT, type=RegisterType.UINT16, scale=0.01, unit="V", description="Voltage of the battery"),
    ItemGroup(name="ceiling_temperature_{n}", channel="ceiling_temperature", count=SECTIONS, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", alarm=_CEILING, description="Linear heat sensor"),
    ItemGroup(name="smoke_{n}", channel="smoke", count=SECTIONS, kind=_INPUT, type=RegisterType.UINT16, scale=0.001, unit="%/m", alarm=AlarmSettings(hi=0.5, hysteresis=0.05, on_delay_ms=1000, severity=700), description="Smoke"),
    ItemGroup(name="hydrant_{n}_pressure", channel="hydrant_pressure", count=HYDRANTS, kind=_INPUT, type=RegisterType.UINT16, scale=0.01, unit="bar", alarm=AlarmSettings(lo=7, hysteresis=0.2, on_delay_ms=1000, severity=400), description="Pressure in the fire main"),
    ItemGroup(name="p2_life", channel="life", kind=_INPUT, type=RegisterType.UINT16, description="Life sign: counts the cycles of the program"),
    ItemGroup(name="day_time", channel="day_time", kind=_INPUT, type=RegisterType.FLOAT64, unit="h", dead_band=0.01, description="Time in the tunnel's own, faster day"),
    ItemGroup(name="p2_cycle", channel="cycle_ms", kind=_INPUT, type=RegisterType.FLOAT32, unit="ms", alarm=AlarmSettings(hi=50, on_delay_ms=1000, severity=300), description="Cycle time of the program"),
    ItemGroup(name="cabinet_{n}_temperature", channel="cabinet_temperature", count=4, kind=_INPUT, type=RegisterType.INT16, scale=0.1, unit="°C", alarm=AlarmSettings(hi=45, hysteresis=2, on_delay_ms=5000, severity=300), description="Control cabinet"),
    ItemGroup(name="cabinet_{n}_door", channel="cabinet_door_open", count=4, kind=_INPUT, type=RegisterType.BOOL, alarm=_switch(100), states="0=closed;1=open", description="Door of the control cabinet open; one status word"),

    ItemGroup(name="sump_{n}_high", channel="sump_high", count=SUMPS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(600, delay_ms=1000), description="Float switch above the pumps' levels"),
    ItemGroup(name="pump_{n}_running", channel="pump_running", count=PUMPS, kind=_DISCRETE, type=RegisterType.BOOL, states="0=stands;1=runs", description="Contactor closed"),
    ItemGroup(name="pump_{n}_trip", channel="pump_trip", count=PUMPS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(600, latched=True), states="0=ready;1=tripped", description="Motor protection has tripped"),
    ItemGroup(name="breaker_{n}_closed", channel="breaker_closed", count=2, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(750, is_bad=False), states="0=open;1=closed", description="Breaker of the transformer"),
    ItemGroup(name="on_battery", channel="on_battery", kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(500), description="The battery carries the load"),
    ItemGroup(name="fire_alarm_{n}", channel="fire_alarm", count=SECTIONS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(950, latched=True), description="Fire panel: heat detector of the section"),
    ItemGroup(name="fire_mode", channel="fire_mode", kind=_DISCRETE, type=RegisterType.BOOL, states="0=normal;1=fire programme", description="Fire programme: full ventilation and light, entrance closed"),
    ItemGroup(name="door_{n}_open", channel="door_open", count=SECTIONS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(300), states="0=closed;1=open", description="Emergency exit"),
    ItemGroup(name="phone_{n}_lifted", channel="phone_lifted", count=SECTIONS, kind=_DISCRETE, type=RegisterType.BOOL, alarm=_switch(450), states="0=hung up;1=lifted", description="Emergency phone"),
    ItemGroup(name="hydrant_pump", channel="hydrant_pump", kind=_DISCRETE, type=RegisterType.BOOL, states="0=stands;1=runs", description="Pressure pump of the fire main runs"),

    ItemGroup(name="light_auto", channel="light_auto", kind=_COIL, type=RegisterType.BOOL, is_writable=True, states="0=manual;1=automatic", description="Lighting follows daylight"),
    ItemGroup(name="pump_{n}_auto", channel="pump_auto", count=PUMPS, kind=_COIL, type=RegisterType.BOOL, is_writable=True, states="0=manual;1=automatic", description="The pump follows the sump level"),
    ItemGroup(name="pump_{n}_run", channel="pump_run", count=PUMPS, kind=_COIL, type=RegisterType.BOOL, is_writable=True, states="0=stop;1=run", description="Runs the pump in manual"),
    ItemGroup(name="fire_reset", channel="fire_reset", kind=_COIL, type=RegisterType.BOOL, is_writable=True, description="Resets the fire panel; falls back by itself"),

    ItemGroup(name="light_{n}_set", channel="light_level_set", members=ZONES, kind=_HOLDING, type=RegisterType.UINT16, unit="%", is_writable=True, minimum=0, maximum=100, description="Dimming in manual"),
    ItemGroup(name="sump_{n}_start", channel="sump_start_level", count=SUMPS, kind=_HOLDING, type=RegisterType.FLOAT32, unit="m", is_writable=True, minimum=0.8, maximum=2.2, description="Level at which the first pump starts"),
    ItemGroup(name="sump_{n}_stop", channel="sump_stop_level", count=SUMPS, kind=_HOLDING, type=RegisterType.FLOAT32, word_order="little", unit="m", is_writable=True, minimum=0.2, maximum=0.7, description="Level at which the pumps stop"),
    ItemGroup(name="p2_name", channel="", text="TUNNEL-P2 R2.4", kind=_HOLDING, type=RegisterType.STRING, description="Name and release of the program"),
)
# fmt: on

PLCS: Final = {"p1": RegisterMap(P1_ROWS), "p2": RegisterMap(P2_ROWS)}
"""Register maps by the name of the adapter that reads them."""
MOMENTARY: Final = frozenset({"fan_reset", "fire_reset"})
"""Coils that the PLC takes back after MOMENTARY_S: long enough for a read-back."""
MOMENTARY_S: Final = 2.0
