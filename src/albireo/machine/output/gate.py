"""The gate: refuses orders of a member that leads no more, in front of a PLC that can't (`guard = "gate"`).

It owns the only path to the PLC and shows the members the mailboxes of mailbox.py. What a PLC's program does in one
scan takes a gate an exchange with the device, so one order at a time is under way:

    Ordered --> admitted? --no--> stale, bad
                   |yes
                 guard raised: Keep --> target 0: done
                   |                    device may carry out an earlier one: unreached (target 0 waits)
                 Apply --> Landed --> done, refused, unreached, unknown

Invariants: nothing is applied before the guard of its epoch is kept. When an order is answered, nothing of a lower
epoch is applied any more: an order that nobody knows the end of, and a start, which may follow the death of a gate
with one under way, keep everything back for `dead_ns`.

What it does not do: speak to anybody, store anything, know what a target is (field/modbus/gate/gate.py).
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
"""Registers 0..9 of a mailbox that nobody has written since the start."""

Words = tuple[int, ...]


class GateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one gate is there for."""

    dead_ns: int
    """By then a write without an answer has landed or never will."""
    highest: Mapping[int, int]
    """Target -> the largest of its values, unsigned; there are no other targets."""


class GateState(msgspec.Struct, frozen=True, kw_only=True):
    """The gate between two events."""

    state: GuardState
    """Boot number, guard and answers, as the members read them. Without targets: the device has the values."""
    orders: tuple[Words, Words] = (EMPTY, EMPTY)
    """Registers 0..9 of each mailbox."""
    under_way: Applied | None = None
    """What the device is asked to do now."""
    quiet_until: Instant = Instant(0)
    """Before, the device may still carry out something that nobody answers for."""
    first: int = 0
    """Whose mailbox is looked at first: not his whose order was served last."""


class MailboxWritten(msgspec.Struct, frozen=True):
    """A member wrote its mailbox."""

    member: int
    words: Words


class Landed(msgspec.Struct, frozen=True):
    """What became of the order under way: DONE, REFUSED, UNREACHED or UNKNOWN."""

    result: Result


class KeepGuard(msgspec.Struct, frozen=True):
    """Make this durable before any effect that follows, and before anybody reads an answer."""

    boot: int
    guard: int


class Apply(msgspec.Struct, frozen=True):
    """Write it to the device, once, and say `Landed`."""

    order: MailboxOrder


Event = MailboxWritten | Landed | TimePassed
Effect = KeepGuard | Apply


def started(config: GateConfig, boot: int, guard: int, now: Instant) -> tuple[GateState, list[Effect]]:
    """A start of the gate.

    Args:
        boot, guard: as kept; of a gate that has kept nothing any number, and 0.
    """
    state = GuardState(boot=next_boot(boot), guard=guard)
    return GateState(state=state, quiet_until=Instant(now + config.dead_ns)), [KeepGuard(state.boot, guard)]


def step(config: GateConfig, gate: GateState, event: Event, now: Instant) -> tuple[GateState, list[Effect]]:
    """What follows from `event`; the effects are carried out in order, before the new state is shown to anybody."""
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
    """When a `TimePassed` is due: somebody waits for what the device may still carry out."""
    return gate.quiet_until if gate.under_way is None and any(_asks(gate, one) for one in range(MEMBERS)) else None


def registers(gate: GateState) -> Words:
    """Both mailboxes and the status, as anybody reads them."""
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
    """One mailbox, while nothing is under way."""
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
