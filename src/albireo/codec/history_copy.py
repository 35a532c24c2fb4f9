"""What the histories of the two members of a pair say to each other. Their COREs carry it and do not look inside.

    part 0   one msgpack map, tagged: a word
    part 1   of `PieceSent`: the bytes of the piece

Decoding is total: hostile bytes give a DecodeError, never anything else. Whether a word makes sense is judged where it
is used (machine.history.copying).
"""

from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.history import FileEntry, Hole

PIECE_BYTES: Final = 256 << 10
"""Of one message. One is under way at a time, and heartbeats wait behind it: 2 ms at 1 Gbit/s."""


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Head of each word. An answer has the number of its question."""

    number: int


class GroupAsked(Said, frozen=True, kw_only=True, tag="group_asked"):
    """Which files have records of this range, of the newest group older than `before`?"""

    log_id: str
    first_sequence: int
    last_sequence: int
    before: str = ""
    """Empty: of the newest of all."""
    is_exact: bool = False
    """Of the group `before` itself."""
    missed: int = 0
    """Groups that the asker could not copy so far; for people."""


class GroupSent(Said, frozen=True, kw_only=True, tag="group"):
    """The files of one group, as the sender's manifest has them now."""

    reason: str = ""
    """Why there is no answer: `other_log`, or `behind`: not everything of the range is in files yet."""
    group: str = ""
    """Empty, and no reason: there is none."""
    entries: tuple[FileEntry, ...] = ()
    holes: tuple[Hole, ...] = ()
    """Parts of the range that the sender lacks too."""
    files: int = 0
    """With records of the range, of all groups."""
    left: int = 0
    """Of these: in this group and older ones."""


class PieceAsked(Said, frozen=True, kw_only=True, tag="piece_asked"):
    """The next bytes of a file, PIECE_BYTES or what is left."""

    path: str
    offset: int


class PieceSent(Said, frozen=True, kw_only=True, tag="piece"):
    """They are the second part."""

    path: str
    offset: int
    reason: str = ""
    """Why there are none: `gone`, no such file any more; `unreadable`."""


Word = GroupAsked | GroupSent | PieceAsked | PieceSent

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def encode_word(word: Word) -> bytes:
    return _encoder.encode(word)


def decode_word(buffer: bytes | memoryview) -> Word:
    """The word that `buffer` is.

    Raises:
        DecodeError: it is none.
    """
    try:
        return _decoder.decode(buffer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DecodeError(0, str(error)) from error
