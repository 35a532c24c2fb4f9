"""Words of two histories to each other: of the members of a pair, or of a node and one below it. Their COREs carry them
and do not look inside.

    part 0   one msgpack map, tagged: a word
    part 1   of `PieceSent`: the bytes of the piece

Decoding is total: hostile bytes give a DecodeError, never anything else. Whether a word makes sense is judged where it
is used (machine.history.copying).
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.codec.history import FileEntry, Hole
from albireo.codec.tree.stored import PIECE_BYTES
from albireo.model.bounded import ENTRIES_MAX, Count, Name, Text


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Head of each word. An answer has the number of its question."""

    number: Count


class GroupAsked(Said, frozen=True, kw_only=True, tag="group_asked"):
    """Question which files of the newest group older than `before` have records of this range."""

    log_id: Name
    first_sequence: Count
    last_sequence: Count
    before: Text = ""
    """Group; empty: the newest group of all is meant."""
    is_exact: bool = False
    """True: the group `before` itself is meant."""
    missed: Count = 0
    """Number of groups that could not be copied so far; for people."""
    node: Name = ""
    """Node below whose rows are meant, and its items with them; empty: all rows, as members of a pair ask."""


class GroupSent(Said, frozen=True, kw_only=True, tag="group"):
    """The files of one group, as the sender's manifest has them now."""

    reason: Text = ""
    """Reason why there is no answer: `other_log`, or `behind`, when a part of the range is not in files yet."""
    group: Text = ""
    """Name of the group; empty without a reason: there is none."""
    entries: Annotated[tuple[FileEntry, ...], Meta(max_length=ENTRIES_MAX)] = ()
    holes: Annotated[tuple[Hole, ...], Meta(max_length=ENTRIES_MAX)] = ()
    """Parts of the range that the sender lacks too."""
    files: Count = 0
    """Number of files of all groups with records of the range."""
    left: Count = 0
    """Number of these files that are in this group and older ones."""


class PieceAsked(Said, frozen=True, kw_only=True, tag="piece_asked"):
    """Question for the next bytes of a file, `size_bytes` or fewer at its end."""

    path: Text
    offset: Count
    size_bytes: Count = PIECE_BYTES


class PieceSent(Said, frozen=True, kw_only=True, tag="piece"):
    """Bytes of a file, in the second part of the message."""

    path: Text
    offset: Count
    reason: Text = ""
    """Reason why there are no bytes: `gone` (there is no such file any more) or `unreadable`."""


Word = GroupAsked | GroupSent | PieceAsked | PieceSent

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def encode_word(word: Word) -> bytes:
    return _encoder.encode(word)


def decode_word(buffer: bytes | memoryview) -> Word:
    """The word that `buffer` is.

    Raises:
        DecodeError: `buffer` is no word.
    """
    try:
        return _decoder.decode(buffer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DecodeError(0, str(error)) from error
