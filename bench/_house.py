"""A house of thirty device processes below one node or below a pair, for the benchmark."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from albireo.client import Client, ClientError, connect
from albireo.codec.hexabus.house import House, encode_house
from albireo.codec.hexabus.journal import BY_HAND, HouseTaken, JournalRecord, encode_record
from albireo.drill.fault.network import NetworkGround
from albireo.drill.ground import DrillError, run_tool
from albireo.drill.house.house import HOUSE
from albireo.drill.pair import Pair
from albireo.drill.process import Group
from albireo.plant.house import DEVICES, HouseProcesses, item_table
from albireo.plant.house.device import BadNetwork
from albireo.runtime.errors import RuntimeFault

START_S: Final = 90.0
ADAPTER: Final = (
    f'[[node.adapter]]\nname = "{HOUSE}"\nkind = "hexabus"\ninterface = "eth0"\nmaster = "fd00::1/64"\n'
    'items = "house.csv"\n'
)


class HouseSite:
    """The house as it runs."""

    def __init__(self, client: Client, devices: HouseProcesses, within: tuple[str, ...]) -> None:
        self.client = client
        self.devices = devices
        self.within = within
        """Command that runs another one in the network of the devices."""

    def take(self, house: House) -> None:
        """Give all devices these machines; returns when they have them."""
        record = JournalRecord(BY_HAND, HouseTaken(encode_house(house)))
        until(lambda: bool(self.client.topics.put(f"adapters.{HOUSE}", encode_record(record))))
        until(lambda: all(one.memory for one in self.devices.look().values()))
        until(lambda: self.client.read(f"{HOUSE}/members").value == len(DEVICES))
        time.sleep(6.0)  # The counters that are told every five seconds have been told by then.


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        with contextlib.suppress(ClientError, RuntimeFault, IndexError):
            if is_so():
                return
        time.sleep(0.1)
    raise DrillError("it did not come")


def _answers(data: Path) -> bool:
    with connect(data, timeout_s=1.0) as client:
        return bool(client.status())


@contextlib.contextmanager
def running_house(directory: Path, *, is_pair: bool, loss: float = 0.0) -> Iterator[HouseSite]:
    directory.mkdir()
    (directory / "house.csv").write_text(item_table())
    ground = NetworkGround(directory, more=[HOUSE])
    with contextlib.ExitStack() as afterwards:
        afterwards.callback(ground.undo)
        ground.make()
        within = ground.hosts[HOUSE].within
        for one in DEVICES:
            run_tool(*within, "ip", "-6", "addr", "add", f"{one.host}/64", "dev", "eth0", "nodad")
        devices = HouseProcesses(DEVICES, network=BadNetwork(loss=loss), within=within)
        if is_pair:
            pair = Pair(ground, {}, other=ADAPTER)
            afterwards.callback(pair.end)
            pair.start()
            client = connect(pair.lines, keys=pair.keys, name="operator", timeout_s=20.0)
        else:
            topology = directory / "topology.toml"
            topology.write_text(f'cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a12"\n[[node]]\nid = "root"\n{ADAPTER}')
            data = directory / "data"
            arguments = ["node", "run", "--topology", str(topology), "--data", str(data)]
            node = Group("node", arguments, directory / "node.log", ground.hosts["primary"].within)
            afterwards.callback(node.kill)
            node.start()
            until(lambda: _answers(data))
            client = connect(data, timeout_s=20.0)
        afterwards.callback(client.close)
        devices.start()
        afterwards.callback(devices.stop)
        yield HouseSite(client, devices, tuple(within))
