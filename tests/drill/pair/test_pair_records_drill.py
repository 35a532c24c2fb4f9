"""What was ordered of a pair and what may be lost, as people see it: `promote`, `events`, `status`, `pair seen`."""

import getpass
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.process_pair import ALBIREO, ENVIRONMENT, MEMBERS, VOTERS, Pair, until

pytestmark = [pytest.mark.drill, pytest.mark.slow]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        made.start(*VOTERS, *MEMBERS)
        made.wait_for("joining", "joining")
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "the voters answer")
        made.wait_for("active", "ready")
        yield made
    finally:
        made.end()


def orders(pair: Pair, member: str) -> list[tuple[str, str]]:
    """(what was ordered, of which member), as `albireo events` lists it; nothing while it starts."""
    code, answer = pair.run("events", "--kind", "audit", member=member)
    events = [] if code else answer["events"]
    assert {one["user"] for one in events} <= {getpass.getuser()}
    return [(one["action"], one["subject"]) for one in events]


def are_once_in_order(found: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    """Whatever else was ordered meanwhile."""
    return [one for one in found if one in wanted] == wanted


def cases(pair: Pair, member: str) -> dict[str, set[str]]:
    """What it shows of itself and of the other one; nothing while it starts."""
    code, answer = pair.run("status", member=member)
    if code:
        return {"own": set(), "other": set()}
    told = answer["pair"]
    return {"own": set(told["cases"]) - {"at_risk"}, "other": set(told["other"]["cases"])}


def check_chain(begun: Pair) -> None:
    """Both members have one chain: its exports are equal to the head."""
    files = [str(begun.home / f"{member}.audit") for member in MEMBERS]
    for member, file in zip(MEMBERS, files, strict=True):
        said: list[object] = []

        def is_exported(member: str = member, file: str = file, said: list[object] = said) -> bool:
            code, answer = begun.run("audit", "export", file, member=member)
            said.append(answer)
            return code == 0 and answer["count"] >= 4

        until(is_exported, lambda said=said: str(said[-1]))  # type: ignore[misc]  # A history is a moment behind.
    code, answer = begun.run("audit", "verify", *files)
    assert code == 0 and answer["equal"] >= 4 and "part" not in answer, answer


def test_a_forced_lead_says_what_it_means_is_on_record_and_a_case_until_somebody_has_looked(begun: Pair) -> None:
    begun.done("maintenance", member="backup")
    begun.done("maintenance", "--end", member="backup")
    until(
        lambda: ("maintenance_end_done", "root[backup]") in orders(begun, "primary"),
        lambda: str(orders(begun, "primary")),
    )
    check_chain(begun)
    check_refusals(begun)
    begun.kill(*VOTERS, "primary")
    until(lambda: not begun.done("status", member="backup")["pair"]["other"]["is_present"], lambda: "silence")
    assert begun.done("status", member="backup")["pair"]["state"] != "solo", "without voters nobody takes over"
    told = subprocess.run(
        [*ALBIREO, "promote", "--force", "--yes", "--data", str(begun.data("backup"))],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "May be lost" in told.stderr and "leads by force" in told.stdout
    begun.wait_for("silent", "solo")
    actions = ("maintenance", "maintenance_done", "maintenance_end", "maintenance_end_done", "promote_force_done")
    wanted = [(action, "root[backup]") for action in actions]
    until(lambda: are_once_in_order(orders(begun, "backup"), wanted), lambda: str(orders(begun, "backup")))
    of_leads = [action for action, _ in orders(begun, "backup") if action.startswith("promote_force")]
    assert of_leads[-2:] == ["promote_force", "promote_force_done"]
    assert of_leads[:-2] == ["promote_force", "promote_force_refused"] * (len(of_leads) // 2 - 1) != []

    begun.start("primary", *VOTERS)
    begun.wait_for("ready", "active")
    row = next(r for r in begun.done("status", member="backup")["members"] if r["member"] == "root[backup]")
    assert row["voters"]["witness:w1"]["record"]["is_forced"] and "history_at_risk" in row["cases"]

    begun.kill(*VOTERS, *MEMBERS)
    begun.start(*VOTERS, *MEMBERS)
    until(lambda: "history_at_risk" in cases(begun, "backup")["own"], lambda: "a restart forgets it")
    until(lambda: sorted(begun.states().values()) == ["active", "ready"], lambda: str(begun.states()))
    until(lambda: "history_at_risk" in cases(begun, "primary")["other"], lambda: str(cases(begun, "primary")))
    ended = begun.done("pair", "seen", member="primary")["ended"]
    assert "history_at_risk" in ended["root[backup]"]
    until(lambda: not any(cases(begun, "primary").values()), lambda: str(cases(begun, "primary")))
    until(lambda: ("pair_seen_done", "root[backup]") in orders(begun, "backup"), lambda: str(orders(begun, "backup")))


def check_refusals(begun: Pair) -> None:
    """Nobody leads by force unasked, unconfirmed, or while the other one is seen."""
    code, answer = begun.run("promote", member="backup")
    assert code == 2 and "--force" in answer["remedy"]
    code, answer = begun.run("promote", "--force", member="backup")
    assert code == 2 and answer["error"] == "nothing was done", "nobody is there to say yes"
    assert begun.refused("signs of life", "promote", "--force", "--yes", member="backup")["remedy"]
