"""Envelopes: frames of another node's log, as they lie in the log of a node above.

    frame of this log    kind ENVELOPE, stream BELOW, one record; its header's `origin` is (index, epoch, sequence): the
                         index of the `OriginDeclared` that names the other log, and the position there of the first
                         record inside
    body                 producer id 0, producer sequence 0, then frames end to end, untouched: header, body, padding

The frames inside keep their log id, epoch, sequences and CRCs, so the copy proves itself and a node further up copies
the same bytes. All of one envelope are of one log, each behind the one before. Envelopes are flat: there is none inside
another.

Spec: docs/formats/log.md, Envelopes; ADR-0185.
"""

from collections.abc import Iterator

from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader, frames
from albireo.codec.record import PRODUCER, Kind

_NOBODY = PRODUCER.pack(0, 0)


def encode_envelope(inner: bytes | memoryview) -> bytes:
    """Body of an envelope around whole frames of one log."""
    return b"".join((_NOBODY, inner))


def inside(body: bytes | memoryview) -> memoryview:
    """The frames in the body of an envelope, end to end."""
    if len(body) < len(_NOBODY):
        raise DecodeError(len(body), "an envelope shorter than its producer header")
    return memoryview(body)[len(_NOBODY) :]


def open_envelope(
    header: FrameHeader, body: bytes | memoryview, *, verify: bool = False
) -> Iterator[tuple[FrameHeader, memoryview]]:
    """Header and body of every frame inside.

    Args:
        header: of the envelope.
        verify: also check the bodies inside. The CRC of the envelope's own body covers them: who has checked that need
            not.

    Raises:
        DecodeError: not an envelope, or damage; frames before it have been yielded.
    """
    origin = header.origin
    if header.kind != Kind.ENVELOPE or origin is None:
        raise DecodeError(0, "not an envelope")
    after = origin.sequence - 1
    for inner, content in frames(inside(body), verify=verify):
        if inner.kind == Kind.ENVELOPE or inner.first_sequence <= after:
            raise DecodeError(0, f"a frame of kind {inner.kind} at {inner.first_sequence} does not belong here")
        after = inner.last_sequence
        yield inner, content
