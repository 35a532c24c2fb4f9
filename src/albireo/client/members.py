"""Addresses of the members of a pair, and the lines to both of them."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from albireo.model.instant import SECOND, Instant
from albireo.model.topology import NodeConfig
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineNews, Lines, LineTo


def members_of(node: NodeConfig) -> tuple[LineTo, LineTo]:
    """The client endpoints of both members, the primary's first.

    Raises:
        ValueError: the node is no pair.
    """
    if node.primary is None or node.backup is None:
        raise ValueError(f"{node.id} is no pair: its topology names no primary and backup")
    return (
        LineTo(node.primary.client, f"{node.id}[primary]"),
        LineTo(node.backup.client, f"{node.id}[backup]"),
    )


class OnLines:
    """A context manager around the lines to both members."""

    def __init__(self, members: Sequence[LineTo], keys: Keys | None) -> None:
        self._lines = Lines(members, keys)
        self._members = members

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._lines.close()

    def _news(self, due: Instant | None, until: Instant) -> list[LineNews]:
        """News of the lines; waits for them until `until` or `due`, when the machine wants to be told the time."""
        ends = until if due is None else min(until, due)
        return self._lines.wait(max(0, ends - boot_ns()) / SECOND)

    def _endpoints(self) -> str:
        return ", ".join(one.endpoint for one in self._members)
