"""Merges of one history, one at a time, beside its seals; `machine.history.sealing` says which files to merge."""

import threading
from collections.abc import Callable

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
        self, actor: ActorContext, store: HistoryStore, threads: HistoryThreads, on_idle: Callable[[], object]
    ) -> None:
        """`on_idle`: called when a merge has ended and no other begins."""
        self.is_merging = False
        self.damaged: frozenset[str] = frozenset()
        """Files that could not be read: their day stays as it is."""
        self.abandon = threading.Event()
        self._actor = actor
        self._store = store
        self._threads = threads
        self._on_idle = on_idle

    def look(self) -> None:
        """Begin the most useful merge, if there is one and none is under way."""
        manifest = self._store.manifest
        gaps = {hole.gap for hole in manifest.holes}  # Gap files of holes are removed one by one.
        files = [entry for entry in manifest.files if entry.path not in gaps]
        plan = None if self.is_merging else merge_plan(files, manifest.complete_to_ns, self.damaged)
        if plan is None:
            return
        self.is_merging = True
        generation = manifest.generation + 1
        self._threads.merge(
            lambda: merging.merge_files(self._store, plan, generation, self.abandon),
            lambda outcome: self._merged(plan, outcome),
        )

    def _merged(self, plan: MergePlan, outcome: list[FileEntry] | Exception) -> None:
        if isinstance(outcome, Exception):
            self._failed(plan, outcome)
            return
        inputs, wall_ns = merging.inputs_listed(self._store, plan), self._actor.wall_ns()
        if {entry.path for entry in plan.inputs} - {entry.path for entry in inputs}:
            self._store.discard(outcome)  # The log went another way meanwhile.
            self._failed(plan, MergeAbandoned())
            return
        self._threads.write(
            lambda: self._store.replace(inputs, outcome, wall_ns),
            lambda result: self._replaced(plan, result),
        )

    def _replaced(self, plan: MergePlan, outcome: Manifest | Exception) -> None:
        if isinstance(outcome, Exception):
            self._failed(plan, outcome)
            return
        first = plan.inputs[0]
        self._actor.log.info(
            "files_merged", kind=str(plan.kind), day=first.day, files=len(plan.inputs), level=plan.level
        )
        self.is_merging = False
        if not self._actor.is_stopping:
            self.look()
        self._on_idle()

    def _failed(self, plan: MergePlan, error: Exception) -> None:
        """After an error of the disk a merge comes later; after a damaged file its day stays as it is, for a human to
        see."""
        if isinstance(error, HistoryError) and not isinstance(error, MergeAbandoned):
            self.damaged |= {entry.path for entry in plan.inputs}
            self._actor.log.error("history_damaged", reason=str(error))
        elif not isinstance(error, MergeAbandoned):
            self._actor.log.limited("merge_failed", "disk", reason=str(error))
        self.is_merging = False
        self._on_idle()
