"""Upload of a program to a device: stop, name, pieces, start, each acknowledged before the next.

    WRITE 9 = 0 --> WRITE 10 = piece 0 (the name; zeros keep it) --> pieces 1, 2, ... of 64 bytes --> WRITE 9 = 1

An upload that broke off goes on with the piece that is not acknowledged: each says where it belongs.

Facts: `hexaupload`, as it was run; reference of the wire, section 3.3.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import WANT_ACK, AckPacket, ErrorPacket, WritePacket, decode
from albireo.codec.hexabus.program import PROGRAM_BYTES_MAX
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.device import START_UP, HexAddress
from albireo.machine.hexabus.endpoints import CONTROL, PROGRAM
from albireo.machine.hexabus.rows import REPEATS, SendRow
from albireo.model.instant import Instant

PIECE_BYTES: Final = 64
PIECES_MAX: Final = PROGRAM_BYTES_MAX // PIECE_BYTES
STOP: Final = WritePacket(CONTROL, HexValue(HexType.UINT8, 0))


def pieces_of(program: bytes) -> list[WritePacket]:
    """All that is written to a device, in order. Raises ValueError: the program is too large."""
    if len(program) > PROGRAM_BYTES_MAX:
        raise ValueError(f"a program of {len(program):,} bytes, and a device has room for {PROGRAM_BYTES_MAX:,}")
    parts = [bytes(PIECE_BYTES)]
    parts += [program[at : at + PIECE_BYTES].ljust(PIECE_BYTES, b"\0") for at in range(0, len(program), PIECE_BYTES)]
    told = [WritePacket(PROGRAM, HexValue(HexType.BYTES65, bytes([at]) + part)) for at, part in enumerate(parts)]
    return [STOP, *told, START_UP]


def stored(program: bytes) -> bytes:
    """The room of a device with this program."""
    pieces = -(-len(program) // PIECE_BYTES)
    return program.ljust(pieces * PIECE_BYTES, b"\0").ljust(PROGRAM_BYTES_MAX, b"\xff")


def program_id(room: bytes) -> bytes:
    """The 16 bytes by which a device says what is in its room."""
    return sha256(room).digest()[:16]


class ProgramUpload:
    """An upload under way. Its methods are its events."""

    def __init__(
        self,
        device: HexAddress,
        program: bytes,
        send: Callable[[bytes], object],
        first: int,
        repeats: tuple[int, ...] = REPEATS,
    ) -> None:
        """
        Args:
            send: takes each datagram for the device.
            first: first number, drawn by the caller.
        Raises:
            ValueError: the program is too large.
        """
        self.device = device
        self.packets = pieces_of(program)
        self.done = 0
        """Packets that are acknowledged, of `packets`."""
        self.refused: int | None = None
        """Error code with which the device refused one; None: it did not."""
        self._row = SendRow(send, first, repeats)

    @property
    def is_over(self) -> bool:
        return self.done == len(self.packets)

    @property
    def is_broken_off(self) -> bool:
        """The device is silent; `begin` goes on where it was."""
        return self._row.is_failed

    def deadline(self) -> Instant | None:
        return self._row.deadline()

    def begin(self, now: Instant) -> None:
        """Begin, or go on after the device was silent."""
        if self._row.is_failed:
            self._row.begin()
        self._next(now)

    def heard(self, source: HexAddress, data: bytes, now: Instant) -> None:
        """A datagram came; only the device's answers count."""
        try:
            packet = decode(data).packet
        except DecodeError:
            return
        if source != self.device or not isinstance(packet, AckPacket | ErrorPacket):
            return
        if self._row.heard(packet.cause, now):
            if isinstance(packet, ErrorPacket):
                self.refused = packet.code
            else:
                self.done += 1
                self._next(now)

    def time_passed(self, now: Instant) -> None:
        self._row.time_passed(now)

    def _next(self, now: Instant) -> None:
        if not self.is_over and self.refused is None:
            self._row.put(self.packets[self.done], WANT_ACK, now)


class ProgramStore:
    """Room of a device for a program, piece by piece."""

    def __init__(self, program: bytes = b"") -> None:
        self.data = bytearray(stored(program))

    def clear(self) -> None:
        """Another program is about to come."""
        self.data[:] = stored(b"")

    def take(self, piece: bytes) -> None:
        """Keep a piece; 0 is the name of the device, which it has already."""
        at = (piece[0] - 1) * PIECE_BYTES
        if piece[0]:
            self.data[at : at + PIECE_BYTES] = piece[1:]
