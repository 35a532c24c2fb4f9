"""Copying: how a history that lacks files gets them from another one, of the other member or of the node itself.

    hole known --> group asked --> piece asked --> stored --+--> taken --+--> kept --> the next older group
                       ^               ^------- more of it -+            |
                       |               ^----------- the next file -------+
                       +-- file gone: merged meanwhile, or it had a fault
    no group left --> missed ones once more --> the hole ends, and its gap with it

A group is all rows of one kind, day and node. Merges at the source make other files of a group and move no row out of
it; so the progress of a copy is the name of one group, and a restart goes on there.

The history of a node below is copied from the one that the node itself keeps, with its declared items. What that one
lacks for now, because it is copied there, is a hole of its own here, and is asked for until it is there.

Not done here: files, manifest, links (the shell); checks of the answers (machine.history.judging).

Invariants
    at most one thing is under way: a question, or a work of the shell that ends with `Worked`.
    kept:  a group is listed whole, by the same manifest that moves the hole's progress past it: no row comes twice.
    pace:  fetching takes at most RATE_BYTES_PER_S, and 1 / SHARE of the time, however slow the link is.

Spec: ADR-0124, ADR-0218; design/pair.md, rule 6; design/tree.md, Retention.
"""

from enum import Enum
from typing import Final, assert_never

import msgspec

from albireo.codec.history import FileEntry, Hole
from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent
from albireo.codec.pair_message import CopyTold
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
from albireo.machine.history.copy_pace import FROM_MEMBER, CopyConfig, CopyPace
from albireo.machine.history.judging import group_fault, holes_left, parted
from albireo.model.instant import SECOND, Instant, TimePassed

PAUSE_MIN_NS: Final = 5 * SECOND
PAUSE_MAX_NS: Final = 600 * SECOND
"""Bounds of the pause after a failure; it doubles each time."""
ATTEMPTS_MAX: Final = 2
"""Attempts at one group; then the group is put aside for later."""
GONE_MAX: Final = 3
"""Times a file of a group may be gone before the next try has to wait."""
MISSED_MAX: Final = 1_000
HOLES_MAX: Final = 2_000
"""Most holes that come of cutting larger ones: each is a file, and a source may tell of any number of parts."""


class CopyPhase(Enum):
    RESTING = "resting"
    WAITING = "waiting"
    ASKING = "asking"
    PACING = "pacing"
    FETCHING = "fetching"
    STORING = "storing"
    TAKING = "taking"
    KEEPING = "keeping"
    ENDING = "ending"


LISTING: Final = frozenset({CopyPhase.KEEPING, CopyPhase.ENDING})
WORKING: Final = frozenset({CopyPhase.STORING, CopyPhase.TAKING}) | LISTING


