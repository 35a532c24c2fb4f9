"""Keys on disk and by command: who may read them, who is trusted, how they change."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from zmq.utils import z85

from albireo.cli import cli
from albireo.model.access import AccessRole, RoleGrant
from albireo.runtime import Keys, KeysRefused
from albireo.runtime.link.key_files import (
    KNOWN_SECRETS,
    LOCK_FILE,
    OWN_FILE,
    TRUSTED_FILE,
    new_pair,
    public_key,
)
from albireo.runtime.link.keys import introduce
from tests.parts.transport import CLIENT, SERVER, key_pair

OTHER = "witness:w1"
DESK = "rosa@desk"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_keys_are_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keys = Keys.new(tmp_path / "deep" / "keys", SERVER)
    finally:
        os.umask(before)
    assert mode_of(keys.directory) == 0o700
    assert {path.name: mode_of(path) for path in keys.directory.iterdir()} == {
        OWN_FILE: 0o600,
        TRUSTED_FILE: 0o600,
        LOCK_FILE: 0o600,
    }
    assert Keys.load(keys.directory).public == keys.public
    assert keys.trusted == frozenset()


def test_files_that_are_replaced_stay_ours_alone(tmp_path: Path) -> None:
    """Even if a write that was cut short left its beginning behind, with another mode."""
    keys, _ = key_pair(tmp_path)
    for name in (OWN_FILE, TRUSTED_FILE):
        aside = keys.directory / f"{name}.aside"
        aside.touch(mode=0o666)
        aside.chmod(0o666)
    keys.begin_rotation()
    keys.revoke(CLIENT)
    assert {mode_of(path) for path in keys.directory.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o750, 0o755, 0o777, 0o702])
def test_a_directory_that_others_may_reach_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    keys, _ = key_pair(tmp_path)
    keys.directory.chmod(mode)
    with pytest.raises(KeysRefused, match=f"others may reach it .*chmod 700 {keys.directory}"):
        Keys.load(keys.directory)
    with pytest.raises(KeysRefused, match="others may reach it"):
        keys.trust(OTHER, new_pair().public)
    assert mode_of(keys.directory) == mode, "it is not put right in silence"


@pytest.mark.parametrize("name", [OWN_FILE, TRUSTED_FILE])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o620])
def test_a_file_that_others_may_reach_is_refused_with_the_remedy(tmp_path: Path, name: str, mode: int) -> None:
    keys, _ = key_pair(tmp_path)
    (keys.directory / name).chmod(mode)
    with pytest.raises(KeysRefused, match=f"others may reach it .*chmod 600 .*{name}"):
        Keys.load(keys.directory)


def test_somebody_elses_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, _ = key_pair(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(KeysRefused, match=r"belongs to user .* run as its owner"):
        Keys.load(keys.directory)


def test_a_link_in_place_of_a_file_or_directory_is_refused(tmp_path: Path) -> None:
    keys, _ = key_pair(tmp_path)
    (tmp_path / "link").symlink_to(keys.directory)
    with pytest.raises(KeysRefused, match="is not a directory"):
        Keys.load(tmp_path / "link")
    (keys.directory / OWN_FILE).rename(tmp_path / "moved")
    (keys.directory / OWN_FILE).symlink_to(tmp_path / "moved")
    with pytest.raises(KeysRefused, match="plain file"):
        Keys.load(keys.directory)


@pytest.mark.parametrize("name", [OWN_FILE, TRUSTED_FILE])
def test_a_missing_file_is_no_empty_one(tmp_path: Path, name: str) -> None:
    """Without its list of revoked keys a directory is not to be used."""
    keys, _ = key_pair(tmp_path)
    (keys.directory / name).unlink()
    with pytest.raises(KeysRefused, match="is not there"):
        Keys.load(keys.directory)


def test_no_directory_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(KeysRefused, match="there are no keys; make them: albireo keys new NAME --keys"):
        Keys.load(tmp_path / "nothing")


def other_secret(text: str) -> str:
    own = json.loads(text)
    own["pair"]["secret"] = new_pair().secret
    return json.dumps(own)


def example_secret(text: str) -> str:
    own = json.loads(text)
    own["pair"]["secret"] = sorted(KNOWN_SECRETS)[0]
    return json.dumps(own)


DAMAGE: list[tuple[str, Callable[[str], str], str]] = [
    (OWN_FILE, lambda text: text[: len(text) // 2], "is damaged"),
    (OWN_FILE, lambda _: "", "is damaged"),
    (OWN_FILE, lambda text: text.replace('"pair"', '"peir"'), "is damaged"),
    (OWN_FILE, lambda text: text.replace('"name": "', '"name": " '), "is damaged"),
    (OWN_FILE, other_secret, "the public key is not that of the secret"),
    (OWN_FILE, example_secret, "example key that everybody knows"),
    (TRUSTED_FILE, lambda text: text.replace('"revoked"', '"unknown"'), "is damaged"),
    (TRUSTED_FILE, lambda text: text + "\xff", "is damaged"),
]


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGE)
def test_damage_is_refused_and_its_message_quotes_no_secret(
    tmp_path: Path, name: str, damage: Callable[[str], str], reason: str
) -> None:
    keys, _ = key_pair(tmp_path)
    secret = keys.pair.secret
    path = keys.directory / name
    path.write_bytes(damage(path.read_text()).encode("latin-1"))
    with pytest.raises(KeysRefused, match=reason) as refused:
        Keys.load(keys.directory)
    assert secret not in str(refused.value) and refused.value.__cause__ is None
    assert refused.value.remedy


def test_a_list_edited_by_hand_is_held_to_the_rules(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    [line] = json.loads((keys.directory / TRUSTED_FILE).read_text())["trusted"]

    def listing(*lines: dict[str, object]) -> None:
        (keys.directory / TRUSTED_FILE).write_text(json.dumps({"trusted": lines, "revoked": []}))

    listing(line, line | {"name": OTHER})
    with pytest.raises(KeysRefused, match=f"lists {client.public} twice"):
        Keys.load(keys.directory)
    listing(*(line | {"public": new_pair().public} for _ in range(3)))
    with pytest.raises(KeysRefused, match="more than 2 keys"):
        Keys.load(keys.directory)


def test_a_key_that_is_both_trusted_and_revoked_is_revoked(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    path = keys.directory / TRUSTED_FILE
    listed = json.loads(path.read_text())
    path.write_text(json.dumps({"trusted": listed["trusted"], "revoked": listed["trusted"]}))
    loaded = Keys.load(keys.directory)
    assert (loaded.name_of(client.public), loaded.keys_of(CLIENT), loaded.trusted) == ("", (), frozenset())


def test_no_text_of_keys_shows_a_secret(tmp_path: Path) -> None:
    keys, _ = key_pair(tmp_path)
    keys.begin_rotation()
    assert keys.own.next is not None
    texts = f"{keys} {keys!r} {keys.own!r} {keys.pair!r} {keys.pair} {keys.own}"
    assert keys.pair.secret not in texts and keys.own.next.secret not in texts
    assert keys.public in texts


def test_every_pair_is_another_one(tmp_path: Path) -> None:
    assert len({new_pair().secret for _ in range(20)}) == 20


def test_trust_and_revocation(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    assert (keys.name_of(client.public), keys.keys_of(CLIENT)) == (CLIENT, (client.public,))
    keys.trust(CLIENT, client.public)  # Once more is fine.
    assert keys.keys_of(CLIENT) == (client.public,)
    assert keys.revoke(CLIENT) == (client.public,)
    assert (keys.name_of(client.public), keys.keys_of(CLIENT)) == ("", ())
    with pytest.raises(KeysRefused, match="was revoked"):
        keys.trust(CLIENT, client.public)
    with pytest.raises(KeysRefused, match="was revoked"):
        keys.trust("another", client.public)
    with pytest.raises(KeysRefused, match="trusts no such key"):
        keys.revoke(CLIENT)
    fresh = new_pair().public
    keys.trust(CLIENT, fresh)
    assert keys.name_of(fresh) == CLIENT


def test_what_must_not_be_trusted(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    with pytest.raises(KeysRefused, match="our own key"):
        keys.trust(OTHER, keys.public)
    with pytest.raises(KeysRefused, match="our own key"):
        keys.trust(OTHER, keys.begin_rotation())
    with pytest.raises(KeysRefused, match="trusted as 'root\\[backup\\]'"):
        keys.trust(OTHER, client.public)
    keys.trust(CLIENT, new_pair().public)
    with pytest.raises(KeysRefused, match=f"has 2 keys already.*--key {client.public}"):
        keys.trust(CLIENT, new_pair().public)
    with pytest.raises(KeysRefused, match="no name"):
        keys.trust("two words", new_pair().public)
    assert len(keys.trusted) == 2


def test_the_newest_key_of_a_name_comes_first_even_if_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, client = key_pair(tmp_path)
    monkeypatch.setattr("albireo.runtime.link.keys.wall_ns", lambda: 1)
    following = new_pair().public
    keys.trust(CLIENT, following)
    assert keys.keys_of(CLIENT) == (following, client.public)
    assert keys.revoke(CLIENT, client.public) == (client.public,)
    assert keys.keys_of(CLIENT) == (following,)


def test_a_rotation_in_its_steps(tmp_path: Path) -> None:
    keys = Keys.new(tmp_path, SERVER)
    old = keys.public
    for step in (keys.finish_rotation, keys.cancel_rotation):
        with pytest.raises(KeysRefused, match="no rotation is under way"):
            step()
    dropped = keys.begin_rotation()
    assert keys.public == old, "the next one is not in use yet"
    with pytest.raises(KeysRefused, match=f"under way: the next key is {dropped}"):
        keys.begin_rotation()
    assert keys.cancel_rotation() == dropped
    following = keys.begin_rotation()
    assert following != dropped
    assert keys.finish_rotation() == old
    assert (keys.public, keys.own.next) == (following, None)
    assert old not in (tmp_path / OWN_FILE).read_text(), "the old secret is forgotten"


def test_what_another_process_changed_is_seen_at_refresh(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    other = Keys.load(keys.directory)
    assert not keys.refresh()
    other.revoke(CLIENT)
    assert keys.name_of(client.public) == CLIENT
    assert keys.refresh()
    assert keys.name_of(client.public) == ""
    assert not keys.refresh()


def test_two_writers_lose_nothing_of_each_other(tmp_path: Path) -> None:
    one = Keys.new(tmp_path, SERVER)
    two = Keys.load(tmp_path)
    first, second = new_pair().public, new_pair().public
    one.trust("first", first)
    two.trust("second", second)
    one.begin_rotation()
    assert Keys.load(tmp_path).trusted == {first, second}
    two.finish_rotation()
    assert one.refresh() and one.public == two.public


def test_what_cannot_be_read_any_more_leaves_what_was_read(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    keys.directory.chmod(0o755)
    for _ in range(2):
        with pytest.raises(KeysRefused, match="others may reach it"):
            keys.refresh()
    assert keys.name_of(client.public) == CLIENT
    keys.directory.chmod(0o700)
    assert keys.refresh()


def test_public_keys_are_read_as_digits_and_as_z85() -> None:
    key = bytes(range(32))
    assert public_key(key.hex().upper()) == key.hex() == public_key(z85.encode(key).decode())
    for text in ("", "00", "g" * 64, "0" * 63, "0" * 65, "é" * 40, '"' * 40, "0" * 40 + " "):
        with pytest.raises(KeysRefused, match="is no public key"):
            public_key(text)


def test_all_are_introduced_to_each_other(tmp_path: Path) -> None:
    everybody = [Keys.new(tmp_path / name, name) for name in "abc"]
    introduce(*everybody)
    assert [sorted(map(keys.name_of, keys.trusted)) for keys in everybody] == [["b", "c"], ["a", "c"], ["a", "b"]]


ENGINEER = RoleGrant(AccessRole.ENGINEER, "root/north")


def test_a_program_views_until_it_is_given_a_role_and_both_its_keys_have_it(tmp_path: Path) -> None:
    keys = Keys.new(tmp_path / "k", SERVER)
    first, following = new_pair().public, new_pair().public
    keys.trust(DESK, first)
    assert keys.roles == {DESK: RoleGrant(AccessRole.VIEW)}
    keys.trust(DESK, first, ENGINEER)
    keys.trust(DESK, following)
    assert keys.roles == {DESK: ENGINEER} == Keys.load(keys.directory).roles
    keys.revoke(DESK, first)
    assert keys.roles == {DESK: ENGINEER}
    keys.trust(DESK, following, RoleGrant(AccessRole.VIEW))
    assert keys.roles == {DESK: RoleGrant(AccessRole.VIEW)}


def test_a_name_that_is_trusted_anew_does_not_find_its_old_role(tmp_path: Path) -> None:
    keys = Keys.new(tmp_path / "k", SERVER)
    keys.trust(DESK, new_pair().public, ENGINEER)
    keys.revoke(DESK)
    assert keys.roles == {}
    assert Keys.load(keys.directory).roles == {} and keys.trust_list.roles == ()
    keys.trust(DESK, new_pair().public)
    assert keys.roles == {DESK: RoleGrant(AccessRole.VIEW)}


@pytest.mark.parametrize("name", [CLIENT, OTHER])
def test_members_and_witnesses_have_no_role(tmp_path: Path, name: str) -> None:
    keys = Keys.new(tmp_path / "k", SERVER)
    with pytest.raises(KeysRefused, match="which has no role; leave --role out"):
        keys.trust(name, new_pair().public, ENGINEER)
    assert keys.trusted == frozenset()
    keys.trust(name, new_pair().public)
    assert keys.roles == {}


def test_a_changed_role_is_seen_and_a_damaged_file_changes_nothing(tmp_path: Path) -> None:
    keys, other = Keys.new(tmp_path / "k", SERVER), new_pair().public
    keys.trust(DESK, other, ENGINEER)
    running = Keys.load(keys.directory)
    before = running.roles
    assert not running.refresh() and running.roles is before
    keys.trust(DESK, other, RoleGrant(AccessRole.ADMIN))
    assert running.refresh() and running.roles == {DESK: RoleGrant(AccessRole.ADMIN)}
    (keys.directory / TRUSTED_FILE).write_text("{")
    with pytest.raises(KeysRefused, match="is damaged"):
        running.refresh()
    assert running.roles == {DESK: RoleGrant(AccessRole.ADMIN)}


def test_a_role_that_only_a_later_version_knows_is_view(tmp_path: Path) -> None:
    keys = Keys.new(tmp_path / "k", SERVER)
    keys.trust(DESK, new_pair().public, ENGINEER)
    file = keys.directory / TRUSTED_FILE
    file.write_text(file.read_text().replace("engineer", "auditor"))
    assert Keys.load(keys.directory).roles == {DESK: RoleGrant(AccessRole.VIEW, "root/north")}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["keys", *map(str, arguments)])


def told(*arguments: str | Path) -> dict[str, object]:
    """The one JSON line of a command that went well."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return msgspec.json.decode(result.stdout.splitlines()[-1], type=dict[str, object])


