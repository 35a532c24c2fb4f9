"""`albireo simulate`: the pair under faults, by seed, on this machine; nothing real is touched."""

import subprocess
import time
from pathlib import Path
from typing import Any, Final

import click

import albireo
from albireo.cli.output import ExitCode, Failure, Output, printed, progress, say
from albireo.cli.timespan import WholeNumber
from albireo.sim.engine.stage import seen_in
from albireo.sim.hexabus import proof as hexabus
from albireo.sim.hexabus.shortcuts import HEXABUS_SHORTCUTS
from albireo.sim.hexabus.world import HexWorld
from albireo.sim.machines import proof as pair
from albireo.sim.machines.mutations import MUTATIONS
from albireo.sim.machines.proof import Proof
from albireo.sim.topics import proof as topics
from albireo.sim.topics.shortcuts import TOPIC_SHORTCUTS
from albireo.sim.topics.world import TopicsWorld

PAIR: Final = "pair"
TOPICS: Final = "topics"
HEXABUS: Final = "hexabus"
_ACKED: Final = {PAIR: "batches acknowledged", TOPICS: "messages given", HEXABUS: "events acknowledged"}


@click.command("simulate")
@click.option(
    "--world",
    type=click.Choice([PAIR, TOPICS, HEXABUS]),
    default=PAIR,
    show_default=True,
    help="What is played: members, log and orders of a pair, its topics with programs, or a Hexabus network.",
)
@click.option("--seeds", type=WholeNumber(min=1), default=200, show_default=True, help="How many worlds.")
@click.option("--first", type=WholeNumber(min=0), default=0, show_default=True, help="Seed of the first one.")
@click.option(
    "--mutations/--no-mutations",
    default=True,
    show_default=True,
    help="Also let shortcuts be caught: machines with one rule left out.",
)
@click.option("--seed", "one", type=WholeNumber(min=0), help="Play this one world only.")
@click.option("--trace", is_flag=True, help="With --seed: print what happened in it, line by line.")
@printed
def command(world: str, seeds: int, first: int, mutations: bool, one: int | None, trace: bool) -> Output:
    """Play the pair, its topics, or Hexabus in seeded worlds full of faults: nothing acknowledged is lost or doubled.

    The machines are the real ones; time, network, disks, PLCs and clients are simulated. A violation is printed with
    the seed and the commit that play it again: `albireo simulate --seed 17 --trace`.
    """
    if trace and one is None:
        raise Failure("--trace shows one world", "name it: albireo simulate --seed 17 --trace", ExitCode.USAGE)
    if trace and world != PAIR:
        raise Failure(f"worlds of {world} note no trace", "leave --trace out", ExitCode.USAGE)
    if one is not None:
        return _one_world(world, one, trace=trace)
    of, shortcuts = {
        PAIR: (pair, len(MUTATIONS)),
        TOPICS: (topics, len(TOPIC_SHORTCUTS)),
        HEXABUS: (hexabus, len(HEXABUS_SHORTCUTS)),
    }[world]
    start = time.perf_counter()
    with progress(f"{seeds} worlds", seeds) as advance:
        proof = of.prove(range(first, first + seeds), lambda text: advance(1, text))
    seconds = time.perf_counter() - start
    caught: dict[str, int | None] = {}
    if mutations:
        with progress(f"{shortcuts} shortcuts", shortcuts) as advance:
            caught = of.try_shortcuts(lambda text: advance(1, text))
    return _told(world, proof, seconds, caught)


def _told(world: str, proof: Proof, seconds: float, caught: dict[str, int | None]) -> Output:
    answer = report(proof, seconds, caught, world)
    for broken in answer["violations"]:
        say(f"VIOLATION {broken['what']}")
        say(f"  commit {broken['commit']}; play it again: {broken['replay']}")
    for name in (name for name, seed in caught.items() if seed is None):
        say(f"NOT CAUGHT {name}")
    text = (
        f"{proof.seeds} worlds, {proof.events} events ({answer['events_per_s']} per second), "
        f"{proof.acked} {_ACKED[world]}, {len(proof.broken)} violations; "
        f"{sum(seed is not None for seed in caught.values())} of {len(caught)} shortcuts caught"
    )
    return Output(answer, text, exit_code=ExitCode.GOOD if answer["held"] else ExitCode.FAILED)


def report(proof: Proof, seconds: float, caught: dict[str, int | None], world: str = PAIR) -> dict[str, Any]:
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
                "replay": _replay(world, broken.seed),
            }
            for broken in proof.broken
        ],
        "mutations": {name: seed is not None for name, seed in caught.items()},
        "held": not proof.broken and None not in caught.values(),
    }


def _replay(world: str, seed: int) -> str:
    """The command that plays a seed again."""
    return (
        f"albireo simulate --seed {seed} --trace"
        if world == PAIR
        else f"albireo simulate --world {world} --seed {seed}"
    )


def _one_world(world: str, seed: int, *, trace: bool) -> Output:
    lines: list[str] = []
    if world == PAIR:
        lines, violation = pair.replay(seed)
    else:
        violation = seen_in((TopicsWorld(seed) if world == TOPICS else HexWorld(seed)).play)
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
