"""The drill `bad-gateway`: a node polls the twelve worst devices, and their neighbours must not notice.

    node (own process)  <-- thirteen adapters --  twelve gateways: units 1 and 5 honest, units 2, 3, 4 unruly
                                                  one gateway with honest units only, the measure of the others

A round: every connection is reset at once; for a while everything that the node shows is looked at; an honest unit of
each gateway is written to. Held:

- no value is good and wrong, nor good where the unit can't have given one;
- each honest unit is good all the time, and polled at least POLLS_SHARE as often as one with honest neighbours only;
- each order ends as it is told: verified is in the device, rejected is not. One is verified, of three at most: a write
  that meets a device which hangs up is never sent twice, and may be unknown;
- no process of the node ends.

Spec: docs/drill.md; ADR-0166.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.client import Client, ClientError, connect
from albireo.drill.ground import DrillError
from albireo.drill.process import Group
from albireo.drill.serving import ServingThread
from albireo.model.command import Outcome
from albireo.model.item import Reading
from albireo.model.quality import GOOD
from albireo.plant.unruly.cases import ADDRESSES, UnrulyCase, cases
from albireo.plant.unruly.device import COUNTER, UnrulyDevice
from albireo.plant.unruly.manners import honest
from albireo.runtime.errors import RuntimeFault

NAME: Final = "bad-gateway"
WHAT: Final = "a lone node polls twelve gateways with units that misbehave, each in its way; their neighbours stay good"
WORST: Final = (
    "silent",
    "gateway-says-silent",
    "gateway-has-no-path",
    "lacks-two-addresses",
    "silent-about-an-address",
    "hangs-up-at-an-address",
    "hangs-up-after-each",
    "late",
    "late-without-number",
    "as-other-function",
    "in-halves",
    "noise",
)
ALL_HONEST: Final = "all-honest"
DEVICES: Final = (*WORST, ALL_HONEST)
HONEST: Final = (1, 5)
UNRULY: Final = (2, 3, 4)
POLL_MS: Final = 250
TIMEOUT_MS: Final = 600
ROUND_S: Final = 12.0
POLLS_SHARE: Final = 0.5
"""Part of the polls that a unit with honest neighbours has at the same time, on a busy machine as on a quiet one. A
fifth of the time may go into what is away."""
START_S: Final = 60.0
LEARNT_S: Final = 120.0
"""Time until everything about all devices is learnt, the first time."""
LOOK_S: Final = 0.5
WRITTEN: Final = 45
"""Address that is written to, of the last unit of each device."""
ORDER_S: Final = 20.0
ORDERS_MAX: Final = 3


class GatewayAccount(msgspec.Struct, kw_only=True):
    """Account of one device in one round."""

    device: str
    polls: int = 0
    """Polls of its last unit."""
    polls_min: int = 0
    wrong: int = 0
    """Readings that were good and not what the device holds."""
    not_good: int = 0
    """Readings of honest units that were not good."""
    lost: int = 0
    """Times that the whole device was told to be lost."""
    orders: int = 0
    """Orders given, up to the one that was verified."""
    written: bool = False
    """The last one was verified."""
    untrue: int = 0
    """Orders of which the device says otherwise than the receipt."""

    @property
    def held(self) -> bool:
        is_seen_well = self.polls >= self.polls_min and not (self.wrong or self.not_good or self.lost)
        return is_seen_well and self.written and not self.untrue


class GatewayRound(msgspec.Struct, frozen=True, kw_only=True):
    """All devices in one round."""

    devices: tuple[GatewayAccount, ...]
    restarts: int
    """Processes of the node that had to be started again."""

    @property
    def held(self) -> bool:
        return not self.restarts and all(one.held for one in self.devices)

    def told(self) -> str:
        """The round in words."""
        bad = [one.device for one in self.devices if not one.held]
        least = min(self.devices, key=lambda one: one.polls)
        return (
            f"{sum(one.wrong for one in self.devices)} wrong values, "
            f"{sum(one.not_good for one in self.devices)} of neighbours not good, "
            f"{sum(one.written for one in self.devices)} of {len(self.devices)} orders verified, "
            f"{self.restarts} restarts; fewest polls {least.polls} ({least.device}), {least.polls_min} wanted"
            + (f"; DID NOT HOLD: {', '.join(bad)}" if bad else "")
        )


class GatewayReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the drill; the JSON line."""

    fault: str
    rounds: tuple[GatewayRound, ...]
    held: bool


