"""The histories of all nodes below: what each record of the own log means for them.

    OriginDeclared      a history, kept from here on
    OriginForked        its log went another way: what it has above goes aside
    OriginGap           it let go of records before they were copied: a hole, which readers see as a gap
    an envelope         frames of one origin, taken in order; repeats are passed over

An origin is known by the id of its log, which every frame inside an envelope carries. A record that declares it can be
pruned before it is taken; then CORE is asked (`OriginUnknown`), and the envelope is taken again.

Spec: ADR-0186.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.history import BelowFolder, Manifest
from albireo.codec.record import Kind, OriginDeclared, OriginForked, OriginGap, Stream, decode_records
from albireo.codec.tree.envelope import open_envelope
from albireo.log.files import FileSystem, OsFileSystem
from albireo.machine.fold.origins import ORIGINS_MAX
from albireo.machine.history.declared import Row
from albireo.model.position import Position
from albireo.node.history.below.folders import age_of, folders_below, is_folder_of
from albireo.node.history.below.origin import OriginHistory, OriginSeal
from albireo.node.history.files.store import HistoryStore, OpenReport
from albireo.runtime import Journal


class BelowSeal(msgspec.Struct, frozen=True, eq=False):
    """Seals of all origins with news; `done` grows as they are written, so that none is written twice."""

    seals: Sequence[OriginSeal]
    done: list[OriginSeal]

    def write(self, now_ns: int) -> None:
        """Make them durable, one after another.

        Raises:
            OSError: of the disk; those in `done` are durable all the same.
        """
        for one in self.seals:
            one.write(now_ns)
            self.done.append(one)


class OriginUnknown(Exception):
    """An envelope is of an origin whose declaration was not seen."""


class HistoryBelow:
    """The histories, for the loop of the actor."""

    def __init__(self, data: Path, log: Journal, files: FileSystem | None = None) -> None:
        self._data = data
        self._log = log
        self._files = files or OsFileSystem()
        self._by_log: dict[bytes, OriginHistory] = {}
        self._opened: tuple[HistoryStore, ...] = ()
        self._wanted: set[bytes] = set()
        """Logs for whose node CORE is asked."""
        self._unknown: set[bytes] = set()
        """Logs of which CORE knows nothing either."""
        self.left_out = 0
        """Number of envelopes that could not be taken, and of declarations that were refused."""

    def open(self, own: Manifest) -> None:
        """Open the histories that are there; `remove_leftovers` comes next.

        Raises:
            OSError: of the disk.
        """
        opened: list[HistoryStore] = []
        for folder in folders_below(self._data):
            store, report = HistoryStore.open(self._data, folder.node, self._files, folder.path, with_leftovers=True)
            origin = self._by_log[folder.log_id] = OriginHistory(folder, store)
            opened.append(store)
            self._note(folder, report)
            if report.problem:
                origin.refill(own.position)
        self._opened = tuple(opened)

    def remove_leftovers(self) -> None:
        """Remove the files of unfinished work, in a thread: with years of days it takes a while."""
        for store in self._opened:
            store.remove_leftovers()

    def _note(self, folder: BelowFolder, report: OpenReport) -> None:
        if report.quarantine:
            self._log.error("history_moved_aside", folder=report.quarantine, reason=report.problem)
        elif report.problem:
            self._log.error(
                "manifest_damaged", folder=folder.path, reason=report.problem, remedy="went back to the one before"
            )

    def __iter__(self) -> Iterator[OriginHistory]:
        return iter(self._by_log.values())

    def __len__(self) -> int:
        return len(self._by_log)

    @property
    def rows(self) -> int:
        return sum(one.hot.rows for one in self)

    @property
    def size_bytes(self) -> int:
        return sum(one.hot.size_bytes for one in self)

    @property
    def has_news(self) -> bool:
        return any(one.has_news for one in self)

    @property
    def refill_from(self) -> Position | None:
        """Record of the own log behind which envelopes have to be taken again; None: there is no need."""
        return min((one.enclosed.upto for one in self if one.lacks), default=None)

    def of_node(self, node: str, log_id: bytes) -> list[OriginHistory]:
        """The histories of a node's stores, the latest one last; `log_id`: of the own log."""
        return sorted((one for one in self if one.node == node), key=lambda one: age_of(one.enclosed, log_id.hex()))

    def of_log(self, log_id: bytes) -> OriginHistory | None:
        return self._by_log.get(log_id)

    @property
    def nodes(self) -> list[str]:
        return sorted({one.node for one in self})

    def take(self, header: FrameHeader, body: bytes | memoryview) -> bool:
        """Look at a record of the own log; True: an origin forked, and is to be sealed now.

        Raises:
            OriginUnknown: CORE is to be asked.
            DecodeError: an envelope, or the rest of it, can't be read.
        """
        if header.kind == Kind.ENVELOPE:
            self._envelope(header, body)
        elif header.stream == Stream.CONTROL and header.kind == Kind.RECORDS:
            return self._control(header, body)
        return False

    def _control(self, header: FrameHeader, body: bytes | memoryview) -> bool:
        try:
            records = decode_records(body, header.record_count)
        except DecodeError:
            return False  # The own history says so.
        is_forked = False
        for number, record in enumerate(records):
            position = Position(header.epoch, header.first_sequence + number)
            match record:
                case OriginDeclared():
                    self.declare(record, header.log_id)
                case OriginForked(index=index):
                    origin = self._of_index(header.log_id, index)
                    if origin is not None and origin.passes(position):
                        origin.fork(Position(record.epoch, record.sequence))
                        is_forked = True
                case OriginGap(index=index):
                    origin = self._of_index(header.log_id, index)
                    if origin is not None and origin.passes(position):
                        origin.let_go(record)
        return is_forked

    def declare(self, record: OriginDeclared, log_id: bytes) -> None:
        """Keep a history of this origin from here on; `log_id`: of the own log."""
        origin = self._by_log.get(record.origin_log)
        if origin is None:
            if len(self) >= ORIGINS_MAX or not is_folder_of(record.node, record.origin_log):
                self.left_out += 1
                self._log.limited("origin_refused", record.node, node=record.node, known=len(self))
                return
            folder = BelowFolder(record.node, record.origin_log)
            store = HistoryStore(self._data / folder.path, Manifest(node=record.node), None, self._files)
            origin = self._by_log[record.origin_log] = OriginHistory(folder, store)
            origin.may_lack = True  # Its log begins with record 1.
        origin.lies_in(log_id, record.index)

    def _envelope(self, header: FrameHeader, body: bytes | memoryview) -> None:
        origin: OriginHistory | None = None
        for inner, content in open_envelope(header, body):
            if origin is None:
                origin = self._by_log.get(inner.log_id)
                if origin is None:
                    self._of_unknown(inner.log_id)
                    return
                assert header.origin is not None
                origin.lies_in(header.log_id, header.origin.node)
                if not origin.passes(header.last):
                    return
            if inner.log_id != origin.folder.log_id:
                raise DecodeError(0, f"a frame of another log in an envelope of {origin.node}")
            origin.take(inner, content)
        if origin is not None:  # Known is what was heard by the own clock, whatever the origin's says.
            origin.hot.complete_to_ns = min(origin.hot.complete_to_ns, header.node_ns)

    def _of_unknown(self, log_id: bytes) -> None:
        if log_id not in self._unknown and len(self._unknown) < ORIGINS_MAX:
            self._wanted.add(log_id)
            raise OriginUnknown
        self.left_out += 1
        self._log.limited("origin_unknown", log_id.hex(), log_id=log_id.hex())

    def told(self, origins: Sequence[OriginDeclared], log_id: bytes) -> None:
        """Take note of the origins that CORE knows; `log_id`: of the own log."""
        for record in origins:
            self.declare(record, log_id)
        self._unknown |= {one for one in self._wanted if one not in self._by_log}
        self._wanted.clear()

    def _of_index(self, log_id: bytes, index: int) -> OriginHistory | None:
        known = (one for one in self if (one.enclosed.log_id, one.enclosed.index) == (log_id.hex(), index))
        return next(known, None)

    def fell_behind(self, *, is_refill: bool) -> None:
        """Take note that the own log let go of records before they were taken.

        Args:
            is_refill: all were taken before, and were to be taken again for those that lost a manifest.
        """
        for one in self:
            one.may_lack |= one.lacks or not is_refill

    def begin_seal(self, taken_to: Position) -> BelowSeal:
        """`taken_to`: last record of the own log that was looked at."""
        return BelowSeal([one.seal(taken_to) for one in self if one.has_news], [])

    def sealed(self, seal: BelowSeal) -> None:
        """Forget the rows that have become durable."""
        for one in seal.done:
            one.origin.hot.drop(one.content)
        seal.done.clear()

    def figures(self) -> list[Row]:
        return [one.figures() for one in self]
