"""The floor of `bench tree`: a message goes over three bare ZeroMQ hops, and is durable at each before it goes on.

Each hop is a process with a file. Group commit: what waits when a hop looks is one write, one sync, and goes on
together. No frames, no order kept after a reconnect, no folds, no keys.

    python -m bench._bare_hops FILE BIND CONNECT
"""

import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import zmq

HOPS: Final = 3
MESSAGE_BYTES: Final = 400
_STAMP: Final = struct.Struct("<q")


def drained(link: "zmq.Socket[bytes]") -> list[bytes]:
    """Messages that wait, up to 128; waits for the first."""
    found = [link.recv()]
    while len(found) < 128:
        try:
            found.append(link.recv(zmq.DONTWAIT))
        except zmq.Again:
            break
    return found


def serve(path: str, bind: str, connect: str) -> None:
    """Be one hop, until somebody ends this process."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    before, behind = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    before.bind(bind)
    behind.connect(connect)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    print("ready", flush=True)
    while True:
        group = drained(before)
        os.writev(handle, group)
        os.fdatasync(handle)
        for one in group:
            behind.send(one)


def ages_ms(directory: Path, ports: Sequence[int], count: int, per_s: float) -> list[float]:
    """Time from the sending of each message until it is behind the last hop.

    Args:
        ports: one for each hop, and one for the end.
    """
    ends = [f"tcp://127.0.0.1:{port}" for port in ports]
    hops = [
        subprocess.Popen(
            [sys.executable, "-m", "bench._bare_hops", str(directory / f"hop{number}"), ends[number], ends[number + 1]],
            stdout=subprocess.PIPE,
        )
        for number in range(HOPS)
    ]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    source, sink = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    ages: list[float] = []
    try:
        sink.bind(ends[HOPS])
        source.connect(ends[0])
        for hop in hops:
            assert hop.stdout is not None
            hop.stdout.readline()
        _pass(source, sink, count, per_s, ages)
    finally:
        for hop in hops:
            with hop:
                hop.terminate()
        context.destroy(linger=0)
    return ages


def _pass(source: "zmq.Socket[bytes]", sink: "zmq.Socket[bytes]", count: int, per_s: float, ages: list[float]) -> None:
    sent, due = 0, time.monotonic()
    while len(ages) < count:
        now = time.monotonic()
        if sent < count and now >= due:
            source.send(_STAMP.pack(time.monotonic_ns()).ljust(MESSAGE_BYTES, b"\0"))
            sent, due = sent + 1, due + 1 / per_s
            continue
        wait_ms = 1_000.0 if sent == count else 1e3 * (due - now)
        if sink.poll(max(1, round(wait_ms))):
            (at,) = _STAMP.unpack_from(sink.recv())
            ages.append((time.monotonic_ns() - at) / 1e6)


if __name__ == "__main__":
    serve(*sys.argv[1:])
