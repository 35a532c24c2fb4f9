"""Answering: snapshots on their way to clients, in pieces, as fast as each of them takes it.

    waiting --room--> under way --all taken--> done
       |                 |  ^
       |                 +--+ a piece at a time; the next when the last was taken whole, or after a pause
       +-- too long      +---- gone, or nothing taken for too long

A snapshot is of one moment, and its end names the sequence number of that moment. Who asks again while it is under way
gets another one from the beginning: it may have connected anew, and lack the first pieces. Keys that it was sent before
and that are gone by then are published as deleted once more, above the new one's number.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.codec.chp import KTHXBAI, KeyValue
from albireo.machine.chp.mirror import Mirror
from albireo.model.instant import MS, SECOND, Instant, soonest

ANSWERED_MAX: Final = 32
"""Clients whose snapshots are under way at a time; each costs a list of references, and a full queue."""
WAITING_MAX: Final = 1_000
"""Clients that wait for theirs; a further one is not heard, and asks again."""
PIECE_MAX: Final = 250
"""Commands that one client is sent at a time."""
TURN_NS: Final = MS
"""Pause between two pieces for one client: others have their turn."""
PAUSE_NS: Final = 20 * MS
"""Time after which a client that took nothing more is tried again."""
PATIENCE_NS: Final = 10 * SECOND
"""Time after which a client is given up that took nothing, or whose turn did not come."""


class SnapshotPiece(msgspec.Struct, frozen=True):
    """Effect: send these to the client, in order, until it takes no more; how many is the next event (`PieceTaken`)."""

    client: bytes
    commands: list[KeyValue]


class _Wanted(msgspec.Struct):
    """A client waits for its snapshot."""

    subtree: bytes
    since: Instant
    sent: dict[bytes, None]
    """Keys that it was sent in a snapshot that did not come to its end."""


class _Snapshot(msgspec.Struct):
    """A snapshot under way."""

    entries: list[tuple[bytes, bytes]]
    end: KeyValue
    moved_at: Instant
    next: int = 0
    """Number of commands that were taken; the end is the last one."""
    tries_at: Instant | None = None
    """When the next piece goes out; None: one is out."""

    def piece(self) -> list[KeyValue]:
        sequence = self.end.sequence
        some = self.entries[self.next : self.next + PIECE_MAX]
        told = [KeyValue(key=key, sequence=sequence, value=value) for key, value in some]
        return told if len(some) == PIECE_MAX else [*told, self.end]

    @property
    def is_done(self) -> bool:
        return self.next > len(self.entries)


class Answering:
    """The machine."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._waiting: dict[bytes, _Wanted] = {}
        self._under_way: dict[bytes, _Snapshot] = {}
        self.done = self.given_up = 0
        """Numbers of snapshots that were taken to their end, and of those that were not."""

    def ask(self, client: bytes, subtree: bytes, now: Instant) -> bool:
        """A client wants what is below `subtree`; False: too many wait."""
        known = self._waiting.get(client)
        if known is None and len(self._waiting) >= WAITING_MAX:
            return False
        sent = {} if known is None else known.sent
        before = self._under_way.pop(client, None)
        if before is not None:
            self.given_up += 1
            sent.update((key, None) for key, _ in before.entries[: before.next])
        self._waiting[client] = _Wanted(subtree, now, sent)
        return True

    def taken(self, client: bytes, count: int, *, is_gone: bool, now: Instant) -> None:
        """The client took so many commands of its piece; `is_gone`: it is not there any more."""
        one = self._under_way.get(client)
        if one is None or one.tries_at is not None:
            return
        one.next += count
        if one.is_done:
            self.done += 1
            del self._under_way[client]
        elif is_gone:
            self._give_up([client])
        else:
            one.moved_at = now if count else one.moved_at
            one.tries_at = Instant(now + (TURN_NS if count == PIECE_MAX else PAUSE_NS))

    def give(self, now: Instant) -> list[SnapshotPiece]:
        """The pieces that are due; one snapshot more is begun if there is room."""
        self.expire(now)
        if self._waiting and len(self._under_way) < ANSWERED_MAX:
            client = next(iter(self._waiting))
            self._under_way[client] = self._begun(self._waiting.pop(client), now)
        due = [(key, one) for key, one in self._under_way.items() if one.tries_at is not None and one.tries_at <= now]
        for _, one in due:
            one.tries_at = None
        return [SnapshotPiece(client, one.piece()) for client, one in due]

    def expire(self, now: Instant) -> None:
        """Give up who has waited, or taken nothing, for too long."""
        self._give_up([key for key, one in self._under_way.items() if now - one.moved_at >= PATIENCE_NS])
        for client in [key for key, one in self._waiting.items() if now - one.since >= PATIENCE_NS]:
            del self._waiting[client]
            self.given_up += 1

    def deadline(self, *, is_giving: bool) -> Instant | None:
        """When `give` is due; or `expire`, if nothing is given now."""
        if not self._waiting and not self._under_way:
            return None
        has_turn = is_giving and len(self._under_way) < ANSWERED_MAX
        waiting = (Instant(one.since + (0 if has_turn else PATIENCE_NS)) for one in self._waiting.values())
        tried = (one.tries_at for one in self._under_way.values())
        patient = (Instant(one.moved_at + PATIENCE_NS) for one in self._under_way.values())
        return soonest(*waiting, *tried, *patient)

    def stop(self) -> None:
        """Give up what is under way: it is not known any more whether it is the present state."""
        self._give_up(list(self._under_way))

    def _begun(self, wanted: _Wanted, now: Instant) -> _Snapshot:
        end = KeyValue(key=KTHXBAI, sequence=self._mirror.sequence, value=wanted.subtree)
        self._mirror.delete_again(wanted.sent)
        return _Snapshot(self._mirror.below(wanted.subtree), end, now, tries_at=now)

    def _give_up(self, clients: Iterable[bytes]) -> None:
        for client in clients:
            del self._under_way[client]
            self.given_up += 1
