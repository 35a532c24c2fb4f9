"""The pair's registers of a tunnel that runs as processes: told to restart, zero, tear, delay and reset."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pymodbus.client import ModbusTcpClient
from pymodbus.exceptions import ModbusException

from albireo.machine.output.mailbox import MailboxOrder, decode_status, encode_order
from albireo.plant.tunnel import Scenario, Tunnel, TunnelError, start_tunnel
from albireo.plant.tunnel.plc.memory import Retained
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.wire import PlcFaults, ResetConnections, Restart, ZeroVoter
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ZERO, FIVES = [0] * 64, [5] * 64


@pytest.fixture
def tunnel(tmp_path: Path) -> Iterator[Tunnel]:
    with start_tunnel(tmp_path / "site", guarded=("p1",), notes_orders=True) as running:
        yield running


class Plc:
    """A client that connects anew when it has to."""

    def __init__(self, port: int) -> None:
        self._client = ModbusTcpClient("127.0.0.1", port=port, timeout=PATIENCE_S, retries=0)

    def read(self, address: int = VOTER_ADDRESS, count: int = 64) -> list[int]:
        """Empty: nobody answers."""
        try:
            self._client.connect()  # type: ignore[no-untyped-call]
            answer = self._client.read_holding_registers(address, count=count)
        except (ModbusException, OSError):
            self._client.close()  # type: ignore[no-untyped-call]
            return []
        return [] if answer.isError() else list(answer.registers)

    def write(self, words: list[int], address: int = VOTER_ADDRESS) -> None:
        assert not self._client.write_registers(address, words).isError()

    @property
    def boot(self) -> int:
        words = self.read(MAILBOX_ADDRESS + 24, 4)
        return decode_status(words).boot if words else 0

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass in time"
        time.sleep(0.01)


@pytest.fixture
def plc(tunnel: Tunnel) -> Iterator[Plc]:
    one = Plc(tunnel.ports["p1"])
    assert one.read() == ZERO
    yield one
    one.close()


def test_a_power_cycle_from_outside(tunnel: Tunnel, plc: Plc) -> None:
    plc.write(FIVES)
    for keep, left in ((Retained.ALL, FIVES), (Retained.NONE, ZERO)):
        boot = plc.boot
        tunnel.act("p1", Restart(keep=keep, down_ms=100))
        until(lambda boot=boot: plc.boot == boot + 1)  # type: ignore[misc]
        assert plc.read() == left


def test_zero_reset_and_the_scenarios_of_the_demo(tunnel: Tunnel, plc: Plc) -> None:
    other = Plc(tunnel.ports["p2"])
    assert other.read() == ZERO
    other.write(FIVES)
    plc.write(FIVES)
    tunnel.act("p1", ZeroVoter())
    until(lambda: plc.read() == ZERO)
    assert other.read() == FIVES
    tunnel.begin(Scenario.PLC_ZERO, plc="p2")
    until(lambda: other.read() == ZERO)
    boot = other.boot
    tunnel.act("p1", ResetConnections())
    tunnel.begin(Scenario.PLC_RESTART, plc="p2")
    until(lambda: other.boot == boot + 1 and plc.read() == ZERO)
    other.close()


def test_delay_and_tear_until_all_is_clear(tunnel: Tunnel, plc: Plc) -> None:
    other = Plc(tunnel.ports["p1"])
    tunnel.set_faults("p1", PlcFaults(others_delay_ms=200))
    count = 0

    def is_seen_late() -> bool:
        nonlocal count
        count += 1
        plc.write([count] * 64)
        return plc.read() == [count] * 64 and other.read() != [count] * 64

    until(is_seen_late)
    tunnel.begin(Scenario.CLEAR)
    until(lambda: not is_seen_late())
    tunnel.begin(Scenario.PLC_TEAR)

    def is_slow() -> bool:
        begun = time.monotonic()
        plc.write(FIVES)
        return time.monotonic() - begun >= 0.03

    until(is_slow)
    other.close()


def test_a_plc_that_is_not_there_is_told(tunnel: Tunnel) -> None:
    with pytest.raises(TunnelError, match="p9"):
        tunnel.act("p9", ZeroVoter())


def test_orders_are_noted_and_registers_outlive_the_tunnel(tunnel: Tunnel, plc: Plc) -> None:
    plc.write(FIVES)
    boot = plc.boot
    target = [one.name for one in PLCS["p1"].writable].index("speed_limit") + 1
    plc.write(list(encode_order(MailboxOrder(count=1, epoch=3, boot=boot, target=target, value=50))), MAILBOX_ADDRESS)
    until(lambda: plc.read(MAILBOX_ADDRESS + 10, 2) == [1, 1])
    lines = (tunnel.directory / "p1.orders.jsonl").read_bytes().splitlines()
    noted = msgspec.json.decode(lines[-1], type=CarriedOrder)
    assert (noted.way, noted.name, noted.value, noted.member, noted.epoch) == ("mailbox", "speed_limit", 50.0, 0, 3)
    assert noted.at > 0
    tunnel.stop()
    with start_tunnel(tunnel.directory) as again:
        later = Plc(again.ports["p1"])
        assert later.read() == FIVES
        assert later.boot == boot + 1
        later.close()
