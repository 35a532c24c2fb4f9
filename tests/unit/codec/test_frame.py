"""Frames: layout, round trip, and a typed error for every byte that is not right."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.frame import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    MAGIC_BYTES,
    RECORDS_MAX,
    Frame,
    FrameHeader,
    NeedMore,
    Origin,
    body_crc,
    check_body,
    decode_header,
    encode,
    encode_header,
    frame_bytes,
    frames,
    last_of,
    seal,
)
from albireo.model.position import Position

LOG_ID = bytes(range(16))


def header_of(body: bytes, **changes: object) -> FrameHeader:
    fields: dict[str, object] = {
        "log_id": LOG_ID,
        "epoch": 3,
        "first_sequence": 41,
        "record_count": 2,
        "stream": 1,
        "kind": 16,
        "body_bytes": len(body),
        "body_crc": body_crc(body),
    }
    return FrameHeader(**{**fields, **changes})  # type: ignore[arg-type]  # Checked by the tests that use it.


headers = st.builds(
    FrameHeader,
    log_id=st.binary(min_size=16, max_size=16),
    epoch=st.integers(0, 2**63 - 1),
    first_sequence=st.integers(1, 2**63 - 1 - RECORDS_MAX),
    record_count=st.integers(1, RECORDS_MAX),
    stream=st.integers(0, 2**16 - 1),
    kind=st.integers(0, 2**16 - 1),
    body_bytes=st.integers(0, BODY_BYTES_MAX),
    body_crc=st.integers(0, 2**32 - 1),
    previous_header_crc=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 2**16 - 1),
    elapsed_ms=st.integers(0, 2**32 - 1),
    log_time_ms=st.integers(0, 2**64 - 1),
    node_ns=st.integers(-(2**63), 2**63 - 1),
    committed_sequence=st.integers(0, 2**64 - 1),
    origin=st.none()
    | st.builds(
        Origin,
        node=st.integers(1, 2**32 - 1),
        epoch=st.integers(0, 2**64 - 1),
        sequence=st.integers(0, 2**64 - 1),
    ),
)


@given(headers)
def test_header_round_trip(header: FrameHeader) -> None:
    sealed, encoded = seal(header)
    assert len(encoded) == HEADER_BYTES
    assert decode_header(encoded) == sealed
    assert decode_header(b"\x55" * 8 + encoded, 8) == sealed


def test_header_layout_is_the_documented_one() -> None:
    """Fields stand where the table says: other programs read them there."""
    encoded = encode_header(header_of(b"abc", committed_sequence=40, log_time_ms=9, origin=Origin(7, 2, 5)))
    assert encoded[:4] == MAGIC_BYTES
    assert struct.unpack_from("<HH", encoded, 4) == (1, 128)
    assert struct.unpack_from("<I", encoded, 8) == (crc32c(encoded[12:]),)
    assert struct.unpack_from("<II", encoded, 12) == (3, crc32c(b"abc"))
    assert encoded[24:40] == LOG_ID
    assert struct.unpack_from("<QQIHH", encoded, 40) == (3, 41, 2, 1, 16)
    assert struct.unpack_from("<QIIQQQ", encoded, 80) == (40, 7, 0, 2, 5, 9)
    assert encoded[120:] == bytes(8)


def test_positions_of_a_batch() -> None:
    header = header_of(b"abc", record_count=10)
    assert header.last == Position(3, 50)
    assert header.frame_bytes == frame_bytes(3) == 136


def test_header_says_how_much_is_missing() -> None:
    encoded = encode_header(header_of(b""))
    assert decode_header(encoded[:100]) == NeedMore(28)
    assert decode_header(b"") == NeedMore(128)


@pytest.mark.parametrize(
    "changes",
    [
        {"body_bytes": BODY_BYTES_MAX + 1},
        {"record_count": 0},
        {"record_count": RECORDS_MAX + 1},
        {"first_sequence": 0},
        {"first_sequence": 2**64 - 1},
        {"epoch": 2**64 - 1},
        {"origin": Origin(0, 1, 1)},
    ],
)
def test_header_out_of_bounds_is_refused(changes: dict[str, object]) -> None:
    """A length or position is believed only inside its named limit, CRC or not."""
    with pytest.raises(DecodeError):
        decode_header(encode_header(header_of(b"", **changes)))


def test_every_flipped_bit_of_a_frame_is_found() -> None:
    data = encode(Frame(header_of(b"hello"), b"hello"))
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecodeError):
            list(frames(bytes(damaged)))


def test_every_truncation_is_found() -> None:
    data = encode(Frame(header_of(b"hello"), b"hello"))
    for length in range(1, len(data)):
        with pytest.raises(DecodeError):
            list(frames(data[:length]))


def test_frames_end_to_end() -> None:
    bodies = [b"", b"x", b"12345678", b"123456789"]
    stream = b"".join(encode(Frame(header_of(body, first_sequence=n + 1), body)) for n, body in enumerate(bodies))
    assert len(stream) % 8 == 0
    found = list(frames(stream))
    assert [bytes(body) for _, body in found] == bodies
    assert [header.first_sequence for header, _ in found] == [1, 2, 3, 4]


def test_last_of_frames_end_to_end_is_found_and_all_are_counted() -> None:
    bodies = [b"", b"x", b"12345678", bytes(100)]
    encoded = [encode(Frame(header_of(body, first_sequence=n + 1), body)) for n, body in enumerate(bodies)]
    for count, one in enumerate(encoded, start=1):
        assert last_of(b"".join(encoded[:count])) == (decode_header(one), count)


def test_frames_without_verification_leave_bodies_alone() -> None:
    data = bytearray(encode(Frame(header_of(b"hello"), b"hello")))
    data[HEADER_BYTES] ^= 1
    assert len(list(frames(bytes(data), verify=False))) == 1
    with pytest.raises(DecodeError, match="body CRC"):
        list(frames(bytes(data)))


def test_body_check_names_the_fault() -> None:
    header, encoded = seal(header_of(b"hello"))
    with pytest.raises(DecodeError, match="cut short"):
        check_body(header, encoded + b"hel", 0)
    with pytest.raises(DecodeError, match="padding"):
        check_body(header, encoded + b"hello\0\0\1", 0)
