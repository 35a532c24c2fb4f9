"""PictureShelf: the pictures of a page, read again when their files change."""

from pathlib import Path

from albireo.codec.topology.mistakes import Mistake
from albireo.face.web.pictures.files import PictureRead, read_pictures
from albireo.face.web.words import Picture, PictureTitle


class PictureShelf:
    """Pictures of one directory. Reading blocks: in a thread; all else is of the face's loop."""

    def __init__(self, directory: Path | None, node: str) -> None:
        """`directory`: None: there are no pictures."""
        self._directory = directory
        self._node = node
        self._stamp: dict[str, tuple[int, int]] | None = None
        self._read: dict[str, PictureRead] = {}

    @property
    def titles(self) -> tuple[PictureTitle, ...]:
        return tuple(one.title for one in self._read.values())

    def picture(self, name: str) -> Picture:
        return self._read[name].picture if name in self._read else Picture(name=name)

    def read_again(self) -> list[Mistake] | None:
        """Read what changed; None: nothing did; else the mistakes, one for each picture that is not shown."""
        if self._directory is None:
            return None
        try:
            stats = {one.name: one.stat() for one in self._directory.iterdir() if one.suffix in (".svg", ".toml")}
        except OSError:
            stats = {}
        stamp = {name: (one.st_size, one.st_mtime_ns) for name, one in stats.items()}
        if stamp == self._stamp:
            return None
        self._stamp, self._read = stamp, read_pictures(self._directory, self._node)
        return [
            next(it for it in one.mistakes if not it.is_warning) for one in self._read.values() if one.title.trouble
        ]
