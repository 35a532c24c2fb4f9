"""Outbox: the fold of what this node wants of others.

    requested --body leaves when it is fetched--> open --outcome with the guid--> receipt
                 |                                 |
                 +--- time over, cancelled, new life: stopped, the owner is asked ---> receipt, perhaps `unknown`

Invariants
    open:      at most a window of numbers for each inbox of an owner, so the owner's memory is bounded, and what waits
               in one inbox keeps nothing from another one.
    stopped:   the body does not leave any more, in this life or a later one.
    orphaned:  its body may have left to a life of the owner that is over: it does not leave again, and only an outcome
               with the guid counts.
    receipt:   kept by age and count; an unsettled `unknown` is corrected by a late outcome.

Spec: docs/messages.md; ADR-0183.
"""

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from albireo.codec.message_records import (
    LifeBegun,
    MessageAccepted,
    MessageEnd,
    MessageEnded,
    MessageRequested,
    MessageStopped,
    OwnerHeard,
)
from albireo.codec.slices import SLICE_ROWS, list_slices, read_slices, sliced, unsliced
from albireo.model.instant import MS, SECOND, LogTime
from albireo.model.position import ENDLESS
from albireo.model.tree.message import NO_LIFE, AddCause, Life, MessageName

RECEIPTS_MAX: Final = 10_000
"""Most receipts kept on each side; the oldest go first."""
REPLIES_MAX: Final = 1_000
"""Most replies kept with them, on each side."""
REPLIES_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of these replies."""
DIGEST_BYTES: Final = 16
RECEIPT_AGE_NS: Final = 90 * 24 * 3_600 * SECOND
"""Log time after which a receipt is forgotten."""


class OpenMessage(msgspec.Struct, kw_only=True):
    """One message without an outcome."""

    asked: MessageRequested
    requested_at: int
    """Log time of the request, ns."""
    stopped: AddCause | None = None
    is_orphaned: bool = False

    def left_ms(self, log_time: int, wall_ns: int) -> int:
        """Time until its deadline by log time or by the wall clock, whichever comes first; 0 or less: it is over."""
        passed_ns = max(log_time - self.requested_at, wall_ns - self.asked.requested_ns, 0)
        return self.asked.expires_ms - -(-passed_ns // MS)


class MessageReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Receipt: the name, the guid and the outcome, which the logs of both ends hold."""

    name: MessageName
    guid: str
    end: MessageEnd
    kept_at: int
    """Log time at which it came to be, ns."""
    command_id: str = ""
    kind: str = ""
    is_settled: bool = True
    is_orphaned: bool = False
    subject: str = ""
    user: str = ""
    principal: str = ""
    reason: str = ""
    requested_ns: int = 0
    told_ns: int = 0
    lease: int = 0
    """Number of the lease by which a receiver took it; 0: none did, or it was taken elsewhere."""
    digest: bytes = b""
    """Digest of the body, kept by the origin, so that the id names no other body; empty: not known."""


def digest_of(body: bytes) -> bytes:
    """The short form of a body that stays when the body is deleted."""
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def asked_of(record: MessageRequested | MessageAccepted) -> dict[str, str | int]:
    """The part of a question that its receipt keeps: all but the body."""
    return {
        "command_id": record.command_id,
        "kind": record.kind,
        "subject": record.subject,
        "user": record.user,
        "principal": record.principal,
        "reason": record.reason,
        "requested_ns": record.requested_ns,
    }


