"""First trust in two commands for each machine: `keys invite` there, `keys join` here."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.model.access import AccessRole, RoleGrant
from albireo.runtime import Keys

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
