"""The tunnel as processes: ports that answer, scenarios from outside, and nobody left behind."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pymodbus.client import ModbusTcpClient

from albireo.plant.tunnel import Scenario, Tunnel, TunnelError, start_tunnel, start_whole_tunnel
from albireo.plant.tunnel.physics import channels, physics
from albireo.plant.tunnel.plant import TICK_S
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.registers import Register, value_of
from albireo.plant.tunnel.plc.wire import PlcFaults
from albireo.plant.tunnel.processes import begin
from tests.long_form import some
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

TICKS = 30


@pytest.fixture(params=some([start_tunnel, start_whole_tunnel], 2))
def tunnel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tunnel]:
    """In processes of their own, and as one process."""
    with request.param(tmp_path / "site", seed=5) as running:
        yield running


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass in time"
        time.sleep(0.02)


def named(name: str) -> Register:
    return next(one for plc in PLCS.values() for one in plc.registers if one.name == name)


def client_of(tunnel: Tunnel, plc: str) -> ModbusTcpClient:
    return ModbusTcpClient("127.0.0.1", port=tunnel.ports[plc], timeout=PATIENCE_S)


def read(client: ModbusTcpClient, name: str) -> float:
    one = named(name)
    if one.row.kind.is_bits:
        return float(client.read_discrete_inputs(one.address, count=1).bits[0])
    return value_of(client.read_input_registers(one.address, count=one.words).registers, one)


def accepts(port: int) -> bool:
    async def opened() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    return asyncio.run(opened())


def test_both_plcs_show_one_tunnel(tunnel: Tunnel) -> None:
    """A fire is physics: the fans of p1 and the fire panel of p2 answer, p1's set point acts on p2's current."""
    with (
        client_of(tunnel, "p1") as p1,
        client_of(tunnel, "p2") as p2,
    ):
        before = read(p2, "transformer_1_power")
        p1.write_coil(named("vent_auto").address, False)
        p1.write_register(named("vent_stage_set").address, 4)
        until(lambda: read(p1, "fans_running") == 10)
        until(lambda: read(p2, "transformer_1_power") > before + 50)
        tunnel.begin(Scenario.FIRE, 1)
        until(lambda: read(p2, "fire_alarm_2") == 1)
        until(lambda: read(p1, "barrier_closed") == 1)  # One PLC may be a tick behind the other one.


def test_life_signs_count_at_most_ten_times_a_second(tmp_path: Path) -> None:
    """However busy the machine is: what it could not do in time comes later, and nothing ever runs ahead."""
    began = time.monotonic()
    with start_tunnel(tmp_path, seed=5) as tunnel, client_of(tunnel, "p2") as client:
        while (life := read(client, "p2_life")) < 30:
            assert life <= (time.monotonic() - began) / TICK_S + 1


def test_a_plc_goes_off_and_comes_back_on_the_same_port(tunnel: Tunnel) -> None:
    port = tunnel.ports["p1"]
    tunnel.begin(Scenario.PLC_OFF)
    until(lambda: not accepts(port))
    assert accepts(tunnel.ports["p2"])
    tunnel.begin(Scenario.CLEAR)
    until(lambda: accepts(port))


def test_faults_are_set_from_outside(tunnel: Tunnel) -> None:
    with client_of(tunnel, "p1") as client:
        tunnel.set_faults("p1", PlcFaults(exception_code=4))
        until(lambda: client.read_input_registers(0, count=1).isError())
        tunnel.set_faults("p1", PlcFaults())
        until(lambda: not client.read_input_registers(0, count=1).isError())


def test_wrong_places_and_a_missing_tunnel_are_told(tunnel: Tunnel, tmp_path: Path) -> None:
    with pytest.raises(TunnelError, match=r"not within 1\.\.8"):
        tunnel.begin(Scenario.FIRE, 20)
    with pytest.raises(TunnelError, match="albireo demo"):
        begin(tmp_path, Scenario.FIRE)


def test_a_taken_port_is_told_and_nothing_stays(tunnel: Tunnel, tmp_path: Path) -> None:
    before = children()
    assert set(tunnel.pids) <= before
    with pytest.raises(TunnelError, match="ended with"):
        start_tunnel(tmp_path / "second", ports=tunnel.ports)
    assert children() <= before


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_a_whole_tunnel_is_one_process_with_guarded_plcs(tmp_path: Path) -> None:
    with start_whole_tunnel(tmp_path, guarded=["p1"]) as tunnel, client_of(tunnel, "p1") as p1:
        assert len(tunnel.pids) == 1
        assert p1.write_coil(named("vent_auto").address, False).isError(), "a plain write is refused"
        with client_of(tunnel, "p2") as p2:
            assert not p2.write_coil(named("light_auto").address, False).isError()


def test_stop_leaves_no_process(tmp_path: Path) -> None:
    tunnel = start_tunnel(tmp_path)
    pids = tunnel.pids
    tunnel.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    """`kill -9` of whoever started the tunnel closes its pipes, and that ends plant and PLCs."""
    code = (
        "import sys, time, pathlib\n"
        "from albireo.plant.tunnel import start_tunnel\n"
        "tunnel = start_tunnel(pathlib.Path(sys.argv[1]))\n"
        "print(*tunnel.pids, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 3
    os.kill(parent.pid, 9)
    parent.wait()
    parent.stdout.close()
    until(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_tunnel_costs_little(tunnel: Tunnel) -> None:
    """A coarse bound so that nobody makes it ten times dearer unseen; figures stand in docs/demo.md. Processor time
    against that of the physics alone on the same machine, which is a quarter of it."""
    spent_by = [psutil.Process(pid) for pid in tunnel.pids]
    before = [sum(child.cpu_times()[:2]) for child in spent_by]
    with client_of(tunnel, "p1") as client:
        first = read(client, "p1_life")
        until(lambda: read(client, "p1_life") >= first + TICKS)
    spent = sum(sum(child.cpu_times()[:2]) for child in spent_by) - sum(before)
    assert spent < 60 * physics_alone(), f"{spent:.2f} s of processor time for {TICKS} ticks"


def physics_alone() -> float:
    """Processor time of as many ticks, in seconds."""
    began, state = time.process_time(), physics.initial(seed=5)
    for _ in range(TICKS):
        state = physics.step(state, TICK_S)
        for plc in PLCS.values():
            plc.encode(plc.gathered(channels.read(state)))
    return time.process_time() - began
