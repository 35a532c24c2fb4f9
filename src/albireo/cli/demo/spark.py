"""Waits for Spark, which `make demo` installs beside the running demo; marks as in docs/demo-install.md."""

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import Failure, progress, say
from albireo.pipeline.errors import INSTALL

MARKS: Final = Path("var")
NEEDED: Final = ("pyspark", "deltalake", "jinja2", "matplotlib", "pandas")
PAUSE_S: Final = 0.5
STALE_S: Final = 120.0
"""A progress file this old belongs to an installation that was killed: pip writes often enough."""
BEGIN_S: Final = 10.0
"""Longest time until an installation gives its first sign."""


def wait_for_spark(
    marks: Path = MARKS, needed: Sequence[str] = NEEDED, *, begin_s: float = BEGIN_S, pause_s: float = PAUSE_S
) -> None:
    """Returns when every package of `needed` can be imported.

    Raises:
        Failure: the installation failed, hangs, or nobody installs it.
    """
    if is_ready(marks, needed):
        return
    began = time.monotonic()
    with progress("waiting for Spark to be installed", 100) as advance:
        shown = 0.0
        while not is_ready(marks, needed):
            state = read_progress(marks)
            if state is None and time.monotonic() - began > begin_s:
                raise Failure("Spark is not installed", INSTALL)
            if state is not None:
                share = 100 * float(state.get("share", 0))
                advance(max(0.0, share - shown), str(state.get("step", "")))
                shown = max(shown, share)
            time.sleep(pause_s)
    say("Spark is installed")


def is_ready(marks: Path, needed: Sequence[str] = NEEDED) -> bool:
    """Whether every package is there and nobody is at work on them.

    Raises:
        Failure: the installation ended with an error.
    """
    failed = marks / "spark-install.failed"
    if failed.exists():
        remedy = f"put that right; then {INSTALL}"
        raise Failure(f"Spark could not be installed: {failed.read_text().strip()}", remedy)
    if (marks / "spark-install.done").exists() or read_progress(marks) is None:
        importlib.invalidate_caches()
        return all(importlib.util.find_spec(name) is not None for name in needed)
    return False


def read_progress(marks: Path) -> dict[str, Any] | None:
    """Progress of an installation; None when there is none, or only the trace of a dead one."""
    path = marks / "spark-install.progress"
    try:
        if time.time() - path.stat().st_mtime > STALE_S:
            return None
        found = msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if isinstance(found, dict) else None
