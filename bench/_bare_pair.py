"""The floor of `bench pair`: producer -> append -> replica -> acknowledge, and nothing else.

Two processes with a zero-filled file each. The first takes messages, passes them on and syncs them at the same time; it
acknowledges what is durable on both. Group commit: what queued during a sync is the next group. No frames, no CRC, no
order kept after a reconnect, no roles, no folds.

    python -m bench._bare_pair replica|first FILE BIND CONNECT|- CURVE(0|1)
"""

import os
import struct
import sys
import threading
from collections import deque
from typing import Final

import zmq

FILE_BYTES: Final = 256 << 20
SERVER_PUBLIC: Final = b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
SERVER_SECRET: Final = b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
"""The well-known pair of the CURVE documentation: it measures, it protects nothing."""
NUMBER: Final = struct.Struct("<Q")


class Disk:
    """A zero-filled file, one sync thread, and the number of the last message that is on the disk."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        zeros = bytes(1 << 20)
        for _ in range(FILE_BYTES >> 20):
            os.write(self._handle, zeros)
        os.fsync(self._handle)
        self._queue: deque[tuple[int, bytes]] = deque()
        self._wanted = threading.Condition()
        self._offset = 0
        self.durable = 0
        self.told = os.eventfd(0, os.EFD_NONBLOCK)
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, group: list[tuple[int, bytes]]) -> None:
        with self._wanted:
            self._queue.extend(group)
            self._wanted.notify()

    def _run(self) -> None:
        while True:
            with self._wanted:
                while not self._queue:
                    self._wanted.wait()
                group = [self._queue.popleft() for _ in range(min(len(self._queue), 500))]
            size = sum(len(body) for _, body in group)
            if self._offset + size > FILE_BYTES:
                self._offset = 0
            os.pwritev(self._handle, [body for _, body in group], self._offset)
            self._offset += size
            os.fdatasync(self._handle)
            self.durable = group[-1][0]
            os.eventfd_write(self.told, 1)


def socket_of(context: "zmq.Context[zmq.Socket[bytes]]", kind: int, curve: bool, endpoint: str) -> "zmq.Socket[bytes]":
    """A server if it is a ROUTER, else a client of one."""
    found = context.socket(kind)
    found.setsockopt(zmq.SNDHWM, 10_000)
    found.setsockopt(zmq.RCVHWM, 10_000)
    if kind == zmq.ROUTER:
        if curve:
            found.setsockopt(zmq.CURVE_SERVER, 1)
            found.setsockopt(zmq.CURVE_SECRETKEY, SERVER_SECRET)
        found.bind(endpoint)
    else:
        if curve:
            public, secret = zmq.curve_keypair()
            found.setsockopt(zmq.CURVE_SERVERKEY, SERVER_PUBLIC)
            found.setsockopt(zmq.CURVE_PUBLICKEY, public)
            found.setsockopt(zmq.CURVE_SECRETKEY, secret)
        found.connect(endpoint)
    return found


def drained(link: "zmq.Socket[bytes]") -> list[list[bytes]]:
    """Messages that wait, up to 128."""
    found: list[list[bytes]] = []
    while len(found) < 128:
        try:
            found.append(link.recv_multipart(zmq.DONTWAIT))
        except zmq.Again:
            break
    return found


def serve(path: str, endpoint: str, replica: str, *, curve: bool) -> None:
    """Both roles: with a replica it is the first one, and acknowledges what both have."""
    disk = Disk(path)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    link = socket_of(context, zmq.ROUTER, curve, endpoint)
    other = socket_of(context, zmq.DEALER, curve, replica) if replica != "-" else None
    poller = zmq.Poller()
    for one in (link, other, disk.told):
        if one is not None:
            poller.register(one, zmq.POLLIN)
    sender, acked, there = b"", 0, 0
    print("ready", flush=True)
    while True:
        poller.poll()
        group = []
        for parts in drained(link):
            sender, number, body = parts
            if other is not None:
                other.send_multipart([number, body])
            group.append((NUMBER.unpack(number)[0], body))
        if group:
            disk.put(group)
        if other is not None:
            for (number,) in drained(other):
                there = NUMBER.unpack(number)[0]
        try:
            os.eventfd_read(disk.told)
        except BlockingIOError:
            pass
        done = disk.durable if other is None else min(disk.durable, there)
        if done > acked and sender:
            acked = done
            link.send_multipart([sender, NUMBER.pack(done)])


if __name__ == "__main__":
    serve(sys.argv[2], sys.argv[3], sys.argv[4], curve=sys.argv[5] == "1")
