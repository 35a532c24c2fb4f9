"""Mutated and random node messages and records: a DecodeError or a value, never anything else.

A decoder that lets another exception through kills the actor that reads; a type name that is not UTF-8 did so once.
"""

import contextlib
from collections import Counter
from random import Random

import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.history import FileEntry, FileKind, Hole
from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent, Word, decode_word, encode_word
from albireo.codec.message import (
    Answer,
    AnyMessage,
    Append,
    AppendEntry,
    Ask,
    FeedHello,
    FeedState,
    Logged,
    ProducerHello,
    Started,
    decode,
    encode,
)
from albireo.codec.record import Audited, EpochGranted, Marked, Record, decode_records, encode_records
from albireo.machine.history.judging import group_fault, holes_left
from albireo.model.position import EpochEntry, Position
from tests.parts.bounds import changed, encoded, structs
from tests.parts.fuzz_message import mutated

pytestmark = pytest.mark.slow

ROUNDS = 30_000
MESSAGES: list[AnyMessage] = [
    Ask(request_id=1, what="x", arguments={"a": [1, 2, {"b": None}]}),
    Answer(request_id=1, result=[1.5, "ü", b"raw"]),
    Started(actor="a", pid=1),
    Logged(at_ns=1, level="info", actor="a", event="e", fields={"x": 1.5}),
    ProducerHello(producer="p", run=1 << 60),
    FeedHello(follower="f", log_id=b"x" * 16, history=(EpochEntry(epoch=1, first_sequence=1, branch_id=7),)),
    Append(entries=(AppendEntry(1, 2, 3, 4),)),
    FeedState(epoch=1, position=Position(), previous=Position()),
]
RECORDS: list[Record] = [
    Audited(at_ns=1, user="ü", action="ack", subject="case 1"),
    EpochGranted(epoch=1, branch_id=2, node="root", reason="start"),
    Marked(),
]

HOLE = Hole(first_sequence=1, last_sequence=9, from_ns=0, to_ns=5, behind=Position(1, 10), gap="gaps/x")
ENTRY = FileEntry(
    kind=FileKind.SAMPLES,
    path="samples/x",
    node="root",
    day="2026-03-01",
    rows=3,
    min_source_ns=0,
    max_source_ns=9,
    first_sequence=1,
    last_sequence=9,
    size_bytes=100,
    content_crc=1,
    footer_crc=1,
    log_id="00",
)


def test_messages() -> None:
    random = Random(20261120)
    seeds = [bytes(encode(message)[0]) for message in MESSAGES]
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        try:
            message, _ = decode([mutated(random.choice(seeds), random)])
            seen[type(message).__name__] += 1
        except DecodeError:
            seen["refused"] += 1
    assert seen["refused"] > ROUNDS / 4
    assert len(seen) > len(MESSAGES) / 2, "the mutations are too wild to find anything"


def test_records() -> None:
    random = Random(20261120)
    seed = encode_records(1, 1, RECORDS)
    refused = 0
    for _ in range(ROUNDS):
        try:
            decode_records(mutated(seed, random), len(RECORDS))
        except DecodeError:
            refused += 1
    assert ROUNDS / 4 < refused < ROUNDS


def test_words_between_histories() -> None:
    random = Random(20261121)
    words: list[Word] = [
        GroupAsked(number=1, log_id="00", first_sequence=1, last_sequence=2),
        GroupSent(number=1, group="2026-03-01/samples/root", entries=(ENTRY,), holes=(HOLE,), files=3, left=2),
        PieceAsked(number=1, path="samples/x", offset=1 << 40),
        PieceSent(number=1, path="samples/x", offset=0, reason="gone"),
    ]
    seeds = [encode_word(word) for word in words]
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        try:
            word = decode_word(mutated(random.choice(seeds), random))
        except DecodeError:
            seen["refused"] += 1
            continue
        seen[type(word).__name__] += 1
        if isinstance(word, GroupSent):
            group_fault(word, HOLE, "00", "", is_exact=False)
            holes_left(HOLE, word.holes)
    assert seen["refused"] > ROUNDS / 4
    assert len(seen) == len(words) + 1


def test_extreme_values_in_several_fields_of_every_message() -> None:
    """Bounds are kept in whatever is taken; `test_message_bounds.py` looks at each field by itself."""
    random = Random(20261123)
    seen: Counter[str] = Counter()
    for kind in structs(AnyMessage):
        variants = [one for one, _ in changed(kind) if isinstance(one, dict) and len(encoded(one)) < 100_000]
        for _ in range(200 if variants else 0):
            mixed = dict(random.choice(variants))
            for _ in range(random.randrange(4)):
                other = random.choice(variants)
                name = random.choice(list(other))
                mixed[name] = other[name]
            try:
                message, _ = decode([encoded(mixed)])
            except DecodeError:
                seen["refused"] += 1
                continue
            seen[type(message).__name__] += 1
            again, _ = decode(encode(message))
            assert again == message
    assert seen["refused"] > 1_000
    assert len(seen) > 40


@pytest.mark.parametrize("size", [0, 1, 2, 16, 4096])
def test_noise(size: int) -> None:
    random = Random(size)
    for _ in range(500):
        noise = random.randbytes(size)
        with contextlib.suppress(DecodeError):
            decode([noise])
        with contextlib.suppress(DecodeError):
            decode_records(noise, 1)
