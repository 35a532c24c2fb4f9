"""Changes of a member's store while it is down: damage, or an older copy in its place."""

import shutil
from pathlib import Path
from typing import Final

from albireo.codec.frame import HEADER_BYTES, NeedMore, decode_header
from albireo.drill.ground import DrillError

FLIPPED_BYTES: Final = 16


def damage_tail(data: Path) -> None:
    """Flip bytes in the last frame of the log."""
    segment, offsets = _frames(data)[-1]
    _flip(segment, offsets[-1] + HEADER_BYTES)


def damage_middle(data: Path) -> None:
    """Flip bytes in the body of a frame half way through the log."""
    frames = [(segment, offset) for segment, offsets in _frames(data) for offset in offsets]
    _flip(*_inside(frames[len(frames) // 2]))


def _inside(frame: tuple[Path, int]) -> tuple[Path, int]:
    return frame[0], frame[1] + HEADER_BYTES


def _frames(data: Path) -> list[tuple[Path, list[int]]]:
    """Offsets of the frames of each segment that has any, in log order."""
    found = []
    for segment in sorted((data / "log" / "segments").glob("*.segment")):
        text, offset, offsets = segment.read_bytes(), 0, []
        while offset + HEADER_BYTES <= len(text) and any(text[offset : offset + HEADER_BYTES]):
            header = decode_header(text, offset)
            if isinstance(header, NeedMore):
                break
            offsets.append(offset)
            offset += header.frame_bytes
        if offsets:
            found.append((segment, offsets))
    if not found:
        raise DrillError(f"no frames in {data}")
    return found


def _flip(segment: Path, offset: int) -> None:
    with segment.open("r+b") as file:
        file.seek(offset)
        old = file.read(FLIPPED_BYTES)
        file.seek(offset)
        file.write(bytes(one ^ 0xFF for one in old))


def keep_copy(data: Path, copy: Path) -> None:
    """A copy of a store that nobody has open, in place of an earlier one."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("run"))


def put_back(copy: Path, data: Path) -> None:
    """Put the copy in place of the store."""
    shutil.rmtree(data)
    shutil.copytree(copy, data)
