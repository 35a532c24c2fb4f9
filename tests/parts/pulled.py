"""Pulled: a log as a list of frames, read for a follower as `Log.select` reads a real one."""

from collections.abc import Iterable

from albireo.codec import frame as codec
from albireo.codec.frame import Frame
from albireo.codec.message import FeedData
from albireo.machine.feed.leader import piece_of
from albireo.machine.kernel.pull import Given, Pull


def pulled(frames: Iterable[Frame], pull: Pull, epoch: int) -> tuple[Given, FeedData | None, bytes]:
    """The outcome of a pull; the message, None if no frame is of its streams; its raw part."""
    chunk, looked_to = b"", pull.after
    for one in frames:
        if one.header.first_sequence <= pull.after:
            continue
        if not pull.streams or one.header.stream in pull.streams:
            if chunk and len(chunk) + one.header.frame_bytes > pull.bytes_max:
                break
            chunk += codec.encode(one)
        looked_to = one.header.last_sequence
    if not chunk:
        return Given(pull, looked_to), None, b""
    piece = piece_of(chunk, pull, epoch)
    scanned = looked_to if piece.scanned is None else piece.scanned
    return Given(pull, scanned, piece.message.last, len(piece.data), piece.offset), piece.message, piece.data
