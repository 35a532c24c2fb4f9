"""One member's block in a PLC that votes: 32 holding registers <-> values. Both members' blocks lie side by side.

A register is 16 bits; a value of several registers has its high word first. A block has two parts, each with its own
CRC, because the life-sign is written often and alone and must never tear the ballot.

    register  field            meaning
       0      layout           0xA1B0 + version of this table (1)
       1      count (head)     writes of the ballot part so far, modulo 2**16
     2..3     cluster tag      CRC-32 of the cluster's name
       4      member, list     bits 15..12: index of the member; bits 11..0: generation of the voter list
       5      lease            length in ms
     6..7     promised         ballot promised (`mbal`)
     8..9     epoch            of the record accepted (`bal`); 0: none yet
      10      version          of the record
      11      set              bit n: member n is in the in-sync set; bit 15: forced
    12..13    run              of the record's holder
    14..15    0
    16..17    CRC-32           of registers 0..15
      18      count (tail)     equal to the head, or the write was torn
      19      0
      20      life-sign        1..65535, then 1 again; 0: released, nobody lives here any more
      21      complement       of the life-sign
    22..23    floor epoch      of the position below; the record's epoch from the first commit under it on
    24..27    floor sequence   highest commit position known
    28..29    CRC-32           of registers 20..27
    30..31    0

The CRC-32 is that of ISO-HDLC (zlib), over the registers as big-endian bytes. The CRC of zeros is not 0, so a block of
zeros is never valid: a PLC that lost its memory gives no answer, never an empty one.

The messages at the end go between CORE, where the voter's machine is, and the adapter that has the connection.

Spec: design/pair.md, The PLC register block; ADR-0095.
"""

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final
from zlib import crc32

import msgspec

from albireo.codec.errors import DecodeError
from albireo.model import bounded
from albireo.model.position import BEGINNING, Position

LAYOUT: Final = 0xA1B0
LAYOUT_VERSION: Final = 1
BLOCK_REGISTERS: Final = 32
BALLOT_REGISTERS: Final = 19
"""Registers 0..18, written by one FC16."""
LIFE_START: Final = 20
LIFE_REGISTERS: Final = 10
"""Registers 20..29, written by one FC16."""
COUNT_MODULUS: Final = 1 << 16
EPOCH_MAX: Final = (1 << 32) - 1
RUN_MAX: Final = (1 << 32) - 1
VERSION_MAX: Final = (1 << 16) - 1
LEASE_MS_MAX: Final = (1 << 16) - 1
GENERATION_MAX: Final = (1 << 12) - 1
SIGN_MAX: Final = (1 << 16) - 1
RELEASED: Final = 0
SEQUENCE_MAX: Final = (1 << 63) - 1
"""Highest sequence, as in codec/frame.py."""

_FORCED: Final = 1 << 15
_MEMBER_BITS: Final = 0b11
_BALLOT: Final = struct.Struct(">HHIHHIIHHII")
_BALLOT_END: Final = struct.Struct(">IH")
_LIFE: Final = struct.Struct(">HHIQ")
_CRC: Final = struct.Struct(">I")
_WORDS_OF_BALLOT: Final = struct.Struct(f">{BALLOT_REGISTERS}H")
_WORDS_OF_LIFE: Final = struct.Struct(f">{LIFE_REGISTERS}H")


class BlockDamage(Enum):
    """Reasons why registers are no block. None of them means "empty"."""

    SIZE = "size"
    """There are more or fewer registers than were asked for."""
    WORD = "word"
    """A register is no 16-bit number."""
    ZERO = "zero"
    """The PLC lost its memory, or nobody ever wrote here."""
    FOREIGN = "foreign"
    """The layout mark is missing: other data of the PLC, or the middle of a write."""
    OTHER_LAYOUT = "other_layout"
    """The block follows a later version of the table."""
    TORN = "torn"
    """Head and tail counts differ: the middle of a write, or a write that broke off."""
    CHECKSUM = "checksum"
    RESERVED = "reserved"
    """Bits that must be 0 are set under a right CRC: something else wrote them."""
    RANGE = "range"
    """No member could have written these values."""


class BlockError(DecodeError):
    """Hostile, torn or foreign registers. `offset` counts registers."""

    def __init__(self, offset: int, damage: BlockDamage) -> None:
        super().__init__(offset, damage.value)
        self.damage = damage