def test_the_whole_life_of_keys_by_command(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    made = told("new", SERVER, "--data", one)
    assert made == {"name": SERVER, "public": made["public"], "directory": str(one / "keys")}
    public = str(told("new", CLIENT, "--keys", two)["public"])
    assert told("trust", CLIENT, public, "--data", one) == {"name": CLIENT, "keys": [public]}
    following = told("rotate", "--keys", two)["next"]
    assert told("trust", CLIENT, str(following), "--data", one)["keys"] == [following, public]
    finished = told("rotate", "--finish", "--keys", two)
    assert finished == {"name": CLIENT, "public": following, "next": None, "gone": public}
    assert told("revoke", CLIENT, "--key", public, "--data", one)["keys"] == [following]
    listed = told("list", "--data", one)
    assert [listed["name"], listed["next"]] == [SERVER, None]
    assert msgspec.convert(listed["trusted"], list[dict[str, object]])[0]["public"] == following
    assert msgspec.convert(listed["revoked"], list[dict[str, object]])[0]["public"] == public
    secret = Keys.load(one / "keys").pair.secret
    assert secret not in run("list", "--data", one).output + json.dumps(listed)
    assert told("rotate", "--data", one)["next"] and told("rotate", "--cancel", "--data", one)["next"] is None


def test_a_role_is_given_with_the_key_and_shown(tmp_path: Path) -> None:
    keys, key = Keys.new(tmp_path / "k", SERVER), new_pair().public
    place = ("--keys", keys.directory)
    assert told("trust", DESK, key, "--role", "operate", "--node", "root/north", *place) == {
        "name": DESK,
        "keys": [key],
        "role": "operate",
        "node": "root/north",
    }
    listed = told("list", *place)["trusted"]
    assert isinstance(listed, list)
    assert (listed[0]["role"], listed[0]["node"]) == ("operate", "root/north")
    assert "operate at root/north" in run("list", *place).stdout
    assert told("trust", DESK, key, "--role", "admin", *place)["role"] == "admin"


def test_a_table_for_eyes_names_what_each_key_is(tmp_path: Path) -> None:
    keys, client = key_pair(tmp_path)
    keys.begin_rotation()
    lines = run("list", "--keys", keys.directory).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["what", "own", "own, next", "trusted"]
    assert client.public in lines[3]


def test_what_to_tell_the_other_side_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    """Out of a pipe too: the line is all of standard output, and talk is beside it."""
    place = tmp_path / "k"
    made = run("new", SERVER, "--keys", place)
    first = Keys.load(place).public
    assert made.stdout == f"albireo keys trust 'root[primary]' {first}\n"
    assert str(place) in made.stderr
    rotated = run("rotate", "--keys", place)
    following = Keys.load(place).own.next
    assert following is not None
    assert rotated.stdout == f"albireo keys trust 'root[primary]' {following.public}\n"
    assert "albireo keys rotate --finish" in rotated.stderr
    finished = run("rotate", "--finish", "--keys", place)
    assert finished.stdout == f"albireo keys revoke 'root[primary]' --key {first}\n"
    assert run("rotate", "--keys", place, "--json").stdout.count("\n") == 1


REFUSALS = [
    (("new", SERVER), 2, "name a place with --data DIR or --keys DIR"),
    (("new", "two words", "--keys", "K2"), 78, "is no name for a key"),
    (("new", "local:0", "--keys", "K2"), 78, "is no name for a key"),
    (("new", SERVER, "--keys", "K"), 78, "albireo keys rotate"),
    (("list", "--keys", "K", "--data", "D"), 2, "give one of them"),
    (("list", "--keys", "nowhere"), 78, "albireo keys new NAME"),
    (("list",), 2, "there are no keys in ./var"),
    (("trust", CLIENT, "abc", "--keys", "K"), 78, "64 hexadecimal digits"),
    (("trust", OTHER, "0" * 64, "--role", "admin", "--keys", "K"), 78, "leave --role out"),
    (("trust", DESK, "0" * 64, "--node", "root", "--keys", "K"), 2, "give both, or neither"),
    (("revoke", CLIENT, "--keys", "K"), 78, "albireo keys list"),
    (("rotate", "--finish", "--cancel", "--keys", "K"), 2, "exclude each other"),
    (("rotate", "--finish", "--keys", "K"), 78, "albireo keys rotate"),
]


@pytest.mark.parametrize(("arguments", "exit_code", "remedy"), REFUSALS)
def test_a_refusal_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], exit_code: int, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Keys.new(Path("K"), SERVER)
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code
    assert remedy in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["exit"] == exit_code


def test_the_only_keys_below_var_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Keys.new(Path("var/root/keys"), SERVER)
    assert told("list")["name"] == SERVER
    Keys.new(Path("var/w1/keys"), OTHER)
    assert run("list").exit_code == 2
