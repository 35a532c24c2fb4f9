"""The drill: a house below a pair, all in network namespaces on one bridge; people press buttons, a member is killed.

    primary .2 ---+--- bridge ---+--- house: fd00::10 .. fd00::2d, one process for each device
    backup  .3 ---+              +--- w1, w2, w3
    fd00::1 is at whoever leads

At the end everything comes to rest, and three accounts are held against each other: what devices were told to tell and
had acknowledged, what stands in the journal, and what state each device is in.
"""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import psutil

from albireo.client import Client, NodeRefused, connect
from albireo.codec.hexabus.house import encode_house
from albireo.codec.hexabus.journal import BY_HAND, EventTaken, HouseTaken, JournalRecord, decode_record, encode_record
from albireo.codec.hexabus.values import HexType
from albireo.drill.fault.network import NetworkGround
from albireo.drill.ground import DrillError, run_tool
from albireo.drill.pair import Pair
from albireo.field.journal import JOURNAL_PREFIX
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.silent import SilentMachine
from albireo.model.instant import Instant
from albireo.plant.house import DEVICES, HouseProcesses, item_table
from albireo.plant.house.device import BadNetwork, DeviceLook
from albireo.plant.house.house import LIT_S, OFF, ON, house
from albireo.runtime.clock import boot_ns

HOUSE: Final = "house"
MASTER: Final = "fd00::1"
EVENTS_MIN: Final = 3.5
"""Events that are taken in a second, at least; at 20 % loss and with one takeover."""
EVERY_S: Final = 0.15
"""Mean time between two events."""
JOINED_S: Final = 120.0
REST_S: Final = 60.0
QUIET_S: Final = LIT_S + 2.0
"""Time without anything new, longer than any machine waits."""
AUDITOR: Final = "drill.auditor"
_HOSTS: Final = {one.host: one.name for one in DEVICES}


class HouseAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the drill; the JSON line."""

    seconds: float
    loss: float
    events: int
    """Events in the journal, those of time left out."""
    pressed: int
    """Things that happened at devices."""
    not_taken: int
    """Those of them that stand in no journal: the device gave up, or had begun anew."""
    events_lost: int
    """Acknowledged, and in no journal."""
    events_doubled: int
    disagreements: int
    """Devices whose machines are in another state than the master's, or whose output is another one."""
    lights: int
    """Times that a lamp was switched."""
    thermostats: int
    """Times that a heater was switched."""
    takeovers: int
    restarts: int
    """Times that the adapter alone was killed."""
    takeover_s: float | None
    """From the kill to the next event that stands in the journal."""
    recovered: int
    """Times that a device began anew."""
    held: bool


