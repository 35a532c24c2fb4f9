"""A device on Modbus TCP with fixed registers: its values are set by whoever writes the stores, and by no clock.

Beside the values that are set it counts: a read of COUNT adds one until `count_max`, and the texts behind it say which
count they belong to. So a bounded number of readings fills as many segments as are wanted.

It knows nothing of the product: what a later release is given is byte for byte the same.
Spec: MODBUS Application Protocol V1.1b3, 6.
"""

import contextlib
import socketserver
import struct
import threading
from typing import Final

COUNT: Final = 100
"""Holding register; the texts begin behind it."""
TEXTS: Final = 8
TEXT_WORDS: Final = 100
STUBBORN: Final = 9
"""Takes every write and keeps its value."""
MUTE: Final = 10
"""Ends the connection in place of an answer to a write."""
STRICT: Final = 11
"""Refuses every write by exception 3."""
_HEAD: Final = struct.Struct(">HHHB")


class Plc:
    """A context manager: it answers from `__enter__` to `__exit__`, but while it is off."""

    def __init__(self) -> None:
        self.words = dict.fromkeys(range(COUNT), 0)
        self.coils = dict.fromkeys(range(8), False)
        self.count = self.count_max = 0
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.port: int = self._server.server_address[1]
        self.is_off = False

    def __enter__(self) -> "Plc":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def set_float(self, address: int, value: float) -> None:
        """Two registers, high word first."""
        with self._lock:
            self.words[address], self.words[address + 1] = struct.unpack(">HH", struct.pack(">f", value))

    def set_word(self, address: int, value: int) -> None:
        with self._lock:
            self.words[address] = value & 0xFFFF

    def set_coil(self, address: int, *, is_on: bool) -> None:
        with self._lock:
            self.coils[address] = is_on

    def answer(self, request: bytes) -> bytes | None:
        """The answer to a request without its head; None: the connection ends."""
        if self.is_off:
            return None
        code, address, value = struct.unpack_from(">BHH", request)
        with self._lock:
            match code:
                case 1:
                    bits = sum(self.coils.get(address + place, False) << place for place in range(value))
                    return bytes((code, (value + 7) // 8)) + bits.to_bytes((value + 7) // 8, "little")
                case 3:
                    if address <= COUNT < address + value and self.count < self.count_max:
                        self.count += 1
                    return bytes((code, 2 * value)) + b"".join(
                        self._word(place).to_bytes(2) for place in range(address, address + value)
                    )
                case 5:
                    self.coils[address] = value == 0xFF00
                    return request
                case 6 | 16:
                    return self._written(code, address, value, request)
                case _:
                    return bytes((code | 0x80, 1))

    def _written(self, code: int, address: int, value: int, request: bytes) -> bytes | None:
        if address == MUTE:
            return None
        if address == STRICT:
            return bytes((code | 0x80, 3))
        if code == 6:
            self.words[address] = self.words[address] if address == STUBBORN else value
            return request
        for place, (word,) in enumerate(struct.iter_unpack(">H", request[6:])):
            self.words[address + place] = word
        return request[:5]

    def _word(self, address: int) -> int:
        if address < COUNT:
            return self.words[address]
        if address == COUNT:
            return self.count
        number, place = divmod(address - COUNT - 1, TEXT_WORDS)
        text = f"text {number} of reading {self.count:06d}; ".encode() * TEXT_WORDS
        return int.from_bytes(text[2 * place : 2 * place + 2])


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, plc: Plc) -> None:
        self.plc = plc
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # An adapter ends its connections by RST.
            self._serve()

    def _serve(self) -> None:
        while len(head := self.rfile.read(_HEAD.size)) == _HEAD.size:
            transaction, protocol, length, unit = _HEAD.unpack(head)
            answer = self.server.plc.answer(self.rfile.read(length - 1))
            if answer is None:
                return
            self.wfile.write(_HEAD.pack(transaction, protocol, len(answer) + 1, unit) + answer)
