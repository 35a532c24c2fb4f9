"""One origin: the history of a node below, as far as the envelopes in the own log bring it.

It is a history like the own one: a store and a hot tail, with ids, epochs and sequences of the origin. Two places
belong to it: `hot.position` in the origin's log, and `upto` in the own log, the last record that was looked at for it.
Seals write this history before the own manifest; after a crash between the two the own log comes again from an earlier
record, and whatever lies at or below `upto` there is passed over, forks included.
"""

from bisect import bisect_right
from typing import Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.history import BelowFolder, Enclosed, FileKind, Hole, Manifest, cut_hole
from albireo.codec.record import OriginGap
from albireo.machine.history.declared import Row
from albireo.model.position import BEGINNING, EPOCHS_MAX, EpochEntry, Position
from albireo.node.history.files.hot import HotContent, HotTail
from albireo.node.history.files.joined import begin_of
from albireo.node.history.files.store import HistoryStore

_NO_BRANCH: Final = 0
"""Branch id of an epoch that is known by its frames only."""


class OriginSeal(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One seal of one origin, for the writing thread."""

    origin: "OriginHistory"
    content: HotContent
    enclosed: Enclosed
    epochs: tuple[EpochEntry, ...]

    def write(self, now_ns: int) -> None:
        """Make it durable.

        Raises:
            OSError: of the disk; the history is as it was, or has its folder and nothing in it.
        """
        store, log_id = self.origin.store, self.origin.folder.log_id.hex()
        if store.manifest.generation == 0:
            start = msgspec.structs.replace(self.enclosed, upto=BEGINNING)
            store.establish(log_id, start, now_ns)
        store.seal(self.content, log_id, now_ns, self.epochs, self.enclosed)


class OriginHistory:
    """The history of one origin."""

    def __init__(self, folder: BelowFolder, store: HistoryStore) -> None:
        manifest = store.manifest
        found = manifest.enclosed
        self.folder = folder
        self.store = store
        self.enclosed = Enclosed(log_id="", index=0) if found is None else found
        """Place in the own log: `upto` is the last record that was looked at for this origin."""
        self.hot = HotTail(manifest.position, manifest.complete_to_ns, store.declared, folder.node)
        self.hot.names_gaps = all(one.is_settled for one in manifest.holes)
        self.may_lack = False
        """The own log has let go of records before they were taken: some may have been this origin's."""
        self._epochs = list(manifest.history)
        self._figures: tuple[Manifest, Row] | None = None

    @property
    def node(self) -> str:
        return self.folder.node

    @property
    def has_news(self) -> bool:
        """There is something to seal."""
        store = self.store.manifest
        is_sealed = store.enclosed is not None and store.enclosed.upto != BEGINNING  # Else it fell back to its begin.
        return self.hot.rows > 0 or self.hot.position != store.position or not is_sealed or self.lacks

    @property
    def lacks(self) -> bool:
        """Envelopes have to be taken again."""
        sealed = self.store.manifest.enclosed
        upto = BEGINNING if sealed is None else sealed.upto
        return upto < self.enclosed.refill_to

    def lies_in(self, log_id: bytes, index: int) -> None:
        """Take note of the log above, and of the origin's number there: with another log its places mean nothing."""
        if self.enclosed.log_id != log_id.hex():
            self.enclosed = Enclosed(log_id=log_id.hex(), index=index)
        elif self.enclosed.index != index:
            self.enclosed = msgspec.structs.replace(self.enclosed, index=index)

    def passes(self, position: Position) -> bool:
        """Look at a record of the log above; False: it was looked at before."""
        if position <= self.enclosed.upto:
            return False
        self.enclosed = msgspec.structs.replace(self.enclosed, upto=position)
        return True

    def refill(self, upto: Position) -> None:
        """Take note that a newer manifest was lost: what the log above holds up to there has to be taken again."""
        self.enclosed = msgspec.structs.replace(self.enclosed, refill_to=max(upto, self.enclosed.refill_to))

    def take(self, header: FrameHeader, body: bytes | memoryview) -> bool:
        """Take a frame of the origin; False: it is a repeat."""
        first = header.first_sequence
        if first <= self.hot.position.sequence:
            if self._epoch_of(first) in (header.epoch, 0):
                return False
            self.fork(Position(self._epoch_of(first - 1), first - 1))  # Its declaration got lost with an own branch.
        if self.may_lack:
            self.may_lack = False
            if first > self._unknown_from:
                self.hot.lost(first - 1, header, self._unknown_from)
                self.hot.names_gaps = False  # Until it begins anew: declarations may have gone too.
        if not self._epochs or self._epochs[-1].epoch != header.epoch:
            self._epochs = [*self._epochs[1 - EPOCHS_MAX :], EpochEntry(header.epoch, first, _NO_BRANCH)]
        return self.hot.take(header, body)

    def let_go(self, gap: OriginGap) -> None:
        """Take note that the origin let go of records before they were copied: the next one is that behind them."""
        unknown_from = self._unknown_from
        first = max(unknown_from, gap.first)
        whole = Hole(
            first_sequence=first,
            last_sequence=gap.sequence - 1,
            from_ns=gap.from_ns,
            to_ns=gap.to_ns,
            behind=Position(gap.epoch, gap.sequence),
            reason="let_go",
        )
        if first >= gap.sequence:
            return
        self.hot.names_gaps = False
        if self.may_lack and unknown_from < first:
            before = msgspec.structs.replace(cut_hole(whole, first - 1), first_sequence=unknown_from)
            from_ns = min(self.hot.complete_to_ns, gap.from_ns)
            self.hot.lack(msgspec.structs.replace(before, from_ns=from_ns, to_ns=gap.from_ns, reason="overflow"))
        self.may_lack = False
        self.hot.lack(whole)

    @property
    def _unknown_from(self) -> int:
        """First sequence of which nothing is known, not even that it is missing."""
        holes = (*self.store.manifest.holes, *self.hot.holes)
        return max((self.hot.position.sequence, *(one.last_sequence for one in holes))) + 1

    def fork(self, position: Position) -> None:
        """Take note that the origin's log went another way behind `position`."""
        if position.sequence >= self.hot.position.sequence:
            return
        self._epochs = [one for one in self._epochs if one.first_sequence <= position.sequence]
        self.hot.fork(position)

    def _epoch_of(self, sequence: int) -> int:
        """Epoch under which the origin wrote `sequence`, as far as its frames tell; 0: not known."""
        place = bisect_right(self._epochs, sequence, key=lambda one: one.first_sequence)
        return self._epochs[place - 1].epoch if place else 0

    def seal(self, taken_to: Position) -> OriginSeal:
        """A seal of all rows up to now. `taken_to`: last record of the own log that was looked at."""
        enclosed = msgspec.structs.replace(self.enclosed, upto=max(self.enclosed.upto, taken_to))
        return OriginSeal(origin=self, content=self.hot.content(), enclosed=enclosed, epochs=tuple(self._epochs))

    def figures(self) -> Row:
        """Figures for `stats`."""
        manifest = self.store.manifest
        if self._figures is None or self._figures[0] is not manifest:
            self._figures = manifest, figures_of(manifest)
        return {
            "node": self.node,
            "log_id": self.folder.log_id.hex(),
            "index": self.enclosed.index,
            "position": [self.hot.position.epoch, self.hot.position.sequence],
            "from_ns": begin_of(manifest, ()),
            "complete_to_ns": manifest.complete_to_ns,
            "known_to_ns": self.hot.complete_to_ns,
            **self._figures[1],
            "hot_rows": self.hot.rows,
            "unreadable_frames": self.hot.unreadable,
        }


def figures_of(manifest: Manifest) -> Row:
    """Numbers of files, rows and bytes that a manifest lists."""
    rows = dict.fromkeys(FileKind, 0)
    for entry in manifest.files:
        rows[entry.kind] += entry.rows
    return {
        "files": len(manifest.files),
        "rows": rows[FileKind.SAMPLES],
        "gaps": rows[FileKind.GAPS],
        "events": rows[FileKind.EVENTS],
        "size_bytes": sum(entry.size_bytes for entry in manifest.files),
    }
