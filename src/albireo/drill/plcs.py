"""The PLCs of a drill: three, with voter's blocks, output mailboxes and plain outputs, and a record of what they did.

    p1   outputs through the mailboxes (`guard = "plc"`)
    p2   plain registers, one output per level that refuses nothing: `stamp` and `lease`
    p3   plain registers behind an `albireo gate`, which is the only one that is told where it is (`guard = "gate"`)

They run in a thread of this program: they are the judge's own eyes, and no fault of a drill is done to them, nor to the
gate, a process beside this one.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from albireo.drill.serving import ServingThread
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, PLAIN_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.server import PlcServer
from albireo.plant.tunnel.plc.wire import PlcFaults

NAMES: Final = ("p1", "p2", "p3")
VOTERS: Final = NAMES[:2]
"""PLCs that may vote; one behind a gate can't."""
GATED: Final = "p3"
GATE: Final = "gate"
"""The adapter of what is behind the gate, and the gate's own process."""
LEASE_ADDRESS: Final = PLAIN_ADDRESS
STAMP_ADDRESS: Final = PLAIN_ADDRESS + 10
GATED_ADDRESS: Final = PLAIN_ADDRESS + 20
GUARDED: Final = "speed_limit"
"""The set point of p1 that the mailbox reaches."""
POLL_MS: Final = 250
SETTLE_MS: Final = 20

_TABLE: Final = "name,kind,address,type,writable,target,minimum,maximum"


class Plcs(ServingThread):
    """All PLCs of a drill, at one address."""

    def __init__(self, address: str) -> None:
        super().__init__("simulated PLCs")
        self.address = address
        self.ports: dict[str, int] = {}
        self.carried: dict[str, list[CarriedOrder]] = {name: [] for name in NAMES}
        """Writes of outputs by PLC, in sequence; grows while they run."""
        self.servers: dict[str, PlcServer] = {}

    def apply(self, name: str, faults: PlcFaults) -> None:
        """Set the faults of the PLC `name` from now on."""
        self.carry_out(self.servers[name].apply(faults))

    async def open(self) -> None:
        logging.getLogger("pymodbus").setLevel(logging.CRITICAL)  # It tells of every connection that breaks.
        self.servers = {name: PlcServer(PLCS["p1"], self.address, is_guarded=True) for name in NAMES}
        for name, server in self.servers.items():
            server.on_carried = self.carried[name].append
            await server.start()
            self.ports[name] = server.port

    async def shut(self) -> None:
        for server in self.servers.values():
            await server.stop()


def write_tables(directory: Path) -> None:
    """The item table of each adapter."""
    targets = {one.name: number for number, one in enumerate(PLCS["p1"].writable, 1)}
    (guarded,) = (one for one in PLCS["p1"].writable if one.name == GUARDED)
    rows = {
        "plc": f"out_plc,holding,{guarded.address},uint16,true,{targets[GUARDED]},30,100",
        "gate": f"out_gate,holding,{GATED_ADDRESS},uint16,true,1,0,65535",
        "stamp": f"out_stamp,holding,{STAMP_ADDRESS},uint16,true,,0,65535",
        "lease": f"out_lease,holding,{LEASE_ADDRESS},uint16,true,,0,65535",
    }
    for level, row in rows.items():
        (directory / f"{level}.csv").write_text(f"{_TABLE}\n{row}\n", encoding="utf-8")


def adapters(address: str, ports: Mapping[str, int], gate_port: int) -> str:
    """Their part of the topology. The adapter that has the voter's name carries the voter's blocks as well."""
    gated = f'  gated_url = "tcp://{address}:{ports[GATED]}"\n'
    return "".join(
        f"""
  [[node.adapter]]
  name = "{name}"
  kind = "modbus"
  url = "tcp://{address}:{port}"
  items = "{level}.csv"
  poll_ms = {POLL_MS}
  timeout_ms = 500
  backoff_min_ms = 100
  backoff_max_ms = 500
  guard = "{level}"
{more}"""
        for name, port, level, more in (
            ("p1", ports["p1"], "plc", f"{_MAILBOXES}{_VOTER}"),
            ("p2", ports["p2"], "lease", _VOTER),
            ("p2s", ports["p2"], "stamp", ""),
            (GATE, gate_port, "gate", f"{_MAILBOXES}{gated}"),
        )
    )


_MAILBOXES: Final = f"  mailbox_address = {MAILBOX_ADDRESS}\n"
_VOTER: Final = f"  voter_address = {VOTER_ADDRESS}\n  settle_ms = {SETTLE_MS}\n"
