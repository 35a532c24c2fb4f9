"""References to messages: the head is in them, and nothing else makes sense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec import reference
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.puts import CursorMoved, decode_head, encode_puts
from albireo.codec.record import Kind, Stream


def payload(body: bytes, kind: Kind = Kind.PUTS) -> Frame:
    stream, size = Stream.OWN_PUTS, len(body)
    header = FrameHeader(b"P" * 16, 1, 7, 2, stream, kind, size, body_crc(body))
    return Frame(header, body)


BODY = encode_puts(3, 4, [(9, [b"one", b"two"])], [CursorMoved(5, 9, 1)])


def test_a_reference_to_messages_has_their_head_and_their_place() -> None:
    body = reference.encode(payload(BODY))
    assert reference.decode_head(body) == decode_head(BODY)
    meant = reference.decode(body)
    assert (meant.sequence, meant.kind, meant.body_bytes, meant.body_crc) == (7, Kind.PUTS, len(BODY), body_crc(BODY))
    assert b"one" not in body


def test_a_head_stands_behind_a_reference_to_messages_only() -> None:
    whole = reference.encode(payload(BODY))
    values = reference.encode(payload(BODY, Kind.BOOL))
    for body in (whole[: len(values)], values + b"\0"):
        with pytest.raises(DecodeError):
            reference.decode(body)
    with pytest.raises(DecodeError):
        reference.decode_head(values)


@given(st.binary(max_size=120), st.integers(0, 120))
def test_no_bytes_make_anything_else_than_a_decode_error(noise: bytes, at: int) -> None:
    body = reference.encode(payload(BODY))
    for hostile in (noise, body[:at] + noise, body[:at] + noise + body[at + len(noise) :]):
        try:
            reference.decode_head(hostile)
        except DecodeError:
            pass
