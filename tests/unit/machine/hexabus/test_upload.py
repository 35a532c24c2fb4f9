"""Upload of programs: whole, refused, broken off and gone on with."""

import random
from collections import deque

import pytest

from albireo.codec.hexabus.packets import HexError, WritePacket, decode
from albireo.codec.hexabus.program import HEAD, NOTHING, PROGRAM_BYTES_MAX, SmOp
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.arithmetic import SmError
from albireo.machine.hexabus.device import DeviceEffect, HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import PROGRAM, RELAY, Endpoint, Endpoints
from albireo.machine.hexabus.upload import PIECES_MAX, ProgramUpload, pieces_of
from albireo.machine.hexabus.vm import SmEvent
from albireo.model.instant import Instant

TOOL, DEVICE, MASTER = HexAddress("fd00::9", 40_000), HexAddress("fd00::5"), HexAddress("fd00::1")
LIGHT = HEAD.pack(0, NOTHING, 7, NOTHING) + bytes([SmOp.LD_TRUE, SmOp.LD_U8, RELAY, SmOp.WRITE, SmOp.RET])
EVENT = SmEvent(bytes(16), 4, HexValue(HexType.BOOL, True))


class Desk:
    """A device and an upload to it, with datagrams that may be lost."""

    def __init__(self, program: bytes, loss: float = 0.0, seed: int = 1) -> None:
        relay = Endpoint(RELAY, "relay", HexType.BOOL, False, is_writable=True)
        self.device = ActingDevice(HexDevice(Endpoints("lamp", (relay,)), MASTER, lambda most: most))
        self.now, self.loss, self.chance = Instant(0), loss, random.Random(seed)
        self.back: deque[bytes] = deque()
        self.sent: list[bytes] = []
        self.upload = ProgramUpload(DEVICE, program, self.carry, 1)

    def carry(self, data: bytes) -> None:
        self.sent.append(data)
        if self.chance.random() >= self.loss:
            self.answers(self.device.heard(TOOL, data, self.now))

    def answers(self, effects: list[DeviceEffect]) -> None:
        for one in effects:
            if isinstance(one, SendDatagram) and one.to == TOOL and self.chance.random() >= self.loss:
                self.back.append(one.data)

    def play(self) -> None:
        self.upload.begin(self.now)
        while True:
            while self.back:
                self.upload.heard(DEVICE, self.back.popleft(), self.now)
            due = self.upload.deadline()
            if due is None:
                return
            self.now = due
            self.upload.time_passed(self.now)

    def acts(self) -> bool:
        self.device._run(EVENT)
        found, self.device._written = self.device._written, []
        return bool(found)


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_program_is_there_and_runs(loss: float) -> None:
    desk = Desk(LIGHT, loss)
    assert not desk.acts()
    desk.play()
    assert desk.upload.is_over and desk.acts() and desk.upload.done == len(desk.upload.packets) == 4


def test_another_program_takes_the_place_of_the_one_before() -> None:
    desk = Desk(LIGHT)
    desk.play()
    dark = HEAD.pack(0, NOTHING, 7, NOTHING) + bytes([SmOp.RET])
    other = ProgramUpload(DEVICE, dark, desk.carry, 100)
    desk.upload = other
    desk.play()
    assert other.is_over and not desk.acts() and not desk.device.failed


def test_an_upload_that_broke_off_goes_on_where_it_was() -> None:
    desk = Desk(LIGHT.ljust(600, b"\0"))
    desk.upload.begin(desk.now)
    for _ in range(4):
        desk.upload.heard(DEVICE, desk.back.popleft(), desk.now)
    done, desk.loss = desk.upload.done, 1.0
    desk.back.clear()
    while (due := desk.upload.deadline()) is not None:
        desk.now = due
        desk.upload.time_passed(due)
    assert desk.upload.is_broken_off and desk.upload.done == done == 4
    desk.loss, sent = 0.0, len(desk.sent)
    desk.play()
    assert desk.upload.is_over and len(desk.sent) - sent == len(desk.upload.packets) - done and desk.acts()


def test_a_program_that_can_not_be_run_is_not() -> None:
    desk = Desk(HEAD.pack(0, NOTHING, 7, NOTHING) + bytes([58]))
    desk.play()
    assert desk.upload.is_over and not desk.acts() and desk.device.failed == {SmError.INVALID_HEADER: 1}


def test_a_piece_that_belongs_nowhere_is_refused() -> None:
    desk = Desk(LIGHT)
    far = WritePacket(PROGRAM, HexValue(HexType.BYTES65, bytes([PIECES_MAX + 1]) + bytes(64)))
    desk.upload.packets[2] = far
    desk.play()
    assert desk.upload.refused == HexError.INVALID_VALUE and not desk.upload.is_over and not desk.acts()


def test_what_others_say_is_no_answer() -> None:
    desk = Desk(LIGHT, loss=1.0)
    desk.upload.begin(desk.now)
    desk.loss = 0.0
    desk.answers(desk.device.heard(TOOL, desk.sent[0], desk.now))
    answer = desk.back.popleft()
    for source, data in ((MASTER, answer), (DEVICE, b"HX"), (DEVICE, desk.sent[0])):
        desk.upload.heard(source, data, desk.now)
    assert desk.upload.done == 0
    desk.upload.heard(DEVICE, answer, desk.now)
    assert desk.upload.done == 1 and decode(desk.sent[-1]).packet == desk.upload.packets[1]


def test_sizes() -> None:
    assert len(pieces_of(bytes(PROGRAM_BYTES_MAX))) == PIECES_MAX + 3
    with pytest.raises(ValueError, match="room for"):
        pieces_of(bytes(PROGRAM_BYTES_MAX + 1))
