"""Parts that tests share: one round of a fault as `albireo drill` does it."""

from pathlib import Path

import psutil


def left_behind(directory: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line:
            found.append(line)
    return found
