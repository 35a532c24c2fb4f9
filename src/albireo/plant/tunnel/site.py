"""Writes what a node needs to run on the tunnel: `topology.toml` and one CSV item table per PLC."""

import csv
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.model.topology import Guard
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.registers import Register, Type

NODE_ID: Final = "root"
TOPOLOGY_NAME: Final = "topology.toml"
CLUSTER: Final = uuid.uuid5(uuid.NAMESPACE_URL, "albireo:demo")
"""The same for every demo: its site is written anew each time, its data directory may be kept."""

SETTLE_MS: Final = 20
"""What `albireo doctor plc-voter` suggests for these PLCs."""

COLUMNS: Final = (
    "name", "kind", "address", "type", "bit", "length", "word_order", "scale", "unit", "dead_band", "writable",
    "target", "minimum", "maximum", "hi_hi", "hi", "lo", "lo_lo", "hysteresis", "on_delay_ms", "off_delay_ms",
    "off_normal", "severity", "latched", "suppressed_by", "description",
)  # fmt: skip


class PairSite(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints of a node that is a pair; its voters are every PLC of the tunnel and one witness."""

    clients: tuple[str, str]
    """Of primary and backup."""
    peers: tuple[str, str]
    witness: str


WITNESS: Final = "w1"


def write_site(
    directory: Path,
    ports: Mapping[str, int],
    *,
    host: str = "127.0.0.1",
    poll_ms: int = 100,
    guards: Mapping[str, Guard] | None = None,
    pair: PairSite | None = None,
) -> Path:
    """Writes the site and gives the path of its topology.

    Args:
        ports: Modbus TCP port of each PLC.
        poll_ms: period of a poll; the plant itself runs at 100 ms.
        guards: of each PLC's outputs; `lease` without one. `plc` belongs to a PLC that was started guarded.
        pair: two members instead of one node.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for plc, registers in PLCS.items():
        with (directory / f"{plc}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS, restval="")
            table.writeheader()
            targets = {register.name: number for number, register in enumerate(registers.writable, 1)}
            table.writerows(_line(register, targets.get(register.name)) for register in registers.registers)
    topology = directory / TOPOLOGY_NAME
    topology.write_text(_topology(ports, host, poll_ms, guards or {}, pair), encoding="utf-8")
    return topology


def _topology(
    ports: Mapping[str, int], host: str, poll_ms: int, guards: Mapping[str, Guard], pair: PairSite | None
) -> str:
    adapters = "".join(
        f"""
  [[node.adapter]]
  name = "{plc}"
  kind = "modbus"
  url = "tcp://{host}:{port}"
  items = "{plc}.csv"
  poll_ms = {poll_ms}
  timeout_ms = 1000
  backoff_min_ms = 500
  backoff_max_ms = 2000
  voter_address = {VOTER_ADDRESS}
  settle_ms = {SETTLE_MS}
  mailbox_address = {MAILBOX_ADDRESS}
  guard = "{guards.get(plc, Guard.LEASE).value}"
"""
        for plc, port in ports.items()
    )
    return f"""# The simulated road tunnel of `albireo demo`.
cluster = "{CLUSTER}"
{_witness(pair)}
[[node]]
id = "{NODE_ID}"
description = "Simulated road tunnel"
{_members(pair)}{adapters}
  [[node.adapter]]
  name = "host"
  kind = "host"
  poll_ms = 1000
"""


def _witness(pair: PairSite | None) -> str:
    return (
        ""
        if pair is None
        else f'''
[[witness]]
name = "{WITNESS}"
endpoint = "{pair.witness}"
'''
    )


def _members(pair: PairSite | None) -> str:
    if pair is None:
        return ""
    voters = ", ".join(f'"plc:{plc}"' for plc in PLCS)
    lines = [f'voters = [{voters}, "witness:{WITNESS}"]']
    for member, client, peer in zip(("primary", "backup"), pair.clients, pair.peers, strict=True):
        lines.append(f'{member} = {{ client = "{client}", peer = ["{peer}"] }}')
    return "\n".join(lines) + "\n"


def _line(register: Register, target: int | None) -> dict[str, object]:
    """One row of an item table; an empty field takes the default of its column.

    Args:
        target: number of this output in the PLC's guard.
    """
    row, alarm = register.row, register.alarm
    line: dict[str, object] = {
        "name": register.name,
        "kind": row.kind.value,
        "address": register.address,
        "type": row.type.value,
        "unit": row.unit,
        "description": row.description,
    }
    if row.type is Type.STRING:
        line["length"] = 2 * register.words
    if register.bit is not None:
        line["bit"] = register.bit
    if row.word_order != "big":
        line["word_order"] = row.word_order
    if row.scale != 1:
        line["scale"] = row.scale
    if row.dead_band:
        line["dead_band"] = row.dead_band
    if row.is_writable:
        line |= {"writable": "true", "target": target, "minimum": _given(row.minimum), "maximum": _given(row.maximum)}
    if alarm is not None:
        line |= {
            "hi_hi": _given(alarm.hi_hi),
            "hi": _given(alarm.hi),
            "lo": _given(alarm.lo),
            "lo_lo": _given(alarm.lo_lo),
            "hysteresis": alarm.hysteresis or "",
            "on_delay_ms": alarm.on_delay_ms or "",
            "off_delay_ms": alarm.off_delay_ms or "",
            "off_normal": "" if alarm.off_normal is None else str(alarm.off_normal).lower(),
            "severity": alarm.severity,
            "latched": "true" if alarm.is_latched else "",
            "suppressed_by": alarm.suppressed_by,
        }
    return line


def _given(value: float | None) -> object:
    return "" if value is None else f"{value:g}"
