"""Bodies of puts: what was encoded comes back, a head that lies is refused, and no bytes end in anything else."""

import struct
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.puts import (
    CursorMoved,
    Extra,
    PutHead,
    PutRun,
    check_puts,
    decode_head,
    decode_puts,
    encode_puts,
    record_count_of,
)
from albireo.codec.record import PRODUCER
from tests.parts.fuzz_message import mutated

runs = st.lists(
    st.tuples(st.integers(1, 2**63 - 1), st.lists(st.binary(max_size=40), min_size=1, max_size=5)), max_size=5
)
moves = st.lists(st.builds(CursorMoved, *[st.integers(0, 2**63 - 1)] * 3), max_size=3)


@given(runs, moves, st.booleans())
def test_what_was_encoded_comes_back(
    messages: list[tuple[int, list[bytes]]], moved: list[CursorMoved], has_extras: bool
) -> None:
    flat = [body for _, bodies in messages for body in bodies]
    extras = {0: Extra(b"fan", {"unit": "rpm"})} if has_extras and flat else {}
    body = encode_puts(7, 3, messages, moved, extras)
    head = decode_head(body)
    count = record_count_of(head)
    assert PRODUCER.unpack_from(body) == (7, 3)
    assert count == max(1, len(flat))
    if not flat and not moved:
        with pytest.raises(DecodeError):
            check_puts(body, count)
        return
    assert check_puts(body, count) == head
    batch = decode_puts(memoryview(body), count)
    assert [bytes(one) for one in batch.bodies] == flat
    assert batch.extras == extras and list(head.moves) == moved
    assert [run.topic_id for run in head.runs] == [topic_id for topic_id, _ in messages]


def said(head: PutHead, rest: bytes) -> bytes:
    packed = msgspec.msgpack.encode(head)
    return PRODUCER.pack(1, 1) + struct.pack("<I", len(packed)) + packed + rest


LENGTHS = struct.pack("<2I", 3, 2)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (said(PutHead((PutRun(1, 2, 5),)), LENGTHS + b"abcde"), 3),
        (said(PutHead((PutRun(1, 2, 5),)), LENGTHS + b"abcd"), 2),
        (said(PutHead((PutRun(1, 2, 5),)), LENGTHS + b"abcdef"), 2),
        (said(PutHead((PutRun(1, 2, 4),)), LENGTHS + b"abcde"), 2),
        (said(PutHead((PutRun(1, 1, 2), PutRun(2, 1, 3))), LENGTHS + b"abcde"), 2),
        (said(PutHead((PutRun(1, 3, 5),)), LENGTHS + b"abcde"), 3),
        (said(PutHead((PutRun(1, 2, 5),), extras_bytes=9), LENGTHS + b"abcde"), 2),
        (said(PutHead((PutRun(1, 2, 5),), extras_bytes=1), LENGTHS + b"\xc1abcde"), 2),
        (said(PutHead((PutRun(1, 2, 5),), extras_bytes=4), LENGTHS + b"\x81\x02\x91\xc0abcde"), 2),
        (said(PutHead((PutRun(1, 2**31 - 1, 5),)), LENGTHS + b"abcde"), 2**31 - 1),
        (said(PutHead(), b""), 1),
        (said(PutHead(moves=(CursorMoved(1, 1, 1),)), b"x"), 1),
        (said(PutHead(moves=(CursorMoved(1, 1, 1),)), b""), 2),
        (PRODUCER.pack(1, 1) + struct.pack("<I", 2**32 - 1) + b"x", 1),
        (PRODUCER.pack(1, 1), 1),
        (b"", 1),
    ],
)
def test_a_head_that_lies_is_refused(body: bytes, count: int) -> None:
    with pytest.raises(DecodeError):
        check_puts(body, count)


def test_hostile_bytes_are_a_batch_or_a_refusal() -> None:
    random = Random(5)
    seed = encode_puts(1, 1, [(4, [b"one", b"two"]), (9, [b""])], [CursorMoved(2, 4, 1, ((3, 5),))], {1: Extra(b"k")})
    taken = 0
    for _ in range(3_000):
        body = mutated(seed, random)
        try:
            batch = decode_puts(body, random.choice((1, 3, 4)))
        except DecodeError:
            continue
        taken += 1
        assert len(batch.bodies) == batch.head.count
    assert 0 < taken < 3_000
