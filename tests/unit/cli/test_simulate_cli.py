"""`albireo simulate`: one JSON line, a seed to replay, an exit code that says whether everything held."""

import json

from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.output import ExitCode
from albireo.cli.proof.simulate import report
from albireo.sim.machines.mutations import MUTATIONS
from albireo.sim.machines.proof import Broken, Proof, prove, replay


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["simulate", *words])
    return result.exit_code, result.stdout, result.stderr


def test_last_line_counts_what_was_played() -> None:
    code, out, _ = run("--seeds", "3", "--first", "40", "--no-mutations", "--json")
    told = json.loads(out.splitlines()[-1])
    assert code == ExitCode.GOOD
    assert list(told) == ["seeds", "events", "events_per_s", "acked", "violations", "mutations", "held"]
    assert told["seeds"] == 3
    assert told["events"] > 1000
    assert told["events_per_s"] > 0
    assert told["acked"] > 100
    assert (told["violations"], told["mutations"], told["held"]) == ([], {}, True)


def test_same_seeds_same_figures() -> None:
    told = [json.loads(run("--seeds", "2", "--no-mutations", "--json")[1]) for _ in range(2)]
    assert told[0] | {"events_per_s": 0} == told[1] | {"events_per_s": 0}


def test_one_seed_is_played_with_its_trace() -> None:
    code, out, _ = run("--seed", "7", "--trace")
    assert code == ExitCode.GOOD
    assert "starts, run" in out
    assert "granted" in out
    assert out.splitlines()[-1] == "seed 7 holds"


def test_trace_of_many_worlds_is_refused() -> None:
    code, _, err = run("--trace")
    assert code == ExitCode.USAGE
    assert "--seed 17 --trace" in err


def test_worlds_of_topics_are_played_by_name() -> None:
    code, out, _ = run("--world", "topics", "--seeds", "2", "--no-mutations", "--json")
    told = json.loads(out.splitlines()[-1])
    assert (code, told["seeds"], told["violations"], told["held"]) == (ExitCode.GOOD, 2, [], True)
    assert told["acked"] > 10
    assert run("--world", "topics", "--seed", "3")[:2] == (ExitCode.GOOD, "seed 3 holds\n")
    assert run("--world", "topics", "--seed", "3", "--trace")[0] == ExitCode.USAGE
    told = report(Proof(seeds=1, broken=[Broken(17, "a message twice")]), 1.0, {}, "topics")
    assert told["violations"][0]["replay"] == "albireo simulate --world topics --seed 17"


def test_violation_names_seed_and_commit_and_fails() -> None:
    told = report(Proof(seeds=1, broken=[Broken(17, "both act (seed 17, at 1.0 s)")]), 1.0, {})
    assert told["held"] is False
    assert told["violations"][0]["seed"] == 17
    assert told["violations"][0]["replay"] == "albireo simulate --seed 17 --trace"
    assert len(told["violations"][0]["commit"]) in (5, 40)  # A version, or a commit.


def test_machine_that_breaks_a_rule_is_told_of_with_the_seed_that_plays_it_again() -> None:
    """The member acknowledges before the other has it; the same seed shows the same again."""
    broken, _ = MUTATIONS["acknowledge before the passive member has it"]
    done: list[str] = []
    proof = prove(range(4), done.append, broken)
    assert (proof.seeds, len(done)) == (4, 4)
    first = proof.broken[0]
    trace, what = replay(first.seed, broken)
    assert what == first.what
    assert "on its disk" in what
    assert trace


def test_shortcut_that_is_not_caught_fails() -> None:
    told = report(Proof(seeds=1), 1.0, {"acknowledge before the sync": 3, "zero block = initial": None})
    assert told["mutations"] == {"acknowledge before the sync": True, "zero block = initial": False}
    assert told["held"] is False
