"""The register block: encoding and decoding are inverse, and nothing but a block is taken for one."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.register_block import (
    BALLOT_REGISTERS,
    BLOCK_REGISTERS,
    COUNT_MODULUS,
    EPOCH_MAX,
    GENERATION_MAX,
    LEASE_MS_MAX,
    LIFE_REGISTERS,
    LIFE_START,
    RELEASED,
    RUN_MAX,
    SEQUENCE_MAX,
    SIGN_MAX,
    VERSION_MAX,
    Ballot,
    BlockDamage,
    BlockError,
    LifeSign,
    cluster_tag,
    count_after,
    decode_ballot,
    decode_life,
    encode_ballot,
    encode_life,
    is_older,
    sign_after,
)
from albireo.model.position import Position

BALLOT = Ballot(
    count=7,
    cluster_tag=cluster_tag("tunnel"),
    member=1,
    generation=3,
    lease_ms=600,
    promised=0x0001_0003,
    epoch=0x0001_0003,
    version=2,
    members=(0, 1),
    run=0xDEADBEEF,
)
LIFE = LifeSign(41, Position(5, 1_000_000_007))


@st.composite
def ballots(draw: st.DrawFn) -> Ballot:
    epoch = draw(st.integers(0, EPOCH_MAX))
    accepted = epoch > 0
    return Ballot(
        count=draw(st.integers(0, COUNT_MODULUS - 1)),
        cluster_tag=draw(st.integers(0, EPOCH_MAX)),
        member=draw(st.integers(0, 1)),
        generation=draw(st.integers(0, GENERATION_MAX)),
        lease_ms=draw(st.integers(1, LEASE_MS_MAX)),
        promised=draw(st.integers(epoch, EPOCH_MAX)),
        epoch=epoch,
        version=draw(st.integers(1, VERSION_MAX)) if accepted else 0,
        members=draw(st.sampled_from([(epoch % 2,), (0, 1)])) if accepted else (),
        run=draw(st.integers(0, RUN_MAX)) if accepted else 0,
        is_forced=draw(st.booleans()) if accepted else False,
    )


lives = st.builds(
    LifeSign,
    st.integers(0, SIGN_MAX),
    st.builds(Position, st.integers(0, EPOCH_MAX), st.integers(0, SEQUENCE_MAX)),
)


def block(ballot: Ballot = BALLOT, life: LifeSign = LIFE) -> list[int]:
    return [*encode_ballot(ballot), 0, *encode_life(life), 0, 0]


@given(ballots(), lives, st.integers(0, 3))
def test_what_was_encoded_is_decoded(ballot: Ballot, life: LifeSign, blocks_before: int) -> None:
    offset = blocks_before * BLOCK_REGISTERS
    words = [0] * offset + block(ballot, life)
    assert decode_ballot(words, offset) == ballot
    assert decode_life(words, offset) == life


def test_words_stand_where_the_table_says() -> None:
    words = block()
    assert len(words) == BLOCK_REGISTERS
    assert words[0] == 0xA1B1
    assert words[1] == words[18] == 7
    assert words[4] == 0x1003
    assert words[5] == 600
    assert words[6:8] == words[8:10] == [0x0001, 0x0003], "high word first"
    assert words[10:12] == [2, 0b11]
    assert words[12:14] == [0xDEAD, 0xBEEF]
    assert words[20:22] == [41, 0xFFFF - 41]
    assert words[22:24] == [0, 5]
    assert words[24:28] == [0, 0, 0x3B9A, 0xCA07]
    assert words[14:16] == [0, 0]
    assert words[30:32] == [0, 0]


def test_crc_is_that_of_every_modbus_tool_with_crc_32() -> None:
    """Check value of CRC-32/ISO-HDLC, so that a PLC's own library can be used."""
    assert cluster_tag("123456789") == 0xCBF43926


@pytest.mark.parametrize(
    ("register", "value", "damage"),
    [
        (0, 0, BlockDamage.FOREIGN),
        (0, 0xA1B2, BlockDamage.OTHER_LAYOUT),
        (0, 0x41B1, BlockDamage.FOREIGN),
        (1, 8, BlockDamage.TORN),
        (18, 6, BlockDamage.TORN),
        (2, 1, BlockDamage.CHECKSUM),
        (7, 9, BlockDamage.CHECKSUM),
        (16, 1, BlockDamage.CHECKSUM),
        (3, -1, BlockDamage.WORD),
        (3, 1 << 16, BlockDamage.WORD),
    ],
)
def test_damage_of_the_ballot_has_a_name(register: int, value: int, damage: BlockDamage) -> None:
    words = block()
    words[register] = value
    with pytest.raises(BlockError) as caught:
        decode_ballot(words)
    assert caught.value.damage is damage
    assert decode_life(words) == LIFE, "the parts do not tear each other"


