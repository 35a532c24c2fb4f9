"""A simulated house: devices as processes on a real network interface, on which datagrams get lost if wanted.

house = HouseProcesses(devices, interface="eth0", loss=0.2)
house.start()
house.tell("button_1", 4, 1)        # something happens at an endpoint
house.look()                        # what each device did
house.stop()
"""

from albireo.plant.house.house import DEVICES, item_table, machines
from albireo.plant.house.processes import HouseProcesses

__all__ = ["DEVICES", "HouseProcesses", "item_table", "machines"]
