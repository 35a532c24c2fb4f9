"""Failover: how long nothing is acknowledged, per fault, on real processes under a live load.

Each figure is what `albireo drill FAULT` measures: from the last acknowledgement before the fault to the first one
after it, with two producers of 100 messages a second each. A gap of a few hundredths of a second is the load's own
rhythm. Nothing acknowledged may be lost, doubled or reordered in any round, or the goal is not held.
"""

import subprocess
import sys
from typing import Any, Final

import msgspec

from bench import Case, Progress, Result, case, median, result

ROUNDS: Final = 20
FAULTS: Final[tuple[tuple[str, str, float | None, float | None], ...]] = (
    ("kill-active", "witness", 0.35, 0.8),
    ("kill-active", "plc", 0.6, None),
    ("cut-active", "witness", 1.3, 1.7),
    ("pause-active", "witness", 1.3, 1.7),
    ("switchover", "witness", None, 0.3),
    ("kill-passive", "witness", None, 1.0),
    ("kill-voter", "witness", None, None),
)
"""(fault, voters, goal of the median, goal of the longest), seconds."""


def run(progress: Progress) -> Result:
    cases: list[Case] = []
    for fault, voters, typical, longest in FAULTS:
        gaps, harm = rehearsed(fault, voters, progress)
        what = f"{fault}, {voters} voters"
        if not gaps:
            progress(f"{what}: not possible here")
            continue
        cases += [
            case(f"{what}: gap, median of {len(gaps)}", "s", median(gaps), goal=_at_most(typical)),
            case(f"{what}: longest gap", "s", max(gaps), goal=_at_most(longest)),
            case(f"{what}: messages lost, doubled, reordered", "", harm, goal="<= 0"),
        ]
    return result("failover", cases)


def rehearsed(fault: str, voters: str, progress: Progress) -> tuple[list[float], int]:
    """Gaps of all rounds, seconds, and what was harmed in them; no gaps where the machine can't do this fault."""
    progress(f"{fault} with {voters} voters, {ROUNDS} rounds")
    program = "from albireo.cli import main; main()"
    arguments = ["drill", fault, "--rounds", str(ROUNDS), "--voters", voters, "--json"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, check=False)
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = msgspec.json.decode(lines[-1]) if lines else {}
    rounds = answer.get("rounds", [])
    harm = sum(one["lost"] + one["doubled"] + one["reordered"] for one in rounds)
    return [one["gap_s"] for one in rounds], harm


def _at_most(seconds: float | None) -> str | None:
    return None if seconds is None else f"<= {seconds}"
