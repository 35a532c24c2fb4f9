"""The gate: refuses orders of a member that is no longer the holder, for a PLC that can't (`guard = "gate"`).

A gate owns the only path to the PLC and shows the members the mailboxes of mailbox.py. A PLC's program applies an order
in one scan; a gate needs an exchange with the device for it, so one order at a time is under way:

    MailboxWritten --> admitted? --no--> stale, bad
                          |yes
                        guard raised: KeepGuard --> target 0: done
                          |                         device may carry out an earlier order: unreached (target 0 waits)
                        Apply --> Landed --> done, refused, unreached, unknown

Invariants: no order is applied before the guard of its epoch is kept. Once an order is answered, no order of a lower
epoch is applied any more. So an order without a known end keeps every other back for `dead_ns`, and so does a start,
because the gate may have died with an order under way.

Not done here: messages, storage, the meaning of a target (field/modbus/gate/gate.py).
Spec: design/pair.md, Guard levels of outputs; ADR-0126.
"""

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from albireo.machine.output.mailbox import (
    MEMBERS,
    ORDER_REGISTERS,
    RAISE_ONLY,
    Applied,
    GuardState,
    MailboxAnswer,
    MailboxOrder,
    Result,
    admitted,
    answered,
    encode_answer,
    encode_status,
    next_boot,
)
from albireo.model.instant import Instant, TimePassed

EMPTY: Final = (0,) * ORDER_REGISTERS
"""Registers 0..9 of a mailbox that no member has written since the start."""

Words = tuple[int, ...]


class GateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one gate."""

    dead_ns: int
    """Time after which a write without an answer has landed or never will."""
    highest: Mapping[int, int]
    """Largest value by target, unsigned; there are no other targets."""


class GateState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a gate between two events."""

    state: GuardState
    """Boot number, guard and answers, as the members read them. It has no targets: the device holds their values."""
    orders: tuple[Words, Words] = (EMPTY, EMPTY)
    """Registers 0..9 of each mailbox."""
    under_way: Applied | None = None
    """Order that the device is asked to carry out now."""
    quiet_until: Instant = Instant(0)
    """Instant until which the device may carry out an order whose answer will not come."""
    first: int = 0
    """Member whose mailbox is looked at first: not the one whose order was applied last."""


class MailboxWritten(msgspec.Struct, frozen=True):
    """A member wrote its mailbox."""

    member: int
    words: Words


class Landed(msgspec.Struct, frozen=True):
    """The order under way has ended: DONE, REFUSED, UNREACHED or UNKNOWN."""

    result: Result


class KeepGuard(msgspec.Struct, frozen=True):
    """Effect: make this durable before any later effect, and before a member reads an answer."""

    boot: int
    guard: int


class Apply(msgspec.Struct, frozen=True):
    """Effect: write the order to the device, once, and tell its end by `Landed`."""

    order: MailboxOrder


Event = MailboxWritten | Landed | TimePassed
Effect = KeepGuard | Apply


def started(config: GateConfig, boot: int, guard: int, now: Instant) -> tuple[GateState, list[Effect]]:
    """State and effects of a starting gate.

    Args:
        boot, guard: as kept; a gate that has kept nothing takes any boot number, and guard 0.
    """
    state = GuardState(boot=next_boot(boot), guard=guard)
    return GateState(state=state, quiet_until=Instant(now + config.dead_ns)), [KeepGuard(state.boot, guard)]


def step(config: GateConfig, gate: GateState, event: Event, now: Instant) -> tuple[GateState, list[Effect]]:
    """Take one event; the effects are carried out in order, before any member sees the new state."""
    match event:
        case MailboxWritten():
            gate = _ordered(gate, event)
        case Landed(result=result):
            gate = _landed(config, gate, result, now)
        case TimePassed():
            pass
        case _:
            assert_never(event)
    effects: list[Effect] = []
    for turn in range(MEMBERS):
        if gate.under_way is None:
            gate, more = _look(config, gate, (gate.first + turn) % MEMBERS, now)
            effects += more
    return gate, effects


def deadline(gate: GateState) -> Instant | None:
    """Instant at which `TimePassed` is due: an order waits for the end of `quiet_until`."""
    return gate.quiet_until if gate.under_way is None and any(_asks(gate, one) for one in range(MEMBERS)) else None


def registers(gate: GateState) -> Words:
    """Both mailboxes and the status, as the members read them."""
    boxes = [
        word for order, answer in zip(gate.orders, gate.state.answers, strict=True)
        for word in (*order, *encode_answer(answer))
    ]  # fmt: skip
    return (*boxes, *encode_status(gate.state))


def _ordered(gate: GateState, event: MailboxWritten) -> GateState:
    assert len(event.words) == ORDER_REGISTERS
    orders = (event.words, gate.orders[1]) if event.member == 0 else (gate.orders[0], event.words)
    return msgspec.structs.replace(gate, orders=orders)


def _landed(config: GateConfig, gate: GateState, result: Result, now: Instant) -> GateState:
    applied = gate.under_way
    assert applied is not None, "nothing is under way"
    gate = _answered(gate, applied.member, applied.order.count, result)
    quiet_until = Instant(now + config.dead_ns) if result is Result.UNKNOWN else gate.quiet_until
    first = (applied.member + 1) % MEMBERS
    return msgspec.structs.replace(gate, under_way=None, quiet_until=quiet_until, first=first)


def _asks(gate: GateState, member: int) -> bool:
    return gate.orders[member][1] not in (0, gate.state.answers[member].done)


def _look(config: GateConfig, gate: GateState, member: int, now: Instant) -> tuple[GateState, list[Effect]]:
    """Look at one mailbox while no order is under way."""
    if not _asks(gate, member):
        return gate, []
    count = gate.orders[member][1]
    order = admitted(gate.state, gate.orders[member])
    if isinstance(order, Result):
        return _answered(gate, member, count, order), []
    if order.target != RAISE_ONLY and order.value > config.highest.get(order.target, -1):
        return _answered(gate, member, count, Result.BAD), []
    is_quiet = now < gate.quiet_until
    if order.target == RAISE_ONLY and is_quiet:
        # "Done" says that nothing of a lower epoch follows, and that is not so yet.
        return gate, []
    gate, effects = _raised(gate, order.epoch)
    if order.target == RAISE_ONLY:
        return _answered(gate, member, count, Result.DONE), effects
    if is_quiet:
        return _answered(gate, member, count, Result.UNREACHED), effects
    return msgspec.structs.replace(gate, under_way=Applied(member, order)), [*effects, Apply(order)]


def _raised(gate: GateState, epoch: int) -> tuple[GateState, list[Effect]]:
    if epoch == gate.state.guard:
        return gate, []
    state = msgspec.structs.replace(gate.state, guard=epoch)
    return msgspec.structs.replace(gate, state=state), [KeepGuard(state.boot, state.guard)]


def _answered(gate: GateState, member: int, count: int, result: Result) -> GateState:
    state = answered(gate.state, member, MailboxAnswer(count, result))
    return msgspec.structs.replace(gate, state=state)
