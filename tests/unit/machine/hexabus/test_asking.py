"""Question to many: who has not answered is asked again, and nobody else."""

from collections.abc import Sequence

import pytest

from albireo.codec.hexabus.packets import (
    AckPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    QueryPacket,
    ReportPacket,
    decode,
    encode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.asking import QuestionToMany
from albireo.machine.hexabus.device import TO_GROUP, HexAddress
from albireo.model.instant import Instant

NUMBER = 77
WAITS = (10, 10, 20)
REPORT = ReportPacket(4, HexValue(HexType.UINT8, 1), NUMBER)


class Asked:
    """A question, and to whom it was sent."""

    def __init__(self, *hosts: str, waits: Sequence[int] = WAITS) -> None:
        self.sent: list[HexAddress] = []
        self.question = QuestionToMany(QueryPacket(4), NUMBER, hosts, self._send, waits)
        self.question.begin(Instant(0))

    def _send(self, to: HexAddress, data: bytes) -> None:
        assert decode(data) == HexDatagram(QueryPacket(4), NUMBER), "each copy has the same bytes"
        self.sent.append(to)

    def answer(self, host: str, packet: HexPacket) -> None:
        self.question.heard(HexAddress(host), encode(HexDatagram(packet, 5)), Instant(0))

    def wait(self) -> list[str]:
        """Let the wait pass; who is asked again."""
        self.sent.clear()
        due = self.question.deadline()
        assert due is not None
        self.question.time_passed(Instant(due - 1))
        assert not self.sent, "nobody is asked before the wait is over"
        self.question.time_passed(due)
        return [one.host for one in self.sent]


def test_only_hosts_without_an_answer_are_asked_again_until_the_last_wait_is_over() -> None:
    asked = Asked("fd00::a", "fd00::b", "fd00::c")
    assert [one.host for one in asked.sent] == ["fd00::a", "fd00::b", "fd00::c"]
    asked.answer("fd00::b", REPORT)
    assert asked.wait() == ["fd00::a", "fd00::c"]
    asked.answer("fd00::a", ErrorPacket(HexError.UNKNOWN_EID, NUMBER))
    assert asked.wait() == ["fd00::c"]
    assert asked.wait() == []
    assert asked.question.deadline() is None and asked.question.missing == ["fd00::c"]
    assert set(asked.question.answers) == {"fd00::a", "fd00::b"}


def test_it_is_over_once_the_last_host_has_answered() -> None:
    asked = Asked("fd00::a", "fd00::b")
    asked.answer("fd00::b", REPORT)
    assert asked.question.deadline() is not None
    asked.answer("fd00::a", REPORT)
    assert asked.question.deadline() is None


def test_the_group_is_asked_as_often_as_there_are_waits_and_each_host_counts_once() -> None:
    asked = Asked()
    assert asked.sent == [TO_GROUP]
    asked.answer("fd00::a", REPORT)
    asked.answer("fd00::a", ReportPacket(4, HexValue(HexType.UINT8, 9), NUMBER))
    assert asked.wait() == [TO_GROUP.host]
    asked.answer("fd00::b", REPORT)
    assert asked.wait() == [TO_GROUP.host]
    assert asked.wait() == []
    assert asked.question.answers == {"fd00::a": REPORT, "fd00::b": REPORT}


@pytest.mark.parametrize("packet", [AckPacket(NUMBER), ReportPacket(4, REPORT.value, NUMBER + 1), QueryPacket(4)])
def test_what_is_no_answer_to_this_question_counts_for_nothing(packet: HexPacket) -> None:
    asked = Asked("fd00::a")
    asked.answer("fd00::a", packet)
    asked.answer("fd00::z", REPORT)
    asked.question.heard(HexAddress("fd00::a"), b"HX0C and more", Instant(0))
    assert asked.question.missing == ["fd00::a"]
