"""Access to a node's history from another process: its files, and its hot tail when the node runs.

The hot tail is asked for first, the manifest read afterwards: rows sealed in between are in both, and are taken from
the files only, so no row is missing. Without a running node the files alone answer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from albireo.client import NodeRefused, NodeUnreachable, connect
from albireo.machine.history.declared import Row
from albireo.node.history.errors import QueryRefused
from albireo.node.history.files.store import FOLDER, read_manifest
from albireo.node.history.hot import HotRows
from albireo.node.history.query import StoredHistory

HOT_TIMEOUT_S: Final = 3.0
NO_ITEM: Final = 0


class _HotAnswer(msgspec.Struct, kw_only=True):
    known_to_ns: int
    gaps: list[Row] = []
    items: list[Row] = []
    events: list[Row] = []


class HistoryAccess:
    """The history below a data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.is_live = True
        """False: the node did not answer; only sealed rows are seen."""

    def reader(self, item_ids: Sequence[int] = (NO_ITEM,)) -> StoredHistory:
        """A reader that sees the hot tail of `item_ids` (default: only the list of items).

        Raises:
            HistoryDamaged: there is no manifest that can be used.
            QueryRefused: the node runs and refuses to hand out so much.
        """
        newest = self._ask("history", item_ids=list(item_ids))
        manifest = read_manifest(self._data / FOLDER)
        return StoredHistory(self._data / FOLDER, manifest, newest.above(manifest.position))

    def event_reader(self) -> StoredHistory:
        """A reader that sees the hot tail's events.

        Raises:
            HistoryDamaged: as `reader`.
        """
        newest = self._ask("events")
        manifest = read_manifest(self._data / FOLDER)
        return StoredHistory(self._data / FOLDER, manifest, newest.above(manifest.position))

    def item(self, name: str) -> Row:
        """An item by name.

        Raises:
            UnknownItem: there is none.
            HistoryDamaged: as `reader`.
        """
        return self.reader().item(name)

    def _ask(self, what: str, **arguments: Any) -> HotRows:
        if not self.is_live:
            return HotRows()
        try:
            with connect(self._data, is_pinned=True) as client:
                reply = client.ask_parts(what, of="history", timeout_s=HOT_TIMEOUT_S, **arguments)
        except NodeRefused as error:
            raise QueryRefused(str(error)) from error
        except NodeUnreachable:
            self.is_live = False
            return HotRows()
        answer = msgspec.convert(reply.result, _HotAnswer)
        samples = pa.ipc.open_stream(pa.py_buffer(reply.raw[0])).read_all() if reply.raw else HotRows().samples
        return HotRows(
            samples=samples,
            gaps=answer.gaps,
            items=answer.items,
            events=answer.events,
            known_to_ns=answer.known_to_ns,
        )