@pytest.mark.parametrize(
    ("register", "value", "damage"),
    [
        (20, 42, BlockDamage.TORN),
        (21, 0, BlockDamage.TORN),
        (27, 1, BlockDamage.CHECKSUM),
        (28, 1, BlockDamage.CHECKSUM),
    ],
)
def test_damage_of_the_life_sign_has_a_name(register: int, value: int, damage: BlockDamage) -> None:
    words = block()
    words[register] = value
    with pytest.raises(BlockError) as caught:
        decode_life(words)
    assert caught.value.damage is damage
    assert decode_ballot(words) == BALLOT


@pytest.mark.parametrize("size", range(BLOCK_REGISTERS))
def test_too_few_registers_are_no_block(size: int) -> None:
    words = block()[:size]
    for decode, needed in ((decode_ballot, BALLOT_REGISTERS), (decode_life, LIFE_START + LIFE_REGISTERS)):
        if size >= needed:
            continue
        with pytest.raises(BlockError) as caught:
            decode(words)
        assert caught.value.damage is BlockDamage.SIZE


def test_zeros_are_never_a_block() -> None:
    for decode in (decode_ballot, decode_life):
        with pytest.raises(BlockError) as caught:
            decode([0] * BLOCK_REGISTERS)
        assert caught.value.damage is BlockDamage.ZERO


@given(ballots(), ballots(), st.integers(1, BALLOT_REGISTERS - 1))
def test_a_mixture_of_two_writes_is_no_third(older: Ballot, newer: Ballot, cut: int) -> None:
    """A tear at any register: the old block, the new one, or none."""
    newer = msgspec.structs.replace(newer, count=count_after(older.count))
    mixed = encode_ballot(newer)[:cut] + encode_ballot(older)[cut:]
    try:
        assert decode_ballot(mixed) in (older, newer)
    except BlockError as error:
        assert error.damage in BlockDamage


@given(ballots(), st.data())
def test_one_changed_register_is_always_seen(ballot: Ballot, data: st.DataObject) -> None:
    words = list(encode_ballot(ballot))
    at = data.draw(st.integers(0, BALLOT_REGISTERS - 1))
    words[at] ^= data.draw(st.integers(1, 0xFFFF))
    with pytest.raises(BlockError):
        decode_ballot(words)


@given(st.lists(st.integers(-(1 << 17), 1 << 17), max_size=70), st.integers(0, 70))
def test_any_registers_end_in_a_value_or_a_named_reason(words: list[int], offset: int) -> None:
    for decode in (decode_ballot, decode_life):
        try:
            decode(words, offset)
        except DecodeError as error:
            assert isinstance(error, BlockError)


def test_noise_is_never_a_block() -> None:
    drawn = random.Random(5)
    for _ in range(2000):
        words = [drawn.getrandbits(16) for _ in range(BLOCK_REGISTERS)]
        if drawn.random() < 0.5:
            words[0], words[1], words[21] = 0xA1B1, words[18], 0xFFFF - words[20]
        for decode in (decode_ballot, decode_life):
            with pytest.raises(BlockError):
                decode(words)


@pytest.mark.parametrize(
    "misfit",
    [
        {"member": 2},
        {"promised": 1},
        {"epoch": EPOCH_MAX + 1, "promised": EPOCH_MAX + 1},
        {"version": 0},
        {"version": VERSION_MAX + 1},
        {"run": RUN_MAX + 1},
        {"lease_ms": 0},
        {"generation": GENERATION_MAX + 1},
        {"members": ()},
        {"members": (0,)},
        {"epoch": 0},
    ],
)
def test_what_no_member_could_mean_is_not_encoded(misfit: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_ballot(msgspec.structs.replace(BALLOT, **misfit))


def test_life_sign_never_stands_still_and_is_never_released_by_counting() -> None:
    assert sign_after(SIGN_MAX) == sign_after(RELEASED) == 1
    assert sign_after(1) == 2


def test_counts_are_ordered_across_the_wrap() -> None:
    assert count_after(COUNT_MODULUS - 1) == 0
    assert is_older(COUNT_MODULUS - 1, 0)
    assert not is_older(0, COUNT_MODULUS - 1)
    assert not is_older(3, 3)
