"""Patterns that the commissioning test of a PLC voter writes, and may read back. Pure.

A pattern fills neighbouring registers, at the places and in the lengths in which members write:

    register  content
       0      MARK: no layout of a block, so no member ever takes a pattern for a vote
       1..2   count of the write, high word first
       3..    one byte of the count, twice in each register

So a whole pattern names its write, a mixture of two is seen, and a register whose two bytes differ was torn inside.

Spec: design/pair.md, The PLC register block; ADR-0105.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from albireo.codec.register_block import (
    BALLOT_REGISTERS,
    LIFE_REGISTERS,
    LIFE_START,
    Ballot,
    BlockDamage,
    BlockError,
    cluster_tag,
    decode_ballot,
)

MARK: Final = 0xD0D0
"""Two equal bytes, as in the rest of a pattern."""
HEAD_REGISTERS: Final = 3
_FILL_MODULUS: Final = 251
"""Prime and below 256: two counts with the same byte are far apart."""


class Found(StrEnum):
    """Contents of a block before the test."""

    ZERO = "zero"
    OURS = "ours"
    """A block of this pair, written for this member."""
    LEFT = "left"
    """A pattern of a test that was broken off."""
    OTHER_PAIR = "other_pair"
    """A block of another cluster, node or member."""
    FOREIGN = "foreign"
    """Anything else."""


def pattern(count: int, size: int) -> tuple[int, ...]:
    """`size` registers that say "write number `count`"."""
    fill = (count % _FILL_MODULUS + 1) * 0x0101
    return (MARK, count >> 16 & 0xFFFF, count & 0xFFFF, *(fill,) * (size - HEAD_REGISTERS))


def count_in(words: Sequence[int]) -> int | None:
    """Number of the write that stands here whole; None: none does."""
    if len(words) < HEAD_REGISTERS:
        return None
    count = words[1] << 16 | words[2]
    return count if tuple(words) == pattern(count, len(words)) else None


def is_split(words: Sequence[int]) -> bool:
    """Some register of a pattern holds bytes of two writes: no checksum of ours assumes that, but a PLC might do it."""
    return any(word >> 8 != word & 0xFF for word in words[HEAD_REGISTERS:])


def found_in(words: Sequence[int], member: int, cluster: str) -> Found:
    """Contents of the 32 registers of `member`'s block."""
    if not any(words):
        return Found.ZERO
    if words[0] == MARK:
        return Found.LEFT
    try:
        ballot = decode_ballot(words)
    except BlockError as error:
        # The ballot may be gone or torn with the life-sign still there; whose it was can't be known.
        return Found.OTHER_PAIR if error.damage is BlockDamage.OTHER_LAYOUT else Found.FOREIGN
    return Found.OURS if _is_of(ballot, member, cluster) else Found.OTHER_PAIR


def _is_of(ballot: Ballot, member: int, cluster: str) -> bool:
    return ballot.cluster_tag == cluster_tag(cluster) and ballot.member == member


def may_restore(block: Sequence[int]) -> bool:
    """Only the test can have left it like this: each part its pattern, or the zeros of a power cycle."""
    parts = block[:BALLOT_REGISTERS], block[LIFE_START : LIFE_START + LIFE_REGISTERS]
    return all(part[0] == MARK or not any(part) for part in parts)


class KeptPattern(StrEnum):
    """Remains of a pattern after a power cycle."""

    ALL = "all"
    """The last write, or the one that was on its way."""
    NONE = "none"
    """Zeros, or a mixture that no checksum passes: no answer, and the members write it anew."""
    OLDER = "older"
    """An older write, whole: it would be taken for a vote."""


def kept(words: Sequence[int], acknowledged: int, sent: int) -> KeptPattern:
    """Judge neighbouring registers after a power cycle.

    Args:
        acknowledged: count of the last write that the PLC answered.
        sent: count of the last one that left, perhaps without an answer.
    """
    count = count_in(words)
    if count is None:
        return KeptPattern.NONE
    return KeptPattern.ALL if acknowledged <= count <= sent else KeptPattern.OLDER
