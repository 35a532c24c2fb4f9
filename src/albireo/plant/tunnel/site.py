"""Writes what a node needs to run on the tunnel: `topology.toml` and one CSV item table per PLC."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.topology.text import table_text
from albireo.field.modbus.items import RegisterType
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

COLUMNS: Final = (
    "name", "kind", "address", "type", "bit", "length", "word_order", "scale", "unit", "dead_band", "writable",
    "target", "minimum", "maximum", "hi_hi", "hi", "lo", "lo_lo", "hysteresis", "on_delay_ms", "off_delay_ms",
    "off_normal", "severity", "latched", "suppressed_by", "description",
)  # fmt: skip


class PairSite(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints of a node that is a pair; its voters are every PLC of the tunnel and one witness."""

    clients: tuple[str, str]
    """Client endpoints of primary and backup."""
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
        targets = {register.name: number for number, register in enumerate(registers.writable, 1)}
        lines = [_line(register, targets.get(register.name)) for register in registers.registers]
        (directory / f"{plc}.csv").write_text(table_text(lines, COLUMNS), encoding="utf-8")
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
    return "" if pair is None else f'\n[[witness]]\nname = "{WITNESS}"\nendpoint = "{pair.witness}"\n'


def _members(pair: PairSite | None) -> str:
    if pair is None:
        return ""
    voters = ", ".join(f'"plc:{plc}"' for plc in PLCS)
    lines = [f'voters = [{voters}, "witness:{WITNESS}"]']
    for member, client, peer in zip(("primary", "backup"), pair.clients, pair.peers, strict=True):
        lines.append(f'{member} = {{ client = "{client}", peer = ["{peer}"] }}')
    return "\n".join(lines) + "\n"


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
