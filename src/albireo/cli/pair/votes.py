"""Promises of a voter as text: of a witness, or of a node that votes for pairs above it."""

from collections.abc import Iterator
from typing import Any

from albireo.cli.output import Shown, TextTable
from albireo.cli.place import MEMBERS


def votes_text(status: dict[str, Any]) -> Iterator[Shown]:
    """The promises to each pair."""
    columns = ("pair", "state", "promised", "holder", "epoch", "set", "lease left", "floor", "members", "refused")
    yield TextTable(columns, map(_row, status["pairs"]), title=status["voter"])
    for pair in status["pairs"]:
        if pair["lists_differ"]:
            yield f"{pair['node']}: the topology lists other voters than the members agreed on"
        if pair["store"]["is_damaged"]:
            yield f"{pair['node']}: its store is unreadable, so it votes for nobody until it is admitted again"
    strays = ", ".join(f"{count} {reason}" for reason, count in status["stray"].items() if count)
    if strays:
        yield f"not taken: {strays}"


def _row(pair: dict[str, Any]) -> tuple[object, ...]:
    record = pair["record"]
    names = [str(member["place"]).rpartition("[")[2].rstrip("]") for member in pair["members"]]
    seen = [
        f"{name} {'gone' if one['is_gone'] else 'connected' if one['connected'] else 'not connected'}"
        for name, one in zip(names, pair["members"], strict=True)
    ]
    return (
        pair["node"],
        pair["state"],
        "-" if record is None else pair["promised"],
        "-" if record is None else MEMBERS[record["holder"]],
        "-" if record is None else f"{record['epoch']}.{record['version']}",
        "-" if record is None else "+".join(MEMBERS[member] for member in record["members"]),
        f"{pair['lease_left_ms']} ms",
        ":".join(str(number) for number in pair["floor"]),
        ", ".join(seen) or "-",
        sum(pair["refused"].values()),
    )
