"""Access to a history from another process: its files, and its hot tail when the node runs.

It is that of the node itself, or of one below whose records lie in its log.

The hot tail is asked for first, the manifest read afterwards: rows sealed in between are in both, and are taken from
the files only, so no row is missing. Without a running node the files alone answer, and where its history is busy or
begins anew they do as well, with the items that CORE knows; `lacks` says so.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from albireo.client import NodeRefused, NodeUnreachable, connect
from albireo.codec.history import BELOW, ITEMS, NO_ITEM, FileKind, Manifest
from albireo.machine.history.declared import DeclaredItems, Row, item_row
from albireo.model.item import KnownItem, name_parts
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import ItemId
from albireo.node.history.below.folders import nodes_below, roots_of
from albireo.node.history.errors import HistoryRefused, UnknownItem, UnknownNode
from albireo.node.history.files import parquet
from albireo.node.history.files.hot import HotRows
from albireo.node.history.files.joined import JoinedStores, NodeStore
from albireo.node.history.files.store import FOLDER, read_manifest
from albireo.node.history.files.telling import AS_IT_IS, Telling
from albireo.node.history.query import StoredHistory
from albireo.runtime.directory import holder

HOT_TIMEOUT_S: Final = 2.0
AGAIN_S: Final = 0.25
"""Before a history is asked again that is begun anew."""
NOT_RUNNING: Final = "the node does not run: what is stored in files is shown"
NOT_IN_TIME: Final = (
    f"the history of the node has not answered in {HOT_TIMEOUT_S:g} s: what is stored in files is shown, and what came "
    "last may be missing; ask again"
)


class _HotAnswer(msgspec.Struct, kw_only=True):
    node: str
    """Node whose rows they are."""
    folders: list[str]
    """Names of the folders of its stores, that of the latest one last."""
    known_to_ns: int
    gaps: list[Row] = []
    items: list[Row] = []
    events: list[Row] = []


class HistoryAccess:
    """The history below a data directory."""

    def __init__(self, data: Path, node: str = "") -> None:
        """`node`: node below, by its id or the end of it; empty, or the node's own name: the node itself."""
        self._data = data
        self._node = node
        self.lacks = ""
        """Words for why only sealed rows are seen; empty: all are."""
        self._known: list[Row] = []
        """Items that are in no file, as CORE knows them."""
        self._tellings: dict[str, Telling] = {}
        """How each of several stores is told, by its folder, as it was last."""

    def reader(self, item_ids: Sequence[int] = (NO_ITEM,)) -> StoredHistory:
        """A reader that sees the hot tail of `item_ids` (default: only the list of items).

        Raises:
            HistoryDamaged: there is no manifest that can be used.
            HistoryRefused: the node runs and refuses to hand out so much.
            UnknownNode: there is no history of the node.
            AmbiguousNode: the name is the end of several.
        """
        return self._reader("history", item_ids)

    def event_reader(self) -> StoredHistory:
        """A reader that sees the hot tail's events.

        Raises:
            HistoryDamaged: as `reader`.
        """
        return self._reader("events")

    def item(self, name: str) -> Row:
        """An item by name.

        Raises:
            UnknownItem: there is none.
            HistoryDamaged: as `reader`.
        """
        try:
            return self.reader().item(name)
        except UnknownItem:
            if self.lacks != NOT_IN_TIME:
                raise
        try:
            with connect(self._data, is_pinned=True) as client:
                found = client.items(name)
        except NodeUnreachable as error:
            raise _not_answered(error.cause) from error
        known = [KnownItem(item_id=ItemId(one.item_id), node=name_parts(one.name)[0], item=one.item) for one in found]
        self._known = [item_row(one) for one in known]
        return self.reader().item(name)

    def _reader(self, what: str, item_ids: Sequence[int] = ()) -> StoredHistory:
        roots, own = self._roots(), self._data / FOLDER
        is_own = not self._node or roots == [own]
        asked = "" if is_own or not roots else roots[-1].name
        newest, names = self._ask(what, item_ids, asked)
        roots = [own] if is_own else [self._data / BELOW / name for name in names] or roots
        if not roots:
            if self.lacks == NOT_IN_TIME:
                raise _not_answered(NOT_IN_TIME)
            raise UnknownNode(self._node, nodes_below(self._data))
        asked = asked or roots[-1].name
        tails = [newest if one.name == asked else self._ask(what, item_ids, one.name)[0] for one in roots]
        stores = [self._store(*one, is_alone=len(roots) == 1) for one in zip(roots, tails, strict=True)]
        joined = JoinedStores(stores)
        self._tellings = dict(zip((one.name for one in roots), joined.tellings, strict=True))
        above = [tail.above(one.manifest.position) for one, tail in zip(stores, tails, strict=True)]
        declared = joined.declared if len(stores) > 1 else None
        return StoredHistory(joined.root, joined.manifest, joined.hot(above), declared)

    def _store(self, root: Path, newest: HotRows, *, is_alone: bool) -> NodeStore:
        """A store, with its items if there are others; one of a node below without a folder is all in memory yet."""
        is_there = root.exists() or root.name == FOLDER
        manifest = read_manifest(root) if is_there else Manifest(node=self._node)
        entries = [] if is_alone else manifest.of_kind(FileKind.ITEMS)
        rows = parquet.read(root, entries, ITEMS.names).to_pylist() if entries else []
        return NodeStore(root, manifest, DeclaredItems.of_rows(rows).with_news(newest.items))

    def _roots(self) -> list[Path]:
        """The folders that answer, as far as there are any."""
        try:
            return roots_of(self._data, self._node)
        except UnknownNode:
            return []

    def _ask(self, what: str, item_ids: Sequence[int], folder: str = "") -> tuple[HotRows, list[str]]:
        """The rows of a store that no file has, and the folders of all stores of the node."""
        own = self._tellings.get(folder, AS_IT_IS).own(item_ids)
        arguments: dict[str, Any] = {"node": self._node, "folder": folder} if self._node else {}
        arguments |= {"item_ids": list(own) or [NO_ITEM]} if item_ids else {}
        reply, ends = None, time.monotonic() + HOT_TIMEOUT_S
        while reply is None:
            if self.lacks:
                return HotRows(items=self._known), []
            try:
                with connect(self._data, is_pinned=True) as client:
                    reply = client.ask_parts(what, of="history", timeout_s=HOT_TIMEOUT_S, **arguments)
            except NodeRefused as error:
                raise HistoryRefused(error.refusal) from error
            except NodeUnreachable:
                if not holder(self._data):
                    self.lacks = NOT_RUNNING
                elif time.monotonic() >= ends:
                    self.lacks = NOT_IN_TIME
                else:
                    time.sleep(AGAIN_S)
        answer = msgspec.convert(reply.result, _HotAnswer)
        self._node = self._node and answer.node
        samples = pa.ipc.open_stream(pa.py_buffer(reply.raw[0])).read_all() if reply.raw else HotRows().samples
        rows = HotRows(
            samples=samples,
            gaps=answer.gaps,
            items=answer.items,
            events=answer.events,
            known_to_ns=answer.known_to_ns,
        )
        return rows, answer.folders


def _not_answered(cause: str) -> HistoryRefused:
    return HistoryRefused(Refusal(RefusalCode.NO_ANSWER, cause, "ask again; `albireo status -v` tells what is wrong"))
