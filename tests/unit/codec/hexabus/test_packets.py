"""HX0D, byte for byte: each packet and datatype in both directions, as the facts of the wire have it."""

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import (
    CONN_RESET,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    AckPacket,
    EndpointInfoPacket,
    EndpointQueryPacket,
    EndpointReportPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    InfoPacket,
    PInfoPacket,
    PropertyQueryPacket,
    PropertyReportPacket,
    PropertyWritePacket,
    QueryPacket,
    ReportPacket,
    WritePacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import SIZES, HexType, HexValue, decode_value, encode_value

NAME: Final = b"relay" + bytes(123)
ON: Final = HexValue(HexType.BOOL, True)
ORIGIN: Final = bytes.fromhex("fd0000ad000000000000000000000002")

PACKETS: Final[dict[str, tuple[HexDatagram, str]]] = {
    "a query of the facts": (HexDatagram(QueryPacket(1), 0x0102, 0x05), "485830440205010200000001"),
    "a report of the facts": (
        HexDatagram(ReportPacket(2, HexValue(HexType.UINT32, 0xDEADBEEF), 0xBEEF), 0x0304),
        "48583044030003040000000203deadbeefbeef",
    ),
    "a pinfo of the facts": (
        HexDatagram(
            PInfoPacket(3, HexValue(HexType.FLOAT, 21.5), bytes.fromhex("fd00005000c20000000102fffe030405")),
            0xFFFE,
            RELIABLE | WANT_UL_ACK,
        ),
        "485830441106fffe000000030941ac0000fd00005000c20000000102fffe030405",
    ),
    "an ack of the facts": (HexDatagram(AckPacket(0xFFFE), 0x2030), "4858304410002030fffe"),
    "a pinfo as the original master sent it": (
        HexDatagram(PInfoPacket(1, ON, ORIGIN), 0x4E48, CONN_RESET | RELIABLE | WANT_UL_ACK),
        "48583044110e4e48000000010001" + ORIGIN.hex(),
    ),
    "a first packet": (
        HexDatagram(WritePacket(9, HexValue(HexType.UINT8, 1)), 7, WANT_ACK | RELIABLE | CONN_RESET),
        "48583044040d0007000000090101",
    ),
    "an error": (HexDatagram(ErrorPacket(HexError.DATATYPE, 0x1234), 1), "4858304400000001041234"),
    "an info": (HexDatagram(InfoPacket(4, ON), 1, WANT_UL_ACK), "4858304401020001000000040001"),
    "an endpoint": (
        HexDatagram(EndpointInfoPacket(1, HexType.BOOL, "relay"), 2),
        "4858304409000002" + "0000000100" + NAME.hex(),
    ),
    "a question for an endpoint": (HexDatagram(EndpointQueryPacket(0xFFFFFFFF), 3), "485830440a000003ffffffff"),
    "the answer": (
        HexDatagram(EndpointReportPacket(1, HexType.BOOL, "relay", 3), 4),
        "485830440b000004" + "0000000100" + NAME.hex() + "0003",
    ),
    "a question for a property": (HexDatagram(PropertyQueryPacket(1, 2), 5), "48583044130000050000000100000002"),
    "its answer": (
        HexDatagram(PropertyReportPacket(1, 3, HexValue(HexType.SINT8, -1), 5), 6),
        "4858304414000006" + "00000001" + "05" + "00000003" + "ff" + "0005",
    ),
    "a property that is written": (
        HexDatagram(PropertyWritePacket(1, 2, HexValue(HexType.SINT64, -2)), 7),
        "4858304415000007" + "00000001" + "08" + "00000002" + "fffffffffffffffe",
    ),
}
VALUES: Final[list[tuple[HexValue, str]]] = [
    (HexValue(HexType.BOOL, False), "00"),
    (HexValue(HexType.BOOL, True), "01"),
    (HexValue(HexType.UINT8, 255), "ff"),
    (HexValue(HexType.UINT16, 0x0102), "0102"),
    (HexValue(HexType.UINT32, 0x01020304), "01020304"),
    (HexValue(HexType.UINT64, 2**64 - 1), "ffffffffffffffff"),
    (HexValue(HexType.SINT8, -128), "80"),
    (HexValue(HexType.SINT16, -2), "fffe"),
    (HexValue(HexType.SINT32, -(2**31)), "80000000"),
    (HexValue(HexType.SINT64, 2**63 - 1), "7fffffffffffffff"),
    (HexValue(HexType.FLOAT, -0.5), "bf000000"),
    (HexValue(HexType.FLOAT, math.inf), "7f800000"),
    (HexValue(HexType.STRING, "ä" * 63), ("c3a4" * 63).ljust(256, "0")),
    (HexValue(HexType.BYTES65, bytes(range(65))), bytes(range(65)).hex()),
    (HexValue(HexType.BYTES16, bytes(16)), "00" * 16),
]


@pytest.mark.parametrize("name", PACKETS)
def test_packets_are_those_bytes_in_both_directions(name: str) -> None:
    datagram, said = PACKETS[name]
    assert encode(datagram).hex() == said
    assert decode(bytes.fromhex(said)) == datagram


def test_there_is_a_vector_of_each_packet() -> None:
    assert {type(one.packet) for one, _ in PACKETS.values()} == set(HexPacket.__args__)


@pytest.mark.parametrize(("told", "said"), VALUES)
def test_values_are_those_bytes_in_both_directions(told: HexValue, said: str) -> None:
    assert encode_value(told).hex() == said
    assert len(said) == 2 * SIZES[told.datatype]
    assert decode_value(told.datatype, bytes.fromhex(said), 0) == told


def test_there_is_a_vector_of_each_datatype() -> None:
    assert {told.datatype for told, _ in VALUES} == set(HexType)


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        (HexType.BOOL, 1),
        (HexType.UINT8, 256),
        (HexType.UINT8, -1),
        (HexType.UINT8, True),
        (HexType.UINT8, 1.0),
        (HexType.SINT64, 2**63),
        (HexType.FLOAT, 1),
        (HexType.FLOAT, 1e39),
        (HexType.STRING, "x" * 128),
        (HexType.STRING, "ä" * 64),
        (HexType.STRING, "a\0b"),
        (HexType.STRING, b"a"),
        (HexType.BYTES65, bytes(64)),
        (HexType.BYTES16, bytes(17)),
    ],
)
def test_a_value_of_another_kind_is_not_sent(datatype: HexType, value: bool | int | float | str | bytes) -> None:
    with pytest.raises(ValueError, match=r"is no|fit|larger|most"):
        encode_value(HexValue(datatype, value))