class Ballot(msgspec.Struct, frozen=True, kw_only=True):
    """Registers 0..18: what this member promised and accepted."""

    count: int
    """Number of writes so far, modulo 2**16; puts two images of one block into their sequence."""
    cluster_tag: int
    member: int
    generation: int
    lease_ms: int
    promised: int
    """Nothing below this epoch is accepted by this member."""
    epoch: int = 0
    """Epoch of the accepted record; 0: none."""
    version: int = 0
    members: tuple[int, ...] = ()
    run: int = 0
    is_forced: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        return (self.epoch, self.version)


class LifeSign(msgspec.Struct, frozen=True):
    """Registers 20..29: sign that the holder lives, and its commit position."""

    sign: int
    floor: Position = BEGINNING


def cluster_tag(cluster: str) -> int:
    """Number of 32 bits that stands for a cluster's name; never 0."""
    return crc32(cluster.encode()) or 1


def count_after(count: int) -> int:
    return (count + 1) % COUNT_MODULUS


def sign_after(sign: int) -> int:
    """Next life-sign after `sign`; never `RELEASED`."""
    return sign % SIGN_MAX + 1


def is_older(count: int, than: int) -> bool:
    """True if `count` lies before `than`; right while they are less than half the range apart (RFC 1982)."""
    return 0 < (than - count) % COUNT_MODULUS < COUNT_MODULUS // 2


def encode_ballot(ballot: Ballot) -> tuple[int, ...]:
    """Registers 0..18.

    Raises:
        ValueError: a field does not fit the table; what was decoded always does.
    """
    _refuse_misfit(ballot)
    head = _BALLOT.pack(
        LAYOUT + LAYOUT_VERSION,
        ballot.count,
        ballot.cluster_tag,
        ballot.member << 12 | ballot.generation,
        ballot.lease_ms,
        ballot.promised,
        ballot.epoch,
        ballot.version,
        sum(1 << member for member in ballot.members) | (_FORCED if ballot.is_forced else 0),
        ballot.run,
        0,
    )
    return _WORDS_OF_BALLOT.unpack(head + _BALLOT_END.pack(crc32(head), ballot.count))


def encode_life(life: LifeSign) -> tuple[int, ...]:
    """Registers 20..29."""
    if not (0 <= life.sign <= SIGN_MAX and life.floor.epoch <= EPOCH_MAX and life.floor.sequence <= SEQUENCE_MAX):
        raise ValueError(f"register block: {life} does not fit")
    head = _LIFE.pack(life.sign, SIGN_MAX - life.sign, life.floor.epoch, life.floor.sequence)
    return _WORDS_OF_LIFE.unpack(head + _CRC.pack(crc32(head)))


def decode_ballot(words: Sequence[int], offset: int = 0) -> Ballot:
    """The ballot part of the block that begins at `offset`.

    Raises:
        BlockError: with the reason; nothing else, whatever the registers hold.
    """
    octets = _octets(words, offset, BALLOT_REGISTERS, _WORDS_OF_BALLOT)
    layout, head, tag, origin, lease, promised, epoch, version, bits, run, gap = _BALLOT.unpack_from(octets)
    crc, tail = _BALLOT_END.unpack_from(octets, _BALLOT.size)
    if layout != LAYOUT + LAYOUT_VERSION:
        raise BlockError(offset, BlockDamage.OTHER_LAYOUT if layout >> 4 == LAYOUT >> 4 else BlockDamage.FOREIGN)
    if head != tail:
        raise BlockError(offset, BlockDamage.TORN)
    if crc != crc32(octets[: _BALLOT.size]):
        raise BlockError(offset, BlockDamage.CHECKSUM)
    if gap or bits & ~(_FORCED | _MEMBER_BITS):
        raise BlockError(offset, BlockDamage.RESERVED)
    ballot = Ballot(
        count=head,
        cluster_tag=tag,
        member=origin >> 12,
        generation=origin & GENERATION_MAX,
        lease_ms=lease,
        promised=promised,
        epoch=epoch,
        version=version,
        members=tuple(member for member in (0, 1) if bits >> member & 1),
        run=run,
        is_forced=bool(bits & _FORCED),
    )
    if _misfit(ballot):
        raise BlockError(offset, BlockDamage.RANGE)
    return ballot


