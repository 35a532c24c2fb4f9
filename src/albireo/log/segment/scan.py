"""Scanning a segment: which frames are valid, where damage lies, where valid frames go on behind it.

A frame counts as valid only when everything fits: header CRC, log id, expected sequence, chain, length, body CRC,
padding. Anything else that is not zeros up to the end is damage. Behind damage the scan goes on:

- header whole, body damaged: the next frame stands at a known place and must chain to this header;
- header damaged: the next 8-aligned place where a valid frame of this log with a higher sequence stands. (A body that
  holds a copy of a frame of its own log could be taken for one; no producer writes such bodies.)

Pages that can't be read (EIO) are taken as damage, page by page.
"""

from typing import Final

from albireo.codec.errors import DecodeError
from albireo.codec.frame import (
    ALIGNMENT,
    HEADER_BYTES,
    MAGIC_BYTES,
    FrameHeader,
    NeedMore,
    check_body,
    decode_header,
)
from albireo.log.files import FileSystem
from albireo.log.segment.segment import Damage, Segment

WINDOW_BYTES: Final = 4 * 1024 * 1024
_PAGE: Final = 4096
_UNREADABLE: Final = b"\xff"


class Window:
    """A file read forward in large pieces.

    Unreadable pages come as 0xFF bytes, which no frame survives; with `is_strict` they raise OSError.
    """

    def __init__(
        self, files: FileSystem, handle: int, end: int, *, window_bytes: int = WINDOW_BYTES, is_strict: bool = False
    ) -> None:
        self._is_strict = is_strict
        self.end = end
        self._files = files
        self._handle = handle
        self._window_bytes = window_bytes
        self._base = 0
        self._data = b""

    def at(self, offset: int, size: int) -> tuple[bytes, int]:
        """(buffer, place in it) where `size` bytes from `offset` on stand, fewer only at the end of the file."""
        if offset < self._base or min(offset + size, self.end) > self._base + len(self._data):
            self._base = offset
            self._data = self._read(offset, min(max(size, self._window_bytes), self.end - offset))
        return self._data, offset - self._base

    def frame(self, offset: int) -> FrameHeader | None:
        """The whole, CRC-checked frame at `offset`; None where only zeros stand.

        Raises:
            DecodeError: neither stands there. `BodyDamaged` when the header at least is whole.
        """
        buffer, place = self.at(offset, HEADER_BYTES)
        header = _header(buffer, place)
        if header is None:
            return None
        if offset + header.frame_bytes > self.end:
            raise DecodeError(offset, "frame goes past the end of the segment")
        buffer, place = self.at(offset, header.frame_bytes)
        try:
            check_body(header, buffer, place)
        except DecodeError as error:
            raise BodyDamaged(offset, error.reason, header) from None
        return header

    def first_nonzero(self, offset: int) -> int | None:
        """Place from `offset` on where a byte is not zero, exact to the window's start only; None: all are zero."""
        while offset < self.end:
            buffer, place = self.at(offset, 1)
            size = len(buffer) - place
            if memoryview(buffer)[place:] != memoryview(bytes(size)):
                return offset
            offset += size
        return None

    def last_nonzero(self, offset: int) -> int:
        """Place behind the last byte from `offset` on that is not zero; `offset` when all are zero."""
        found = offset
        while offset < self.end:
            buffer, place = self.at(offset, 1)
            kept = len(buffer[place:].rstrip(b"\0"))
            if kept:
                found = offset + kept
            offset += len(buffer) - place
        return found

    def find_magic(self, offset: int) -> int | None:
        """Next 8-aligned place from `offset` on where a frame could start; None: there is none."""
        while offset < self.end:
            buffer, place = self.at(offset, HEADER_BYTES)
            found = buffer.find(MAGIC_BYTES, place)
            while found >= 0 and (self._base + found) % ALIGNMENT:
                found = buffer.find(MAGIC_BYTES, found + 1)
            if found >= 0:
                return self._base + found
            # Windows start and end at multiples of 8, so an aligned magic never straddles two.
            offset = self._base + len(buffer)
        return None

    def _read(self, offset: int, size: int) -> bytes:
        try:
            data = self._files.pread(self._handle, size, offset)
        except OSError:
            if self._is_strict:
                raise
            pages = range(offset, offset + size, _PAGE)
            data = b"".join(self._read_page(page, min(_PAGE, offset + size - page)) for page in pages)
        return data + _UNREADABLE * (size - len(data))

    def _read_page(self, offset: int, size: int) -> bytes:
        try:
            return self._files.pread(self._handle, size, offset)
        except OSError:
            return _UNREADABLE * size


