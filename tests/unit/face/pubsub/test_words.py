"""Words of the first publish/subscribe, as its sections 2.1 to 2.5 have them; and bytes that are none of them."""

from random import Random

import msgspec
import pytest

from albireo.face.kinds import FaceKind, load_kind
from albireo.face.pubsub.settings import PubsubSettings
from albireo.face.pubsub.words import MESSAGE_BYTES_MAX, PubsubRequest, done, failed, given, read_request
from tests.parts.fuzz_message import mutated

REQUESTS = [
    (b"PUT news door open", PubsubRequest("PUT", "news", message=b"door open")),
    (b"PUT news \xff\x00\n ", PubsubRequest("PUT", "news", message=b"\xff\x00\n ")),
    (b"PUT news ", PubsubRequest("PUT", "news")),
    (b"PUT  news\t two ", PubsubRequest("PUT", "news", message=b" two ")),
    (b"GET FROM 5556 ON TOPIC : news", PubsubRequest("GET", "news", "5556")),
    ("GET FROM 5556 ON TOPIC : Türen".encode(), PubsubRequest("GET", "Türen", "5556")),
    (b"SUBSCRIBE news FROM SUBSCRIBER 5556", PubsubRequest("SUBSCRIBE", "news", "5556")),
    (b"UNSUBSCRIBE news FROM SUBSCRIBER 5556 ", PubsubRequest("UNSUBSCRIBE", "news", "5556")),
]


@pytest.mark.parametrize(("part", "request_"), REQUESTS)
def test_the_four_operations(part: bytes, request_: PubsubRequest) -> None:
    assert read_request(part) == request_


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (b"", "BAD REQUEST: ''"),
        (b"put news x", "BAD REQUEST"),
        (b"PUT news", "BAD REQUEST"),
        (b"PUTnews x", "BAD REQUEST"),
        (b"GET news", "BAD REQUEST"),
        (b"GET FROM  ON TOPIC : news", "BAD REQUEST"),
        (b"SUBSCRIBE news FROM SUBSCRIBER 1 2", "BAD REQUEST"),
        (b"DELETE \x1b[31m" + bytes(100), "BAD REQUEST: 'DELETE \\x1b"),
        (b"PUT \xff x", "NO NAME"),
        (b"PUT a..b x", "NO NAME"),
        (b"PUT a\x07 x", "NO NAME"),
        (b"PUT * x", "NO NAME"),
        (b"PUT %s x" % (b"n" * 201), "NO NAME"),
        (b"SUBSCRIBE > FROM SUBSCRIBER 1", "NO NAME"),
        (b"SUBSCRIBE news FROM SUBSCRIBER a\nb", "NO NAME"),
        (b"PUT news " + bytes(MESSAGE_BYTES_MAX + 1), "A MESSAGE HAS AT MOST"),
    ],
)
def test_what_is_no_request_is_told_why_in_text_that_can_be_shown(part: bytes, reason: str) -> None:
    found = read_request(part)
    assert isinstance(found, str) and found.startswith(reason) and found.isprintable()


def test_a_client_reads_under_a_name_that_no_other_program_has() -> None:
    assert PubsubRequest("GET", "news", "billing").subscriber == "pubsub.billing"


def test_answers() -> None:
    assert done("PUT") == b"ACK [SUCCESS]: PUT is DONE"
    assert given("news", b"\xff") == b"ACK [SUCCESS]: GET RESPONSE ON TOPIC news: \xff"
    assert failed("WHY") == b"ACK [FAILURE]: WHY"


def test_any_bytes_are_a_request_or_a_reason() -> None:
    random = Random(20261127)
    kinds = set()
    for _ in range(5_000):
        part = mutated(random.choice(REQUESTS)[0], random)
        found = read_request(part)
        kinds.add(type(found))
        if isinstance(found, PubsubRequest) and found.operation == "PUT":
            assert part.endswith(found.message)
    assert kinds == {PubsubRequest, str}


def test_the_kind_is_known_by_its_name() -> None:
    kind = load_kind("pubsub")
    assert isinstance(kind, FaceKind) and kind.settings is PubsubSettings


@pytest.mark.parametrize(
    "bind", ["tcp://0.0.0.0:5001", "tcp://10.0.0.5:5001", "tcp://*:5001", "tcp://127.0.0.1:0", "x"]
)
def test_an_address_that_others_reach_is_refused_with_the_remedy(bind: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"use one such as tcp://127.0.0.1:5001|write tcp://HOST:PORT"):
        msgspec.convert({"bind": bind}, PubsubSettings)
