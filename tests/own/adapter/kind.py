"""Declaration of the kind `told`, with a setting of its own."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from albireo.codec.topology.adapter_kind import AdapterKind, Judged, RowMistake
from albireo.model.item import DataItem
from albireo.model.topology import AdapterConfig
from albireo.model.value import ValueType

COLUMNS = ("name", "type", "minimum", "maximum", "dead_band", "polled")
TYPES = {"float": ValueType.FLOAT64, "int": ValueType.INT64, "bool": ValueType.BOOL, "string": ValueType.STRING}


class ToldConfig(AdapterConfig, frozen=True):
    """`[[node.adapter]]` of kind `told`."""

    line_bytes_max: Annotated[int, Meta(ge=64, le=1 << 20)] = 1 << 16
    """Length of the longest line of the device."""


def judge(cells: Mapping[str, str]) -> Judged | list[RowMistake]:
    if cells.get("type") not in TYPES:
        return [RowMistake("type", f"no type {cells.get('type')!r}", f"write one of {', '.join(TYPES)}")]
    try:
        least, most = (float(cells[key]) if key in cells else None for key in ("minimum", "maximum"))
        width = float(cells.get("dead_band", "0"))
    except ValueError as error:
        return [RowMistake("", str(error), "write a number")]
    item = DataItem(name=cells["name"], value_type=TYPES[cells["type"]], minimum=least, maximum=most)
    return Judged(item, dead_band=width)


KIND = AdapterKind(create="tests.own.adapter.adapter:create", settings=ToldConfig, columns=COLUMNS, judge=judge)
