"""Messages between the plant, its PLCs and whoever switches scenarios, over a Unix socket.

    frame   = length:u32(little-endian) message:msgpack[length]
    message = a map tagged by `type`

One tick of values of a PLC is one `Image`. Lengths are checked before anything is read.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from albireo.plant.tunnel.plc.memory import Retained
from albireo.plant.tunnel.scenario import Scenario

FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest image has 2 kB."""
SOCKET_NAME: Final = "plant.sock"


class WireError(Exception):
    """Bytes that are no message; the connection is not used any further."""


class PlcFaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Faults of a PLC as a Modbus device."""

    is_off: bool = False
    """Its port is closed and its connections are gone."""
    is_frozen: bool = False
    """The PLC answers, but its program stands still: no value and no life sign changes."""
    is_half_open: bool = False
    """The PLC takes requests and carries out writes, but no answer ever arrives."""
    answer_delay_ms: int = 0
    write_delay_ms: int = 0
    """A write is carried out and answered this much later; it keeps only its own connection waiting."""
    exception_code: int = 0
    """Modbus exception (V1.1b3, 7) as the answer to every request; 0 is none."""
    connections_max: int = 0
    """Further clients are turned away; 0: no limit."""
    own_delay_ms: int = 0
    """A write to the voter's or the mailboxes' registers is answered at once and seen this much later, by anybody."""
    others_delay_ms: int = 0
    """Other connections and the PLC's program see such a write this much later; its own connection sees it at once."""
    tear_ms: int = 0
    """Such a write of several registers is seen in two halves, this long apart; the answer follows the second."""
    splits_register: bool = False
    """The two halves meet within a register, which no checksum of ours assumes."""


class PlcHello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """A PLC's first words."""

    plc: str


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """Plant to PLC, every tick."""

    values: bytes
    """float64, little-endian, in the order of `RegisterMap.live`."""
    texts: dict[str, str]
    faults: PlcFaults


class PointsWritten(msgspec.Struct, frozen=True, kw_only=True, tag="written"):
    """PLC to plant: set points, by item name, in engineering units."""

    values: dict[str, float]


class ScenarioAsked(msgspec.Struct, frozen=True, kw_only=True, tag="scenario"):
    """Anyone to plant; answered by `Done`."""

    scenario: Scenario
    target: int | None = None
    """Section, fan or sensor from 0; the usual place without it."""
    plc: str = "p1"
    """Which PLC goes off."""


class FaultsAsked(msgspec.Struct, frozen=True, kw_only=True, tag="faults"):
    """Anyone to plant: the faults of one PLC from now on; answered by `Done`."""

    plc: str
    faults: PlcFaults


class Restart(msgspec.Struct, frozen=True, kw_only=True, tag="restart"):
    """A power cycle: connections end by RST, the boot number changes, the registers are as `keep` says."""

    keep: Retained = Retained.ALL
    age_ms: int = 2_000
    """Age of the image that comes back with `Retained.OLD`."""
    down_ms: int = 300
    """Time until the port is open again."""


class ZeroVoter(msgspec.Struct, frozen=True, tag="zero_voter"):
    """The voter's registers are zeroed, as by loading a program; nothing restarts."""


class ResetConnections(msgspec.Struct, frozen=True, tag="reset_connections"):
    """All connections end by RST; what was written before may still be on its way."""


class ActAsked(msgspec.Struct, frozen=True, kw_only=True, tag="act"):
    """Anyone to plant, handed on to the PLC: something that happens once. `Done` says that it was handed on."""

    plc: str
    act: Restart | ZeroVoter | ResetConnections


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """Carried out, or not and why."""

    error: str = ""


Message = PlcHello | Image | PointsWritten | ScenarioAsked | FaultsAsked | ActAsked | Done

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def framed(message: Message) -> bytes:
    """The bytes of one message."""
    body = _encoder.encode(message)
    return len(body).to_bytes(4, "little") + body


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None at the end of the connection, also when it ends inside a message.

    Raises:
        WireError: too long, or no message.
    """
    try:
        length = int.from_bytes(await reader.readexactly(4), "little")
        if length > FRAME_BYTES_MAX:
            raise WireError(f"a frame of {length} bytes, at most {FRAME_BYTES_MAX}")
        message: Message = _decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except msgspec.DecodeError as error:
        raise WireError(str(error)) from error
    return message


@asynccontextmanager
async def connected(directory: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the plant of `directory`, closed at the end.

    Raises:
        OSError: no plant runs there.
    """
    with socket_path(directory) as place:
        reader, writer = await asyncio.open_unix_connection(place)
    try:
        yield reader, writer
    finally:
        writer.close()


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """Path of the plant's socket that fits into the 107 bytes of a Unix address, however deep `directory` lies."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET_NAME}"
    finally:
        os.close(fd)
