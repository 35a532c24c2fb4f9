"""Which kinds of adapters there are, by name: the registry that the loader of topologies is handed.

The loader knows no adapter; a new one adds its line here and in `field/kinds.py`. Those of other distributions are
found by their entry point; what is wrong in their rows shows when they start.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points

from albireo.codec.topology.item_table import AdapterKind, AddressSpan, Judged, RowMistake
from albireo.field import ENTRY_POINTS
from albireo.field.modbus.items import COLUMNS, numbering_doubt, parse_row


def adapter_kinds() -> dict[str, AdapterKind]:
    """Every kind this installation can run."""
    foreign = {one.name: AdapterKind(needs_url=None, needs_items=False) for one in entry_points(group=ENTRY_POINTS)}
    return foreign | {
        "modbus": AdapterKind(columns=COLUMNS, judge=_judge_modbus),
        "host": AdapterKind(needs_url=False, needs_items=False),
    }


def _judge_modbus(cells: Mapping[str, str]) -> Judged | list[RowMistake]:
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
