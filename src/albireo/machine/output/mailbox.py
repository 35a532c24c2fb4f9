"""The mailbox: how a PLC refuses orders of a member that is no longer the holder (`guard = "plc"`).

Outputs are reached through one mailbox per member only. The PLC applies an order if its epoch is at least the highest
epoch applied since its start (`guard`) and its boot number is the current one; so no late order is carried out, neither
after a takeover nor after a restart of the PLC, which forgets the guard.

One mailbox, 12 registers, high words first; the order is written by one FC16:

    register  by      field    meaning
       0      member  layout   0xA1C0 + version of this table (1)
       1      member  count    1..65535, differs from the order before; 0: no order yet
     2..3     member  epoch    of the member that orders
       4      member  boot     number of the PLC's start, as read under this epoch's lease
       5      member  target   1..n; 0: nothing to apply, raises the guard only
     6..7     member  value    32 bits, as the target takes them
     8..9     member  CRC-32   of registers 0..7 (ISO-HDLC, big-endian bytes)
      10      PLC     done     count of the order that was answered last
      11      PLC     result   1 done, 2 stale, 3 bad; of a gate also 4 refused, 5 unreached, 6 unknown

Then 4 registers that both members read: boot number, 0, and the guard in two.

Duties of the sender: it reads the boot number after the grant, and checks the lease after that and right before each
send. The new holder's first order has target 0 and is answered before the holder serves.

A gate (gate.py) has the same mailboxes and judges orders by the same `admitted`, in front of a PLC without the program.

Not done here: sending, time-outs and outcomes of orders (the adapter); which output a target is (the PLC's program).
Spec: design/pair.md, Guard levels of outputs; docs/plc/guard.st is the same logic as Structured Text; ADR-0097.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final
from zlib import crc32

import msgspec

from albireo.codec.errors import DecodeError

LAYOUT: Final = 0xA1C0
LAYOUT_VERSION: Final = 1
ORDER_REGISTERS: Final = 10
MAILBOX_REGISTERS: Final = 12
STATUS_REGISTERS: Final = 4
MEMBERS: Final = 2
WORD_MAX: Final = 0xFFFF
EPOCH_MAX: Final = 0xFFFF_FFFF
RAISE_ONLY: Final = 0
"""Target of the first order of an epoch: it raises the guard and applies no value."""

_ORDER: Final = struct.Struct(">HHIHHI")
_CRC: Final = struct.Struct(">I")
_WORDS: Final = struct.Struct(f">{ORDER_REGISTERS}H")


class Result(IntEnum):
    """The PLC's answer to one order."""

    NONE = 0
    DONE = 1
    STALE = 2
    """Epoch below the guard, or another boot number. Certainly not applied."""
    BAD = 3
    """Torn, foreign, or for a target that does not exist. Certainly not applied."""
    REFUSED = 4
    """Said by a gate only: the device refused the order. Certainly not applied."""
    UNREACHED = 5
    """Said by a gate only: the order was not passed on, for the device is away or may still carry out an earlier order.
    Certainly not applied."""
    UNKNOWN = 6
    """Said by a gate only: the order was passed on, and its end is not known."""


class MailboxOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order of one member to one output."""

    count: int
    epoch: int
    boot: int
    target: int = RAISE_ONLY
    value: int = 0


class MailboxAnswer(msgspec.Struct, frozen=True):
    """Registers 10 and 11: the PLC's answer."""

    done: int = 0
    result: Result = Result.NONE


class GuardStatus(msgspec.Struct, frozen=True):
    """Status that both members read beside the mailboxes."""

    boot: int
    guard: int


class GuardState(msgspec.Struct, frozen=True, kw_only=True):
    """The PLC's memory between two scans. Only `boot` has to survive a restart, at which it changes."""

    boot: int
    guard: int = 0
    """Highest epoch applied since the start."""
    answers: tuple[MailboxAnswer, MailboxAnswer] = (MailboxAnswer(), MailboxAnswer())
    targets: tuple[int, ...] = ()
    """Values of targets 1..n."""


class Applied(msgspec.Struct, frozen=True):
    """An order that a scan carried out."""

    member: int
    order: MailboxOrder


def encode_order(order: MailboxOrder) -> tuple[int, ...]:
    """Registers 0..9.

    Raises:
        ValueError: a field does not fit.
    """
    words = (order.boot, order.target)
    if not 0 < order.count <= WORD_MAX or not 0 < order.epoch <= EPOCH_MAX or not 0 <= order.value <= EPOCH_MAX:
        raise ValueError(f"mailbox: {order} does not fit")
    if not all(0 <= word <= WORD_MAX for word in words):
        raise ValueError(f"mailbox: {order} does not fit")
    head = _ORDER.pack(LAYOUT + LAYOUT_VERSION, order.count, order.epoch, order.boot, order.target, order.value)
    return _WORDS.unpack(head + _CRC.pack(crc32(head)))


