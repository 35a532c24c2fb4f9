"""Adapters to the outside; one contract, one conformance suite."""

from typing import Final

ENTRY_POINTS: Final = "albireo.adapters"
"""Group under which another distribution offers kinds of adapters: `kind = "module:KIND"`, an AdapterKind."""