class Copying:
    """The machine; one per run of a history. `number`: drawn by the shell; late answers to an earlier run differ."""

    def __init__(self, number: int, config: CopyConfig = FROM_MEMBER) -> None:
        self.phase = CopyPhase.RESTING
        self.trouble = ""
        self._config = config
        self._silence = f"{config.source} does not answer"
        self._turn = 0
        """Number of holes, the newest first, that were left for later."""
        self._link = CopyPace(config)
        self._number = number
        self._holes: tuple[Hole, ...] = ()
        self._log_id = ""
        self._hole: Hole | None = None
        self._is_retrying = False
        """Every group was looked at; the missed ones are tried again."""
        self._retry_at = 0
        """Index of the missed group that is tried."""
        self._group = ""
        self._entries: tuple[FileEntry, ...] = ()
        self._index = 0
        self._offset = self._piece_bytes = 0
        self._files = self._left = self._attempts = self._gone = 0
        self._pause_ns = PAUSE_MIN_NS
        self._due: Instant | None = None
        self._out: list[Effect] = []

    @property
    def progress(self) -> CopyTold:
        hole = self._hole
        if hole is None:
            return CopyTold()
        done = self._files - self._left + self._index - len(hole.missed)
        return CopyTold(is_incomplete=True, files=self._files, done=max(0, done), trouble=self.trouble)

    def deadline(self) -> Instant | None:
        return self._due

    def step(self, event: Event, now: Instant) -> list[Effect]:
        out: list[Effect] = []
        self._out = out
        match event:
            case HolesKnown(holes, log_id):
                self._holes, self._log_id = tuple(one for one in holes if not one.is_settled), log_id
                if self.phase is CopyPhase.RESTING:
                    self._ask_group(now)
                elif self._is_stale and self.phase not in WORKING:
                    self._begin_anew(now)
            case PeerAnswered(word, piece):
                self._heard(word, piece, now)
            case Worked(fault, is_disk):
                self._worked(fault, is_disk, now)
            case TimePassed():
                self._time_passed(now)
            case _:
                assert_never(event)
        return out

    def _time_passed(self, now: Instant) -> None:
        if self._due is None or now < self._due:
            return
        match self.phase:
            case CopyPhase.WAITING:
                self._ask_group(now)
            case CopyPhase.ASKING:
                self.trouble = self._silence
                self._ask_group(now)
            case CopyPhase.FETCHING:
                self.trouble = self._silence
                self._link.pieces.slowed()
                self._ask_piece(now)
            case CopyPhase.PACING:
                self._ask_piece(now)
            case _:
                raise AssertionError(f"a deadline while {self.phase}")

    @property
    def _is_stale(self) -> bool:
        """The hole is not listed any more: the log went another way."""
        hole = self._hole
        return hole is not None and all(one.gap != hole.gap for one in self._holes)

    def _begin_anew(self, now: Instant) -> None:
        self._out.append(Forget())
        self._ask_group(now)

    def _ask_group(self, now: Instant) -> None:
        """Ask for the next group of the newest hole that was not left for later; rest if there is no hole."""
        hole = self._holes[-1 - self._turn % len(self._holes)] if self._holes else None
        if hole is None or self._hole is None or hole.gap != self._hole.gap:
            self._is_retrying, self._retry_at, self._files, self._left = False, 0, 0, 0
        self._hole = hole
        self._entries, self._index = (), 0
        if hole is None:
            self._go(CopyPhase.RESTING, None)
            self.trouble = ""
            return
        self._number += 1
        self._go(CopyPhase.ASKING, Instant(now + self._config.answer_ns))
        self._out.append(
            AskPeer(
                GroupAsked(
                    number=self._number,
                    log_id=self._log_id,
                    first_sequence=hole.first_sequence,
                    last_sequence=hole.last_sequence,
                    before=self._before(hole),
                    is_exact=self._is_exact(hole),
                    missed=len(hole.missed),
                    node=self._config.node,
                )
            )
        )

    def _is_exact(self, hole: Hole) -> bool:
        return self._is_retrying and bool(hole.missed)

    def _before(self, hole: Hole) -> str:
        return hole.missed[self._retry_at % len(hole.missed)] if self._is_exact(hole) else hole.upto

    def _group_sent(self, sent: GroupSent, now: Instant) -> None:
        hole = self._hole
        assert hole is not None, "asked"
        if sent.reason:
            self._wait(f"{self._config.source} says {sent.reason[:40]}", now)
            return
        before, is_exact, node = self._before(hole), self._is_exact(hole), self._config.node
        fault = group_fault(sent, hole, self._log_id, before, is_exact=is_exact, node=node) if sent.group else ""
        left = self._lacking(hole, sent)
        if fault or left is None:
            self._refuse(fault or "wrong_holes")
            self._wait(fault or "wrong_holes", now)
            return
        open_parts = [one for one in left if not one.is_settled]
        if open_parts and not hole.upto and not is_exact:
            self._source_lacks(hole, open_parts, now)
            return
        self._files, self._left = max(0, sent.files), max(0, sent.left)
        if not sent.group:
            self._none_left(hole, left, now)
            return
        if sent.group != self._group:
            self._attempts = 0
        self._group, self._entries, self._index = sent.group, sent.entries, 0
        self._begin_file(now)

    def _lacking(self, hole: Hole, sent: GroupSent) -> list[Hole] | None:
        """Parts of the hole that the other history lacks; what the other member lacks stays missing for good."""
        left = holes_left(hole, sent.holes)
        if left is None or self._config.node:
            return left
        return [msgspec.structs.replace(one, is_settled=True) for one in left]

    def _source_lacks(self, hole: Hole, open_parts: list[Hole], now: Instant) -> None:
        """The source lacks parts for now: the others are copied, and these once they are there."""
        one, parts = open_parts[0], tuple(parted(hole, open_parts))
        is_whole = (one.first_sequence, one.last_sequence) == (hole.first_sequence, hole.last_sequence)
        if not is_whole and len(self._holes) + len(parts) <= HOLES_MAX:
            self._go(CopyPhase.ENDING, None)
            self._out.append(EndHole(hole, parts))
            return
        self._turn += 1
        if self._turn % len(self._holes):
            self._ask_group(now)
        else:
            self._wait(f"{self._config.source} lacks it too, for now", now)

    def _none_left(self, hole: Hole, left: list[Hole], now: Instant) -> None:
        """Every group was looked at, or a missed group is no more."""
        if self._is_exact(hole):
            self._group = self._before(hole)
            self._keep(self._passed(hole))
        elif hole.missed:
            self._is_retrying, self._retry_at = True, 0
            self._wait(self.trouble, now)
        else:
            self._go(CopyPhase.ENDING, None)
            self._out.append(EndHole(hole, tuple(left)))

    def _keep(self, after: Hole) -> None:
        assert self._hole is not None
        self._go(CopyPhase.KEEPING, None)
        self._out.append(KeepGroup(self._hole, after))

    def _passed(self, hole: Hole) -> Hole:
        """The hole once the group under way is done."""
        if self._is_exact(hole):
            missed = tuple(one for one in hole.missed if one != self._group)
            return msgspec.structs.replace(hole, missed=missed)
        return msgspec.structs.replace(hole, upto=self._group)

    def _failed(self, fault: str, now: Instant) -> None:
        """A file of this group has a fault: try once more, then later."""
        hole = self._hole
        assert hole is not None
        self._refuse(fault)
        self.trouble = f"{fault}: {self._entries[self._index].path}"
        self._out.append(Forget())
        self._attempts += 1
        if self._is_exact(hole):
            self._retry_at += 1
            if self._retry_at % len(hole.missed) == 0:
                self._wait(self.trouble, now)
            else:
                self._ask_group(now)
        elif self._attempts < ATTEMPTS_MAX:
            self._ask_group(now)
        elif len(hole.missed) < MISSED_MAX:
            self._keep(msgspec.structs.replace(hole, upto=self._group, missed=(*hole.missed, self._group)))
        else:
            self._wait(self.trouble, now)

    def _begin_file(self, now: Instant) -> None:
        self._offset = 0
        self._pace(now)

    def _pace(self, now: Instant) -> None:
        if now >= self._link.free_at:
            self._ask_piece(now)
        else:
            self._go(CopyPhase.PACING, self._link.free_at)

    def _ask_piece(self, now: Instant) -> None:
        self._number += 1
        self._link.asked(now)
        self._go(CopyPhase.FETCHING, Instant(now + self._config.answer_ns))
        path, size_bytes = self._entries[self._index].path, self._link.pieces.size
        ask = PieceAsked(number=self._number, path=path, offset=self._offset, size_bytes=size_bytes)
        self._out.append(AskPeer(ask))

    def _heard(self, word: GroupSent | PieceSent, piece: bytes | memoryview, now: Instant) -> None:
        if word.number != self._number:
            return  # A late answer: the question was asked again.
        if self.trouble == self._silence:
            self.trouble = ""
        if isinstance(word, GroupSent) and self.phase is CopyPhase.ASKING:
            self._group_sent(word, now)
        elif isinstance(word, PieceSent) and self.phase is CopyPhase.FETCHING:
            self._piece_sent(word, piece, now)
        else:
            self._refuse("unasked")

    def _piece_sent(self, sent: PieceSent, piece: bytes | memoryview, now: Instant) -> None:
        entry = self._entries[self._index]
        if (sent.path, sent.offset) != (entry.path, self._offset):
            self._refuse("other_piece")  # As if no answer had come: the piece is asked for again.
        elif sent.reason == "gone":
            self._file_gone(now)
        elif sent.reason:
            self._failed("unreadable_there", now)
        elif len(piece) != min(self._link.pieces.size, entry.size_bytes - self._offset):
            self._failed("wrong_length", now)
        else:
            self._link.carried(len(piece), now)
            self._piece_bytes = len(piece)
            self._go(CopyPhase.STORING, None)
            self._out.append(StorePiece(self._offset, piece))

    def _file_gone(self, now: Instant) -> None:
        """A merge replaced the file: files that are listed now have its rows."""
        self._out.append(Forget())
        self._gone += 1
        if self._gone > GONE_MAX:
            self._wait("its files change faster than they come", now)
        else:
            self._ask_group(now)

    def _worked(self, fault: str, is_disk: bool, now: Instant) -> None:
        assert self.phase in WORKING, f"worked while {self.phase}"
        if is_disk:
            self._out.append(Forget())
            self._wait(f"the disk here: {fault}", now)
        elif fault and self.phase in LISTING:
            self._refuse(fault)
            self._begin_anew(now)
        elif self._is_stale and self.phase not in LISTING:
            self._begin_anew(now)
        elif fault:
            self._failed(fault, now)
        elif self.phase is CopyPhase.STORING:
            self._stored(now)
        elif self.phase is CopyPhase.TAKING:
            self._taken(now)
        else:
            self._kept(now)

    def _kept(self, now: Instant) -> None:
        """The change is in the manifest, and `HolesKnown` has told its holes."""
        self._attempts = self._gone = self._turn = 0
        self._pause_ns = PAUSE_MIN_NS
        self._left = max(0, self._left - len(self._entries))
        if self.phase is CopyPhase.ENDING:
            self._hole = None
        if not any(one.missed for one in self._holes):
            self.trouble = ""
        self._ask_group(now)

    def _stored(self, now: Instant) -> None:
        entry = self._entries[self._index]
        self._offset += self._piece_bytes
        if self._offset < entry.size_bytes:
            self._pace(now)
            return
        assert self._hole is not None
        self._go(CopyPhase.TAKING, None)
        self._out.append(TakeFile(entry, self._hole))

    def _taken(self, now: Instant) -> None:
        assert self._hole is not None
        self._index += 1
        if self._index < len(self._entries):
            self._begin_file(now)
        else:
            self._keep(self._passed(self._hole))

    def _go(self, phase: CopyPhase, due: Instant | None) -> None:
        self.phase, self._due = phase, due

    def _wait(self, trouble: str, now: Instant) -> None:
        self.trouble = trouble
        self._go(CopyPhase.WAITING, Instant(now + self._pause_ns))
        self._pause_ns = min(2 * self._pause_ns, PAUSE_MAX_NS)

    def _refuse(self, reason: str) -> None:
        self._out.append(CountRefusal(reason))
