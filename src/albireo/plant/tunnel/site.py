"""Writes what a node needs to run on a tunnel: `topology.toml` and one CSV item table per PLC."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from albireo.codec.topology.text import table_text
from albireo.field.modbus.items import RegisterType
from albireo.model.item import Control
from albireo.model.topology import Guard
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.registers import Register

NODE_ID: Final = "root"
TOPOLOGY_NAME: Final = "topology.toml"
CLUSTER: Final = uuid.uuid5(uuid.NAMESPACE_URL, "albireo:demo")
"""Cluster id of every demo: the site is written anew each time, the data directory may be kept."""

SETTLE_MS: Final = 20
"""Settle time that `albireo doctor plc-voter` suggests for these PLCs."""

HOST_ADAPTER: Final = """
  [[node.adapter]]
  name = "host"
  kind = "host"
  poll_ms = 1000
"""

COLUMNS: Final = (
    "name", "kind", "address", "type", "bit", "length", "word_order", "scale", "unit", "dead_band", "writable",
    "control", "target", "minimum", "maximum", "hi_hi", "hi", "lo", "lo_lo", "hysteresis", "on_delay_ms",
    "off_delay_ms", "off_normal", "severity", "latched", "suppressed_by", "states", "description",
)  # fmt: skip


def write_site(
    directory: Path,
    ports: Mapping[str, int],
    *,
    host: str = "127.0.0.1",
    poll_ms: int = 100,
    guards: Mapping[str, Guard] | None = None,
) -> Path:
    """Writes the site of one lone node and gives the path of its topology.

    Args:
        ports: Modbus TCP port of each PLC.
        poll_ms: period of a poll; the plant itself runs at 100 ms.
        guards: of each PLC's outputs; `lease` without one. `plc` belongs to a PLC that was started guarded.
    """
    adapters = adapters_text(ports, host, poll_ms, guards or {})
    text = f"""# The simulated road tunnel.
cluster = "{CLUSTER}"

[[node]]
id = "{NODE_ID}"
description = "Simulated road tunnel"
{adapters}{HOST_ADAPTER}"""
    return write_files(directory, text)


def write_files(directory: Path, topology: str) -> Path:
    """Writes the topology, and beside it the item table of each PLC, which all tunnels share; the topology's path."""
    directory.mkdir(parents=True, exist_ok=True)
    for plc, registers in PLCS.items():
        targets = {register.name: number for number, register in enumerate(registers.writable, 1)}
        lines = [_line(register, targets.get(register.name)) for register in registers.registers]
        (directory / f"{plc}.csv").write_text(table_text(lines, COLUMNS), encoding="utf-8")
    path = directory / TOPOLOGY_NAME
    path.write_text(topology, encoding="utf-8")
    return path


def adapters_text(
    ports: Mapping[str, int], host: str, poll_ms: int, guards: Mapping[str, Guard], *, are_voters: bool = True
) -> str:
    """The adapters of a node that polls a tunnel; arguments as of `write_site`. `are_voters`: PLCs vote for a pair."""
    vote = (
        f"""
  voter_address = {VOTER_ADDRESS}
  settle_ms = {SETTLE_MS}
  mailbox_address = {MAILBOX_ADDRESS}"""
        if are_voters
        else ""
    )
    return "".join(
        f"""
  [[node.adapter]]
  name = "{plc}"
  kind = "modbus"
  url = "tcp://{host}:{port}"
  items = "{plc}.csv"
  poll_ms = {poll_ms}
  timeout_ms = 1000
  backoff_min_ms = 500
  backoff_max_ms = 2000{vote}
  guard = "{guards.get(plc, Guard.LEASE).value}"
"""
        for plc, port in ports.items()
    )


def _line(register: Register, target: int | None) -> dict[str, str]:
    """One row of an item table; an empty field takes the default of its column.

    Args:
        target: number of this output in the PLC's guard.
    """
    row, alarm = register.row, register.alarm
    line: dict[str, object] = {
        "name": register.name,
        "kind": row.kind,
        "address": str(register.address),
        "type": row.type,
        "bit": register.bit,
        "length": 2 * register.words if row.type is RegisterType.STRING else None,
        "word_order": "" if row.word_order == "big" else row.word_order,
        "scale": None if row.scale == 1 else row.scale,
        "unit": row.unit,
        "dead_band": row.dead_band or None,
        "target": target,
        "minimum": row.minimum,
        "maximum": row.maximum,
        "writable": row.is_writable or None,
        "control": None if row.control is Control.DIRECT else row.control.value,
        "states": row.states,
        "description": row.description,
    }
    if alarm is not None:
        names = ("hi_hi", "hi", "lo", "lo_lo", "off_normal", "severity", "suppressed_by")
        line |= {name: getattr(alarm, name) for name in names}
        line |= {name: getattr(alarm, name) or None for name in ("hysteresis", "on_delay_ms", "off_delay_ms")}
        line["latched"] = alarm.is_latched or None
    return {name: _cell(value) for name, value in line.items()}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
