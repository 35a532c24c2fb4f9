"""Declaration of the kind `hexabus`."""

from collections.abc import Mapping
from typing import Final

from albireo.codec.topology.adapter_kind import AdapterKind, AddressSpan, Judged, RowMistake
from albireo.field.hexabus.config import HexabusConfig
from albireo.field.hexabus.items import COLUMNS, parse_row


def judge(cells: Mapping[str, str]) -> Judged | list[RowMistake]:
    """A row of an item table as the adapter understands it."""
    parsed = parse_row(cells)
    if isinstance(parsed, list):
        return parsed
    return Judged(parsed.item, AddressSpan(f"endpoints of {parsed.device}", parsed.eid, 1), dead_band=parsed.dead_band)


KIND: Final = AdapterKind(
    create="albireo.field.hexabus.adapter:create",
    settings=HexabusConfig,
    needs_url=False,
    columns=COLUMNS,
    judge=judge,
)
