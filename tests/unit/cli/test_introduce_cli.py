"""First trust in two commands for each machine: `keys invite` there, `keys join` here."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.model.access import AccessRole, RoleGrant
from albireo.runtime import Keys
from albireo.runtime.link.invites import fingerprint, read_invites

NAMES = ("root[primary]", "root[backup]", "witness:w1", "operator@desk")


class Machines:
    """Machines of a site, each with a key directory, and the file that goes round."""

    def __init__(self, directory: Path) -> None:
        self.at = {name: directory / str(number) for number, name in enumerate(NAMES)}
        self.file = directory / "site.invites"

    def run(self, name: str, *arguments: str) -> Result:
        return CliRunner().invoke(cli, ["keys", *arguments, "--keys", str(self.at[name])])

    def gather(self) -> None:
        role = {"operator@desk": ("--role", "operate", "--node", "root")}
        results = [self.run(name, "invite", name, *role.get(name, ())) for name in NAMES]
        self.file.write_text("# the tunnel\n" + "".join(one.stdout for one in results))

    def fingerprint(self, name: str) -> str:
        """As a person reads it, who has not said yes yet."""
        told = self.run(name, "join", str(self.file)).stderr
        return next(line for line in told.splitlines() if line.startswith("Fingerprint: ")).partition(" ")[2]

    def keys(self, name: str) -> Keys:
        return Keys.load(self.at[name])


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    made = Machines(tmp_path)
    made.gather()
    return made


def test_two_commands_for_each_machine_make_the_trust_that_the_site_needs(machines: Machines) -> None:
    digits = machines.fingerprint("root[primary]")
    assert all(machines.fingerprint(name) == digits for name in NAMES)
    for name in NAMES:
        result = machines.run(name, "join", str(machines.file), "--fingerprint", digits, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["fingerprint"] == digits
    members = set(NAMES[:2])
    trusted = {name: {one.name for one in machines.keys(name).trust_list.trusted} for name in NAMES}
    assert machines.keys("root[primary]").roles["operator@desk"] == RoleGrant(AccessRole.OPERATE, "root")
    machines.keys("root[primary]").trust(
        "operator@desk", machines.keys("operator@desk").public, RoleGrant(AccessRole.VIEW)
    )
    again = machines.run("root[primary]", "join", str(machines.file), "--fingerprint", digits, "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["new"] == []
    assert machines.keys("root[primary]").roles["operator@desk"].role is AccessRole.VIEW, "changed since, and left so"
    assert trusted == {
        "root[primary]": set(NAMES) - {"root[primary]"},
        "root[backup]": set(NAMES) - {"root[backup]"},
        "witness:w1": members,
        "operator@desk": members,
    }
    assert machines.run("root[primary]", "join", str(machines.file), "--fingerprint", digits).exit_code == 0, (
        "once more"
    )


TREE = {
    "root[primary]": {
        "root[backup]",
        "root/north",
        "root/north/hall",
        "root/south[primary]",
        "root/south[backup]",
        "witness:w1",
        "operator@desk",
    },
    "root/north": {"root[primary]", "root[backup]", "root/north/hall", "operator@desk"},
    "root/north/hall": {"root[primary]", "root[backup]", "root/north", "operator@desk"},
    "root/south[primary]": {"root[primary]", "root[backup]", "root/south[backup]", "witness:w1", "operator@desk"},
    "witness:w1": {"root[primary]", "root[backup]", "root/south[primary]", "root/south[backup]"},
    "operator@desk": {
        "root[primary]",
        "root[backup]",
        "root/north",
        "root/north/hall",
        "root/south[primary]",
        "root/south[backup]",
    },
}
"""Whom some of the machines of a tree with two pairs have to trust."""


def joined(directory: Path, names: Iterable[str]) -> dict[str, set[str]]:
    """Whom each machine trusts once all have given their lines and joined."""
    at = {name: directory / str(number) for number, name in enumerate(names)}
    where = {name: ("--keys", str(one)) if "@" in name else ("--data", str(one)) for name, one in at.items()}
    lines = [CliRunner().invoke(cli, ["keys", "invite", name, *where[name]]).stdout for name in at]
    file = directory / "site.invites"
    file.write_text("".join(lines))
    digits = fingerprint(read_invites(file.read_text()))
    for name in at:
        result = CliRunner().invoke(cli, ["keys", "join", str(file), "--fingerprint", digits, *where[name]])
        assert result.exit_code == 0, result.output
    keys = {name: Keys.load(one if "@" in name else one / "keys") for name, one in at.items()}
    return {name: {one.name for one in keys[name].trust_list.trusted} for name in at}


def test_in_a_tree_a_node_trusts_its_neighbours_and_those_below_that_may_vote_for_it(tmp_path: Path) -> None:
    found = joined(tmp_path, [*TREE, "root[backup]", "root/south[backup]"])
    assert {name: found[name] for name in TREE} == TREE


def test_lone_nodes_trust_their_neighbours_only(tmp_path: Path) -> None:
    assert joined(tmp_path, ["top", "top/north", "top/south", "top/north/hall", "anna@desk"]) == {
        "top": {"top/north", "top/south", "anna@desk"},
        "top/north": {"top", "top/north/hall", "anna@desk"},
        "top/south": {"top", "anna@desk"},
        "top/north/hall": {"top/north", "anna@desk"},
        "anna@desk": {"top", "top/north", "top/south", "top/north/hall"},
    }


def test_who_speaks_with_nobody_of_the_lines_is_told_so(machines: Machines) -> None:
    others = [line for line in machines.file.read_text().splitlines() if "root[" not in line]
    machines.file.write_text("\n".join(others))
    result = machines.run("operator@desk", "join", str(machines.file))
    assert result.exit_code == 1 and "operator@desk speaks with nobody of witness:w1" in result.stderr


def test_nobody_is_trusted_before_a_person_has_compared(machines: Machines) -> None:
    result = machines.run("root[primary]", "join", str(machines.file))
    assert result.exit_code == 2 and "--fingerprint" in result.stderr
    result = machines.run("root[primary]", "join", str(machines.file), "--fingerprint", "0000")
    assert result.exit_code == 78 and "trust nobody before" in result.stderr
    assert machines.keys("root[primary]").trusted == frozenset()


@pytest.mark.parametrize("change", ["key", "role"])
def test_a_line_that_was_changed_on_its_way_changes_the_fingerprint(machines: Machines, change: str) -> None:
    before = machines.fingerprint("root[primary]")
    text = machines.file.read_text()
    own = machines.keys("operator@desk").public
    machines.file.write_text(text.replace(own, "ab" * 32) if change == "key" else text.replace(" operate ", " admin "))
    assert machines.fingerprint("root[primary]") != before
    if change == "key":
        result = machines.run("operator@desk", "join", str(machines.file))
        assert result.exit_code == 78 and "another key than it has" in result.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello\n", "is no invite"),
        (f"albireo-invite-1 x {'1' * 64} boss\n", "which does not exist"),
        (f"albireo-invite-1 anna@desk {'1' * 64} node\n", "can be no node"),
        (f"albireo-invite-1 root[primary] {'1' * 64} node\n", "can be no node"),
        (f"albireo-invite-1 root {'1' * 64} node root/north\n", "can be no node"),
        (f"albireo-invite-1 root[backup] {'1' * 64} admin\n", "can have no role"),
        (f"albireo-invite-1 x {'1' * 64}\nalbireo-invite-1 x {'2' * 64}\n", "two different lines"),
        (f"albireo-invite-1 x {'1' * 64}\nalbireo-invite-1 y {'1' * 64}\n", "one key under two names"),
        (f"albireo-invite-1 x {'1' * 64}\nalbireo-invite-1 y {'2' * 64}\n", "no line of root[primary]"),
        ("", "0 invites"),
    ],
)
def test_what_is_no_list_of_invites_is_refused(machines: Machines, text: str, reason: str) -> None:
    machines.file.write_text(text)
    result = machines.run("root[primary]", "join", str(machines.file))
    assert result.exit_code != 0 and reason in result.stderr, result.stderr


def test_another_key_of_a_known_name_is_no_second_one(machines: Machines) -> None:
    """A second key is for rotation, which a person says."""
    machines.run("root[primary]", "trust", "witness:w1", "cd" * 32)
    result = machines.run("root[primary]", "join", str(machines.file))
    assert result.exit_code == 78 and "witness:w1 is trusted with another key already" in result.stderr


def test_an_invite_keeps_keys_that_are_there(machines: Machines) -> None:
    public = machines.keys("witness:w1").public
    assert public in machines.run("witness:w1", "invite", "witness:w1").stdout
    assert machines.run("witness:w1", "invite", "witness:w2").exit_code == 1
    assert machines.run("witness:w1", "invite", "witness:w1", "--role", "admin").exit_code == 78
