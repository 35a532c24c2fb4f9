"""Declaration of the kind `modbus`."""

from collections.abc import Mapping
from typing import Final

from albireo.codec.topology.adapter_kind import AdapterKind, AddressSpan, Judged, RowMistake
from albireo.field.modbus.config import ModbusConfig
from albireo.field.modbus.items import COLUMNS, numbering_doubt, parse_row


def judge(cells: Mapping[str, str]) -> Judged | list[RowMistake]:
    """A row of an item table as the adapter understands it."""
    parsed = parse_row(cells)
    if isinstance(parsed, list):
        return parsed
    doubt = numbering_doubt(parsed)
    if parsed.bit is not None:
        return Judged(parsed.item, doubt=doubt, dead_band=parsed.dead_band)
    kind = "bits" if parsed.kind.is_bits else "registers"
    return Judged(
        parsed.item,
        AddressSpan(f"{parsed.kind.value} {kind} of unit {parsed.device_id}", parsed.address, parsed.words),
        doubt,
        parsed.dead_band,
    )


KIND: Final = AdapterKind(
    create="albireo.field.modbus.adapter:create", settings=ModbusConfig, columns=COLUMNS, judge=judge
)
