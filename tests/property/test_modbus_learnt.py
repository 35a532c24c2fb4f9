"""What is learnt of a block: whatever a device lacks, the rest is read in as few requests as can be."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.modbus.items import TableKind
from albireo.field.modbus.learnt import BlockPart, BlockRefusal, LearntBlock
from albireo.field.modbus.plan import Block, ItemSpan
from albireo.model.instant import Instant
from albireo.model.quality import BAD_CONFIGURATION_ERROR
from tests.long_form import examples

NOW, LATER = Instant(0), Instant(10)
Reads = Callable[[Block], bool]


def block_at(addresses: list[int]) -> Block:
    spans = [ItemSpan(row, address, address + 1) for row, address in enumerate(addresses)]
    return Block.of(1, TableKind.HOLDING, spans, 0)


def polled(learnt: LearntBlock, reads: Reads) -> tuple[set[int], int]:
    """(items that were read, requests) of one poll without any bound."""
    at, requests, longest, seen = 0, 0, len(learnt), set()
    while at < len(learnt):
        part = learnt.next(at, longest)
        if isinstance(part, BlockRefusal):
            at += 1
            continue
        assert part.first == at <= part.last < len(learnt)
        requests += 1
        if reads(part.block):
            learnt.answered(part)
            seen |= set(part.rows.tolist())
            at, longest = part.last + 1, 2 * longest
        else:
            learnt.refused(part, BAD_CONFIGURATION_ERROR, LATER)
            longest = 1 if part.first == part.last else longest
    return seen, requests


def settled(learnt: LearntBlock, reads: Reads) -> tuple[set[int], int]:
    """The same when nothing more is learnt."""
    for _ in range(20):
        polled(learnt, reads)
    return polled(learnt, reads)


def lacking(addresses: set[int]) -> Reads:
    return lambda block: not any(block.address <= one < block.address + block.count for one in addresses)


def test_one_illegal_address_of_sixty_leaves_two_requests() -> None:
    learnt = LearntBlock(block_at(list(range(60))))
    seen, first = polled(learnt, lacking({37}))
    assert seen == set(range(60)) - {37}
    assert first < 24
    assert polled(learnt, lacking({37})) == (seen, 2)


def test_sixty_illegal_addresses_are_learnt_with_few_requests_more_than_there_are() -> None:
    learnt = LearntBlock(block_at(list(range(60))))
    assert polled(learnt, lambda block: False)[1] < 70
    assert polled(learnt, lambda block: False) == (set(), 0)
    assert learnt.blind_items == 60


def test_a_hole_that_the_device_lacks_is_not_read_along() -> None:
    learnt = LearntBlock(block_at([0, 1, 2, 6, 7, 8]))
    assert settled(learnt, lacking({4})) == (set(range(6)), 2)
    assert learnt.blind_items == 0


def test_a_device_that_reads_few_registers_at_once_is_asked_for_so_many() -> None:
    learnt = LearntBlock(block_at(list(range(60))))
    assert settled(learnt, lambda block: block.count <= 25) == (set(range(60)), 3)


def due_part(learnt: LearntBlock, now: Instant) -> BlockPart | None:
    found = learnt.due()
    return found[1] if found is not None and found[0] <= now else None


def test_what_was_refused_is_due_later_one_after_the_other_and_sooner_after_a_success() -> None:
    learnt = LearntBlock(block_at(list(range(8))))
    settled(learnt, lacking({2, 5}))
    assert due_part(learnt, NOW) is None
    first = due_part(learnt, LATER)
    assert first is not None
    learnt.refused(first, BAD_CONFIGURATION_ERROR, Instant(20))
    second = due_part(learnt, LATER)
    assert second is not None
    assert {first.first, second.first} == {2, 5}
    learnt.answered(second)
    assert due_part(learnt, NOW) is not None, "the program was changed: the rest is tried at once"
    assert polled(learnt, lacking({first.first}))[1] == 2


def test_a_reconnect_tries_again_and_forgets_nothing() -> None:
    learnt = LearntBlock(block_at(list(range(60))))
    settled(learnt, lacking({37}))
    learnt.try_again()
    assert due_part(learnt, NOW) is not None
    assert polled(learnt, lacking({37}))[1] == 2


ADDRESSES = st.lists(st.integers(0, 90), min_size=1, max_size=40, unique=True).map(sorted)


@settings(max_examples=examples(200), deadline=None)
@given(ADDRESSES, st.sets(st.integers(0, 90), max_size=12), st.integers(1, 91))
def test_whatever_the_device_lacks_every_other_item_is_read_with_the_fewest_requests(
    addresses: list[int], absent: set[int], most: int
) -> None:
    learnt = LearntBlock(block_at(addresses))
    lacks = lacking(absent)

    def reads(block: Block) -> bool:
        return block.count <= most and lacks(block)

    fewest, at = 0, 0
    readable = [one not in absent for one in addresses]
    while at < len(addresses):
        end = at
        while end + 1 < len(addresses) and reads(block_at(addresses[at : end + 2])):
            end += 1
        fewest += readable[at]
        at = end + 1
    wanted = {row for row, is_readable in enumerate(readable) if is_readable}
    assert polled(learnt, reads)[0] == wanted
    seen, requests = settled(learnt, reads)
    assert seen == wanted
    assert requests == fewest
    assert learnt.blind_items == len(addresses) - len(wanted)


@settings(max_examples=examples(100), deadline=None)
@given(ADDRESSES, st.sets(st.integers(0, 90), max_size=12), st.sets(st.integers(0, 90), max_size=12))
def test_a_device_that_changes_is_learnt_anew(addresses: list[int], before: set[int], after: set[int]) -> None:
    learnt = LearntBlock(block_at(addresses))
    settled(learnt, lacking(before))
    seen = settled(learnt, lacking(after))[0]
    while (part := due_part(learnt, LATER)) is not None:
        if lacking(after)(part.block):
            learnt.answered(part)
        else:
            learnt.refused(part, BAD_CONFIGURATION_ERROR, Instant(20))
    seen = settled(learnt, lacking(after))[0]
    assert seen == {row for row, one in enumerate(addresses) if one not in after}
