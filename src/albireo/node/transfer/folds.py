"""Folds on their way to a follower whose log begins anew: what the holder gives, and what becomes of it there.

    holder    asked for part 0 -> copies the folds as they stand at the commit position -> encodes them between turns
    follower  starts over -> takes part after part -> goes on from them -> its log reaches them -> snapshot: complete

Spec: design/pair.md, rule 6; ADR-0119.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from albireo.codec.pair_message import FoldsSent
from albireo.machine.fold.folds import Folds, joined
from albireo.machine.kernel.events import Restored
from albireo.machine.pair.events import SendFolds, StartOver, TakeFolds
from albireo.machine.pair.party import Party
from albireo.model.instant import MS, SECOND, Instant, LogTime
from albireo.model.position import BEGINNING, Position
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Link

PART_BYTES: Final = 1 << 20
"""Bytes of one message, about; one is under way at a time, so the live path keeps nearly all of the link."""
SNAPSHOT_AGAIN_NS: Final = SECOND

Slices = list[tuple[str, bytes]]


class FoldsGiven:
    """The holder's side: gives its folds to one session at a time."""

    def __init__(self, actor: ActorContext, core: LogAndFolds, own: Party, links: Sequence[Link]) -> None:
        self._actor = actor
        self._core = core
        self._own = own
        self._links = links
        self._for: tuple[int, int] = (0, 0)
        """Run and session for which the folds are; (0, 0): none."""
        self._position = BEGINNING
        self._log_time_ms = 0
        self._parts: list[bytes] = []
        self._wanted: SendFolds | None = None
        self._drawing: asyncio.Task[None] | None = None

    def asked(self, ask: SendFolds) -> None:
        """Send the part that is asked for, now or as soon as the folds are encoded."""
        if (ask.to_run, ask.session) != self._for:
            self.end()
            self._for = (ask.to_run, ask.session)
            root = self._core.root
            self._position, self._log_time_ms = root.folded_to, root.folds.log_time_ms
            self._drawing = self._actor.loop.create_task(self._draw(root.folds.snapshot_slices()))
            self._drawing.add_done_callback(self._drawn)
        self._wanted = ask
        self._answer()

    def end(self) -> None:
        """Let go of the folds: nobody waits for them any more."""
        if self._drawing is not None:
            self._drawing.cancel()
        self._for, self._parts, self._wanted, self._drawing = (0, 0), [], None, None

    async def _draw(self, slices: Iterable[tuple[str, bytes]]) -> None:
        for part in parts_of(slices):
            self._parts.append(part)
            await asyncio.sleep(0)

    def _drawn(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._actor.fail(f"folds for the other member: {type(error).__name__}: {error}")
            return
        self._drawing = None
        self._actor.log.info("folds_given", position=str(self._position), bytes=sum(map(len, self._parts)))
        self._answer()

    def _answer(self) -> None:
        ask, own = self._wanted, self._own
        if ask is None or self._drawing is not None or not 0 <= ask.part < len(self._parts):
            return
        self._wanted = None
        message = FoldsSent(
            **own.peer_head,
            to_run=ask.to_run,
            epoch=ask.epoch,
            session=ask.session,
            part=ask.part,
            parts=len(self._parts),
            position=self._position,
            log_time_ms=self._log_time_ms,
        )
        self._links[own.path].send(message, [self._parts[ask.part]])  # A part that no link takes is asked for again.


class FoldsTaken:
    """The follower's side: starts the log over, and takes the holder's folds."""

    def __init__(self, actor: ActorContext, core: LogAndFolds) -> None:
        self._actor = actor
        self._core = core
        self._slices: Slices = []
        self._position: Position | None = None
        """Position of the folds that were taken and are in no snapshot of this log yet; None: there are none."""
        self._again_at = Instant(0)

    def do(self, effect: StartOver | TakeFolds) -> None:
        if isinstance(effect, StartOver):
            self._start_over(effect)
            return
        try:
            self._take(effect)
        except (ValueError, KeyError, msgspec.DecodeError) as error:
            self._actor.fail(f"the holder's folds can't be used: {type(error).__name__}: {error}")

    def _start_over(self, effect: StartOver) -> None:
        """Put the log into quarantine, and forget what was known from it."""
        begin, core = effect.begin, self._core
        core.log.start_over(
            begin.position,
            begin.header_crc,
            LogTime(begin.log_time_ms * MS),
            history=effect.history,
            why="the other member's log begins later",
            node_ns=self._actor.wall_ns(),
        )
        self._slices, self._position = [], None
        core.tell(Restored(Folds(core.alarms), begin.position, has_folds=False))
        self._actor.log.warning("log_started_over", begin=str(begin.position))

    def _take(self, effect: TakeFolds) -> None:
        """Take one part; with the last part the folds are those of the holder."""
        sent = effect.message
        assert isinstance(sent.payload, bytes | memoryview)
        if sent.part == 0:
            self._slices = []
        self._slices += msgspec.msgpack.decode(sent.payload, type=Slices)
        if sent.part + 1 < sent.parts:
            return
        sections, self._slices = joined(self._slices), []
        folds = Folds.restore(sections, sent.log_time_ms, self._core.alarms)
        if self._core.private is not None:
            folds.elsewhere.took(sent.position.sequence, self._actor.wall_ns())
        self._core.tell(Restored(folds, sent.position))
        self._position = sent.position
        self._actor.log.info("folds_taken", position=str(sent.position))

    def is_completed(self, now: Instant) -> bool:
        """True once: a snapshot that a restart would go on from has the folds taken. Asks for one when it is time."""
        log, wanted = self._core.log, self._position
        if wanted is None or log.committed.sequence < wanted.sequence:
            return False
        if log.snapshot.sequence >= wanted.sequence and any(one.position >= wanted for one in log.load_snapshots()):
            self._position = None
            return True
        if now >= self._again_at:
            self._again_at = Instant(now + SNAPSHOT_AGAIN_NS)
            self._core.save_snapshot()
        return False


def parts_of(slices: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The slices encoded, PART_BYTES or a little more at a time; larger ones are divided."""
    group: Slices = []
    size = 0
    for name, one in slices:
        for start in range(0, max(1, len(one)), PART_BYTES):
            piece = one[start : start + PART_BYTES]
            group.append((name, piece))
            size += len(piece)
            if size >= PART_BYTES:
                yield msgspec.msgpack.encode(group)
                group, size = [], 0
    if group:
        yield msgspec.msgpack.encode(group)
