"""The guard of the outputs, explored: two members, late orders, tears and restarts of the PLC, in any order.

Holds: after an order of a higher epoch was applied, none of a lower one is, whatever was paused, delayed or forgotten.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import pytest

from albireo.machine.output.mailbox import (
    ORDER_REGISTERS,
    GuardState,
    MailboxOrder,
    Result,
    encode_order,
    restarted,
    scan,
)

EPOCHS: Final = 4
ZEROS: Final = (0,) * ORDER_REGISTERS
Words = tuple[int, ...]


class Sender(NamedTuple):
    epoch: int = 0
    boot: int = 0
    """As read; 0: not yet."""
    is_cleared: bool = False
    """The lease was checked, and it is about to send: here a process may be paused for any time."""
    orders: int = 0
    half: Words = ()
    """Rest of a write that landed in part."""


class World(NamedTuple):
    leader: int
    """Epoch under a lease; rises by any step."""
    senders: tuple[Sender, Sender]
    boxes: tuple[Words, Words]
    plc: GuardState
    highest: int
    """Highest epoch ever applied, which the PLC itself may have forgotten."""
    starts: int
    orders: int


class Rules(NamedTuple):
    """What the sender or the PLC leaves out."""

    epoch_ignored: bool = False
    boot_ignored: bool = False
    boot_read_last: bool = False
    """The lease is checked first, the boot number read afterwards."""
    checksum_ignored: bool = False
    same_boot: bool = False
    """The PLC starts with the number it had."""


def explore(rules: Rules, *, starts: int = 2, orders: int = 4) -> tuple[int, str]:
    plc = GuardState(boot=1, targets=(0,))
    first = World(0, (Sender(), Sender()), (ZEROS, ZEROS), plc, 0, starts, orders)
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
    if world.starts:
        plc = restarted(world.plc)
        if rules.same_boot:
            plc = msgspec.structs.replace(plc, boot=world.plc.boot)
        yield world._replace(plc=plc, starts=world.starts - 1), ""
    yield from scanned(world, rules)
    for member in (0, 1):
        yield from acts(world, member, rules)


def scanned(world: World, rules: Rules) -> Iterator[tuple[World, str]]:
    """One cycle; a PLC that ignores something is one for which the order always says the right thing."""
    boxes = tuple(lenient(world, words, rules) for words in world.boxes)
    plc, applied = scan(world.plc, (boxes[0], boxes[1]))
    highest, violation = world.highest, ""
    for one in applied:
        order = one.order
        if rules.epoch_ignored:
            order = msgspec.structs.replace(order, epoch=order.value)
        if order.epoch < highest:
            violation = f"epoch {order.epoch} applied after {highest}"
        if order.value != order.epoch:
            violation = "an order that nobody gave"
        highest = max(highest, order.epoch)
    if plc != world.plc:
        yield world._replace(plc=plc, highest=highest), violation


def lenient(world: World, words: Words, rules: Rules) -> Words:
    if words == ZEROS or not (rules.epoch_ignored or rules.boot_ignored or rules.checksum_ignored):
        return words
    count, boot, value = words[1], words[4], words[7]
    epoch = max(world.plc.guard, 1) if rules.epoch_ignored else words[3]
    if rules.boot_ignored:
        boot = world.plc.boot
    if count == 0 or epoch == 0:
        return words
    if not rules.checksum_ignored and words != encode_order(
        MailboxOrder(count=count, epoch=words[3], boot=words[4], target=words[5], value=value)
    ):
        return words
    return encode_order(MailboxOrder(count=count, epoch=epoch, boot=boot, target=words[5], value=value))


def acts(world: World, member: int, rules: Rules) -> Iterator[tuple[World, str]]:
    sender, box = world.senders[member], world.boxes[member]
    leads = world.leader > 0 and world.leader % 2 == member
    if sender.half:
        yield put(world, member, sender._replace(half=()), box[:4] + sender.half), ""
        return
    if leads and sender.epoch < world.leader:
        yield put(world, member, Sender(epoch=world.leader, orders=sender.orders), box), ""
    if sender.epoch == 0:
        return
    if sender.boot != world.plc.boot and (leads or rules.boot_read_last):
        is_cleared = sender.is_cleared and rules.boot_read_last
        yield put(world, member, sender._replace(boot=world.plc.boot, is_cleared=is_cleared), box), ""
    if leads and sender.epoch == world.leader and not sender.is_cleared and (sender.boot or rules.boot_read_last):
        yield put(world, member, sender._replace(is_cleared=True), box), ""
    if sender.is_cleared and sender.boot and world.orders:
        count = sender.orders + 1
        order = MailboxOrder(count=count, epoch=sender.epoch, boot=sender.boot, target=1, value=sender.epoch)
        words = encode_order(order)
        sent = sender._replace(orders=count, is_cleared=False)
        fewer = world._replace(orders=world.orders - 1)
        yield put(fewer, member, sent, words), ""
        yield put(fewer, member, sent._replace(half=words[4:]), words[:4] + box[4:]), ""


def put(world: World, member: int, sender: Sender, box: Words) -> World:
    senders = (sender, world.senders[1]) if member == 0 else (world.senders[0], sender)
    boxes = (box, world.boxes[1]) if member == 0 else (world.boxes[0], box)
    return world._replace(senders=senders, boxes=boxes)


@pytest.mark.slow
def test_no_stale_order_is_applied_in_any_interleaving() -> None:
    states, violation = explore(Rules(), starts=1, orders=3)
    print(f"{states} states")
    assert violation == ""
    assert states > 1000


@pytest.mark.slow
@pytest.mark.parametrize("shortcut", list(Rules._fields))
def test_every_shortcut_at_the_output_is_caught(shortcut: str) -> None:
    states, violation = explore(Rules(**{shortcut: True}), starts=1, orders=3)
    print(f"{states} states: {violation}")
    assert violation


def served(plc: GuardState, order: MailboxOrder, member: int = 0) -> tuple[GuardState, Result]:
    boxes = (encode_order(order), ZEROS) if member == 0 else (ZEROS, encode_order(order))
    plc, _ = scan(plc, boxes)
    return plc, plc.answers[member].result


def test_the_new_holders_empty_order_shuts_the_old_one_out() -> None:
    plc = GuardState(boot=7, targets=(0, 0))
    plc, result = served(plc, MailboxOrder(count=1, epoch=4, boot=7, target=2, value=99))
    assert (result, plc.targets) == (Result.DONE, (0, 99))
    plc, result = served(plc, MailboxOrder(count=1, epoch=5, boot=7), member=1)
    assert (result, plc.guard, plc.targets) == (Result.DONE, 5, (0, 99))
    plc, result = served(plc, MailboxOrder(count=2, epoch=4, boot=7, target=2, value=1))
    assert (result, plc.targets) == (Result.STALE, (0, 99))


def test_an_order_is_carried_out_once_and_never_after_a_restart() -> None:
    order = MailboxOrder(count=1, epoch=4, boot=7, target=1, value=5)
    plc, _ = served(GuardState(boot=7, targets=(0,)), order)
    assert scan(plc, (encode_order(order), ZEROS)) == (plc, ())
    plc, result = served(restarted(plc), order)
    assert (result, plc.targets) == (Result.STALE, (0,))


def test_torn_foreign_or_unknown_orders_are_bad_and_change_nothing() -> None:
    plc = GuardState(boot=7, targets=(0,))
    good = encode_order(MailboxOrder(count=3, epoch=4, boot=7, target=1, value=5))
    for words in (good[:6] + ZEROS[6:], (0xA1C2, *good[1:]), (1, 3, *ZEROS[2:]), good[:4]):
        after, applied = scan(plc, (words, ZEROS))
        assert after.answers[0].result is Result.BAD
        assert (after.guard, after.targets, applied) == (0, (0,), ())
    assert served(plc, MailboxOrder(count=1, epoch=4, boot=7, target=2))[1] is Result.BAD
