"""A first topology as text: what `albireo topology new` writes.

The output is read back by `load_topology` without a mistake; comments tell what to change first.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

FIRST_COLUMNS: Final = (
    "name",
    "kind",
    "address",
    "type",
    "word_order",
    "scale",
    "unit",
    "dead_band",
    "hi",
    "lo",
    "writable",
    "states",
    "description",
)
"""Columns of a first table that a person completes: the most wanted ones, most of them still empty."""


class FirstAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """A device to begin with."""

    name: str
    kind: str
    keys: Mapping[str, str | int]
    """Keys of its kind, such as `url`."""
    items: str
    """File of the item table."""
    poll_ms: int = 1_000


def topology_text(cluster: str, node: str, adapters: Sequence[FirstAdapter]) -> str:
    """`topology.toml` with one node that watches its own machine and the given devices."""
    parts = [
        "# One node. Check after each change: albireo topology check",
        f"cluster = {_quoted(cluster)}  # Never change it: the stores carry it.",
        "",
        "[[node]]",
        f"id = {_quoted(node)}",
        "",
        "  [[node.adapter]]",
        '  name = "host"',
        '  kind = "host"  # The machine this node runs on: CPU, memory, disks, network, temperatures.',
    ]
    for adapter in adapters:
        parts += [
            "",
            "  [[node.adapter]]",
            f"  name = {_quoted(adapter.name)}",
            f"  kind = {_quoted(adapter.kind)}",
            *(f"  {key} = {_quoted(one) if isinstance(one, str) else one}" for key, one in adapter.keys.items()),
            f"  poll_ms = {adapter.poll_ms}",
            f"  items = {_quoted(adapter.items)}",
        ]
    return "\n".join(parts) + "\n"


def table_text(rows: Sequence[Mapping[str, str]], columns: Sequence[str] = FIRST_COLUMNS) -> str:
    """A CSV item table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's, which wants DEL escaped as well."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