@pytest.mark.parametrize(
    "datagram",
    [
        HexDatagram(ErrorPacket(0, 1), 1),
        HexDatagram(ErrorPacket(0x80, 1), 1),
        HexDatagram(AckPacket(-1), 1),
        HexDatagram(AckPacket(1), 0x10000),
        HexDatagram(QueryPacket(2**32), 1),
        HexDatagram(QueryPacket(1), 1, 256),
        HexDatagram(PInfoPacket(1, ON, bytes(15)), 1),
        HexDatagram(PInfoPacket(1, ON, ORIGIN, place=0, parts=17), 1),
        HexDatagram(PInfoPacket(1, ON, ORIGIN, place=2, parts=2), 1),
    ],
)
def test_a_field_that_may_not_be_sent_is_not(datagram: HexDatagram) -> None:
    with pytest.raises(ValueError, match=r"valid HexError|does not fit|origin"):
        encode(datagram)


def test_decoding_takes_what_the_original_takes() -> None:
    assert decode(bytes.fromhex("4858304401ff00010000000400" + "7f" + "ffff")) == HexDatagram(
        InfoPacket(4, ON), 1, 0xFF
    )
    unended = bytes.fromhex("4858304401000001000000000a") + b"x" * 128
    assert decode(unended).packet == InfoPacket(0, HexValue(HexType.STRING, "x" * 127))
    foreign = bytes.fromhex("4858304401000001000000000a") + b"\xff" + bytes(127)
    assert decode(foreign).packet == InfoPacket(0, HexValue(HexType.STRING, "\ufffd"))
    pinfo = bytes.fromhex("4858304411060008000000010001") + ORIGIN
    second = HexDatagram(PInfoPacket(1, ON, ORIGIN, 0xFFFE, 1, 3), 8, RELIABLE | WANT_UL_ACK)
    assert decode(pinfo + bytes.fromhex("fffe12")) == second and encode(second) == pinfo + bytes.fromhex("fffe12")
    for behind in ("", "ff", "ffff10", "fffe21", "ffffffff"):
        assert decode(pinfo + bytes.fromhex(behind)).packet == PInfoPacket(1, ON, ORIGIN)
    assert decode(bytes.fromhex("4858304400000001ff0001")).packet == ErrorPacket(0xFF, 1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "no HX0D"),
        ("48583044", "the end"),
        ("485830430205010200000001", "another wire: HX0C"),
        ("485830420205010200000001", "another wire: HX0B"),
        ("4958304402050102", "no HX0D"),
        ("4858304412000001", "no packet 0x12"),
        ("48583044010000010000000" + "4ff", "no datatype 0xff"),
        ("4858304401000001000000040d00", "no datatype 0x0d"),
    ],
)
def test_other_bytes_are_refused_with_a_reason(said: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode(bytes.fromhex(said))


@pytest.mark.parametrize("name", PACKETS)
def test_a_packet_that_is_cut_is_refused(name: str) -> None:
    datagram, said = PACKETS[name]
    data = bytes.fromhex(said)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:size])
    assert decode(data + b"more") == datagram


@given(st.binary(max_size=200), st.sampled_from([b"", b"HX0D", *(bytes.fromhex(said) for _, said in PACKETS.values())]))
def test_hostile_bytes_are_a_packet_or_an_error(tail: bytes, begin: bytes) -> None:
    for data in (
        begin + tail,
        begin[: len(begin) // 2] + tail,
        bytes(a ^ b for a, b in zip(begin, tail, strict=False)),
    ):
        try:
            found = decode(data)
        except DecodeError:
            continue
        packet = found.packet
        value = getattr(packet, "value", None)
        if isinstance(value, HexValue):
            again = encode_value(decode_value(value.datatype, encode_value(value), 0))
            assert again == encode_value(value)
