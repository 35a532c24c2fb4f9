"""Disks that can fail: each member's data on an ext4 file system of its own, in a file.

Faults are done to them by means of the kernel (reference: ioctl_xfs_goingdown(2), which ext4 has too):

    cut     the file system stops and forgets everything that was not synced: a power cut
    break   the file system stops, and every later write and sync is an error: a disk that dies
    freeze  every write and sync waits: a disk that hangs (FIFREEZE, as `fsfreeze`)
    fill    no block is left
"""

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from albireo.drill.ground import DrillError, Ground, run_tool

PLACES: Final = ("primary", "backup")
SIZE_MIB: Final = 192
"""Two log segments, history and room enough that only `fill` makes it full."""
BUSY_S: Final = 10.0
BUSY_LOOK_S: Final = 0.05
TOOLS: Final = ("mkfs.ext4", "mount", "umount", "losetup")
SHUTDOWN: Final = 0x8004587D
"""EXT4_IOC_SHUTDOWN."""
FLUSHED, NOT_FLUSHED = 1, 2
"""Ways to cut a file system: with and without its journal written out before."""
FREEZE: Final = 0xC0045877
THAW: Final = 0xC0045878


class Disks(Ground):
    """Ground with one disk per member."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._mounts = {name: directory / f"disk-{name}" for name in PLACES}
        self.data = {name: mount / "data" for name, mount in self._mounts.items()}
        self._mounted: set[str] = set()
        self._frozen: set[str] = set()

    @staticmethod
    def objection() -> str:
        if os.geteuid() != 0:
            return "mounting a file system needs root"
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            return f"{' and '.join(missing)} not installed (Debian: e2fsprogs, mount)"
        if subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode != 0:
            return "this machine has no loop devices"
        return ""

    def make(self) -> None:
        for name, mount in self._mounts.items():
            image = self._image(name)
            with image.open("wb") as file:
                file.truncate(SIZE_MIB << 20)
            run_tool("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
            mount.mkdir(parents=True)
            self.mount(name)

    def release(self) -> None:
        for name in PLACES:
            self.thaw(name)

    def undo(self) -> None:
        for name in PLACES:
            self.unmount(name)

    def _image(self, name: str) -> Path:
        return self.directory / f"{name}.ext4"

    def mount(self, name: str) -> None:
        run_tool("mount", "-o", "loop", str(self._image(name)), str(self._mounts[name]))
        self._mounted.add(name)

    def unmount(self, name: str) -> None:
        """Nothing to do when it is not mounted."""
        ends = time.monotonic() + BUSY_S
        while name in self._mounted:
            try:
                run_tool("umount", str(self._mounts[name]))
                self._mounted.discard(name)
            except DrillError:  # The kernel lets go of a killed process' open files when it comes to it.
                if time.monotonic() > ends:
                    raise
                time.sleep(BUSY_LOOK_S)

    def cut(self, name: str) -> None:
        self._shut_down(name, NOT_FLUSHED)

    def break_down(self, name: str) -> None:
        self._shut_down(name, FLUSHED)

    def replace(self, name: str) -> None:
        """Put the same data on a disk that works; nobody may have it open.

        Raises:
            DrillError: somebody still has the old disk mounted, as programs in other name spaces do for a while.
        """
        self.unmount(name)
        ends = time.monotonic() + BUSY_S
        while self._is_attached(name):
            if time.monotonic() > ends:
                raise DrillError(f"{self._image(name)} is still mounted elsewhere (another drill in name spaces?)")
            time.sleep(BUSY_LOOK_S)
        self.mount(name)

    def _is_attached(self, name: str) -> bool:
        found = subprocess.run(["losetup", "-j", str(self._image(name))], capture_output=True, text=True, check=False)
        return bool(found.stdout.strip())

    def freeze(self, name: str) -> None:
        self._control(name, FREEZE, 0)
        self._frozen.add(name)

    def thaw(self, name: str) -> None:
        if name in self._frozen:
            self._frozen.discard(name)
            self._control(name, THAW, 0)

    def fill(self, name: str) -> None:
        """Take every block that is left."""
        with (self._mounts[name] / "filler").open("wb") as file:
            left = os.statvfs(self._mounts[name])
            size = left.f_bavail * left.f_frsize
            while size >= left.f_frsize:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError:
                    size //= 2  # Some of what is free are blocks for the tree of this very file.

    def make_room(self, name: str) -> None:
        (self._mounts[name] / "filler").unlink(missing_ok=True)

    def _shut_down(self, name: str, how: int) -> None:
        self._control(name, SHUTDOWN, how)

    def _control(self, name: str, request: int, argument: int) -> None:
        handle = os.open(self._mounts[name], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, request, argument.to_bytes(4, "little"))
        except OSError as error:
            raise DrillError(f"{self._mounts[name]}: {error.strerror}") from error
        finally:
            os.close(handle)
