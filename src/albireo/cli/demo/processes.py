"""The demo's child processes: nodes, witness and pipeline; each ends when the demo does, however that ends."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import Failure

LOG: Final = "node.log"
STOP_S: Final = 40.0
"""Adapters 10 s, then history, then core; each has its own limit."""
RESTART_S: Final = 10.0
"""Long enough to see that the other member goes on alone."""
TAIL_LINES: Final = 15


class DemoProcesses:
    """Processes by name, each with a directory for its data and its log.

    One that has ended - somebody killed it, to see what the others do - is started again a little later, as a service
    manager would.
    """

    def __init__(self) -> None:
        self._arguments: dict[str, tuple[str, ...]] = {}
        self._directories: dict[str, Path] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended_at: dict[str, float] = {}

    def start(self, name: str, directory: Path, *arguments: str) -> None:
        """Start `albireo ARGUMENTS... --data directory`."""
        self._arguments[name], self._directories[name] = arguments, directory
        self._begin(name)

    def _begin(self, name: str) -> None:
        directory = self._directories[name]
        with (directory / LOG).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ending_with_us(*self._arguments[name], "--data", str(directory)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the demo, which stops view, nodes and plant in this order.
            )

    def restart_ended(self) -> None:
        """Start ended processes again when it is time; called now and then."""
        now = time.monotonic()
        for name, process in list(self._processes.items()):
            if process.poll() is None:
                self._ended_at.pop(name, None)
            elif now - self._ended_at.setdefault(name, now) >= RESTART_S:
                del self._ended_at[name]
                _close(process)
                self._begin(name)

    def runs(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def check(self) -> None:
        """Raises Failure: a process has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = self._directories[name] / LOG
                raise Failure(f"{name} ended with {process.returncode}:\n{self.tail(name)}", f"see {log}")

    def stop(self, name: str) -> int:
        """Stop it cleanly, or kill it after STOP_S; its exit code, as a positive number; 0 if it was never started."""
        process = self._processes.get(name)
        if process is None:
            return 0
        if process.poll() is None:
            process.terminate()
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        _close(process)
        return abs(code)

    def tail(self, name: str) -> str:
        """Last lines of its log."""
        log = self._directories[name] / LOG
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])


def _close(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def run_pipeline(data: Path) -> dict[str, Any]:
    """The pipeline's answer: tables, seconds, reports.

    In a process of its own: Spark may have been installed after this one began.

    Raises:
        Failure: it failed; it has said why on standard error.
    """
    process = subprocess.Popen(
        ending_with_us("pipeline", "run", "--data", str(data), "--json"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        # Not communicate(): it would close the standard input by which the child knows that we live.
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    if code != 0 or not said:
        raise Failure(f"the pipeline ended with {code}", f"try it again: albireo pipeline run --data {data}")
    answer: dict[str, Any] = msgspec.json.decode(said[-1])
    return answer


def ending_with_us(*arguments: str) -> list[str]:
    """Command line of an Albireo command that ends with this process; one that crashes leaves its stack in the log."""
    return [sys.executable, "-X", "faulthandler", "-m", "albireo.cli.end_with_parent", *arguments]
