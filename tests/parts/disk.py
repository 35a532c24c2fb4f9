"""Real file systems of a few MB for tests: as small, full and cut as a test wants them."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
needs_ext4 = pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="mkfs.ext4 is missing: package e2fsprogs")


@contextlib.contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[None]:
    """Mount what `mount` is told; the test is skipped where nobody may."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(at)], capture_output=True, check=False, text=True)
    if done.returncode:
        pytest.skip(f"mount is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def ext4_image(image: Path, size_bytes: int, *options: str) -> None:
    """Make an image of a disk, with options of mkfs.ext4."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["mkfs.ext4", "-q", *options, str(image)], check=True)


def filled(ballast: Path) -> None:
    """Write a file until its disk takes no more."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1024)):
            pass
