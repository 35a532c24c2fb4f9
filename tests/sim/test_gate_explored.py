"""The gate, explored: two members, late orders, a device that answers, refuses or falls silent, and deaths of the gate.

Holds: after the device carried out an order of a higher epoch, or the gate answered that epoch's empty order, nothing
of a lower epoch is carried out, whatever was paused, delayed, lost or forgotten.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import pytest

from albireo.machine.output.gate import (
    Apply,
    GateConfig,
    GateState,
    KeepGuard,
    Landed,
    MailboxWritten,
    registers,
    started,
    step,
)
from albireo.machine.output.mailbox import MAILBOX_REGISTERS, RAISE_ONLY, MailboxOrder, Result, encode_order
from albireo.model.instant import Instant, TimePassed
from tests.long_form import some

EPOCHS: Final = 3
CONFIG: Final = GateConfig(dead_ns=10, highest={1: 0xFFFF})
NOW: Final = Instant(0)
"""Time stands still until the dead time passes, which is a step of its own."""


class Sender(NamedTuple):
    epoch: int = 0
    boot: int = 0
    """As read; 0: not yet."""
    is_cleared: bool = False
    """The lease was checked, and it is about to send: here a process may be paused for any time."""
    orders: int = 0


class World(NamedTuple):
    leader: int
    """Epoch under a lease; rises by any step."""
    senders: tuple[Sender, Sender]
    gate: GateState
    disk: KeepGuard
    air: tuple[int, ...]
    """Epochs of writes that left and have no answer: each lands until the dead time has passed, or never."""
    highest: int
    deaths: int
    orders: int


class Rules(NamedTuple):
    """What the gate leaves out."""

    epoch_ignored: bool = False
    boot_ignored: bool = False
    guard_forgotten: bool = False
    """Not there any more after a start."""
    kept_late: bool = False
    """The order leaves before the guard is kept."""
    goes_on_after_silence: bool = False
    goes_on_after_a_start: bool = False
    raise_answered_at_once: bool = False


def explore(rules: Rules, *, deaths: int = 1, orders: int = 4) -> tuple[int, str]:
    gate, (kept,) = started(CONFIG, 6, 0, NOW)
    assert isinstance(kept, KeepGuard)
    gate = msgspec.structs.replace(gate, quiet_until=NOW)
    first = World(0, (Sender(), Sender()), gate, kept, (), 0, deaths, orders)
    seen, queue = {first}, deque([first])
    while queue:
        for after, violation in successors(queue.popleft(), rules):
            if violation:
                return len(seen), violation
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return len(seen), ""


def successors(world: World, rules: Rules) -> Iterator[tuple[World, str]]:
    if world.leader < EPOCHS:
        yield world._replace(leader=world.leader + 1), ""
    for member in (0, 1):
        yield from acts(world, member, rules)
    yield from device(world, rules)
    if world.deaths:
        yield from dies(world, rules)


def device(world: World, rules: Rules) -> Iterator[tuple[World, str]]:
    gate = world.gate
    if gate.under_way is not None:
        epoch = gate.under_way.order.value
        done = world._replace(highest=max(world.highest, epoch))
        yield stepped(done, Landed(Result.DONE), rules), late(world, epoch)
        yield stepped(world, Landed(Result.REFUSED), rules), ""
        lost = world._replace(air=(*world.air, epoch))
        yield stepped(lost, Landed(Result.UNKNOWN), rules), ""
    for index, epoch in enumerate(world.air):
        air = world.air[:index] + world.air[index + 1 :]
        yield world._replace(air=air, highest=max(world.highest, epoch)), late(world, epoch)
    if gate.quiet_until:
        passed = stepped(world._replace(air=()), TimePassed(), rules, gate.quiet_until)
        yield passed._replace(gate=msgspec.structs.replace(passed.gate, quiet_until=NOW)), ""


def late(world: World, epoch: int) -> str:
    return f"epoch {epoch} carried out after {world.highest}" if epoch < world.highest else ""


def stepped(world: World, event: MailboxWritten | Landed | TimePassed, rules: Rules, now: Instant = NOW) -> World:
    before = world.gate
    is_raise = isinstance(event, MailboxWritten) and event.words[5] == RAISE_ONLY
    if is_raise and rules.raise_answered_at_once:
        before = msgspec.structs.replace(before, quiet_until=NOW)
    gate, effects = step(CONFIG, before, event, now)
    if rules.goes_on_after_silence and isinstance(event, Landed):
        gate, effects = step(msgspec.structs.replace(CONFIG, dead_ns=0), before, event, now)
    if is_raise and rules.raise_answered_at_once:
        gate = msgspec.structs.replace(gate, quiet_until=world.gate.quiet_until)
    highest = world.highest
    for member in (0, 1):
        answer, words = gate.state.answers[member], gate.orders[member]
        is_new = answer != world.gate.state.answers[member]
        if is_new and answer.result is Result.DONE and answer.done == words[1] and words[5] == RAISE_ONLY:
            highest = max(highest, words[7])
    kept = [one for one in effects if isinstance(one, KeepGuard)]
    return world._replace(gate=gate, disk=kept[-1] if kept else world.disk, highest=highest)


def dies(world: World, rules: Rules) -> Iterator[tuple[World, str]]:
    """At once, with whatever was under way on its way; with `kept_late` also before the guard was kept."""
    gate = world.gate
    air = (*world.air, gate.under_way.order.value) if gate.under_way else world.air
    disks = [world.disk]
    if rules.kept_late and gate.under_way:
        disks.append(msgspec.structs.replace(world.disk, guard=0))
    for disk in disks:
        guard = 0 if rules.guard_forgotten else disk.guard
        after, (kept,) = started(CONFIG, disk.boot, guard, NOW)
        assert isinstance(kept, KeepGuard)
        if rules.goes_on_after_a_start:
            after = msgspec.structs.replace(after, quiet_until=NOW)
        yield world._replace(gate=after, disk=kept, air=air, deaths=world.deaths - 1), ""


def acts(world: World, member: int, rules: Rules) -> Iterator[tuple[World, str]]:
    sender, boot = world.senders[member], world.gate.state.boot
    leads = world.leader > 0 and world.leader % 2 == member
    if leads and sender.epoch < world.leader:
        yield put(world, member, Sender(epoch=world.leader, orders=sender.orders)), ""
    if sender.epoch == 0:
        return
    if sender.boot != boot and leads:
        yield put(world, member, sender._replace(boot=boot, is_cleared=False)), ""
    if leads and sender.epoch == world.leader and not sender.is_cleared and sender.boot:
        yield put(world, member, sender._replace(is_cleared=True)), ""
    if sender.is_cleared and sender.boot and world.orders:
        fewer = put(world, member, sender._replace(orders=sender.orders + 1, is_cleared=False))
        fewer = fewer._replace(orders=world.orders - 1)
        for target in (1, RAISE_ONLY):
            order = MailboxOrder(
                count=sender.orders + 1, epoch=sender.epoch, boot=sender.boot, target=target, value=sender.epoch
            )
            yield stepped(fewer, MailboxWritten(member, encode_order(lenient(world, order, rules))), rules), ""


def lenient(world: World, order: MailboxOrder, rules: Rules) -> MailboxOrder:
    """A gate that ignores something is one for which the order always says the right thing."""
    epoch = max(world.gate.state.guard, 1) if rules.epoch_ignored else order.epoch
    boot = world.gate.state.boot if rules.boot_ignored else order.boot
    return msgspec.structs.replace(order, epoch=epoch, boot=boot)


def put(world: World, member: int, sender: Sender) -> World:
    senders = (sender, world.senders[1]) if member == 0 else (world.senders[0], sender)
    return world._replace(senders=senders)


HARMLESS: Final = (Rules(), Rules(boot_ignored=True), Rules(guard_forgotten=True), Rules(kept_late=True))
"""The kept guard and the boot number each do without the other: what a gate has lost with its disk, or a member read
before a start, is made good by the other one."""


def told(rules: Rules) -> str:
    return "+".join(name for name, is_broken in rules._asdict().items() if is_broken) or "whole"


@pytest.mark.slow
@pytest.mark.parametrize("rules", [HARMLESS[0], *some(HARMLESS[1:], 3)], ids=told)
def test_nothing_of_a_lower_epoch_is_carried_out_in_any_interleaving(rules: Rules) -> None:
    states, violation = explore(rules, orders=3)
    print(f"{states} states")
    assert violation == ""
    assert states > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "rules",
    [
        Rules(epoch_ignored=True),
        Rules(boot_ignored=True, guard_forgotten=True),
        Rules(boot_ignored=True, kept_late=True),
        Rules(goes_on_after_silence=True),
        Rules(goes_on_after_a_start=True),
        Rules(raise_answered_at_once=True),
    ],
    ids=told,
)
def test_every_shortcut_is_caught(rules: Rules) -> None:
    states, violation = explore(rules)
    print(f"{states} states: {violation}")
    assert violation


def test_what_a_member_reads_is_what_a_plc_shows() -> None:
    """Two mailboxes of 12 and a status of 4, at the same places."""
    gate, _ = started(CONFIG, 6, 4, NOW)
    words = encode_order(MailboxOrder(count=9, epoch=3, boot=7))
    gate, effects = step(CONFIG, gate, MailboxWritten(1, words), NOW)
    shown = registers(gate)
    assert (len(shown), effects) == (28, [])
    assert shown[MAILBOX_REGISTERS : 2 * MAILBOX_REGISTERS] == (*words, 9, Result.STALE)
    assert shown[-4:] == (7, 0, 0, 4)


def test_an_order_waits_for_the_one_under_way_and_the_other_member_is_served_next() -> None:
    gate, _ = started(CONFIG, 6, 0, NOW)
    gate = msgspec.structs.replace(gate, quiet_until=NOW)
    orders = [MailboxOrder(count=count, epoch=4, boot=7, target=1, value=count) for count in (1, 2, 3)]
    gate, effects = step(CONFIG, gate, MailboxWritten(0, encode_order(orders[0])), NOW)
    assert effects == [KeepGuard(7, 4), Apply(orders[0])]
    gate, effects = step(CONFIG, gate, MailboxWritten(0, encode_order(orders[1])), NOW)
    assert effects == []
    gate, effects = step(CONFIG, gate, MailboxWritten(1, encode_order(orders[2])), NOW)
    assert effects == []
    gate, effects = step(CONFIG, gate, Landed(Result.DONE), NOW)
    assert (effects, gate.state.answers[0].done) == ([Apply(orders[2])], 1)
    gate, effects = step(CONFIG, gate, Landed(Result.REFUSED), NOW)
    assert (effects, gate.state.answers[1].result) == ([Apply(orders[1])], Result.REFUSED)
