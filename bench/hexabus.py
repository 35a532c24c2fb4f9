"""Hexabus: a house of thirty device processes on real IPv6 multicast, below one node and below a pair.

Devices, members and this program share the cores of the machine. It needs root, for network namespaces.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from albireo.codec.hexabus.house import House
from albireo.codec.hexabus.program import decode_program
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.drill.fault.network import NetworkGround
from albireo.drill.house.house import HOUSE
from albireo.machine.hexabus import Machine, at, when
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.vm import SmEvent, SmMachine, Step
from albireo.plant.house import DEVICES
from albireo.plant.house.house import house
from albireo.runtime.clock import boot_ns
from bench import Case, Progress, Result, case, median, result
from bench._house import HouseSite, running_house, until

PRESSES: Final = 60
EVENTS: Final = 640
FLOOR_ROUNDS: Final = 500
VM_RUNS: Final = 3_000
_SENSORS: Final = [one for one in DEVICES if not one.endpoints[0].is_writable][:10]
_ROOMS: Final = [one for one in _SENSORS if one.name.startswith("room_")]


def run(progress: Progress) -> Result:
    cases = [_vm()]
    if objection := NetworkGround.objection():
        progress(f"the network is left out: {objection}")
        return result("hexabus", cases)
    with tempfile.TemporaryDirectory() as scratch:
        progress("one node")
        with running_house(Path(scratch) / "lone", is_pair=False) as site:
            site.take(house())
            alone = _latencies(site)
            cases.append(case("event to the last of 30 actors, one node, p50", "ms", median(alone), goal="<= 25"))
            cases += _rates(site, progress)
        progress("a pair")
        with running_house(Path(scratch) / "pair", is_pair=True) as site:
            site.take(house())
            paired = _latencies(site)
            cases.append(
                case("event to the last of 30 actors, pair beside one node, p50", "ms", median(paired), median(alone))
            )
        progress("one node, 10 % loss each way")
        with running_house(Path(scratch) / "loss", is_pair=False, loss=0.1) as site:
            site.take(house())
            lossy = sorted(_latencies(site))
            p99 = lossy[int(0.99 * (len(lossy) - 1))]
            goal = "<= 10"
            cases.append(
                case("10 % loss: event to the last actor, p99 beside p50 without loss", "ms", p99, median(alone), goal)
            )
    return result("hexabus", cases)


def _vm() -> Case:
    """Operations of the byte-code machine, beside a loop over functions that each take and give a number."""
    program = decode_program(compiled(house(), "lamp_1"))
    assert program is not None
    machine = SmMachine(program, lambda _, __: None)
    (button,) = (one for one in house().devices.values() if one.origin == house().devices["button_1"].origin)
    event = SmEvent(button.origin, 4, HexValue(HexType.UINT8, 1))
    counted = _counted(SmMachine(program, lambda _, __: None), event)
    functions: list[Callable[[int], int]] = [lambda value: value + 1] * counted
    rates: list[float] = []
    floors: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(VM_RUNS):
            machine.run(event, 0)
        rates.append(VM_RUNS * counted / (time.perf_counter() - began))
        began, value = time.perf_counter(), 0
        for _ in range(VM_RUNS):
            for function in functions:
                value = function(value)
        floors.append(VM_RUNS * counted / (time.perf_counter() - began))
    return case("operations of the byte-code machine", "1/s", median(rates), median(floors), ">= 0.3")


def _counted(machine: SmMachine, event: SmEvent) -> int:
    """Operations of one run behind the first one."""
    machine.run(event, 0)
    count = 0

    def counting(work: Step) -> Step:
        function, argument, following = work

        def step(own: SmMachine, told: object) -> int | None:
            nonlocal count
            count += 1
            return function(own, told)

        return step, argument, following

    machine._steps = [counting(one) for one in machine._steps]
    machine.run(event, 0)
    return count


def _latencies(site: HouseSite) -> list[float]:
    """From an event at a sensor to the last action of any device, one event at a time, ms."""
    found = []
    acted = {name: one.acted for name, one in site.devices.look().items()}
    for number in range(PRESSES):
        room = _ROOMS[number % len(_ROOMS)]
        began = boot_ns()
        site.devices.tell(room.name, room.endpoints[0].eid, 21.0 + number / 100)
        while True:
            looks = site.devices.look()
            if all(one.acted > acted[name] for name, one in looks.items()):
                break
        acted = {name: one.acted for name, one in looks.items()}
        found.append((max(one.last_ns for one in looks.values()) - began) / 1e6)
    return found


def _rates(site: HouseSite, progress: Progress) -> list[Case]:
    site.take(_houses(ordered=True))
    ordered, cpu_s = _rate(site)
    floor_s = _floor(site)
    site.take(_houses(ordered=False))
    independent, _ = _rate(site)
    progress(f"{ordered:.0f} ordered, {independent:.0f} independent events a second")
    return [
        case("ordered events to 30 devices", "1/s", ordered, goal=">= 300"),
        case("CPU of the adapter, beside a loop that sends one and takes 30", "us", cpu_s * 1e6, floor_s * 1e6, "<= 2"),
        case("independent events beside ordered ones", "1/s", independent, ordered, ">= 2"),
    ]  # fmt: skip


def _houses(*, ordered: bool) -> House:
    """A machine for each sensor, all of one class or each of its own."""
    whole, machines = house(), []
    lamps = [one.name for one in DEVICES if one.name not in {sensor.name for sensor in _SENSORS}]
    for number, one in enumerate(_SENSORS):
        made, lamp = Machine(one.name, state="off"), lamps[0 if ordered else number % len(lamps)]
        made.on("off", when(one.name, one.endpoints[0].name) == 1, at(lamp).write("relay", True), go="on")
        made.on("on", when(one.name, one.endpoints[0].name) == 0, at(lamp).write("relay", False), go="off")
        machines.append(made)
    return House(whole.devices, machines, whole.master)


def _rate(site: HouseSite) -> tuple[float, float]:
    """Events a second, told as fast as sensors have room for them, until all have acted; and CPU of each, s."""
    before = {name: one.acted for name, one in site.devices.look().items()}
    (adapter,) = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"][-1:] == [f"comm.{HOUSE}"]]
    used = sum(adapter.cpu_times()[:2])
    began = time.monotonic()
    for number in range(EVENTS):
        one = _SENSORS[number % len(_SENSORS)]
        value = number // len(_SENSORS) % 2
        endpoint = one.endpoints[0]
        site.devices.tell(one.name, endpoint.eid, float(value) if endpoint.datatype is HexType.FLOAT else value)
    until(lambda: all(one.acted - before[name] >= EVENTS for name, one in site.devices.look().items()))
    return EVENTS / (time.monotonic() - began), (sum(adapter.cpu_times()[:2]) - used) / EVENTS


_PEER: Final = """
import socket, struct, sys
def made(port):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("eth0")); one.bind(("::", port))
    return one
if sys.argv[1] == "peer":
    own = made(61700)
    group = socket.inet_pton(socket.AF_INET6, "ff05::206") + struct.pack("@I", socket.if_nametoindex("eth0"))
    own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
    print("ready", flush=True)
    while True:
        data, source = own.recvfrom(2048)
        for _ in range(30): own.sendto(data[:10], source)
import time
own = made(0); rounds = int(sys.argv[2]); own.settimeout(1.0); began = time.process_time()
for _ in range(rounds):
    own.sendto(bytes(30), ("ff05::206", 61700))
    for _ in range(30): own.recvfrom(2048)
print((time.process_time() - began) / rounds)
"""


def _floor(site: HouseSite) -> float:
    """CPU of a loop that sends one datagram to a group and takes thirty answers, s."""
    command = [*site.within, sys.executable, "-c", _PEER]
    with subprocess.Popen([*command, "peer"], stdout=subprocess.PIPE, text=True) as peer:
        try:
            assert peer.stdout is not None and peer.stdout.readline() == "ready\n"
            told = subprocess.run([*command, "loop", str(FLOOR_ROUNDS)], capture_output=True, text=True, check=True)
        finally:
            peer.kill()
    return float(told.stdout)