class MessageReceipts:
    """Receipts of one side, oldest first, bounded by count and age; of their replies the latest ones are kept."""

    def __init__(self) -> None:
        self._kept: dict[MessageName, MessageReceipt] = {}
        self._replies: dict[MessageName, int] = {}
        """Size of each reply that is kept, the oldest first."""
        self._unsettled: dict[MessageName, MessageReceipt] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[MessageReceipt]:
        return iter(self._kept.values())

    def get(self, name: MessageName) -> MessageReceipt | None:
        return self._kept.get(name)

    @property
    def unsettled(self) -> list[MessageReceipt]:
        """Receipts that say `unknown` for now."""
        return list(self._unsettled.values())

    def keep(self, receipt: MessageReceipt) -> list[MessageReceipt]:
        """Keep one, in the place of an earlier one of its name; returns those that are forgotten for it."""
        self._kept.pop(receipt.name, None)
        self._unsettled.pop(receipt.name, None)
        self._replies.pop(receipt.name, None)
        self._kept[receipt.name] = receipt
        self._keep_reply(receipt)
        if not receipt.is_settled:
            self._unsettled[receipt.name] = receipt
        gone: list[MessageReceipt] = []
        for one in self._kept.values():
            if len(self._kept) - len(gone) <= RECEIPTS_MAX and one.kept_at > receipt.kept_at - RECEIPT_AGE_NS:
                break
            gone.append(one)
        for one in gone:
            del self._kept[one.name]
            self._unsettled.pop(one.name, None)
            self._replies.pop(one.name, None)
        return gone

    def _keep_reply(self, receipt: MessageReceipt) -> None:
        """Keep its reply, and let go of the oldest ones for it."""
        if receipt.end.reply is None:
            return
        self._replies[receipt.name] = len(receipt.end.reply)
        while sum(self._replies.values()) > REPLIES_BYTES_MAX or len(self._replies) > REPLIES_MAX:
            oldest = next(iter(self._replies))
            del self._replies[oldest]
            bare = msgspec.structs.replace(self._kept[oldest].end, reply=None)
            self._kept[oldest] = msgspec.structs.replace(self._kept[oldest], end=bare)

    def replace(self, receipt: MessageReceipt) -> None:
        """Change a receipt without its place in the order of forgetting."""
        self._kept[receipt.name] = receipt
        if not receipt.is_settled:
            self._unsettled[receipt.name] = receipt


class KnownOwner(msgspec.Struct, kw_only=True):
    """Owner as this node's log knows it."""

    life: Life = NO_LIFE
    """Life in which it was heard last."""
    next: int = 1
    """Next number, in this node's present life."""
    numbers: dict[str, list[int]] = {}
    """Numbers of each inbox from its mark on, in this node's present life."""


class _OutboxHead(msgspec.Struct, frozen=True, array_like=True):
    life: Life
    epoch: int
    owners: dict[str, KnownOwner]
    receipts: int
    """Number of receipts, in slices of many; open messages follow, each in a slice of its own, because of the body."""


