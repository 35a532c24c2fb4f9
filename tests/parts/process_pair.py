"""A pair of real processes from a topology in a directory, and the commands that people give it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from albireo.cli import cli
from albireo.codec.message import Ask
from albireo.model.access import AccessRole
from albireo.runtime import Keys, NodeSilent, SyncLink
from albireo.runtime.link.keys import introduce
from tests.parts.port import free_ports
from tests.parts.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
LOOK_S = 2.0
VOTERS = ("w1", "w2", "w3")
MEMBERS = ("primary", "backup")
NOT_NOW = (
    "not in the set",
    "still start",
    "could not take over",
    "did not take over",
    "only the active member hands over",
    "was not level in time",
    "left the set meanwhile",
    "the lease ended meanwhile",
    "did not say that it writes no more",
    "was not made ready for it",
    "this log ends at",
    "not ready",
    "alone in the set",
    "had no answer",
    "silent",
    "the other member is in maintenance",
)
"""Of refusals whose remedy is to order again: on a busy machine a member may have left the set for a moment, or may not
have heard yet that the other one's maintenance is over."""


class Pair:
    """A topology in `home`, and the processes that were started from it."""

    def __init__(
        self,
        home: Path,
        *,
        has_keys: bool = False,
        address: str = "127.0.0.1",
        programs: Sequence[str] = (),
        adapters: str = "",
    ) -> None:
        """
        Args:
            has_keys: each process has keys of its own and trusts all others; otherwise it has none, on loopback.
            address: at which all of them are reached.
            programs: names of programs with keys in `keys/NAME` and the role `operate`.
            adapters: their part of the topology.
        """
        self.home = home
        if has_keys:
            self._make_keys(programs)
        self.doors: list[str] = []
        """Where programs reach the members."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = iter(free_ports(len(VOTERS) + 2 * len(MEMBERS)))
        lines = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"']
        lines += [f'[[witness]]\nname = "{name}"\nendpoint = "tcp://{address}:{next(ports)}"' for name in VOTERS]
        lines.append('[[node]]\nid = "root"\nvoters = ["witness:w1", "witness:w2", "witness:w3"]')
        for name in MEMBERS:
            client, peer = next(ports), next(ports)
            ends = f'client = "tcp://{address}:{client}", peer = ["tcp://{address}:{peer}"]'
            lines.append(f"{name} = {{ {ends} }}")
            self.doors.append(f"tcp://{address}:{client}")
        self.topology = home / "plant.toml"
        self.topology.write_text("\n".join(lines) + "\n" + adapters)

    def _make_keys(self, programs: Sequence[str]) -> None:
        names = {name: f"witness:{name}" if name in VOTERS else f"root[{name}]" for name in (*VOTERS, *MEMBERS)}
        made = [Keys.new(self.data(name) / "keys", place) for name, place in names.items()]
        made += [Keys.new(self.home / "keys" / name, name) for name in programs]
        introduce(*made, role=AccessRole.OPERATE)

    def data(self, name: str) -> Path:
        return self.home / name

    def start(self, *names: str) -> None:
        for name in names:
            what = ["witness", "--name", name] if name in VOTERS else ["node", "run", "--id", f"root[{name}]"]
            command = [*what, "--topology", str(self.home / "plant.toml"), "--data", str(self.data(name))]
            with (self.home / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [*ALBIREO, *command], env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
                )

    def kill(self, *names: str) -> None:
        """The whole process group at once, as a power cut would."""
        for name in names:
            process = self._processes.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def signal(self, number: int, *names: str) -> None:
        """To all processes of each."""
        for name in names:
            os.killpg(self._processes[name].pid, number)

    def wait_for_end(self, *names: str) -> list[int]:
        return [self._processes.pop(name).wait(PATIENCE_S) for name in names]

    def end(self) -> None:
        self.kill(*self._processes)

    def run(self, *arguments: str, member: str = "") -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of a command, which runs in this process: some are given over and over, and a process each
        time would take the processor from those that are waited for."""
        data = ["--data", str(self.data(member))] if member else []
        ran = CliRunner().invoke(cli, [*arguments, *data, "--json"], catch_exceptions=False)
        assert ran.stdout, ran.stderr
        return ran.exit_code, json.loads(ran.stdout.splitlines()[-1])

    def done(self, *arguments: str, member: str = "") -> dict[str, Any]:
        """The answer, once the pair is in a state for it."""
        answers: list[dict[str, Any]] = []

        def is_done() -> bool:
            code, answer = self.run(*arguments, member=member)
            answers.append(answer)
            assert code == 0 or any(one in answer["error"] for one in NOT_NOW), answer
            return code == 0

        until(is_done, lambda: f"{arguments}: {answers[-1]}")
        return answers[-1]

    def refused(self, because: str, *arguments: str, member: str) -> dict[str, Any]:
        """The refusal, once the pair is in a state in which this is the reason."""
        answers: list[dict[str, Any]] = []

        def is_refused() -> bool:
            code, answer = self.run(*arguments, member=member)
            answers.append(answer)
            assert code != 0, answer
            return code == 1 and because in answer["error"]

        until(is_refused, lambda: f"{arguments}: {answers[-1]}")
        return answers[-1]

    def pass_lead(self, to: str, *order: str, by: str) -> None:
        """Order until `to` leads: if both have changed places by themselves, it is ordered back first."""
        (other,) = set(MEMBERS) - {to}
        until(
            lambda: self.done(*order, member=by).get("active", f"root[{to}]") == f"root[{to}]",
            lambda: f"{self.states()}, wanted {to}",
        )
        self.wait_for(**{to: "active", other: "ready"})

    def lose(self, active: str, *others: str) -> None:
        """Kill the active member, and others with it, and let the other one take over. One that a busy machine has put
        out of the set right before may not: then they are started again, and it is done again."""
        (survivor,) = set(MEMBERS) - {active}

        def is_taken_over() -> bool:
            if self.acting() == survivor:  # They have changed places by themselves.
                self.pass_lead(active, "switchover", by=survivor)
            self.wait_for(**{active: "active", survivor: "ready"})
            return self._takes_over(survivor, active, *others)

        until(is_taken_over, lambda: f"{self.states()}: no takeover")

    def lose_acting(self) -> str:
        """The same with whichever member is active; the one that was killed."""
        lost: list[str] = []

        def is_taken_over() -> bool:
            lost[:] = [self.acting()]
            (survivor,) = set(MEMBERS) - set(lost)
            return self._takes_over(survivor, *lost)

        until(is_taken_over, lambda: f"{self.states()}: no takeover")
        return lost[0]

    def acting(self) -> str:
        """The member that leads, as soon as one does and the other is ready."""
        found: list[str] = []

        def is_whole() -> bool:
            states = self.states()
            found[:] = [name for name in MEMBERS if states.get(f"root[{name}]") == "active"]
            return sorted(states.values()) == ["active", "ready"]

        until(is_whole, lambda: f"{self.states()}: nobody leads")
        return found[0]

    def _takes_over(self, survivor: str, active: str, *others: str) -> bool:
        """Whether it takes over once these are killed; if not, they are started again."""
        self.kill(active, *others)
        taken, not_in_set = ({f"root[{active}]": "silent", f"root[{survivor}]": state} for state in ("solo", "joining"))
        seen: list[dict[str, str]] = []

        def has_ended() -> bool:
            seen.append(self.states())
            return seen[-1] in (taken, not_in_set)

        until(has_ended, lambda: str(seen[-1]))
        if seen[-1] == taken:
            return True
        self.start(active, *others)
        return False

    def is_voting(self, voter: str) -> bool:
        """Its process answers."""
        with contextlib.suppress(NodeSilent), SyncLink(self.data(voter), "witness") as link:
            link.send(Ask(request_id=1, what="status"))
            return link.receive(LOOK_S) is not None
        return False

    def states(self) -> dict[str, str]:
        """Of both members, as one of them says."""
        for member in MEMBERS:
            code, answer = self.run("status", member=member)
            if code == 0:
                return {row["member"]: row["state"] for row in answer["members"]}
        return {}

    def wait_for(self, primary: str, backup: str) -> None:
        """Each that is not silent answers too: of one that was killed a moment ago the other may still say what was."""
        wanted = {"root[primary]": primary, "root[backup]": backup}
        there = [name for name, state in zip(MEMBERS, (primary, backup), strict=True) if state != "silent"]

        def has_come() -> bool:
            return self.states() == wanted and all(self.run("status", member=name)[0] == 0 for name in there)

        until(has_come, lambda: f"{self.states()}, wanted {wanted}")


ALBIREO = [sys.executable, "-c", "from albireo.cli import main; main()"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


def until(condition: Callable[[], object], said: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)
