"""A server of libmodbus, from Debian, through ctypes."""

import ctypes
import ctypes.util
import select
import socket
import threading
from collections.abc import Sequence

from tests.parts.port import free_port

NAME = ctypes.util.find_library("modbus") or ""
BITS, REGISTERS = 64, 300


class LibmodbusMapping(ctypes.Structure):
    """modbus_mapping_t of libmodbus 3.1."""

    _fields_ = (
        *((name, ctypes.c_int) for name in (
            "nb_bits", "start_bits", "nb_input_bits", "start_input_bits",
            "nb_input_registers", "start_input_registers", "nb_registers", "start_registers",
        )),
        ("tab_bits", ctypes.POINTER(ctypes.c_uint8)),
        ("tab_input_bits", ctypes.POINTER(ctypes.c_uint8)),
        ("tab_input_registers", ctypes.POINTER(ctypes.c_uint16)),
        ("tab_registers", ctypes.POINTER(ctypes.c_uint16)),
    )  # fmt: skip


class LibmodbusServer:
    """A libmodbus server in a thread; its tables are this process' memory."""

    def __init__(self) -> None:
        self.port = free_port()
        self.lib = _library()
        self.context = self.lib.modbus_new_tcp(b"127.0.0.1", self.port)
        self.tables = self.lib.modbus_mapping_new(BITS, BITS, REGISTERS, REGISTERS).contents
        self._listener = socket.socket(fileno=self.lib.modbus_tcp_listen(self.context, 1))
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        query = ctypes.create_string_buffer(260)
        while not self._is_stopping.is_set():
            if not select.select([self._listener], [], [], 0.02)[0]:
                continue
            descriptor = ctypes.c_int(self._listener.fileno())
            connection = self.lib.modbus_tcp_accept(self.context, ctypes.byref(descriptor))
            while not self._is_stopping.is_set():
                if not select.select([connection], [], [], 0.02)[0]:
                    continue
                length = self.lib.modbus_receive(self.context, query)
                if length < 0:
                    break
                if length > 0:
                    self.lib.modbus_reply(self.context, query, length, ctypes.byref(self.tables))
            self.lib.modbus_close(self.context)

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._listener.close()
        self.lib.modbus_free(self.context)

    def put(self, address: int, words: Sequence[int]) -> None:
        """Holding registers."""
        for offset, word in enumerate(words):
            self.tables.tab_registers[address + offset] = word


def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(NAME)
    lib.modbus_new_tcp.restype = ctypes.c_void_p
    lib.modbus_new_tcp.argtypes = [ctypes.c_char_p, ctypes.c_int]
    lib.modbus_mapping_new.restype = ctypes.POINTER(LibmodbusMapping)
    lib.modbus_tcp_listen.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.modbus_tcp_accept.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.modbus_receive.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.modbus_reply.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    lib.modbus_close.argtypes = [ctypes.c_void_p]
    lib.modbus_free.argtypes = [ctypes.c_void_p]
    return lib
