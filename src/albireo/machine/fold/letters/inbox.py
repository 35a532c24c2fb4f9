"""Inbox: the fold of what others want of this node.

    (fetched) --accepted--> carried out once --done--> row with its end, receipt --low passes--> receipt
    (over)    --refused---> row that says never        --low passes--> nothing, because it is told no more

At most once rests on numbers: an accepted number is remembered until its origin has said on record that it knows the
outcome, and from then on the origin does not let its body leave.

Invariants
    row:      one for each number that was accepted or refused and that `low` has not passed, or that is not done.
    receipt:  one for each message that is done, bounded by age and count. Numbers whose receipt is forgotten are known
              as such (`had_perhaps`), so that `never` is not said of them.

Spec: docs/messages.md; ADR-0183.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from albireo.codec.message_records import (
    LowTold,
    MessageAccepted,
    MessageDone,
    MessageEnd,
    MessageLeased,
    MessageRefused,
)
from albireo.codec.slices import SLICE_ROWS, list_slices, read_slices, sliced, unsliced
from albireo.machine.fold.letters.outbox import MessageReceipt, MessageReceipts, asked_of
from albireo.model.instant import MS, LogTime
from albireo.model.tree.message import Life, MessageName

LIVES_MAX: Final = 64
"""Most lives of one origin with rows; the oldest without unfinished work goes first."""
MARKS_MAX: Final = 64
"""Most marks of inboxes without rows, of one life; the oldest goes first."""


class InboxRow(msgspec.Struct, kw_only=True):
    """One number that was accepted or refused."""

    name: MessageName
    accepted: MessageAccepted | None = None
    """None: refused, or done, after which the body is not needed."""
    guid: str = ""
    end: MessageEnd | None = None
    accepted_at: int = 0
    """Log time at which it was accepted, ns."""
    lease: int = 0
    """Number of the last lease; 0: no receiver had it."""

    def left_ms(self, log_time: int, wall_ns: int) -> int:
        """Time until its deadline by log time or by the wall clock, whichever comes first; 0 or less: it is over."""
        assert self.accepted is not None
        passed_ns = max(log_time - self.accepted_at, wall_ns - self.accepted.accepted_ns, 0)
        return self.accepted.left_ms - -(-passed_ns // MS)

    @property
    def is_refused(self) -> bool:
        return not self.guid

    @property
    def is_unfinished(self) -> bool:
        return self.accepted is not None


class OriginLife(msgspec.Struct, kw_only=True):
    """One life of an origin."""

    lows: dict[str, int] = {}
    """Mark of each inbox; orders have the one without a name."""
    pruned_to: int = 0
    """Highest number whose receipt is forgotten."""
    numbers: list[tuple[int, str]] = []
    """Number and inbox of each of its rows."""


class KnownOrigin(msgspec.Struct, kw_only=True):
    """Origin as this node's log knows it."""

    lives: list[tuple[Life, OriginLife]] = []
    forgotten_epoch: int = 0
    """Highest epoch of a life of which something is forgotten and that has no entry in `lives` any more."""

    def of(self, life: Life) -> OriginLife | None:
        return next((found for one, found in self.lives if one == life), None)


def _names(name: MessageName, life: Life, found: OriginLife) -> list[MessageName]:
    """Names of the rows of a life; both ends are those of `name`."""
    return [MessageName(name.origin, name.owner, life, number, inbox) for number, inbox in found.numbers]


class _InboxHead(msgspec.Struct, frozen=True, array_like=True):
    origins: dict[str, KnownOrigin]
    receipts: int


