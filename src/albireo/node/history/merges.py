"""Merges of this node's history and of those below, one at a time, beside the seals.

`machine.history.sealing` says which files to merge.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from albireo.codec.history import FileEntry, Manifest
from albireo.machine.history.sealing import MergePlan, merge_plan
from albireo.node.history.errors import HistoryError, MergeAbandoned
from albireo.node.history.files import merging
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import ActorContext


class Merges:
    """The merges, for the loop of the actor."""

    def __init__(
        self,
        actor: ActorContext,
        stores: Callable[[], Sequence[HistoryStore]],
        threads: HistoryThreads,
        on_idle: Callable[[], object],
    ) -> None:
        """
        Args:
            stores: all that there are now.
            on_idle: called when a merge has ended and no other begins.
        """
        self.is_merging = False
        self._damaged: dict[Path, frozenset[str]] = {}
        """Files that could not be read, by folder of their history: their day stays as it is."""
        self.abandon = threading.Event()
        self._actor = actor
        self._stores = stores
        self._looked_at: dict[Path, int] = {}
        """Generation of the manifest in which nothing was found to merge, by folder of the history."""
        self._threads = threads
        self._on_idle = on_idle

    def damaged_in(self, store: HistoryStore) -> frozenset[str]:
        """Files of a history that could not be read."""
        return self._damaged.get(store.root, frozenset())

    def look(self) -> None:
        """Begin the most useful merge of the first history that has one, if none is under way."""
        if self.is_merging:
            return
        for store in self._stores():
            manifest = store.manifest
            if self._looked_at.get(store.root) == manifest.generation:
                continue
            gaps = {hole.gap for hole in manifest.holes}  # Gap files of holes are removed one by one.
            files = [entry for entry in manifest.files if entry.path not in gaps]
            plan = merge_plan(files, manifest.complete_to_ns, self.damaged_in(store))
            if plan is not None:
                self._begin(store, plan, next(store.numbers))
                return
            self._looked_at[store.root] = manifest.generation

    def _begin(self, store: HistoryStore, plan: MergePlan, generation: int) -> None:
        self.is_merging = True
        self._threads.merge(
            lambda: merging.merge_files(store, plan, generation, self.abandon),
            lambda outcome: self._merged(store, plan, outcome),
        )

    def _merged(self, store: HistoryStore, plan: MergePlan, outcome: list[FileEntry] | Exception) -> None:
        if isinstance(outcome, Exception):
            self._failed(store, plan, outcome)
            return
        inputs, now_ns = merging.inputs_listed(store, plan), self._actor.now()
        if {entry.path for entry in plan.inputs} - {entry.path for entry in inputs}:
            store.discard(outcome)  # The log went another way meanwhile.
            self._failed(store, plan, MergeAbandoned())
            return
        self._threads.write(
            lambda: store.replace(inputs, outcome, now_ns),
            lambda result: self._replaced(store, plan, result),
        )

    def _replaced(self, store: HistoryStore, plan: MergePlan, outcome: Manifest | Exception) -> None:
        if isinstance(outcome, Exception):
            self._failed(store, plan, outcome)
            return
        first = plan.inputs[0]
        self._actor.log.info(
            "files_merged", kind=str(plan.kind), day=first.day, files=len(plan.inputs), level=plan.level
        )
        self.is_merging = False
        if not self._actor.is_stopping:
            self.look()
        self._on_idle()

    def _failed(self, store: HistoryStore, plan: MergePlan, error: Exception) -> None:
        """After an error of the disk a merge comes later; after a damaged file its day stays as it is, for a human to
        see."""
        if isinstance(error, HistoryError) and not isinstance(error, MergeAbandoned):
            self._damaged[store.root] = self.damaged_in(store) | {entry.path for entry in plan.inputs}
            self._actor.log.error("history_damaged", reason=str(error))
        elif not isinstance(error, MergeAbandoned):
            self._actor.log.limited("merge_failed", "disk", reason=str(error))
        self.is_merging = False
        self._on_idle()
