"""Rows of numbers: in order and once through loss, doubles and reordering, around the circle, until a row fails."""

import heapq
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.hexabus.packets import (
    CONN_RESET,
    RELIABLE,
    WANT_ACK,
    AckPacket,
    HexDatagram,
    InfoPacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.rows import (
    NO_NUMBER,
    QUEUE_MAX,
    REPEATS,
    Hearing,
    ReceiveRow,
    SendRow,
    following,
    is_newer,
)
from albireo.model.instant import MS, SECOND, Instant


def info(value: int) -> InfoPacket:
    return InfoPacket(4, HexValue(HexType.UINT32, value))


def value_of(data: bytes) -> int:
    packet = decode(data).packet
    assert isinstance(packet, InfoPacket) and isinstance(packet.value.value, int)
    return packet.value.value


class Lossy:
    """A sender and a receiver, and between them a network that loses, doubles and holds back."""

    def __init__(self, seed: int, first: int, loss: float, hold_ms: int) -> None:
        self.chance = random.Random(seed)
        self.loss, self.hold_ms = loss, hold_ms
        self.now = Instant(0)
        self.under_way: list[tuple[int, int, bool, bytes]] = []
        self.count = 0
        self.sender = SendRow(lambda data: self.carry(data, is_forth=True), first)
        self.receiver = ReceiveRow()
        self.got: list[int] = []

    def carry(self, data: bytes, *, is_forth: bool) -> None:
        for _ in range(self.chance.choice([1, 1, 1, 2])):
            if self.chance.random() >= self.loss:
                self.count += 1
                at = self.now + self.chance.randrange(self.hold_ms + 1) * MS
                heapq.heappush(self.under_way, (at, self.count, is_forth, data))

    def play(self, values: Sequence[int]) -> None:
        for value in values:
            self.sender.put(info(value), WANT_ACK, self.now)
        while self.under_way or self.sender.deadline() is not None:
            due = self.sender.deadline()
            arrives = self.under_way[0][0] if self.under_way else 1 << 62
            if due is not None and due <= arrives:
                self.now = due
                self.sender.time_passed(self.now)
                continue
            at, _, is_forth, data = heapq.heappop(self.under_way)
            self.now = Instant(at)
            self.arrive(data, is_forth=is_forth)

    def arrive(self, data: bytes, *, is_forth: bool) -> None:
        if not is_forth:
            packet = decode(data).packet
            assert isinstance(packet, AckPacket)
            self.sender.heard(packet.cause, self.now)
            return
        if self.receiver.hear(decode(data), data) is Hearing.NEW:
            self.got.append(value_of(data))
        self.carry(encode(HexDatagram(AckPacket(self.receiver.last), 1)), is_forth=False)


@given(
    seed=st.integers(0, 2**32),
    first=st.sampled_from([1, 7, 32_760, 65_530, 65_535]),
    loss=st.sampled_from([0.0, 0.2, 0.4]),
    hold_ms=st.sampled_from([0, 30, 400]),
)
def test_packets_come_once_and_in_order_and_all_unless_the_row_fails(
    seed: int, first: int, loss: float, hold_ms: int
) -> None:
    world, values = Lossy(seed, first, loss, hold_ms), list(range(12))
    world.play(values)
    assert world.got == values[: len(world.got)]
    assert world.sender.is_failed or world.got == values


def test_each_of_two_rounds_of_the_circle_is_delivered() -> None:
    """D8: the original takes the largest number that it ever saw for the last one."""
    row, number = ReceiveRow(), 1
    for value in range(2 * 65_535):
        data = encode(HexDatagram(info(value), number, RELIABLE))
        assert row.hear(decode(data), data) is Hearing.NEW
        number = following(number)


@pytest.mark.parametrize("number", [1, 2, 32_767, 32_768, 40_000, 65_535])
def test_half_of_the_circle_lies_ahead(number: int) -> None:
    ahead = sum(is_newer(other, number) for other in range(1, 65_536))
    assert ahead in (32_766, 32_767) and not is_newer(number, number)
    assert is_newer(following(number), number) and not is_newer(number, following(number))


def test_zero_is_left_out() -> None:
    assert following(65_535) == 1 and following(1) == 2


def sent_by(repeats: tuple[int, ...]) -> tuple[list[tuple[int, bytes]], SendRow]:
    """Times, and bytes, of the copies of one packet that nobody answers."""
    copies: list[tuple[int, bytes]] = []
    now = Instant(0)
    row = SendRow(lambda data: copies.append((now, data)), 9, repeats)
    assert row.put(info(1), WANT_ACK, now)
    while (due := row.deadline()) is not None:
        now = due
        row.time_passed(now)
    return copies, row


def test_a_row_fails_after_the_time_of_the_originals() -> None:
    """0.5, 0.5, 1.0, 1.5 and 2.0 s there; here more copies in the same time."""
    copies, row = sent_by(REPEATS)
    assert [second[0] - first[0] for first, second in pairwise(copies)] == list(REPEATS[:-1])
    assert row.is_failed and sum(REPEATS) == 5.5 * SECOND


def test_a_row_that_failed_takes_nothing_until_it_begins_anew() -> None:
    copies, row = sent_by(REPEATS)
    assert {decode(data) for _, data in copies} == {HexDatagram(info(1), 9, WANT_ACK | RELIABLE | CONN_RESET)}
    assert row.is_failed and not row.put(info(2), 0, Instant(0))
    row.begin()
    assert not row.is_failed and row.deadline() is None
    assert row.put(info(3), 0, Instant(0)) and decode(copies[-1][1]).number == 10


def test_only_the_number_that_waits_is_an_answer_and_the_first_says_that_it_is() -> None:
    sent: list[HexDatagram] = []
    row, now = SendRow(lambda data: sent.append(decode(data)), 65_535), Instant(0)
    assert row.number == NO_NUMBER
    assert row.put(info(1), 0, now) and row.put(info(2), 0, now) and len(sent) == 1 and row.number == 65_535
    assert not row.heard(1, now) and not row.heard(0, now)
    assert row.heard(65_535, now) and row.number == 1
    assert [(one.number, one.flags) for one in sent] == [(65_535, RELIABLE | CONN_RESET), (1, RELIABLE)]
    assert not row.heard(65_535, now) and row.heard(1, now) and row.deadline() is None


def test_a_queue_has_an_end() -> None:
    row = SendRow(lambda _: None, 1)
    taken = [row.put(info(value), 0, Instant(0)) for value in range(QUEUE_MAX + 2)]
    assert taken == [True] * (QUEUE_MAX + 1) + [False]


def test_a_late_copy_of_the_first_packet_begins_no_other_row() -> None:
    row = ReceiveRow()
    first = encode(HexDatagram(info(1), 5, RELIABLE | CONN_RESET))
    second = encode(HexDatagram(info(2), 6, RELIABLE))
    assert [row.hear(decode(one), one) for one in (first, first, second, first)] == [
        Hearing.NEW,
        Hearing.AGAIN,
        Hearing.NEW,
        Hearing.OLD,
    ]
    assert row.last == 6
    for number, hearing in ((5, Hearing.OLD), (40_000, Hearing.NEW), (5, Hearing.NEW)):
        other = encode(HexDatagram(info(3), number, RELIABLE | CONN_RESET))
        assert row.hear(decode(other), other) is hearing, "it was not heard, and its sender began another row since"


def test_what_is_not_reliable_is_of_no_row() -> None:
    row = ReceiveRow()
    data = encode(HexDatagram(info(1), 5, WANT_ACK))
    assert row.hear(decode(data), data) is Hearing.PLAIN and row.last == NO_NUMBER


def test_each_copy_has_the_same_bytes() -> None:
    """D9: the original swaps the bytes of each second copy on small processors."""
    sent: list[bytes] = []
    row = SendRow(sent.append, 0x1234)
    row.put(InfoPacket(0x01020304, HexValue(HexType.UINT32, 0x0A0B0C0D)), 0, Instant(0))
    while (due := row.deadline()) is not None:
        row.time_passed(due)
    assert len(sent) == len(REPEATS) and len(set(sent)) == 1 and bytes.fromhex("0102030403 0a0b0c0d") in sent[0]
