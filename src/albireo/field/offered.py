"""Kinds of adapters that this installation has, by name.

A kind is declared in the folder of its adapter (`kind.py`, codec/topology/adapter_kind.py). The loader of topologies is
handed all of them, so nothing here needs what an adapter needs (numpy, the library of a protocol).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.runtime.kind_offers import KindOffers

ENTRY_POINTS: Final = "albireo.adapters"
"""Group under which another distribution offers kinds of adapters: `kind = "module:KIND"`, an AdapterKind."""
_OWN: Final = {
    "modbus": "albireo.field.modbus.kind:KIND",
    "hexabus": "albireo.field.hexabus.kind:KIND",
    "host": "albireo.field.host.kind:KIND",
}


class KnownKinds(Mapping[str, AdapterKind]):
    """Kinds by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._offers = KindOffers(ENTRY_POINTS, AdapterKind, _OWN)

    def __getitem__(self, name: str) -> AdapterKind:
        found = self._offers.load(name)
        if isinstance(found, AdapterKind):
            return found
        if name not in self._offers.names():
            raise KeyError(name)
        return AdapterKind(trouble=found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._offers.names())

    def __len__(self) -> int:
        return len(self._offers.names())
