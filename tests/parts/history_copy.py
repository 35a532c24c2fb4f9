"""What tests of the copy between two histories share: two stores of one log, and a copy without links or threads."""

import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from albireo.codec.history import DAY_NS, FileKind
from albireo.codec.history_copy import GroupAsked, PieceAsked, Word, decode_word, encode_word
from albireo.codec.record import Audited, GapFound, Stream
from albireo.log.files import FileSystem
from albireo.machine.history.copy_events import (
    AskPeer,
    CountRefusal,
    Effect,
    EndHole,
    Event,
    Forget,
    HolesKnown,
    KeepGroup,
    PeerAnswered,
    StorePiece,
    TakeFile,
    Worked,
)
from albireo.machine.history.copy_pace import FROM_MEMBER, CopyConfig
from albireo.machine.history.copying import Copying, CopyPhase
from albireo.machine.history.giving import group_sent
from albireo.machine.history.sealing import merge_plan
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.value import ValueType
from albireo.node.history.copy_work import CopyWork, read_piece
from albireo.node.history.errors import FileRefused, HoleGone
from albireo.node.history.files import merging
from albireo.node.history.files.store import HistoryStore
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of, stored

Piece = bytes | memoryview
Tamper = Callable[[Word, Piece], tuple[Word, Piece] | None]
KINDS = (FileKind.SAMPLES, FileKind.GAPS, FileKind.EVENTS)


def some_days(blocks: int, days: int, seed: int = 1) -> MemoryLog:
    """In each block samples of several types, late rows among them, a gap and an audit entry: 23 records."""
    chance = random.Random(seed)
    log = MemoryLog()
    for block in range(blocks):
        now = DAY_ZERO + block * days * DAY_NS // blocks
        log.samples([(chance.randint(1, 3), now - chance.randint(0, 90) * SECOND, chance.random(), 0)] * 9, now)
        log.samples([(9, now + row, row - 5, 0) for row in range(11)], now, ValueType.INT64)
        log.samples([(8, now, "auto", 0)], now, ValueType.STRING)
        gap = GapFound(source="plc", reason="device_lost", from_ns=now, to_ns=now + SECOND)
        log.records(Stream.SAMPLES, [gap], now)
        log.records(Stream.AUDIT, [Audited(at_ns=now, user="u", action="write", subject="s")], now)
    return log


def source_of(data: Path, log: MemoryLog, seal_every: int = 2, node: str = "root") -> HistoryStore:
    """A history that has everything, sealed every so many blocks."""
    store, _ = HistoryStore.open(data, node)
    ends = [one.header.last_sequence for one in log.frames][4::5]
    for end in (*ends[seal_every - 1 :: seal_every], log.end):
        hot = hot_of(store)
        fill(hot, log, end)
        if hot.position > store.manifest.position:
            store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return store


def target_of(
    data: Path, log: MemoryLog, has_upto: int, begins_at: int, files: FileSystem | None = None
) -> HistoryStore:
    """A history that has the first `has_upto` records, and those from `begins_at` on: what lies between it lacks."""
    store, _ = HistoryStore.open(data, "root", files)
    hot = hot_of(store)
    fill(hot, log, has_upto)
    if hot.position > store.manifest.position:
        store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
        hot.drop(hot.content())
    for one in log.frames:
        if one.header.first_sequence >= begins_at:
            if not store.manifest.holes and not hot.content().holes:
                hot.lost(begins_at - 1, one.header)
            hot.take(one.header, one.body)
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    return store


def merge_once(store: HistoryStore, complete_to_ns: int | None = None, wall_ns: int = DAY_ZERO) -> bool:
    """The most useful merge, as the actor does it."""
    manifest = store.manifest
    gaps = {hole.gap for hole in manifest.holes}
    files = [entry for entry in manifest.files if entry.path not in gaps]
    plan = merge_plan(files, manifest.complete_to_ns if complete_to_ns is None else complete_to_ns)
    if plan is None:
        return False
    outputs = merging.merge_files(store, plan, manifest.generation + 1, threading.Event())
    store.replace(merging.inputs_listed(store, plan), outputs, wall_ns)
    return True