class OutboxFold:
    """The fold."""

    def __init__(self) -> None:
        self.life = NO_LIFE
        self.epoch = 0
        """Epoch of the last tenure of this life."""
        self.owners: dict[str, KnownOwner] = {}
        self.open: dict[MessageName, OpenMessage] = {}
        self.receipts = MessageReceipts()
        self._by_id: dict[str, MessageName] = {}

    def fold_life(self, record: LifeBegun) -> None:
        """A tenure; in a new life numbers begin anew."""
        self.epoch = record.epoch
        if record.life != self.life:
            self.life = record.life
            for one in self.owners.values():
                one.next, one.numbers = 1, {}

    def fold_requested(self, record: MessageRequested, log_time: LogTime) -> None:
        name = record.name
        owner = self.owners.setdefault(name.owner, KnownOwner())
        if name.life == self.life:
            owner.next = max(owner.next, name.number + 1)
            owner.numbers.setdefault(name.inbox, []).append(name.number)
        self.open[name] = OpenMessage(asked=record, requested_at=log_time)
        self._by_id[record.command_id] = name

    def fold_stopped(self, record: MessageStopped) -> None:
        found = self.open.get(record.name)
        if found is not None:
            found.stopped = record.cause

    def fold_ended(self, record: MessageEnded, log_time: LogTime) -> None:
        found, known = self.open.pop(record.name, None), self.receipts.get(record.name)
        receipt = MessageReceipt(
            name=record.name, guid=record.guid, end=record.end, kept_at=log_time, is_settled=record.is_settled,
            told_ns=record.told_ns,
        )  # fmt: skip
        if found is not None:
            receipt = msgspec.structs.replace(
                receipt, is_orphaned=found.is_orphaned, digest=digest_of(found.asked.body), **asked_of(found.asked)
            )
        elif known is not None:
            kept = {"end": record.end, "kept_at": log_time, "is_settled": record.is_settled}
            receipt = msgspec.structs.replace(known, guid=record.guid, **kept)
        for one in self.receipts.keep(receipt):
            if self._by_id.get(one.command_id) == one.name:
                del self._by_id[one.command_id]
        self._pass_mark(record.name)

    def _pass_mark(self, name: MessageName) -> None:
        """Forget the numbers of an inbox that its mark has passed."""
        owner = self.owners.get(name.owner)
        if owner is None or name.life != self.life or name.inbox not in owner.numbers:
            return
        low = self.low(name)
        kept = [one for one in owner.numbers[name.inbox] if one >= low]
        if kept:
            owner.numbers[name.inbox] = kept
        else:
            del owner.numbers[name.inbox]

    def fold_heard(self, record: OwnerHeard) -> None:
        """Another life of an owner: whatever may have reached an earlier one is orphaned."""
        owner = self.owners.setdefault(record.owner, KnownOwner())
        owner.life = record.life
        unsent = set(record.unsent)
        for name, one in self.open.items():
            if name.owner == record.owner and not (name.life == self.life and name.number in unsent):
                one.is_orphaned = True
        for receipt in self.receipts.unsettled:
            if receipt.name.owner == record.owner:
                self.receipts.replace(msgspec.structs.replace(receipt, is_orphaned=True))

    def find(self, command_id: str) -> MessageName | None:
        """Name of the message that was asked for with this id; None: none that is known."""
        return self._by_id.get(command_id)

    def asked_with(self, command_id: str) -> MessageRequested | MessageReceipt | None:
        """The message that was asked for with this id, as far as it is known still."""
        name = self.find(command_id)
        if name is None:
            return None
        found = self.open.get(name)
        return self.receipts.get(name) if found is None else found.asked

    def known(self, owner: str) -> KnownOwner:
        return self.owners.get(owner) or KnownOwner()

    def open_to(self, owner: str, inbox: str) -> list[OpenMessage]:
        return [one for name, one in self.open.items() if (name.owner, name.inbox) == (owner, inbox)]

    def low(self, name: MessageName) -> int:
        """Number below which every message to the owner and inbox of this one, of its life, has a final outcome."""
        to = (name.owner, name.inbox, name.life)
        numbers = [one.number for one in self.open if (one.owner, one.inbox, one.life) == to]
        after = self.known(name.owner).next if name.life == self.life else ENDLESS
        return min([after, *numbers])

    def since(self, owner: str) -> int:
        """Lowest epoch of a life of this node with messages to an owner that are open."""
        return min([self.life.epoch, *(name.life.epoch for name in self.open if name.owner == owner)])

    def snapshot_slices(self) -> Iterator[bytes]:
        """The fold as it is now, copied at once and encoded as it is drawn."""
        receipts, copied = list(self.receipts), [msgspec.structs.replace(one) for one in self.open.values()]
        owners = {
            name: msgspec.structs.replace(one, numbers={inbox: [*kept] for inbox, kept in one.numbers.items()})
            for name, one in self.owners.items()
        }
        return chain(
            [sliced(_OutboxHead(self.life, self.epoch, owners, len(receipts)))],
            list_slices(receipts),
            map(sliced, copied),
        )

    @classmethod
    def restore(cls, section: bytes) -> "OutboxFold":
        """Inverse of the joined slices.

        Raises:
            DecodeError: the section is malformed.
        """
        self = cls()
        slices = list(read_slices(section))
        head = unsliced(slices[0] if slices else b"", _OutboxHead)
        self.life, self.epoch, self.owners = head.life, head.epoch, head.owners
        many = -(-head.receipts // SLICE_ROWS)
        for one in slices[1 : 1 + many]:
            for receipt in unsliced(one, list[MessageReceipt]):
                self.receipts.keep(receipt)
                self._by_id[receipt.command_id] = receipt.name
        for one in slices[1 + many :]:
            found = unsliced(one, OpenMessage)
            self.open[found.asked.name] = found
            self._by_id[found.asked.command_id] = found.asked.name
        return self
