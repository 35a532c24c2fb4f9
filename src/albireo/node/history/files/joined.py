"""Joined stores: the histories of all stores of one node, read as one.

    new hardware under the name, a wiped disk  --> another log, whose ids and sequences begin anew
    a store that is restored from a backup     --> the log goes another way; rows of the branch that it left count too

An item is the same by its name. The latest store gives the ids; items that only earlier ones have are counted down from
the largest id. The sequences of each later store are told higher by STORE_SEQUENCES, so the order of records is one.
Between two stores nothing is known: a gap says where one ends and the next begins.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from albireo.codec.history import FileEntry, FileKind, Manifest
from albireo.machine.history.declared import VERSIONS_MAX, DeclaredItems, Row
from albireo.node.history.files.hot import HotRows
from albireo.node.history.files.telling import AS_IT_IS, JoinedFile, Telling

STORE_SEQUENCES: Final = 10**15
ITEM_ID_MAX: Final = 2**32 - 1


class NodeStore(msgspec.Struct, frozen=True, eq=False):
    """One store: its folder, its files, its items."""

    root: Path
    manifest: Manifest
    declared: DeclaredItems


class JoinedStores:
    """All stores of one node, the latest one last. One alone is told as it is."""

    def __init__(self, stores: Sequence[NodeStore]) -> None:
        *earlier, last = self._stores = stores
        self.root, self.manifest, self.declared = last.root, last.manifest, last.declared
        self.tellings = [AS_IT_IS] * len(stores)
        if self.manifest.enclosed is not None:  # Of a node below; what the own log left is in no answer (ADR-0170).
            self.manifest = msgspec.structs.replace(last.manifest, files=_files(last))
        if not earlier:
            return
        ids = {str(row["name"]): own for own, row in last.declared.items.items()}
        free, files = count(ITEM_ID_MAX, -1), list[FileEntry]()
        versions: dict[int, tuple[Row, ...]] = {}
        for number, store in enumerate(stores):
            items = store.declared.items.items()
            told = {own: ids[name] if (name := str(row["name"])) in ids else next(free) for own, row in items}
            ids |= {str(row["name"]): told[own] for own, row in items}
            telling = self.tellings[number] = Telling(number * STORE_SEQUENCES, None if store is last else told)
            for own, rows in store.declared.versions.items():
                before, mine = versions.get(telling.told(own), ()), tuple(telling.row(row) for row in rows)
                if before and before[-1]["valid_to_ns"] is None:
                    before = (*before[:-1], before[-1] | {"valid_to_ns": mine[0]["valid_from_ns"]})
                versions[telling.told(own)] = (*before, *mine)[-VERSIONS_MAX:]
            files += _told_files(store, telling)
        self.root, self.declared = last.root.parent, DeclaredItems(versions)
        complete_to_ns = max(one.manifest.complete_to_ns for one in stores)
        self.manifest = msgspec.structs.replace(last.manifest, files=tuple(files), complete_to_ns=complete_to_ns)

    def hot(self, tails: Sequence[HotRows]) -> HotRows:
        """The hot tails of the stores as one, with the gaps between stores."""
        if len(tails) == 1:
            return tails[0]
        told = list(zip(self.tellings, tails, strict=True))
        samples = pa.concat_tables([telling.table(one.samples) for telling, one in told])
        both = list(zip(self._stores, tails, strict=True))
        ends = [max(store.manifest.complete_to_ns, one.known_to_ns) for store, one in both]
        begins = [begin_of(store.manifest, one.events) for store, one in both]
        gaps = [  # A store that has no record yet neither ends nor begins.
            _gap(end, begin, number)
            for number, (end, begin) in enumerate(zip(accumulate(ends, max), begins[1:], strict=False), 1)
            if 0 < end < begin
        ]
        return HotRows(
            samples=samples.sort_by([(name, "ascending") for name in ("item_id", "source_ns", "sequence")]),
            gaps=gaps + [telling.row(row) for telling, one in told for row in one.gaps],
            events=[telling.row(row) for telling, one in told for row in one.events],
            known_to_ns=max(ends),
        )


def _files(store: NodeStore) -> tuple[FileEntry, ...]:
    return (*store.manifest.files, *store.manifest.cut_off)


def _told_files(store: NodeStore, telling: Telling) -> Iterator[JoinedFile]:
    for entry in _files(store):
        fields = {name: getattr(entry, name) for name in FileEntry.__struct_fields__}
        first, last = entry.first_sequence + telling.shift, entry.last_sequence + telling.shift
        fields |= {"path": f"{store.root.name}/{entry.path}", "first_sequence": first, "last_sequence": last}
        if entry.kind is not FileKind.ITEMS:
            yield JoinedFile(**fields, telling=telling)


def _gap(end_ns: int, begin_ns: int, number: int) -> Row:
    """Row of the gap between a store and the next one, the one with this number."""
    what: Row = {"source": "history", "reason": "other_store", "item_ids": [], "lost": None, "node_ns": begin_ns}
    return what | {"from_ns": end_ns, "to_ns": begin_ns, "epoch": 0, "sequence": number * STORE_SEQUENCES}


def begin_of(manifest: Manifest, newest: Sequence[Row]) -> int:
    """Node time of a store's first record, which is an event, by its files and its newest events; 0: not known."""
    entries = (one.min_source_ns for one in manifest.of_kind(FileKind.EVENTS))
    return min((*entries, *(int(str(row["at_ns"])) for row in newest)), default=0)