class Copy:
    """One life of the copying side, and what the other one answers."""

    def __init__(
        self, source: HistoryStore, target: HistoryStore, *, config: CopyConfig = FROM_MEMBER, is_final: bool = False
    ) -> None:
        """`is_final`: nobody is asked for what the source lacks."""
        self.source = source
        self.target = target
        self.is_final = is_final
        self.now = Instant(0)
        self.machine = Copying(0, config)
        self.refused: Counter[str] = Counter()
        self.asked: list[GroupAsked | PieceAsked] = []
        self.tamper: Tamper = lambda word, piece: (word, piece)
        """What becomes of an answer on its way; None: it is lost."""
        self.after: Callable[[Effect], object] = lambda effect: None
        """Called when an effect was carried out."""
        self._work = CopyWork(target, threading.Event())

    def run(self, within_ns: int = 3600 * SECOND) -> bool:
        """Until there is nothing to do (True), or time is over."""
        todo: deque[Event] = deque([self._holes()])
        until = self.now + within_ns
        while True:
            while todo:
                for effect in self.machine.step(todo.popleft(), self.now):
                    todo += self._perform(effect)
                    self.after(effect)
            if self.machine.phase is CopyPhase.RESTING:
                return True
            due = self.machine.deadline()
            assert due is not None, f"nothing follows {self.machine.phase}"
            if due > until:
                return False
            self.now = max(self.now, due)
            todo.append(TimePassed())

    def _holes(self) -> HolesKnown:
        return HolesKnown(self.target.manifest.holes, self.target.manifest.log_id)

    def _perform(self, effect: Effect) -> list[Event]:
        match effect:
            case AskPeer(word):
                return self._said(word)
            case StorePiece():
                return [self._worked(lambda: self._work.store_piece(effect))]
            case TakeFile():
                return [self._worked(lambda: self._work.take(effect))]
            case KeepGroup():
                return [*self._listed(lambda: self._work.keep(effect, DAY_ZERO))]
            case EndHole():
                return [*self._listed(lambda: self._work.end(effect, DAY_ZERO))]
            case Forget():
                self._work.forget()
                return []
            case CountRefusal(reason):
                self.refused[reason] += 1
                return []

    def _listed(self, work: Callable[[], None]) -> list[Event]:
        worked = self._worked(work)
        return [self._holes(), worked]

    def _worked(self, work: Callable[[], None]) -> Worked:
        try:
            work()
        except FileRefused as error:
            return Worked(error.fault)
        except HoleGone:
            return Worked("hole_gone")
        except OSError as error:
            return Worked(str(error.strerror), is_disk=True)
        return Worked()

    def _said(self, word: GroupAsked | PieceAsked) -> list[Event]:
        self.asked.append(word)
        heard = decode_word(encode_word(word))
        answer: Word
        piece: Piece = b""
        if isinstance(heard, GroupAsked):
            answer = group_sent(self.source.manifest, heard, is_final=self.is_final)
        else:
            assert isinstance(heard, PieceAsked)
            answer, piece = read_piece(self.source, heard)
        sent = self.tamper(decode_word(encode_word(answer)), piece)
        if sent is None:
            return []
        changed, piece = sent
        assert not isinstance(changed, GroupAsked | PieceAsked)
        return [PeerAnswered(changed, piece)]


def all_rows(store: HistoryStore, upto: int = 2**63) -> dict[FileKind, list[tuple[object, ...]]]:
    """Every row of every kind up to a sequence, in one order."""
    found: dict[FileKind, list[tuple[object, ...]]] = {}
    for kind in KINDS:
        rows = [row for table in stored(store.root, kind) for row in table.to_pylist() if row["sequence"] <= upto]
        found[kind] = sorted(tuple(map(str, row.values())) for row in rows)
    return found


def partial_sums(store: HistoryStore) -> tuple[int, int, float]:
    """Rows, good rows and total of all stored partials."""
    tables = stored(store.root, FileKind.PARTIALS)
    rows, good_rows, total = (
        sum(float(table.column(name).to_numpy().sum()) for table in tables) for name in ("rows", "good_rows", "total")
    )
    return int(rows), int(good_rows), round(total, 6)
