"""Commands of the Clustered Hashmap Protocol against frames that were written down from RFC 12, one test a rule."""

import json
import math

import pytest

from albireo.codec.chp import (
    HUGZ,
    KEY_BYTES_MAX,
    KTHXBAI,
    PART_BYTES_MAX,
    KeyValue,
    decode,
    decode_order,
    decode_request,
    encode,
    encode_reading,
    time_to_live_s,
)
from albireo.codec.errors import DecodeError
from albireo.model import quality as q
from albireo.model.item import Reading

UUID = bytes.fromhex("00112233445566778899aabbccddeeff")

GOLDEN = {
    "KVSYNC: sequence in network order, then two empty frames": (
        KeyValue(key=b"/a/b", sequence=258, value=b"12"),
        [b"/a/b", b"\x00\x00\x00\x00\x00\x00\x01\x02", b"", b"", b"12"],
    ),
    "KTHXBAI with its subtree": (
        KeyValue(key=KTHXBAI, sequence=2**62, value=b"/a/"),
        [b"KTHXBAI", b"\x40\x00\x00\x00\x00\x00\x00\x00", b"", b"", b"/a/"],
    ),
    "KVPUB with UUID and properties": (
        KeyValue(key=b"/a/b", sequence=3, uuid=UUID, properties=b"ttl=10\n", value=b"x"),
        [
            b"/a/b",
            b"\x00\x00\x00\x00\x00\x00\x00\x03",
            b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
            b"ttl=10\n",
            b"x",
        ],
    ),
    "KVPUB that deletes": (
        KeyValue(key=b"/a/b", sequence=4),
        [b"/a/b", b"\x00\x00\x00\x00\x00\x00\x00\x04", b"", b"", b""],
    ),
    "HUGZ: eight zero bytes": (
        KeyValue(key=HUGZ),
        [b"HUGZ", b"\x00\x00\x00\x00\x00\x00\x00\x00", b"", b"", b""],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_frames(name: str) -> None:
    command, frames = GOLDEN[name]
    assert encode(command) == frames
    assert decode(frames) == command


@pytest.mark.parametrize(
    ("frames", "subtree"),
    [
        ([b"ICANHAZ?", b""], b""),
        ([b"ICANHAZ?", b"/client/"], b"/client/"),
        ([b"ICANHAZ?", b"/a/b c/"], b"/a/b c/"),
        ([b"ICANHAZ?", b"/"], b"/"),
        ([b"ICANHAZ?"], b""),
    ],
)
def test_golden_requests(frames: list[bytes], subtree: bytes) -> None:
    assert decode_request(frames) == subtree


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"ICANHAZ"],
        [b"ICANHAZ?\0", b""],
        [b"icanhaz?", b""],
        [b"ICANHAZ?", b"a/"],
        [b"ICANHAZ?", b"/a"],
        [b"ICANHAZ?", b"/a//b/"],
        [b"ICANHAZ?", b"/" + b"a" * KEY_BYTES_MAX + b"/"],
        [b"ICANHAZ?", b"/a/", b""],
    ],
)
def test_what_is_no_request_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(DecodeError):
        decode_request(frames)


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"k", bytes(8), b"", b""],
        [b"k", bytes(8), b"", b"", b"", b""],
        [b"", bytes(8), b"", b"", b"v"],
        [b"k" * (KEY_BYTES_MAX + 1), bytes(8), b"", b"", b"v"],
        [b"k", b"", b"", b"", b"v"],
        [b"k", bytes(9), b"", b"", b"v"],
        [b"k", bytes(8), b"short", b"", b"v"],
        [b"k", bytes(8), b"", b"x" * 5000, b"v"],
        [b"k", bytes(8), b"", b"", b"v" * (PART_BYTES_MAX + 1)],
    ],
)
def test_what_is_no_command_of_five_parts_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(DecodeError):
        decode(frames)


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        (b"", None),
        (b"ttl=10\n", 10.0),
        (b"ttl=0.5\n", 0.5),
        (b"ttl=10", 10.0),
        (b"mine=a=b\nttl=7\n", 7.0),
        (b"ttl=0\n", None),
        (b"ttl=-1\n", None),
        (b"ttl=nan\nttl=inf\n", None),
        (b"ttl=1e3\n", None),
        (b"ttl=\xff\n", None),
        (b"\n=\n==\n", None),
        (b"ttl=999999999\n", 3600.0),
    ],
)
def test_time_to_live(properties: bytes, seconds: float | None) -> None:
    assert time_to_live_s(properties) == seconds


@pytest.mark.parametrize(
    ("text", "value"), [(b"12", 12), (b"12.5", 12.5), (b"true", True), (b'"on"', "on"), (b" -3 ", -3)]
)
def test_an_order_is_one_json_value_of_its_own_type(text: bytes, value: object) -> None:
    found = decode_order(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"{}", b"[" * 60_000, b"on", b"1e999", b"NaN", b"9223372036854775808", b"1" * 5000, b'"\xff"'],
)
def test_what_is_no_order_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_order(text)


def reading(value: float | bool | str | None, quality: int = q.GOOD) -> Reading:
    return Reading(item_id=1, name="root:co", value=value, quality=quality, source_ns=5, node_ns=6, unit="ppm")


def test_a_reading_is_json_with_its_quality_time_and_unit() -> None:
    assert encode_reading(reading(12.0)) == b'{"value":12.0,"quality":"Good","source_ns":5,"unit":"ppm"}'
    assert json.loads(encode_reading(reading(True)))["value"] is True
    assert json.loads(encode_reading(reading("ü\n")))["value"] == "ü\n"


@pytest.mark.parametrize("unknown", [reading(0.0, q.BAD_NO_COMMUNICATION), reading(math.nan), reading(math.inf)])
def test_what_is_unknown_is_no_number(unknown: Reading) -> None:
    assert json.loads(encode_reading(unknown))["value"] is None


def test_an_uncertain_value_is_told_with_its_quality() -> None:
    told = json.loads(encode_reading(reading(3.0, q.UNCERTAIN_LAST_USABLE_VALUE)))
    assert (told["value"], told["quality"]) == (3.0, "UncertainLastUsableValue")