class BodyDamaged(DecodeError):
    """A frame whose body is damaged and whose header is whole, so that the place of the next frame is known."""

    def __init__(self, offset: int, reason: str, header: FrameHeader) -> None:
        super().__init__(offset, reason)
        self.header = header


def _header(buffer: bytes, place: int) -> FrameHeader | None:
    if not buffer[place : place + 4].strip(b"\0") and not buffer[place : place + HEADER_BYTES].strip(b"\0"):
        return None
    header = decode_header(buffer, place)
    if isinstance(header, NeedMore):
        raise DecodeError(place, "frame is cut short")
    return header


def scan(
    window: Window,
    segment: Segment,
    log_id: bytes,
    *,
    previous_header_crc: int | None,
    sequence_limit: int,
    index_every_bytes: int,
) -> None:
    """Fill the summary and index of an empty `segment` from its file.

    Args:
        previous_header_crc: header CRC of the last frame of the previous segment; None when it is not known.
        sequence_limit: first sequence of the next segment; frames from there on are not this segment's.
    """
    damages: list[Damage] = []
    offset = 0
    expected = segment.first_sequence
    chain = previous_header_crc
    while True:
        try:
            header = _expected(window, offset, log_id, expected, chain, sequence_limit)
            if header is None:
                break
        except DecodeError as error:
            found = _next_valid(window, offset, error, log_id, expected, sequence_limit)
            damages.append(
                Damage(
                    offset,
                    window.end if found is None else found[0],
                    expected,
                    0 if found is None else found[1].first_sequence,
                    error.reason,
                )
            )
            if found is None:
                break
            offset, header = found
        segment.note(header, offset, index_every_bytes)
        offset += header.frame_bytes
        expected = header.last_sequence + 1
        chain = header.header_crc
    segment.summary.damages = tuple(damages)
    if segment.has_lost_end:
        segment.summary.last_header_crc = 0


def _expected(
    window: Window, offset: int, log_id: bytes, expected: int, chain: int | None, sequence_limit: int
) -> FrameHeader | None:
    """Header of the frame that belongs at `offset`; None behind the last frame."""
    header = window.frame(offset)
    if header is None:
        if window.first_nonzero(offset) is not None:
            raise DecodeError(offset, "bytes behind the last frame")
        return None
    if header.log_id != log_id:
        raise DecodeError(offset, "frame of another log")
    if header.first_sequence != expected or header.last_sequence >= sequence_limit:
        raise DecodeError(offset, f"sequence {header.first_sequence} where {expected} belongs")
    if chain is not None and header.previous_header_crc != chain:
        raise DecodeError(offset, "frame does not follow the one before it")
    return header


def _next_valid(
    window: Window, offset: int, error: DecodeError, log_id: bytes, expected: int, sequence_limit: int
) -> tuple[int, FrameHeader] | None:
    """The first valid frame behind damage at `offset` whose sequence is above `expected`."""
    if isinstance(error, BodyDamaged) and error.header.first_sequence == expected and error.header.log_id == log_id:
        place = offset + error.header.frame_bytes
        header = _valid(window, place, log_id, expected, sequence_limit)
        if header is not None and header.previous_header_crc == error.header.header_crc:
            return place, header
    candidate = window.find_magic(offset + ALIGNMENT)
    while candidate is not None:
        header = _valid(window, candidate, log_id, expected, sequence_limit)
        if header is not None:
            return candidate, header
        candidate = window.find_magic(candidate + ALIGNMENT)
    return None


def _valid(window: Window, offset: int, log_id: bytes, expected: int, sequence_limit: int) -> FrameHeader | None:
    if offset >= window.end:
        return None
    try:
        header = window.frame(offset)
    except DecodeError:
        return None
    if header is None or header.log_id != log_id:
        return None
    return header if expected < header.first_sequence and header.last_sequence < sequence_limit else None
