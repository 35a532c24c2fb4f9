"""`albireo simulate`: the pair under faults, by seed, on this machine; nothing real is touched."""

import subprocess
import time
from pathlib import Path
from typing import Any

import click

import albireo
from albireo.cli.output import ExitCode, Failure, Output, printed, progress, say
from albireo.sim.machines.mutations import MUTATIONS
from albireo.sim.machines.proof import Proof, prove, replay, try_shortcuts


@click.command("simulate")
@click.option("--seeds", type=click.IntRange(min=1), default=200, show_default=True, help="How many worlds.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first one.")
@click.option(
    "--mutations/--no-mutations",
    default=True,
    show_default=True,
    help="Also let shortcuts be caught: machines with one rule left out.",
)
@click.option("--seed", "one", type=click.IntRange(min=0), help="Play this one world only.")
@click.option("--trace", is_flag=True, help="With --seed: print what happened in it, line by line.")
@printed
def command(seeds: int, first: int, mutations: bool, one: int | None, trace: bool) -> Output:
    """Play the pair in seeded worlds full of faults and check that nothing acknowledged is lost or doubled.

    The machines are the real ones; time, network, disks, PLCs and clients are simulated. A violation is printed with
    the seed and the commit that play it again: `albireo simulate --seed 17 --trace`.
    """
    if trace and one is None:
        raise Failure("--trace shows one world", "name it: albireo simulate --seed 17 --trace", ExitCode.USAGE)
    if one is not None:
        return _one_world(one, trace=trace)
    start = time.perf_counter()
    with progress(f"{seeds} worlds", seeds) as advance:
        proof = prove(range(first, first + seeds), lambda text: advance(1, text))
    seconds = time.perf_counter() - start
    caught: dict[str, int | None] = {}
    if mutations:
        with progress(f"{len(MUTATIONS)} shortcuts", len(MUTATIONS)) as advance:
            caught = try_shortcuts(lambda text: advance(1, text))
    return _told(proof, seconds, caught)


def _told(proof: Proof, seconds: float, caught: dict[str, int | None]) -> Output:
    answer = report(proof, seconds, caught)
    for broken in answer["violations"]:
        say(f"VIOLATION {broken['what']}")
        say(f"  commit {broken['commit']}; play it again: {broken['replay']}")
    for name in (name for name, seed in caught.items() if seed is None):
        say(f"NOT CAUGHT {name}")
    text = (
        f"{proof.seeds} worlds, {proof.events} events ({answer['events_per_s']} per second), "
        f"{proof.acked} batches acknowledged, {len(proof.broken)} violations; "
        f"{sum(seed is not None for seed in caught.values())} of {len(caught)} shortcuts caught"
    )
    return Output(answer, text, exit_code=ExitCode.GOOD if answer["held"] else ExitCode.FAILED)


def report(proof: Proof, seconds: float, caught: dict[str, int | None]) -> dict[str, Any]:
    """The object that `--json` prints."""
    commit = _commit()
    return {
        "seeds": proof.seeds,
        "events": proof.events,
        "events_per_s": round(proof.events / seconds),
        "acked": proof.acked,
        "violations": [
            {
                "seed": broken.seed,
                "commit": commit,
                "what": broken.what,
                "replay": f"albireo simulate --seed {broken.seed} --trace",
            }
            for broken in proof.broken
        ],
        "mutations": {name: seed is not None for name, seed in caught.items()},
        "held": not proof.broken and None not in caught.values(),
    }


def _one_world(seed: int, *, trace: bool) -> Output:
    lines, violation = replay(seed)
    for line in lines if trace else ():
        click.echo(line)  # With --json too: the object is the last line.
    if violation:
        say(f"VIOLATION {violation}")
        say(f"  commit {_commit()}")
    value = {"seed": seed, "commit": _commit(), "violation": violation, "held": not violation}
    if violation:
        return Output(value, exit_code=ExitCode.FAILED)
    return Output(value, f"seed {seed} holds")


def _commit() -> str:
    """Commit of the checkout that these machines come from; the version where there is none."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(albireo.__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return albireo.__version__
    return found.stdout.strip() if found.returncode == 0 else albireo.__version__
