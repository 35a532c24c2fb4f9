"""A pair as people handle it: five real processes, and every command as docs/pair.md has it typed."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.long_form import some
from tests.parts.process_pair import ALBIREO, ENVIRONMENT, MEMBERS, VOTERS, Pair, until

pytestmark = [pytest.mark.drill, pytest.mark.slow]


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(tmp_path, has_keys=getattr(request, "param", False))
    try:
        made.start(*VOTERS, *MEMBERS)
        made.wait_for("joining", "joining")
        until(lambda: all(map(made.is_voting, VOTERS)), lambda: "the witnesses do not answer")
        yield made
    finally:
        made.end()


@pytest.fixture
def begun(pair: Pair) -> Pair:
    answer = pair.done("pair", "init", member="primary")
    assert answer["voters"] == dict.fromkeys(("witness:w1", "witness:w2", "witness:w3"), "took it")
    pair.wait_for("active", "ready")
    return pair


@pytest.mark.parametrize("pair", some([False, True], 2), ids=some(["loopback", "keys"], 2), indirect=True)
def test_from_its_begin_to_its_stop_in_order(pair: Pair) -> None:
    """Begun once, led by either, in maintenance, stopped level: what is done to a pair that nothing happens to."""
    check_begin(pair)
    check_lead(pair)
    check_stop(pair)


def check_begin(pair: Pair) -> None:
    """Once, and by the primary only."""
    code, answer = pair.run("pair", "init", member="backup")
    assert code == 1 and "only the primary" in answer["error"] and "root[primary]" in answer["remedy"]
    pair.kill("w2", "w3")
    code, answer = pair.run("pair", "init", member="primary")
    assert code == 1 and "witness:w3: silent" in answer["error"] and answer["remedy"]
    pair.start("w2", "w3")

    def init() -> bool:
        return pair.run("pair", "init", member="primary")[0] == 0

    until(init, lambda: "a second try counts the voter that has the record already")
    pair.wait_for("active", "ready")
    code, answer = pair.run("pair", "init", member="primary")
    assert code == 1 and "not new" in answer["error"] and "stores" in answer["remedy"]


def check_lead(begun: Pair) -> None:
    """Switchover and maintenance move it, and maintenance outlives a restart."""
    begun.pass_lead("backup", "switchover", by="primary")
    begun.pass_lead("primary", "switchover", by="primary")  # The passive one passes it on.

    begun.pass_lead("backup", "maintenance", by="primary")
    assert "maintenance --end" in begun.refused("in maintenance", "switchover", member="backup")["remedy"]
    begun.kill("primary")
    begun.start("primary")
    begun.wait_for("ready", "active")
    begun.kill("backup")
    status = begun.done("status", member="primary")
    assert status["pair"]["maintenance_since_ns"] > 0
    begun.start("backup")
    begun.wait_for("ready", "active")

    begun.done("maintenance", "--end", member="primary")
    begun.pass_lead("primary", "switchover", by="backup")


def check_stop(begun: Pair) -> None:
    """Both stop level, and either may lead afterwards."""
    answer = begun.done("stop", "--all", member="backup")
    assert begun.wait_for_end("primary", "backup") == [0, 0]
    stores = begun.done("stores", str(begun.data("primary")), str(begun.data("backup")))
    assert stores["kind"] == "equal" and stores["newest"] is None
    for one in stores["stores"]:
        assert one["header"]["is_clean"] and one["header"]["shutdown_id"] == answer["shutdown_id"]
        assert one["end"] == answer["position"] == [one["end"][0], one["committed_sequence"]]
    assert any("stopped together" in line for line in stores["words"])
    begun.start("primary", "backup")
    begun.wait_for("active", "ready")


def test_what_people_see_and_do_of_what_is_lost(begun: Pair) -> None:
    """Three losses of one pair, each made good before the next one."""
    check_status(begun)
    whole_again(begun, "primary", "w3")
    check_voter(begun)
    whole_again(begun, "w1")
    check_not_running(begun)


def whole_again(begun: Pair, *lost: str) -> None:
    """What was lost is there again, and the primary leads."""
    begun.start(*lost)
    if begun.acting() == "backup":
        begun.pass_lead("primary", "switchover", by="backup")


def check_status(begun: Pair) -> None:
    """It tells who sees whom, and since when the pair is at risk."""
    rows: dict[str, dict[str, Any]] = {}

    def is_whole() -> bool:
        """Both were asked and answered, and everybody was heard lately."""
        rows.update({row["member"]: row for row in begun.done("status", member="backup")["members"]})
        is_fresh = all(age is not None and age < 3_000 for row in rows.values() for age in row["sees"].values())
        return is_fresh and not any(row["is_heard"] for row in rows.values()) and len(rows["root[primary]"]["set"]) == 2

    until(is_whole, lambda: str(rows))
    primary, backup = rows["root[primary]"], rows["root[backup]"]
    assert {primary["role"], backup["role"]} == {"ACTIVE", "passive"}
    assert primary["set"] == ["root[primary]", "root[backup]"]
    assert [row["lag"] is None for row in (primary, backup)] == [row["role"] == "ACTIVE" for row in (primary, backup)]
    for row, other in ((primary, "root[backup]"), (backup, "root[primary]")):
        assert set(row["sees"]) == {other, "witness:w1", "witness:w2", "witness:w3"}
    assert primary["refused"]["voter_empty"] > 0, "before the first record"

    begun.lose("primary", "w3")

    def is_seen() -> bool:
        row = next(r for r in begun.done("status", member="backup")["members"] if r["member"] == "root[backup]")
        return bool(row["at_risk_since_ns"]) and row["sees"]["witness:w3"] > 3_000

    until(is_seen, lambda: str(begun.states()))
    shown = subprocess.run(
        [*ALBIREO, "status", "--data", str(begun.data("backup"))],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "AT RISK since 20" in shown.stdout and "root[backup] does not reach witness:w3" in shown.stdout
    since = begun.done("status", member="backup")["pair"]["at_risk_since_ns"]
    begun.kill("backup")
    begun.start("backup")
    begun.wait_for("silent", "solo")
    assert begun.done("status", member="backup")["pair"]["at_risk_since_ns"] == since, "a restart does not end the risk"


def check_voter(begun: Pair) -> None:
    """One that lost its store votes again."""
    begun.refused("has its store", "voter", "reset", "w2", member="primary")
    begun.kill("w2")
    shutil.rmtree(begun.data("w2") / "voters")
    begun.start("w2")

    def record() -> Any:
        seen = begun.done("status", member="primary")["pair"]["voters_seen"]["witness:w2"]
        return seen["reason"] == "empty" and seen["answered_ms"] < 1_000

    until(record, lambda: "w2 says that it is empty")
    assert begun.done("voter", "reset", "w2", member="backup")["voter"] == "witness:w2", "the passive one passes it on"
    begun.kill("w1")  # Now the majority hangs on the one that was re-admitted.
    begun.pass_lead("backup", "switchover", by="primary")


def check_not_running(begun: Pair) -> None:
    """A member that does not run, or is none, is told with a remedy."""
    begun.kill("backup")
    code, answer = begun.run("maintenance", member="backup")
    assert code == 69 and "albireo node run" in answer["remedy"]
    begun.wait_for("solo", "silent")
    for order in (["switchover"], ["maintenance"]):
        code, answer = begun.run(*order, member="primary")
        assert code == 1 and ("not in the set" in answer["error"] or "could not take over" in answer["error"])
        assert answer["remedy"]
    code, answer = begun.run("stop", "--all", member="primary")
    assert code == 69 and answer["remedy"]
    code, answer = begun.run("stores", str(begun.data("primary")), str(begun.data("w1")))
    assert code == 2 and answer["remedy"]
