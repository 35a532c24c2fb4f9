"""History: what programs of the drill did and saw, a line of JSON each, written before anything else happens.

A program may be killed at any moment: a line is written by one call, so all but the last one are whole.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec


class Acked(msgspec.Struct, frozen=True, tag="acked", array_like=True):
    """Puts of one producer were acknowledged."""

    at_ns: int
    producer: str
    first: int
    last: int
    topic: str


class Got(msgspec.Struct, frozen=True, tag="got", array_like=True):
    """A subscriber got a message."""

    at_ns: int
    subscriber: str
    reader: str
    """Consumer that got it: each has a name of its own."""
    topic: str
    number: int
    body: str


class Settled(msgspec.Struct, frozen=True, tag="settled", array_like=True):
    """The acknowledgement of messages has returned."""

    at_ns: int
    subscriber: str
    messages: tuple[tuple[str, int], ...]


Event = Acked | Got | Settled
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Event)


class HistoryWriter:
    """File of one program, which many threads may write."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, event: Event) -> None:
        os.write(self._handle, _encoder.encode(event) + b"\n")


def now_ns() -> int:
    """Time of an event; the same clock for all programs of a machine."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def read_history(path: Path) -> Iterator[Event]:
    """The events of a program, but for one that was cut short."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield _decoder.decode(line)
