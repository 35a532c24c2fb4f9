"""Device with its program: events of the order come in, writes of its own endpoints come out."""

from collections.abc import Callable, Sequence

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import HexError
from albireo.codec.hexabus.program import SmProgram, decode_program
from albireo.codec.hexabus.recovery import RecoveryPieces
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.machine.hexabus.arithmetic import SmError
from albireo.machine.hexabus.device import (
    BeganAnew,
    DeviceEffect,
    EndpointWritten,
    EventCame,
    HexAddress,
    HexDevice,
    RecoveryCame,
)
from albireo.machine.hexabus.endpoints import CONTROL, FAILED, PROGRAM, PROGRAM_ID, Endpoint
from albireo.machine.hexabus.upload import PIECES_MAX, ProgramStore, program_id
from albireo.machine.hexabus.vm import SmEvent, SmMachine
from albireo.model.instant import Instant


class ActingDevice:
    """A device that runs a program. Its methods are those of the device."""

    def __init__(self, device: HexDevice, program: bytes = b"") -> None:
        """`program`: empty: it has none yet, and acts on nothing."""
        self.device = device
        device.resumes = self._resumes
        self.store = ProgramStore(program)
        room = Endpoint(PROGRAM, "program", HexType.BYTES65, bytes(65), is_writable=True, refuses=self._refuses)
        device.endpoints.add(room)
        device.endpoints.add(Endpoint(FAILED, "failed", HexType.UINT32, 0))
        self.failed: dict[SmError, int] = {}
        """Runs that ended early, by cause."""
        self._id = Endpoint(PROGRAM_ID, "program id", HexType.BYTES16, bytes(16), is_event=False)
        device.endpoints.add(self._id)
        self._program: SmProgram | None = None
        self._is_stored = bool(program)
        """Pieces of another program came."""
        self._pieces = RecoveryPieces()
        self._machine: SmMachine | None = None
        self._now = Instant(0)
        self._written: list[DeviceEffect] = []
        self._refused = 0
        """Endpoint of the last write that failed."""
        self._begin()

    @property
    def memory(self) -> bytes:
        """Memory of the state machines; empty: there are none."""
        return b"" if self._machine is None else bytes(self._machine.memory)

    def deadline(self) -> Instant | None:
        return self.device.deadline()

    def start(self, now: Instant) -> list[DeviceEffect]:
        return self._done(lambda: self.device.start(now), now)

    def changed(self, eid: int, value: HexValue, now: Instant) -> list[DeviceEffect]:
        return self._done(lambda: self.device.changed(eid, value, now), now)

    def time_passed(self, now: Instant) -> list[DeviceEffect]:
        return self._done(lambda: self.device.time_passed(now), now)

    def heard(self, source: HexAddress, data: bytes, now: Instant, *, is_group: bool = False) -> list[DeviceEffect]:
        return self._done(lambda: self.device.heard(source, data, now, is_group=is_group), now)

    def _done(self, step: Callable[[], Sequence[DeviceEffect]], now: Instant) -> list[DeviceEffect]:
        """Effects of the device, and of what its program does because of them."""
        self._now, found = now, list[DeviceEffect]()
        for effect in step():
            found.append(effect)
            match effect:
                case BeganAnew():
                    self._begin()
                case EndpointWritten(eid=eid, value=HexValue(value=bytes() as piece)) if eid == PROGRAM:
                    self.store.take(piece)
                    self._is_stored = True
                case EndpointWritten(eid=eid, value=HexValue(value=0)) if eid == CONTROL:
                    self._machine = None
                    self.store.clear()
                case RecoveryCame(number=number, piece=piece):
                    self._pieces.take(number, piece)
                case EventCame(origin=origin, eid=eid, value=value):
                    self._run(SmEvent(origin, eid, value))
            written, self._written = self._written, []
            found += written
        return found

    @staticmethod
    def _refuses(piece: object) -> bool:
        return isinstance(piece, bytes) and piece[0] > PIECES_MAX

    def _begin(self) -> None:
        """The program begins anew; one that was uploaded takes the place of the one before, if it can be run."""
        if self._is_stored:
            self._is_stored = False
            room = bytes(self.store.data)
            self._id.value = program_id(room)
            try:
                self._program = decode_program(room)
            except DecodeError:
                self._program = None
                self.failed[SmError.INVALID_HEADER] = self.failed.get(SmError.INVALID_HEADER, 0) + 1
        self._machine = None if self._program is None else SmMachine(self._program, self._write)

    def _resumes(self, number: int) -> bool:
        told = self._pieces.complete(number)
        if told is None or (told.memory and self._machine is None):
            return False  # It is incomplete, or there is no program here that could go on with it.
        if not told.memory:
            self._machine = None
        elif self._machine is not None:
            self._machine.resume(told.memory)
        for eid, value in told.values:
            one = self.device.endpoints.find(eid)
            if one is not None and one.told != value:
                self._write(eid, value)
        return True

    def _run(self, event: SmEvent) -> None:
        error = None if self._machine is None else self._machine.run(event, 0)
        if error is not None:
            self.failed[error] = self.failed.get(error, 0) + 1
        if error is SmError.WRITE_FAILED:
            self._written += self.device.changed(FAILED, HexValue(HexType.UINT32, self._refused), self._now)

    def _write(self, eid: int, value: HexValue) -> HexError | None:
        error, effects = self.device.acted(eid, value, self._now)
        self._written += effects
        if error is not None:
            self._refused = eid
        return error
