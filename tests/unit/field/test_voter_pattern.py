"""Patterns of the commissioning test: what names its write, what is a mixture, and what may be written over."""

import pytest

from albireo.codec.register_block import (
    BALLOT_REGISTERS,
    BLOCK_REGISTERS,
    LIFE_REGISTERS,
    LIFE_START,
    Ballot,
    BlockError,
    cluster_tag,
    decode_ballot,
    decode_life,
    encode_ballot,
)
from albireo.field.modbus.voter.pattern import (
    MARK,
    Found,
    KeptPattern,
    count_in,
    found_in,
    is_split,
    kept,
    may_restore,
    pattern,
)

PARTS = (BALLOT_REGISTERS, LIFE_REGISTERS)
COUNTS = (0, 1, 2, 250, 251, 252, 65_535, 65_536, 70_000)
NAME = "cluster/root"


def block(ballot: tuple[int, ...] = (), life: tuple[int, ...] = ()) -> list[int]:
    words = [0] * BLOCK_REGISTERS
    words[: len(ballot)] = ballot
    words[LIFE_START : LIFE_START + len(life)] = life
    return words


def written(member: int, name: str = NAME) -> list[int]:
    ballot = Ballot(
        count=1, cluster_tag=cluster_tag(name), member=member, generation=1, lease_ms=600, promised=2 + member
    )
    return block(encode_ballot(ballot))


@pytest.mark.parametrize("size", PARTS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_whole_pattern_names_its_write_and_is_no_vote(count: int, size: int) -> None:
    words = pattern(count, size)
    assert (len(words), count_in(words), is_split(words)) == (size, count, False)
    with pytest.raises(BlockError):
        decode_ballot(block(words))
    with pytest.raises(BlockError):
        decode_life(block(life=words))


@pytest.mark.parametrize("size", PARTS)
def test_every_mixture_of_two_following_writes_is_seen(size: int) -> None:
    for count in range(600):
        before, after = pattern(count, size), pattern(count + 1, size)
        for cut in range(3, size):
            mixed = after[:cut] + before[cut:]
            assert count_in(mixed) is None and not is_split(mixed)
            torn_inside = (*after[:cut], after[cut] & 0xFF00 | before[cut] & 0xFF, *before[cut + 1 :])
            assert is_split(torn_inside)


def test_what_a_block_holds_is_told_apart() -> None:
    assert found_in(block(), 0, NAME) is Found.ZERO
    assert found_in(block(pattern(5, 19)), 0, NAME) is Found.LEFT
    assert found_in(written(1), 1, NAME) is Found.OURS
    assert found_in(written(1), 0, NAME) is Found.OTHER_PAIR
    assert found_in(written(0, "another"), 0, NAME) is Found.OTHER_PAIR
    assert found_in(block((0xA1B2,)), 0, NAME) is Found.OTHER_PAIR
    torn = written(0)
    torn[6] ^= 1
    for words in (torn, block((1,)), block(life=(7,))):
        assert found_in(words, 0, NAME) is Found.FOREIGN


def test_only_what_the_test_left_is_written_over() -> None:
    for words in (block(), block(pattern(1, 19)), block(pattern(1, 19), pattern(2, 10)), block((), pattern(2, 10))):
        assert may_restore(words)
    for words in (written(0), block(pattern(1, 19), (7,)), block((5,), pattern(1, 10))):
        assert not may_restore(words)
    assert MARK == pattern(0, 3)[0]


def test_what_a_power_cycle_left_is_judged() -> None:
    assert kept(pattern(7, 19), 7, 8) is KeptPattern.ALL
    assert kept(pattern(8, 19), 7, 8) is KeptPattern.ALL
    assert kept([0] * 19, 7, 8) is KeptPattern.NONE
    assert kept(pattern(8, 19)[:9] + pattern(7, 19)[9:], 7, 8) is KeptPattern.NONE
    assert kept(pattern(6, 19), 7, 8) is KeptPattern.OLDER
    assert kept(pattern(9, 19), 7, 8) is KeptPattern.OLDER