class HouseDrill:
    """One house, one pair."""

    def __init__(
        self,
        directory: Path,
        tell: Callable[[str], object],
        *,
        loss: float = 0.2,
        seed: int = 1,
        kills: int = 1,
        beside: Callable[[Pair], None] = lambda _: None,
    ) -> None:
        """
        Args:
            tell: takes lines for people.
            beside: what else happens to the pair, in a thread of its own, while people press buttons.
        """
        self._ground = NetworkGround(directory, more=[HOUSE])
        self._directory = directory
        self._tell = tell
        self._loss = loss
        self._kills = kills
        self._beside = beside
        self._drawn = random.Random(seed)
        self._seed = seed
        self._pressed: Counter[str] = Counter()
        self._temperatures = {one.name: 21.0 for one in DEVICES if one.name.startswith("room_")}
        self._killed_at: int | None = None
        self._takeovers = self._restarts = 0

    def run(self, seconds: float) -> HouseAccount:
        """Raises DrillError: it could not be done."""
        with contextlib.ExitStack() as afterwards:
            pair, devices = self._begin(afterwards)
            with self._client(pair)() as client:
                self._settle(pair, client, devices)
                self._began = sum(one.began for one in devices.look().values())
                self._tell("the devices have their programs; people come home")
                self._play(pair, devices, seconds)
                looks = self._rest(pair, client, devices)
                return self._account(client, looks, seconds)

    # Begin.

    def _begin(self, afterwards: contextlib.ExitStack) -> tuple[Pair, HouseProcesses]:
        afterwards.callback(self._ground.undo)
        self._ground.make()
        within = self._ground.hosts[HOUSE].within
        for one in DEVICES:
            run_tool(*within, "ip", "-6", "addr", "add", f"{one.host}/64", "dev", "eth0", "nodad")
        (self._directory / "house.csv").write_text(item_table())
        adapter = (
            f'[[node.adapter]]\nname = "{HOUSE}"\nkind = "hexabus"\ninterface = "eth0"\n'
            f'master = "{MASTER}/64"\nitems = "house.csv"\n'
        )
        pair = Pair(self._ground, {}, other=adapter)
        afterwards.callback(pair.end)
        devices = HouseProcesses(
            DEVICES, master=MASTER, network=BadNetwork(loss=self._loss), seed=self._seed, within=within
        )
        self._tell("starting a pair, and thirty devices")
        pair.start()
        devices.start()
        afterwards.callback(devices.stop)
        return pair, devices

    def _client(self, pair: Pair) -> Callable[[], Client]:
        return lambda: connect(pair.lines, keys=pair.keys, name="operator", timeout_s=20.0)

    def _settle(self, pair: Pair, client: Client, devices: HouseProcesses) -> None:
        topic = f"{JOURNAL_PREFIX}{HOUSE}"
        record = JournalRecord(BY_HAND, HouseTaken(encode_house(house(MASTER))))

        def is_given() -> bool:
            client.topics.subscribe(topic, subscriber=AUDITOR, from_first=True)
            client.topics.put(topic, encode_record(record))
            return True

        pair.until("the journal takes the machines", is_given, JOINED_S)
        pair.until("all devices have joined", lambda: self._have_joined(client, devices), JOINED_S)

    def _have_joined(self, client: Client, devices: HouseProcesses) -> bool:
        """All are members, and all have a program."""
        if _members(client) != len(DEVICES):
            return False
        return all(one.memory for one in devices.look().values())

    # Play.

    def _play(self, pair: Pair, devices: HouseProcesses, seconds: float) -> None:
        with ThreadPoolExecutor(1) as threads:
            self._live(pair, devices, seconds, threads.submit(self._beside, pair))

    def _live(self, pair: Pair, devices: HouseProcesses, seconds: float, beside: Future[None]) -> None:
        began = time.monotonic()
        restart_at: float | None = began + seconds / 4
        kills = [began + seconds * (one + 1) / (self._kills + 1) for one in range(self._kills)]
        back: tuple[float, str] | None = None
        while time.monotonic() < began + seconds or not beside.done():
            self._happen(devices)
            now = time.monotonic()
            if back is not None and now >= back[0]:
                pair.groups[back[1]].start()
                back = None
            if restart_at is not None and now >= restart_at:
                restart_at = None
                self._restart_adapter(pair)
            if kills and now >= kills[0] and back is None and (acting := pair.acting()) is not None:
                kills.pop(0)
                self._tell(f"kill -9 the {acting[0]}, which leads")
                self._killed_at = boot_ns()
                pair.groups[acting[0]].kill()
                self._takeovers += 1
                back = now + 5.0, acting[0]
            time.sleep(self._drawn.expovariate(1 / EVERY_S))
        beside.result()
        if back is not None:
            pair.groups[back[1]].start()

    def _restart_adapter(self, pair: Pair) -> None:
        """Kill the adapter's process alone, at the member that leads; what is sent meanwhile waits in the kernel."""
        acting = pair.acting()
        processes = [] if acting is None else psutil.Process(pair.groups[acting[0]].pid).children(recursive=True)
        for one in processes:
            if one.cmdline()[-1:] == [f"comm.{HOUSE}"]:
                self._tell("kill -9 the adapter, which is the master")
                one.kill()
                self._restarts += 1

    def _happen(self, devices: HouseProcesses) -> None:
        """Something happens somewhere."""
        name = self._drawn.choice([*self._temperatures, *self._temperatures, "button", "button", "box", "meter", "tv"])
        if name == "button":
            name = f"button_{self._drawn.randint(1, 4)}"
        value: float = 1
        if name in self._temperatures:
            value = self._temperatures[name] = round(self._drawn.uniform(18.0, 24.0), 1)
        elif name == "box":
            value = self._drawn.choice([ON, OFF])
        elif name == "meter":
            value = self._drawn.choice([3, 60])
        (told,) = (one for one in DEVICES if one.name == name)
        endpoint = told.endpoints[0]
        devices.tell(name, endpoint.eid, float(value) if endpoint.datatype is HexType.FLOAT else int(value))
        self._pressed[name] += 1

    # Judge.

    def _rest(self, pair: Pair, client: Client, devices: HouseProcesses) -> dict[str, DeviceLook]:
        """Wait until nothing changes any more."""
        done: list[dict[str, tuple[int, ...]]] = []
        since = time.monotonic()

        def is_quiet() -> bool:
            nonlocal since
            done.append({name: (one.acted, one.began, one.wrote) for name, one in devices.look().items()})
            if _members(client) != len(DEVICES) or done[-1] != done[max(0, len(done) - 2)]:
                since = time.monotonic()
            return time.monotonic() - since > QUIET_S

        with contextlib.suppress(DrillError):  # The account says what is not at rest.
            pair.until("everything comes to rest", is_quiet, REST_S)
        return devices.look()

    def _journal(self, client: Client) -> Iterator[tuple[JournalRecord, int]]:
        topic = f"{JOURNAL_PREFIX}{HOUSE}"
        with client.topics.consumer(topic, subscriber=AUDITOR) as consumer:
            while messages := consumer.take(3.0):
                for one in messages:
                    yield decode_record(one.body, one.position.epoch), one.at_ns

    def _account(self, client: Client, looks: dict[str, DeviceLook], seconds: float) -> HouseAccount:
        fold, taken, after_kill = HouseFold(), Counter[str](), list[int]()
        killed_wall = None if self._killed_at is None else time.time_ns() - (boot_ns() - self._killed_at)
        for record, at_ns in self._journal(client):
            is_valid = fold.fold(record, Instant(0))
            entry = record.entry
            if is_valid and isinstance(entry, EventTaken) and entry.host in _HOSTS:
                taken[_HOSTS[entry.host]] += 1
                if killed_wall is not None and at_ns > killed_wall:
                    after_kill.append(at_ns - killed_wall)
        strays = _strays(fold.silent, looks)
        lost = sum(max(0, looks[name].confirmed - taken[name]) for name in looks)
        doubled = sum(max(0, taken[name] - self._pressed[name]) for name in looks)
        events, pressed = sum(taken.values()), sum(self._pressed.values())
        return HouseAccount(
            seconds=seconds,
            loss=self._loss,
            events=events,
            pressed=pressed,
            not_taken=pressed - events,
            events_lost=lost,
            events_doubled=doubled,
            disagreements=len(strays),
            lights=sum(one.wrote for name, one in looks.items() if name.startswith("lamp")),
            thermostats=sum(one.wrote for name, one in looks.items() if name.startswith("heater")),
            takeovers=self._takeovers,
            restarts=self._restarts,
            takeover_s=round(min(after_kill) / 1e9, 3) if after_kill else None,
            recovered=sum(one.began for one in looks.values()) - self._began,
            held=not (lost or doubled or strays) and events > 0,
        )


def _members(client: Client) -> int:
    """Devices that are there, as the node says."""
    try:
        found = client.read(f"{HOUSE}/members").value
        return found if isinstance(found, int) else 0
    except (IndexError, NodeRefused):  # The adapter has not declared its items yet.
        return 0


def _strays(silent: SilentMachine | None, looks: dict[str, DeviceLook]) -> list[str]:
    """Devices that are in another state than the master's machines, or have another output."""
    if silent is None:
        raise DrillError("there are no machines in the journal")
    wanted = {name: silent.values_of(one.origin) for name, one in silent.house.devices.items()}
    outputs = {one.name: one.endpoints[0].name for one in DEVICES}
    return [
        name
        for name, one in looks.items()
        if bytes.fromhex(one.memory)[: len(silent.memory)] != silent.memory
        or any(one.values[outputs[name]] != value.value for _, value in wanted[name])
    ]
