"""Rows of a Hexabus item table: which endpoint of which device an item is.

    name,device,address,endpoint,eid,type,writable
    hall_light,lamp_1,fd00::11,relay,1,bool,true

`device` and `endpoint` are the names by which state machines know them.
"""

from collections import defaultdict
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Final

import msgspec

from albireo.codec.hexabus.journal import DEVICES_MAX
from albireo.codec.hexabus.values import HexType
from albireo.codec.topology.adapter_kind import RowMistake
from albireo.field.item_cells import (
    ITEM_COLUMNS,
    ItemCells,
    dead_band_of,
    declared_item,
    is_item_name,
    within,
)
from albireo.machine.hexabus.endpoints import CONTROL, FAILED, PROGRAM, RECOVERY
from albireo.model.item import DataItem
from albireo.model.typed_number import whole_of
from albireo.model.value import ValueType

COLUMNS: Final = ("device", "address", "endpoint", "eid", "type", "groups", "original", *ITEM_COLUMNS)
RESERVED: Final = frozenset({CONTROL, PROGRAM, FAILED, RECOVERY, 254})
DEVICE_CHARS_MAX: Final = 58
"""The item `reset_NAME` has 64."""
EID_MAX: Final = 0xFFFF_FFFF
_TYPES: Final = {one.name.lower(): one for one in HexType if one not in (HexType.BYTES65, HexType.BYTES16)}
VALUE_TYPES: Final = {
    HexType.BOOL: ValueType.BOOL,
    HexType.FLOAT: ValueType.FLOAT64,
    HexType.STRING: ValueType.STRING,
}
"""Types of items; all others are whole numbers."""


class HexItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and where it is."""

    item: DataItem
    device: str
    """Name of the device."""
    host: str
    endpoint: str
    eid: int
    datatype: HexType
    dead_band: float = 0.0
    groups: frozenset[str] = frozenset()
    """Names of groups to which the device belongs, for state machines."""
    is_original: bool = False
    """The device runs the firmware of the original: it keeps no window of numbers, and can't be told with what to go
    on."""


def parse_row(row: Mapping[str, str], *, adapter: str = "") -> HexItem | list[RowMistake]:
    """The item of one row of the table, or all mistakes in the row."""
    cells = ItemCells(row)
    cells.know(COLUMNS)
    for column in ("device", "address", "endpoint", "eid", "type"):
        if not cells.text(column):
            cells.wrong(column, f"no {column}", f"every row needs one; columns: {', '.join(COLUMNS)}")
    datatype = cells.choice("type", _TYPES, HexType.BOOL)
    host = cells.read("address", _host, "", "write the IPv6 address of the device, as fd00::11")
    remedy = f"write the number of the endpoint, from 1 to {EID_MAX}"
    eid = cells.read("eid", lambda text: within(whole_of(text), 1, EID_MAX), 1, remedy)
    if eid in RESERVED:
        cells.wrong("eid", f"endpoint {eid} is for running the device", "leave it to the node")
    if not is_item_name(cells.text("device")) or len(cells.text("device")) > DEVICE_CHARS_MAX:
        cells.wrong("device", f"device is {cells.text('device')!r}", "write a name as of an item, shorter by 6")
    item = declared_item(cells, adapter, VALUE_TYPES.get(datatype, ValueType.INT64))
    dead_band, is_original = dead_band_of(cells), cells.truth("original") or False
    if cells.mistakes or item is None:
        return cells.mistakes
    return HexItem(
        item=item,
        device=cells.text("device"),
        host=host,
        endpoint=cells.text("endpoint"),
        eid=eid,
        datatype=datatype,
        dead_band=dead_band,
        groups=frozenset(cells.text("groups").split()),
        is_original=is_original,
    )


def _host(text: str) -> str:
    """Raises ValueError: it is no address of a host."""
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError(text) from error
    if address.is_multicast or address.is_unspecified or address.scope_id:
        raise ValueError(text)
    return str(address)


def table_of(rows: list[HexItem]) -> list[str]:
    """Rows that do not go together, in words; empty: all do."""
    found, hosts, places = [], dict[str, str](), set[tuple[str, int]]()
    kinds, names = defaultdict[str, set[bool]](set), defaultdict[str, set[str]](set)
    for one in rows:
        if hosts.setdefault(one.device, one.host) != one.host:
            found.append(f"device {one.device} has two addresses, {hosts[one.device]} and {one.host}")
        if (one.host, one.eid) in places:
            found.append(f"endpoint {one.eid} of {one.device} stands there twice")
        places.add((one.host, one.eid))
        kinds[one.device].add(one.is_original)
        names[one.host].add(one.device)
    if len(hosts) > DEVICES_MAX:
        found.append(f"{len(hosts):,} devices; a network has {DEVICES_MAX:,} at most")
    found += [f"{name} is an original in some rows only" for name, one in kinds.items() if len(one) > 1]
    found += [f"{host} is the address of {', '.join(sorted(one))}" for host, one in names.items() if len(one) > 1]
    return found
