"""`python -m bench NAME [--json]` or `python -m bench --all`. Exit code 0: all goals held, 1: not, 2: usage."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import msgspec

from bench import Case, Result

FOLDER = Path(__file__).parent
HEAD = """# Results

Rewritten by `make bench`. One machine, one pass: absolute values depend on it, ratios less. `ratio` is ours / floor;
the floor is measured in the same pass, interleaved. A goal without a floor is one of `ours`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=names(), help="which benchmark")
    parser.add_argument("--all", action="store_true", help="run every benchmark and rewrite bench/RESULTS.md")
    parser.add_argument("--json", action="store_true", help="one JSON object on one line, the last of stdout")
    parser.add_argument("--samples", type=int, help="rows of `pipeline`, for a short look; 20 million without it")
    parser.add_argument("--short", action="store_true", help="`tree` in the sizes of its test, for a short look")
    arguments = parser.parse_args()
    if arguments.samples is not None and arguments.name != "pipeline":
        parser.error("--samples is for `pipeline`")
    if arguments.all == (arguments.name is not None):
        parser.error("give one name, or --all")
    if arguments.all:
        return run_all()
    if arguments.short and arguments.name != "tree":
        parser.error("--short is for `tree`")
    module = importlib.import_module(f"bench.{arguments.name}")
    options = {} if arguments.samples is None else {"samples": arguments.samples}
    if arguments.short:
        options["sizes"] = module.SHORT
    found: Result = module.run(tell, **options)
    print(msgspec.json.encode(found).decode() if arguments.json else table(found))
    return 0 if found.held else 1


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run_all() -> int:
    """Each in a process of its own: what one leaves in memory is no figure of the next."""
    results = []
    failed = []
    for name in names():
        tell(f"--- {name}")
        done = subprocess.run(
            [sys.executable, "-m", "bench", name, "--json"], cwd=FOLDER.parent, stdout=subprocess.PIPE, check=False
        )
        lines = done.stdout.decode().splitlines()
        if done.returncode not in (0, 1) or not lines:
            failed.append(name)
            continue
        results.append(msgspec.json.decode(lines[-1], type=Result))
        print(table(results[-1]), flush=True)
    (FOLDER / "RESULTS.md").write_text("\n".join([HEAD, *map(table, results)]))
    for name in failed:
        tell(f"{name}: ended without a result")
    return 0 if not failed and all(one.held for one in results) else 1


def table(found: Result) -> str:
    """One benchmark as Markdown."""
    rows = [f"## {found.name}", "", found.machine, "", "| case | unit | ours | floor | ratio | goal | held |"]
    rows += ["|---|---|---|---|---|---|---|", *map(_row, found.cases), ""]
    return "\n".join(rows)


def _row(one: Case) -> str:
    held = "" if one.goal is None else "yes" if one.held else "**no**"
    cells = (one.case, one.unit, f"{one.ours:g}", _number(one.floor), _number(one.ratio), one.goal or "", held)
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


if __name__ == "__main__":
    sys.exit(main())
