"""Hostile bytes: the frame decoder ends with frames or a DecodeError, never anything else, and allocates no more."""

import random

from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, NeedMore, body_crc, decode_header, encode, frames


def _frame(body: bytes, first_sequence: int) -> bytes:
    return encode(Frame(FrameHeader(bytes(16), 1, first_sequence, 1, 1, 16, len(body), body_crc(body)), body))


VALID = _frame(b"some body", 1) + _frame(b"", 2) + _frame(b"x" * 300, 3)


def _total(data: bytes) -> int:
    count = 0
    try:
        for header, body in frames(data):
            assert len(body) == header.body_bytes
            count += 1
    except DecodeError:
        pass
    return count


@given(st.binary(max_size=400), st.integers(0, 500))
def test_any_bytes_at_any_offset(data: bytes, offset: int) -> None:
    try:
        found = decode_header(data, offset)
    except DecodeError as error:
        assert error.offset == offset
    else:
        assert isinstance(found, NeedMore | FrameHeader)
    _total(data)


@given(st.data())
def test_mutated_frames(data: st.DataObject) -> None:
    """Byte changes, cuts and insertions in valid frames: what is still yielded is what was written."""
    damaged = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert", "truncate"])):
            case "change":
                damaged[at] = data.draw(st.integers(0, 255))
            case "cut":
                del damaged[at : at + data.draw(st.integers(1, 16))]
            case "insert":
                damaged[at:at] = data.draw(st.binary(min_size=1, max_size=16))
            case _:
                del damaged[at:]
        if not damaged:
            break
    originals = [bytes(body) for _, body in frames(VALID)]
    try:
        for header, body in frames(bytes(damaged)):
            assert bytes(body) == originals[header.first_sequence - 1]
    except DecodeError:
        pass


def test_random_noise_is_never_a_frame() -> None:
    drawn = random.Random(7)
    for _ in range(2000):
        assert _total(drawn.randbytes(drawn.randrange(600))) == 0


def test_noise_behind_a_real_lead_is_never_a_frame() -> None:
    """Magic, version and length right, the rest noise: the header CRC stands in the way of every length."""
    drawn = random.Random(8)
    for _ in range(2000):
        assert _total(VALID[:8] + drawn.randbytes(400)) == 0
