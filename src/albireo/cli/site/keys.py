"""`albireo keys`: who we are, whom we trust, whom no more."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from albireo.cli.display import role_text
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, say
from albireo.cli.site import introduce
from albireo.cli.site.key_place import check_role_said, loaded, place_options, place_said, told
from albireo.model.access import ROLE_WORDS, RoleGrant, role_from
from albireo.runtime import Keys
from albireo.runtime.link.key_files import KeyPair, KnownKey

NS: Final = 1_000_000_000


@click.group("keys")
def command() -> None:
    """Keys of a node, a witness or a client: every TCP link is encrypted, and both ends prove who they are.

    Each process has a pair of its own and trusts the public keys of the others by name: the names of the topology, such
    as root[primary] or witness:w1, and names of your choice for clients. A running node takes a change within a second.
    """


command.add_command(introduce.invite)
command.add_command(introduce.join)


@command.command("new")
@click.argument("name")
@place_options
@printed
def new(name: str, directory: Path | None, data: Path | None) -> Output:
    """Make a pair; NAME is how the others list it."""
    where = place_said(directory, data)
    with told():
        keys = Keys.new(where, name)
    say(f"Keys of {keys.name} are in {keys.directory}. Tell the other side:")
    value = {"name": keys.name, "public": keys.public, "directory": str(keys.directory)}
    return Output(value, f"albireo keys trust {shlex.quote(keys.name)} {keys.public}")


@command.command("list")
@place_options
@printed
def list_(directory: Path | None, data: Path | None) -> Output:
    """Our own public key, the trusted ones, the revoked ones."""
    keys = loaded(directory, data)
    own, following = keys.own.pair, keys.own.next
    trusted, revoked = keys.trust_list.trusted, keys.trust_list.revoked
    value = {
        "name": keys.name,
        "directory": str(keys.directory),
        "own": pair_of(own),
        "next": pair_of(following) if following else None,
        "trusted": [known_of(one) | role_of(keys, one.name) for one in trusted],
        "revoked": [known_of(one) for one in revoked],
    }
    rows = [("own", keys.name, own.public, day(own.made_ns), "")]
    rows += [("own, next", keys.name, one.public, day(one.made_ns), "") for one in (following,) if one]
    rows += [
        ("trusted", one.name, one.public, day(one.since_ns), role_text(**role_of(keys, one.name))) for one in trusted
    ]
    rows += [("revoked", one.name, one.public, day(one.since_ns), "") for one in revoked]
    return Output(value, TextTable(("what", "name", "public key", "since", "role"), rows))


@command.command("trust")
@click.argument("name")
@click.argument("public")
@click.option("--role", "word", type=click.Choice(ROLE_WORDS), default=None, help="What it may do; at first: view.")
@click.option("--node", default="", help="With --role: only at this node and below, such as root/north.")
@place_options
@printed
def trust(name: str, public: str, word: str | None, node: str, directory: Path | None, data: Path | None) -> Output:
    """Trust the key PUBLIC (64 hexadecimal digits) as NAME.

    A second key of the same name is the next one of a peer that rotates; it may use either. A program or a person may
    see everything and change nothing, unless it is given a role: operate, engineer or admin. Trust the key again to
    give another one; what `albireo access` has put on record counts before it.
    """
    check_role_said(word, node)
    role = role_from(word) if word is not None else None
    keys = loaded(directory, data)
    with told():
        keys.trust(name, public, None if role is None else RoleGrant(role, node))
    listed = keys.keys_of(name)
    value = {"name": name, "keys": listed, **role_of(keys, name)}
    return Output(value, f"{name} is trusted with {'this key' if len(listed) == 1 else 'two keys, the new one first'}.")


@command.command("revoke", short_help="Trust the keys of NAME no more, for ever.")
@click.argument("name")
@click.option("--key", "public", default="", help="Only this one of its keys, such as the old one after a rotation.")
@place_options
@printed
def revoke(name: str, public: str, directory: Path | None, data: Path | None) -> Output:
    """Trust the keys of NAME no more, for ever: its sessions end within a second."""
    keys = loaded(directory, data)
    with told():
        gone = keys.revoke(name, public)
    what = f"{len(gone)} key{'s' if len(gone) > 1 else ''} of {name}"
    value = {"name": name, "revoked": gone, "keys": keys.keys_of(name)}
    return Output(value, f"Revoked {what}. Do the same wherever it is trusted.")


@command.command("rotate")
@click.option("--finish", is_flag=True, help="The others trust the next key: use it, forget the old one.")
@click.option("--cancel", is_flag=True, help="Forget the next key, keep the one in use.")
@place_options
@printed
def rotate(finish: bool, cancel: bool, directory: Path | None, data: Path | None) -> Output:
    """Change our own key without a break.

    First `rotate` makes the next key; have everybody who trusts us trust that too; then `rotate --finish` uses it; at
    last the others revoke the old one.
    """
    if finish and cancel:
        raise Failure("--finish and --cancel exclude each other", "give one of them", ExitCode.USAGE)
    keys = loaded(directory, data)
    name = shlex.quote(keys.name)
    with told():
        if finish:
            old = keys.finish_rotation()
            say("The new key is in use. Where we are trusted:")
            there = f"albireo keys revoke {name} --key {old}"
        elif cancel:
            old = keys.cancel_rotation()
            say("The next key is gone. Where it was trusted:")
            there = f"albireo keys revoke {name} --key {old}"
        else:
            old = ""
            there = f"albireo keys trust {name} {keys.begin_rotation()}"
            say("The next key is made. When the line below was said where we are trusted: albireo keys rotate --finish")
    following = keys.own.next.public if keys.own.next else None
    return Output({"name": keys.name, "public": keys.public, "next": following, "gone": old or None}, there)


def day(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS, UTC).strftime("%Y-%m-%d %H:%M")


def pair_of(pair: KeyPair) -> dict[str, object]:
    """A pair without its secret."""
    return {"public": pair.public, "made_ns": pair.made_ns}


def known_of(one: KnownKey) -> dict[str, object]:
    return {"name": one.name, "public": one.public, "since_ns": one.since_ns}


def role_of(keys: Keys, name: str) -> dict[str, str]:
    """Role that the directory gives the holder of a key; nothing for members and witnesses."""
    grant = keys.roles.get(name)
    return {} if grant is None else {"role": grant.role.word, "node": grant.node}
