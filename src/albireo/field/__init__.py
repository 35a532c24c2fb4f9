"""Adapters to the outside; one contract, one conformance suite."""

from typing import Final

ENTRY_POINTS: Final = "albireo.adapters"
"""Group under which another distribution offers adapters of its own: `kind = "module:create"`."""
