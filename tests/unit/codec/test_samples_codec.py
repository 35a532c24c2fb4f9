"""Columns of samples and their bytes: every way in which texts can be wrong, and batches joined to one body."""

import numpy as np
import pytest

from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.model.samples import SampleBatch, Strings
from albireo.model.value import ValueType

FIXED = bytes(24)


def body(data: bytes, *ends: int) -> bytes:
    """Body with one string for each of `ends`, whatever these are."""
    return FIXED * len(ends) + np.array([0, *ends], "<u4").tobytes() + data


@pytest.mark.parametrize(
    "texts", [[""], ["a"], ["", "a", ""], ["\x7f"], ["\x80"], ["\u00e4", "", "\u20ac", "\U0001f600"]]
)
def test_texts_come_back(texts: list[str]) -> None:
    encoded = [one.encode() for one in texts]
    ends = np.cumsum([len(one) for one in encoded])
    batch = samples.decode(body(b"".join(encoded), *ends), ValueType.STRING, len(texts))
    assert batch.values() == texts
    assert samples.encode(batch) == body(b"".join(encoded), *ends)


@pytest.mark.parametrize(
    ("data", "ends", "said"),
    [
        (b"\xff", (1,), "not UTF-8"),
        (b"\x80", (1,), "not UTF-8"),
        (b"a\xc3", (2,), "not UTF-8"),
        (b"\xed\xa0\x80", (3,), "not UTF-8"),
        (b"\xc3\xa4", (1, 2), "begins inside a character"),
        (b"\xc3\xa4", (1, 1, 2), "begins inside a character"),
        (b"a\xe2\x82\xac", (1, 3, 4), "begins inside a character"),
        (b"ab", (1,), "do not cover the data"),
        (b"ab", (3,), "do not cover the data"),
        (b"ab", (2, 1, 2), "do not cover the data"),
        (b"", (1, 0), "do not cover the data"),
    ],
)
def test_texts_that_are_none_are_refused(data: bytes, ends: tuple[int, ...], said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        samples.decode(body(data, *ends), ValueType.STRING, len(ends))


def test_texts_cut_short_are_refused() -> None:
    whole = body(b"abc", 1, 3)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            samples.decode(whole[:length], ValueType.STRING, 2)


def test_columns_of_another_layout_are_encoded_as_what_they_hold() -> None:
    """Arrays that numpy and Arrow give for the same numbers: signed, big-endian, strided, reversed."""
    plain = SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.array([1, 2], np.uint32),
        source_ns=np.array([3, 4], np.int64),
        node_ns=np.array([5, 6], np.int64),
        value=Strings(np.array([0, 1, 3], np.uint32), b"abb"),
        quality=np.array([7, 8], np.uint32),
    )
    odd = SampleBatch(
        value_type=ValueType.STRING,
        item_id=np.array([2, 1], np.int64)[::-1],  # type: ignore[arg-type]  # What a program may hand in.
        source_ns=np.array([3, 4], ">i8"),
        node_ns=np.array([5, 0, 6, 0])[::2],
        value=Strings(np.array([0, 1, 3], np.int64), memoryview(b"abb")),  # What a program may hand in.
        quality=np.array([7, 8], ">u4"),
    )
    assert samples.encode(odd) == samples.encode(plain)
    assert samples.encode(plain, odd) == samples.encode(odd, plain)
    places = np.array([0, 10, 20], np.uint32)
    assert samples.decode(samples.encode(plain, odd, ids=places), ValueType.STRING, 4).item_id.tolist() == [10, 20] * 2
