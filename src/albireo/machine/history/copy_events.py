"""Events and effects of the copying of stored history: what it is told, and what it wants done.

The shell carries out one effect at a time, but for those of which it is said, and tells its end by `Worked`.
"""

import msgspec

from albireo.codec.history import FileEntry, Hole
from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent
from albireo.model.instant import TimePassed


class HolesKnown(msgspec.Struct, frozen=True):
    """The manifest lists these holes; told at the start and after each change of the manifest."""

    holes: tuple[Hole, ...]
    log_id: str


class PeerAnswered(msgspec.Struct, frozen=True, eq=False):
    """The other history answered, with a piece of a file or without."""

    word: GroupSent | PieceSent
    piece: bytes | memoryview = b""


class Worked(msgspec.Struct, frozen=True):
    """The shell has carried out the last effect."""

    fault: str = ""
    """Why it could not: the name of a file's fault, or the words of the disk; empty: it could."""
    is_disk: bool = False


class AskPeer(msgspec.Struct, frozen=True):
    """Effect: send this to the other history."""

    word: GroupAsked | PieceAsked


class StorePiece(msgspec.Struct, frozen=True, eq=False):
    """Effect: write the piece aside, at `offset` of the one file under way (0: begin the file)."""

    offset: int
    piece: bytes | memoryview


class TakeFile(msgspec.Struct, frozen=True):
    """Effect: check the file aside, which is whole, and make files of our own of its rows within the hole."""

    entry: FileEntry
    hole: Hole


class KeepGroup(msgspec.Struct, frozen=True):
    """Effect: list the files made of the group, with `after` in place of the hole, in one manifest."""

    hole: Hole
    after: Hole


class EndHole(msgspec.Struct, frozen=True):
    """Effect: list the parts `left` in place of the hole."""

    hole: Hole
    left: tuple[Hole, ...]


class Forget(msgspec.Struct, frozen=True):
    """Effect: remove the files made of this group. It ends at once, without a `Worked`."""


class CountRefusal(msgspec.Struct, frozen=True):
    """Effect: count a refused answer by its reason."""

    reason: str


Event = HolesKnown | PeerAnswered | Worked | TimePassed
Effect = AskPeer | StorePiece | TakeFile | KeepGroup | EndHole | Forget | CountRefusal