class UnrulyGateways(ServingThread):
    """The thirteen devices, by name."""

    def __init__(self) -> None:
        super().__init__("unruly devices")
        every = cases(TIMEOUT_MS / 1_000)
        self.cases: dict[str, UnrulyCase] = {name: every[name] for name in WORST}
        self.devices = {
            name: UnrulyDevice(dict.fromkeys(HONEST, honest) | dict.fromkeys(UNRULY, case.manner), keeps_requests=False)
            for name, case in self.cases.items()
        }
        self.devices[ALL_HONEST] = UnrulyDevice(dict.fromkeys((*HONEST, *UNRULY), honest), keeps_requests=False)

    async def open(self) -> None:
        for device in self.devices.values():
            await device.start()

    async def shut(self) -> None:
        for device in self.devices.values():
            await device.stop()

    async def reset(self) -> None:
        for device in self.devices.values():
            device.reset()


class _Place(msgspec.Struct, frozen=True):
    """Item of the node, and where it stands."""

    device: str
    unit: int
    address: int

    @property
    def name(self) -> str:
        return f"{self.device}.{self.unit}.{self.address}"


class GatewayDrill:
    """One node, its devices, their rounds."""

    def __init__(self, directory: Path, tell: Callable[[str], object]) -> None:
        """`tell` takes lines for people."""
        self._directory = directory
        self._tell = tell
        self._gateways = UnrulyGateways()
        self._places = {
            one.name: one
            for device in DEVICES
            for unit in sorted((*HONEST, *UNRULY))
            for address in ADDRESSES
            for one in [_Place(device, unit, address)]
        }
        self._orders = 0

    def run(self, rounds: int) -> GatewayReport:
        """All rounds, or those up to the first that did not end."""
        done: list[GatewayRound] = []
        is_held = True
        try:
            with self._node() as client:
                self._until_learnt(client)
                for number in range(1, rounds + 1):
                    done.append(self._round(client))
                    self._tell(f"round {number}: {done[-1].told()}")
        except (DrillError, ClientError, RuntimeFault) as error:
            is_held = False
            self._tell(f"round {len(done) + 1} did not end: {error}")
        return GatewayReport(fault=NAME, rounds=tuple(done), held=is_held and all(one.held for one in done))

    @contextlib.contextmanager
    def _node(self) -> Iterator[Client]:
        """The node, running, with a client on its machine."""
        directory = self._directory
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as afterwards:
            self._gateways.begin()
            afterwards.callback(self._gateways.end)
            self._write_site(directory)
            command = ["node", "run", "--topology", str(directory / "topology.toml"), "--data", str(directory / "data")]
            group = Group("node", command, directory / "node.log")
            group.start()
            afterwards.callback(group.kill)
            afterwards.callback(group.stop)
            client = self._connected(group)
            afterwards.callback(client.close)
            yield client

    def _connected(self, group: Group) -> Client:
        """A client of the node that has declared its items.

        Raises:
            DrillError: there is none in time.
        """
        ends = time.monotonic() + START_S
        client: Client | None = None
        while group.is_running and time.monotonic() < ends:
            with contextlib.suppress(ClientError, RuntimeFault):
                client = client or connect(self._directory / "data", is_pinned=True, timeout_s=ORDER_S)
                client.read([*self._places])
                return client
            time.sleep(LOOK_S)  # Another process: nothing else tells.
        if client is not None:
            client.close()
        raise DrillError(f"the node did not start\n{group.tail()}")

    def _write_site(self, directory: Path) -> None:
        lines = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"', "[[node]]", 'id = "root"']
        for name, device in self._gateways.devices.items():
            rows = [
                f"{one.name},holding,{one.address},{one.unit},{'true' if one.address == WRITTEN else ''}"
                for one in self._places.values()
                if one.device == name
            ]
            table = "\n".join(["name,kind,address,device_id,writable", *rows])
            (directory / f"{name}.csv").write_text(f"{table}\n", encoding="utf-8")
            lines += [
                "[[node.adapter]]", f'name = "{name}"', 'kind = "modbus"', f'url = "tcp://127.0.0.1:{device.port}"',
                f'items = "{name}.csv"', f"poll_ms = {POLL_MS}", f"timeout_ms = {TIMEOUT_MS}",
            ]  # fmt: skip
        (directory / "topology.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _until_learnt(self, client: Client) -> None:
        """Wait until every item is as it has to be.

        Raises:
            DrillError: not in time.
        """
        ends = time.monotonic() + LEARNT_S
        wrong: list[str] = []
        while time.monotonic() < ends:
            readings = dict(zip(self._places, client.read([*self._places]), strict=False))
            wrong = [
                name for name, place in self._places.items()
                if len(readings) < len(self._places)  # Some are not declared yet.
                or (readings[name].quality == GOOD) is self._is_bad(place) or self._is_unseen(place, readings[name])
            ]  # fmt: skip
            if not wrong:
                return
            time.sleep(LOOK_S)
        raise DrillError(f"{len(wrong)} items are not as they have to be, such as {', '.join(wrong[:5])}")

    def _is_unseen(self, place: _Place, reading: Reading) -> bool:
        return reading.quality == GOOD and self._is_wrong(place, reading.value)

    def _is_bad(self, place: _Place) -> bool:
        case = self._gateways.cases.get(place.device)
        return case is not None and place.unit in UNRULY and place.address in case.bad

    def _is_wrong(self, place: _Place, value: object) -> bool:
        holds = self._gateways.devices[place.device].holds(place.unit, place.address)
        assert isinstance(value, int)
        return not 0 <= value <= holds if place.address == COUNTER else value != holds

    def _round(self, client: Client) -> GatewayRound:
        accounts = {name: GatewayAccount(device=name) for name in DEVICES}
        before = self._polls(client)
        began = time.monotonic()
        self._gateways.carry_out(self._gateways.reset())
        for changes in client.watch(timeout_s=LOOK_S):
            for reading in changes.readings:
                self._judge(reading, accounts)
            if time.monotonic() - began >= ROUND_S:
                break
        polls = {name: count - before[name] for name, count in self._polls(client).items()}
        for name, account in accounts.items():
            account.polls = polls[name]
            account.polls_min = max(1, int(POLLS_SHARE * polls[ALL_HONEST]))
        # NB: an order changes what is right, so that nothing is judged until every one of them is seen.
        for account in accounts.values():
            self._order(client, account)
        self._until_learnt(client)
        return GatewayRound(devices=tuple(accounts.values()), restarts=self._restarts(client))

    def _judge(self, reading: Reading, accounts: dict[str, GatewayAccount]) -> None:
        name = reading.name.removeprefix("root:")
        adapter, _, diagnostic = name.partition("/")
        if diagnostic == "connected" and adapter in accounts:
            accounts[adapter].lost += not reading.value
        place = self._places.get(name)
        if place is None:
            return
        account = accounts[place.device]
        if reading.quality != GOOD:
            account.not_good += place.unit in HONEST
        elif self._is_bad(place) or self._is_unseen(place, reading):
            account.wrong += 1

    def _polls(self, client: Client) -> dict[str, int]:
        """How often the last unit of each device was read, as the node shows it; 0 before the first time."""
        names = [_Place(device, HONEST[-1], COUNTER).name for device in DEVICES]
        values = [one.value for one in client.read(names)]
        return {device: int(value or 0) for device, value in zip(DEVICES, values, strict=True)}

    def _order(self, client: Client, account: GatewayAccount) -> None:
        """Order a value of the last unit, until one is verified or ORDERS_MAX were given."""
        place = _Place(account.device, HONEST[-1], WRITTEN)
        device = self._gateways.devices[account.device]
        while account.orders < ORDERS_MAX and not account.written:
            account.orders += 1
            self._orders = self._orders % 1_000 + 1
            receipt = client.write(place.name, self._orders, f"drill {NAME}", expires_s=ORDER_S)
            is_there = device.holds(place.unit, place.address) == self._orders
            account.written = receipt.outcome is Outcome.VERIFIED
            account.untrue += is_there if receipt.outcome is Outcome.REJECTED else account.written and not is_there
            if not account.written:
                self._tell(f"{account.device}: order {self._orders}: {receipt.outcome.value}: {receipt.detail}")

    def _restarts(self, client: Client) -> int:
        actors: Any = client.ask("actors", of="boot")
        return sum(one["restarts"] for one in actors)
