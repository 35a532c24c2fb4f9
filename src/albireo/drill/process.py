"""Process group of the drill: a member with all its actors, or a witness."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from albireo.drill.ground import DrillError

STARTER: Final = "albireo.cli.end_with_parent"
"""Module that runs a command and ends with whoever started it."""
STOP_S: Final = 40.0
"""A member that hands over, drains its adapters and closes its log."""
TAIL_LINES: Final = 12
TELLING: Final = ('"member_state"', '"pair_case"', '"warning"', '"error"', "Error", "gives up")
GONE_S: Final = 20.0
"""After SIGKILL; a process that waits for a disk goes when the disk answers."""
GONE_LOOK_S: Final = 0.005


class Group:
    """Started, killed, paused as a whole; its log is one file over all its lives."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path, within: Sequence[str] = ()) -> None:
        """
        Args:
            arguments: of the `albireo` command.
            within: command that runs it, such as `ip netns exec NAME`.
        """
        self.name = name
        self.log = log
        self.environment: dict[str, str] = {}
        """Variables of this process beyond our own environment."""
        self.options: tuple[str, ...] = ()
        """More arguments, from the next start on."""
        self._within = within
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of its first process, which is also the number of the group."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        environment: Mapping[str, str] = {**os.environ, **self.environment}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, sys.executable, "-m", STARTER, *self._arguments, *self.options],
                stdin=subprocess.PIPE,  # Closed when we end; the starter ends then.
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send `number` to every process of the group at once. A process may be gone."""
        if self.is_running:
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it at once, as a power cut would; returns when it is gone."""
        self.signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int | None:
        """Stop it cleanly and give its exit code; None when it had to be killed."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.terminate()
            self.resume()
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._reap()
        return code

    def _reap(self) -> None:
        """Wait until nobody of the group is left: the last of them still has files open when the first has gone."""
        if self._process is None:
            return
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        ends = time.monotonic() + GONE_S
        while any(_is_of(one, self.pid) for one in psutil.process_iter()):
            if time.monotonic() > ends:
                raise DrillError(f"{self.name} was killed and is still there after {GONE_S:.0f} s")
            time.sleep(GONE_LOOK_S)  # They are no children of ours: nothing tells.

    def tail(self) -> str:
        """The last lines it logged that tell of the pair or of something wrong."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        telling = [line for line in lines if any(one in line for one in TELLING)]
        return "\n".join(f"  {self.name}: {line}" for line in telling[-TAIL_LINES:])


def _is_of(process: psutil.Process, group: int) -> bool:
    """Whether `process` is of this group and not gone.

    A process whose first thread has ended is a zombie for as long as others still end, and they have its files open.
    """
    try:
        if os.getpgid(process.pid) != group:
            return False
        return process.status() != psutil.STATUS_ZOMBIE or len([*Path(f"/proc/{process.pid}/task").iterdir()]) > 1
    except (ProcessLookupError, FileNotFoundError, psutil.NoSuchProcess):
        return False
