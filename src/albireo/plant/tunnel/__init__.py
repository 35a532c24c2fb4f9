"""A simulated road tunnel: the plant of the demo and of rehearsals.

One process holds the physics (`plant`), each PLC is a process of its own that serves real Modbus TCP (`server`); or one
process is all of it (`whole`). They talk over a Unix socket (`wire`), which is also where scenarios are switched on:
the plant side, never our node.

What it does not do: it is no engineering model. Numbers are plausible, so that alarms, trends and set points mean
something; nobody should design a tunnel with it.
"""

from albireo.plant.tunnel.processes import Tunnel, TunnelError, start_tunnel, start_whole_tunnel
from albireo.plant.tunnel.scenario import Scenario
from albireo.plant.tunnel.site import write_site

__all__ = ["Scenario", "Tunnel", "TunnelError", "start_tunnel", "start_whole_tunnel", "write_site"]