def decode_order(words: Sequence[int], offset: int = 0) -> MailboxOrder:
    """The order at `offset`.

    Raises:
        DecodeError: no order, torn or foreign; nothing else, whatever the registers hold.
    """
    octets = _octets(words, offset)
    layout, count, epoch, boot, target, value = _ORDER.unpack_from(octets)
    if layout != LAYOUT + LAYOUT_VERSION:
        raise DecodeError(offset, "no mailbox of this layout")
    if crc32(octets[: _ORDER.size]) != _CRC.unpack_from(octets, _ORDER.size)[0]:
        raise DecodeError(offset, "checksum")
    if count == 0 or epoch == 0:
        raise DecodeError(offset, "an order has a count and an epoch")
    return MailboxOrder(count=count, epoch=epoch, boot=boot, target=target, value=value)


def _octets(words: Sequence[int], offset: int) -> bytes:
    try:
        return _WORDS.pack(*words[offset : offset + ORDER_REGISTERS])
    except struct.error as error:
        raise DecodeError(offset, "no ten registers of 16 bits") from error


def encode_answer(answer: MailboxAnswer) -> tuple[int, int]:
    return (answer.done, int(answer.result))


def decode_answer(words: Sequence[int], offset: int = 0) -> MailboxAnswer:
    """Registers 10 and 11 of the mailbox at `offset`.

    Raises:
        DecodeError: a result that neither a PLC's program nor a gate gives.
    """
    part = list(words[offset + ORDER_REGISTERS : offset + MAILBOX_REGISTERS])
    if len(part) != 2 or not 0 <= part[0] <= WORD_MAX or part[1] not in tuple(Result):
        raise DecodeError(offset + ORDER_REGISTERS, "no answer of a mailbox")
    return MailboxAnswer(part[0], Result(part[1]))


def encode_status(state: GuardState) -> tuple[int, int, int, int]:
    return (state.boot, 0, state.guard >> 16, state.guard & WORD_MAX)


def decode_status(words: Sequence[int], offset: int = 0) -> GuardStatus:
    """Boot number and guard.

    Raises:
        DecodeError: not four registers, or no boot number: 0 is what a PLC without the program shows.
    """
    part = list(words[offset : offset + STATUS_REGISTERS])
    if len(part) != STATUS_REGISTERS or not all(0 <= word <= WORD_MAX for word in part) or not part[0] or part[1]:
        raise DecodeError(offset, "no status of a guard")
    return GuardStatus(part[0], part[2] << 16 | part[3])


def scan(state: GuardState, mailboxes: tuple[Sequence[int], Sequence[int]]) -> tuple[GuardState, tuple[Applied, ...]]:
    """One cycle of the PLC's program over both mailboxes; the simulated PLC runs this.

    Args:
        mailboxes: registers 0..9 of each, as they stand now, perhaps in the middle of a write.
    """
    applied: list[Applied] = []
    for member in range(MEMBERS):
        state, order = _serve(state, member, mailboxes[member])
        if order is not None:
            applied.append(Applied(member, order))
    return state, tuple(applied)


def admitted(state: GuardState, words: Sequence[int]) -> MailboxOrder | Result:
    """The order in registers 0..9 if the guard lets it pass, else why it is not carried out."""
    try:
        order = decode_order(words)
    except DecodeError:
        return Result.BAD
    return Result.STALE if order.boot != state.boot or order.epoch < state.guard else order


def _serve(state: GuardState, member: int, words: Sequence[int]) -> tuple[GuardState, MailboxOrder | None]:
    """IF req <> done THEN IF crc_ok AND boot = my_boot AND epoch >= guard THEN ... ELSE res := STALE; done := req."""
    asked = words[1] if len(words) > 1 else 0
    if asked in (0, state.answers[member].done):
        return state, None
    order = admitted(state, words)
    if isinstance(order, Result):
        return answered(state, member, MailboxAnswer(asked, order)), None
    if order.target > len(state.targets):
        return answered(state, member, MailboxAnswer(asked, Result.BAD)), None
    targets = state.targets
    if order.target != RAISE_ONLY:
        targets = (*targets[: order.target - 1], order.value, *targets[order.target :])
    state = msgspec.structs.replace(state, guard=order.epoch, targets=targets)
    return answered(state, member, MailboxAnswer(asked, Result.DONE)), order


def answered(state: GuardState, member: int, answer: MailboxAnswer) -> GuardState:
    """The state with `answer` in this member's mailbox."""
    answers = (answer, state.answers[1]) if member == 0 else (state.answers[0], answer)
    return msgspec.structs.replace(state, answers=answers)


def restarted(state: GuardState) -> GuardState:
    """The state after a start of the PLC: another boot number, no guard, targets as the PLC's program sets them."""
    return GuardState(boot=next_boot(state.boot), targets=(0,) * len(state.targets))


def next_boot(boot: int) -> int:
    """Boot number of the next start: 1..65535, never 0."""
    return boot % WORD_MAX + 1
