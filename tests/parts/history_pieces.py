"""Parts that tests share: pieces of any size."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from albireo.codec.questions.history import AnyPieceQuestion
from albireo.codec.record import Audited, EpochGranted, GapFound, ItemDeclared, Stream
from albireo.machine.history.sealing import merge_plan
from albireo.model import quality as q
from albireo.model.instant import SECOND
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.value import ItemId, ValueType
from albireo.node.history.files import merging
from albireo.node.history.files.chunks import samples_table
from albireo.node.history.files.hot import HotContent, HotRows
from albireo.node.history.files.joined import NodeStore
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.paging import AnswerPiece, PagedHistory
from albireo.node.history.query import StoredHistory
from tests.parts.history import DAY_ZERO, LOG_ID, MemoryLog, fill, hot_of

DAY_NS = 86_400 * SECOND


ITEMS = (1, 2, 5)


TEXT = 6


class MemberHistory:
    """The history of one member, which seals and merges when it likes."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.store, _ = HistoryStore.open(root, "root")
        self.hot = hot_of(self.store)
        self.chance = chance
        self.sealed: HotContent | None = None
        """Rows that are in a file and still in the hot tail."""

    def work(self, log: MemoryLog) -> None:
        """Take what is new; perhaps seal, perhaps merge."""
        fill(self.hot, log)
        if self.sealed is not None:
            self.hot.drop(self.sealed)
            self.sealed = None
        elif self.chance.random() < 0.5:
            self.sealed = self.hot.content()
            self.store.seal(self.sealed, LOG_ID.hex(), self.sealed.complete_to_ns)
        plan = merge_plan(self.store.manifest.files, self.hot.complete_to_ns + self.chance.choice([0, DAY_NS]))
        if plan is not None and self.chance.random() < 0.7:
            made = merging.merge_files(self.store, plan, self.store.manifest.generation + 1, threading.Event())
            self.store.replace(merging.inputs_listed(self.store, plan), made, self.hot.complete_to_ns)

    def piece(self, asked: AnyPieceQuestion) -> AnswerPiece:
        content = self.hot.content()
        return PagedHistory([NodeStore(self.store.root, self.store.manifest, self.store.declared)], [content]).piece(
            asked
        )

    def reader(self) -> StoredHistory:
        """The local reader, as `albireo history` has it."""
        content = self.hot.content()
        newest = HotRows(
            samples=samples_table(content.chunks),
            gaps=content.all_gaps,
            items=content.items,
            events=content.events,
            known_to_ns=content.complete_to_ns,
        )
        return StoredHistory(self.store.root, self.store.manifest, newest.above(self.store.manifest.position))


class Recorded:
    """A log, and the histories of two members that follow it each at a pace of its own."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = MemoryLog()
        self.members = [MemberHistory(tmp_path / name, random.Random(seed + 1 + at)) for at, name in enumerate("ab")]
        self.now = DAY_ZERO + DAY_NS - 600 * SECOND
        self._declare()
        for _ in range(self.chance.randint(3, 10)):
            self._block()
        for member in self.members:
            fill(member.hot, self.log)
        self.now += 301 * SECOND
        self.span = (DAY_ZERO + DAY_NS - 700 * SECOND, self.now - self.chance.randint(0, 300) * SECOND)

    def _declare(self) -> None:
        kinds = dict.fromkeys(ITEMS, ValueType.FLOAT64) | {TEXT: ValueType.STRING}
        declared = [
            ItemDeclared(item_id=ItemId(one), node="root", item=DataItem(name=f"i{one}", value_type=kind, adapter="p1"))
            for one, kind in kinds.items()
        ]
        self.log.records(Stream.STATE, list(declared), self.now)

    def _block(self) -> None:
        chance, log = self.chance, self.log
        rows, texts = [], []
        for _ in range(chance.choice([0, 3, 40])):
            self.now += chance.choice([0, 1, SECOND, 20 * SECOND])
            late = chance.randint(0, 900) * SECOND if chance.random() < 0.1 else 0
            quality = chance.choice([int(q.GOOD)] * 4 + [int(q.BAD_NO_COMMUNICATION), int(q.UNCERTAIN)])
            rows.append((chance.choice(ITEMS), self.now - late, float(chance.randint(-9, 9)), quality))
            if chance.random() < 0.3:
                texts.append((TEXT, self.now - late, "x" * chance.choice([0, 7, 400]), quality))
        if rows:
            log.samples(rows, self.now)
        if texts:
            log.samples(texts, self.now, ValueType.STRING)
        for _ in range(chance.choice([0, 2])):
            gap = GapFound(source=chance.choice(["p1", "p2"]), reason="lost", from_ns=self.now, to_ns=self.now + SECOND)
            log.records(Stream.SAMPLES, [gap], self.now)
            said = Audited(at_ns=self.now, user="u", action="a", subject="s", detail="d")
            log.records(Stream.AUDIT, [said] * chance.choice([1, 5]), self.now)
        if chance.random() < 0.3:
            self._cut_back()
        for member in self.members:
            if chance.random() < 0.7:
                member.work(log)

    def _cut_back(self) -> None:
        """The log goes another way: its last records get other ones with the same sequences, in the next epoch."""
        for member in self.members:
            fill(member.hot, self.log)
        keep = self.chance.randint(max(1, len(self.log.frames) - 2), len(self.log.frames))
        del self.log.frames[keep:]
        self.log.end = self.log.frames[-1].header.last_sequence
        self.log.epoch += 1
        at = Position(self.log.frames[-1].header.epoch, self.log.end)
        granted = EpochGranted(epoch=self.log.epoch, branch_id=1, node="root", reason="forced")
        self.log.records(Stream.CONTROL, [granted], self.now)
        for member in self.members:
            member.hot.fork(at)
            fill(member.hot, self.log)

    def pieces(self, ask: Callable[[str, int], AnyPieceQuestion]) -> tuple[list[pa.Table], list[int]]:
        """All pieces, each asked of either member, which seals and merges meanwhile."""
        following, found, complete = "", [], []
        while True:
            piece = self.chance.choice(self.members).piece(ask(following, self.chance.choice([1, 2, 7, 100])))
            found.append(piece.table)
            complete.append(piece.complete_to_ns)
            for member in self.members:
                if self.chance.random() < 0.4:
                    member.work(self.log)
            following = piece.next
            if not following:
                return found, complete