class InboxFold:
    """The fold."""

    def __init__(self) -> None:
        self.origins: dict[str, KnownOrigin] = {}
        self.rows: dict[MessageName, InboxRow] = {}
        self.receipts = MessageReceipts()

    def fold_accepted(self, record: MessageAccepted, log_time: LogTime) -> None:
        self._add(InboxRow(name=record.name, accepted=record, guid=record.guid, accepted_at=log_time))

    def fold_refused(self, record: MessageRefused) -> None:
        if record.name not in self.rows:
            self._add(InboxRow(name=record.name))

    def _add(self, row: InboxRow) -> None:
        origin = self.origins.setdefault(row.name.origin, KnownOrigin())
        life = origin.of(row.name.life)
        if life is None:
            life = OriginLife()
            origin.lives.append((row.name.life, life))
            self._bound(origin, row.name)
        if row.name not in self.rows:
            life.numbers.append((row.name.number, row.name.inbox))
        self.rows[row.name] = row

    def _bound(self, origin: KnownOrigin, newest: MessageName) -> None:
        if len(origin.lives) <= LIVES_MAX:
            return
        for one, found in origin.lives:
            if one != newest.life and not self._has_unfinished(newest, one, found):
                self._drop(origin, newest, one)
                return

    def _has_unfinished(self, name: MessageName, life: Life, found: OriginLife) -> bool:
        return any(self.rows[one].is_unfinished for one in _names(name, life, found))

    def _drop(self, origin: KnownOrigin, name: MessageName, life: Life) -> None:
        """Let go of a life; what its receipts hold is still known."""
        found = origin.of(life)
        assert found is not None
        for one in _names(name, life, found):
            del self.rows[one]
        if found.pruned_to:
            origin.forgotten_epoch = max(origin.forgotten_epoch, life.epoch)
        origin.lives = [(other, kept) for other, kept in origin.lives if other != life]

    def fold_leased(self, record: MessageLeased) -> None:
        row = self.rows.get(record.name)
        if row is not None:
            row.lease = record.lease

    def fold_done(self, record: MessageDone, log_time: LogTime) -> None:
        name = record.name
        row = self.rows.get(name)
        receipt = MessageReceipt(name=name, guid=record.guid, end=record.end, kept_at=log_time, lease=record.lease)
        if row is not None:
            if row.accepted is not None:
                receipt = msgspec.structs.replace(receipt, **asked_of(row.accepted))
            row.accepted, row.end = None, record.end
            self._forget_below(name)
        for one in self.receipts.keep(receipt):
            self._forgotten(one.name)

    def _forgotten(self, name: MessageName) -> None:
        """Note that the receipt of a message is kept no more."""
        origin = self.origins.setdefault(name.origin, KnownOrigin())
        life = origin.of(name.life)
        if life is None:
            origin.forgotten_epoch = max(origin.forgotten_epoch, name.life.epoch)
        else:
            life.pruned_to = max(life.pruned_to, name.number)

    def fold_low(self, record: LowTold) -> None:
        """Forget what the origin is known to have, and lives of it that are over."""
        origin = self.origins.get(record.origin)
        if origin is None:
            return
        name = MessageName(record.origin, record.owner, record.life, 0, record.inbox)
        life = origin.of(record.life)
        if life is not None:
            life.lows[record.inbox] = max(life.lows.pop(record.inbox, 0), record.low)
            self._forget_below(name)
            inboxes = {inbox for _, inbox in life.numbers}
            bare = [inbox for inbox in life.lows if inbox not in inboxes]
            for inbox in bare[: max(0, len(bare) - MARKS_MAX)]:
                del life.lows[inbox]
        for one, found in list(origin.lives):
            if one.epoch < record.since and not self._has_unfinished(name, one, found):
                self._drop(origin, name, one)

    def _forget_below(self, name: MessageName) -> None:
        life = self.origins[name.origin].of(name.life)
        assert life is not None
        low, kept = life.lows.get(name.inbox, 0), []
        for one in _names(name, name.life, life):
            if one.inbox == name.inbox and one.number < low and not self.rows[one].is_unfinished:
                del self.rows[one]
            else:
                kept.append((one.number, one.inbox))
        life.numbers = kept

    def low(self, name: MessageName) -> int:
        """Mark of the inbox and life of a message, as far as it is on record."""
        life = self._life(name)
        return 0 if life is None else life.lows.get(name.inbox, 0)

    def _life(self, name: MessageName) -> OriginLife | None:
        origin = self.origins.get(name.origin)
        return None if origin is None else origin.of(name.life)

    def would_forget(self, record: LowTold) -> bool:
        """True: something is forgotten once this record is folded."""
        origin = self.origins.get(record.origin)
        if origin is None:
            return False
        life, name = origin.of(record.life), MessageName(record.origin, record.owner, record.life, 0)
        if life is not None and record.low > life.lows.get(record.inbox, 0):
            names = [one for one in _names(name, record.life, life) if one.inbox == record.inbox]
            if any(one.number < record.low and not self.rows[one].is_unfinished for one in names):
                return True
        return any(
            one.epoch < record.since and not self._has_unfinished(name, one, found) for one, found in origin.lives
        )

    def had_perhaps(self, name: MessageName) -> bool:
        """True: the message has no row and no receipt, and may have had one that is forgotten."""
        life = self._life(name)
        if life is not None:
            return name.number <= life.pruned_to
        origin = self.origins.get(name.origin)
        return origin is not None and name.life.epoch <= origin.forgotten_epoch

    def rows_of(self, origin: str) -> int:
        """Number of rows of an origin."""
        known = self.origins.get(origin)
        return 0 if known is None else sum(len(one.numbers) for _, one in known.lives)

    def unfinished(self) -> list[MessageAccepted]:
        """Messages that are accepted and not done, oldest first."""
        return [one.accepted for one in self.rows.values() if one.accepted is not None]

    def snapshot_slices(self) -> Iterator[bytes]:
        """The fold as it is now, copied at once and encoded as it is drawn."""
        receipts, rows = list(self.receipts), [msgspec.structs.replace(one) for one in self.rows.values()]
        origins = {
            name: KnownOrigin(
                lives=[
                    (life, msgspec.structs.replace(found, numbers=[*found.numbers], lows={**found.lows}))
                    for life, found in one.lives
                ],
                forgotten_epoch=one.forgotten_epoch,
            )
            for name, one in self.origins.items()
        }
        return chain([sliced(_InboxHead(origins, len(receipts)))], list_slices(receipts), map(sliced, rows))

    @classmethod
    def restore(cls, section: bytes) -> "InboxFold":
        """Inverse of the joined slices.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        slices = list(read_slices(section))
        head = unsliced(slices[0] if slices else b"", _InboxHead)
        self.origins = head.origins
        many = -(-head.receipts // SLICE_ROWS)
        for one in slices[1 : 1 + many]:
            for receipt in unsliced(one, list[MessageReceipt]):
                self.receipts.keep(receipt)
        for one in slices[1 + many :]:
            row = unsliced(one, InboxRow)
            self.rows[row.name] = row
        return self