def decode_life(words: Sequence[int], offset: int = 0) -> LifeSign:
    """The life-sign of the block that begins at `offset`.

    Raises:
        BlockError: with the reason; nothing else, whatever the registers hold.
    """
    start = offset + LIFE_START
    octets = _octets(words, start, LIFE_REGISTERS, _WORDS_OF_LIFE)
    sign, complement, epoch, sequence = _LIFE.unpack_from(octets)
    (crc,) = _CRC.unpack_from(octets, _LIFE.size)
    if sign + complement != SIGN_MAX:
        raise BlockError(start, BlockDamage.TORN)
    if crc != crc32(octets[: _LIFE.size]):
        raise BlockError(start, BlockDamage.CHECKSUM)
    if sequence > SEQUENCE_MAX:
        raise BlockError(start, BlockDamage.RANGE)
    return LifeSign(sign, Position(epoch, sequence))


def _octets(words: Sequence[int], start: int, size: int, layout: struct.Struct) -> bytes:
    part = words[start : start + size]
    if len(part) != size:
        raise BlockError(start, BlockDamage.SIZE)
    try:
        octets = layout.pack(*part)
    except struct.error as error:
        raise BlockError(start, BlockDamage.WORD) from error
    if not any(octets):
        raise BlockError(start, BlockDamage.ZERO)
    return octets


def _misfit(ballot: Ballot) -> str:
    """Fields that no member could have written; "" if there are none."""
    if not (0 <= ballot.count < COUNT_MODULUS and 0 <= ballot.cluster_tag <= EPOCH_MAX):
        return "count or tag"
    if ballot.member not in (0, 1) or not 0 <= ballot.generation <= GENERATION_MAX:
        return "member or list"
    if not 0 < ballot.lease_ms <= LEASE_MS_MAX:
        return "lease"
    if not 0 <= ballot.epoch <= ballot.promised <= EPOCH_MAX:
        return "a record above the promise"
    if ballot.epoch == 0:
        has_record = ballot.version or ballot.members or ballot.run or ballot.is_forced
        return "parts of a record without an epoch" if has_record else ""
    if not 1 <= ballot.version <= VERSION_MAX or not 0 <= ballot.run <= RUN_MAX:
        return "version or run"
    return "" if ballot.members in ((0,), (1,), (0, 1)) and ballot.epoch % 2 in ballot.members else "set"


def _refuse_misfit(ballot: Ballot) -> None:
    misfit = _misfit(ballot)
    if misfit:
        raise ValueError(f"register block: {misfit} does not fit: {ballot}")


class ByRegisters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what a CORE and the adapter of a PLC that votes say to each other."""

    adapter: bounded.Name
    connection: bounded.Count
    """Number above 0 that is never used twice; it may fall at a restart of the adapter."""


class VoterOffered(ByRegisters, frozen=True, tag="voter_offered"):
    """Adapter to CORE, at each connection and repeated: requests on it are carried out in their order.

    The register voter's `Connected`, once per number. A CORE that did not see this connection begin hangs it up first:
    a request of the CORE before may still be under way on it.
    """


class VoterLost(ByRegisters, frozen=True, tag="voter_lost"):
    """The register voter's `ConnectionLost`: closed by RST, before this was said."""


class VoterReadAsked(ByRegisters, frozen=True, tag="voter_read_asked"):
    """CORE to adapter: the register voter's `ReadBlocks`."""


class VoterRead(ByRegisters, frozen=True, tag="voter_read"):
    """The register voter's `RegistersRead`: member 0's block, then member 1's."""

    words: bounded.Words


class VoterWriteAsked(ByRegisters, frozen=True, tag="voter_write_asked"):
    """CORE to adapter: the register voter's `WriteBlock`, into the block of the own member."""

    member: bounded.Seat
    register: bounded.Register
    """Index of the first register in that block."""
    words: bounded.Words
    not_after: bounded.Signed
    """Instant (boot clock) from which on the request is not sent, and the connection is given up instead."""


class VoterWritten(ByRegisters, frozen=True, tag="voter_written"):
    """The register voter's `RegistersWritten`."""


class VoterHangUp(ByRegisters, frozen=True, tag="voter_hang_up"):
    """CORE to adapter: close the connection of the register voter. Answered by `VoterLost`, then `VoterOffered`."""


RegisterMessage = VoterOffered | VoterLost | VoterReadAsked | VoterRead | VoterWriteAsked | VoterWritten | VoterHangUp
